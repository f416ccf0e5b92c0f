//! Counters that one thread writes and any thread reads.
//!
//! No locked instruction: the writer loads, adds and stores; a reader gets a recent value.
//!
//! For a sum, several counters are read one after the other, while their writers continue. [`Sum`] and [`since`] read
//! them so that no sum and no difference is ever negative.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer: only one thread may change it. With a second one, counts would be lost, but memory
/// safety would not.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Subtracts `count`. If several writers count the same thing, each in its own counter, one of them may fall below
    /// zero, and wraps; read them as a [`Sum`].
    #[inline]
    pub fn sub(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(count), Relaxed);
    }

    /// Replaces the count by `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The sum of several counters of the same thing, read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds one writer's count.
    #[inline]
    pub fn add(&mut self, counter: &Counter) {
        self.0 = self.0.wrapping_add(counter.value());
    }

    /// The sum. It can be negative for a moment, if one writer was read before an addition, and another after the
    /// matching subtraction: it is 0 then.
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

/// The count between two readings. 0 if the later one is less, which can happen without a lock.
#[inline]
pub fn since(now: u64, earlier: u64) -> u64 {
    now.saturating_sub(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_writers_are_added() {
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
