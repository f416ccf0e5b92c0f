//! Flags for addresses, threads and connections of clients.

use ::flags::Kind;
use net::DriverChoice;

use super::entry::{RouteFlag, flag};
use super::options::THREADS_MAX;

pub(super) const FLAGS: &[RouteFlag] = &[
    flag(
        Some('p'),
        "port",
        "TCP ports to listen on, separated by commas",
        "0 lets the kernel choose a free port, which the start-up line names. Without this flag there must be \
            --unix-domain-sock.",
        |options, given| options.ports.push(given.text().to_owned()),
    )
    .takes("list", Kind::List, ""),
    flag(
        None,
        "listen-addresses",
        "Addresses to listen on, separated by commas",
        "Names or addresses without a port: each listens on all ports of -p. Without this flag, every interface does.",
        |options, given| options.listen_addresses.push(given.text().to_owned()),
    )
    .takes("list", Kind::List, ""),
    flag(
        None,
        "unix-domain-sock",
        "Unix socket to listen on",
        "A socket file without a listener is replaced. mcrouter listens there instead of on -p; here it is both.",
        |options, given| options.unix = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "takeover",
        "Socket at which a router takes over from the one before it",
        "A router that is started with the same path, by the same user, takes over the listeners and the connections of the one that runs: \
            no connect is refused, and no request is lost. If it fails, the other one goes on. mcrouter has no such flag.",
        |options, given| options.takeover = Some(given.text().into()),
    )
    .takes("file", Kind::Text, ""),
    flag(
        None,
        "background",
        "Route in the background; the command ends when it routes",
        "If the start fails, the command says why and ends with its status. Without -v, lines for the operator end there, too. mcrouter \
            has no such flag.",
        |options, _| options.background = true,
    ),
    flag(
        None,
        "num-proxies",
        "Threads that route",
        "Each has a connection of its own to every server that it uses: --validate-config prints how many that makes.",
        |options, given| options.proxies = given.number(),
    )
    .takes("num", Kind::Number { min: 1, max: THREADS_MAX }, "1"),
    flag(
        None,
        "proxy-threads",
        "The same; auto is one for each CPU",
        "",
        |options, given| options.proxy_threads = Some(given.text().to_owned()),
    )
    .takes("num", Kind::Text, ""),
    flag(
        None,
        "max-conns",
        "Connections of clients at a time; 0: as open files allow",
        "Beyond it, new connections wait until one closes; mcrouter closes the one that was used longest ago.",
        |options, given| options.connections_max = given.number(),
    )
    .takes("num", Kind::Number { min: 0, max: 10_000_000 }, "0"),
    flag(
        None,
        "buffer-memory-mb",
        "Memory of each thread for requests and replies on their way, in MB",
        "A thread that holds more closes the clients that hold most: values that they asked for and do not take, or send and \
            do not finish. What is still too much is refused with SERVER_ERROR out of memory. mcrouter has no such flag.",
        |options, given| options.buffer_memory_mb = given.number(),
    )
    .takes("megabytes", Kind::Number { min: 16, max: 1 << 20 }, "512"),
    flag(
        None,
        "tcp-listen-backlog",
        "Connections that may wait at each listener",
        "Without this flag, as many as the system allows.",
        |options, given| options.backlog = Some(given.number()),
    )
    .takes("num", Kind::Number { min: 1, max: i32::MAX as i64 }, ""),
    flag(
        None,
        "driver",
        "How sockets are driven: auto, epoll or uring",
        "auto takes the one that serves better on this kernel; uring (io_uring) fails where the kernel or a container \
            forbids it. The start-up line names the choice. mcrouter has no such flag.",
        |options, given| {
            options.driver = match given.text() {
                "epoll" => DriverChoice::Epoll,
                "uring" => DriverChoice::Uring,
                _ => DriverChoice::Auto,
            }
        },
    )
    .takes("name", Kind::OneOf(&["auto", "epoll", "uring"]), "auto"),
];
