//! Counters of pools that have statistics of their own (`--pool-stats-config-file`), of one worker.
//!
//! Only requests of such a pool touch them; without the flag there are none.

use stdx::counter::{Counter, Sum};

use super::RecentAverage;
use crate::stats::counted_pools::CountedPool;

/// Samples over which the averages go, as in mcrouter.
const AVERAGE_OVER: u64 = 64;

/// Counters of one pool, or of all whose names begin alike. Only their worker writes them.
#[derive(Debug, Default)]
pub(crate) struct PoolCells {
    /// Requests to its servers with an outcome, one for each key of a `get`; without those that no server was asked for.
    pub(crate) requests: Counter,
    /// Requests of clients that went to one of its servers first, and were answered with an error.
    pub(crate) failed: Counter,
    /// Time of a reply of its servers.
    duration: RecentAverage<AVERAGE_OVER>,
    /// Time of a client's request that went to one of its servers first, with everything that followed.
    total: RecentAverage<AVERAGE_OVER>,
}

impl PoolCells {
    /// One of its servers has answered, or was waited for in vain.
    pub(crate) fn took(&self, us: u64) {
        self.duration.add(us);
    }

    /// A client has its answer.
    pub(crate) fn answered(&self, us: u64, is_error: bool) {
        self.total.add(us);
        self.failed.add(u64::from(is_error));
    }
}

/// The cells of each name.
pub(crate) type AllPoolCells = Box<[PoolCells]>;

/// What all workers have counted for one name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PoolTotals {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    /// In microseconds; 0 before the first, as in mcrouter.
    pub(crate) duration_us: f64,
    pub(crate) total_us: f64,
}

impl PoolTotals {
    /// Of the cells of each worker.
    pub(crate) fn of<'c>(
        workers: impl Iterator<Item = &'c AllPoolCells> + Clone,
        pool: CountedPool,
    ) -> PoolTotals {
        let all = workers.filter_map(|cells| cells.get(usize::from(pool.0)));
        PoolTotals {
            requests: all.clone().map(|cells| &cells.requests).collect::<Sum>().value(),
            failed: all.clone().map(|cells| &cells.failed).collect::<Sum>().value(),
            duration_us: mean(all.clone().filter_map(|cells| cells.duration.us())),
            total_us: mean(all.filter_map(|cells| cells.total.us())),
        }
    }
}

/// The mean of those workers that have an average. mcrouter has the sum of its threads' averages, which says nothing.
fn mean(averages: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = averages.fold((0.0, 0), |(sum, count), average| (sum + average, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_added_and_their_averages_are_not() {
        let workers: [AllPoolCells; 3] = std::array::from_fn(|_| Box::from([PoolCells::default()]));
        for (worker, us) in [(0, 100), (0, 100), (2, 300)] {
            let cells = &workers[worker][0];
            cells.requests.add(1);
            cells.took(us);
            cells.answered(2 * us, us == 300);
        }
        let totals = PoolTotals::of(workers.iter(), CountedPool(0));
        assert_eq!(totals, PoolTotals { requests: 3, failed: 1, duration_us: 200.0, total_us: 400.0 });
        assert_eq!(PoolTotals::of(workers.iter(), CountedPool(1)), PoolTotals::default());
    }
}
