//! Panels about the inside of a router: clients, configuration, hot values, processes.

use crate::monitoring::table::PanelKind::{Lines, Stack, Table};
use crate::monitoring::table::{Bad, Panel, Query};

pub(super) const CLIENTS: [Panel; 6] = [
    Panel::new(
        "Requests by command",
        Stack,
        "reqps",
        "What clients ask for; a get of several keys counts for each.",
        &[Query::new("sum by (command) (rate(evenkeel_route_requests_total{SCOPE}[RATE]))", "{{command}}")],
    ),
    Panel::new(
        "Gets",
        Lines,
        "reqps",
        "What clients' gets found. Errors are neither.",
        &[Query::new("sum by (result) (rate(evenkeel_route_gets_total{SCOPE}[RATE]))", "{{result}}")],
    ),
    Panel::new(
        "Replies in error by router",
        Lines,
        "reqps",
        "One router above the others: its network, its configuration or its clients.",
        &[Query::new(
            "topk(10, sum by (instance) (rate(evenkeel_route_replies_total{SCOPE, result=\"error\"}[RATE])))",
            "{{instance}}",
        )],
    ),
    Panel::new(
        "Connections of clients",
        Lines,
        "short",
        "Open ones, and requests without a reply yet.",
        &[
            Query::new("sum(evenkeel_route_clients{SCOPE})", "connections"),
            Query::new("sum(evenkeel_route_processing{SCOPE})", "requests on their way"),
        ],
    ),
    Panel::new(
        "Bytes",
        Lines,
        "Bps",
        "Of clients and servers together.",
        &[Query::new("sum by (direction) (rate(evenkeel_route_bytes_total{SCOPE}[RATE]))", "{{direction}}")],
    ),
    Panel::new(
        "Turned away for memory",
        Lines,
        "ops",
        "Clients that were closed, and values that were refused, because a thread held more than --buffer-memory-mb.",
        &[
            Query::new(
                "sum(rate(evenkeel_route_clients_closed_for_memory_total{SCOPE}[RATE]))",
                "clients closed",
            ),
            Query::new(
                "sum(rate(evenkeel_route_values_refused_for_memory_total{SCOPE}[RATE]))",
                "values refused",
            ),
        ],
    ),
];

pub(super) const CONFIGURATION: [Panel; 5] = [
    Panel::new(
        "Configurations by text",
        Table,
        "none",
        "Routers with each text, by its MD5 digest: compare with md5sum of the file.",
        &[Query::new("count by (md5) (evenkeel_route_config_info{SCOPE})", "{{md5}}")],
    ),
    Panel::new(
        "Age of the configuration",
        Lines,
        "s",
        "Time since it was loaded. After a change all lines fall to 0.",
        &[Query::new("evenkeel_route_config_age_seconds{SCOPE}", "{{instance}}")],
    ),
    Panel::new(
        "Loads",
        Lines,
        "none",
        "Loads within ten minutes, and routers that run on a copy from disk.",
        &[
            Query::new(
                "sum by (result) (increase(evenkeel_route_config_loads_total{SCOPE}[10m]))",
                "{{result}}",
            ),
            Query::new("sum(evenkeel_route_config_from_dump{SCOPE})", "routers with a copy"),
        ],
    ),
    Panel::new(
        "Certificates",
        Lines,
        "s",
        "Time until each ends. Replace the files before; the router reads them by itself.",
        &[Query::new("evenkeel_route_certificate_end_seconds{SCOPE} - time()", "{{instance}} {{file}}")],
    )
    .bad(Bad::Below(604_800.0)),
    Panel::new(
        "Routers that clients are told",
        Lines,
        "none",
        "Revisions of the list for clients with auto-discovery. All routers of a view should show the same.",
        &[
            Query::new("evenkeel_route_cluster_revision{SCOPE}", "{{instance}} revision"),
            Query::new("evenkeel_route_cluster_members{SCOPE}", "{{instance}} routers"),
        ],
    ),
];

