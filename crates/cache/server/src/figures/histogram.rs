//! Histograms of times: counted by one thread, read by any.

use stdx::counter::{Counter, Sum};
use stdx::log_linear::{self, BUCKETS};

/// A histogram that one thread writes: 2 KiB.
pub(crate) struct Times {
    /// Counts by microseconds.
    buckets: [Counter; BUCKETS],
    sum_us: Counter,
}

impl Default for Times {
    fn default() -> Times {
        Times { buckets: std::array::from_fn(|_| Counter::default()), sum_us: Counter::default() }
    }
}

impl Times {
    /// Counts `count` observations of this time.
    #[inline]
    pub(crate) fn record(&self, us: u64, count: u64) {
        self.buckets[log_linear::bucket(us)].add(count);
        self.sum_us.add(count.saturating_mul(us));
    }
}

/// A histogram over several threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimeHistogram {
    /// By [`log_linear::bucket`] of microseconds.
    pub(crate) buckets: Vec<u64>,
    pub(crate) sum_us: u64,
}

impl TimeHistogram {
    /// Read while the threads count: an observation that is being counted may be missing in the sum.
    pub(crate) fn of<'t>(times: impl Iterator<Item = &'t Times> + Clone) -> TimeHistogram {
        let bucket =
            |bucket: usize| times.clone().map(|times| &times.buckets[bucket]).collect::<Sum>().value();
        TimeHistogram {
            buckets: (0..BUCKETS).map(bucket).collect(),
            sum_us: times.clone().map(|times| &times.sum_us).collect::<Sum>().value(),
        }
    }

    /// Observations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Observations of less than this many microseconds, which have to be the end of a bucket.
    pub(crate) fn below(&self, us: u64) -> u64 {
        let inside = |place: &(usize, &u64)| log_linear::end(place.0) <= us;
        self.buckets.iter().enumerate().filter(inside).map(|(_, count)| count).sum()
    }

    /// The end of the bucket, in microseconds, below which are so many of 1000 observations; 0 without any.
    pub(crate) fn quantile_us(&self, of_1000: u64) -> u64 {
        let rank = (u128::from(self.count()) * u128::from(of_1000)).div_ceil(1000);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += u128::from(*count);
            *count > 0 && seen >= rank
        };
        self.buckets.iter().position(reaches).map_or(0, log_linear::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_ends_of_the_buckets_that_hold_them() {
        let times = [Times::default(), Times::default()];
        let of = |of_1000| TimeHistogram::of(times.iter()).quantile_us(of_1000);
        assert_eq!([of(500), of(1000)], [0, 0]);
        times[0].record(3, 989);
        times[1].record(100, 10);
        times[1].record(1000, 1);
        assert_eq!([of(0), of(500), of(989), of(990), of(999), of(1000)], [4, 4, 4, 104, 104, 1024]);
        assert_eq!(TimeHistogram::of(times.iter()).sum_us, 989 * 3 + 1000 + 1000);
    }
}
