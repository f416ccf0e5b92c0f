//! Options of a flash tier (memcached's extstore).

use ::flags::show_size;
use ::flash::PathSpecification;
use stdx::units::MIB;
use store::{FlashConfig, FlashDevice, FlashSettings};

use super::{ExtstoreSettings, Options};

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

/// One for each kind of items, one that is emptied, and one to go on with.
const PAGES_MIN: u64 = 5;

impl Options {
    /// What is wrong about the tier together with other options.
    pub(super) fn check_flash(&self, has_udp: bool) -> Result<(), String> {
        let FlashOptions { paths, segment_bytes, piece_bytes, .. } = &self.flash;
        if paths.is_empty() {
            return Ok(());
        }
        let other = [
            (has_udp, "-U", "a datagram does not wait for a read"),
            (!self.evictions, "-M", "nothing goes to flash that is not evicted from memory"),
            (self.memory_file.is_some(), "-e", "items on flash do not outlive a restart"),
            (self.takeover.is_some(), "--takeover", "items on flash cannot be handed over"),
        ];
        if let Some((_, flag, why)) = other.into_iter().find(|(is_given, ..)| *is_given) {
            return Err(format!("-o ext_path and {flag}: expected one of them, because {why}"));
        }
        let (page, buffer) = (segment_bytes / MIB, piece_bytes / MIB);
        if !buffer.is_power_of_two() {
            return Err(format!("-o ext_wbuf_size={buffer}: expected 1, 2, 4, 8, 16, 32 or 64"));
        }
        if !segment_bytes.is_multiple_of(*piece_bytes) {
            return Err(format!(
                "-o ext_page_size={page},ext_wbuf_size={buffer}: expected pages of a whole number of write buffers"
            ));
        }
        let pages: u64 = paths.iter().map(|path| path.bytes / segment_bytes).sum();
        if pages < PAGES_MIN {
            return Err(format!(
                "-o ext_path: expected room for at least {PAGES_MIN} pages of {} (ext_page_size), found {pages}",
                show_size(*segment_bytes)
            ));
        }
        Ok(())
    }

    /// A line for the operator: options of a tier that is not there.
    pub(super) fn flash_note(&self) -> Option<String> {
        let is_default = FlashOptions { settings: FlashSettings::default(), ..self.flash.clone() }
            == FlashOptions::default()
            && self.echo.extstore == ExtstoreSettings::default();
        (!is_default && !self.flash.is_on())
            .then(|| "-o ext_…: nothing goes to flash without ext_path".to_owned())
    }
}
