//! Pre-faulting: memory becomes resident before it is used.
//!
//! Where huge pages back a mapping, the first touch of one waits while the kernel clears 2 MiB: some 100 µs,
//! or milliseconds in a virtual machine whose host has to find the memory first. A dedicated thread takes
//! these faults, a few huge pages ahead of the writers. If it falls behind, a writer takes the fault itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::Thread;

use crate::memory::system::HUGE_PAGE;

/// Distance ahead of the first unused byte of a mapping: what a writer of 400 MB/s fills in 5 ms. These bytes
/// are not charged; near the limit, [`SHARE_OF_LEFT`] keeps them below it.
const AHEAD: u64 = HUGE_PAGE as u64;
/// At most one part in 8 of the memory that is left.
const SHARE_OF_LEFT: u64 = 8;

/// The pre-faulting thread, if there is one.
#[derive(Debug, Default)]
pub(crate) struct PrefaultThread(OnceLock<Thread>);

impl PrefaultThread {
    /// Registers the calling thread as the one that [`PrefaultThread::wake`] wakes.
    pub(crate) fn register(&self) {
        self.0.get_or_init(std::thread::current);
    }

    /// Wakes the thread, because more memory came into use.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

/// How much of a mapping is resident, counted from its start.
#[derive(Debug, Default)]
pub(crate) struct Frontier(AtomicU64);

impl Frontier {
    /// The range to make resident next, with `used` bytes in use and `left` bytes free. Called by one thread
    /// only.
    pub(crate) fn advance(&self, used: u64, left: u64) -> Option<std::ops::Range<usize>> {
        let from = self.0.load(Relaxed).max(used);
        let to = (used + AHEAD.min(left / SHARE_OF_LEFT)).next_multiple_of(HUGE_PAGE as u64);
        if to <= from {
            return None;
        }
        self.0.store(to, Relaxed);
        Some(from as usize..to as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_frontier_is_a_huge_page_ahead_and_stops_where_memory_does() {
        let frontier = Frontier::default();
        assert_eq!(frontier.advance(0, 100 * MIB), Some(0..2 << 20));
        assert_eq!(frontier.advance(0, 100 * MIB), None, "nothing was used meanwhile");
        assert_eq!(frontier.advance(MIB, 100 * MIB), Some(2 << 20..4 << 20));
        assert_eq!(frontier.advance(4 * MIB, 0), None, "nothing is left");
        assert_eq!(frontier.advance(9 * MIB, 100 * MIB), Some(9 << 20..12 << 20), "it had fallen behind");
    }
}
