//! Histograms of times on a page: pairs of the end of a bucket in microseconds and a count that only grows.

use serde::Deserialize;

/// The end of a router's last bucket, which has none.
const ENDLESS_US: u64 = i64::MAX as u64;

/// Counts by the end of their bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct PageTimes {
    buckets: Vec<(u64, u64)>,
}

impl PageTimes {
    /// The end of the bucket below which 99 % of those are that were counted since an earlier page. None if there were none. Of the
    /// bucket without an end, its beginning is told: the end of the one before.
    pub(super) fn p99_since(&self, since: &PageTimes) -> Option<u64> {
        let before =
            |end: u64| since.buckets.iter().find(|(other, _)| *other == end).map_or(0, |(_, count)| *count);
        let mut grown: Vec<(u64, u64)> = self
            .buckets
            .iter()
            .map(|(end, count)| Some((*end, count.checked_sub(before(*end))?)))
            .collect::<Option<_>>()?;
        grown.sort_unstable();
        let all = grown.iter().map(|(_, count)| u128::from(*count)).sum::<u128>();
        let wanted = (all * 99).div_ceil(100);
        let mut below = 0;
        let found = grown.iter().find(|(_, count)| {
            below += u128::from(*count);
            below >= wanted
        })?;
        let last = || grown.iter().map(|(end, _)| *end).filter(|end| *end < ENDLESS_US).max();
        let end = if found.0 >= ENDLESS_US { last()? } else { found.0 };
        (all > 0).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &[(u64, u64)], after: &[(u64, u64)], expected: Option<u64>) {
        let times = |buckets: &[(u64, u64)]| PageTimes { buckets: buckets.to_vec() };
        assert_eq!(times(after).p99_since(&times(before)), expected, "{before:?} {after:?}");
    }

    #[test]
    fn a_percentile_is_that_of_what_has_grown() {
        check(&[], &[(8, 99), (16, 1)], Some(8));
        check(&[], &[(8, 98), (16, 2)], Some(16));
        check(&[(8, 99), (16, 1)], &[(8, 99), (16, 1)], None);
        check(&[(8, 99), (16, 1)], &[(8, 99), (16, 2)], Some(16));
        check(&[(8, 5)], &[(16, 1), (8, 5)], Some(16));
        check(&[(8, 5)], &[(8, 4)], None);
        check(&[], &[], None);
        check(&[], &[(8, u64::MAX), (16, u64::MAX)], Some(16));
    }

    #[test]
    fn of_the_last_bucket_the_beginning_is_known() {
        check(&[], &[(64, 1), (ENDLESS_US, 99)], Some(64));
        check(&[], &[(ENDLESS_US, 1)], None);
    }
}
