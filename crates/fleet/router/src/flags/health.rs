//! Flags for servers: timeouts, and when a server is unavailable (TKO).

use ::flags::Kind;

use super::entry::{RouteFlag, flag};

/// A day: longer timeouts are mistakes.
const MS_MAX: i64 = 86_400_000;
const MS: Kind = Kind::Number { min: 0, max: MS_MAX };

pub(super) const FLAGS: &[RouteFlag] = &[
    flag(
        Some('t'),
        "server-timeout",
        "Time limit for a reply of a server, in ms",
        "It holds for connecting, too. `server_timeout` of a pool precedes it.",
        |options, given| options.server_timeout_ms = given.number(),
    )
    .takes("ms", Kind::Number { min: 1, max: MS_MAX }, "1000"),
    flag(
        None,
        "within-cluster-timeout-ms",
        "The same for pools of the router's own cluster; 0: -t",
        "",
        |options, given| options.within_cluster_timeout_ms = given.number(),
    )
    .takes("ms", MS, "0"),
    flag(
        None,
        "cross-cluster-timeout-ms",
        "The same for pools of other clusters of the region; 0: -t",
        "",
        |options, given| options.cross_cluster_timeout_ms = given.number(),
    )
    .takes("ms", MS, "0"),
    flag(
        None,
        "cross-region-timeout-ms",
        "The same for pools of other regions; 0: -t",
        "",
        |options, given| options.cross_region_timeout_ms = given.number(),
    )
    .takes("ms", MS, "0"),
    flag(
        None,
        "timeouts-until-tko",
        "Timeouts in a row that make a server unavailable",
        "One failure to connect is enough. Requests for a server that is unavailable fail at once.",
        |options, given| options.health.timeouts_until_unavailable = given.number(),
    )
    .takes("num", Kind::Number { min: 1, max: 1_000_000 }, "3"),
    flag(
        Some('r'),
        "probe-timeout-initial",
        "Time to the first probe of such a server, in ms",
        "5 to 50 % more, at random. Only a probe that is answered makes the server available again.",
        |options, given| options.health.probe_initial_ms = given.number(),
    )
    .takes("ms", Kind::Number { min: 1, max: MS_MAX }, "10000"),
    flag(None, "retry-timeout", "An old name of --probe-timeout-initial", "", |options, given| {
        options.health.probe_initial_ms = given.number()
    })
    .takes("ms", Kind::Number { min: 1, max: MS_MAX }, ""),
    flag(
        None,
        "probe-timeout-max",
        "The longest time between two probes, in ms",
        "Each interval is one and a half times the last.",
        |options, given| options.health.probe_max_ms = given.number(),
    )
    .takes("ms", Kind::Number { min: 1, max: MS_MAX }, "60000"),
    flag(
        None,
        "reset-inactive-connection-interval",
        "Closes connections to servers that nobody uses, in ms; 0: never",
        "Looked for at this interval: a connection is closed after one to two of them without a request.",
        |options, given| options.reset_inactive_ms = given.number(),
    )
    .takes("ms", MS, "60000"),
    flag(
        None,
        "dns-refresh-interval",
        "Looks names of servers up again at this interval, in seconds",
        "Give or take a fifth. Also looked up when a server fails, at most once in a second; with 0 only then. mcrouter has \
            no such flag: it looks a name up whenever it connects.",
        |options, given| options.dns_refresh_s = given.number(),
    )
    .takes("s", Kind::Number { min: 0, max: 86_400 }, "30"),
    flag(None, "disable-tko-tracking", "No server is ever unavailable", "", |options, _| {
        options.health.disabled = true;
    }),
];
