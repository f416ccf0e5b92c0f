//! Requests made from requests: with another key or time of expiry, to read an item, to store one.
//!
//! A derived request speaks the client's protocol where its reply goes to the client, and keeps the client's key for
//! replies that name it.

use protocol::base64::{self, KeyBuffer};
use protocol::client::Ttl;
use protocol::limits::KEY_LEN_MAX;
use protocol::request::SetMode;

use crate::message::changes::ExptimeChange;
use crate::message::key::RoutedKey;
use crate::message::operation::{Operation, OperationClass};
use crate::message::request::{RequestBody, RoutedRequest, StoredRequest};
use crate::servers::destination::ReplyKind;

use crate::flight::item::ReplyItem;

/// Beyond it, memcached takes a time of expiry for a moment since 1970.
const RELATIVE_EXPTIME_MAX_S: u64 = 30 * 24 * 3600;

/// Why a key that a route makes is not sent: mcrouter's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    Missing,
    TooLong,
}

impl NoKey {
    pub(crate) fn words(self) -> &'static str {
        match self {
            NoKey::Missing => "invalid key: missing",
            NoKey::TooLong => "invalid key: too long",
        }
    }
}

/// Writes to `out` the request with the key that `change` makes of its own. `false` if that stays as it is. A key in
/// base64 is changed as the bytes that it stands for.
pub(crate) fn with_key(
    message: &RoutedRequest<'_>,
    out: &mut StoredRequest,
    change: impl FnOnce(&RoutedKey<'_>, bool) -> Option<Vec<u8>>,
) -> Result<bool, NoKey> {
    let is_binary = is_binary(message);
    let mut buffer: KeyBuffer = [0; KEY_LEN_MAX];
    let decoded = if is_binary { base64::decode(message.key.full, &mut buffer) } else { None };
    let old = decoded.map_or(message.key, whole);
    let Some(mut full) = change(&old, is_binary) else { return Ok(false) };
    if is_binary && !full.is_empty() {
        let mut text = Vec::with_capacity(full.len().div_ceil(3) * 4);
        base64::encode(&mut text, &full);
        full = text;
    }
    let key = if is_binary { whole(&full) } else { RoutedKey::new(&full) };
    if key.bare().is_empty() {
        return Err(NoKey::Missing);
    }
    if full.len() > KEY_LEN_MAX {
        return Err(NoKey::TooLong);
    }
    out.store(&RoutedRequest { key, shown: message.client_key(), ..*message });
    Ok(true)
}

/// A key without parts.
fn whole(full: &[u8]) -> RoutedKey<'_> {
    RoutedKey { full, prefix_len: 0, routing_len: full.len() }
}

/// Whether the key is in base64: the flag `b` of a meta request.
pub(crate) fn is_binary(message: &RoutedRequest<'_>) -> bool {
    message.operation.is_meta() && flags(message).any(|word| word[0] == b'b')
}

/// The flags of a meta request, each with its argument. For `ms`, the length comes first.
pub(crate) fn flags<'a>(message: &RoutedRequest<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    message.after.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

pub(crate) fn has_flag(message: &RoutedRequest<'_>, letter: u8) -> bool {
    flags(message).any(|word| word[0] == letter)
}

/// Writes to `out` the request with another time of expiry. `false` if it has none, or if that stays as it is.
pub(crate) fn with_exptime(
    message: &RoutedRequest<'_>,
    change: ExptimeChange,
    out: &mut StoredRequest,
) -> bool {
    use Operation::{Gat, Gats, MetaArithmetic, MetaGet, MetaSet};
    let word = |text, place| change_word(text, place, |word| number(word).and_then(|old| change.apply(old)));
    let changed = match message.operation {
        Gat | Gats => {
            let Some(before) = word(message.before, 1) else { return false };
            out.store(&RoutedRequest { before: &before, ..*message });
            return true;
        }
        MetaSet(_) if !has_flag(message, b'T') => {
            change.apply(0).map(|new| [message.after, format!(" T{new}").as_bytes()].concat())
        }
        MetaSet(_) | MetaGet | MetaArithmetic(_) => change_flags(message.after, change),
        operation if operation.class() == OperationClass::Update => word(message.after, 1),
        Operation::Touch => word(message.after, 0),
        _ => None,
    };
    let Some(after) = changed else { return false };
    out.store(&RoutedRequest { after: &after, ..*message });
    true
}

/// The time of expiry that a `gat`, or an `mg` with `T`, gives to the item.
pub(crate) fn exptime(message: &RoutedRequest<'_>) -> Option<i64> {
    match message.operation {
        Operation::Gat | Operation::Gats => {
            message.before.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).nth(1).and_then(number)
        }
        Operation::MetaGet => flags(message).find(|word| word[0] == b'T').and_then(|word| number(&word[1..])),
        _ => None,
    }
}

