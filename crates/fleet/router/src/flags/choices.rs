//! Flags for names of this router, help and verbosity.

use ::flags::Kind;

use super::entry::{RouteFlag, flag};
use super::routing::folder;

pub(super) const FLAGS: &[RouteFlag] = &[
    flag(
        None,
        "metrics-listen",
        "Address of metrics and reports over HTTP; off without it",
        "A name, an IPv4 address, an IPv6 address (in brackets if a port follows) or `*`, each with or without `:port`; \
            without one, 9442. /metrics is for Prometheus and has the families of mcrouter_exporter, too; /healthz, \
            /readyz, /api/v1/stats, /api/v1/servers and /api/v1/hot_keys are beside it, and / is a page for browsers. Whoever reaches the \
            address can read: use 127.0.0.1, or an address that only monitoring reaches. mcrouter has no such flag.",
        |options, given| options.metrics_listen = Some(given.text().to_owned()),
    )
    .takes("addr", Kind::Text, ""),
    flag(
        None,
        "hide-hot-keys",
        "Show no list of the keys with most requests",
        "They are data of users. Without this flag, `stats hot`, `get __mcrouter__.hot_keys` and the metrics have them. \
            mcrouter has no such flag.",
        |options, _| options.hides_hot_keys = true,
    ),
    flag(
        None,
        "cluster-file",
        "Routers that clients with auto-discovery are told",
        "A revision, and a line host|ip|port for each router. `config get cluster` answers it, in the form of Amazon \
            ElastiCache. It is read every second; a file that is wrong, missing or older changes nothing. mcrouter has no \
            such flag.",
        |options, given| options.cluster_file = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "log",
        "Format of the log: text or json",
        "json is an object in each line: ts (UTC), level, verb, text. mcrouter has no such flag.",
        // The program that starts the router writes its log.
        |_, _| {},
    )
    .takes("format", Kind::OneOf(&["text", "json"]), "text"),
    flag(
        Some('P'),
        "pidfile",
        "Write the process id to this file",
        "Removed when the router ends. mcrouter has no such flag.",
        |options, given| options.pidfile = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "stats-root",
        "Folder for files with statistics and options",
        "mcrouter's files, without this flag none. mcrouter has /var/mcrouter/stats without it.",
        |options, given| options.stats_root = folder(given.text()),
    )
    .takes("dir", Kind::Text, ""),
    flag(
        None,
        "stats-logging-interval",
        "Time between two writings of these files, in ms; 0: never",
        "At least 100.",
        |options, given| options.stats_interval_ms = given.number(),
    )
    .takes("ms", Kind::Number { min: 0, max: 86_400_000 }, "10000"),
    flag(
        None,
        "pool-stats-config-file",
        "Pools with statistics of their own",
        "{\"stats_enabled_pools\": [\"NAME\", …]}; all pools whose names begin with NAME count together. It is read once, at the \
            start. One that cannot be used is a line, and no pool is counted then, as in mcrouter.",
        |options, given| options.pool_stats_file = folder(given.text()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "debug-fifo-root",
        "Folder for mcrouter's debug fifos, into which nothing is written",
        "mcrouter has /var/mcrouter/fifos without this flag; here there are none then.",
        |options, given| options.debug_fifo_root = folder(given.text()),
    )
    .takes("dir", Kind::Text, ""),
    flag(
        None,
        "router-name",
        "Name of this router in the configuration (%router-name%)",
        "Without this flag the first port of -p, as in mcrouter, which has no such flag.",
        |options, given| options.router_name = Some(given.text().to_owned()),
    )
    .takes("name", Kind::Text, ""),
    flag(
        None,
        "service-name",
        "Name of the service in the configuration (%service-name%)",
        "",
        |options, given| options.service_name = given.text().to_owned(),
    )
    .takes("name", Kind::Text, "mcrouter"),
    flag(
        Some('v'),
        "verbosity",
        "Say more on standard error: 1 or more",
        "As in mcrouter, a number must follow.",
        |options, given| options.verbosity = given.number(),
    )
    .takes("num", Kind::Number { min: 0, max: 9 }, "0"),
    RouteFlag {
        kind: Kind::Help,
        ..flag(Some('h'), "help", "Print this help; --help is longer than -h", "", |_, _| {})
    },
    RouteFlag { kind: Kind::Version, ..flag(Some('V'), "version", "Print the version", "", |_, _| {}) },
];
