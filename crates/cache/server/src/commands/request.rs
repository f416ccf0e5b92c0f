//! Parts of a request: key, body, and names of commands.

use protocol::Request;
use protocol::base64::KeyBuffer;
use protocol::limits::KEY_LEN_MAX;
use protocol::request::{ArithmeticMode, Verb};
use store::{Direction, NewValue};

/// Room for a key that came in base64.
pub(crate) const KEY_BUFFER: KeyBuffer = [0; KEY_LEN_MAX];

/// `\r\n` ends every body.
pub(crate) const LINE_END_LEN: usize = 2;

/// The body of a storage command.
pub(crate) enum Body<'b> {
    /// With its line end.
    Bytes(&'b [u8]),
    /// Without its line end, which was as it must be.
    Value(NewValue<'b>),
    /// Something else than a line end stood behind the value.
    BadEnd,
}

impl<'b> Body<'b> {
    /// The value; `None` if something else than a line end stands behind it.
    #[inline]
    pub(crate) fn into_value(self) -> Option<NewValue<'b>> {
        match self {
            Body::Bytes(bytes) => bytes.strip_suffix(b"\r\n").map(NewValue::Bytes),
            Body::Value(value) => Some(value),
            Body::BadEnd => None,
        }
    }
}

/// Length of the body after this head, its line end included.
#[inline]
pub(crate) fn body_len(request: &Request<'_>) -> usize {
    match request {
        Request::Store(store) => store.len + LINE_END_LEN,
        Request::MetaSet { len, .. } => len + LINE_END_LEN,
        _ => 0,
    }
}

/// The key of a request, if it has exactly one that is not in base64.
#[inline]
pub(crate) fn text_key<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    match request {
        Request::Get(get) => get.keys.only()?.ok().map(|key| key.as_bytes()),
        Request::Store(store) => Some(store.key.as_bytes()),
        Request::MetaGet { key, .. }
        | Request::MetaSet { key, .. }
        | Request::MetaDelete { key, .. }
        | Request::MetaArithmetic { key, .. } => (!key.is_binary()).then(|| key.as_written()),
        Request::Delete { key, .. } | Request::Arithmetic { key, .. } | Request::Touch { key, .. } => {
            Some(key.as_bytes())
        }
        _ => None,
    }
}

#[inline]
pub(crate) fn direction(mode: ArithmeticMode) -> Direction {
    match mode {
        ArithmeticMode::Increment => Direction::Increment,
        ArithmeticMode::Decrement => Direction::Decrement,
    }
}

#[inline]
pub(crate) fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Set => "set",
        Verb::Add => "add",
        Verb::Replace => "replace",
        Verb::Append => "append",
        Verb::Prepend => "prepend",
        Verb::Cas(_) => "cas",
    }
}
