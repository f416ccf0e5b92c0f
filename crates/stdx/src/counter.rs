//! Counters that one thread writes and any thread reads.
//!
//! No locked instruction: the writer loads, adds and stores; a reader sees a value that was true a moment ago.

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
    /// below zero, and wraps; their wrapping sum is right all the same.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_writers_count_one_thing_together() {
        let (came, went) = (Counter::default(), Counter::default());
        came.add(5);
        went.sub(3);
        assert_eq!(came.value().wrapping_add(went.value()), 2);
        went.set(1);
        assert_eq!(came.value() + went.value(), 6);
    }
}
