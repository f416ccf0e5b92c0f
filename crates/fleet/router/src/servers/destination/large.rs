//! Replies with values that do not fit the network's buffers: received into memory of their own, and held.

use std::sync::Arc;

use protocol::reply::line::OUT_OF_MEMORY_READING;

use crate::client::HeldOutput;
use crate::message::buffer::BodyBuffer;

/// A large reply.
#[derive(Debug)]
pub(crate) struct LargeReply {
    /// The line as the client gets it.
    head: Vec<u8>,
    /// Bytes of the value that are dropped as they come: it was refused.
    to_drop: usize,
    /// The value, and what must follow it; only the latter if the value was refused.
    body: BodyBuffer,
    end: &'static [u8],
    /// Its exchange is complete with it.
    pub(crate) is_last: bool,
    pub(crate) is_refused: bool,
}

impl LargeReply {
    /// A value of `value_len` bytes, which `end` follows.
    pub(crate) fn new(head: &[u8], value_len: usize, end: &'static [u8], is_last: bool) -> LargeReply {
        let body = BodyBuffer::new(value_len + end.len());
        LargeReply { head: head.to_vec(), to_drop: 0, body, end, is_last, is_refused: false }
    }

    /// Takes bytes from the front of `input`. Returns how many.
    pub(crate) fn fill(&mut self, input: &[u8]) -> usize {
        let dropped = self.to_drop.min(input.len());
        self.to_drop -= dropped;
        dropped + self.body.fill(&input[dropped..])
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.to_drop == 0 && self.body.is_whole()
    }

    /// Bytes of memory.
    pub(crate) fn held(&self) -> usize {
        self.body.held()
    }

    /// Drops the value, what has arrived of it and what follows: the reply becomes an error. Returns the bytes of memory that
    /// this frees.
    pub(crate) fn refuse(&mut self) -> usize {
        let value_len = self.body.len() - self.end.len();
        let arrived = self.body.bytes().len();
        if self.is_refused || arrived >= value_len {
            return 0;
        }
        let freed = self.held();
        (self.to_drop, self.is_refused) = (value_len - arrived, true);
        self.body = BodyBuffer::new(self.end.len());
        freed
    }

    /// The reply; `None` if something else follows the value.
    pub(crate) fn into_output(self) -> Option<HeldOutput> {
        let bytes = self.body.into_bytes();
        let value = bytes.strip_suffix(self.end)?;
        let mut output = HeldOutput::default();
        if self.is_refused {
            output.copy(OUT_OF_MEMORY_READING);
            return Some(output);
        }
        output.copy(&self.head);
        output.hold(Arc::from(value));
        output.copy(self.end);
        Some(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_value_becomes_an_error_and_takes_no_more_memory() {
        let mut large = LargeReply::new(b"VALUE k 0 200000\r\n", 200_000, b"\r\nEND\r\n", true);
        assert_eq!(large.fill(&[b'v'; 150_000]), 150_000);
        assert!(large.refuse() >= 150_000 && large.refuse() == 0);
        assert_eq!(large.fill(&[b'v'; 50_000]), 50_000);
        assert!(!large.is_whole() && large.held() == 0);
        assert_eq!(large.fill(b"\r\nEND\r\nVALUE"), 7);
        assert!(large.is_whole());
        assert_eq!(large.into_output().expect("an answer").to_vec(), OUT_OF_MEMORY_READING);
    }

    #[test]
    fn a_refused_value_must_end_as_others_do() {
        let mut large = LargeReply::new(b"VALUE k 0 200000\r\n", 200_000, b"\r\n", false);
        large.fill(&[b'v'; 10]);
        large.refuse();
        large.fill(&[b'v'; 199_990]);
        large.fill(b"xx");
        assert!(large.is_whole() && large.into_output().is_none());
    }
}
