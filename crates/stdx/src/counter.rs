//! Counters that one thread writes and any thread reads.
//!
//! No locked instruction: the writer loads, adds and stores; a reader sees a value that was true a moment ago.
//!
//! Sums over several counters are read one counter after the other, while their writers go on. [`Sum`] and [`since`]
//! are the ways to read them, so that no sum and no difference ever shows less than nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer: only one thread may change it. A second one would lose counts (and nothing worse
/// than that).
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Takes `count` away. Where several writers count the same thing, each on its own counter, one of them may fall
    /// below zero, and wraps; read them as a [`Sum`].
    #[inline]
    pub fn sub(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(count), Relaxed);
    }

    /// Puts `value` in place of what was counted.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The sum of counters of one thing, read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds what one writer has counted.
    #[inline]
    pub fn add(&mut self, counter: &Counter) {
        self.0 = self.0.wrapping_add(counter.value());
    }

    /// The sum. If one writer was read before it counted what another had taken away by the time it was read, less than
    /// nothing seems to be there for a moment: that is nothing.
    #[inline]
    pub fn value(self) -> u64 {
        if self.0 > u64::MAX / 2 { 0 } else { self.0 }
    }
}

impl<'c> FromIterator<&'c Counter> for Sum {
    fn from_iter<I: IntoIterator<Item = &'c Counter>>(counters: I) -> Sum {
        let mut sum = Sum::default();
        counters.into_iter().for_each(|counter| sum.add(counter));
        sum
    }
}

/// The count between two readings. Zero, if the later one shows less: a read without a lock may.
#[inline]
pub fn since(now: u64, earlier: u64) -> u64 {
    now.saturating_sub(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_writers_count_one_thing_together() {
        let (came, went) = (Counter::default(), Counter::default());
        came.add(5);
        went.sub(3);
        assert_eq!([&came, &went].into_iter().collect::<Sum>().value(), 2);
        went.set(1);
        assert_eq!([&came, &went].into_iter().collect::<Sum>().value(), 6);
    }

    #[test]
    fn a_sum_that_is_read_while_it_changes_is_never_below_zero() {
        let (came, went) = (Counter::default(), Counter::default());
        let mut sum = Sum::default();
        sum.add(&came);
        // Between the two readings.
        came.add(3);
        went.sub(3);
        sum.add(&went);
        assert_eq!(sum.value(), 0);
        assert_eq!((since(5, 3), since(3, 5)), (2, 0));
    }
}
