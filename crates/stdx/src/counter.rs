//! Counters that one thread writes and any thread reads.
//!
//! No locked instruction: the writer loads, adds and stores; a reader sees a value that was true a moment ago.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Only the owning thread may call this: a second writer would lose counts (and nothing
    /// worse than that).
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
