//! Counters: one set per handle, written by that handle only and summed on demand.

use std::sync::Arc;

use stdx::counter::{Counter, Sum, since};

use crate::segment::SegmentStatistics;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One handle's counters.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        /// Sums over all handles.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[$doc])* pub $name: u64,)* }

        impl Counts {
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
    /// Expired items that were removed when their segment was emptied.
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

/// Statistics of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Counts of events.
    pub counts: Counts,
    /// Seconds between the last access and the eviction of the most recently evicted item.
    pub evicted_idle_s: u32,
    /// The memory limit, in bytes.
    pub limit_bytes: u64,
    /// Bytes charged: segments, index, large values, ghosts.
    pub charged_bytes: u64,
    /// Of these, the index.
    pub index_bytes: u64,
    /// Of these, large values (also those being received or sent).
    pub large_bytes: u64,
    /// Of these, ghosts.
    pub ghost_bytes: u64,
    /// Segments, which are the rest.
    pub segments: SegmentStatistics,
}