pub(super) const VALUES: [Panel; 4] = [
    Panel::new(
        "Hottest keys",
        Table,
        "percentunit",
        "Share of a router's requests in the last five to ten seconds. Routers with --hide-hot-keys do not tell keys.",
        &[Query::new("topk(10, evenkeel_route_hot_key_share{SCOPE})", "{{instance}} {{key}}")],
    ),
    Panel::new(
        "Hot values kept in routers",
        Lines,
        "reqps",
        "Gets that hot values have answered, and values dropped before their time.",
        &[
            Query::new("sum(rate(evenkeel_route_hot_cache_hits_total{SCOPE}[RATE]))", "hits"),
            Query::new("sum(rate(evenkeel_route_hot_cache_fills_total{SCOPE}[RATE]))", "kept"),
            Query::new(
                "sum by (reason) (rate(evenkeel_route_hot_cache_drops_total{SCOPE}[RATE]))",
                "dropped: {{reason}}",
            ),
        ],
    ),
    Panel::new(
        "Compression",
        Lines,
        "Bps",
        "Bytes of values before and after, of pools with compression.",
        &[Query::new(
            "sum by (when) (rate(evenkeel_route_compression_bytes_total{SCOPE}[RATE]))",
            "{{when}}",
        )],
    ),
    Panel::new(
        "Values that could not be read",
        Lines,
        "ops",
        "Compressed values that were damaged, or whose dictionary the router does not have. They are misses.",
        &[Query::new(
            "sum by (result) (rate(evenkeel_route_decompressions_total{SCOPE, result!=\"decompressed\"}[RATE]))",
            "{{result}}",
        )],
    ),
];

pub(super) const SHADOWS: [Panel; 3] = [
    Panel::new(
        "Replies compared",
        Lines,
        "reqps",
        "Replies of shadows that were compared with what clients got.",
        &[Query::new(
            "sum by (shadow) (rate(evenkeel_route_shadow_compared_total{SCOPE}[RATE]))",
            "{{shadow}}",
        )],
    ),
    Panel::new(
        "Replies that differ",
        Lines,
        "percentunit",
        "Of those that were compared: in their outcome, their value or its size.",
        &[Query::new(
            "sum by (shadow, what) (rate(evenkeel_route_shadow_differed_total{SCOPE}[RATE])) / ignoring (what) group_left sum by (shadow) (rate(evenkeel_route_shadow_compared_total{SCOPE}[RATE]))",
            "{{shadow}}: {{what}}",
        )],
    ),
    Panel::new(
        "Time of replies, p99",
        Lines,
        "s",
        "Of the server that answered the client, and of the shadow.",
        &[Query::new(
            "histogram_quantile(0.99, sum by (le, shadow, side) (rate(evenkeel_route_shadow_latency_seconds_bucket{SCOPE}[RATE])))",
            "{{shadow}}: {{side}}",
        )],
    ),
];

pub(super) const PROCESSES: [Panel; 3] = [
    Panel::new(
        "CPU time",
        Lines,
        "percentunit",
        "Of one CPU. A router that has as many as it has threads (--num-proxies) is full.",
        &[Query::new("sum by (instance) (rate(mcrouter_cpu_seconds_total{SCOPE}[RATE]))", "{{instance}}")],
    ),
    Panel::new(
        "Resident memory",
        Lines,
        "bytes",
        "Buffers of requests and replies on their way, and hot values.",
        &[
            Query::new("sum by (instance) (mcrouter_resident_memory_bytes{SCOPE})", "{{instance}}"),
            Query::new(
                "sum by (instance) (evenkeel_route_hot_cache_bytes{SCOPE})",
                "{{instance}} hot values",
            ),
        ],
    ),
    Panel::new(
        "Versions",
        Table,
        "none",
        "Routers of each version.",
        &[Query::new("count by (version) (evenkeel_route_build_info{SCOPE})", "{{version}}")],
    ),
];
