//! Parameters of eviction, and what they say about one item. Nothing here knows where an item lies: the store and its
//! miniature caches decide by the same functions.
//!
//! S3-FIFO keeps what was used. With [`Optimise::Objects`] an item's uses are weighed against its size as well: a pass takes
//! one use of an item of the mean size or up to twice that, half as many uses of one of half the mean size, and two of one four
//! times as large. What lies between is rounded at random, so that on the average an item stays in proportion to its uses
//! per byte, as in GDSF, and no queue has to be sorted.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What eviction keeps low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Optimise {
    /// Gets that miss: small items are kept rather than large ones.
    #[default]
    Objects,
    /// Bytes of values that are missed: the size of an item makes no difference.
    Bytes,
}

/// One choice of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// Percent of the memory that the small queue may take while the main queue is in use.
    pub small_percent: u8,
    /// Uses in the small queue that send an item to the main queue.
    pub threshold: u8,
    /// How long evicted items are remembered: while so many fifths of the memory are evicted.
    pub ghost_fifths: u8,
    /// Whether an item's uses are weighed against its size.
    pub by_size: bool,
}

/// The policies among which the miniature caches choose, where gets that miss count. The first one is the one to begin with:
/// on public traces it misses least as the only one. Of the others each is the best of some trace; the last one is for loads
/// whose sizes say nothing (decision 104).
const FOR_OBJECTS: [EvictionPolicy; SIMULATED] = [
    EvictionPolicy { small_percent: 10, threshold: 1, ghost_fifths: 5, by_size: true },
    EvictionPolicy { small_percent: 2, threshold: 1, ghost_fifths: 10, by_size: true },
    EvictionPolicy { small_percent: 20, threshold: 1, ghost_fifths: 5, by_size: true },
    EvictionPolicy { small_percent: 2, threshold: 1, ghost_fifths: 5, by_size: true },
    EvictionPolicy { small_percent: 2, threshold: 2, ghost_fifths: 10, by_size: true },
    EvictionPolicy { small_percent: 20, threshold: 1, ghost_fifths: 10, by_size: true },
    EvictionPolicy { small_percent: 10, threshold: 1, ghost_fifths: 10, by_size: false },
];

/// The same, where bytes that are missed count.
const FOR_BYTES: [EvictionPolicy; SIMULATED] = [
    EvictionPolicy { small_percent: 10, threshold: 1, ghost_fifths: 10, by_size: false },
    EvictionPolicy { small_percent: 2, threshold: 1, ghost_fifths: 10, by_size: false },
    EvictionPolicy { small_percent: 20, threshold: 1, ghost_fifths: 5, by_size: false },
    EvictionPolicy { small_percent: 2, threshold: 1, ghost_fifths: 5, by_size: false },
    EvictionPolicy { small_percent: 2, threshold: 2, ghost_fifths: 10, by_size: false },
    EvictionPolicy { small_percent: 20, threshold: 1, ghost_fifths: 10, by_size: false },
    EvictionPolicy { small_percent: 10, threshold: 1, ghost_fifths: 5, by_size: false },
];

/// Policies that are simulated at the same time.
pub(crate) const SIMULATED: usize = 7;
/// The longest memory that ghosts have: their table tells apart no more.
const GHOST_FIFTHS_MAX: u32 = 14;
/// Smaller items than a quarter of the mean size are treated as if they had that size: after a change to larger items, small
/// ones that nobody uses must go, too.
const SIZE_LEAST: u64 = 4;
/// Mean sizes of an item for which one use is enough to go to the main queue: items of nearly the same size are all alike.
const SIZE_PER_USE: u64 = 2;
/// Percent of the memory in a fifth.
const GHOST_PERCENT: u32 = 20;

impl Optimise {
    /// The policies among which is chosen.
    pub(crate) fn candidates(self) -> &'static [EvictionPolicy; SIMULATED] {
        match self {
            Optimise::Objects => &FOR_OBJECTS,
            Optimise::Bytes => &FOR_BYTES,
        }
    }
}

impl Default for EvictionPolicy {
    fn default() -> EvictionPolicy {
        Optimise::default().candidates()[0]
    }
}

impl EvictionPolicy {
    /// Whether an item at the end of the small queue goes to the main queue. `mean` is the mean size of items, and `draw` is
    /// random.
    pub(crate) fn promotes(&self, frequency: u64, size: u64, mean: u64, draw: u64) -> bool {
        if !self.by_size {
            return frequency >= u64::from(self.threshold);
        }
        let mean = mean.max(1);
        if frequency == 0 {
            // The smaller an item, the less it costs to wait for its first use.
            return draw % mean >= at_least(size, mean);
        }
        frequency >= u64::from(self.threshold) && frequency * mean * SIZE_PER_USE >= size
    }

