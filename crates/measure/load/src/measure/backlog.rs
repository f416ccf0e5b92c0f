//! Backlog of a server behind the schedule of an open loop: requests that are due and not answered, at nine moments of
//! the window.
//!
//! Pure. Latencies alone do not show a backlog: a request that is answered after the window looks like any other.

use std::ops::Range;

/// The window has this many parts of equal length.
const PARTS: usize = 8;

/// Requests that were due and not answered when the window opened and at the end of each eighth of it; where the
/// schedule ended earlier, as of then. Those of several threads are added up.
pub(crate) type BacklogCounts = [u64; PARTS + 1];

/// Takes the counts of one thread.
#[derive(Debug)]
pub(crate) struct Backlog {
    window_ns: Range<u64>,
    counts: BacklogCounts,
    taken: usize,
    /// When the next one is to be taken.
    next_ns: u64,
}

impl Backlog {
    pub(crate) fn new(window_ns: Range<u64>) -> Backlog {
        Backlog { next_ns: window_ns.start, window_ns, counts: BacklogCounts::default(), taken: 0 }
    }

    /// Whether a count is to be taken.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Takes a count of the requests that are due and not answered. A worker that was suspended takes the counts that
    /// it has missed now.
    pub(crate) fn take(&mut self, now_ns: u64, count: u64) {
        while self.is_due(now_ns) {
            self.counts[self.taken] = count;
            self.taken += 1;
            self.next_ns = match self.taken {
                // A window without an end has no eighths.
                1..=PARTS if self.window_ns.end < u64::MAX => {
                    let len_ns = self.window_ns.end - self.window_ns.start;
                    self.window_ns.start + (u128::from(len_ns) * self.taken as u128 / PARTS as u128) as u64
                }
                _ => u64::MAX,
            };
        }
    }

    /// Nothing more becomes due.
    pub(crate) fn end(&mut self, count: u64) {
        self.counts[self.taken..].fill(count);
        (self.taken, self.next_ns) = (self.counts.len(), u64::MAX);
    }

    /// Whether all counts are taken.
    pub(crate) fn is_over(&self) -> bool {
        self.taken == self.counts.len()
    }

    pub(crate) fn counts(&self) -> BacklogCounts {
        self.counts
    }
}

/// The conclusions from the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Growth {
    /// Requests by which the backlog grew in the window.
    pub(crate) requests: f64,
    /// It grew in every eighth, so it would grow further.
    pub(crate) is_steady: bool,
}

/// This many requests can be pending by chance.
const CHANCE: f64 = 10.0;
/// More of the window's requests than this left over at its end: the server did not keep up.
const SHARE_MAX: f64 = 0.01;

impl Growth {
    /// `usual` requests are pending even if the server keeps up: the rate by the latency that nine of ten exceed.
    pub(crate) fn of(counts: &BacklogCounts, usual: f64) -> Growth {
        let [first, .., last] = *counts;
        let before = usual.max(first as f64);
        let requests = (last as f64 - before).max(0.0);
        let grows = counts.windows(2).all(|pair| pair[1] > pair[0]);
        Growth { requests, is_steady: grows && requests > before + CHANCE }
    }

    /// Whether the server did not keep up, with this many requests in the window.
    pub(crate) fn is_overload(&self, scheduled: u64) -> bool {
        self.is_steady || self.requests > SHARE_MAX * scheduled as f64 + CHANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: impl Fn(u64) -> u64) -> BacklogCounts {
        let mut backlog = Backlog::new(1000..9000);
        for now_ns in (0..10_000).step_by(100) {
            if backlog.is_due(now_ns) {
                backlog.take(now_ns, of(now_ns));
            }
        }
        assert!(backlog.is_over());
        backlog.counts()
    }

    #[test]
    fn counts_are_taken_at_the_beginning_and_after_each_eighth() {
        assert_eq!(counts(|now_ns| now_ns), [1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000]);
        let mut suspended = Backlog::new(1000..9000);
        suspended.take(1000, 5);
        suspended.take(4500, 70);
        suspended.end(3);
        assert_eq!(suspended.counts(), [5, 70, 70, 70, 3, 3, 3, 3, 3]);
        let mut endless = Backlog::new(1000..u64::MAX);
        endless.take(1000, 5);
        assert!(!endless.is_due(u64::MAX - 1) && !endless.is_over());
        endless.end(9);
        assert_eq!(endless.counts(), [5, 9, 9, 9, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn a_backlog_that_grows_is_an_overload() {
        let check = |counts: BacklogCounts, usual, scheduled, wanted| {
            assert_eq!(Growth::of(&counts, usual).is_overload(scheduled), wanted, "{counts:?}");
        };
        check([3, 5, 2, 9, 4, 1, 6, 2, 8], 4.0, 1000, false);
        // Half of what was asked for is left.
        check(counts(|now_ns| now_ns / 10), 4.0, 1600, true);
        // Less than a hundredth, but it never shrinks.
        check([20, 40, 70, 90, 140, 190, 210, 270, 300], 10.0, 1_000_000, true);
        check([20, 40, 70, 90, 140, 100, 210, 270, 300], 10.0, 1_000_000, false);
        // A server that is far away, asked without warm-up: always as much is on its way.
        check([0, 200, 200, 200, 200, 200, 200, 200, 200], 190.0, 1000, false);
        // It had fallen behind before, and has caught up.
        check([500, 400, 300, 200, 100, 0, 0, 0, 0], 0.0, 1000, false);
    }
}
