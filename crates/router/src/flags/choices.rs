//! Flags for names of this router, help and verbosity.

use ::flags::Kind;

use super::entry::{RouteFlag, flag};

pub(super) const FLAGS: &[RouteFlag] = &[
    flag(
        None,
        "metrics-listen",
        "Address of metrics and reports over HTTP; off without it",
        "A name, an IPv4 address, an IPv6 address (in brackets if a port follows) or `*`, each with or without `:port`; \
            without one, 9442. /metrics is for Prometheus and has the families of mcrouter_exporter, too; /healthz, \
            /readyz and /api/v1/stats are beside it. Whoever reaches the address can read: use 127.0.0.1, or an address \
            that only monitoring reaches. mcrouter has no such flag.",
        |options, given| options.metrics_listen = Some(given.text().to_owned()),
    )
    .takes("addr", Kind::Text, ""),
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
