//! Statistics of the flash tier, under the names of memcached's extstore. Its pages are our segments.

use flash::Bucket;
use store::{FlashCounts, FlashSegmentRow, FlashStatistics};

use super::list::{StatForm, StatList, stat};
use crate::connection::flow::Flow;
use crate::connection::output::Output;
use crate::shared::Figures;

/// Lines about commands.
pub(super) fn commands(figures: &Figures, out: &mut StatList<'_>) {
    let Some((flash, reset)) = counts(figures) else { return };
    stat(out, "get_extstore", flash.objects_read.saturating_sub(reset.objects_read));
    stat(out, "get_aborted_extstore", flash.aborted.saturating_sub(reset.aborted));
    stat(out, "get_oom_extstore", flash.no_memory.saturating_sub(reset.no_memory));
    stat(out, "recache_from_extstore", flash.recached.saturating_sub(reset.recached));
    stat(out, "miss_from_extstore", flash.missed.saturating_sub(reset.missed));
    stat(out, "badcrc_from_extstore", flash.damaged.saturating_sub(reset.damaged));
}

/// Lines about the tier.
pub(super) fn general(figures: &Figures, out: &mut StatList<'_>) {
    let (Some(flash), Some((now, reset))) = (&figures.flash, counts(figures)) else { return };
    stat(out, "extstore_memory_pressure", format_args!("{:.2}", flash.index_percent as f64));
    // As in memcached, these alone are affected by a reset.
    let not_asked_for = |counts: &FlashCounts| counts.lost.saturating_sub(counts.missed);
    let unused = |counts: &FlashCounts| counts.objects_evicted.saturating_sub(counts.evicted_used);
    for (name, value) in [
        ("compact_lost", not_asked_for(now).saturating_sub(not_asked_for(reset))),
        ("compact_rescues", now.objects_rescued.saturating_sub(reset.objects_rescued)),
        // All that is kept goes to the same pages.
        ("compact_resc_cold", 0),
        ("compact_resc_old", 0),
        ("compact_skipped", unused(now).saturating_sub(unused(reset))),
        ("page_allocs", flash.segments_opened),
        // A page that is emptied is evicted and reclaimed in one.
        ("page_evictions", now.segments_reused),
        ("page_reclaims", now.segments_reused),
        ("pages_free", flash.segments_free),
        ("pages_used", flash.segments - flash.segments_free),
        ("objects_evicted", now.objects_evicted),
        ("objects_read", now.objects_read),
        ("objects_written", now.objects_written),
        ("objects_used", flash.objects),
        ("bytes_evicted", now.bytes_evicted),
        ("bytes_written", now.bytes_written),
        ("bytes_read", now.bytes_read),
        ("bytes_used", flash.bytes_used),
        ("bytes_fragmented", bytes_fragmented(flash)),
        ("limit_maxbytes", flash.bytes_max),
        ("io_queue", figures.flash_reads + flash.pieces_waiting),
    ] {
        stat(out, format_args!("extstore_{name}"), value);
    }
}

/// Counts since the start, and those at the last reset.
fn counts(figures: &Figures) -> Option<(&FlashCounts, &FlashCounts)> {
    Some((&figures.flash.as_ref()?.counts, &figures.flash_reset))
}

/// As in memcached, pages that are being filled count, too.
fn bytes_fragmented(flash: &FlashStatistics) -> u64 {
    let page_bytes = flash.bytes_max.checked_div(flash.segments).unwrap_or(0);
    ((flash.segments - flash.segments_free) * page_bytes).saturating_sub(flash.bytes_used)
}

/// `stats extstore`, in steps: there can be 65,536 pages, and the client need not read.
pub(crate) struct FlashPages {
    rows: std::iter::Enumerate<std::vec::IntoIter<FlashSegmentRow>>,
}

impl FlashPages {
    pub(crate) fn new(rows: Vec<FlashSegmentRow>) -> FlashPages {
        FlashPages { rows: rows.into_iter().enumerate() }
    }

    /// Sends the next lines.
    pub(crate) fn serve(&mut self, output: &mut Output) -> Flow {
        let mut list = StatForm::Text.list(output.copied());
        for _ in 0..PAGES_PER_TURN {
            let Some((number, row)) = self.rows.next() else {
                list.end();
                return Flow::Go;
            };
            stat(&mut list, format_args!("{number}:version"), row.version);
            stat(&mut list, format_args!("{number}:bytes"), row.bytes_used);
            stat(&mut list, format_args!("{number}:bucket"), bucket_number(row.bucket));
            stat(&mut list, format_args!("{number}:free_bucket"), bucket_number(row.free_bucket));
        }
        Flow::Yield
    }
}

/// About 20 KB of output.
const PAGES_PER_TURN: usize = 200;

/// memcached's number of a bucket (storage.c).
fn bucket_number(bucket: Bucket) -> u8 {
    match bucket {
        Bucket::Default => 0,
        Bucket::Compact => 1,
        Bucket::Chunked => 2,
        Bucket::LowTtl => 3,
        Bucket::ColdCompact => 4,
        Bucket::Old => 5,
    }
}
