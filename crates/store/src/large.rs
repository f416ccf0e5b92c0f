//! Large values: each in its own run of pages, so that it can be received and sent where it lies.
//!
//! All runs come from one reserved mapping, whose free addresses `places.rs` knows; only touched pages are resident. So
//! there is no fragmentation of memory, and no mapping call per value (the kernel allows few mappings).
#![expect(unsafe_code, reason = "exclusive and shared access to the bytes of a run")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::budget::Budget;
use crate::error::Error;
use crate::memory::{Arena, Huge, PAGE};
use crate::places::Places;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::unused::{AT_ONCE_MAX, Run, STEP_MAX, Unused};

/// Values of at least this many bytes live in their own memory and are sent without a copy. Below,
/// copying costs less (32 KiB: some 3 µs) than a guard, a system call for the pages and their first touch.
pub const LARGE_VALUE_MIN: usize = 32 * 1024;

/// A value in its own memory. To be filled by whoever asked for it, then stored; dropped, it is given back.
#[derive(Debug)]
pub struct LargeValue {
    space: Arc<LargeSpace>,
    offset: usize,
    len: usize,
    /// Bytes of whole pages, from the front, that are charged; all of them once the value is complete.
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

    /// What it takes from the memory limit.
    pub(crate) fn charge(&self) -> u64 {
        self.charged as u64
    }

    /// The bytes at the front that are charged.
    pub(crate) fn charged_len(&self) -> usize {
        self.charged.min(self.len)
    }

    /// So many more bytes of whole pages, which the caller has charged, can be used.
    pub(crate) fn extend(&mut self, bytes: u64) {
        self.charged += bytes as usize;
        debug_assert!(self.charged.is_multiple_of(PAGE) && self.charged as u64 <= charge_of(self.len));
        self.space.charged.fetch_add(bytes, Relaxed);
    }
}

impl AsRef<[u8]> for LargeValue {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the run belongs to this value until it is dropped, and writing takes `&mut self`.
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

/// What a value of this length takes from the memory limit: whole pages.
pub(crate) fn charge_of(len: usize) -> u64 {
    len.max(1).next_multiple_of(PAGE) as u64
}

/// Where large values live.
#[derive(Debug)]
pub(crate) struct LargeSpace {
    arena: Arena,
    budget: Arc<Budget>,
    places: Mutex<Places>,
    charged: AtomicU64,
    /// Runs of values that are gone.
    unused: Unused,
}

impl LargeSpace {
    pub(crate) fn new(reserve: u64, budget: Arc<Budget>) -> Result<LargeSpace, Error> {
        let arena = Arena::new(reserve as usize, Huge::No)?;
        Ok(LargeSpace {
            places: Mutex::new(Places::new(arena.len())),
            arena,
            budget,
            charged: AtomicU64::new(0),
            unused: Unused::default(),
        })
    }

    /// A value of `len` bytes (zeros), if there is memory for it and for `keep` bytes more.
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

    /// A place for a value, of which nothing is charged yet.
    pub(crate) fn place(self: &Arc<LargeSpace>, len: usize) -> Option<LargeValue> {
        let offset = self.places().take(charge_of(len) as usize)?;
        Some(LargeValue { space: Arc::clone(self), offset, len, charged: 0 })
    }

    /// Bytes charged for values, stored or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.charged.load(Relaxed).saturating_sub(self.unused())
    }

    /// Bytes still charged for values that are gone: [`LargeSpace::release_some`] gives them back.
    #[inline]
    pub(crate) fn unused(&self) -> u64 {
        self.unused.charged()
    }

    /// Gives some of the unused memory back: so many bytes at most, rounded up to pages. Returns how much that was.
    #[inline]
    pub(crate) fn release_some(&self, most: usize) -> usize {
        let Some(run) = self.unused.next(most.next_multiple_of(PAGE).min(STEP_MAX)) else { return 0 };
        // SAFETY: its value is gone, and it has been taken from the unused ones.
        unsafe { self.release(run) };
        run.charged
    }

    /// Gives a run back.
    ///
    /// # Safety
    /// Nobody uses it any more, or will before it is taken anew.
    unsafe fn release(&self, run: Run) {
        // SAFETY: handed through; it is handed on only after this.
        unsafe { self.arena.release(run.offset, run.charged) };
        self.budget.give_back(run.charged as u64);
        self.charged.fetch_sub(run.charged as u64, Relaxed);
        self.places().give_back(run.offset, run.len);
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        lock(&self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(limit: u64) -> Arc<LargeSpace> {
        Arc::new(LargeSpace::new(1 << 20, Arc::new(Budget::new(limit))).unwrap())
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
    fn places_are_used_again() {
        let space = space(1 << 20);
        for round in 0..1000 {
            let len = 40_000 + round * 900;
            assert!(space.take(len, 0).is_some(), "{len} bytes");
        }
    }
}
