//! Counters of one destination: requests, outcomes, times of replies, the state of its connection.
//!
//! One takes about 500 bytes for each worker and server: 5 MB for 10,000 servers and one worker.

use std::sync::Arc;

use stdx::counter::{Counter, since};

use super::RecentAverage;
use crate::message::outcome::Outcome;
use crate::plan::DestinationSpec;
use crate::servers::health::Health;
use crate::stats::counted_pools::CountedPool;

/// Buckets of reply times: below 64 µs, then each twice as long, the last from 16.8 s on.
pub(crate) const LATENCY_BUCKETS: usize = 20;

/// The first bucket is for times below two to this power, in microseconds.
const FIRST_BITS: u32 = 6;

/// Replies over which the recent average goes, as in mcrouter.
const AVERAGE_OVER: u64 = 16;

/// The connection of a destination, by mcrouter's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DestinationPhase {
    /// There was none yet.
    New,
    /// There is one.
    Up,
    /// It was closed because it was not needed.
    Closed,
    /// It was lost, or could not be made.
    Down,
}

impl DestinationPhase {
    /// All, in mcrouter's order.
    pub(crate) const ALL: [DestinationPhase; 4] =
        [DestinationPhase::New, DestinationPhase::Up, DestinationPhase::Closed, DestinationPhase::Down];

    pub(crate) fn name(self) -> &'static str {
        match self {
            DestinationPhase::New => "new",
            DestinationPhase::Up => "up",
            DestinationPhase::Closed => "closed",
            DestinationPhase::Down => "down",
        }
    }
}

/// Counters of one destination. Only its worker writes them.
#[derive(Debug)]
pub(crate) struct DestinationCells {
    pub(crate) spec: Arc<DestinationSpec>,
    pub(crate) health: Arc<Health>,
    /// The pool whose statistics count its requests: that of `spec`, without the way there.
    pub(crate) pool: Option<CountedPool>,
    /// Requests, those that were refused here included: one for each key of a `get`.
    pub(crate) requests: Counter,
    pub(crate) results: [Counter; Outcome::COUNT],
    /// Replies and timeouts, by their time.
    pub(crate) latency: [Counter; LATENCY_BUCKETS],
    /// Sum of those times, in microseconds.
    pub(crate) latency_us: Counter,
    /// Recent average of those times.
    average: RecentAverage<AVERAGE_OVER>,
    phase: Counter,
    /// Forgotten: no plan names its server any more.
    is_gone: Counter,
}

impl DestinationCells {
    pub(crate) fn new(spec: Arc<DestinationSpec>, health: Arc<Health>) -> DestinationCells {
        DestinationCells {
            pool: spec.counted_as,
            spec,
            health,
            requests: Counter::default(),
            results: Default::default(),
            latency: Default::default(),
            latency_us: Counter::default(),
            average: RecentAverage::default(),
            phase: Counter::default(),
            is_gone: Counter::default(),
        }
    }

    /// A request has this outcome.
    #[inline]
    pub(crate) fn ended(&self, outcome: Outcome, count: u64) {
        self.results[outcome as usize].add(count);
    }

    /// A reply came, or was waited for in vain, this long after its request.
    #[inline]
    pub(crate) fn took(&self, us: u64) {
        self.latency[bucket(us)].add(1);
        self.latency_us.add(us);
        self.average.add(us);
    }

    pub(crate) fn set_phase(&self, phase: DestinationPhase) {
        self.phase.set(phase as u64);
    }

    pub(crate) fn phase(&self) -> DestinationPhase {
        DestinationPhase::ALL[self.phase.value() as usize]
    }

    pub(crate) fn set_gone(&self) {
        self.is_gone.set(1);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.value() != 0
    }

    /// Recent average of reply times in microseconds; `None` before the first.
    pub(crate) fn average_us(&self) -> Option<f64> {
        self.average.us()
    }

    /// Requests without an outcome yet.
    pub(crate) fn outstanding(&self) -> u64 {
        // Outcomes first: a request is counted before its outcome.
        let ended: u64 = self.results.iter().map(Counter::value).sum();
        since(self.requests.value(), ended)
    }
}

/// The bucket of a time.
#[inline]
fn bucket(us: u64) -> usize {
    let bits = u64::BITS - us.leading_zeros();
    (bits.saturating_sub(FIRST_BITS) as usize).min(LATENCY_BUCKETS - 1)
}

/// The bound of a bucket in seconds; the last has none.
pub(crate) fn bound_s(bucket: usize) -> Option<f64> {
    (bucket + 1 < LATENCY_BUCKETS).then(|| (1_u64 << (FIRST_BITS as usize + bucket)) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_is_below() {
        for us in [0, 1, 63, 64, 65, 127, 128, 1000, 1 << 23, (1 << 24) - 1, 1 << 24, u64::MAX] {
            let found = bucket(us);
            let below = |bound: Option<f64>| bound.is_none_or(|bound| (us as f64) < bound * 1e6);
            assert!(below(bound_s(found)), "{us}");
            assert!(found == 0 || !below(bound_s(found - 1)), "{us}");
        }
        assert_eq!(bound_s(LATENCY_BUCKETS - 1), None);
    }
}
