//! Output of a connection: small values are copied, large ones are sent without a copy.

use std::sync::Arc;

use stdx::gather::Gather;
use store::{LargeValue, Value};

/// Output of a connection.
pub(crate) type Output = Gather<Held>;

/// A connection with this many bytes of pending output is served again only after they are sent: so a client
/// that does not read holds this much, and at most one reply more.
pub(crate) const OUTPUT_MAX: usize = 64 * 1024;

/// A reference to a large value that keeps it in memory until it is sent.
pub struct Held(Arc<LargeValue>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// Sends a fixed line, unless the request has `noreply`.
#[inline]
pub(crate) fn say(output: &mut Output, noreply: bool, reply: &[u8]) {
    if !noreply {
        output.copy(reply);
    }
}

/// Sends a value and its line end.
#[inline]
pub(crate) fn put(value: Value<'_>, output: &mut Output) {
    put_value(value, output);
    output.copy(b"\r\n");
}

/// Sends a value: copies a small one, holds a large one.
#[inline]
pub(crate) fn put_value(value: Value<'_>, output: &mut Output) {
    match value {
        Value::Inline(bytes) => output.copy(bytes),
        Value::Large(large) => output.hold(Held(large.clone())),
    }
}
