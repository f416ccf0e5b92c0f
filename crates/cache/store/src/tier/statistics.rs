//! Statistics of a flash tier.

pub(crate) mod counters;

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use flash::Bucket;

use super::config::FlashSettings;
use super::segments::FlashSegment;
use super::state::Tier;
use crate::store::Store;
use crate::sync::lock;
use crate::tier::devices::health::DeviceOff;
use crate::tier::statistics::counters::FlashCounts;

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
    /// Times that a segment was begun since the start.
    pub segments_opened: u64,
    /// Pieces that wait to be written.
    pub pieces_waiting: u64,
    /// The share of the memory limit that the index and the pieces have, in percent.
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
    /// From now on `tell` is called when a device of the tier is turned off. Only the first call has an effect.
    pub fn on_device_off(&self, tell: DeviceOff) {
        if let Some(tier) = &self.tier {
            tier.off_bell.connect(tell);
        }
    }

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
            segments_opened: state.queues.opened(),
            pieces_waiting: state.pieces.waiting() as u64,
            index_percent: self.index_percent(),
            settings: tier.settings.get(),
        })
    }

    /// Each segment of the flash tier.
    pub fn flash_segments(&self) -> Vec<FlashSegmentRow> {
        let rows = |tier: &Tier| {
            let devices = lock(&tier.state).queues.devices().to_vec();
            let row = |(number, row): (usize, &FlashSegment)| {
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
