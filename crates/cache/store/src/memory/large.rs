//! Large values: each has its own run of pages, and is received and sent there without a copy.
//!
//! All runs come from one reserved mapping, whose free addresses `free_ranges.rs` manages; only touched pages
//! are resident. So memory is not fragmented, and no mapping call per value is needed (the kernel limits the
//! number of mappings).
#![expect(unsafe_code, reason = "exclusive and shared access to the bytes of a run")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::Error;
use crate::memory::backing::Backing;
use crate::memory::budget::Budget;
use crate::memory::free_ranges::FreeRanges;
use crate::memory::system::{Arena, Huge, PAGE};
use crate::memory::unused::{AT_ONCE_MAX, Run, STEP_MAX, Unused};
use crate::sync::{Mutex, MutexGuard, lock};

/// Values of at least this many bytes have their own memory and are sent without a copy. Below, copying costs
/// less (32 KiB: some 3 µs) than a guard, a system call for the pages and their first touch.
pub const LARGE_VALUE_MIN: usize = 32 * 1024;

/// A value in its own memory. It is filled, then stored; its memory is given back on drop.
#[derive(Debug)]
pub struct LargeValue {
    space: Arc<LargeSpace>,
    offset: usize,
    len: usize,
    /// Charged bytes at the front, in whole pages; all pages once the value is complete.
    charged: usize,
}

impl LargeValue {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its place and length.
    pub(crate) fn place(&self) -> [u64; 2] {
        [self.offset as u64, self.len as u64]
    }

    /// Its charge.
    pub(crate) fn charge(&self) -> u64 {
        self.charged as u64
    }

    /// Charged bytes at the front, without padding.
    pub(crate) fn charged_len(&self) -> usize {
        self.charged.min(self.len)
    }

    /// Makes `bytes` more bytes usable: whole pages that the caller has charged.
    pub(crate) fn extend(&mut self, bytes: u64) {
        self.charged += bytes as usize;
        debug_assert!(self.charged.is_multiple_of(PAGE) && self.charged as u64 <= charge_of(self.len));
        self.space.charged.fetch_add(bytes, Relaxed);
    }
}

impl AsRef<[u8]> for LargeValue {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the run belongs to this value until it is dropped, and writes need `&mut self`.
        unsafe { self.space.arena.bytes(self.offset, self.len) }
    }
}

impl AsMut<[u8]> for LargeValue {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the run belongs to this value until it is dropped, and this is its only borrow.
        unsafe { self.space.arena.bytes_mut(self.offset, self.len) }
    }
}

impl Drop for LargeValue {
    fn drop(&mut self) {
        let run = Run { offset: self.offset, len: charge_of(self.len) as usize, charged: self.charged };
        if run.charged <= AT_ONCE_MAX {
            // SAFETY: the run is this value's, which ends here.
            unsafe { self.space.release(run) };
        } else {
            self.space.unused.add(run);
        }
    }
}

/// The charge for a value of this length: whole pages.
pub(crate) fn charge_of(len: usize) -> u64 {
    len.max(1).next_multiple_of(PAGE) as u64
}

/// The memory of all large values.
#[derive(Debug)]
pub(crate) struct LargeSpace {
    arena: Arena,
    budget: Arc<Budget>,
    free_ranges: Mutex<FreeRanges>,
    charged: AtomicU64,
    /// Runs of values that were dropped.
    unused: Unused,
}

impl LargeSpace {
    pub(crate) fn new(reserve: u64, backing: &Backing, budget: Arc<Budget>) -> Result<LargeSpace, Error> {
        let arena = Arena::new(reserve as usize, Huge::No, backing)?;
        Ok(LargeSpace {
            free_ranges: Mutex::new(FreeRanges::new(arena.len())),
            arena,
            budget,
            charged: AtomicU64::new(0),
            unused: Unused::default(),
        })
    }

