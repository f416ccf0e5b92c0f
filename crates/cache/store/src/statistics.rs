//! Counters: one set per handle, written by that handle only and summed on demand.

use std::sync::Arc;

use stdx::counter::{Counter, Sum, since};

use crate::reclaim::sample::PolicyState;
use crate::segment::SegmentStatistics;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One handle's counters.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            pub(crate) evicted_idle: IdleCounters,
        }

        /// Sums over all handles.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
    /// What counts present items.
    pub(crate) fn present(&self) -> [&Counter; 5] {
        let Counters { curr_items, bytes, small_items, main_items, large_items, .. } = self;
        [curr_items, bytes, small_items, main_items, large_items]
    }
}

impl Counts {
    /// What counts present items.
    pub(crate) fn present(&self) -> [u64; 5] {
        let Counts { curr_items, bytes, small_items, main_items, large_items, .. } = *self;
        [curr_items, bytes, small_items, main_items, large_items]
    }

            fn minus(&self, earlier: &Counts) -> Counts {
                Counts { $($name: since(self.$name, earlier.$name),)* }
            }
        }

        /// Sums over `all` handles.
        pub(crate) fn sums(all: &[Arc<Counters>]) -> Counts {
            Counts { $($name: all.iter().map(|counters| &counters.$name).collect::<Sum>().value(),)* }
        }
    };
}

counters! {
    /// Lookups that found an expired item.
    found_expired,
    /// Lookups that found a flushed item.
    found_flushed,
    /// Items stored, replacements included.
    total_items,
    /// Items present.
    curr_items,
    /// Bytes of the records of present items, and of their large values.
    bytes,
    /// Live items evicted.
    evictions,
    /// Of these, items that had never been read.
    evicted_unfetched,
    /// Of these, items that had been read lately.
    evicted_active,
    /// Of these, items with an expiry.
    evicted_nonzero,
    /// Expired items that were removed when their segment was emptied, and dead ones in whose place an item was stored.
    reclaimed,
    /// Items examined by crawls.
    crawler_items_checked,
    /// Of these, dead items that were removed.
    crawler_reclaimed,
    /// Expired items that had never been read.
    expired_unfetched,
    /// Items copied forward to be kept.
    copied_forward,
    /// New items whose keys had been evicted recently.
    ghost_hits,
    /// Values written over older ones of the same size.
    overwritten_in_place,
    /// Items in the small queue.
    small_items,
    /// Items in the main queue.
    main_items,
    /// Items with a large value.
    large_items,
    /// Index pages split.
    splits,
    /// Segments emptied.
    segments_reclaimed,
}

impl Counts {
    /// Counts since `earlier`; gauges keep their present values.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let Counts { curr_items, bytes, small_items, main_items, large_items, .. } = *self;
        Counts { curr_items, bytes, small_items, main_items, large_items, ..self.minus(earlier) }
    }
}

/// How many items are present, and their bytes.
pub(crate) fn items_and_bytes(all: &[Arc<Counters>]) -> (u64, u64) {
    let sum =
        |of: fn(&Counters) -> &Counter| all.iter().map(|counters| of(counters)).collect::<Sum>().value();
    (sum(|counters| &counters.curr_items), sum(|counters| &counters.bytes))
}

/// Bounds of idle times in seconds are powers of two: 1 s to 12 days, and beyond.
const IDLE_BUCKETS: usize = 22;

/// Evicted items by the time since their last access.
#[derive(Debug, Default)]
pub(crate) struct IdleCounters {
    /// In each, times of less than 2 to its number seconds; in the last one, all others.
    buckets: [Counter; IDLE_BUCKETS],
    sum_s: Counter,
}

impl IdleCounters {
    #[inline]
    pub(crate) fn add(&self, idle_s: u32) {
        let bits = (u32::BITS - idle_s.leading_zeros()) as usize;
        self.buckets[bits.min(IDLE_BUCKETS - 1)].add(1);
        self.sum_s.add(u64::from(idle_s));
    }
}

/// Evicted items by the time since their last access, over all handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictedIdle {
    /// In each, those with less than 2 to its number seconds; in the last one, all others.
    pub counts: [u64; IDLE_BUCKETS],
    /// Of all times, in seconds.
    pub sum_s: u64,
}

impl EvictedIdle {
    pub(crate) fn of(all: &[Arc<Counters>]) -> EvictedIdle {
        let sum = |of: &dyn Fn(&IdleCounters) -> &Counter| {
            all.iter().map(|counters| of(&counters.evicted_idle)).collect::<Sum>().value()
        };
        EvictedIdle {
            counts: std::array::from_fn(|bucket| sum(&|idle| &idle.buckets[bucket])),
            sum_s: sum(&|idle| &idle.sum_s),
        }
    }
}

/// Statistics of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Counts of events.
    pub counts: Counts,
    /// Seconds between the last access and the eviction of the most recently evicted item.
    pub evicted_idle_s: u32,
    /// The memory limit, in bytes.
    pub limit_bytes: u64,
    /// Bytes charged: segments, index, large values, ghosts, sample.
    pub charged_bytes: u64,
    /// Of these, the index.
    pub index_bytes: u64,
    /// Slots of the index to which hashes of keys lead. The stash, for entries whose home is full, is not among them.
    pub index_home_slots: u64,
    /// Of these, large values (also those being received or sent).
    pub large_bytes: u64,
    /// Of these, ghosts.
    pub ghost_bytes: u64,
    /// Of these, the sample of keys by which the policy is chosen.
    pub sample_bytes: u64,
    /// What decides about evictions.
    pub policy: PolicyState,
    /// Segments, which are the rest.
    pub segments: SegmentStatistics,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_counted_below_the_next_power_of_two() {
        let counters = Arc::new(Counters::default());
        for idle_s in [0, 1, 2, 3, 4, 1 << 20, u32::MAX] {
            counters.evicted_idle.add(idle_s);
        }
        let idle = EvictedIdle::of(&[counters]);
        assert_eq!(idle.counts[..5], [1, 1, 2, 1, 0]);
        assert_eq!((idle.counts[20], idle.counts[21]), (0, 2));
        assert_eq!(idle.sum_s, 10 + (1 << 20) + u64::from(u32::MAX));
    }
}
