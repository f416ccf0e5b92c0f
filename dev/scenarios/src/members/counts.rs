//! Names of the members, and counts of what their agents have seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// Controllers that share the members.
pub(super) const CONTROLLERS: usize = 3;

/// What the agents of a process have seen.
#[derive(Default)]
pub(super) struct TurnCounts {
    pub(super) connected: AtomicU64,
    pub(super) turns: AtomicU64,
    /// Answers that were none, and connections that have ended.
    pub(super) failed: AtomicU64,
    /// Generations that routers have got.
    pub(super) loaded: AtomicU64,
}

impl TurnCounts {
    /// In the order of the fields.
    pub(super) fn all(&self) -> [u64; 4] {
        [&self.connected, &self.turns, &self.failed, &self.loaded].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The host and the zone of a number.
pub(super) fn names(number: usize) -> (String, String) {
    (format!("h{number}"), format!("z{}", number % CONTROLLERS + 1))
}
