//! With `unsafe`: memory that the kernel writes to.
#![expect(unsafe_code, reason = "memory shared with the kernel: receive buffers")]

use super::GROUP;
use crate::engine::RECEIVE_LEN;
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// Receive buffers that the kernel picks from: a ring of descriptions, then the buffers themselves, in one mapping.
pub(super) struct Buffers {
    map: NonNull<u8>,
    map_len: usize,
    count: u16,
    /// Descriptions written so far, modulo 2^16; the kernel sees them after `publish`.
    tail: u16,
}

impl Buffers {
    /// One connection can fill several buffers in a turn; with fewer left a receive pauses until the next turn.
    pub(super) fn new(submitter: &Submitter<'_>, connections: usize) -> io::Result<Buffers> {
        let count = (connections * 2).next_power_of_two().clamp(16, COUNT_MAX) as u16;
        let map_len = ring_len(count) + usize::from(count) * STRIDE;
        // SAFETY: a new private mapping aliases nothing.
        let map = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), map_len, protection, MapFlags::PRIVATE)?
        };
        let map = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Buffers { map, map_len, count, tail: 0 };
        (0..count).for_each(|buffer| buffers.give_back(buffer));
        // SAFETY: the mapping begins at a page with `count` descriptions; it goes only after unregistering or, below,
        // when registering failed.
        match unsafe { submitter.register_buf_ring_with_flags(map.as_ptr() as u64, count, GROUP, 0) } {
            Ok(()) => {
                buffers.publish();
                Ok(buffers)
            }
            Err(error) => {
                buffers.unmap();
                Err(error)
            }
        }
    }

    /// The first `len` bytes of `buffer`.
    ///
    /// # Safety
    ///
    /// The kernel must have filled them and `buffer` must not have been given back since.
    pub(super) unsafe fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        assert!(buffer < self.count && len <= RECEIVE_LEN, "the kernel names a buffer of ours");
        // SAFETY: within the mapping by the assertion; ours to read until given back, which borrows `self` mutably.
        unsafe { std::slice::from_raw_parts(self.start_of(buffer), len) }
    }

    /// Describes `buffer` to the kernel as free.
    pub(super) fn give_back(&mut self, buffer: u16) {
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: `place` is below `count`, so the description lies in the mapping; the kernel does not read it
        // before `publish`. Only its fields are written: the first one's spare field is the tail that all share.
        let description = unsafe { &mut *self.map.cast::<BufRingEntry>().as_ptr().add(place) };
        description.set_addr(self.start_of(buffer) as u64);
        description.set_len(RECEIVE_LEN as u32);
        description.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes the descriptions written so far visible to the kernel.
    pub(super) fn publish(&mut self) {
        // SAFETY: the mapping starts with the first description, whose spare field is the ring's tail; it is
        // aligned, and the kernel reads it with acquire semantics.
        unsafe {
            let tail = BufRingEntry::tail(self.map.cast().as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    fn start_of(&self, buffer: u16) -> *mut u8 {
        self.map.as_ptr().wrapping_add(ring_len(self.count) + usize::from(buffer) * STRIDE)
    }

    pub(super) fn unmap(&mut self) {
        // SAFETY: the mapping made in `new`, which the kernel does not write to any more (see the callers); no
        // slice of it is left, they borrow `self`. A failure would leave the memory mapped.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

/// Bytes of the ring of descriptions, in whole pages.
fn ring_len(count: u16) -> usize {
    (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(4096)
}

const COUNT_MAX: usize = 2048;
/// An odd number of cache lines: buffers a power of two apart would compete for the same few sets of the cache.
const STRIDE: usize = RECEIVE_LEN + 64;
