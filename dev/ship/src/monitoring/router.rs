//! The dashboard of routers and pools: service level indicators and how fast their budgets burn, then why.
//!
//! The first row asks the recording rules of `rules.yaml`, so that a page and an alert never disagree.

use super::table::PanelKind::{Figure, Heat, Lines, Stack, Table};
use super::table::{ALERTS, Bad, Dashboard, Panel, Query, Row};

mod inside;

pub(super) const DASHBOARD: Dashboard = Dashboard {
    name: "router-and-pools",
    title: "Evenkeel / Router and pools",
    families: &["evenkeel_route_build_info"],
    has_pools: true,
    rows: &[
        Row { title: "Now", panels: &NOW },
        Row { title: "Service levels", panels: &LEVELS },
        Row { title: "Time of replies", panels: &TIMES },
        Row { title: "Servers", panels: &SERVERS },
        Row { title: "Clients", panels: &inside::CLIENTS },
        Row { title: "Configuration", panels: &inside::CONFIGURATION },
        Row { title: "Hot values and compression", panels: &inside::VALUES },
        Row { title: "Shadows", panels: &inside::SHADOWS },
        Row { title: "Processes", panels: &inside::PROCESSES },
    ],
};

const NOW: [Panel; 7] = [
    ALERTS,
    Panel::new(
        "Routers that do not answer",
        Figure,
        "none",
        "Targets whose last scrape has failed.",
        &[Query::new("count(up{SCOPE} == 0) or vector(0)", "routers")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Clients' requests in error",
        Figure,
        "percentunit",
        "Share of the replies that were errors. The objective allows one in a thousand.",
        &[Query::new(
            "sum(rate(evenkeel_route_replies_total{SCOPE, result=\"error\"}[RATE])) / sum(rate(evenkeel_route_replies_total{SCOPE}[RATE]))",
            "errors",
        )],
    )
    .bad(Bad::From(0.001)),
    Panel::new(
        "Servers unavailable",
        Figure,
        "none",
        "Of the router that has most of them: servers to which nothing is sent until a probe is answered.",
        &[Query::new("max(evenkeel_route_unavailable_servers{SCOPE})", "servers")],
    )
    .bad(Bad::From(1.0)),
    Panel::new(
        "Requests",
        Figure,
        "reqps",
        "Requests of clients; a get of several keys counts for each.",
        &[Query::new("sum(rate(evenkeel_route_requests_total{SCOPE}[RATE]))", "requests")],
    ),
    Panel::new(
        "Replies of servers, p99",
        Figure,
        "s",
        "Over all chosen pools, timeouts included.",
        &[Query::new(
            "histogram_quantile(0.99, sum by (le) (rate(evenkeel_route_pool_latency_seconds_bucket{POOLS, instance=~\"$instance\"}[RATE])))",
            "p99",
        )],
    ),
    Panel::new(
        "Configurations in force",
        Figure,
        "none",
        "Different texts that routers have. More than one for long: routers that do not get, or do not take, the new one.",
        &[Query::new("count(count by (md5) (evenkeel_route_config_info{SCOPE}))", "texts")],
    )
    .bad(Bad::From(2.0)),
];

const LEVELS: [Panel; 6] = [
    Panel::new(
        "Pools: burn of the error budget",
        Lines,
        "none",
        "Failed requests to a pool's servers, in multiples of the one in a thousand that the objective allows. At 14.4 the budget of 30 days is gone in two.",
        &[
            Query::new("pool:evenkeel_route_failures:ratio_rate5m{POOLS} / 0.001", "{{pool}} 5 min"),
            Query::new("pool:evenkeel_route_failures:ratio_rate1h{POOLS} / 0.001", "{{pool}} 1 h"),
        ],
    )
    .bad(Bad::From(14.4)),
    Panel::new(
        "Pools: burn of the latency budget",
        Lines,
        "none",
        "Replies slower than 8.2 ms, in multiples of the one in a hundred that the objective allows.",
        &[
            Query::new("pool:evenkeel_route_slow:ratio_rate5m{POOLS} / 0.01", "{{pool}} 5 min"),
            Query::new("pool:evenkeel_route_slow:ratio_rate1h{POOLS} / 0.01", "{{pool}} 1 h"),
        ],
    )
    .bad(Bad::From(14.4)),
    Panel::new(
        "Clients: burn of the error budget",
        Lines,
        "none",
        "Errors that clients got, after all failovers, in multiples of the one in a thousand that the objective allows.",
        &[
            Query::new("job:evenkeel_route_errors:ratio_rate5m{job=~\"$job\"} / 0.001", "{{job}} 5 min"),
            Query::new("job:evenkeel_route_errors:ratio_rate1h{job=~\"$job\"} / 0.001", "{{job}} 1 h"),
        ],
    )
    .bad(Bad::From(14.4)),
    Panel::new(
        "Pools: availability over three days",
        Lines,
        "percentunit",
        "Successful requests of all to a pool's servers.",
        &[Query::new("1 - pool:evenkeel_route_failures:ratio_rate3d{POOLS}", "{{pool}}")],
    )
    .bad(Bad::Below(0.999)),
    Panel::new(
        "Failures by pool and kind",
        Lines,
        "reqps",
        "timeout: the server is slow. connect_error, unavailable: it is away. busy, error: it answers, and refuses.",
        &[Query::new(
            "sum by (pool, outcome) (rate(evenkeel_route_pool_outcomes_total{POOLS, instance=~\"$instance\", outcome!=\"success\"}[RATE]))",
            "{{pool}} {{outcome}}",
        )],
    ),
    Panel::new(
        "Failovers",
        Lines,
        "reqps",
        "Requests that went to another server after an error, and those of them that failed there, too.",
        &[
            Query::new("sum(rate(evenkeel_route_failovers_total{SCOPE}[RATE]))", "failovers"),
            Query::new("sum(rate(evenkeel_route_failed_failovers_total{SCOPE}[RATE]))", "failed there, too"),
        ],
    ),
];

const TIMES: [Panel; 3] = [
    Panel::new(
        "Replies of servers",
        Heat,
        "s",
        "From a request to its reply, over all chosen pools; timeouts are in it.",
        &[Query::new(
            "sum by (le) (increase(evenkeel_route_pool_latency_seconds_bucket{POOLS, instance=~\"$instance\"}[RATE]))",
            "{{le}}",
        )],
    ),
    Panel::new(
        "By pool",
        Lines,
        "s",
        "Quantiles of each pool.",
        &[
            Query::new(
                "histogram_quantile(0.99, sum by (le, pool) (rate(evenkeel_route_pool_latency_seconds_bucket{POOLS, instance=~\"$instance\"}[RATE])))",
                "{{pool}} p99",
            ),
            Query::new(
                "histogram_quantile(0.5, sum by (le, pool) (rate(evenkeel_route_pool_latency_seconds_bucket{POOLS, instance=~\"$instance\"}[RATE])))",
                "{{pool}} p50",
            ),
        ],
    ),
    Panel::new(
        "Slowest servers, p99",
        Lines,
        "s",
        "One server above the others: look at its page.",
        &[Query::new(
            "topk(10, histogram_quantile(0.99, sum by (le, server) (rate(evenkeel_route_server_latency_seconds_bucket{SCOPE}[RATE]))))",
            "{{server}}",
        )],
    ),
];

const SERVERS: [Panel; 7] = [
    Panel::new(
        "Servers that routers do not ask",
        Table,
        "none",
        "Each server, with the routers for which it is unavailable. All routers: the server is away. One router: look at that router's network.",
        &[Query::new("evenkeel_route_server_available{SCOPE} == 0", "{{server}} {{instance}}")
            .empty("all servers are available")],
    ),
    Panel::new(
        "Available servers of each pool",
        Lines,
        "percentunit",
        "As the router sees it that has fewest.",
        &[Query::new(
            "min by (pool) (evenkeel_route_pool_available_servers{POOLS, instance=~\"$instance\"} / evenkeel_route_pool_servers{POOLS, instance=~\"$instance\"})",
            "{{pool}}",
        )],
    )
    .bad(Bad::Below(1.0)),
    Panel::new(
        "Servers that fail most",
        Lines,
        "reqps",
        "Requests to a server that did not succeed.",
        &[Query::new(
            "topk(10, sum by (server) (rate(evenkeel_route_server_outcomes_total{SCOPE, outcome!=\"success\"}[RATE])))",
            "{{server}}",
        )],
    ),
    Panel::new(
        "Suspect servers",
        Lines,
        "none",
        "Servers that have failed since their last reply, and how often one became unavailable in ten minutes.",
        &[
            Query::new("max by (instance) (evenkeel_route_suspect_servers{SCOPE})", "{{instance}} suspects"),
            Query::new(
                "sum by (instance) (increase(evenkeel_route_became_unavailable_total{SCOPE}[10m]))",
                "{{instance}} became unavailable",
            ),
        ],
    ),
    Panel::new(
        "Without a reply yet",
        Lines,
        "short",
        "Requests to a server on their way. A line that climbs is a server that has stopped.",
        &[Query::new(
            "topk(10, sum by (server) (evenkeel_route_server_outstanding{SCOPE}))",
            "{{server}}",
        )],
    ),
    Panel::new(
        "Connections to servers",
        Stack,
        "short",
        "One for each thread and server. up: in use; closed: not needed now; down: cannot be made.",
        &[Query::new("sum by (state) (evenkeel_route_connections{SCOPE})", "{{state}}")],
    ),
    Panel::new(
        "Connections made and ended",
        Lines,
        "ops",
        "Many of both: servers or something between close connections.",
        &[
            Query::new("sum(rate(evenkeel_route_connections_opened_total{SCOPE}[RATE]))", "made"),
            Query::new("sum(rate(evenkeel_route_connections_closed_total{SCOPE}[RATE]))", "ended"),
        ],
    ),
];
