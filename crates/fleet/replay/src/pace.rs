//! The rate of `--rate`: so many deletes in a second, evenly.

use std::time::Duration;

use os::clock::Stopwatch;

/// After a pause, what was not sent in this time may be sent at once.
const BURST: Duration = Duration::from_millis(100);

/// A limit of deletes, or none.
pub(super) struct Pace {
    interval: Option<Duration>,
    /// When the next one is due.
    due: Duration,
    clock: Stopwatch,
}

impl Pace {
    pub(super) fn new(per_s: Option<u32>) -> Pace {
        let interval = per_s.map(|per_s| Duration::from_secs(1) / per_s);
        Pace { interval, due: Duration::ZERO, clock: Stopwatch::start() }
    }

    /// Until the next delete may be sent; `None`: now.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.interval?;
        self.due.checked_sub(self.clock.passed()).filter(|wait| !wait.is_zero())
    }

    /// Counts one.
    pub(super) fn take(&mut self) {
        if let Some(interval) = self.interval {
            self.due = taken(self.due, self.clock.passed(), interval);
        }
    }
}

/// When the one after this is due.
fn taken(due: Duration, now: Duration, interval: Duration) -> Duration {
    due.max(now.saturating_sub(BURST)) + interval
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn deletes_are_an_interval_apart_and_a_pause_allows_a_short_burst() {
        assert_eq!(taken(500 * MS, 500 * MS, 10 * MS), 510 * MS);
        assert_eq!(taken(500 * MS, 505 * MS, 10 * MS), 510 * MS, "a late one does not delay the next");
        assert_eq!(taken(500 * MS, 9000 * MS, 10 * MS), 8910 * MS, "10 may follow at once");
        assert_eq!(Pace::new(None).wait(), None);
    }
}
