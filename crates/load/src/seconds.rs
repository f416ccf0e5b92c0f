//! Latencies by second, from the totals that workers show at the end of each.

use crate::follower::Whole;
use crate::summary::Latency;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Puts the workers' totals together.
#[derive(Debug)]
pub(crate) struct Seconds {
    workers: usize,
    /// Seconds that not all workers have reported: how many have, and the sum of their totals.
    pending: BTreeMap<u64, (usize, Histogram<u64>)>,
    /// The total at the end of the last second that all have reported.
    total: Option<Histogram<u64>>,
    whole: Vec<Interval>,
    /// What nobody has taken yet.
    fresh: Vec<Whole>,
}

/// The requests that were done in one second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    /// Seconds since the window opened.
    pub(crate) second: u64,
    /// `None`: none was done.
    pub(crate) latency: Option<Latency>,
}

/// A worker that hangs for longer than this loses its part of the seconds between, not of the run.
const PENDING_MAX: usize = 64;

impl Seconds {
    pub(crate) fn new(workers: usize) -> Seconds {
        Seconds { workers, pending: BTreeMap::new(), total: None, whole: Vec::new(), fresh: Vec::new() }
    }

    /// One worker's latencies since the window opened, at the end of `second`.
    pub(crate) fn add(&mut self, second: u64, total: &Histogram<u64>) {
        match self.pending.get_mut(&second) {
            Some((workers, sum)) => {
                *workers += 1;
                sum.add(total).expect("histograms of one shape");
            }
            None => {
                self.pending.insert(second, (1, total.clone()));
            }
        }
        while let Some(first) = self.pending.first_entry()
            && first.get().0 == self.workers
        {
            let (second, (_, total)) = first.remove_entry();
            let mut between = total.clone();
            if let Some(before) = &self.total {
                between.subtract(before).expect("an earlier total of the same counts");
            }
            let interval = Interval { second, latency: Latency::of(&between) };
            self.whole.push(interval);
            self.fresh.push(Whole { interval, latency_ns: between });
            self.total = Some(total);
        }
        if self.pending.len() > PENDING_MAX {
            self.pending.pop_first();
        }
    }

    /// What has become whole since the last call.
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

    fn total(latencies_us: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_max(1_000_000_000, 3).expect("constants that fit");
        latencies_us.iter().for_each(|us| histogram.saturating_record(us * 1000));
        histogram
    }

    #[test]
    fn a_second_is_what_was_added_to_all_totals() {
        let mut seconds = Seconds::new(2);
        seconds.add(0, &total(&[10]));
        seconds.add(1, &total(&[10, 500]));
        assert!(seconds.whole.is_empty(), "the other worker has said nothing yet");
        seconds.add(0, &total(&[30]));
        seconds.add(1, &total(&[30]));
        seconds.add(2, &total(&[30]));
        seconds.add(2, &total(&[10, 500]));
        let max: Vec<_> =
            seconds.whole.iter().map(|second| second.latency.map(|latency| latency.max_us as u64)).collect();
        assert_eq!(max, [Some(30), Some(500), None]);
    }

    #[test]
    fn a_worker_that_is_silent_costs_no_memory() {
        let mut seconds = Seconds::new(2);
        (0..1000).for_each(|second| seconds.add(second, &total(&[1])));
        assert_eq!(seconds.pending.len(), PENDING_MAX);
    }
}
