//! Large values: each has its own run of bytes, and is received and sent there without a copy.
//!
//! All runs come from one reserved mapping, whose free addresses `free_ranges.rs` manages; only touched pages
//! are resident. So memory is not fragmented, and no mapping call per value is needed (the kernel limits the
//! number of mappings).
//!
//! A run begins where another one ends: two values share the page between them (decision 105). A page is charged
//! from the first run on it until the last one is gone, that is, while it is not free as a whole.
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
    /// Bytes at the front that may be used, as their pages are charged: all of the run once the value is complete.
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

    /// Its bytes that may be used, with padding.
    pub(crate) fn charge(&self) -> u64 {
        self.charged as u64
    }

    /// Its bytes that may be used, without padding.
    pub(crate) fn charged_len(&self) -> usize {
        self.charged.min(self.len)
    }

    /// Bytes of whole pages that are still to be charged.
    pub(crate) fn missing(&self) -> u64 {
        self.run().missing() as u64
    }

    /// Makes `bytes` more bytes usable: whole pages that the caller has charged.
    pub(crate) fn extend(&mut self, bytes: u64) {
        let mut run = self.run();
        run.charged = run.inner().start - run.offset + run.charged_inner() + bytes as usize;
        if run.missing() == 0 {
            run.charged = run.len;
        }
        debug_assert!(bytes.is_multiple_of(PAGE as u64) && run.charged <= run.len);
        self.space.charged.fetch_add((run.charged - self.charged) as u64, Relaxed);
        self.space.pages.fetch_add(bytes, Relaxed);
        self.charged = run.charged;
    }

    fn run(&self) -> Run {
        Run { offset: self.offset, len: run_len(self.len), charged: self.charged }
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
        let run = self.run();
        if run.charged <= AT_ONCE_MAX {
            // SAFETY: the run is this value's, which ends here.
            unsafe { self.space.release(run) };
        } else {
            self.space.unused.add(run);
        }
    }
}

/// Runs begin and end at multiples of this, so that two values share no line of a processor's cache.
const RUN_ALIGN: usize = 64;

/// Bytes of the run for a value of this length.
pub(crate) fn run_len(len: usize) -> usize {
    len.max(1).next_multiple_of(RUN_ALIGN)
}

/// The most that a value of this length adds to what is charged.
pub(crate) fn charge_max(len: usize) -> u64 {
    (run_len(len).next_multiple_of(PAGE) + PAGE) as u64
}

