//! The memory of a port: frames, of which each has one owner at any time, the kernel or one place of this process.
//!
//! With `unsafe`: the kernel writes to frames that it owns, while this process has those beside them.
#![expect(unsafe_code, reason = "memory that is shared with the kernel, frame by frame")]

use std::ptr::null_mut;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of a frame: an Ethernet frame of 1,500 bytes of content, and the 256 bytes that drivers want before it.
pub(crate) const FRAME_LEN: usize = 2048;

/// A frame that this process owns. It cannot be copied: it goes to the kernel by a ring, and comes back by another one.
#[derive(Debug)]
pub(crate) struct FrameIndex(u32);

impl FrameIndex {
    /// Its address, as rings have it: its distance from the first one.
    pub(crate) fn address(self) -> u64 {
        u64::from(self.0) * FRAME_LEN as u64
    }
}

/// Frames, all of the same length, one after the other.
pub(crate) struct Frames {
    memory: *mut u8,
    count: u32,
}

// SAFETY: the memory is this value's alone, as far as it is not the kernel's.
unsafe impl Send for Frames {}

impl Frames {
    /// New ones, and all their indices.
    pub(crate) fn new(count: u32) -> Result<(Frames, Vec<FrameIndex>), Errno> {
        let len = count as usize * FRAME_LEN;
        // SAFETY: the kernel chooses the place.
        let memory = unsafe {
            mmap_anonymous(
                null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )?
        };
        Ok((Frames { memory: memory.cast(), count }, (0..count).map(FrameIndex).collect()))
    }

    /// Where the memory begins, for the kernel.
    pub(crate) fn start(&self) -> u64 {
        self.memory as u64
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.count as usize * FRAME_LEN
    }

    /// Takes back the frame that a ring names by an address within it; none if the address is not one of these frames, which the kernel
    /// does not do.
    ///
    /// # Safety
    /// The kernel has given the frame back, and it has not been taken since.
    pub(crate) unsafe fn taken_back(&self, address: u64) -> Option<FrameIndex> {
        let index = u32::try_from(address / FRAME_LEN as u64).ok()?;
        (index < self.count).then_some(FrameIndex(index))
    }

    /// The part of a frame from an address on; less if the frame ends before.
    pub(crate) fn part(&self, frame: &FrameIndex, address: u64, len: u32) -> &[u8] {
        let at = (address % FRAME_LEN as u64) as usize;
        let len = (len as usize).min(FRAME_LEN - at);
        // SAFETY: the part lies in the frame, which is in the memory and belongs to the owner of the index: nothing writes to it while the
        // index is borrowed.
        unsafe { std::slice::from_raw_parts(self.memory.add(frame.0 as usize * FRAME_LEN + at), len) }
    }

    /// A whole frame, to be written.
    pub(crate) fn whole(&mut self, frame: &mut FrameIndex) -> &mut [u8] {
        // SAFETY: as for `part`; the index and the memory are borrowed mutably, so there is no other view of it.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(frame.0 as usize * FRAME_LEN), FRAME_LEN) }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no view of it outlives this value. A socket that still has it keeps its pages.
        let _unmapped = unsafe { munmap(self.memory.cast(), self.len()) };
    }
}
