//! Requests on their way to servers: what is sent, and what the reply must be.

use std::ops::Range;
use std::sync::Arc;

use crate::destination::ReplyKind;
use crate::key::RoutedKey;
use crate::operation::Operation;

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

impl<'a> RoutedRequest<'a> {
    /// The key as the client wrote it.
    pub(crate) fn client_key(&self) -> &'a [u8] {
        if self.shown.is_empty() { self.key.full } else { self.shown }
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
#[derive(Debug, Default)]
pub(crate) struct StoredRequest {
    /// Everything but a held body.
    bytes: Vec<u8>,
    parts: Option<Parts>,
    held: Option<Arc<[u8]>>,
    /// `held` has no line end.
    held_is_value: bool,
}

/// Where the parts of a message stand.
#[derive(Debug)]
struct Parts {
    operation: Operation,
    expected: ReplyKind,
    before: Range<usize>,
    key: Range<usize>,
    shown: Range<usize>,
    prefix_len: usize,
    routing_len: usize,
    after: Range<usize>,
    opaque: Range<usize>,
    /// Empty for none.
    body: Range<usize>,
}

impl StoredRequest {
    /// Copies `message`; a held body is held.
    pub(crate) fn store(&mut self, message: &RoutedRequest<'_>) {
        self.clear();
        let mut add = |bytes: &[u8]| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            start..self.bytes.len()
        };
        let (before, key, after) = (add(message.before), add(message.key.full), add(message.after));
        let (shown, opaque) = (add(message.shown), add(message.opaque));
        let body = match message.body {
            RequestBody::Bytes(bytes) => add(bytes),
            RequestBody::None | RequestBody::Held(_) | RequestBody::HeldValue(_) => add(b""),
        };
        let RoutedRequest { operation, expected, key: RoutedKey { prefix_len, routing_len, .. }, .. } =
            *message;
        self.parts = Some(Parts {
            operation,
            expected,
            before,
            key,
            shown,
            prefix_len,
            routing_len,
            after,
            opaque,
            body,
        });
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

    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("a request is stored")
    }

    pub(crate) fn key(&self) -> RoutedKey<'_> {
        let Parts { key, prefix_len, routing_len, .. } = self.parts();
        RoutedKey { full: &self.bytes[key.clone()], prefix_len: *prefix_len, routing_len: *routing_len }
    }

    pub(crate) fn message(&self) -> RoutedRequest<'_> {
        let parts = self.parts();
        RoutedRequest {
            operation: parts.operation,
            expected: parts.expected,
            before: &self.bytes[parts.before.clone()],
            key: self.key(),
            shown: &self.bytes[parts.shown.clone()],
            after: &self.bytes[parts.after.clone()],
            opaque: &self.bytes[parts.opaque.clone()],
            body: match (&self.held, parts.body.is_empty()) {
                (Some(held), _) if self.held_is_value => RequestBody::HeldValue(held),
                (Some(held), _) => RequestBody::Held(held),
                (None, false) => RequestBody::Bytes(&self.bytes[parts.body.clone()]),
                (None, true) => RequestBody::None,
            },
        }
    }
}