/// The memory of all large values.
#[derive(Debug)]
pub(crate) struct LargeSpace {
    arena: Arena,
    budget: Arc<Budget>,
    free_ranges: Mutex<FreeRanges>,
    /// Bytes of runs that may be used.
    charged: AtomicU64,
    /// Bytes of the pages below them.
    pages: AtomicU64,
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
            pages: AtomicU64::new(0),
            unused: Unused::default(),
        })
    }

    /// Takes a value of `len` bytes, if there is memory for it and for `keep` bytes more. Its bytes are those of earlier values.
    pub(crate) fn take(self: &Arc<LargeSpace>, len: usize, keep: u64) -> Option<LargeValue> {
        let mut value = self.place(len, keep)?;
        let missing = value.missing();
        if !self.budget.charge_keeping(missing, keep) {
            return None;
        }
        value.extend(missing);
        Some(value)
    }

    /// Address space for a value, if there is memory for the pages at its ends, and for `keep` bytes more: they may be shared, so that they are
    /// charged at once. Others are charged by whoever [extends](LargeValue::extend) it.
    pub(crate) fn place(self: &Arc<LargeSpace>, len: usize, keep: u64) -> Option<LargeValue> {
        let mut free = self.free_ranges();
        let run = Run { offset: free.smallest(run_len(len))?, len: run_len(len), charged: 0 };
        let ends = new_ends(&free, &run);
        if !self.budget.charge_keeping(ends, keep) {
            return None;
        }
        let taken = free.take_at(run.offset, run.len);
        debug_assert!(taken, "it was just found");
        drop(free);
        Some(self.begin(run, len, ends))
    }

    /// The stored value of another process, at its place in the same memory.
    pub(crate) fn thaw(self: &Arc<LargeSpace>, offset: usize, len: usize) -> Option<LargeValue> {
        // No value is longer than the largest item, 1 GiB.
        if len > 1 << 30 || !offset.is_multiple_of(RUN_ALIGN) {
            return None;
        }
        let run = Run { offset, len: run_len(len), charged: 0 };
        let mut free = self.free_ranges();
        let ends = new_ends(&free, &run);
        if !free.take_at(run.offset, run.len) {
            return None;
        }
        drop(free);
        let mut value = self.begin(run, len, ends);
        let missing = value.missing();
        self.budget.add(ends + missing);
        value.extend(missing);
        Some(value)
    }

    /// The value of a run whose ends are charged.
    fn begin(self: &Arc<LargeSpace>, run: Run, len: usize, ends: u64) -> LargeValue {
        self.pages.fetch_add(ends, Relaxed);
        let mut value = LargeValue { space: Arc::clone(self), offset: run.offset, len, charged: 0 };
        value.extend(0);
        value
    }

    /// Bytes of values, stored or not, that may be used.
    pub(crate) fn bytes(&self) -> u64 {
        self.charged.load(Relaxed).saturating_sub(self.unused())
    }

    /// Bytes that are charged for them.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.pages.load(Relaxed)
    }

    /// Bytes of dropped values that are still charged: [`LargeSpace::release_some`] gives them back.
    #[inline]
    pub(crate) fn unused(&self) -> u64 {
        self.unused.charged()
    }

    /// Gives some unused memory back: at most `most` bytes, rounded up to pages. Returns how many bytes.
    #[inline]
    pub(crate) fn release_some(&self, most: usize) -> usize {
        let Some(run) = self.unused.next(most.max(1).next_multiple_of(PAGE).min(STEP_MAX)) else { return 0 };
        // SAFETY: its value was dropped, and the run has been removed from the unused ones.
        unsafe { self.release(run) };
        run.charged
    }

    /// Gives the addresses of a run back, and the pages that no other run is on.
    ///
    /// # Safety
    /// No reference to the run's bytes exists, and none is made before the run is taken again.
    unsafe fn release(&self, run: Run) {
        let inner = run.inner();
        let mut pages = inner.clone();
        let mut free = self.free_ranges();
        free.give_back(run.offset, run.len);
        for end in run.ends().filter(|end| free.contains(end)) {
            pages = pages.start.min(end.start)..pages.end.max(end.end);
        }
        // Nobody takes the pages while they are given to the system. Whoever shares one of the others may go on.
        let some = !pages.is_empty() && free.take_at(pages.start, pages.len());
        drop(free);
        self.charged.fetch_sub(run.charged as u64, Relaxed);
        if some {
            let charged = pages.len() - run.missing();
            let untouched = inner.start + run.charged_inner()..inner.end;
            let parts = match untouched.is_empty() {
                true => [pages.clone(), 0..0],
                false => [pages.start..untouched.start, untouched.end..pages.end],
            };
            for part in parts {
                // SAFETY: no run is on these pages, and none will be before they are given back below.
                unsafe { self.arena.release(part.start, part.len()) };
            }
            self.budget.give_back(charged as u64);
            self.pages.fetch_sub(charged as u64, Relaxed);
            self.free_ranges().give_back(pages.start, pages.len());
        }
    }

    fn free_ranges(&self) -> MutexGuard<'_, FreeRanges> {
        lock(&self.free_ranges)
    }
}

