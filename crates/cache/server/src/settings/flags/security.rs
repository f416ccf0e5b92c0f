//! Flags for the identity of the process and the rights of clients.

use ::flags::{Effect, Kind, Set};

use super::low::{Flag, LowArgs};

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        short: Some('u'),
        name: "user",
        value: "user",
        kind: Kind::Text,
        default: None,
        doc: "User to become when started as root, instead of nobody",
        details: "The sockets are bound and limits raised before; -P is written, and -Y read again, as this user. \
            `-u root` stays root.",
        effect: Effect::Works,
        set: |low, given| low.options.process.user = Some(given.text().to_owned()),
    },
    Flag {
        short: Some('Y'),
        name: "auth-file",
        value: "file",
        kind: Kind::Text,
        default: None,
        doc: "Users and passwords; clients must name one first",
        details: "A line for each, `user:password`. A client proves itself with a `set` of any key whose value is \
            `user password`; with -S, by SASL. SIGHUP has the file read again.",
        effect: Effect::Works,
        set: |low, given| low.auth_file = Some(given.text().to_owned()),
    },
    Flag {
        short: Some('A'),
        name: "enable-shutdown",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Allow the `shutdown` command",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.shutdown = true,
    },
    Flag {
        short: Some('F'),
        name: "disable-flush-all",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Forbid `flush_all`",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.flush_all = false,
    },
    Flag {
        short: Some('X'),
        name: "disable-dumping",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Forbid commands that list keys",
        details: "These are `stats cachedump`, `stats detail` and `lru_crawler metadump`.",
        effect: Effect::Works,
        set: |low, _| low.options.dumping = false,
    },
    Flag {
        short: Some('W'),
        name: "disable-watch",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Forbid `watch`",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.watch = false,
    },
    Flag {
        short: Some('S'),
        name: "enable-sasl",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Let clients log in by SASL, in the binary protocol only",
        details: "The mechanism is PLAIN, with the users of -Y, which is needed, too; memcached asks the system's SASL \
            library. As there, -S implies `-B binary`.",
        effect: Effect::Works,
        set: |low, _| low.options.sasl = true,
    },
    Flag {
        short: Some('Z'),
        name: "enable-ssl",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Encrypt TCP connections (TLS 1.2 and 1.3)",
        details: "Needs -o ssl_chain_cert. In -l, `notls:` before an address is for plain text, `btls:` for TLS without \
            clients' certificates, `mtls:` for TLS with them. Unix sockets and UDP are not encrypted. SIGHUP and the \
            command `refresh_certs` have all files read again.",
        effect: Effect::Works,
        set: |low, _| low.tls.enabled = true,
    },
    tls(
        "tls-certificate",
        "chain[:key]",
        Kind::List,
        "A further certificate, for clients that ask for its names (SNI)",
        "Each time one more, in PEM; the key is in the file of the chain unless another is named. Clients that ask for \
            no name, or for another one, get that of -o ssl_chain_cert. memcached has no such flag.",
        |low, given| low.tls.certificates.push(given.text().to_owned()),
    ),
    tls(
        "tls-ticket-keys",
        "file",
        Kind::Text,
        "Keys of session tickets, so that several servers accept them",
        "A line for each, 64 hexadecimal digits (`openssl rand -hex 32`); the first seals tickets, all open them. Without \
            it the keys are random, change every 12 hours and end with the process. memcached has no such flag.",
        |low, given| low.tls.ticket_keys = Some(given.text().to_owned()),
    ),
    tls(
        "tls-roles",
        "file",
        Kind::Text,
        "What clients may do, by the names in their certificates",
        "A line for each, `ROLE NAME`: the role is none, read, write or admin; the name is `dns:NAME`, `uri:NAME` or \
            `cn:NAME`, with `*` at its beginning or its end for any text, or `*` for every certificate, or `-` for clients \
            without one. The first line that fits counts; a client that none fits may do nothing. memcached has no such \
            flag.",
        |low, given| low.tls.roles = Some(given.text().to_owned()),
    ),
    Flag {
        default: Some("2"),
        ..tls(
            "tls-handshake-threads",
            "num",
            Kind::Number { min: 1, max: HANDSHAKE_THREADS_MAX },
            "Threads for TLS handshakes, apart from those of -t",
            "So that the signatures of new sessions do not delay the requests of others. memcached has no such flag.",
            |low, given| low.tls.handshake_threads = given.number(),
        )
    },
    Flag {
        default: Some("4096"),
        ..tls(
            "tls-handshakes-max",
            "num",
            Kind::Number { min: 1, max: 10_000_000 },
            "TLS handshakes at one time",
            "Beyond it the oldest one is given up. They do not count for -c, but need open files as well. memcached has no \
                such flag.",
            |low, given| low.tls.handshakes_max = given.number(),
        )
    },
    Flag {
        default: Some("10"),
        ..tls(
            "tls-handshake-timeout",
            "seconds",
            Kind::Number { min: 1, max: 3600 },
            "Close a connection whose TLS handshake takes longer",
            "memcached has no such flag.",
            |low, given| low.tls.handshake_timeout_s = given.number(),
        )
    },
];

