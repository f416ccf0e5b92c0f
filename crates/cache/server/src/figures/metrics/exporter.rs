//! The families of prometheus/memcached_exporter, under its names, types and labels, so that dashboards and alerts for it
//! work unchanged.
//!
//! They are a table over memcached's statistics, as they are in the exporter. Families of the proxy are left out, and those of
//! extstore where there is no flash tier, as the exporter leaves them out for a memcached without these.

use std::collections::HashMap;

use stdx::exposition::{Exposition, FamilyKind};

use super::statistics::Statistics;
use crate::shared::VERSION;

use FamilyKind::{Counter, Gauge};

/// A family: its name without `memcached_`, its kind, its help, and its samples as labels and names of statistics.
type Row = (&'static str, FamilyKind, &'static str, &'static [(Labels, &'static str)]);
type Labels = &'static [(&'static str, &'static str)];

const NONE: Labels = &[];
/// The only class: memory is not divided by size here.
const SLAB: Labels = &[("slab", "1")];

/// Labels of a command and its outcome.
macro_rules! outcome {
    ($command:literal, $status:literal) => {
        &[("command", $command), ("status", $status)]
    };
    (slab $command:literal, $status:literal) => {
        &[("slab", "1"), ("command", $command), ("status", $status)]
    };
}

const SERVER: &[Row] = &[
    ("uptime_seconds", Counter, "Seconds since the server started.", &[(NONE, "uptime")]),
    ("time_seconds", Gauge, "The server's time of day, in seconds since 1970.", &[(NONE, "time")]),
    ("process_user_cpu_seconds_total", Counter, "CPU time in user space.", &[(NONE, "rusage_user")]),
    ("process_system_cpu_seconds_total", Counter, "CPU time in the kernel.", &[(NONE, "rusage_system")]),
    ("read_bytes_total", Counter, "Bytes received from clients.", &[(NONE, "bytes_read")]),
    ("written_bytes_total", Counter, "Bytes sent to clients.", &[(NONE, "bytes_written")]),
    ("current_connections", Gauge, "Open connections.", &[(NONE, "curr_connections")]),
    ("max_connections", Gauge, "The limit of connections (-c).", &[(NONE, "max_connections")]),
    ("connections_total", Counter, "Connections accepted.", &[(NONE, "total_connections")]),
    (
        "connections_rejected_total",
        Counter,
        "Connections refused at the limit.",
        &[(NONE, "rejected_connections")],
    ),
    (
        "connections_yielded_total",
        Counter,
        "Turns of a connection that ended because it had had its share (-R).",
        &[(NONE, "conn_yields")],
    ),
    (
        "connections_listener_disabled_total",
        Counter,
        "Times that accepting paused, at the limit of connections or of open files.",
        &[(NONE, "listen_disabled_num")],
    ),
    ("accepting_connections", Gauge, "Whether connections are being accepted.", &[(NONE, "accepting_conns")]),
    ("current_bytes", Gauge, "Bytes of the items.", &[(NONE, "bytes")]),
    ("limit_bytes", Gauge, "The memory limit (-m).", &[(NONE, "limit_maxbytes")]),
    (
        "malloced_bytes",
        Gauge,
        "Memory charged to the limit: items, index, large values.",
        &[(NONE, "total_malloced")],
    ),
    ("current_items", Gauge, "Items present.", &[(NONE, "curr_items")]),
    ("items_total", Counter, "Items stored, replacements included.", &[(NONE, "total_items")]),
    ("items_evicted_total", Counter, "Live items evicted to make room.", &[(NONE, "evictions")]),
    ("items_reclaimed_total", Counter, "Expired items whose memory was used again.", &[(NONE, "reclaimed")]),
    ("item_too_large_total", Counter, "Items refused because of their size.", &[(NONE, "store_too_large")]),
    ("item_no_memory_total", Counter, "Items refused for lack of memory.", &[(NONE, "store_no_memory")]),
    (
        "direct_reclaims_total",
        Counter,
        "Evictions by a worker because of a late LRU; always 0 here.",
        &[(NONE, "direct_reclaims")],
    ),
    (
        "commands_total",
        Counter,
        "Commands by their outcome; a get counts for each key.",
        &[
            (outcome!("get", "hit"), "get_hits"),
            (outcome!("get", "miss"), "get_misses"),
            (outcome!("set", "hit"), SETS),
            (outcome!("delete", "hit"), "delete_hits"),
            (outcome!("delete", "miss"), "delete_misses"),
            (outcome!("incr", "hit"), "incr_hits"),
            (outcome!("incr", "miss"), "incr_misses"),
            (outcome!("decr", "hit"), "decr_hits"),
            (outcome!("decr", "miss"), "decr_misses"),
            (outcome!("cas", "hit"), "cas_hits"),
            (outcome!("cas", "miss"), "cas_misses"),
            (outcome!("cas", "badval"), "cas_badval"),
            (outcome!("touch", "hit"), "touch_hits"),
            (outcome!("touch", "miss"), "touch_misses"),
            (outcome!("flush", "hit"), "cmd_flush"),
        ],
    ),
    ("lru_crawler_starts_total", Counter, "Crawls that were requested.", &[(NONE, "lru_crawler_starts")]),
    (
        "lru_crawler_reclaimed_total",
        Counter,
        "Dead items that crawls removed.",
        &[(NONE, "crawler_reclaimed")],
    ),
    (
        "lru_crawler_items_checked_total",
        Counter,
        "Items that crawls examined.",
        &[(NONE, "crawler_items_checked")],
    ),
    (
        "lru_crawler_moves_to_cold_total",
        Counter,
        "Items that were copied forward to be kept.",
        &[(NONE, "moves_to_cold")],
    ),
    (
        "lru_crawler_moves_to_warm_total",
        Counter,
        "Items moved to a warm LRU; always 0 here.",
        &[(NONE, "moves_to_warm")],
    ),
    (
        "lru_crawler_moves_within_lru_total",
        Counter,
        "Items moved within a LRU; always 0 here.",
        &[(NONE, "moves_within_lru")],
    ),
];

