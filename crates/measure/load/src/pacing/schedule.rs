//! Schedules: the times of an open loop's requests, independent of the server.
//!
//! Each thread has a schedule of its own, with its share of the rate. Poisson processes and renewal processes of
//! small shares add up to nearly Poisson arrivals; threads of the constant schedule take turns.

use crate::measure::seconds::SECOND_NS;
use crate::pacing::feed::Unsent;
use crate::types::arrivals::Arrivals;
use crate::types::part::Share;
use std::ops::Range;
use stdx::prng::Prng;

/// The times at which one thread is to send, in nanoseconds of the clock, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    /// Mean time between two requests of this thread.
    mean_ns: f64,
    prng: Prng,
    start_ns: u64,
    /// Since the start. 53 bits of nanoseconds last for a hundred days.
    next_ns: f64,
    /// Requests that count.
    window_ns: Range<u64>,
    /// Of these, how many are left.
    left: u64,
}

impl Schedule {
    /// `rate` is that of all threads together, per second.
    pub(crate) fn new(arrivals: Arrivals, rate: f64, share: Share, seed: u64) -> Schedule {
        let mean_ns = 1e9 / rate * share.threads as f64;
        let prng = Prng::new(stdx::prng::mix(seed ^ SALT).wrapping_add(share.index as u64));
        let mut schedule = Schedule {
            arrivals,
            mean_ns,
            prng,
            start_ns: 0,
            next_ns: 0.0,
            window_ns: 0..u64::MAX,
            left: u64::MAX,
        };
        schedule.next_ns = match arrivals {
            Arrivals::Constant => mean_ns * share.index as f64 / share.threads as f64,
            _ => schedule.gap_ns(),
        };
        schedule
    }

    /// Begins at a time, and ends with the window or after this many requests in it.
    pub(crate) fn during(self, start_ns: u64, window_ns: Range<u64>, requests_max: u64) -> Schedule {
        Schedule { start_ns, window_ns, left: requests_max, ..self }
    }

    /// Ends before this time, too.
    pub(crate) fn end(&mut self, at_ns: u64) {
        self.window_ns.end = self.window_ns.end.min(at_ns);
    }

    /// The next time; `None` after the last.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u64> {
        let next = self.next();
        (next < self.window_ns.end && self.left > 0).then_some(next)
    }

    /// In the distant future, if the rate is that low.
    #[inline]
    fn next(&self) -> u64 {
        self.start_ns.saturating_add(self.next_ns as u64)
    }

    /// Passes over the next time.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if self.next() >= self.window_ns.start {
            self.left -= 1;
        }
        self.next_ns += self.gap_ns();
    }

    /// Whether a time is in the window, rather than in the warm-up.
    pub(crate) fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.window_ns.start
    }

    /// About which times of the window are left: as many for each second as its rate makes of it.
    pub(crate) fn left(&self) -> Vec<Unsent> {
        let Some(next) = self.peek() else { return Vec::new() };
        // What it is behind with from before the window does not count.
        let mut from = next.max(self.window_ns.start);
        let end = match self.window_ns.end {
            // Only the number of requests ends it.
            u64::MAX => return vec![Unsent { at_ns: from, requests: self.left }],
            end => end,
        };
        let mut requests = (((end - from) as f64 / self.mean_ns) as u64 + 1).min(self.left);
        let mut left = Vec::new();
        while requests > 0 && from < end {
            let into = (from - self.window_ns.start) % SECOND_NS;
            let until = (from + SECOND_NS - into).min(end);
            let part = match until == end {
                true => requests,
                false => (((until - from) as f64 / self.mean_ns).round() as u64).min(requests),
            };
            left.push(Unsent { at_ns: from, requests: part });
            (from, requests) = (until, requests - part);
        }
        left
    }

    #[inline]
    fn gap_ns(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Constant => self.mean_ns,
            // 1 - unit() is never 0.
            Arrivals::Poisson => -(1.0 - self.prng.unit()).ln() * self.mean_ns,
            Arrivals::Pareto(shape) => {
                // Of mean scale / (1 - shape).
                let scale = self.mean_ns * (1.0 - shape);
                scale * ((1.0 - self.prng.unit()).powf(-shape) - 1.0) / shape
            }
        }
    }
}

/// A seed of its own keeps arrivals independent of the commands and keys.
const SALT: u64 = 0x6172_7269_7661_6c73;

#[cfg(test)]
mod tests {
    use super::*;

    fn left(schedule: &Schedule) -> u64 {
        schedule.left().iter().map(|unsent| unsent.requests).sum()
    }

