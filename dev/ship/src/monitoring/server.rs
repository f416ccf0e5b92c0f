//! The dashboard of cache servers: what their clients feel, then why.

use super::table::PanelKind::{Figure, Heat, Lines, Stack, Table};
use super::table::{ALERTS, Bad, Dashboard, Panel, Query, Row};

mod inside;

pub(super) const DASHBOARD: Dashboard = Dashboard {
    name: "cache-server",
    title: "Evenkeel / Cache server",
    families: &["memcached_up"],
    has_pools: false,
    rows: &[
        Row { title: "Now", panels: &NOW },
        Row { title: "Time of requests", panels: &TIMES },
        Row { title: "Requests", panels: &REQUESTS },
        Row { title: "Memory", panels: &inside::MEMORY },
        Row { title: "Connections", panels: &inside::CONNECTIONS },
        Row { title: "Threads", panels: &inside::THREADS },
        Row { title: "Flash", panels: &inside::FLASH },
        Row { title: "Processes", panels: &inside::PROCESSES },
    ],
};

const NOW: [Panel; 7] = [
    ALERTS,
    Panel::new(
        "Servers that do not answer",
        Figure,
        "none",
        "Targets whose last scrape has failed. If there is one, its process, its host or the network to it is away.",
        &[Query::new("count(up{SCOPE} == 0) or vector(0)", "servers")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Requests",
        Figure,
        "reqps",
        "Requests of all chosen servers; a get of several keys counts for each.",
        &[Query::new("sum(rate(memcached_commands_total{SCOPE}[RATE]))", "requests")],
    ),
    Panel::new(
        "Hit ratio",
        Figure,
        "percentunit",
        "Keys of gets that were found. A fall without more evictions means other keys: a deploy, a new client, a flush.",
        &[Query::new(
            "sum(rate(memcached_commands_total{SCOPE, command=\"get\", status=\"hit\"}[RATE])) / sum(rate(memcached_commands_total{SCOPE, command=\"get\"}[RATE]))",
            "hits",
        )],
    ),
    Panel::new(
        "Wait, p99",
        Figure,
        "s",
        "From the arrival of a request at the host until a worker reads it: long if the server has too little CPU.",
        &[Query::new(
            "histogram_quantile(0.99, sum by (le) (rate(evenkeel_wait_seconds_bucket{SCOPE}[RATE])))",
            "wait",
        )],
    )
    .bad(Bad::From(0.002)),
    Panel::new(
        "Memory in use",
        Figure,
        "percentunit",
        "Of all memory limits (-m). A cache that is full is normal: look at the evictions of items that were used lately.",
        &[Query::new("sum(memcached_malloced_bytes{SCOPE}) / sum(memcached_limit_bytes{SCOPE})", "memory")],
    ),
    Panel::new(
        "Connections of the limit",
        Figure,
        "percentunit",
        "Of the server that is nearest to its limit (-c).",
        &[Query::new(
            "max(memcached_current_connections{SCOPE} / memcached_max_connections{SCOPE})",
            "connections",
        )],
    )
    .bad(Bad::From(0.9)),
];

const TIMES: [Panel; 6] = [
    Panel::new(
        "Wait for a worker",
        Heat,
        "s",
        "From the arrival of a request at the host until a worker reads it, on one connection in 256. A second band far above the first one: workers that are busy, or do not get a CPU.",
        &[Query::new("sum by (le) (increase(evenkeel_wait_seconds_bucket{SCOPE}[RATE]))", "{{le}}")],
    ),
    Panel::new(
        "Service of gets",
        Heat,
        "s",
        "From the beginning of a worker's turn until its replies were given to the kernel. Large values and long multigets make it long.",
        &[Query::new(
            "sum by (le) (increase(evenkeel_service_seconds_bucket{SCOPE, class=\"get\"}[RATE]))",
            "{{le}}",
        )],
    ),
    Panel::new(
        "Service by class",
        Lines,
        "s",
        "Quantiles over all chosen servers.",
        &[
            Query::new(
                "histogram_quantile(0.99, sum by (le, class) (rate(evenkeel_service_seconds_bucket{SCOPE}[RATE])))",
                "{{class}} p99",
            ),
            Query::new(
                "histogram_quantile(0.5, sum by (le, class) (rate(evenkeel_service_seconds_bucket{SCOPE}[RATE])))",
                "{{class}} p50",
            ),
        ],
    ),
    Panel::new(
        "Wait by server, p99",
        Lines,
        "s",
        "One server above the others has a hot key, a noisy neighbour or fewer CPUs.",
        &[Query::new(
            "histogram_quantile(0.99, sum by (le, instance) (rate(evenkeel_wait_seconds_bucket{SCOPE}[RATE])))",
            "{{instance}}",
        )],
    )
    .bad(Bad::From(0.002)),
    Panel::new(
        "Service of gets by server, p99",
        Lines,
        "s",
        "One server above the others serves larger values, or its CPU is slower.",
        &[Query::new(
            "histogram_quantile(0.99, sum by (le, instance) (rate(evenkeel_service_seconds_bucket{SCOPE, class=\"get\"}[RATE])))",
            "{{instance}}",
        )],
    ),
    Panel::new(
        "Workers without a CPU",
        Lines,
        "percentunit",
        "Share of the time in which a worker was ready to run and another thread had its CPU: latency that the host adds.",
        &[Query::new(
            "max by (instance) (rate(evenkeel_thread_wait_seconds_total{SCOPE, thread=~\"worker-.+\"}[RATE]))",
            "{{instance}}",
        )],
    ),
];

const REQUESTS: [Panel; 6] = [
    Panel::new(
        "Requests by command",
        Stack,
        "reqps",
        "A get of several keys counts for each.",
        &[Query::new("sum by (command) (rate(memcached_commands_total{SCOPE}[RATE]))", "{{command}}")],
    ),
    Panel::new(
        "Hit ratio by server",
        Lines,
        "percentunit",
        "A server that was restarted starts low and climbs.",
        &[Query::new(
            "sum by (instance) (rate(memcached_commands_total{SCOPE, command=\"get\", status=\"hit\"}[RATE])) / sum by (instance) (rate(memcached_commands_total{SCOPE, command=\"get\"}[RATE]))",
            "{{instance}}",
        )],
    ),
    Panel::new(
        "Bytes",
        Lines,
        "Bps",
        "Bytes of clients. Compare what is sent with the allowance of the network.",
        &[
            Query::new("sum(rate(memcached_read_bytes_total{SCOPE}[RATE]))", "received"),
            Query::new("sum(rate(memcached_written_bytes_total{SCOPE}[RATE]))", "sent"),
        ],
    ),
    Panel::new(
        "Requests by server",
        Lines,
        "reqps",
        "A server with much more than the others has a hot key, or keys are divided unevenly.",
        &[Query::new("sum by (instance) (rate(memcached_commands_total{SCOPE}[RATE]))", "{{instance}}")],
    ),
    Panel::new(
        "Gets that found something dead",
        Lines,
        "reqps",
        "Items that had expired or were flushed. They count as misses.",
        &[Query::new("sum by (reason) (rate(evenkeel_stale_gets_total{SCOPE}[RATE]))", "{{reason}}")],
    ),
    Panel::new(
        "Hottest keys",
        Table,
        "percentunit",
        "Share of a server's requests in the last five to ten seconds. Servers with -X do not tell keys.",
        &[Query::new("topk(10, evenkeel_hot_key_share{SCOPE, by=\"requests\"})", "{{instance}} {{key}}")],
    ),
];