/// As in the exporter, only while the crawler is enabled.
const CRAWLER: &[Row] = &[
    ("lru_crawler_enabled", Gauge, "Whether crawls are allowed.", &[(NONE, "lru_crawler")]),
    (
        "lru_crawler_sleep",
        Gauge,
        "Microseconds between two items of a crawl; without effect here.",
        &[(NONE, "lru_crawler_sleep")],
    ),
    (
        "lru_crawler_to_crawl",
        Gauge,
        "Items of a class to crawl; without effect here.",
        &[(NONE, "lru_crawler_tocrawl")],
    ),
    (
        "lru_crawler_maintainer_thread",
        Gauge,
        "The setting of memcached's thread for LRUs; without effect here.",
        &[(NONE, "lru_maintainer_thread")],
    ),
    (
        "lru_crawler_hot_percent",
        Gauge,
        "Memory for hot items; without effect here.",
        &[(NONE, "hot_lru_pct")],
    ),
    (
        "lru_crawler_warm_percent",
        Gauge,
        "Memory for warm items; without effect here.",
        &[(NONE, "warm_lru_pct")],
    ),
    (
        "lru_crawler_hot_max_factor",
        Gauge,
        "Age of hot items; without effect here.",
        &[(NONE, "hot_max_factor")],
    ),
    (
        "lru_crawler_warm_max_factor",
        Gauge,
        "Age of warm items; without effect here.",
        &[(NONE, "warm_max_factor")],
    ),
];

