//! Pressure of writers on the devices: whether there is room for what leaves memory, and whether the devices get on.
//!
//! Nobody waits in this crate. Whoever serves clients asks, and lets a client wait whose item would push others out of memory
//! (decision 53).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the tier's lock guards, as others may see it without the lock.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    is_full: AtomicBool,
    progress: AtomicU64,
}

impl Pressure {
    /// Takes note whether there are few pieces left for what leaves memory, or no segment.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Relaxed);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Takes note that a device has written a piece, or that a segment was emptied.
    pub(crate) fn note_progress(&self) {
        self.progress.fetch_add(1, Relaxed);
    }

    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Relaxed)
    }
}
