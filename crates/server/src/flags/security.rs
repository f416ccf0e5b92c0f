//! Flags for the identity of the process and the rights of clients.

use ::flags::{Effect, Kind};

use super::low::Flag;

const TLS: &str = "TLS is not built; put a TLS terminator in front, or use a private network";

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
        doc: "Encrypt connections (TLS)",
        details: "",
        effect: Effect::NotYet(TLS),
        set: |_, _| {},
    },
];

/// A sub-option of TLS.
const fn tls(name: &'static str, value: &'static str, doc: &'static str) -> Flag {
    let kind = if value.is_empty() { Kind::Switch } else { Kind::Text };
    let effect = Effect::NotYet(TLS);
    Flag { short: None, name, value, kind, default: None, doc, details: "", effect, set: |_, _| {} }
}

const SANDBOX: &str = "the server does not forbid itself system calls (seccomp)";

/// A sub-option of memcached's sandbox.
const fn sandbox(name: &'static str, doc: &'static str, effect: Effect) -> Flag {
    let kind = Kind::Switch;
    Flag { short: None, name, value: "", kind, default: None, doc, details: "", effect, set: |_, _| {} }
}

pub(super) const OPTIONS: &[Flag] = &[
    sandbox("drop_privileges", "Forbid needless system calls", Effect::NotYet(SANDBOX)),
    sandbox("no_drop_privileges", "Do not forbid needless system calls", Effect::Without(SANDBOX)),
    sandbox("relaxed_privileges", "Forbid fewer system calls, for debugging", Effect::NotYet(SANDBOX)),
    tls("ssl_chain_cert", "file", "Certificate chain"),
    tls("ssl_key", "file", "Private key"),
    tls("ssl_verify_mode", "num", "Whether clients need a certificate"),
    tls("ssl_keyformat", "num", "Format of the private key"),
    tls("ssl_ciphers", "list", "Ciphers"),
    tls("ssl_ca_cert", "file", "Certificates that vouch for clients"),
    tls("ssl_wbuf_size", "kilobytes", "Write buffer"),
    tls("ssl_session_cache", "", "Cache sessions"),
    tls("ssl_kernel_tls", "", "Let the kernel encrypt"),
    tls("ssl_min_version", "num", "Least version"),
];
