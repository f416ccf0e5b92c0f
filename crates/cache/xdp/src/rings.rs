//! Rings that are shared with the kernel: one side writes entries and then a count of them, the other side reads the count and then the entries.
//!
//! Counts grow for ever and wrap; an entry's place is its number modulo the length, which is a power of two. The protocol is that of the
//! kernel (`net/xdp/xsk_queue.h`).
//!
//! With `unsafe`: the kernel reads and writes the same memory.
#![expect(unsafe_code, reason = "memory that is shared with the kernel")]

use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

/// An entry: plain numbers, of which every pattern of bits is a value.
///
/// # Safety
/// The type must be so.
pub(crate) unsafe trait RingEntry: Copy {}

/// A frame by its address.
// SAFETY: it is a number.
unsafe impl RingEntry for u64 {}

/// A part of a frame.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FramePart {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) options: u32,
}

// SAFETY: it is three numbers without a gap.
unsafe impl RingEntry for FramePart {}

/// The mapped memory of a ring.
struct Ring<T> {
    memory: *mut u8,
    len: usize,
    produced: *const AtomicU32,
    consumed: *const AtomicU32,
    flags: *const AtomicU32,
    entries: *mut T,
    count: u32,
}

// SAFETY: this process reaches the memory by this value alone.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: RingEntry> Ring<T> {
    /// Maps the ring of `count` entries that the socket has at this offset.
    fn map(socket: impl AsFd, offset: u64, at: &XdpRingOffset, count: u32) -> Result<Ring<T>, Errno> {
        assert!(count.is_power_of_two(), "the kernel refuses others");
        // A kernel before 5.4 has no flags, and needs no waking.
        let flags = at.flags.ok_or(Errno::OPNOTSUPP)?;
        let len = at.desc as usize + count as usize * size_of::<T>();
        let (protection, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses the place.
        let memory: *mut u8 = unsafe { mmap(null_mut(), len, protection, kind, socket, offset)?.cast() };
        // SAFETY: the kernel has told where the counts and entries are in what it has mapped, and aligns them.
        let [produced, consumed, flags] = [at.producer, at.consumer, flags]
            .map(|at| unsafe { memory.add(at as usize) }.cast_const().cast());
        // SAFETY: as above.
        let entries = unsafe { memory.add(at.desc as usize) }.cast();
        Ok(Ring { memory, len, produced, consumed, flags, entries, count })
    }

    fn produced(&self) -> &AtomicU32 {
        // SAFETY: it lies in the mapped memory, which lives as long as this value.
        unsafe { &*self.produced }
    }

    fn consumed(&self) -> &AtomicU32 {
        // SAFETY: as for `produced`.
        unsafe { &*self.consumed }
    }

    fn flags(&self) -> XdpRingFlags {
        // SAFETY: as for `produced`.
        XdpRingFlags::from_bits_retain(unsafe { &*self.flags }.load(Ordering::Relaxed))
    }

    fn place(&self, number: u32) -> *mut T {
        // SAFETY: the place is one of the entries, which lie in the mapped memory.
        unsafe { self.entries.add((number & (self.count - 1)) as usize) }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing that borrows it outlives this value.
        let _unmapped = unsafe { munmap(self.memory.cast(), self.len) };
    }
}

/// A ring that this process writes.
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Entries written, of which the kernel has been told the first ones.
    written: u32,
}

impl<T: RingEntry> Producer<T> {
    pub(crate) fn map(
        socket: impl AsFd,
        offset: u64,
        at: &XdpRingOffset,
        count: u32,
    ) -> Result<Producer<T>, Errno> {
        let ring = Ring::map(socket, offset, at, count)?;
        let written = ring.produced().load(Ordering::Relaxed);
        Ok(Producer { ring, written })
    }

    /// Entries that the kernel has not read yet.
    pub(crate) fn pending(&self) -> u32 {
        // What the kernel has read it does not read again: after this load, the place may be written.
        self.written.wrapping_sub(self.ring.consumed().load(Ordering::Acquire))
    }

    /// Whether an entry more fits.
    pub(crate) fn has_room(&self) -> bool {
        self.pending() < self.ring.count
    }

    /// Writes an entry, of which the kernel knows after [`Producer::publish`]. There must be room.
    pub(crate) fn push(&mut self, entry: T) {
        assert!(self.has_room(), "an entry that the kernel has not read would be overwritten");
        // SAFETY: the kernel has read the entry at this place, or there was none, so it is ours until `publish`.
        unsafe { self.ring.place(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
    }

    /// Gives the kernel all that was written.
    pub(crate) fn publish(&mut self) {
        self.ring.produced().store(self.written, Ordering::Release);
    }

    /// Whether the kernel looks at the ring only after a system call.
    pub(crate) fn needs_waking(&self) -> bool {
        self.ring.flags().contains(XdpRingFlags::XDP_RING_NEED_WAKEUP)
    }
}

/// A ring that the kernel writes.
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    read: u32,
}

impl<T: RingEntry> Consumer<T> {
    pub(crate) fn map(
        socket: impl AsFd,
        offset: u64,
        at: &XdpRingOffset,
        count: u32,
    ) -> Result<Consumer<T>, Errno> {
        let ring = Ring::map(socket, offset, at, count)?;
        let read = ring.consumed().load(Ordering::Relaxed);
        Ok(Consumer { ring, read })
    }

    /// The next entry, if there is one. The kernel may use its place after [`Consumer::release`].
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.ring.produced().load(Ordering::Acquire) == self.read {
            return None;
        }
        // SAFETY: the kernel has written this entry before it has counted it, and leaves it until it is released.
        let entry = unsafe { self.ring.place(self.read).read() };
        self.read = self.read.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of all entries that were read back to the kernel.
    pub(crate) fn release(&mut self) {
        self.ring.consumed().store(self.read, Ordering::Release);
    }
}
