//! Buckets of a histogram whose width grows with the values: eight in every doubling, so 12.5 % wide at most.
//!
//! Values below 8 have a bucket each. The arithmetic is here; who counts has an array of [`BUCKETS`] counts.

/// Buckets of a doubling, as a power of two.
const FINENESS: u32 = 3;

/// Values beyond count as this one: in microseconds, 71 minutes.
pub const VALUE_MAX: u64 = u32::MAX as u64;

/// Number of buckets.
pub const BUCKETS: usize = bucket(VALUE_MAX) + 1;

/// The bucket of a value.
#[inline]
pub const fn bucket(value: u64) -> usize {
    let value = if value > VALUE_MAX { VALUE_MAX } else { value };
    if value >> FINENESS == 0 {
        return value as usize;
    }
    let shift = value.ilog2() - FINENESS;
    (((shift as u64) << FINENESS) + (value >> shift)) as usize
}

/// The first value beyond a bucket.
pub const fn end(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    if next >> FINENESS <= 1 {
        return next;
    }
    let shift = (next >> FINENESS) - 1;
    (next - (shift << FINENESS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_one_bucket_that_ends_behind_it() {
        let powers = (0..33).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for value in (0..100_000).chain(powers).filter(|value| *value <= VALUE_MAX) {
            let bucket = bucket(value);
            let begin = bucket.checked_sub(1).map_or(0, end);
            assert!(
                begin <= value && value < end(bucket),
                "{value}: bucket {bucket} from {begin} to {}",
                end(bucket)
            );
            // The width is an eighth of the value at most.
            assert!(value < 8 || (end(bucket) - begin) * 8 <= value, "{value}");
        }
        assert_eq!((bucket(u64::MAX), BUCKETS), (BUCKETS - 1, 240));
    }

    #[test]
    fn powers_of_two_are_ends() {
        for power in 0..32 {
            assert!((0..BUCKETS).any(|bucket| end(bucket) == 1 << power), "{power}");
        }
    }
}