    /// The frequency with which an item at the end of the main queue goes round once more; `None`: it is evicted.
    pub(crate) fn survives(&self, frequency: u64, size: u64, mean: u64, draw: u64) -> Option<u64> {
        if !self.by_size {
            return frequency.checked_sub(1);
        }
        let mean = mean.max(1);
        // Among items of equal size this is as without sizes.
        let weight = if size < mean { at_least(size, mean) } else { mean.max(size / 2) };
        let rounded_up = draw % mean < weight % mean;
        frequency.checked_sub(weight / mean + u64::from(rounded_up))
    }
}

/// The size of an item, or the least that it counts as.
fn at_least(size: u64, mean: u64) -> u64 {
    size.max(mean / SIZE_LEAST)
}

/// A text that is not a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPolicy;

/// As `-o policy=` accepts it: `size` or `plain`, the small queue's percent, the uses, percent of the memory for ghosts.
impl FromStr for EvictionPolicy {
    type Err = NoPolicy;

    fn from_str(text: &str) -> Result<EvictionPolicy, NoPolicy> {
        let mut parts = text.split(':');
        let by_size = match parts.next() {
            Some("size") => true,
            Some("plain") => false,
            _ => return Err(NoPolicy),
        };
        let mut number = |range: RangeInclusive<u32>| {
            let number = parts.next().and_then(|part| part.parse().ok()).ok_or(NoPolicy)?;
            if range.contains(&number) { Ok(number) } else { Err(NoPolicy) }
        };
        let (small_percent, threshold) = (number(1..=90)? as u8, number(1..=3)? as u8);
        let percent = number(GHOST_PERCENT..=GHOST_PERCENT * GHOST_FIFTHS_MAX)?;
        if percent % GHOST_PERCENT != 0 || parts.next().is_some() {
            return Err(NoPolicy);
        }
        Ok(EvictionPolicy {
            small_percent,
            threshold,
            ghost_fifths: (percent / GHOST_PERCENT) as u8,
            by_size,
        })
    }
}

impl fmt::Display for EvictionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EvictionPolicy { small_percent, threshold, ghost_fifths, by_size } = self;
        let weighed = if *by_size { "size" } else { "plain" };
        write!(f, "{weighed}:{small_percent}:{threshold}:{}", u32::from(*ghost_fifths) * GHOST_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    /// Of items of this size and frequency, the share that stays in the main queue, in percent.
    fn staying(policy: &EvictionPolicy, frequency: u64, size: u64) -> u64 {
        let mut prng = Prng::new(1);
        (0..10_000).filter(|_| policy.survives(frequency, size, 1000, prng.next_u64()).is_some()).count()
            as u64
            / 100
    }

    #[test]
    fn with_sizes_an_item_stays_in_proportion_to_its_uses_per_byte() {
        let policy = FOR_OBJECTS[0];
        for (frequency, size, expected) in [
            (0, 100, 73..=77),
            (0, 500, 48..=52),
            (0, 1000, 0..=0),
            (1, 1000, 100..=100),
            (1, 2000, 100..=100),
            (1, 3000, 49..=51),
            (1, 4000, 0..=0),
            (3, 6000, 100..=100),
        ] {
            let percent = staying(&policy, frequency, size);
            assert!(expected.contains(&percent), "{frequency} uses, {size} bytes: {percent} %");
        }
        assert_eq!(policy.survives(3, 2000, 1000, 0), Some(2));
    }

    #[test]
    fn without_sizes_each_pass_takes_a_use() {
        let policy = FOR_BYTES[0];
        assert_eq!([0, 1, 3].map(|uses| policy.survives(uses, 1, 1000, 7)), [None, Some(0), Some(2)]);
        assert_eq!([0, 1].map(|uses| policy.promotes(uses, 1, 1000, 7)), [false, true]);
        assert_eq!([1, 2].map(|uses| FOR_BYTES[4].promotes(uses, 1, 1000, 7)), [false, true]);
    }

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        for policy in FOR_OBJECTS.iter().chain(&FOR_BYTES) {
            assert_eq!(policy.to_string().parse(), Ok(*policy));
        }
        assert_eq!(FOR_OBJECTS[0].to_string(), "size:10:1:100");
        for text in [
            "",
            "size",
            "size:10:1",
            "size:0:1:200",
            "size:10:4:200",
            "size:10:1:30",
            "lru:10:1:200",
            "size:10:1:200:1",
        ] {
            assert_eq!(text.parse::<EvictionPolicy>(), Err(NoPolicy), "{text}");
        }
    }

    #[test]
    fn of_new_items_that_were_not_used_small_ones_are_kept_at_times() {
        let policy = FOR_OBJECTS[0];
        let mut prng = Prng::new(1);
        let mut kept = |size| (0..1000).filter(|_| policy.promotes(0, size, 1000, prng.next_u64())).count();
        assert_eq!((kept(1000), kept(5000)), (0, 0));
        assert!((200..300).contains(&kept(750)));
        assert!(policy.promotes(1, 2000, 1000, 0) && !policy.promotes(1, 2001, 1000, 0));
    }
}
