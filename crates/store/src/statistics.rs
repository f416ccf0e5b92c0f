//! Counters: one set per handle, each written by that handle only and summed when someone asks.

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
    /// Items there.
    curr_items,
    /// Bytes of the records of the items there, and of their large values.
    bytes,
    /// Live items evicted.
    evictions,
    /// Of these, items that had never been read.
    evicted_unfetched,
    /// Of these, items that had been read lately.
    evicted_active,
    /// Of these, items that would have expired one day.
    evicted_nonzero,
    /// Expired items whose memory was taken back.
    reclaimed,
    /// Items that a crawl has looked at.
    crawler_items_checked,
    /// Of these, dead ones that it has taken out.
    crawler_reclaimed,
    /// Expired items that had never been read.
    expired_unfetched,
    /// Items that were copied forward, to be kept.
    copied_forward,
    /// New items that had been evicted not long ago.
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
    /// What has been counted since `earlier`; what tells how things are stays as it is.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let Counts { curr_items, bytes, small_items, main_items, large_items, .. } = *self;
        Counts { curr_items, bytes, small_items, main_items, large_items, ..self.minus(earlier) }
    }
}

/// A store in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// What happened.
    pub counts: Counts,
    /// How long the item that was evicted last had not been used, in seconds.
    pub evicted_idle_s: u32,
    /// The memory limit, in bytes.
    pub limit_bytes: u64,
    /// What is charged to it: segments, index, large values, ghosts.
    pub charged_bytes: u64,
    /// Of these, the index.
    pub index_bytes: u64,
    /// Of these, large values (also those being received or sent).
    pub large_bytes: u64,
    /// Of these, ghosts.
    pub ghost_bytes: u64,
    /// Where the rest is.
    pub segments: SegmentStatistics,
}
