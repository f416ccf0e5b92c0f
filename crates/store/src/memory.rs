//! Memory from the operating system: reserved at once, resident when touched.
//!
//! A [`Table`] is an array of atomics that starts out as zeros; an [`Arena`] is raw bytes, whose use is
//! the business of `record.rs` (items) and `large.rs` (large values).
#![expect(unsafe_code, reason = "mappings and the bytes in them")]

use std::io;
use std::ops::{Index, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::error::Error;

/// The granularity in which memory becomes resident.
pub(crate) const PAGE: usize = 4096;
/// A huge page, where there are any.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Bytes of address space, zero until written.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// Whether the kernel may still use huge pages here.
    huge: AtomicBool,
}

// SAFETY: a mapping is only an address range; whoever reads or writes it proves for himself that he may.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Whether a mapping should be backed by huge pages: for dense use only, else it costs memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Huge {
    Yes,
    No,
}

#[cfg(not(miri))]
impl Mapping {
    fn new(len: usize, huge: Huge) -> Result<Mapping, Error> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let len = len.max(1).next_multiple_of(PAGE);
        let failed = |source: rustix::io::Errno| Error::Reserve { bytes: len as u64, source: source.into() };
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(failed)?;
        let advice = if huge == Huge::Yes { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // A kernel without huge pages refuses the advice, and that is all right.
        // SAFETY: the range is the mapping just made; the advice does not change its contents.
        let _ = unsafe { madvise(base, len, advice) };
        // A cache's memory in a core dump is of no use and of enormous size.
        // SAFETY: as above.
        let _ = unsafe { madvise(base, len, Advice::LinuxDontDump) };
        let base = NonNull::new(base.cast()).ok_or_else(|| failed(rustix::io::Errno::FAULT))?;
        Ok(Mapping { base, len, huge: AtomicBool::new(huge == Huge::Yes) })
    }

    /// Makes pages resident, as their first touch would. A kernel that cannot (before 5.14) leaves it to that.
    fn populate(&self, range: Range<usize>) {
        let end = range.end.min(self.len);
        if range.start < end {
            // SAFETY: inside the mapping, see above; contents stay as they are, whoever uses them meanwhile.
            let _ = unsafe {
                let start = self.base.add(range.start).as_ptr().cast();
                rustix::mm::madvise(start, end - range.start, rustix::mm::Advice::LinuxPopulateWrite)
            };
        }
    }

    fn no_more_huge_pages(&self) {
        let advice = rustix::mm::Advice::LinuxNoHugepage;
        // SAFETY: the range is this mapping; the advice does not change its contents.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.len, advice) };
    }

    /// Gives the pages back to the system, if it takes them; then they read as zeros again.
    ///
    /// # Safety
    /// Nobody uses the range while this runs, or only as atomics whose values nobody relies on.
    unsafe fn discard(&self, offset: usize, len: usize) -> bool {
        assert!(offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && offset + len <= self.len);
        // SAFETY: inside the mapping, and unused by the caller's promise.
        len == 0 || unsafe { discard(self.base.add(offset).as_ptr().cast(), len).is_ok() }
    }
}

/// Fails if the system would not reserve so many more bytes of address space.
pub(crate) fn check_available(len: usize) -> Result<(), Error> {
    if cfg!(miri) { Ok(()) } else { Mapping::new(len, Huge::No).map(drop) }
}