    /// Takes a value of `len` bytes (zeros), if there is memory for it and for `keep` bytes more.
    pub(crate) fn take(self: &Arc<LargeSpace>, len: usize, keep: u64) -> Option<LargeValue> {
        if !self.budget.charge_keeping(charge_of(len), keep) {
            return None;
        }
        let Some(mut value) = self.place(len) else {
            self.budget.give_back(charge_of(len));
            return None;
        };
        value.extend(charge_of(len));
        Some(value)
    }

    /// Address space for a value; nothing is charged yet.
    pub(crate) fn place(self: &Arc<LargeSpace>, len: usize) -> Option<LargeValue> {
        let offset = self.free_ranges().take(charge_of(len) as usize)?;
        Some(LargeValue { space: Arc::clone(self), offset, len, charged: 0 })
    }

    /// The stored value of another process, at its place in the same memory.
    pub(crate) fn thaw(self: &Arc<LargeSpace>, offset: usize, len: usize) -> Option<LargeValue> {
        // No value is longer than the largest item, 1 GiB.
        let fits = len <= 1 << 30 && offset.is_multiple_of(PAGE);
        if !fits || !self.free_ranges().take_at(offset, charge_of(len) as usize) {
            return None;
        }
        let mut value = LargeValue { space: Arc::clone(self), offset, len, charged: 0 };
        value.extend(charge_of(len));
        Some(value)
    }

    /// Bytes charged for values, stored or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.charged.load(Relaxed).saturating_sub(self.unused())
    }

    /// Bytes still charged for dropped values: [`LargeSpace::release_some`] gives them back.
    #[inline]
    pub(crate) fn unused(&self) -> u64 {
        self.unused.charged()
    }

    /// Gives some unused memory back: at most `most` bytes, rounded up to pages. Returns how many bytes.
    #[inline]
    pub(crate) fn release_some(&self, most: usize) -> usize {
        let Some(run) = self.unused.next(most.next_multiple_of(PAGE).min(STEP_MAX)) else { return 0 };
        // SAFETY: its value was dropped, and the run has been removed from the unused ones.
        unsafe { self.release(run) };
        run.charged
    }

    /// Gives the pages and addresses of a run back.
    ///
    /// # Safety
    /// No reference to the run's bytes exists, and none is made before the run is taken again.
    unsafe fn release(&self, run: Run) {
        // SAFETY: by the caller's contract; the addresses are given back only after this.
        unsafe { self.arena.release(run.offset, run.charged) };
        self.budget.give_back(run.charged as u64);
        self.charged.fetch_sub(run.charged as u64, Relaxed);
        self.free_ranges().give_back(run.offset, run.len);
    }

    fn free_ranges(&self) -> MutexGuard<'_, FreeRanges> {
        lock(&self.free_ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(limit: u64) -> Arc<LargeSpace> {
        Arc::new(LargeSpace::new(1 << 20, &Backing::Anonymous, Arc::new(Budget::new(limit))).unwrap())
    }

    #[test]
    fn values_do_not_touch_each_other_and_give_back_what_they_took() {
        let space = space(1 << 20);
        let mut values: Vec<LargeValue> = (0..5).map(|i| space.take(40_000 + i, 0).unwrap()).collect();
        for (i, value) in values.iter_mut().enumerate() {
            value.as_mut().fill(i as u8);
        }
        for (i, value) in values.iter().enumerate() {
            assert!(value.as_ref().iter().all(|byte| *byte == i as u8));
            assert_eq!(value.len(), 40_000 + i);
        }
        assert_eq!(space.budget.charged(), 5 * 40_960);
        drop(values);
        assert_eq!(space.budget.charged(), 0);
    }

    #[test]
    fn without_memory_there_is_no_value() {
        let space = space(100_000);
        let first = space.take(70_000, 0).unwrap();
        assert!(space.take(70_000, 0).is_none());
        assert!(space.take(20_000, 20_000).is_none());
        drop(first);
        assert!(space.take(70_000, 0).is_some());
    }

    #[test]
    fn addresses_are_reused() {
        let space = space(1 << 20);
        for round in 0..1000 {
            let len = 40_000 + round * 900;
            assert!(space.take(len, 0).is_some(), "{len} bytes");
        }
    }
}
