//! Averages of recent times, in which each new one counts as one of so many.

use stdx::counter::Counter;

/// The average of about the last `OVER` times. One thread adds.
#[derive(Debug, Default)]
pub(crate) struct RecentAverage<const OVER: u64> {
    /// In parts of a microsecond, of which one has `OVER`; 0 before the first.
    parts: Counter,
}

impl<const OVER: u64> RecentAverage<OVER> {
    #[inline]
    pub(crate) fn add(&self, us: u64) {
        let (average, sample) = (self.parts.value(), us.saturating_mul(OVER));
        let next = if average == 0 {
            sample
        } else {
            // A time of centuries, which only a clock that has jumped can make, stays within the number.
            average.saturating_mul(OVER - 1).saturating_add(sample) / OVER
        };
        self.parts.set(next);
    }

    /// In microseconds; `None` before the first that was not 0.
    pub(crate) fn us(&self) -> Option<f64> {
        let parts = self.parts.value();
        (parts != 0).then(|| parts as f64 / OVER as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_recent_times() {
        let average = RecentAverage::<16>::default();
        assert_eq!(average.us(), None);
        average.add(100);
        assert_eq!(average.us(), Some(100.0));
        (0..200).for_each(|_| average.add(1000));
        let found = average.us().expect("an average");
        assert!((950.0..=1000.0).contains(&found), "{found}");
        average.add(u64::MAX);
    }
}
