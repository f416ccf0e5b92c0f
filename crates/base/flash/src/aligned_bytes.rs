//! Memory whose address is a multiple of 4096, as direct reads and writes need it.

use crate::disk::PAGE_BYTES;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Memory whose address is a multiple of 4096, wherever it moves.
pub struct AlignedBytes {
    /// Never grows, so that its memory stays at one address.
    memory: Vec<u8>,
    /// Where the aligned part begins.
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// So many bytes, all of them 0. They become resident when they are touched.
    pub fn zeroed(len: usize) -> AlignedBytes {
        // Zeroed memory, rather than a vector that is filled: the allocator has it from the kernel, which gives pages when
        // they are touched.
        let memory = vec![0; len + PAGE_BYTES - 1];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        assert!(start < PAGE_BYTES, "each address has an aligned one behind it");
        AlignedBytes { memory, start, len }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }
}

impl DerefMut for AlignedBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Memory at another address, with the same bytes.
impl Clone for AlignedBytes {
    fn clone(&self) -> AlignedBytes {
        let mut clone = AlignedBytes::zeroed(self.len);
        clone.copy_from_slice(self);
        clone
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_aligned_wherever_the_memory_moves() {
        for len in [0, 1, 4096, 10_000, 1 << 20] {
            let all: Vec<AlignedBytes> = (0..5).map(|_| AlignedBytes::zeroed(len)).collect();
            for bytes in all {
                let moved = Box::new(bytes.clone());
                assert_eq!((bytes.as_ptr().addr() % 4096, moved.as_ptr().addr() % 4096), (0, 0));
                assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_clone_has_the_same_bytes_and_its_own_memory() {
        let mut bytes = AlignedBytes::zeroed(4096);
        bytes[7] = 1;
        let mut clone = bytes.clone();
        clone.as_mut()[7] += 1;
        assert_eq!((bytes[7], clone.as_ref()[7]), (1, 2));
    }
}