fn number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The text with its word at `place` changed; `None` if that stays as it is.
fn change_word(text: &[u8], place: usize, change: impl FnOnce(&[u8]) -> Option<i64>) -> Option<Vec<u8>> {
    let is_word = |byte: &u8| !byte.is_ascii_whitespace();
    let mut words = text.split(|byte| !is_word(byte)).filter(|word| !word.is_empty());
    let word = words.nth(place)?;
    let start = word.as_ptr() as usize - text.as_ptr() as usize;
    let new = change(word)?.to_string();
    Some([&text[..start], new.as_bytes(), &text[start + word.len()..]].concat())
}

/// Flags with other arguments of `T` and `N`: the times that items get, also those that `mg` and `ma` make on a miss.
fn change_flags(after: &[u8], change: ExptimeChange) -> Option<Vec<u8>> {
    let mut is_changed = false;
    let mut out = Vec::with_capacity(after.len() + 16);
    for word in after.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
        out.push(b' ');
        let new = match word[0] {
            b'T' | b'N' => number(&word[1..]).and_then(|old| change.apply(old)),
            _ => None,
        };
        match new {
            Some(new) => {
                is_changed = true;
                out.push(word[0]);
                out.extend_from_slice(new.to_string().as_bytes());
            }
            None => out.extend_from_slice(word),
        }
    }
    is_changed.then_some(out)
}

/// Whether it reads an item and does nothing else: an `mg` whose other flags only say what the reply repeats.
pub(crate) fn is_plain_read(message: &RoutedRequest<'_>) -> bool {
    match message.operation {
        Operation::Get | Operation::MetaDebug => true,
        Operation::MetaGet => flags(message).all(|word| b"vftksqObhl".contains(&word[0])),
        _ => false,
    }
}

/// A request for an item's value and flags, and its time to live if `with_ttl`, whatever the client's request asks for.
pub(crate) fn fetch(message: &RoutedRequest<'_>, with_ttl: bool) -> StoredRequest {
    let mut out = StoredRequest::default();
    let is_meta = message.operation.is_meta();
    let common = RoutedRequest { opaque: b"", body: RequestBody::None, ..*message };
    if !is_meta && !with_ttl {
        let (operation, expected) = (Operation::Get, ReplyKind::Values);
        out.store(&RoutedRequest { operation, expected, before: b"get ", after: b"\r\n", ..common });
        return out;
    }
    let expected = ReplyKind::Meta { strip: true, quiet: false };
    let after =
        [if is_binary(message) { &b" b"[..] } else { b"" }, b" v f", if with_ttl { b" t" } else { b"" }];
    let after = after.concat();
    out.store(&RoutedRequest {
        operation: Operation::MetaGet,
        expected,
        before: b"mg ",
        after: &after,
        ..common
    });
    out
}

/// The client's `mg` with these flags besides its own; `None` if it has them all.
pub(crate) fn with_flags(message: &RoutedRequest<'_>, letters: &[u8]) -> Option<StoredRequest> {
    let mut after = message.after.to_vec();
    for letter in letters.iter().filter(|letter| !has_flag(message, **letter)) {
        after.extend_from_slice(&[b' ', *letter]);
    }
    if after.len() == message.after.len() {
        return None;
    }
    let mut out = StoredRequest::default();
    out.store(&RoutedRequest { after: &after, ..*message });
    Some(out)
}

/// What is stored in place of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredItem<'r> {
    /// Only if there is no such item yet.
    pub(crate) is_new: bool,
    pub(crate) flags: u64,
    pub(crate) exptime: i64,
    /// Length of the value.
    pub(crate) len: usize,
    /// The value with its line end, or as a reply holds it.
    pub(crate) body: RequestBody<'r>,
}

