//! Requests on their way to servers: what is sent, and what the reply must be.

use std::sync::Arc;

use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::servers::destination::ReplyKind;

/// The end of a line, and of a value.
pub(crate) const LINE_END: &[u8] = b"\r\n";

/// A request about one key: parts of the client's input, in the order in which they are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoutedRequest<'a> {
    pub(crate) operation: Operation,
    pub(crate) expected: ReplyKind,
    /// The command, and everything up to the key.
    pub(crate) before: &'a [u8],
    pub(crate) key: RoutedKey<'a>,
    /// The key that replies to the client name, if a route has changed the key.
    pub(crate) shown: &'a [u8],
    /// The rest of the line. With its line end, except for a meta request.
    pub(crate) after: &'a [u8],
    /// The argument of a meta request's flag `O`.
    pub(crate) opaque: &'a [u8],
    pub(crate) body: RequestBody<'a>,
}

/// A line without its end, and without the spaces before that. Other white space belongs to the last word: servers repeat it
/// as a part of an opaque.
#[inline]
pub(crate) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    while let [rest @ .., b' '] = line {
        line = rest;
    }
    line
}

/// Where `part` begins, which is a part of `whole`.
#[inline]
pub(crate) fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// What is before and after a key of a line.
#[inline]
pub(crate) fn around<'i>(line: &'i [u8], key: &[u8]) -> (&'i [u8], &'i [u8]) {
    let start = offset(line, key);
    (&line[..start], &line[start + key.len()..])
}

impl<'a> RoutedRequest<'a> {
    /// The key as the client wrote it.
    pub(crate) fn client_key(&self) -> &'a [u8] {
        if self.shown.is_empty() { self.key.full } else { self.shown }
    }

    /// The key that a server gets, and the one that the client wrote if that is another.
    #[inline]
    pub(crate) fn sent_keys(&self, keep_prefix: bool) -> (&'a [u8], &'a [u8]) {
        let key = if keep_prefix { self.key.full } else { self.key.bare() };
        let shown = match self.shown {
            [] if keep_prefix || self.key.prefix_len == 0 => &b""[..],
            [] => self.key.full,
            shown => shown,
        };
        (key, shown)
    }
}

/// The value, with its line end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestBody<'a> {
    None,
    Bytes(&'a [u8]),
    Held(&'a Arc<[u8]>),
    /// A value of a server's reply, which is held without its line end.
    HeldValue(&'a Arc<[u8]>),
}

/// A request that may be sent several times.
///
/// It is moved in and out of slabs for each request of a flight, so it is small.
#[derive(Debug, Default)]
pub(crate) struct StoredRequest {
    /// Everything but a held body: the parts one behind the other.
    bytes: Vec<u8>,
    parts: Option<Parts>,
    held: Option<Arc<[u8]>>,
    /// `held` has no line end.
    held_is_value: bool,
}

/// Where the parts of a message end, in their order. What is stored is bounded by the longest value.
#[derive(Debug)]
struct Parts {
    operation: Operation,
    expected: ReplyKind,
    /// Lengths of parts of the key, which is bounded by 250 bytes and a routing prefix's.
    prefix_len: u16,
    routing_len: u16,
    before: u32,
    key: u32,
    after: u32,
    shown: u32,
    /// The body follows, up to the end; empty for none.
    opaque: u32,
}

impl StoredRequest {
    /// Copies `message`; a held body is held.
    pub(crate) fn store(&mut self, message: &RoutedRequest<'_>) {
        self.clear();
        let mut add = |bytes: &[u8]| {
            self.bytes.extend_from_slice(bytes);
            self.bytes.len() as u32
        };
        let (before, key, after) = (add(message.before), add(message.key.full), add(message.after));
        let (shown, opaque) = (add(message.shown), add(message.opaque));
        if let RequestBody::Bytes(bytes) = message.body {
            add(bytes);
        }
        let RoutedRequest { operation, expected, key: RoutedKey { prefix_len, routing_len, .. }, .. } =
            *message;
        let (prefix_len, routing_len) = (prefix_len as u16, routing_len as u16);
        self.parts =
            Some(Parts { operation, expected, prefix_len, routing_len, before, key, after, shown, opaque });
        self.held = match message.body {
            RequestBody::Held(held) | RequestBody::HeldValue(held) => Some(Arc::clone(held)),
            _ => None,
        };
        self.held_is_value = matches!(message.body, RequestBody::HeldValue(_));
    }

    /// Bytes of memory that it keeps, held ones included.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.held.as_ref().map_or(0, |held| held.len())
    }

    /// Forgets the request, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.parts, self.held) = (None, None);
    }

    /// Bytes that it keeps.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.held.as_ref().map_or(0, |held| held.len())
    }

    #[inline]
    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("a request is stored")
    }

    #[inline]
    fn part(&self, start: u32, end: u32) -> &[u8] {
        &self.bytes[start as usize..end as usize]
    }

    #[inline]
    pub(crate) fn operation(&self) -> Operation {
        self.parts().operation
    }

    #[inline]
    pub(crate) fn key(&self) -> RoutedKey<'_> {
        let Parts { before, key, prefix_len, routing_len, .. } = *self.parts();
        RoutedKey {
            full: self.part(before, key),
            prefix_len: prefix_len.into(),
            routing_len: routing_len.into(),
        }
    }

    pub(crate) fn message(&self) -> RoutedRequest<'_> {
        let Parts { operation, expected, before, key, after, shown, opaque, .. } = *self.parts();
        let body = &self.bytes[opaque as usize..];
        RoutedRequest {
            operation,
            expected,
            before: self.part(0, before),
            key: self.key(),
            shown: self.part(after, shown),
            after: self.part(key, after),
            opaque: self.part(shown, opaque),
            body: match &self.held {
                Some(held) if self.held_is_value => RequestBody::HeldValue(held),
                Some(held) => RequestBody::Held(held),
                None if body.is_empty() => RequestBody::None,
                None => RequestBody::Bytes(body),
            },
        }
    }
}
