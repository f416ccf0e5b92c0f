//! Flags for addresses and limits of connections.

use net::FrameMode;
use stdx::units::{GIB, MIB};

use ::flags::{Effect, Kind};

use super::low::Flag;
use crate::settings::options::{Protocol, udp};

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        short: Some('p'),
        name: "port",
        value: "num",
        kind: Kind::Number { min: -1, max: 65_535 },
        default: Some("11211"),
        doc: "TCP port to listen on",
        details: "0 turns TCP off; -1 lets the kernel choose a free port, which the start-up line names.",
        effect: Effect::Works,
        set: |low, given| low.port = Some(given.number()),
    },
    Flag {
        short: Some('l'),
        name: "listen",
        value: "addr",
        kind: Kind::List,
        default: None,
        doc: "Addresses to listen on, instead of every interface",
        details: "A list, separated by commas or semicolons, or the flag several times. An address is a name, an \
            IPv4 address, an IPv6 address (in brackets if a port follows) or `*`, each with or without `:port`; \
            without one, -p counts. A name that stands for several addresses gets a socket for each.\n\n\
            As in memcached, `proto[ascii]:`, `proto[binary]:` or `proto[negotiating]:` may precede an address, for \
            which it counts instead of -B; `tag[name]:` is read and means nothing without memcached's proxy.",
        effect: Effect::Works,
        set: |low, given| low.listen.push(given.text().to_owned()),
    },
    Flag {
        short: Some('s'),
        name: "unix-socket",
        value: "file",
        kind: Kind::Text,
        default: None,
        doc: "Unix socket to listen on; alone, it turns TCP off",
        details: "With -p or -l given as well, both are served; memcached would drop TCP. A socket that an earlier \
            process left at this path is replaced; any other file is not.",
        effect: Effect::Works,
        set: |low, given| low.unix_socket = Some(given.text().to_owned()),
    },
    Flag {
        short: Some('a'),
        name: "unix-mask",
        value: "mask",
        kind: Kind::Octal,
        default: Some("700"),
        doc: "Permission bits of the unix socket, in octal",
        details: "",
        effect: Effect::Works,
        set: |low, given| low.unix_mask = Some(given.number()),
    },
    Flag {
        short: Some('c'),
        name: "conn-limit",
        value: "num",
        kind: Kind::Number { min: 1, max: 10_000_000 },
        default: Some("1024"),
        doc: "Connections at one time",
        details: "The limit on open files (RLIMIT_NOFILE) is raised to fit. If the system does not allow it, there are fewer \
            connections, and a line reports that; a number above the hard limit is refused. -o maxconns_fast controls what \
            happens beyond the limit.",
        effect: Effect::Works,
        set: |low, given| {
            low.options.connection_limit = given.number();
            low.connection_limit_typed = true;
        },
    },
    Flag {
        short: Some('b'),
        name: "listen-backlog",
        value: "num",
        kind: Kind::Number { min: 0, max: i32::MAX as i64 },
        default: None,
        doc: "Connections that may wait to be accepted",
        details: "Without it as many as net.core.somaxconn allows (1024 if that cannot be read). More than it allows \
            are not possible: a line at the start reports that, and `stats settings` shows the number in force \
            as evenkeel_tcp_backlog.",
        effect: Effect::Works,
        set: |low, given| low.options.backlog = Some(given.number()),
    },
    Flag {
        short: None,
        name: "fast-open",
        value: "num",
        kind: Kind::Number { min: 0, max: i32::MAX as i64 },
        default: Some("0"),
        doc: "TCP Fast Open: pending connections with data; 0 is off",
        details: "A client that has connected before sends its request with the SYN and gets the reply a round trip \
            earlier. So many connections at each TCP listener may be in this state; others are opened as usual. \
            net.ipv4.tcp_fastopen must allow it to servers (bit 2): if not, a line at the start reports that.",
        effect: Effect::Works,
        set: |low, given| low.options.fast_open = given.number(),
    },
    Flag {
        short: None,
        name: "listen-fd",
        value: "num",
        kind: Kind::List,
        default: None,
        doc: "Inherited sockets to serve, by their descriptors from 3 on",
        details: "A list, separated by commas, or the flag several times. Each is a listening stream socket over TCP \
            or unix that the process which starts this one has made. Sockets that systemd passes (LISTEN_FDS) are \
            served without it. Unless -p, -l, -s or -U is given as well, nothing else is served.",
        effect: Effect::Works,
        set: |low, given| low.listen_fd.push(given.text().to_owned()),
    },
    Flag {
        short: Some('B'),
        name: "protocol",
        value: "name",
        kind: Kind::OneOf(&["auto", "ascii", "binary"]),
        default: Some("auto"),
        doc: "Protocol that is spoken: auto, ascii or binary",
        details: "ascii is the text protocol with its meta commands; binary is the protocol that memcached has \
            deprecated and many clients speak. With auto, a connection's first byte decides.",
        effect: Effect::Works,
        set: |low, given| {
            let (name, protocol) = match given.text() {
                "ascii" => ("ascii", Protocol::Ascii),
                "binary" => ("binary", Protocol::Binary),
                _ => ("auto", Protocol::Auto),
            };
            low.protocol = Some(name);
            low.options.protocol = protocol;
        },
    },
    Flag {
        short: Some('U'),
        name: "udp-port",
        value: "num",
        kind: Kind::Number { min: -1, max: 65_535 },
        default: Some("0"),
        doc: "UDP port to listen on; 0 is off",
        details: "A request is one datagram, a reply as many of 1400 bytes as it needs, each with memcached's frame of \
            8 bytes. -1 lets the kernel choose a port; without -p, TCP is served at the same one. The addresses are \
            those of -l, of which an explicit port counts for both. UDP cannot prove who has sent a request: see \
            --udp-allow, and do not open the port to the Internet.",
        effect: Effect::Works,
        set: |low, given| low.udp.port = Some(given.number()),
    },
    Flag {
        short: None,
        name: "udp-allow",
        value: "networks",
        kind: Kind::List,
        default: Some(udp::ALLOW_DEFAULT),
        doc: "Networks whose datagrams are served; others are dropped",
        details: "Networks or addresses (`10.0.0.0/8,192.0.2.7`), separated by commas, or the flag several times. They \
            replace the default, which is this machine and the private networks. memcached has no such flag.",
        effect: Effect::Works,
        set: |low, given| low.udp.allow.push(given.text().to_owned()),
    },
    Flag {
        short: None,
        name: "udp-xdp",
        value: "interfaces",
        kind: Kind::List,
        default: None,
        doc: "Take datagrams from these interfaces below the kernel's sockets",
        details: "Names of interfaces, separated by commas. A program at each of them (XDP) gives datagrams for the address of -l and \
            the port of -U to the threads before the kernel makes packets of them, which takes less CPU time; all else goes on to \
            the kernel, also fragments and IP options, which its socket serves. Firewall rules do not see these datagrams: \
            --udp-allow does. Needs -U, one address in -l, and root or CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF at the start. memcached has no such flag.",
        effect: Effect::Works,
        set: |low, given| low.udp.frames.interfaces.push(given.text().to_owned()),
    },
    Flag {
        short: None,
        name: "udp-xdp-mode",
        value: "name",
        kind: Kind::OneOf(&["auto", "native", "generic", "zerocopy"]),
        default: Some("auto"),
        doc: "How --udp-xdp gets frames: auto, native, generic or zerocopy",
        details: "auto lets the driver run the program, and copies frames unless the driver can do without. native always copies. generic \
            works with every driver, and saves less. memcached has no such flag.",
        effect: Effect::Works,
        set: |low, given| {
            low.udp.frames.mode = match given.text() {
                "native" => FrameMode::Native,
                "generic" => FrameMode::Generic,
                "zerocopy" => FrameMode::ZeroCopy,
                _ => FrameMode::Auto,
            }
        },
    },
    Flag {
        short: None,
        name: "udp-reply-rate",
        value: "size",
        kind: Kind::Size { unit: 1, min: 0, max: 1024 * GIB },
        default: Some("64m"),
        doc: "Bytes of UDP replies to a network per second; 0 is no limit",
        details: "A network is a /24 of IPv4 or a /56 of IPv6. Who forges senders can make the server send no more than \
            this to a network; replies beyond it are dropped and counted (`evenkeel_udp_limited`). Replies to this \
            machine do not count. memcached has no such flag.",
        effect: Effect::Works,
        set: |low, given| low.options.udp.reply_bytes_per_second = given.number(),
    },
];

