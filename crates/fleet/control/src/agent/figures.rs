//! Figures of an agent, for its metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use os::clock::Stopwatch;

/// What an agent has done. Its threads write, a scrape reads.
pub struct AgentFigures {
    clock: Stopwatch,
    /// By the clock, in milliseconds.
    answered_at_ms: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    orders: AtomicU64,
    pages_read: AtomicU64,
    pages_failed: AtomicU64,
}

impl AgentFigures {
    /// Of an agent that begins.
    pub(crate) fn new() -> AgentFigures {
        let zero = AtomicU64::default;
        AgentFigures {
            clock: Stopwatch::start(),
            answered_at_ms: zero(),
            answered: zero(),
            failed: zero(),
            orders: zero(),
            pages_read: zero(),
            pages_failed: zero(),
        }
    }

    pub(crate) fn note_turn(&self, is_answered: bool) {
        if !is_answered {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.answered_at_ms.store(self.clock.passed().as_millis() as u64, Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_orders(&self, count: usize) {
        self.orders.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_page(&self, is_read: bool) {
        let count = if is_read { &self.pages_read } else { &self.pages_failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Pages of servers and routers that were read, and that were not.
    pub(crate) fn pages(&self) -> (u64, u64) {
        (self.pages_read.load(Ordering::Relaxed), self.pages_failed.load(Ordering::Relaxed))
    }

    /// Time since a controller has answered, or since the start.
    pub(crate) fn turn_age(&self) -> Duration {
        self.clock.passed().saturating_sub(Duration::from_millis(self.answered_at_ms.load(Ordering::Relaxed)))
    }

    /// Turns that were answered, and that were not.
    pub(crate) fn turns(&self) -> (u64, u64) {
        (self.answered.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Orders in answers of controllers. The same may come again.
    pub(crate) fn orders(&self) -> u64 {
        self.orders.load(Ordering::Relaxed)
    }
}
