//! Memory from the operating system: address space is reserved at once, pages become resident when touched.
//!
//! A [`Table`] is an array of atomics that starts as zeros; an [`Arena`] is raw bytes, used by `record.rs`
//! (items) and `large.rs` (large values).
#![expect(unsafe_code, reason = "mappings and the bytes in them")]

use std::io;
use std::ops::{Index, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::error::Error;
use crate::memory::backing::{Backing, FilePart};

/// The granularity in which memory becomes resident.
pub(crate) const PAGE: usize = 4096;
/// The size of a huge page, where the system has them.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Bytes of address space, zero until written.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// Whether the kernel may still use huge pages here.
    huge: AtomicBool,
    /// The part of a file that is mapped here; `None` for anonymous pages.
    part: Option<FilePart>,
}

// SAFETY: a mapping is only an address range; every access to its bytes has its own proof.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Whether a mapping should be backed by huge pages: only for dense use, as sparse use would waste memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Huge {
    Yes,
    No,
}

#[cfg(not(miri))]
impl Mapping {
    fn new(len: usize, huge: Huge, backing: &Backing) -> Result<Mapping, Error> {
        use rustix::mm::{Advice, madvise};
        let len = len.max(1).next_multiple_of(PAGE);
        let failed = |source: io::Error| Error::Reserve { bytes: len as u64, source };
        let part = backing.part(len).map_err(failed)?;
        let base = match &part {
            None => map_anonymous(len),
            Some(part) => map_part(len, part),
        }
        .map_err(|source| failed(source.into()))?;
        let advice = if huge == Huge::Yes { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // A kernel without huge pages refuses the advice, which is harmless.
        // SAFETY: the range is the mapping just made; the advice does not change its contents.
        let _ = unsafe { madvise(base, len, advice) };
        // A cache's memory in a core dump is useless and enormous.
        // SAFETY: as above.
        let _ = unsafe { madvise(base, len, Advice::LinuxDontDump) };
        let base = NonNull::new(base.cast()).ok_or_else(|| failed(rustix::io::Errno::FAULT.into()))?;
        Ok(Mapping { base, len, huge: AtomicBool::new(huge == Huge::Yes), part })
    }

    /// Makes pages resident, as their first touch would. Kernels before 5.14 cannot; then the first touch
    /// does it.
    fn populate(&self, range: Range<usize>) {
        let end = range.end.min(self.len);
        if range.start >= end || self.part.as_ref().is_some_and(FilePart::is_frozen) {
            return;
        }
        // SAFETY: inside the mapping, see above; the contents do not change, even under concurrent use.
        let _ = unsafe {
            let start = self.base.add(range.start).as_ptr().cast();
            rustix::mm::madvise(start, end - range.start, rustix::mm::Advice::LinuxPopulateWrite)
        };
        if self.part.is_some() && self.huge.load(Relaxed) {
            self.collapse(range.start..end);
        }
    }

    /// Makes huge pages of the whole ones in a range that is resident. A file on tmpfs gets none by itself, unless it is mounted with
    /// `huge=`. Kernels before 6.1 cannot; then small pages remain.
    fn collapse(&self, range: Range<usize>) {
        let (start, end) = (range.start.next_multiple_of(HUGE_PAGE), range.end / HUGE_PAGE * HUGE_PAGE);
        if start < end {
            // SAFETY: inside the mapping, as its caller has checked; the contents do not change, even under concurrent use.
            let _ = unsafe {
                libc::madvise(self.base.add(start).as_ptr().cast(), end - start, libc::MADV_COLLAPSE)
            };
        }
    }

    fn no_more_huge_pages(&self) {
        let advice = rustix::mm::Advice::LinuxNoHugepage;
        // SAFETY: the range is this mapping; the advice does not change its contents.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.len, advice) };
    }

    /// Gives the pages back to the system, if it accepts them; then they read as zeros again.
    ///
    /// # Safety
    /// The range is not used while this runs, or only as atomics on whose values nothing depends.
    unsafe fn discard(&self, offset: usize, len: usize) -> bool {
        assert!(offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && offset + len <= self.len);
        match &self.part {
            _ if len == 0 => true,
            // Nobody here takes a page of a frozen file again.
            Some(part) => part.is_frozen() || part.punch(offset..offset + len),
            // SAFETY: inside the mapping, and unused by the caller's contract.
            None => unsafe { discard(self.base.add(offset).as_ptr().cast(), len).is_ok() },
        }
    }
}

#[cfg(not(miri))]
fn map_anonymous(len: usize) -> rustix::io::Result<*mut std::ffi::c_void> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE | MapFlags::NORESERVE) }
}