    #[test]
    fn what_is_left_belongs_to_its_seconds() {
        let schedule = Schedule::new(Arrivals::Constant, 100.0, Share { index: 0, threads: 1 }, 1);
        let schedule = schedule.during(500_000_000, 1_500_000_000..4_000_000_000, u64::MAX);
        let left: Vec<(u64, u64)> =
            schedule.left().iter().map(|unsent| (unsent.at_ns, unsent.requests)).collect();
        // The window begins a second after the schedule; its last second is half of one.
        assert_eq!(left, [(1_500_000_000, 100), (2_500_000_000, 100), (3_500_000_000, 51)]);
    }

    fn times(arrivals: Arrivals, rate: f64, threads: usize, end_ns: u64) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for index in 0..threads {
            let share = Share { index, threads };
            let mut schedule = Schedule::new(arrivals, rate, share, 1).during(1000, 0..end_ns, u64::MAX);
            while let Some(next) = schedule.peek() {
                all.push(next);
                schedule.advance();
            }
            assert_eq!(left(&schedule), 0);
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn counts_vary_as_much_as_their_law_says() {
        for arrivals in
            [Arrivals::Poisson, Arrivals::Constant, Arrivals::Pareto(0.15), Arrivals::Pareto(0.45)]
        {
            let off = |seed: u64| {
                let schedule = Schedule::new(arrivals, 10_000.0, Share { index: 0, threads: 1 }, seed);
                let mut schedule = schedule.during(0, 0..1_000_000_000, u64::MAX);
                let mut count: f64 = 0.0;
                while schedule.peek().is_some() {
                    schedule.advance();
                    count += 1.0;
                }
                (count - 10_000.0).powi(2)
            };
            let found = ((0..200).map(off).sum::<f64>() / 200.0).sqrt();
            let theory = arrivals.deviation(10_000.0);
            // Of a heavy tail, one second has seen less than all.
            assert!(found <= theory * 1.2 && found >= theory * 0.4, "{arrivals}: {found}, not {theory}");
        }
    }

    #[test]
    fn threads_of_the_constant_schedule_take_turns() {
        let expected: Vec<u64> = (0..10).map(|n| 1000 + n * 100_000).collect();
        assert_eq!(times(Arrivals::Constant, 10_000.0, 1, 1_000_000), expected);
        assert_eq!(times(Arrivals::Constant, 10_000.0, 2, 1_000_000), expected);
        assert_eq!(times(Arrivals::Constant, 10_000.0, 5, 1_000_000), expected);
    }

    /// Mean and coefficient of variation of the times between arrivals.
    #[track_caller]
    fn check(arrivals: Arrivals, threads: usize, variation: f64) {
        let all = times(arrivals, 50_000.0, threads, 20_000_000_000);
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 20_000.0 - 1.0).abs() < 0.01, "{arrivals}: mean {mean}");
        assert!(
            (variance.sqrt() / mean / variation - 1.0).abs() < 0.02,
            "{arrivals}: {}",
            variance.sqrt() / mean
        );
    }

    #[test]
    fn arrivals_have_the_rate_and_the_spread_of_their_law() {
        check(Arrivals::Poisson, 1, 1.0);
        check(Arrivals::Poisson, 4, 1.0);
        // A generalised Pareto law has variance 1 / (1 - 2 shape) times the squared mean.
        let shape: f64 = 0.154_971;
        check(Arrivals::Pareto(shape), 1, (1.0 / (1.0 - 2.0 * shape)).sqrt());
    }

    #[test]
    fn a_rate_that_is_too_low_for_the_clock_is_never_due() {
        for arrivals in [Arrivals::Poisson, Arrivals::Pareto(0.4), Arrivals::Constant] {
            let schedule = Schedule::new(arrivals, 1e-12, Share { index: 1, threads: 2 }, 1);
            let schedule = schedule.during(5_000_000_000, 5_000_000_000..9_000_000_000, u64::MAX);
            assert_eq!((schedule.peek(), left(&schedule)), (None, 0), "{arrivals}");
        }
    }

    #[test]
    fn what_is_left_is_left_of_the_window() {
        let schedule = Schedule::new(Arrivals::Constant, 1000.0, Share { index: 0, threads: 1 }, 1);
        let schedule = schedule.during(0, 1_000_000_000..2_000_000_000, u64::MAX);
        assert_eq!(left(&schedule), 1001, "and none of the warm-up's thousand, late as they are");
    }

    #[test]
    fn a_schedule_ends_after_its_requests_or_its_time() {
        let share = Share { index: 0, threads: 1 };
        let schedule = Schedule::new(Arrivals::Constant, 1000.0, share, 1);
        let mut schedule = schedule.during(0, 5_000_000..u64::MAX, 3);
        let mut count = 0;
        while schedule.peek().is_some() {
            schedule.advance();
            count += 1;
        }
        // Five while it warms up, three in the window.
        assert_eq!((count, left(&schedule)), (8, 0));
    }
}
