//! Options of the flash tier, compared with each other and with other options.

use ::flags::show_size;
use stdx::units::MIB;
use store::FlashSettings;

use super::{ExtstoreSettings, FlashOptions, Options};

/// One for each kind of items, one that is emptied, and one to go on with.
const PAGES_MIN: u64 = 5;

/// What is wrong about the tier together with other options.
pub(super) fn check(options: &Options, has_udp: bool) -> Result<(), String> {
    let FlashOptions { paths, segment_bytes, piece_bytes, .. } = &options.flash;
    if paths.is_empty() {
        return Ok(());
    }
    let other = [
        (has_udp, "-U", "a datagram does not wait for a read"),
        (!options.evictions, "-M", "nothing goes to flash that is not evicted from memory"),
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

/// The rate, in megabytes per second, that a number of drive writes per day is.
pub(super) fn write_rate_mb_s(dwpd: f64, options: &Options) -> Result<f64, String> {
    if options.echo.extstore.write_rate_mb_s > 0.0 {
        return Err("-o ext_dwpd and ext_write_rate: expected one of them".to_owned());
    }
    let bytes: u64 = options.flash.paths.iter().map(|path| path.bytes).sum();
    Ok(dwpd * bytes as f64 / DAY_S / MB)
}

const DAY_S: f64 = 86_400.0;
const MB: f64 = 1e6;

/// A line for the operator: options of a tier that is not there.
pub(super) fn note(options: &Options) -> Option<String> {
    let is_default = FlashOptions { settings: FlashSettings::default(), ..options.flash.clone() }
        == FlashOptions::default()
        && options.echo.extstore == ExtstoreSettings::default();
    (!is_default && !options.flash.is_on())
        .then(|| "-o ext_…: nothing goes to flash without ext_path".to_owned())
}