/// Maps a part of a file at a multiple of [`HUGE_PAGE`], as is its offset: else it could have no huge pages.
#[cfg(not(miri))]
fn map_part(len: usize, part: &FilePart) -> rustix::io::Result<*mut std::ffi::c_void> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
    let (private, shared) = (MapFlags::PRIVATE | MapFlags::NORESERVE, MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice aliases nothing. The part is mapped over the middle of it, and the
    // rest, to which nothing refers, is unmapped; on failure all of it.
    unsafe {
        let wide = mmap_anonymous(std::ptr::null_mut(), len + HUGE_PAGE, ProtFlags::empty(), private)?;
        let before = wide.cast::<u8>().align_offset(HUGE_PAGE);
        let base = wide.byte_add(before);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        match mmap(base, len, protection, shared | MapFlags::FIXED, part.file(), part.offset) {
            Ok(base) => {
                if before > 0 {
                    let _ = munmap(wide, before);
                }
                let _ = munmap(base.byte_add(len), HUGE_PAGE - before);
                Ok(base)
            }
            Err(error) => {
                let _ = munmap(wide, len + HUGE_PAGE);
                Err(error)
            }
        }
    }
}

/// Fails if the system would not reserve `len` more bytes of address space.
pub(crate) fn check_available(len: usize) -> Result<(), Error> {
    if cfg!(miri) { Ok(()) } else { Mapping::new(len, Huge::No, &Backing::Anonymous).map(drop) }
}

/// Bytes that the system would still promise to all processes together, where it promises no more than it has
/// (`vm.overcommit_memory` 2; the kernel's Documentation/mm/overcommit-accounting.rst).
pub(crate) fn unpromised() -> Option<u64> {
    if cfg!(miri) || std::fs::read_to_string("/proc/sys/vm/overcommit_memory").ok()?.trim_ascii() != "2" {
        return None;
    }
    unpromised_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn unpromised_in(meminfo: &str) -> Option<u64> {
    let bytes = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = rest.trim_ascii().strip_suffix(" kB")?.parse().ok()?;
        Some(kilobytes * 1024)
    };
    Some(bytes("CommitLimit:")?.saturating_sub(bytes("Committed_AS:")?))
}

/// Gives whole pages back to the system, locked ones included.
///
/// # Safety
/// The pages belong to one of our mappings and are not used while this runs.
#[cfg(not(miri))]
unsafe fn discard(start: *mut std::ffi::c_void, len: usize) -> Result<(), rustix::io::Errno> {
    use rustix::mm::{Advice, MlockFlags, madvise, mlock_with, munlock};
    // SAFETY: our own pages by the caller's contract. Locking and unlocking do not change the contents.
    unsafe {
        // `MADV_DONTNEED` refuses locked pages (`-k`); `MADV_DONTNEED_LOCKED` accepts them since Linux 5.18.
        if madvise(start, len, Advice::LinuxDontNeed).is_ok()
            || madvise(start, len, Advice::LinuxDontneedLocked).is_ok()
        {
            return Ok(());
        }
        munlock(start, len)?;
        let discarded = madvise(start, len, Advice::LinuxDontNeed);
        // If this is refused, the range is no longer locked; its pages are discarded in any case.
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
        // SAFETY: unused by the caller's contract; `discard` has checked that the range is inside.
        unsafe {
            if !self.discard(offset, len) {
                // The pages stay resident, but the next user relies on zeros.
                self.base.add(offset).write_bytes(0, len);
            }
        }
    }

    /// Turns huge pages off before a small hole is made: to make huge pages whole the kernel would fill the
    /// hole with uncharged memory.
    fn prepare_for_holes(&self, len: usize) {
        if len < HUGE_PAGE && self.huge.swap(false, Relaxed) {
            self.no_more_huge_pages();
        }
    }
}

/// Under miri, which does not support `madvise`, memory comes from the heap.
#[cfg(miri)]
impl Mapping {
    fn new(len: usize, huge: Huge, _: &Backing) -> Result<Mapping, Error> {
        let len = len.max(1).next_multiple_of(PAGE);
        // SAFETY: the layout is not of size zero.
        let base = unsafe { std::alloc::alloc_zeroed(Mapping::layout(len)) };
        let base = NonNull::new(base).ok_or(Error::Reserve {
            bytes: len as u64,
            source: io::Error::from(io::ErrorKind::OutOfMemory),
        })?;
        Ok(Mapping { base, len, huge: AtomicBool::new(huge == Huge::Yes), part: None })
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

/// Types for which all-zero bytes are a valid value, and which are safe to share.
///
/// # Safety
/// Both must hold for the type.
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
    pub(crate) fn new(len: usize, huge: Huge, backing: &Backing) -> Result<Table<T>, Error> {
        const { assert!(align_of::<T>() <= PAGE && size_of::<T>() > 0) };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_much)?;
        Ok(Table { mapping: Mapping::new(bytes, huge, backing)?, len, of: std::marker::PhantomData })
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the whole pages among these unused values back to the system: they become zeros, or stay as they
    /// are if the system refuses.
    pub(crate) fn release(&self, values: Range<usize>) {
        let bytes = |value: usize| value * size_of::<T>();
        let (start, end) = (bytes(values.start).next_multiple_of(PAGE), bytes(values.end) / PAGE * PAGE);
        if values.end <= self.len && start < end {
            self.mapping.prepare_for_holes(end - start);
            // SAFETY: a table is only accessed by atomic loads and stores, and hints may read old values as
            // well as zeros.
            let _ = unsafe { self.mapping.discard(start, end - start) };
        }
    }

    /// Makes these bytes resident before their first use.
    pub(crate) fn populate(&self, bytes: Range<usize>) {
        self.mapping.populate(bytes);
    }

    /// Prefetches the value at `index`, which may be out of bounds.
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
        // SAFETY: the mapping has `len` values, of which these are some: it started as zeros, which is a
        // value by `Zeroed`, and is written only through `&T`, that is by T's own (atomic) operations.
        unsafe {
            let first = self.mapping.base.as_ptr().cast::<T>().add(range.start);
            std::slice::from_raw_parts(first, range.end - range.start)
        }
    }
}