/// As in the exporter, only while there are items.
const SLABS: &[Row] = &[
    ("slab_current_items", Gauge, "Items present.", &[(SLAB, "items:1:number")]),
    ("slab_items_age_seconds", Gauge, "Age of the oldest items.", &[(SLAB, "items:1:age")]),
    (
        "slab_items_crawler_reclaimed_total",
        Counter,
        "Dead items that crawls removed.",
        &[(SLAB, "items:1:crawler_reclaimed")],
    ),
    ("slab_items_evicted_total", Counter, "Live items evicted.", &[(SLAB, "items:1:evicted")]),
    (
        "slab_items_evicted_nonzero_total",
        Counter,
        "Evicted items with an expiry.",
        &[(SLAB, "items:1:evicted_nonzero")],
    ),
    (
        "slab_items_evicted_time_seconds",
        Counter,
        "Seconds since its last use when the last item was evicted.",
        &[(SLAB, "items:1:evicted_time")],
    ),
    (
        "slab_items_evicted_unfetched_total",
        Counter,
        "Evicted items that had never been read.",
        &[(SLAB, "items:1:evicted_unfetched")],
    ),
    (
        "slab_items_expired_unfetched_total",
        Counter,
        "Expired items that had never been read.",
        &[(SLAB, "items:1:expired_unfetched")],
    ),
    (
        "slab_items_outofmemory_total",
        Counter,
        "Items refused for lack of memory.",
        &[(SLAB, "items:1:outofmemory")],
    ),
    (
        "slab_items_reclaimed_total",
        Counter,
        "Expired items whose memory was used again.",
        &[(SLAB, "items:1:reclaimed")],
    ),
    (
        "slab_items_tailrepairs_total",
        Counter,
        "Repairs of a LRU; always 0 here.",
        &[(SLAB, "items:1:tailrepairs")],
    ),
    (
        "slab_items_moves_to_cold",
        Counter,
        "Items that were copied forward to be kept.",
        &[(SLAB, "items:1:moves_to_cold")],
    ),
    (
        "slab_items_moves_to_warm",
        Counter,
        "Items moved to a warm LRU; always 0 here.",
        &[(SLAB, "items:1:moves_to_warm")],
    ),
    (
        "slab_items_moves_within_lru",
        Counter,
        "Items moved within a LRU; always 0 here.",
        &[(SLAB, "items:1:moves_within_lru")],
    ),
    (
        "slab_hot_items",
        Gauge,
        "Items in the small queue, where items start.",
        &[(SLAB, "items:1:number_hot")],
    ),
    ("slab_warm_items", Gauge, "Items in a warm LRU; always 0 here.", &[(SLAB, "items:1:number_warm")]),
    (
        "slab_cold_items",
        Gauge,
        "Items in the main queue, which were used again.",
        &[(SLAB, "items:1:number_cold")],
    ),
    ("slab_temporary_items", Gauge, "Items in a temporary LRU; always 0 here.", &[(SLAB, ZERO)]),
    (
        "slab_hot_age_seconds",
        Gauge,
        "Age of the oldest items of the small queue.",
        &[(SLAB, "items:1:age_hot")],
    ),
    (
        "slab_warm_age_seconds",
        Gauge,
        "Age of the oldest warm item; always 0 here.",
        &[(SLAB, "items:1:age_warm")],
    ),
    (
        "slab_lru_hits_total",
        Counter,
        "Hits by the LRU of the item; all count as cold here.",
        &[
            (&[("slab", "1"), ("lru", "hot")], "items:1:hits_to_hot"),
            (&[("slab", "1"), ("lru", "warm")], "items:1:hits_to_warm"),
            (&[("slab", "1"), ("lru", "cold")], "items:1:hits_to_cold"),
            (&[("slab", "1"), ("lru", "temporary")], "items:1:hits_to_temp"),
        ],
    ),
    ("slab_chunk_size_bytes", Gauge, "Mean size of the items.", &[(SLAB, "1:chunk_size")]),
    ("slab_chunks_per_page", Gauge, "Items of mean size that fit a segment.", &[(SLAB, "1:chunks_per_page")]),
    ("slab_current_pages", Gauge, "Segments in use.", &[(SLAB, "1:total_pages")]),
    (
        "slab_current_chunks",
        Gauge,
        "Items of mean size that fit the segments in use.",
        &[(SLAB, "1:total_chunks")],
    ),
    ("slab_chunks_used", Gauge, "Items present.", &[(SLAB, "1:used_chunks")]),
    ("slab_chunks_free", Gauge, "Items of mean size that would still fit.", &[(SLAB, "1:free_chunks")]),
    (
        "slab_chunks_free_end",
        Gauge,
        "Unused chunks of the last page; always 0 here.",
        &[(SLAB, "1:free_chunks_end")],
    ),
    ("slab_mem_requested_bytes", Counter, "Bytes of the items.", &[(SLAB, "items:1:mem_requested")]),
    (
        "slab_commands_total",
        Counter,
        "Commands by their outcome.",
        &[
            (outcome!(slab "get", "hit"), "1:get_hits"),
            (outcome!(slab "set", "hit"), SLAB_SETS),
            (outcome!(slab "delete", "hit"), "1:delete_hits"),
            (outcome!(slab "incr", "hit"), "1:incr_hits"),
            (outcome!(slab "decr", "hit"), "1:decr_hits"),
            (outcome!(slab "cas", "hit"), "1:cas_hits"),
            (outcome!(slab "cas", "badval"), "1:cas_badval"),
            (outcome!(slab "touch", "hit"), "1:touch_hits"),
        ],
    ),
];

