//! Statistics of the store, under the names of memcached's slab classes and LRU lists.
//!
//! There is one class, number 1, because memory is not divided by size here. Its `hot` is the small queue,
//! where items start; its `cold` is the main queue, with items that were used again.

use stdx::clock::Now;
use store::{Counts, Statistics};

use super::list::{StatList, stat};
use crate::shared::Figures;

/// memcached's statistics of its hash table and slabs.
pub(super) fn memory(store: &Statistics, crawls: u64, out: &mut StatList<'_>) {
    stat(out, "hash_power_level", store.index_home_slots.max(1).ilog2());
    stat(out, "hash_bytes", store.index_bytes);
    for name in ["hash_is_expanding", "slab_reassign_rescues", "slab_reassign_chunk_rescues"] {
        stat(out, name, 0);
    }
    for name in ["slab_reassign_inline_reclaim", "slab_reassign_busy_items", "slab_reassign_busy_deletes"] {
        stat(out, name, 0);
    }
    stat(out, "slab_reassign_busy_nomem", 0);
    stat(out, "slab_reassign_last_busy_status", "none");
    stat(out, "slab_reassign_running", 0);
    stat(out, "slabs_moved", store.counts.segments_reclaimed);
    stat(out, "lru_crawler_running", 0);
    stat(out, "lru_crawler_starts", crawls);
    stat(out, "lru_maintainer_juggles", 0);
    stat(out, "malloc_fails", 0);
}

/// memcached's statistics of items.
pub(super) fn general(store: &Statistics, out: &mut StatList<'_>) {
    let counts = &store.counts;
    stat(out, "bytes", counts.bytes);
    stat(out, "curr_items", counts.curr_items);
    stat(out, "total_items", counts.total_items);
    stat(out, "slab_global_page_pool", store.segments.free);
    stat(out, "expired_unfetched", counts.expired_unfetched);
    stat(out, "evicted_unfetched", counts.evicted_unfetched);
    stat(out, "evicted_active", counts.evicted_active);
    stat(out, "evictions", counts.evictions);
    stat(out, "reclaimed", counts.reclaimed);
    stat(out, "crawler_reclaimed", counts.crawler_reclaimed);
    stat(out, "crawler_items_checked", counts.crawler_items_checked);
    stat(out, "lrutail_reflocked", 0);
    stat(out, "moves_to_cold", counts.copied_forward);
    for name in ["moves_to_warm", "moves_within_lru", "direct_reclaims", "lru_bumps_dropped"] {
        stat(out, name, 0);
    }
}

/// Statistics that memcached does not have.
pub(super) fn ours(store: &Statistics, out: &mut StatList<'_>) {
    stat(out, "evenkeel_charged_bytes", store.charged_bytes);
    stat(out, "evenkeel_large_bytes", store.large_bytes);
    stat(out, "evenkeel_dead_bytes", store.segments.dead_bytes);
    stat(out, "evenkeel_ghost_hits", store.counts.ghost_hits);
    stat(out, "evenkeel_overwritten_in_place", store.counts.overwritten_in_place);
    stat(out, "evenkeel_policy", store.policy.policy);
    stat(out, "evenkeel_policy_changes", store.policy.changes);
    stat(out, "evenkeel_sampled_one_in", store.policy.sampled_one_in);
    stat(out, "evenkeel_samples_lost", store.policy.lost);
}

/// `stats items`.
pub(super) fn items(figures: &Figures, now: Now, out: &mut StatList<'_>) {
    let Figures { store, totals, .. } = figures;
    let counts = &store.counts;
    if counts.curr_items == 0 {
        return;
    }
    let age = |opened: Option<u32>| opened.map_or(0, |second| now.second().saturating_sub(second));
    let mut line = |name: &str, value: u64| stat(out, format_args!("items:1:{name}"), value);
    line("number", counts.curr_items);
    line("number_hot", counts.small_items);
    line("number_warm", 0);
    line("number_cold", counts.main_items);
    line("age_hot", age(store.segments.small_oldest).into());
    line("age_warm", 0);
    line("age", age(store.segments.main_oldest.or(store.segments.small_oldest)).into());
    line("mem_requested", counts.bytes);
    line("evicted", counts.evictions);
    line("evicted_nonzero", counts.evicted_nonzero);
    line("evicted_time", if counts.evictions == 0 { 0 } else { store.evicted_idle_s.into() });
    line("outofmemory", totals.store_no_memory);
    line("tailrepairs", 0);
    evictions(counts, &mut line);
    for name in ["moves_to_warm", "moves_within_lru", "direct_reclaims", "hits_to_hot", "hits_to_warm"] {
        line(name, 0);
    }
    line("hits_to_cold", totals.get_hits);
    line("hits_to_temp", 0);
}

fn evictions(counts: &Counts, line: &mut impl FnMut(&str, u64)) {
    line("reclaimed", counts.reclaimed);
    line("expired_unfetched", counts.expired_unfetched);
    line("evicted_unfetched", counts.evicted_unfetched);
    line("evicted_active", counts.evicted_active);
    line("crawler_reclaimed", counts.crawler_reclaimed);
    line("crawler_items_checked", counts.crawler_items_checked);
    line("lrutail_reflocked", 0);
    line("moves_to_cold", counts.copied_forward);
}

/// `stats slabs`: segments are the closest equivalent of pages.
pub(super) fn slabs(figures: &Figures, out: &mut StatList<'_>) {
    let Figures { store, totals, .. } = figures;
    let segments = &store.segments;
    let pages = segments.open + segments.small + segments.main;
    let used = store.counts.curr_items;
    let mut line = |name: &str, value: u64| stat(out, format_args!("1:{name}"), value);
    // As in memcached, a class has lines as long as it has memory, also when the last item is gone.
    if pages > 0 || used > 0 {
        // A segment without items is one piece.
        let chunk_size = store.counts.bytes.checked_div(used).unwrap_or(segments.segment_size).max(1);
        let chunks_per_page = segments.segment_size / chunk_size;
        line("chunk_size", chunk_size);
        line("chunks_per_page", chunks_per_page);
        line("total_pages", pages);
        line("total_chunks", (pages * chunks_per_page).max(used));
        line("used_chunks", used);
        line("free_chunks", (pages * chunks_per_page).saturating_sub(used));
        line("free_chunks_end", 0);
        line("get_hits", totals.get_hits);
        line("cmd_set", totals.cmd_set);
        line("delete_hits", totals.delete_hits);
        line("incr_hits", totals.incr_hits);
        line("decr_hits", totals.decr_hits);
        line("cas_hits", totals.cas_hits);
        line("cas_badval", totals.cas_badval);
        line("touch_hits", totals.touch_hits);
    }
    stat(out, "active_slabs", u8::from(pages > 0 || used > 0));
    // Free segments are those of slab_global_page_pool.
    let free = segments.free * segments.segment_size;
    stat(out, "total_malloced", store.charged_bytes.saturating_sub(free));
}