/// Has the system take whole pages back, be they locked or not.
///
/// # Safety
/// They belong to a mapping of ours, and nobody uses them while this runs.
#[cfg(not(miri))]
unsafe fn discard(start: *mut std::ffi::c_void, len: usize) -> Result<(), rustix::io::Errno> {
    use rustix::mm::{Advice, MlockFlags, madvise, mlock_with, munlock};
    // SAFETY: our own pages by the caller's promise. Locking and unlocking leave the contents alone.
    unsafe {
        // Locked pages (`-k`) are refused under the one name, and taken back under the other since Linux 5.18.
        if madvise(start, len, Advice::LinuxDontNeed).is_ok()
            || madvise(start, len, Advice::LinuxDontneedLocked).is_ok()
        {
            return Ok(());
        }
        munlock(start, len)?;
        let discarded = madvise(start, len, Advice::LinuxDontNeed);
        // If this is refused, the range is no longer locked: what was resident is gone in any case.
        let _ = mlock_with(start, len, MlockFlags::ONFAULT);
        discarded
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and no reference into it outlives its owner.
        // Refused only if it would split a mapping beyond the limit on their number; then it stays.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Mapping {
    /// Gives the pages back to the system; they read as zeros again.
    ///
    /// # Safety
    /// Nobody else uses the range while this runs.
    unsafe fn release(&self, offset: usize, len: usize) {
        // SAFETY: unused by the caller's promise; `discard` has checked that the range is inside.
        unsafe {
            if !self.discard(offset, len) {
                // Resident they stay, but whoever uses them next counts on zeros.
                self.base.add(offset).write_bytes(0, len);
            }
        }
    }

    /// The kernel would fill small holes up again, behind the budget's back, to make huge pages whole.
    fn prepare_for_holes(&self, len: usize) {
        if len < HUGE_PAGE && self.huge.swap(false, Relaxed) {
            self.no_more_huge_pages();
        }
    }
}

/// Miri knows no `madvise`: there, the heap serves.
#[cfg(miri)]
impl Mapping {
    fn new(len: usize, huge: Huge) -> Result<Mapping, Error> {
        let len = len.max(1).next_multiple_of(PAGE);
        // SAFETY: the layout is not of size zero.
        let base = unsafe { std::alloc::alloc_zeroed(Mapping::layout(len)) };
        let base = NonNull::new(base).ok_or(Error::Reserve {
            bytes: len as u64,
            source: io::Error::from(io::ErrorKind::OutOfMemory),
        })?;
        Ok(Mapping { base, len, huge: AtomicBool::new(huge == Huge::Yes) })
    }

    fn layout(len: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(len, PAGE).expect("a valid layout")
    }

    fn populate(&self, _: Range<usize>) {}

    fn no_more_huge_pages(&self) {}

    unsafe fn discard(&self, offset: usize, len: usize) -> bool {
        assert!(offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && offset + len <= self.len);
        len == 0
    }
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated with this very layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), Mapping::layout(self.len)) };
    }
}

/// Types for which all-zero bytes are a value, and which are safe to share.
///
/// # Safety
/// That must be so.
pub(crate) unsafe trait Zeroed: Sync {}
// SAFETY: zero is an integer.
unsafe impl Zeroed for AtomicU16 {}
// SAFETY: zero is an integer.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: zero is an integer.
unsafe impl Zeroed for AtomicU64 {}

/// An array of zeros that occupies memory only where it has been touched.
#[derive(Debug)]
pub(crate) struct Table<T> {
    mapping: Mapping,
    len: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: Zeroed> Table<T> {
    pub(crate) fn new(len: usize, huge: Huge) -> Result<Table<T>, Error> {
        const { assert!(align_of::<T>() <= PAGE && size_of::<T>() > 0) };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_much)?;
        Ok(Table { mapping: Mapping::new(bytes, huge)?, len, of: std::marker::PhantomData })
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the whole pages among these values back to the system, which nobody needs any more: they become zeros, or
    /// stay as they are where the system does not take them.
    pub(crate) fn release(&self, values: Range<usize>) {
        let bytes = |value: usize| value * size_of::<T>();
        let (start, end) = (bytes(values.start).next_multiple_of(PAGE), bytes(values.end) / PAGE * PAGE);
        if values.end <= self.len && start < end {
            self.mapping.prepare_for_holes(end - start);
            // SAFETY: in a table all use is atomic loads and stores, and hints may read old values as well as zeros.
            let _ = unsafe { self.mapping.discard(start, end - start) };
        }
    }

    /// Makes these bytes resident before anyone touches them.
    pub(crate) fn populate(&self, bytes: Range<usize>) {
        self.mapping.populate(bytes);
    }

    /// Asks the processor to fetch what lies there. Any index will do.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(self.mapping.base.as_ptr().wrapping_add(index * size_of::<T>()));
    }
}

impl<T: Zeroed> Index<usize> for Table<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self[index..index + 1][0]
    }
}

impl<T: Zeroed> Index<Range<usize>> for Table<T> {
    type Output = [T];

    #[inline]
    fn index(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len, "outside of the table");
        // SAFETY: the mapping holds `len` values, of which these are some: it started as zeros, which
        // `Zeroed` says is a value, and is written only through `&T`, that is by T's own (atomic) means.
        unsafe {
            let first = self.mapping.base.as_ptr().cast::<T>().add(range.start);
            std::slice::from_raw_parts(first, range.end - range.start)
        }
    }
}

/// Raw bytes. See `record.rs` and `large.rs` for who may touch which when.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: Mapping,
}

impl Arena {
    pub(crate) fn new(len: usize, huge: Huge) -> Result<Arena, Error> {
        Ok(Arena { mapping: Mapping::new(len, huge)? })
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len
    }