/// As in the exporter, only where there is a flash tier. Its kinds, too, even of `bytes_used`.
const EXTSTORE: &[Row] = &[
    (
        "extstore_compact_lost_total",
        Counter,
        "Items on flash lost because a device failed.",
        &[(NONE, "extstore_compact_lost")],
    ),
    (
        "extstore_compact_rescued_total",
        Counter,
        "Items that were kept when their page was emptied.",
        &[(NONE, "extstore_compact_rescues")],
    ),
    (
        "extstore_compact_skipped_total",
        Counter,
        "Items dropped when their page was emptied, because they had not been used.",
        &[(NONE, "extstore_compact_skipped")],
    ),
    (
        "extstore_pages_allocated_total",
        Counter,
        "Times that a page was begun.",
        &[(NONE, "extstore_page_allocs")],
    ),
    ("extstore_pages_evicted_total", Counter, "Pages emptied.", &[(NONE, "extstore_page_evictions")]),
    ("extstore_pages_reclaimed_total", Counter, "Pages emptied.", &[(NONE, "extstore_page_reclaims")]),
    ("extstore_pages_free", Gauge, "Free pages.", &[(NONE, "extstore_pages_free")]),
    ("extstore_pages_used", Gauge, "Pages that are not free.", &[(NONE, "extstore_pages_used")]),
    (
        "extstore_objects_evicted_total",
        Counter,
        "Live items dropped when their page was emptied.",
        &[(NONE, "extstore_objects_evicted")],
    ),
    ("extstore_objects_read_total", Counter, "Items read for clients.", &[(NONE, "extstore_objects_read")]),
    (
        "extstore_objects_written_total",
        Counter,
        "Items written, those that were kept included.",
        &[(NONE, "extstore_objects_written")],
    ),
    ("extstore_objects_used", Gauge, "Items on flash.", &[(NONE, "extstore_objects_used")]),
    (
        "extstore_bytes_evicted_total",
        Counter,
        "Bytes of live items that were dropped.",
        &[(NONE, "extstore_bytes_evicted")],
    ),
    ("extstore_bytes_written_total", Counter, "Bytes of items written.", &[(NONE, "extstore_bytes_written")]),
    (
        "extstore_bytes_read_total",
        Counter,
        "Bytes of items read for clients.",
        &[(NONE, "extstore_bytes_read")],
    ),
    ("extstore_bytes_used", Counter, "Bytes of items on flash.", &[(NONE, "extstore_bytes_used")]),
    (
        "extstore_bytes_fragmented",
        Gauge,
        "Bytes of pages in use without a live item.",
        &[(NONE, "extstore_bytes_fragmented")],
    ),
    ("extstore_bytes_limit", Gauge, "Bytes of all pages.", &[(NONE, "extstore_limit_maxbytes")]),
    (
        "extstore_io_queue_depth",
        Gauge,
        "Reads under way, and write buffers that wait.",
        &[(NONE, "extstore_io_queue")],
    ),
];

/// Computed as the exporter does: memcached counts `cas` among the sets, too.
const SETS: &str = "sets without cas";
const SLAB_SETS: &str = "1:sets without cas";

/// What memcached says only with `-o temporary_ttl`, which has no effect here.
const ZERO: &str = "nothing";

type Values<'s> = HashMap<&'s str, &'s str>;

pub(super) fn write(statistics: &Statistics, text: &mut Exposition) {
    let values: Values<'_> = statistics.counts().collect();
    let settings: Values<'_> = statistics.settings().collect();
    text.single("memcached_up", Gauge, "Whether the server runs: 1.", 1);
    let mut version = text.family("memcached_version", Gauge, "The version, as a label.");
    version.sample(&[("version", VERSION)], 1);
    write_rows(SERVER, &values, text);
    if settings.get("lru_crawler") == Some(&"yes") {
        write_rows(CRAWLER, &settings, text);
    }
    if values.contains_key("items:1:number") {
        write_rows(SLABS, &values, text);
    }
    if values.contains_key("extstore_limit_maxbytes") {
        write_rows(EXTSTORE, &values, text);
    }
}

fn write_rows(rows: &[Row], values: &Values<'_>, text: &mut Exposition) {
    for (name, kind, help, samples) in rows {
        let name = format!("memcached_{name}");
        let mut family = text.family(&name, *kind, help);
        for (labels, statistic) in *samples {
            // A statistic that is missing, or no number, is a mistake that the tests find. Here it ends nothing.
            if let Some(value) = value(statistic, values) {
                family.sample(labels, value);
            }
        }
    }
}

fn value(statistic: &str, values: &Values<'_>) -> Option<f64> {
    let number = |name: &str| -> Option<f64> {
        match *values.get(name)? {
            "yes" => Some(1.0),
            "no" => Some(0.0),
            number => number.parse().ok(),
        }
    };
    let minus = |all: &str, part: &[&str]| -> Option<f64> {
        let part: f64 = part.iter().filter_map(|name| number(name)).sum();
        Some((number(all)? - part).max(0.0))
    };
    match statistic {
        SETS => minus("cmd_set", &["cas_misses", "cas_hits", "cas_badval"]),
        SLAB_SETS => minus("1:cmd_set", &["1:cas_hits", "1:cas_badval"]),
        ZERO => Some(0.0),
        name => number(name),
    }
}
