//! Listeners of a router, and the number of connections that its open files allow.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use router::flags::RouteOptions;

use super::lines::{TRANSIENT, refused, transient};
use crate::failure::Failure;
use crate::process::resources::raise_open_files_to_hard_limit;
use crate::process::sys;

/// Open files other than connections: standard streams, event descriptors of the process.
const FILES_OF_PROCESS: u64 = 64;
/// Open files of the endpoint of metrics beside its connections: sockets, an epoll set, and what a scrape reads.
const FILES_OF_METRICS: u64 = 16;
/// Open files of each worker's driver: a ring or an epoll set, timers, an eventfd.
const FILES_PER_WORKER: u64 = 8;
/// Where open files have no limit, clients have this one.
const FILES_MAX: u64 = 1 << 20;
/// Connections that each worker may have to servers, if the configuration has few: it may have more later.
const DIALLED_MIN: usize = 1024;
/// Connections of one worker to one server: while a server's settings change, there are two.
const DIALLED_PER_SERVER: usize = 2;

/// TLS handshakes of clients at a time, if there are files enough: as many as `evenkeel serve` has unless told otherwise.
const HANDSHAKES_MAX: u64 = 4096;

/// The permissions of a unix socket: those that it has in mcrouter with the usual mask, for whom connecting counts.
const UNIX_MODE: u32 = 0o700;

/// A place to listen at.
pub(super) struct ListenPlace {
    pub(super) listen: net::Listen,
    pub(super) with_tls: bool,
}

/// The socket of `--listen-sock-fd`. To be called once, before the process keeps any descriptor of its own.
pub(super) fn inherited(options: &RouteOptions) -> Result<Option<OwnedFd>, Failure> {
    let take = |number| {
        sys::inherited_descriptor(number).map_err(|error| {
            transient(&format!("listen on descriptor {number}"), error)
                .hint("it must be open in the process that starts this one, without close-on-exec")
        })
    };
    options.listen_fd.map(take).transpose()
}

/// The places to listen at.
pub(super) fn places(
    options: &RouteOptions,
    inherited: Option<OwnedFd>,
) -> Result<Vec<ListenPlace>, Failure> {
    let plain = options.tcp_ports().map_err(refused)?.into_iter().map(|port| (port, false));
    let secure = options.ssl_ports().map_err(refused)?.into_iter().map(|port| (port, true));
    let ports: Vec<(u16, bool)> = plain.chain(secure).collect();
    let hosts: Vec<Option<&str>> = match options.hosts().map(Some).collect::<Vec<_>>() {
        hosts if hosts.is_empty() => vec![None],
        hosts => hosts,
    };
    let mut places = Vec::new();
    for host in hosts {
        for &(port, with_tls) in &ports {
            let addresses = net::listener::resolve(host, port)
                .map_err(|error| transient(&format!("resolve {}", host.unwrap_or("*")), error))?;
            let listen = |address| ListenPlace { listen: net::Listen::Tcp(address), with_tls };
            places.extend(addresses.into_iter().map(listen));
        }
    }
    let unix = options.unix.iter().map(|path| net::Listen::Unix { path: path.clone(), mode: UNIX_MODE });
    let inherited = inherited.map(|fd| net::Listen::Inherited(Arc::new(fd)));
    places.extend(unix.chain(inherited).map(|listen| ListenPlace { listen, with_tls: false }));
    Ok(places)
}

/// Limits on connections.
pub(super) struct Limits {
    /// Of clients.
    pub(super) connections_max: usize,
    /// Of each worker to servers.
    pub(super) dialled_max: usize,
    /// TLS handshakes of clients at a time.
    pub(super) handshakes_max: usize,
}

impl Limits {
    /// Raises the limit on open files as far as the system allows, and divides it.
    pub(super) fn raise(options: &RouteOptions, server_count: usize) -> Result<Limits, Failure> {
        let files = raise_open_files_to_hard_limit(FILES_MAX)
            .map_err(|error| transient("raise the limit on open files to the hard limit", error))?;
        Limits::divide(files, options, server_count)
    }

    fn divide(files: u64, options: &RouteOptions, server_count: usize) -> Result<Limits, Failure> {
        let per_worker = (server_count * DIALLED_PER_SERVER) as u64 + FILES_PER_WORKER;
        let handshakes_max = if options.tls.ssl_ports.is_empty() { 0 } else { HANDSHAKES_MAX.min(files / 8) };
        let metrics =
            options.metrics_listen.as_ref().map_or(0, |_| admin::CONNECTIONS_MAX as u64 + FILES_OF_METRICS);
        let own = per_worker * options.proxies as u64 + FILES_OF_PROCESS + handshakes_max + metrics;
        let asked = options.connections_max as u64;
        let needed = own + asked.max(1);
        if files < needed {
            let what = format!(
                "expected a limit on open files of at least {needed} for {server_count} servers, {} threads and \
                 {} connections, found {files}",
                options.proxies,
                asked.max(1)
            );
            let failure = Failure::other(anyhow::anyhow!(what)).with_status(TRANSIENT);
            return Err(
                failure.hint("raise `ulimit -Hn`, or ask for fewer with --max-conns or --num-proxies")
            );
        }
        Ok(Limits {
            connections_max: if asked == 0 { files - own } else { asked } as usize,
            dialled_max: (server_count * DIALLED_PER_SERVER).max(DIALLED_MIN),
            handshakes_max: handshakes_max as usize,
        })
    }

    /// The most servers that a later configuration may have.
    pub(super) fn servers_max(&self) -> usize {
        self.dialled_max / DIALLED_PER_SERVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: u64, asked: usize, servers: usize, expected: Option<(usize, usize)>) {
        let options = RouteOptions { connections_max: asked, proxies: 2, ..RouteOptions::default() };
        let limits = Limits::divide(files, &options, servers).ok();
        let limits = limits.map(|limits| (limits.connections_max, limits.dialled_max));
        assert_eq!(limits, expected, "{files} files, {asked} clients, {servers} servers");
    }

    #[test]
    fn open_files_are_divided_between_clients_and_servers() {
        // 64 of the process, 8 of each of two workers, 2 of each worker to each server.
        check(1024, 0, 10, Some((1024 - 64 - 16 - 40, 1024)));
        check(1024, 100, 10, Some((100, 1024)));
        check(1024, 1000, 10, None);
        check(120, 0, 10, None);
        check(121, 0, 10, Some((1, 1024)));
        check(100_000, 0, 5_000, Some((100_000 - 64 - 16 - 20_000, 10_000)));
    }

    #[test]
    fn handshakes_have_their_share_of_open_files() {
        let mut options = RouteOptions { proxies: 1, ..RouteOptions::default() };
        options.tls.ssl_ports.push("11212".to_owned());
        let limits = |files| {
            let limits = Limits::divide(files, &options, 1)
                .map(|limits| (limits.connections_max, limits.handshakes_max));
            limits.ok()
        };
        assert_eq!(limits(1000), Some((1000 - 64 - 8 - 2 - 125, 125)));
        assert_eq!(limits(100_000), Some((100_000 - 64 - 8 - 2 - 4096, 4096)));
    }
}
