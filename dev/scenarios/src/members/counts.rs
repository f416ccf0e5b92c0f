//! Counts of what played agents have seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the agents of a process have seen.
#[derive(Default)]
pub(super) struct TurnCounts {
    pub(super) connected: AtomicU64,
    pub(super) turns: AtomicU64,
    /// Answers that were none, and connections that have ended.
    pub(super) failed: AtomicU64,
    /// Generations that routers have got.
    pub(super) loaded: AtomicU64,
    /// Hosts that keep the change that they were told of.
    pub(super) changed: AtomicU64,
}

/// As many as the counts have fields.
pub(super) const COUNTS: usize = 5;

impl TurnCounts {
    /// In the order of the fields.
    pub(super) fn all(&self) -> [u64; COUNTS] {
        [&self.connected, &self.turns, &self.failed, &self.loaded, &self.changed]
            .map(|count| count.load(Ordering::Relaxed))
    }
}