pub(super) const OPTIONS: &[Flag] = &[
    Flag {
        short: None,
        name: "maxconns_fast",
        value: "",
        kind: Kind::Switch,
        default: Some("on"),
        doc: "Beyond -c, refuse a connection with an error line at once",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.maxconns_fast = true,
    },
    Flag {
        short: None,
        name: "no_maxconns_fast",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Beyond -c, let new connections wait until one closes",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.maxconns_fast = false,
    },
    Flag {
        short: None,
        name: "idle_timeout",
        value: "seconds",
        kind: Kind::Number { min: 0, max: i32::MAX as i64 },
        default: Some("0"),
        doc: "Close a connection that was silent for so long; 0 is never",
        details: "",
        effect: Effect::Works,
        set: |low, given| low.options.idle_timeout_s = Some(given.number()).filter(|&seconds| seconds != 0),
    },
    Flag {
        short: None,
        name: "read_buf_mem_limit",
        value: "megabytes",
        kind: Kind::Number { min: 0, max: u32::MAX as i64 },
        default: Some("0"),
        doc: "Memory for the buffers of connections",
        details: "",
        effect: Effect::Without("buffers belong to workers, and idle connections own none"),
        set: |low, given| low.options.echo.read_buffer_bytes = given.number::<u64>().saturating_mul(MIB),
    },
    Flag {
        short: None,
        name: "resp_obj_mem_limit",
        value: "megabytes",
        kind: Kind::NumberOr { bare: 0, min: 0, max: u32::MAX as i64 },
        default: None,
        doc: "Memory for response objects",
        details: "",
        effect: Effect::Without("memcached has dropped it too"),
        set: |_, _| {},
    },
    Flag {
        short: None,
        name: "sock_cookie_id",
        value: "num",
        kind: Kind::Number { min: 0, max: u32::MAX as i64 },
        default: None,
        doc: "Mark sockets for packet filters",
        details: "",
        effect: Effect::Lacking("sockets are not marked for packet filters (SO_MARK)"),
        set: |_, _| {},
    },
];
