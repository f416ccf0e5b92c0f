//! Flags for operation as a service, and for monitoring.

use stdx::units::KIB;

use ::flags::{Effect, Kind};

use super::low::Flag;

/// The long name of `-o`.
pub(super) const EXTENDED: &str = "extended";

const PROXY: &str = "memcached's proxy is not built";

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        short: Some('d'),
        name: "daemon",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Run in the background",
        details: "Errors before the first connection is accepted still go to the terminal, and to the exit status.",
        effect: Effect::Works,
        set: |low, _| low.options.process.daemonize = true,
    },
    Flag {
        short: Some('P'),
        name: "pidfile",
        value: "file",
        kind: Kind::Text,
        default: None,
        doc: "Write the process id to a file",
        details: "Written once the sockets are bound, in one step, and removed at the end. memcached removes it \
            only with -d.",
        effect: Effect::Works,
        set: |low, given| low.options.process.pidfile = Some(given.text().into()),
    },
    Flag {
        short: Some('r'),
        name: "enable-coredumps",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Raise the limit on core files",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.process.core_dumps = true,
    },
    Flag {
        short: Some('v'),
        name: "verbose",
        value: "",
        kind: Kind::Count,
        default: None,
        doc: "Say more on standard error",
        details: "-vv and -vvv are accepted and say no more than -v.",
        effect: Effect::Works,
        set: |low, _| low.options.verbosity = low.options.verbosity.saturating_add(1),
    },
    Flag {
        short: Some('D'),
        name: "prefix-delimiter",
        value: "char",
        kind: Kind::Character,
        default: Some(":"),
        doc: "Count by key prefix for `stats detail`, up to this character",
        details: "Giving it turns the counting on from the start; otherwise `stats detail on` does.",
        effect: Effect::Works,
        set: |low, given| {
            low.options.prefix_delimiter = given.text().as_bytes()[0];
            low.options.detail = true;
        },
    },
    Flag {
        short: None,
        name: "metrics-listen",
        value: "addr",
        kind: Kind::Text,
        default: None,
        doc: "Address of metrics and reports over HTTP; off without it",
        details: "A name, an IPv4 address, an IPv6 address (in brackets if a port follows) or `*`, each with or without \
            `:port`; without one, 9150. /metrics is for Prometheus and has the families of memcached_exporter; \
            /healthz, /readyz and /api/v1/stats are beside it, and / is a page for browsers. Whoever reaches the address can read, without a \
            login: use 127.0.0.1, or an address that only monitoring reaches.",
        effect: Effect::Works,
        set: |low, given| low.metrics_listen = Some(given.text().to_owned()),
    },
    Flag {
        short: None,
        name: "cluster-file",
        value: "file",
        kind: Kind::Text,
        default: None,
        doc: "Members of the cluster, for clients with auto-discovery",
        details: "A revision, and a line host|ip|port for each member. `config get cluster` answers it, in the form of \
            Amazon ElastiCache. It is read every second; a file that is wrong, missing or older changes nothing.",
        effect: Effect::Works,
        set: |low, given| low.options.cluster_file = Some(given.text().into()),
    },
    Flag {
        short: None,
        name: "takeover",
        value: "socket",
        kind: Kind::Text,
        default: None,
        doc: "Take over the server at this socket, and wait for the next",
        details: "A unix socket's path. If a server listens there, this one gets its listeners, its connections and its items, and \
            serves in its place; clients notice a pause of some milliseconds. Otherwise it starts empty. In both cases it \
            then listens there itself. Connections with TLS are closed between two requests.",
        effect: Effect::Works,
        set: |low, given| low.options.takeover = Some(given.text().into()),
    },
    Flag {
        short: None,
        name: "check",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Check flags, and end",
        details: "Flags, what they mean together, and the file of users (-Y). Other files, addresses and the user of -u are looked at by a \
            start alone. The exit status is 0, 64 if a flag is wrong, or 71 if a file of flags cannot be read.",
        effect: Effect::Works,
        set: |low, _| low.check = true,
    },
    Flag {
        short: None,
        name: "log",
        value: "format",
        kind: Kind::OneOf(&["text", "json"]),
        default: Some("text"),
        doc: "Format of the log: text or json",
        details: "json is an object in each line: ts (UTC), level, verb, text.",
        effect: Effect::Works,
        // The program that starts the server writes its log.
        set: |_, _| {},
    },
    Flag {
        short: Some('o'),
        name: EXTENDED,
        value: "list",
        kind: Kind::List,
        default: None,
        doc: "Extended options, separated by commas",
        details: "A list of name or name=value, or the flag several times. The names are listed below.",
        effect: Effect::Works,
        set: |_, _| {},
    },
    Flag {
        short: Some('h'),
        name: "help",
        value: "",
        kind: Kind::Help,
        default: None,
        doc: "Print this help: in short with -h, in full with --help",
        details: "",
        effect: Effect::Works,
        set: |_, _| {},
    },
    Flag {
        short: Some('V'),
        name: "version",
        value: "",
        kind: Kind::Version,
        default: None,
        doc: "Print the version",
        details: "",
        effect: Effect::Works,
        set: |_, _| {},
    },
    Flag {
        short: Some('i'),
        name: "license",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Print the license",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.license = true,
    },
];

const fn proxy(name: &'static str, value: &'static str, doc: &'static str) -> Flag {
    let kind = if value.is_empty() { Kind::Switch } else { Kind::Text };
    let effect = Effect::NotYet(PROXY);
    Flag { short: None, name, value, kind, default: None, doc, details: "", effect, set: |_, _| {} }
}

const INLINE: &str = "memcached has dropped it too";

const fn dead(name: &'static str, doc: &'static str) -> Flag {
    let (kind, effect) = (Kind::Switch, Effect::Without(INLINE));
    Flag { short: None, name, value: "", kind, default: None, doc, details: "", effect, set: |_, _| {} }
}

/// In kilobytes; `stats settings` prints the size in bytes with 32 bits.
const LOG_KIB: Kind = Kind::Number { min: 1, max: 1024 * 1024 };

pub(super) const OPTIONS: &[Flag] = &[
    Flag {
        short: None,
        name: "watcher_logbuf_size",
        value: "kilobytes",
        kind: LOG_KIB,
        default: Some("256"),
        doc: "Log that may wait for one watcher before lines are skipped",
        details: "",
        effect: Effect::Works,
        set: |low, given| low.options.watcher_log_bytes = given.number::<u32>() * KIB as u32,
    },
    Flag {
        short: None,
        name: "worker_logbuf_size",
        value: "kilobytes",
        kind: LOG_KIB,
        default: Some("64"),
        doc: "Log of evictions that may wait before lines are dropped",
        details: "",
        effect: Effect::Works,
        set: |low, given| low.options.worker_log_bytes = given.number::<u32>() * KIB as u32,
    },
    dead("inline_ascii_resp", "Build replies inside items"),
    dead("no_inline_ascii_resp", "Do not build replies inside items"),
    proxy("proxy_config", "file", "Routes of the proxy"),
    proxy("proxy_arg", "text", "Argument for the routes of the proxy"),
    proxy("proxy_uring", "", "Let the proxy reach servers by io_uring"),
    proxy("proxy_memprofile", "", "Profile the memory of the proxy"),
];
