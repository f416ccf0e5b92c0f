//! Latencies by second, from the totals that workers show at the end of each.

use crate::measure::latency::Latency;
use crate::measure::tally::Tally;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::ops::Range;

/// Combines the workers' totals.
#[derive(Debug)]
pub(crate) struct Seconds {
    workers: usize,
    /// Seconds that not all workers have reported: how many have, and the sum of their totals.
    pending: BTreeMap<u64, (usize, Total)>,
    /// Totals of workers that have ended, by the first second that they have not reported.
    ended: Vec<(u64, Total)>,
    /// Seconds before this one are not waited for any longer.
    from: u64,
    /// The total at the end of the last second that all have reported.
    total: Option<Total>,
    whole: Vec<SecondStats>,
    /// Whole seconds that `take` has not returned yet.
    fresh: Vec<Whole>,
}

/// What was done since the window opened.
#[derive(Clone, Debug)]
pub(crate) struct Total {
    latency_ns: Histogram<u64>,
    /// If a follower shows it, and the loop is open.
    slip_ns: Option<Histogram<u64>>,
    errors: u64,
}

/// The requests that were done in one second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SecondStats {
    /// Seconds since the window opened.
    pub(crate) second: u64,
    /// `None`: none was done.
    pub(crate) latency: Option<Latency>,
    /// For an open loop, if a follower shows it.
    pub(crate) slip: Option<Latency>,
    /// Error lines and wrong values.
    pub(crate) errors: u64,
}

/// A second that all threads, or all agents, have reported.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) interval: SecondStats,
    pub(crate) latency_ns: Histogram<u64>,
    /// As in `interval`.
    pub(crate) slip_ns: Option<Histogram<u64>>,
}

/// A worker that hangs for longer than this loses its part of the seconds between, not of the run: each takes some
/// 100 kB.
const PENDING_MAX: u64 = 64;

impl Total {
    /// Of a tally without pending counts; the slip is as large as the rest.
    pub(crate) fn of(tally: &Tally, with_slip: bool) -> Total {
        let waits = tally.waits.as_ref().filter(|_| with_slip);
        Total {
            latency_ns: tally.latency_ns.clone(),
            slip_ns: waits.map(|waits| waits.slip_ns.clone()),
            errors: tally.errors + tally.wrong,
        }
    }

    fn add(&mut self, other: &Total) {
        self.latency_ns.add(&other.latency_ns).expect(ONE_SHAPE);
        if let Some((slip_ns, other)) = self.slip_ns.as_mut().zip(other.slip_ns.as_ref()) {
            slip_ns.add(other).expect(ONE_SHAPE);
        }
        self.errors += other.errors;
    }

    /// What was done since an earlier total.
    fn since(&self, before: &Total) -> Total {
        let mut between = self.clone();
        between.latency_ns.subtract(&before.latency_ns).expect(EARLIER);
        if let Some((slip_ns, before)) = between.slip_ns.as_mut().zip(before.slip_ns.as_ref()) {
            slip_ns.subtract(before).expect(EARLIER);
        }
        between.errors -= before.errors;
        between
    }
}

const ONE_SHAPE: &str = "histograms of one shape";
const EARLIER: &str = "an earlier total of the same counts";