impl<'r> StoredItem<'r> {
    /// The item of a reply.
    pub(crate) fn item(item: &ReplyItem<'r>, exptime: i64) -> StoredItem<'r> {
        StoredItem { is_new: true, flags: item.flags, exptime, len: item.len, body: item.body }
    }
}

/// A request that stores an item under the key of the client's request.
pub(crate) fn store(message: &RoutedRequest<'_>, stored: &StoredItem<'_>) -> StoredRequest {
    let StoredItem { is_new, flags, exptime, len, body } = *stored;
    let mut out = StoredRequest::default();
    let common = RoutedRequest { opaque: b"", body, ..*message };
    if message.operation.is_meta() {
        let binary = if is_binary(message) { " b" } else { "" };
        let mode = if is_new { " ME" } else { "" };
        out.store(&RoutedRequest {
            operation: Operation::MetaSet(if is_new { SetMode::Add } else { SetMode::Set }),
            expected: ReplyKind::Meta { strip: true, quiet: false },
            before: b"ms ",
            after: format!(" {len}{binary} F{flags} T{exptime}{mode}").as_bytes(),
            ..common
        });
    } else {
        out.store(&RoutedRequest {
            operation: if is_new { Operation::Add } else { Operation::Set },
            expected: ReplyKind::Line,
            before: if is_new { b"add " } else { b"set " },
            after: format!(" {flags} {exptime} {len}\r\n").as_bytes(),
            ..common
        });
    }
    out
}

/// A request that only looks whether there is an item, and counts as its use.
pub(crate) fn look(message: &RoutedRequest<'_>) -> StoredRequest {
    let mut out = StoredRequest::default();
    out.store(&RoutedRequest {
        operation: Operation::MetaGet,
        expected: ReplyKind::Meta { strip: true, quiet: false },
        before: b"mg ",
        after: if is_binary(message) { b" b" } else { b"" },
        opaque: b"",
        body: RequestBody::None,
        ..*message
    });
    out
}

/// What a `set`, a `cas` or an `ms` stores, without its conditions.
pub(crate) fn stored_by<'r>(message: &RoutedRequest<'r>) -> Option<StoredItem<'r>> {
    let words: Vec<&[u8]> = message.after.trim_ascii_end().split(|byte| *byte == b' ').collect();
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let unsigned = |word: &[u8]| u64::try_from(number(word)?).ok();
    let (flags, exptime, len) = if message.operation.is_meta() {
        let argument =
            |letter| flags(message).find(|word| word[0] == letter).map_or(Some(0), |word| number(&word[1..]));
        (u64::try_from(argument(b'F')?).ok()?, argument(b'T')?, unsigned(words.next()?)?)
    } else {
        (unsigned(words.next()?)?, number(words.next()?)?, unsigned(words.next()?)?)
    };
    Some(StoredItem { is_new: false, flags, exptime, len: len as usize, body: message.body })
}

/// The client's storage command with these flags, and this value (with its line end) in place of its own.
pub(crate) fn with_value(message: &RoutedRequest<'_>, flags_now: u64, body: &[u8]) -> StoredRequest {
    let len = body.len() - 2;
    let mut after = Vec::with_capacity(message.after.len() + 16);
    if message.operation.is_meta() {
        after.extend_from_slice(format!(" {len} F{flags_now}").as_bytes());
        for word in flags(message).skip(1).filter(|word| word[0] != b'F') {
            after.push(b' ');
            after.extend_from_slice(word);
        }
    } else {
        let mut words =
            message.after.trim_ascii().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let exptime = words.nth(1).unwrap_or(b"0");
        after.extend_from_slice(
            &[format!(" {flags_now} ").as_bytes(), exptime, format!(" {len}").as_bytes()].concat(),
        );
        // The CAS.
        for word in words.skip(1) {
            after.push(b' ');
            after.extend_from_slice(word);
        }
        after.extend_from_slice(b"\r\n");
    }
    let mut out = StoredRequest::default();
    out.store(&RoutedRequest { after: &after, body: RequestBody::Bytes(body), ..*message });
    out
}

/// The value of a storage command, without its line end.
pub(crate) fn value_of<'r>(message: &RoutedRequest<'r>) -> Option<&'r [u8]> {
    match message.body {
        RequestBody::Bytes(bytes) => bytes.strip_suffix(b"\r\n"),
        RequestBody::Held(held) => held.strip_suffix(b"\r\n"),
        RequestBody::HeldValue(held) => Some(held),
        RequestBody::None => None,
    }
}

/// The time of expiry that lets a copy end with its original; `None` for one that is about to end.
pub(crate) fn exptime_of(ttl: Ttl, unix_s: i64) -> Option<i64> {
    match ttl {
        Ttl::Forever => Some(0),
        Ttl::Seconds(0) => None,
        Ttl::Seconds(seconds) if seconds <= RELATIVE_EXPTIME_MAX_S => Some(seconds as i64),
        Ttl::Seconds(seconds) if unix_s > 0 => Some(unix_s.saturating_add(i64::try_from(seconds).ok()?)),
        Ttl::Seconds(_) => Some(RELATIVE_EXPTIME_MAX_S as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_ends_with_its_original() {
        let now = 1_700_000_000;
        assert_eq!(exptime_of(Ttl::Forever, now), Some(0));
        assert_eq!(exptime_of(Ttl::Seconds(0), now), None);
        assert_eq!(exptime_of(Ttl::Seconds(60), now), Some(60));
        assert_eq!(exptime_of(Ttl::Seconds(2_592_000), now), Some(2_592_000));
        assert_eq!(exptime_of(Ttl::Seconds(2_592_001), now), Some(now + 2_592_001));
        assert_eq!(exptime_of(Ttl::Seconds(2_592_001), 0), Some(2_592_000), "while the time is not known");
        assert_eq!(exptime_of(Ttl::Seconds(u64::MAX), now), None);
    }
}
