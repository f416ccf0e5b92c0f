//! Options of the flash tier, compared with each other and with other options.

use ::flags::show_size;
use stdx::units::MIB;
use store::FlashSettings;

use super::{ExtstoreSettings, FlashOptions, Options};

/// One for each kind of items, one that is emptied, and one to go on with.
const PAGES_MIN: u64 = 5;

/// What is wrong about the tier together with other options.
pub(super) fn check(options: &Options, has_udp: bool) -> Result<(), String> {
    let FlashOptions { paths, segment_bytes, .. } = &options.flash;
    if paths.is_empty() {
        return Ok(());
    }
    if has_udp {
        return Err("-o ext_path and -U: expected one of them, because a datagram does not wait for a read"
            .to_owned());
    }
    let pages = pages(options, *segment_bytes);
    if pages < PAGES_MIN {
        return Err(format!(
            "-o ext_path: expected room for at least {PAGES_MIN} pages of {}, found {pages}",
            show_size(*segment_bytes)
        ));
    }
    Ok(())
}

/// Makes of the sizes what works, where memcached starts with others. Returns a line for each that is not as typed.
pub(super) fn fit(options: &mut Options) -> Vec<String> {
    let mut lines = Vec::new();
    if !options.flash.is_on() {
        return lines;
    }
    if !options.evictions {
        lines.push(
            "-o ext_path has no effect with -M: nothing goes to flash that is not evicted from memory"
                .to_owned(),
        );
        options.flash.paths.clear();
        return lines;
    }
    let FlashOptions { segment_bytes, piece_bytes, .. } = options.flash;
    let halves = |bytes: u64| {
        let largest = 1 << bytes.ilog2();
        std::iter::successors(Some(largest), |bytes: &u64| Some(bytes / 2).filter(|half| *half >= MIB))
    };
    let has_room = |segment: &u64| pages(options, *segment) >= PAGES_MIN;
    let segment = Some(segment_bytes).filter(has_room).or_else(|| halves(segment_bytes).find(has_room));
    // Without room for pages of any size: the check names the size that was typed.
    let segment = segment.unwrap_or(segment_bytes);
    let fits = |piece: &u64| *piece <= PIECE_MAX && segment.is_multiple_of(*piece);
    let piece = halves(piece_bytes).find(fits).unwrap_or(MIB);
    if segment != segment_bytes {
        lines.push(format!(
            "-o ext_page_size: pages of {} are used, because ext_path has room for {} of {}, and {PAGES_MIN} are needed",
            show_size(segment),
            pages(options, segment_bytes),
            show_size(segment_bytes),
        ));
    }
    // A smaller one that follows from smaller pages is not worth a line.
    if piece != piece_bytes && piece_bytes <= segment {
        lines.push(format!(
            "-o ext_wbuf_size={}: {} are used, the largest of 1, 2, 4, 8, 16, 32 and 64 below it of which pages of {} are made",
            piece_bytes / MIB,
            show_size(piece),
            show_size(segment),
        ));
    }
    (options.flash.segment_bytes, options.flash.piece_bytes) = (segment, piece);
    lines
}

/// The largest write buffer.
const PIECE_MAX: u64 = 64 * MIB;

/// Pages of this size that the paths have room for.
fn pages(options: &Options, segment_bytes: u64) -> u64 {
    options.flash.paths.iter().map(|path| path.bytes / segment_bytes).sum()
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
