//! Times of compared replies in buckets: four to each doubling, from 32 µs to 4 s, so that sums of many routers stay small.

/// Bits of the end of the first bucket: 32 µs, less than any reply over a network takes.
const FIRST_BITS: u32 = 5;
/// Bits of the beginning of the last doubling: 2.1 s, beyond each timeout of servers that is in use.
const LAST_BITS: u32 = 21;
/// Buckets of one doubling: none is wider than a quarter of its beginning.
const PER_DOUBLING: u32 = 4;
/// All of them. The last one also has what took longer.
pub(super) const TIME_BUCKETS: usize = 1 + (PER_DOUBLING * (LAST_BITS - FIRST_BITS + 1)) as usize;

/// The bucket of a time in microseconds.
pub fn time_bucket(us: u64) -> u8 {
    let bits = match us.checked_ilog2() {
        Some(bits) if bits >= FIRST_BITS => bits,
        _ => return 0,
    };
    if bits > LAST_BITS {
        return TIME_BUCKETS as u8 - 1;
    }
    let part = ((us - (1 << bits)) * u64::from(PER_DOUBLING)) >> bits;
    (1 + PER_DOUBLING * (bits - FIRST_BITS)) as u8 + part as u8
}

/// Where a bucket begins and ends, in microseconds.
fn bounds_us(bucket: usize) -> (f64, f64) {
    let Some(at) = bucket.checked_sub(1) else { return (0.0, f64::from(1 << FIRST_BITS)) };
    let doubling = f64::from(1_u32 << (FIRST_BITS + (at as u32) / PER_DOUBLING));
    let width = doubling / f64::from(PER_DOUBLING);
    let begin = doubling + width * (at as u32 % PER_DOUBLING) as f64;
    (begin, begin + width)
}

/// How many replies took how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTimes([u64; TIME_BUCKETS]);

impl Default for ReplyTimes {
    fn default() -> ReplyTimes {
        ReplyTimes([0; TIME_BUCKETS])
    }
}

impl ReplyTimes {
    /// Counts replies in a bucket; one that there is not counts as the last.
    pub(super) fn add(&mut self, bucket: u8, count: u64) {
        let cell = &mut self.0[usize::from(bucket).min(TIME_BUCKETS - 1)];
        *cell = cell.saturating_add(count);
    }

    pub(super) fn add_all(&mut self, other: &ReplyTimes) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }

    fn total(&self) -> u128 {
        self.0.iter().map(|count| u128::from(*count)).sum()
    }

    /// The time that a part of the replies stays below, in microseconds: where it lies in its bucket if those are spread evenly. None
    /// without replies.
    pub fn below_us(&self, part: f64) -> Option<f64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = total as f64 * part;
        let mut below = 0.0;
        for (bucket, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= rank {
                let (begin, end) = bounds_us(bucket);
                // Of the last one only the beginning is known.
                let width = if bucket + 1 == TIME_BUCKETS { 0.0 } else { end - begin };
                return Some(begin + width * ((rank - below) / count).clamp(0.0, 1.0));
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_none_is_wider_than_a_quarter() {
        let mut end_before = 0.0;
        for bucket in 0..TIME_BUCKETS {
            let (begin, end) = bounds_us(bucket);
            assert_eq!(begin, end_before);
            assert!(bucket == 0 || end / begin <= 1.25, "{begin} {end}");
            for us in [begin as u64, end as u64 - 1] {
                assert_eq!(usize::from(time_bucket(us)), bucket, "{us} us");
            }
            end_before = end;
        }
        assert_eq!(end_before, 4_194_304.0);
        assert_eq!(usize::from(time_bucket(u64::MAX)), TIME_BUCKETS - 1);
    }

    #[test]
    fn a_percentile_is_known_within_its_bucket() {
        let mut times = ReplyTimes::default();
        assert_eq!(times.below_us(0.5), None);
        for us in 1000..2000 {
            times.add(time_bucket(us), 1);
        }
        for (part, expected) in [(0.0, 1000.0), (0.5, 1500.0), (0.9, 1900.0), (0.99, 1990.0), (1.0, 2000.0)] {
            let found = times.below_us(part).expect("there are replies");
            assert!((found / expected - 1.0).abs() < 0.125, "{found} for {expected}");
        }
        times.add(u8::MAX, 1_000_000);
        assert_eq!(times.below_us(0.5), Some(3_670_016.0), "the last bucket's beginning");
    }
}