/// Bytes of the pages at the ends of a free run that no other run is on.
fn new_ends(free: &FreeRanges, run: &Run) -> u64 {
    run.ends().filter(|end| free.contains(end)).map(|end| end.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

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
        assert_eq!(space.bytes(), 40_000 + 4 * 40_064);
        assert_eq!(space.budget.charged(), 49 * 4096, "each begins where the one before it ends");
        drop(values);
        assert_eq!(space.budget.charged(), 0);
    }

    #[test]
    fn a_page_is_charged_until_the_last_run_on_it_is_gone() {
        let space = space(1 << 20);
        let mut values: Vec<Option<LargeValue>> = (0..4).map(|_| space.take(1024, 0)).collect();
        assert_eq!(space.budget.charged(), 4096);
        values.push(space.take(4096, 0));
        let long = space.take(10_000, 0);
        assert_eq!(space.budget.charged(), 4096 * 5);
        drop(long);
        values.iter_mut().flatten().for_each(|value| value.as_mut().fill(7));
        assert_eq!(space.budget.charged(), 4096 * 2);
        for gone in [0, 2, 3, 4] {
            values[gone] = None;
        }
        assert_eq!(space.budget.charged(), 4096);
        assert_eq!(values[1].as_ref().unwrap().as_ref(), [7; 1024]);
        values.clear();
        assert_eq!((space.budget.charged(), space.page_bytes(), space.bytes()), (0, 0, 0));
    }

    /// A value, and its byte as far as it was written.
    struct Written {
        value: LargeValue,
        byte: u8,
        len: usize,
    }

    impl Written {
        fn check(&self) {
            assert!(self.value.as_ref()[..self.len].iter().all(|byte| *byte == self.byte));
        }
    }

    #[test]
    fn what_is_charged_is_the_pages_that_values_are_on() {
        for seed in 0..20 {
            let space = space(1 << 20);
            let mut prng = Prng::new(seed);
            let mut values: Vec<Written> = Vec::new();
            for round in 0..3000 {
                let most = 16 << prng.below(14);
                let len = 1 + prng.below(most) as usize;
                let written = |value| Written { value, byte: round as u8, len: 0 };
                match prng.below(4) {
                    0 => values.extend(space.take(len, 0).map(written)),
                    1 => values.extend(space.place(len, 0).map(written)),
                    2 if !values.is_empty() => {
                        let number = prng.below(values.len() as u64) as usize;
                        let Written { value, byte, len } = &mut values[number];
                        let more = value.missing().min(8192);
                        if space.budget.charge(more) {
                            value.extend(more);
                        }
                        *len = value.charged_len();
                        value.as_mut()[..*len].fill(*byte);
                    }
                    _ if !values.is_empty() => {
                        values.swap_remove(prng.below(values.len() as u64) as usize).check();
                    }
                    _ => {}
                }
                check_pages(&space, &values);
            }
            values.iter().for_each(Written::check);
            values.clear();
            check_pages(&space, &values);
        }
    }

    fn check_pages(space: &LargeSpace, values: &[Written]) {
        let mut pages = std::collections::BTreeSet::new();
        for run in values.iter().map(|written| written.value.run()) {
            pages.extend(run.ends().map(|end| end.start));
            let inner = run.inner();
            pages.extend((inner.start..inner.start + run.charged_inner()).step_by(PAGE));
        }
        let bytes: u64 = values.iter().map(|written| written.value.charge()).sum();
        let expected = (pages.len() * PAGE) as u64;
        assert_eq!((space.budget.charged(), space.page_bytes(), space.bytes()), (expected, expected, bytes));
    }

    #[test]
    fn neighbours_that_are_dropped_at_the_same_time_keep_what_is_others() {
        let space = space(4 << 20);
        std::thread::scope(|scope| {
            for byte in 0..4u8 {
                let space = &space;
                scope.spawn(move || {
                    let mut prng = Prng::new(u64::from(byte));
                    let mut kept: Vec<Written> = Vec::new();
                    for _ in 0..2000 {
                        let len = 500 + prng.below(9000) as usize;
                        if let Some(mut value) = space.take(len, 0) {
                            value.as_mut().fill(byte);
                            kept.push(Written { value, byte, len });
                        }
                        if kept.len() > 20 {
                            kept.swap_remove(prng.below(20) as usize).check();
                        }
                    }
                });
            }
        });
        assert_eq!((space.budget.charged(), space.page_bytes(), space.bytes()), (0, 0, 0));
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
