//! Items in replies: what a server sent as the reply to a `get` or an `mg`, taken apart to be stored elsewhere.

use protocol::client::{Line, Parsed, Ttl, parse};

use super::reply::FlightReply;
use crate::client::{HeldOutput, ReplyBytes};
use crate::message::request::RequestBody;

/// An item of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyItem<'r> {
    /// The client's flags; 0 where the reply does not say.
    pub(crate) flags: u64,
    /// Time to live, if the request asked for it.
    pub(crate) ttl: Option<Ttl>,
    /// Marked as stale: to be replaced, not to be kept.
    pub(crate) is_stale: bool,
    pub(crate) len: usize,
    pub(crate) body: RequestBody<'r>,
    /// The line before the value, without its line end.
    pub(crate) line: Line<'r>,
}

impl<'r> ReplyItem<'r> {
    /// The item of a reply with a value; `None` for any other reply, and for a value that is not [`in_one_piece`].
    pub(crate) fn of(answer: &'r ReplyBytes<'_>) -> Option<ReplyItem<'r>> {
        let (bytes, held) = match answer {
            ReplyBytes::Copied(bytes) => (*bytes, None),
            ReplyBytes::Gathered(gathered) => (gathered.front(), gathered.held().next()),
        };
        let Ok(Parsed::Head { line, consumed, .. }) = parse(bytes) else { return None };
        let len = line.body()?;
        let body = match held {
            Some(held) if held.len() == len => RequestBody::HeldValue(held),
            Some(_) => return None,
            // With its line end, which was checked when the reply was read.
            None => RequestBody::Bytes(bytes.get(consumed..consumed + len + 2)?),
        };
        let (flags, ttl, is_stale) = match line {
            Line::Value(value) => (value.flags, None, false),
            Line::MetaValue { flags, .. } => {
                let facts = flags.read().ok()?;
                (facts.flags.unwrap_or(0), facts.ttl, facts.stale)
            }
            _ => return None,
        };
        Some(ReplyItem { flags, ttl, is_stale, len, body, line })
    }

    /// The value without its line end.
    pub(crate) fn to_value(self) -> HeldOutput {
        let mut output = HeldOutput::default();
        match self.body {
            RequestBody::Bytes(bytes) => output.copy(&bytes[..self.len]),
            RequestBody::HeldValue(held) => output.hold(std::sync::Arc::clone(held)),
            RequestBody::None | RequestBody::Held(_) => {}
        }
        output
    }

    /// Appends the value with its line end.
    pub(crate) fn write_body(&self, output: &mut HeldOutput) {
        match self.body {
            RequestBody::Bytes(bytes) => output.copy(bytes),
            RequestBody::HeldValue(held) => {
                output.hold(std::sync::Arc::clone(held));
                output.copy(b"\r\n");
            }
            RequestBody::None | RequestBody::Held(_) => {}
        }
    }
}

/// The reply with its value in one piece, as [`ReplyItem`] has it. Only a BigValueRoute answers with a value in several.
pub(crate) fn in_one_piece(reply: FlightReply<'_>) -> FlightReply<'_> {
    let ReplyBytes::Gathered(gathered) = &reply.answer else { return reply };
    let Some(first) = gathered.held().next() else { return reply };
    let Ok(Parsed::Head { line, consumed, .. }) = parse(gathered.front()) else { return reply };
    let Some(len) = line.body().filter(|len| *len != first.len()) else { return reply };
    let bytes = gathered.to_vec();
    let mut output = HeldOutput::default();
    output.copy(&bytes[..consumed]);
    output.hold(bytes[consumed..consumed + len].into());
    output.copy(&bytes[consumed + len..]);
    FlightReply { answer: ReplyBytes::Gathered(output), ..reply }
}

/// The client's flags of the item that a reply is about, also where it comes without its value.
pub(crate) fn flags_of(answer: &ReplyBytes<'_>) -> Option<u64> {
    let bytes = match answer {
        ReplyBytes::Copied(bytes) => bytes,
        ReplyBytes::Gathered(gathered) => gathered.front(),
    };
    match parse(bytes) {
        Ok(Parsed::Head { line: Line::Value(value), .. }) => Some(value.flags),
        Ok(Parsed::Head { line: Line::MetaValue { flags, .. } | Line::Header(flags), .. }) => {
            flags.read().ok()?.flags
        }
        _ => None,
    }
}