impl Seconds {
    pub(crate) fn new(workers: usize) -> Seconds {
        Seconds {
            workers,
            pending: BTreeMap::new(),
            ended: Vec::new(),
            from: 0,
            total: None,
            whole: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Takes what one worker has done since the window opened, at the end of each of these seconds: a worker that was
    /// suspended reports several at once.
    pub(crate) fn add(&mut self, seconds: Range<u64>, total: &Total) {
        let known = seconds.start.max(self.from).max(seconds.end.saturating_sub(PENDING_MAX));
        for second in known..seconds.end {
            match self.pending.get_mut(&second) {
                Some((workers, sum)) => {
                    *workers += 1;
                    sum.add(total);
                }
                None => {
                    self.pending.insert(second, (1, total.clone()));
                }
            }
            self.settle();
        }
    }

    /// One worker has ended, and has not reported the seconds from this one on: what it has done stands for them.
    pub(crate) fn end(&mut self, from: u64, total: Total) {
        self.ended.push((from, total));
        self.settle();
    }

    /// Takes what all workers have reported, and gives up what is too old.
    fn settle(&mut self) {
        while let Some((&second, &(reported, _))) = self.pending.first_key_value() {
            let ended = self.ended.iter().filter(|(from, _)| *from <= second);
            let is_whole = reported + ended.clone().count() == self.workers;
            if !is_whole && self.pending.len() as u64 <= PENDING_MAX {
                break;
            }
            let Some((_, (_, mut total))) = self.pending.pop_first() else { break };
            self.from = second + 1;
            if !is_whole {
                continue;
            }
            ended.for_each(|(_, done)| total.add(done));
            let between = match &self.total {
                Some(before) => total.since(before),
                None => total.clone(),
            };
            let interval = SecondStats {
                second,
                latency: Latency::of(&between.latency_ns),
                slip: between.slip_ns.as_ref().and_then(Latency::of),
                errors: between.errors,
            };
            self.whole.push(interval);
            self.fresh.push(Whole { interval, latency_ns: between.latency_ns, slip_ns: between.slip_ns });
            self.total = Some(total);
        }
    }

    /// The seconds that have become whole since the last call.
    pub(crate) fn take(&mut self) -> Vec<Whole> {
        std::mem::take(&mut self.fresh)
    }

    /// The latencies of a second, if all workers have reported it and something was done in it.
    pub(crate) fn of(&self, second: u64) -> Option<Latency> {
        let at = self.whole.binary_search_by_key(&second, |interval| interval.second).ok()?;
        self.whole[at].latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(latencies_us: &[u64], errors: u64) -> Total {
        let mut tally = Tally::open();
        for us in latencies_us {
            tally.took(us * 1000);
            tally.waited(us * 500, 0, 0);
        }
        tally.settle();
        tally.errors = errors;
        Total::of(&tally, true)
    }

    #[test]
    fn a_second_is_what_was_added_to_all_totals() {
        let mut seconds = Seconds::new(2);
        seconds.add(0..1, &total(&[10], 0));
        seconds.add(1..2, &total(&[10, 500], 3));
        assert!(seconds.whole.is_empty(), "the other worker has said nothing yet");
        seconds.add(0..1, &total(&[30], 1));
        seconds.add(1..2, &total(&[30], 1));
        seconds.add(2..3, &total(&[30], 1));
        seconds.add(2..3, &total(&[10, 500], 3));
        let max_us = |latency: Option<Latency>| latency.map(|latency| latency.max_us as u64);
        let shown: Vec<_> = (seconds.whole.iter())
            .map(|second| (max_us(second.latency), max_us(second.slip), second.errors))
            .collect();
        assert_eq!(shown, [(Some(30), Some(15), 1), (Some(500), Some(250), 3), (None, None, 0)]);
    }

    #[test]
    fn what_a_worker_has_done_stands_when_it_has_ended() {
        let mut seconds = Seconds::new(2);
        (0..2).for_each(|_| seconds.add(0..1, &total(&[10], 0)));
        seconds.add(1..2, &total(&[10, 20], 0));
        seconds.add(2..3, &total(&[10, 20, 30], 0));
        assert_eq!(seconds.whole.len(), 1);
        // It was in the middle of the second from 1 on.
        seconds.end(1, total(&[10, 700], 2));
        let shown = |seconds: &Seconds| -> Vec<_> {
            seconds
                .whole
                .iter()
                .map(|second| (second.latency.map(|all| all.max_us as u64), second.errors))
                .collect()
        };
        assert_eq!(shown(&seconds), [(Some(10), 0), (Some(700), 2), (Some(30), 0)]);
        seconds.add(3..4, &total(&[10, 20, 30, 40], 1));
        assert_eq!(shown(&seconds)[3..], [(Some(40), 1)]);
        seconds.end(4, total(&[10, 20, 30, 40, 50], 1));
        assert_eq!(seconds.whole.len(), 4, "there is no second without a worker");
    }

    #[test]
    fn a_worker_that_is_silent_costs_no_memory() {
        let mut seconds = Seconds::new(2);
        (0..1000).for_each(|second| seconds.add(second..second + 1, &total(&[1], 0)));
        assert_eq!(seconds.pending.len() as u64, PENDING_MAX);
        // When it comes back, what is still known becomes whole, and what comes then.
        seconds.add(0..1000, &total(&[2], 0));
        assert_eq!((seconds.whole.len() as u64, seconds.pending.len()), (PENDING_MAX, 0));
        (0..2).for_each(|_| seconds.add(1000..1001, &total(&[1, 2], 0)));
        assert_eq!(seconds.whole.last().map(|interval| interval.second), Some(1000));
    }

    #[test]
    fn a_worker_that_was_suspended_for_an_hour_costs_no_memory() {
        let mut seconds = Seconds::new(1);
        seconds.add(0..3600, &total(&[1], 0));
        assert_eq!((seconds.fresh.len() as u64, seconds.pending.len()), (PENDING_MAX, 0));
        assert!(seconds.of(0).is_none());
        assert!(seconds.of(3600 - PENDING_MAX).is_some(), "what it had done before");
    }
}
