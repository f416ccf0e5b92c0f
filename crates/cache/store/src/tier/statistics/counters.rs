//! Counts of a flash tier.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! flash_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of all threads: each event takes longer than the counting.
        #[derive(Debug, Default)]
        pub(crate) struct FlashCounters { $(pub(crate) $name: AtomicU64,)* }

        /// Counts of events since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FlashCounts { $($(#[$doc])* pub $name: u64,)* }

        impl FlashCounters {
            pub(crate) fn counts(&self) -> FlashCounts {
                FlashCounts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

flash_counters! {
    /// Items written, those that were written again included.
    objects_written,
    /// Bytes of their records.
    bytes_written,
    /// Items read for a client.
    objects_read,
    /// Bytes of their records.
    bytes_read,
    /// Items dropped that were alive, because their segment was reused.
    objects_evicted,
    /// Bytes of their records.
    bytes_evicted,
    /// Of the dropped items, those that had been used on flash.
    evicted_used,
    /// Items that were written again, because they had been used.
    objects_rescued,
    /// Bytes of their records.
    bytes_rescued,
    /// Dead items removed when their segment was reused.
    reclaimed,
    /// Items brought back to memory, because they were used often.
    recached,
    /// Items that were not written: too small, too large, or the index had too much of the memory.
    not_admitted,
    /// Items that were not written, because the budget for writes was spent.
    over_budget,
    /// Items that were to be written, but there was no piece or no segment.
    refused,
    /// Records with an error, or none where one had to be.
    damaged,
    /// Items that could not be read or written.
    lost,
    /// Of these, items that a client asked for.
    missed,
    /// Reads that were not done, because there were too many or it took too long.
    aborted,
    /// Reads of large values for which there was no memory.
    no_memory,
    /// Segments emptied to be reused.
    segments_reused,
    /// Bytes written to devices.
    device_bytes_written,
    /// Pieces that could not be written.
    write_errors,
    /// How often a device was turned off for seconds, after many failures.
    turned_off,
    /// Pieces that could not be read when their segment was reused.
    read_errors,
    /// Bytes of flash that dumps have left out, because they could not be read.
    dump_bytes_skipped,
}

impl FlashCounters {
    pub(crate) fn written(&self, bytes: usize) {
        self.objects_written.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn rescued(&self, bytes: usize) {
        self.written(bytes);
        self.objects_rescued.fetch_add(1, Relaxed);
        self.bytes_rescued.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn evicted(&self, bytes: usize, was_used: bool) {
        self.objects_evicted.fetch_add(1, Relaxed);
        self.bytes_evicted.fetch_add(bytes as u64, Relaxed);
        self.evicted_used.fetch_add(u64::from(was_used), Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.objects_read.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
    }
}
