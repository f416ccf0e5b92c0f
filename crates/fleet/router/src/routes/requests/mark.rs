//! Marks that stand for large values, which are elsewhere.

use protocol::client::{Line, Parsed, parse};

use crate::client::ReplyBytes;
use crate::flight::item::{ReplyItem, flags_of};
use crate::message::request::RequestBody;

/// mcrouter's mark of such an item, among the client's flags.
pub(crate) const MARK_FLAG: u64 = 0x20;

/// What stands for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LargeMark {
    /// The number in the key of the value, if it has one: the value of the mark.
    pub(crate) number: Option<u64>,
    /// Of the mark, if the request asked for it.
    pub(crate) cas: Option<u64>,
}

impl LargeMark {
    /// The mark in a reply. Other values whose flags have that bit, too, are none: they become no part of a key.
    pub(crate) fn of(answer: &ReplyBytes<'_>) -> Option<LargeMark> {
        if flags_of(answer)? & MARK_FLAG == 0 {
            return None;
        }
        let number = match ReplyItem::of(answer) {
            Some(ReplyItem { len: 0, .. }) | None => None,
            Some(ReplyItem { body: RequestBody::Bytes(body), .. }) => {
                Some(number(body.strip_suffix(b"\r\n")?)?)
            }
            Some(_) => return None,
        };
        Some(LargeMark { number, cas: cas_of(answer) })
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // Written as mcrouter writes it: no sign, no zeros before it.
    (number.to_string().as_bytes() == text).then_some(number)
}

fn cas_of(answer: &ReplyBytes<'_>) -> Option<u64> {
    let bytes = match answer {
        ReplyBytes::Copied(bytes) => bytes,
        ReplyBytes::Gathered(gathered) => gathered.front(),
    };
    match parse(bytes) {
        Ok(Parsed::Head { line: Line::Value(value), .. }) => value.cas,
        Ok(Parsed::Head { line: Line::MetaValue { flags, .. } | Line::Header(flags), .. }) => {
            flags.read().ok()?.cas
        }
        _ => None,
    }
}
