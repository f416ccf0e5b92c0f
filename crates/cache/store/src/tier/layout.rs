//! The layout of a flash tier: the sizes by which a slot leads to a place.

pub(super) mod geometry;
pub(super) mod record;
pub(super) mod table;

use super::config::FlashConfig;
use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::store::Store;

/// The sizes that decide where everything lies on flash; all 0 without a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlashLayout {
    segment_bytes: u64,
    piece_bytes: u64,
    /// Segments of each device.
    devices: Vec<u64>,
}

/// Sizes of a store's tier that whoever goes on with it has to have, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashSizes {
    /// Bytes that are reused together.
    pub segment_bytes: u64,
    /// Bytes that are written together, which follow from a configuration and the next number ([`FlashConfig::piece_within`]).
    pub piece_bytes: u64,
    /// The memory limit with which the store was made.
    pub limit_bytes: u64,
    /// Segments of each device.
    pub segments: Vec<u64>,
}

impl Store {
    /// The sizes of the flash tier, if there is one.
    pub fn flash_sizes(&self) -> Option<FlashSizes> {
        let FlashLayout { segment_bytes, piece_bytes, devices } = &self.flash_layout;
        self.flash_layout.is_there().then(|| FlashSizes {
            segment_bytes: *segment_bytes,
            piece_bytes: *piece_bytes,
            limit_bytes: self.layout.limit_bytes,
            segments: devices.clone(),
        })
    }
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
        // A manifest that is refused may say anything.
        let segments = devices.iter().copied().fold(0, u64::saturating_add);
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
