//! Blocks: memory that a file is read into, which moves with the read and comes back with its result.

use std::fmt;

use crate::files::registered_blocks::Registration;

/// Memory for one read of a file, and the bytes that have been read into it.
pub struct Block {
    /// Never grows, so that its memory stays at one address, however the block itself moves.
    memory: Vec<u8>,
    /// Where the aligned part begins.
    start: usize,
    capacity: usize,
    alignment: usize,
    filled: usize,
    was_read: bool,
    /// With a ring that knows its memory.
    registration: Option<Registration>,
}

impl Block {
    /// A block of `capacity` bytes.
    pub fn new(capacity: usize) -> Block {
        Block::aligned(capacity, 1)
    }

    /// A block whose address is a multiple of `alignment`: files opened with `O_DIRECT` need 512 or 4096, and a capacity and
    /// a position that are multiples of it, too.
    ///
    /// # Panics
    /// If `alignment` is not a power of two.
    pub fn aligned(capacity: usize, alignment: usize) -> Block {
        assert!(alignment.is_power_of_two(), "an alignment is a power of two");
        let memory = vec![0; capacity + alignment - 1];
        let start = memory.as_ptr().align_offset(alignment);
        assert!(start < alignment, "each address has an aligned one behind it");
        Block { memory, start, capacity, alignment, filled: 0, was_read: false, registration: None }
    }

    /// The bytes that have been read.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.filled]
    }

    /// The most bytes that it takes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn alignment(&self) -> usize {
        self.alignment
    }

    /// Forgets its bytes.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Bytes that have been read.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// The memory that has not been filled.
    pub(crate) fn rest(&mut self) -> &mut [u8] {
        &mut self.memory[self.start + self.filled..self.start + self.capacity]
    }

    /// The first `len` bytes of [`Block::rest`] have been filled.
    pub(crate) fn advance(&mut self, len: usize) {
        assert!(len <= self.capacity - self.filled, "more bytes than were asked for");
        self.filled += len;
        self.was_read = true;
    }

    /// The memory that is read into.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.capacity]
    }

    /// Whether bytes have been read into it before.
    pub(crate) fn was_read(&self) -> bool {
        self.was_read
    }

    pub(crate) fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref()
    }

    pub(crate) fn set_registration(&mut self, registration: Registration) {
        self.registration = Some(registration);
    }

    /// Whether a read that was short can be continued: there is room, and its address is aligned. Without that a file opened
    /// with `O_DIRECT` cannot be read, and has ended: only at its end does such a file have reads of odd lengths.
    pub(crate) fn can_continue(&self) -> bool {
        self.filled < self.capacity && self.filled.is_multiple_of(self.alignment)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(registration) = self.registration.take() {
            registration.retire(std::mem::take(&mut self.memory), self.capacity);
        }
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} of {} bytes)", self.filled, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_alignment_wherever_it_moves() {
        for alignment in [1, 2, 64, 512, 4096, 1 << 20] {
            let blocks: Vec<Block> = (0..10).map(|_| Block::aligned(8192, alignment)).collect();
            for mut block in blocks {
                assert_eq!(block.rest().as_ptr() as usize % alignment, 0);
                assert_eq!((block.rest().len(), block.capacity(), block.bytes().len()), (8192, 8192, 0));
            }
        }
    }

    #[test]
    fn a_short_read_continues_where_the_rest_is_aligned() {
        let mut block = Block::aligned(2048, 512);
        block.rest()[..1024].fill(7);
        block.advance(1024);
        assert!(block.can_continue() && block.bytes() == [7; 1024]);
        block.advance(100);
        assert!(!block.can_continue());
        let mut block = Block::new(2);
        block.advance(1);
        assert!(block.can_continue());
        block.advance(1);
        assert!(!block.can_continue());
        block.clear();
        assert_eq!((block.bytes().len(), block.rest().len()), (0, 2));
    }
}
