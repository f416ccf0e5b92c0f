//! A tier in a manifest: which segments are in use, and what is in them. The slots are in the index, in the memory itself.
//!
//! Nothing on the devices says whose they are, and nothing has to: the CRC of each record depends on the secret of the store and on the
//! version of its segment, so what another server has written there is damaged, that is, a miss.

use std::sync::atomic::Ordering::Relaxed;

use flash::Disk;

use super::config::FlashConfig;
use super::segments::FlashSegments;
use super::{Tier, TierState};
use crate::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::store::Store;
use crate::sync::lock;

/// The sizes that decide where everything lies on flash; all 0 without a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlashLayout {
    segment_bytes: u64,
    piece_bytes: u64,
    /// Segments of each device.
    devices: Vec<u64>,
}

/// More devices than anybody has.
const DEVICES_MAX: u64 = 1 << 16;

impl FlashLayout {
    /// Of a tier that is made with this configuration and a memory limit.
    pub(crate) fn of(config: Option<&FlashConfig>, limit_bytes: u64) -> FlashLayout {
        let layout = |config: &FlashConfig| FlashLayout {
            segment_bytes: config.segment_bytes,
            piece_bytes: config.piece_within(limit_bytes),
            devices: config.devices.iter().map(|device| device.bytes / config.segment_bytes).collect(),
        };
        config.map(layout).unwrap_or_default()
    }

    pub(crate) fn freeze(&self, manifest: &mut ManifestWriter) {
        [self.segment_bytes, self.piece_bytes, self.devices.len() as u64]
            .into_iter()
            .for_each(|number| manifest.put(number));
        self.devices.iter().for_each(|segments| manifest.put(*segments));
    }

    pub(crate) fn thaw(manifest: &mut ManifestReader<'_>) -> Result<FlashLayout, Damaged> {
        let (segment_bytes, piece_bytes) = (manifest.take()?, manifest.take()?);
        let devices = (0..manifest.below(DEVICES_MAX)?).map(|_| manifest.take()).collect::<Result<_, _>>()?;
        Ok(FlashLayout { segment_bytes, piece_bytes, devices })
    }

    /// Whether there is a tier.
    pub(crate) fn is_there(&self) -> bool {
        !self.devices.is_empty()
    }
}

impl std::fmt::Display for FlashLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FlashLayout { segment_bytes, piece_bytes, devices } = self;
        let segments: u64 = devices.iter().sum();
        match devices.len() {
            0 => f.write_str("without flash"),
            count => write!(
                f,
                "with {segments} pages of {segment_bytes} bytes on {count} device{}, written {piece_bytes} bytes at a time",
                if count == 1 { "" } else { "s" }
            ),
        }
    }
}

impl Store {
    /// Writes all that is in memory of the flash tier, before [`Store::freeze`]: nothing goes there afterwards, and its thread has nothing
    /// more to do.
    pub fn finish_flash(&self, disk: &dyn Disk) {
        let Some(tier) = &self.tier else { return };
        let mut is_finished = lock(&tier.is_finished);
        tier.close_pieces();
        while self.write_piece(tier, disk) {}
        *is_finished = true;
    }
}

impl Tier {
    /// Lets all open pieces wait to be written, and seals their segments.
    fn close_pieces(&self) {
        let mut state = lock(&self.state);
        let TierState { pieces, queues } = &mut *state;
        let segments = &mut FlashSegments {
            queues,
            rows: &self.rows,
            geometry: &self.geometry,
            health: &self.health,
            second: self.second.load(Relaxed),
            seed: self.seed,
        };
        pieces.close_all(segments);
    }

    /// All pieces are written, and nobody reads.
    pub(crate) fn freeze(&self, manifest: &mut ManifestWriter) {
        let mut state = lock(&self.state);
        debug_assert_eq!(state.pieces.waiting(), 0, "all have been written");
        state.queues.free_unread(&self.rows, &self.geometry);
        let (versions, sealed) = state.queues.sealed();
        manifest.put(versions);
        manifest.put(sealed.len() as u64);
        for segment in sealed {
            let row = &self.rows[*segment as usize];
            manifest.put(*segment);
            manifest.put(row.objects.load(Relaxed));
            manifest.put(row.records.load(Relaxed));
            manifest.put(row.bytes.load(Relaxed));
            manifest.put(row.version.load(Relaxed));
        }
    }

    /// The tier is empty, and has the same layout.
    pub(crate) fn thaw(&self, manifest: &mut ManifestReader<'_>) -> Result<(), Damaged> {
        let number = u64::from(u32::MAX) + 1;
        let versions = manifest.take()?;
        let count = manifest.below(u64::from(self.geometry.segments()) + 1)?;
        let mut sealed = Vec::new();
        for _ in 0..count {
            let segment = manifest.below(self.geometry.segments().into())? as u32;
            let (objects, records) = (manifest.below(number)? as u32, manifest.below(number)? as u32);
            let (bytes, version) = (manifest.take()?, manifest.take()?);
            let row = &self.rows[segment as usize];
            // Twice the same one would have a version here.
            if row.version.load(Relaxed) != 0 || !(1..=versions).contains(&version) || objects > records {
                return Err(Damaged);
            }
            row.objects.store(objects, Relaxed);
            row.records.store(records, Relaxed);
            row.bytes.store(bytes, Relaxed);
            row.version.store(version, Relaxed);
            self.objects.fetch_add(objects.into(), Relaxed);
            sealed.push(segment);
        }
        lock(&self.state).queues.thaw(versions, sealed);
        Ok(())
    }
}
