//! Counts of a flash tier.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use flash::Bucket;

use super::Tier;
use super::config::FlashSettings;
use crate::store::Store;
use crate::sync::lock;

macro_rules! flash_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of all threads: each event takes longer than the counting.
        #[derive(Debug, Default)]
        pub(crate) struct FlashCounters { $(pub(crate) $name: AtomicU64,)* }

        /// Counts of events since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FlashCounts { $($(#[$doc])* pub $name: u64,)* }

        impl FlashCounters {
            fn counts(&self) -> FlashCounts {
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
    /// Items that were not written: too small, too young, large, or the index had too much of the memory.
    not_admitted,
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
    /// Segments emptied to be reused.
    segments_reused,
    /// Bytes written to devices.
    device_bytes_written,
    /// Pieces that could not be written.
    write_errors,
    /// Pieces that could not be read when their segment was reused.
    read_errors,
}

impl FlashCounters {
    pub(super) fn written(&self, bytes: usize) {
        self.objects_written.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn rescued(&self, bytes: usize) {
        self.written(bytes);
        self.objects_rescued.fetch_add(1, Relaxed);
        self.bytes_rescued.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn evicted(&self, bytes: usize, was_used: bool) {
        self.objects_evicted.fetch_add(1, Relaxed);
        self.bytes_evicted.fetch_add(bytes as u64, Relaxed);
        self.evicted_used.fetch_add(u64::from(was_used), Relaxed);
    }

    pub(super) fn read(&self, bytes: usize) {
        self.objects_read.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
    }
}

/// Statistics of a flash tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashStatistics {
    /// Counts of events.
    pub counts: FlashCounts,
    /// Items on flash.
    pub objects: u64,
    /// About as many bytes of records.
    pub bytes_used: u64,
    /// Bytes of records to which nothing refers any more, in segments that are in use.
    pub bytes_garbage: u64,
    /// Bytes of all devices, in whole segments.
    pub bytes_max: u64,
    /// Segments.
    pub segments: u64,
    /// Of these, free ones.
    pub segments_free: u64,
    /// The least number of free ones that is aimed at.
    pub segments_free_min: u64,
    /// Times that a segment was begun.
    pub segments_opened: u64,
    /// Pieces that wait to be written.
    pub pieces_waiting: u64,
    /// Reads that have not ended, or whose bytes are still needed.
    pub reads: u64,
    /// The index's share of the memory limit, in percent.
    pub index_percent: u64,
    /// Settings at present.
    pub settings: FlashSettings,
}

/// A segment of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashSegmentRow {
    /// The how manieth use of a segment this is; 0: it is free.
    pub version: u64,
    /// Bytes of the items that are there.
    pub bytes_used: u64,
    /// The device.
    pub device: usize,
    /// The items that its device is for.
    pub free_bucket: Bucket,
    /// The items that are there; of a free one, those that were there.
    pub bucket: Bucket,
}

impl Store {
    /// Statistics of the flash tier, if there is one.
    pub fn flash_statistics(&self) -> Option<FlashStatistics> {
        let tier = self.tier.as_ref()?;
        let in_use = || tier.rows.iter().filter(|row| row.version.load(Relaxed) != 0);
        let bytes_used = in_use().map(|row| row.used_bytes()).sum();
        let written: u64 = in_use().map(|row| row.bytes.load(Acquire)).sum();
        let state = lock(&tier.state);
        Some(FlashStatistics {
            counts: tier.counters.counts(),
            objects: tier.objects(),
            bytes_used,
            bytes_garbage: written.saturating_sub(bytes_used),
            bytes_max: u64::from(tier.geometry.segments()) * tier.geometry.segment_bytes(),
            segments: tier.geometry.segments().into(),
            segments_free: state.queues.free() as u64,
            segments_free_min: tier.free_min() as u64,
            segments_opened: state.queues.versions(),
            pieces_waiting: state.pieces.waiting() as u64,
            reads: tier.rows.iter().map(|row| u64::from(row.readers())).sum(),
            index_percent: self.index_percent(),
            settings: tier.settings.get(),
        })
    }

    /// Each segment of the flash tier.
    pub fn flash_segments(&self) -> Vec<FlashSegmentRow> {
        let rows = |tier: &Tier| {
            let devices = lock(&tier.state).queues.devices().to_vec();
            let row = |(number, row): (usize, &super::FlashSegment)| {
                let device = tier.geometry.device_of(number as u32);
                FlashSegmentRow {
                    version: row.version.load(Relaxed),
                    bytes_used: row.used_bytes(),
                    device,
                    free_bucket: devices[device].bucket,
                    bucket: row.bucket(),
                }
            };
            tier.rows.iter().enumerate().map(row).collect()
        };
        self.tier.as_ref().map_or_else(Vec::new, rows)
    }

    /// Changes settings of the flash tier, if there is one.
    pub fn set_flash(&self, change: impl FnOnce(&mut FlashSettings)) {
        let Some(tier) = &self.tier else { return };
        // Settings change rarely, but two clients may do so at once.
        let _one_at_a_time = lock(&tier.state);
        let mut settings = tier.settings.get();
        change(&mut settings);
        tier.settings.set(settings);
    }
}