/// The maximum number of handshake threads: more than the signatures of a large machine need.
const HANDSHAKE_THREADS_MAX: i64 = 256;

/// A flag of TLS that works.
const fn tls(
    name: &'static str,
    value: &'static str,
    kind: Kind,
    doc: &'static str,
    details: &'static str,
    set: Set<LowArgs>,
) -> Flag {
    Flag { short: None, name, value, kind, default: None, doc, details, effect: Effect::Works, set }
}

const SANDBOX: &str =
    "the server does not forbid itself system calls (seccomp); SystemCallFilter= of systemd can";

/// A sub-option of memcached's sandbox.
const fn sandbox(name: &'static str, doc: &'static str, effect: Effect) -> Flag {
    let kind = Kind::Switch;
    Flag { short: None, name, value: "", kind, default: None, doc, details: "", effect, set: |_, _| {} }
}

pub(super) const OPTIONS: &[Flag] = &[
    sandbox("drop_privileges", "Forbid needless system calls", Effect::Lacking(SANDBOX)),
    sandbox("no_drop_privileges", "Do not forbid needless system calls", Effect::Without(SANDBOX)),
    sandbox("relaxed_privileges", "Forbid fewer system calls, for debugging", Effect::Lacking(SANDBOX)),
    tls(
        "ssl_chain_cert",
        "file",
        Kind::Text,
        "The server's certificate and those up to its authority (PEM)",
        "",
        |low, given| low.tls.chain_cert = Some(given.text().to_owned()),
    ),
    tls(
        "ssl_key",
        "file",
        Kind::Text,
        "Its private key; without, in the file of ssl_chain_cert",
        "",
        |low, given| {
            low.tls.key = Some(given.text().to_owned());
        },
    ),
    Flag {
        default: Some("1"),
        ..tls(
            "ssl_keyformat",
            "num",
            Kind::Number { min: 1, max: 2 },
            "Format of private keys: 1 (PEM) or 2 (DER)",
            "",
            |low, given| low.tls.key_format = given.number(),
        )
    },
    Flag {
        default: Some("0"),
        ..tls(
            "ssl_verify_mode",
            "num",
            Kind::Number { min: 0, max: 3 },
            "Clients' certificates: 0 (none), 1 (checked if shown), 2 (needed)",
            "3 means the same as 2: it differs in renegotiation, which does not exist here. 1 to 3 need ssl_ca_cert.",
            |low, given| low.tls.verify_mode = given.number(),
        )
    },
    tls("ssl_ca_cert", "file", Kind::Text, "Authorities of clients' certificates (PEM)", "", |low, given| {
        low.tls.ca_cert = Some(given.text().to_owned());
    }),
    tls(
        "ssl_ciphers",
        "list",
        Kind::Text,
        "Cipher suites of TLS 1.2, by the names of OpenSSL",
        "With colons between them; others are left out, and a line reports that. Those of TLS 1.3 are always accepted. There are ECDHE-ECDSA- and ECDHE-RSA- with \
            AES128-GCM-SHA256, AES256-GCM-SHA384 and CHACHA20-POLY1305.",
        |low, given| low.tls.ciphers = Some(given.text().to_owned()),
    ),
    Flag {
        default: Some("2"),
        ..tls(
            "ssl_min_version",
            "num",
            Kind::Number { min: 0, max: 3 },
            "Least version: 2 (TLS 1.2) or 3 (TLS 1.3)",
            "0 and 1, for TLS 1.0 and 1.1, mean 2, and a line reports that: those versions are broken (RFC 8996).",
            |low, given| low.tls.min_version = given.number(),
        )
    },
    tls(
        "ssl_session_cache",
        "",
        Kind::Switch,
        "Keep sessions of clients that resume without tickets",
        "TLS 1.2 only; 20480 sessions for 5 minutes. Clients with tickets resume with or without it.",
        |low, _| low.tls.session_cache = true,
    ),
    tls("ssl_kernel_tls", "", Kind::Switch, "Let the kernel encrypt, where it can", "", |low, _| {
        low.tls.kernel = true
    }),
    Flag {
        default: Some("16"),
        effect: Effect::Without("there is no such buffer: replies are encrypted into what is sent"),
        ..tls(
            "ssl_wbuf_size",
            "kilobytes",
            Kind::Number { min: 0, max: (u32::MAX / 1024) as i64 },
            "Write buffer",
            "",
            |low, given| low.tls.write_buffer_bytes = given.number::<u32>() * 1024,
        )
    },
];
