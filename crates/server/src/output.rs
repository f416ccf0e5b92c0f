//! Output of a connection: small values are copied, large ones are sent from where they lie.

use std::sync::Arc;

use stdx::gather::Gather;
use store::{LargeValue, Value};

/// Output of a connection.
pub(crate) type Output = Gather<Held>;

/// A connection whose waiting output has reached this many bytes is served again only after it was sent: so a
/// client that asks for much and reads little holds this much, and at most one reply more.
pub(crate) const OUTPUT_MAX: usize = 64 * 1024;

/// What keeps a large value in place until it has been sent.
pub struct Held(Arc<LargeValue>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// Sends a fixed line, unless the client asked for silence.
#[inline]
pub(crate) fn say(output: &mut Output, noreply: bool, reply: &[u8]) {
    if !noreply {
        output.copy(reply);
    }
}

/// Sends a value and its line end: copies a small one, holds a large one where it lies.
#[inline]
pub(crate) fn put(value: Value<'_>, output: &mut Output) {
    match value {
        Value::Inline(bytes) => output.copy(bytes),
        Value::Large(large) => output.hold(Held(large.clone())),
    }
    output.copy(b"\r\n");
}
