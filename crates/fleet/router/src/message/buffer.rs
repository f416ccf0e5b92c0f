//! Memory for a body whose length is known and whose bytes are still to come.

/// Memory grows by at least this much at a time, and is never more than twice what has arrived, and this: a peer that
/// announces much and sends little costs little.
const STEP: usize = 64 * 1024;

/// A body that is being received.
#[derive(Debug, Default)]
pub(crate) struct BodyBuffer {
    bytes: Vec<u8>,
    filled: usize,
    len: usize,
}

impl BodyBuffer {
    /// For `len` bytes.
    pub(crate) fn new(len: usize) -> BodyBuffer {
        BodyBuffer { bytes: Vec::new(), filled: 0, len }
    }

    /// For another body of `len` bytes, in the same memory.
    pub(crate) fn begin(&mut self, len: usize) {
        self.bytes.clear();
        (self.filled, self.len) = (0, len);
    }

    /// Length of the whole body.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What has arrived.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Bytes of memory.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Memory for the next bytes. Empty once all have arrived.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            let grown = (2 * self.filled).max(self.filled + STEP).min(self.len);
            self.bytes.resize(grown, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Notes that `count` bytes of the room were filled.
    pub(crate) fn filled(&mut self, count: usize) {
        self.filled += count;
    }

    /// Copies from the front of `input`. Returns how much.
    pub(crate) fn fill(&mut self, input: &[u8]) -> usize {
        let mut taken = 0;
        while taken < input.len() && self.filled < self.len {
            let room = self.room();
            let count = room.len().min(input.len() - taken);
            room[..count].copy_from_slice(&input[taken..taken + count]);
            self.filled += count;
            taken += count;
        }
        taken
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.filled == self.len
    }

    /// All bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_what_arrives() {
        let mut buffer = BodyBuffer::new(1 << 30);
        assert_eq!(buffer.fill(b"abc"), 3);
        assert_eq!(buffer.bytes.len(), STEP);
        assert_eq!(buffer.room().len(), STEP - 3);
        buffer.filled(STEP - 3);
        buffer.room();
        assert_eq!(buffer.bytes.len(), 2 * STEP);
    }

    #[test]
    fn memory_is_used_again() {
        let mut buffer = BodyBuffer::new(5);
        buffer.fill(b"abcde");
        buffer.begin(3);
        assert_eq!((buffer.fill(b"xyz1"), buffer.is_whole(), buffer.bytes()), (3, true, &b"xyz"[..]));
    }

    #[test]
    fn nothing_beyond_the_body_is_taken() {
        let mut buffer = BodyBuffer::new(5);
        assert_eq!((buffer.fill(b"abcdefg"), buffer.is_whole()), (5, true));
        assert_eq!(buffer.fill(b"x"), 0);
        assert_eq!(buffer.into_bytes(), b"abcde");
    }
}