    /// A pointer to the `len` bytes at `offset`, which are inside.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.mapping.len && len <= self.mapping.len - offset, "outside of the arena");
        // SAFETY: just checked to be inside of the mapping.
        unsafe { self.mapping.base.as_ptr().add(offset) }
    }

    /// # Safety
    /// Nobody writes these bytes while the slice is in use.
    #[inline]
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: inside the mapping, initialised (zeros at first), unwritten by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.at(offset, len), len) }
    }

    /// # Safety
    /// Nobody else reads or writes these bytes while the slice is in use.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller promises that these bytes are his alone")]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: inside the mapping, initialised, and the caller's alone by his promise.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len), len) }
    }

    /// # Safety
    /// While anyone uses them through this, nobody accesses these bytes in any other way.
    #[inline]
    pub(crate) unsafe fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4));
        // SAFETY: inside and aligned (the mapping is, and so is the offset); shared only as an atomic.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// # Safety
    /// As [`Arena::atomic_u32`].
    #[inline]
    pub(crate) unsafe fn atomic_u16(&self, offset: usize) -> &AtomicU16 {
        debug_assert!(offset.is_multiple_of(2));
        // SAFETY: as above.
        unsafe { AtomicU16::from_ptr(self.at(offset, 2).cast()) }
    }

    /// # Safety
    /// As [`Arena::atomic_u32`].
    #[inline]
    pub(crate) unsafe fn atomic_u8(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: as above.
        unsafe { AtomicU8::from_ptr(self.at(offset, 1)) }
    }

    /// Gives pages of a segment back that hold no record: behind the last one of a segment that is
    /// being sealed, or all of a segment that is free.
    ///
    /// Safe to call because in both cases the pages are the caller's alone: `segment.rs` calls it from
    /// `seal` (by whoever held the segment open) and for free segments (under the pool's lock).
    pub(crate) fn release_tail(&self, offset: usize, len: usize) {
        self.mapping.prepare_for_holes(len);
        // SAFETY: the caller's alone, see above.
        unsafe { self.mapping.release(offset, len) };
    }

    /// # Safety
    /// Nobody uses these bytes during the call.
    pub(crate) unsafe fn release(&self, offset: usize, len: usize) {
        // SAFETY: handed through.
        unsafe { self.mapping.release(offset, len) };
    }

    /// Makes these bytes resident before anyone touches them.
    pub(crate) fn populate(&self, bytes: Range<usize>) {
        self.mapping.populate(bytes);
    }

    /// Asks the processor to fetch what lies there. Any offset will do.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize) {
        prefetch(self.mapping.base.as_ptr().wrapping_add(offset));
    }
}

/// A hint; reads nothing.
#[inline]
fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}

fn too_much() -> Error {
    Error::Reserve { bytes: u64::MAX, source: io::Error::from(io::ErrorKind::OutOfMemory) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_starts_as_zeros_and_keeps_what_it_is_given() {
        let table: Table<AtomicU64> = Table::new(1000, Huge::No).unwrap();
        assert!(table[0..1000].iter().all(|value| value.load(Relaxed) == 0));
        table[999].store(7, Relaxed);
        table.prefetch(5_000_000);
        assert_eq!(table[999].load(Relaxed), 7);
        assert_eq!(table.len(), 1000);
    }

    #[test]
    fn released_bytes_are_zeros_again() {
        let arena = Arena::new(4 * PAGE, Huge::Yes).unwrap();
        // SAFETY: nobody else knows this arena.
        unsafe {
            arena.bytes_mut(PAGE, 2 * PAGE).fill(1);
            arena.release(PAGE, PAGE);
            assert_eq!(arena.bytes(PAGE, PAGE), [0; PAGE]);
            assert_eq!(arena.bytes(2 * PAGE, PAGE), [1; PAGE]);
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn locked_bytes_can_be_released_too() {
        let arena = Arena::new(4 * PAGE, Huge::No).unwrap();
        // SAFETY: nobody else knows this arena, and the range is inside it.
        unsafe {
            let start = arena.mapping.base.as_ptr().cast();
            rustix::mm::mlock_with(start, 4 * PAGE, rustix::mm::MlockFlags::ONFAULT).unwrap();
            arena.bytes_mut(0, 4 * PAGE).fill(1);
            arena.release(PAGE, 2 * PAGE);
            assert_eq!(arena.bytes(PAGE, 2 * PAGE), [0; 2 * PAGE]);
            assert_eq!(arena.bytes(3 * PAGE, PAGE), [1; PAGE]);
        }
    }

    #[test]
    #[should_panic(expected = "outside of the arena")]
    fn bytes_outside_cannot_be_had() {
        let arena = Arena::new(PAGE, Huge::No).unwrap();
        // SAFETY: nobody else knows this arena.
        let _ = unsafe { arena.bytes(PAGE - 1, 2) };
    }
}