/// Raw bytes. `record.rs` and `large.rs` define which code may access which bytes when.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: Mapping,
}

impl Arena {
    pub(crate) fn new(len: usize, huge: Huge, backing: &Backing) -> Result<Arena, Error> {
        Ok(Arena { mapping: Mapping::new(len, huge, backing)? })
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len
    }

    /// Whether the kernel may use huge pages here. After a small hole it may not.
    pub(crate) fn has_huge_pages(&self) -> bool {
        self.mapping.huge.load(Relaxed)
    }

    /// A pointer to the `len` bytes at `offset`, which are inside.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.mapping.len && len <= self.mapping.len - offset, "outside of the arena");
        // SAFETY: just checked to be inside of the mapping.
        unsafe { self.mapping.base.as_ptr().add(offset) }
    }

    /// # Safety
    /// These bytes are not written while the slice is in use.
    #[inline]
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: inside the mapping, initialised (zeros at first), not written by the caller's contract.
        unsafe { std::slice::from_raw_parts(self.at(offset, len), len) }
    }

    /// # Safety
    /// These bytes are not accessed in any other way while the slice is in use.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "by the caller's contract no other access exists")]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: inside the mapping, initialised, and accessed through this slice only by the caller's
        // contract.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len), len) }
    }

    /// # Safety
    /// While the reference is in use, these bytes are accessed only as this atomic.
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

    /// Gives pages of a segment back that hold no record: the tail of a segment that is being sealed, or all
    /// of a free segment.
    ///
    /// Safe because in both cases no other code uses the pages: `segment.rs` calls it from `seal` (by the
    /// thread that had the segment open) and for free segments (under the pool's lock).
    pub(crate) fn release_tail(&self, offset: usize, len: usize) {
        self.mapping.prepare_for_holes(len);
        // SAFETY: not used by other code, see above.
        unsafe { self.mapping.release(offset, len) };
    }

    /// # Safety
    /// These bytes are not used during the call.
    pub(crate) unsafe fn release(&self, offset: usize, len: usize) {
        // SAFETY: by the caller's contract.
        unsafe { self.mapping.release(offset, len) };
    }

    /// Makes these bytes resident before their first use.
    pub(crate) fn populate(&self, bytes: Range<usize>) {
        self.mapping.populate(bytes);
    }

    /// Prefetches the bytes at `offset`, which may be out of bounds.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize) {
        prefetch(self.mapping.base.as_ptr().wrapping_add(offset));
    }
}

/// A hint to the processor; reads nothing.
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
        let table: Table<AtomicU64> = Table::new(1000, Huge::No, &Backing::Anonymous).unwrap();
        assert!(table[0..1000].iter().all(|value| value.load(Relaxed) == 0));
        table[999].store(7, Relaxed);
        table.prefetch(5_000_000);
        assert_eq!(table[999].load(Relaxed), 7);
        assert_eq!(table.len(), 1000);
    }

    #[test]
    fn released_bytes_are_zeros_again() {
        let arena = Arena::new(4 * PAGE, Huge::Yes, &Backing::Anonymous).unwrap();
        // SAFETY: no other reference to this arena exists.
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
        let arena = Arena::new(4 * PAGE, Huge::No, &Backing::Anonymous).unwrap();
        // SAFETY: no other reference to this arena exists, and the range is inside it.
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
    fn what_is_unpromised_is_the_rest_of_the_limit() {
        let text = "MemTotal:  900000 kB\nCommitLimit:      500000 kB\nCommitted_AS:   123000 kB\n";
        assert_eq!(unpromised_in(text), Some(377_000 * 1024));
        assert_eq!(unpromised_in(&text.replace("123000", "600000")), Some(0));
        assert_eq!(unpromised_in("MemTotal: 1 kB\n"), None);
    }

    #[test]
    #[should_panic(expected = "outside of the arena")]
    fn bytes_outside_cannot_be_had() {
        let arena = Arena::new(PAGE, Huge::No, &Backing::Anonymous).unwrap();
        // SAFETY: no other reference to this arena exists.
        let _ = unsafe { arena.bytes(PAGE - 1, 2) };
    }
}
