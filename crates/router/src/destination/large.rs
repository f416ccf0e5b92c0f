//! Replies with values that do not fit the network's buffers: received into memory of their own, and held.

use std::sync::Arc;

use crate::buffer::BodyBuffer;
use crate::client::HeldOutput;

/// A large reply.
#[derive(Debug)]
pub(crate) struct LargeReply {
    /// The line as the client gets it.
    head: Vec<u8>,
    /// The value, and what must follow it.
    pub(crate) body: BodyBuffer,
    end: &'static [u8],
    /// Its exchange is complete with it.
    pub(crate) is_last: bool,
}

impl LargeReply {
    /// A value of `value_len` bytes, which `end` follows.
    pub(crate) fn new(head: &[u8], value_len: usize, end: &'static [u8], is_last: bool) -> LargeReply {
        LargeReply { head: head.to_vec(), body: BodyBuffer::new(value_len + end.len()), end, is_last }
    }

    /// The reply; `None` if something else follows the value.
    pub(crate) fn into_output(self) -> Option<HeldOutput> {
        let bytes = self.body.into_bytes();
        let value = bytes.strip_suffix(self.end)?;
        let mut output = HeldOutput::default();
        output.copy(&self.head);
        output.hold(Arc::from(value));
        output.copy(self.end);
        Some(output)
    }
}
