//! Options of a flash tier (memcached's extstore).

use ::flash::PathSpecification;
use stdx::units::MIB;
use store::{FlashConfig, FlashDevice, FlashSettings};

/// `-o ext_…`: without a path there is no tier.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashOptions {
    /// `ext_path`, once per occurrence.
    pub paths: Vec<PathSpecification>,
    /// `ext_page_size`, in bytes.
    pub segment_bytes: u64,
    /// `ext_wbuf_size`, in bytes.
    pub piece_bytes: u64,
    /// What may be changed by the command `extstore`.
    pub settings: FlashSettings,
}

impl Default for FlashOptions {
    fn default() -> FlashOptions {
        FlashOptions {
            paths: Vec::new(),
            segment_bytes: 64 * MIB,
            piece_bytes: 4 * MIB,
            settings: FlashSettings::default(),
        }
    }
}

impl FlashOptions {
    /// Whether there is a tier.
    pub fn is_on(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Bytes that a tier writes at once that was made with this memory limit.
    pub fn piece_within(&self, limit_bytes: u64) -> u64 {
        self.config(std::iter::empty()).piece_within(limit_bytes)
    }

    /// The tier of a store, over devices of these sizes.
    pub(crate) fn config(&self, bytes: impl Iterator<Item = u64>) -> FlashConfig {
        let device = |(bytes, path): (u64, &PathSpecification)| FlashDevice { bytes, bucket: path.bucket };
        FlashConfig {
            devices: bytes.zip(&self.paths).map(device).collect(),
            segment_bytes: self.segment_bytes,
            piece_bytes: self.piece_bytes,
            settings: self.settings,
        }
    }
}
