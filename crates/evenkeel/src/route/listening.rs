//! Listeners of a router, and the number of connections that its open files allow.

use router::flags::RouteOptions;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::lines::{TRANSIENT, refused, transient};
use crate::failure::Failure;

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

/// The permissions of a unix socket: those that it has in mcrouter with the usual mask, for whom connecting counts.
const UNIX_MODE: u32 = 0o700;

/// The places to listen at.
pub(super) fn places(options: &RouteOptions) -> Result<Vec<net::Listen>, Failure> {
    let ports = options.tcp_ports().map_err(refused)?;
    let hosts: Vec<Option<&str>> = match options.hosts().map(Some).collect::<Vec<_>>() {
        hosts if hosts.is_empty() => vec![None],
        hosts => hosts,
    };
    let mut places = Vec::new();
    for host in hosts {
        for port in &ports {
            let addresses = net::listener::resolve(host, *port)
                .map_err(|error| transient(&format!("resolve {}", host.unwrap_or("*")), error))?;
            places.extend(addresses.into_iter().map(net::Listen::Tcp));
        }
    }
    let unix = options.unix.iter().map(|path| net::Listen::Unix { path: path.clone(), mode: UNIX_MODE });
    places.extend(unix);
    Ok(places)
}

/// Limits on connections.
pub(super) struct Limits {
    /// Of clients.
    pub(super) connections_max: usize,
    /// Of each worker to servers.
    pub(super) dialled_max: usize,
}

impl Limits {
    /// Raises the limit on open files as far as the system allows, and divides it.
    pub(super) fn raise(options: &RouteOptions, server_count: usize) -> Result<Limits, Failure> {
        let limit = getrlimit(Resource::Nofile);
        let files = limit.maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
        if limit.current.is_some_and(|current| current < files) {
            setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: limit.maximum })
                .map_err(|error| transient(&format!("raise the limit on open files to {files}"), error))?;
        }
        Limits::divide(limit.current.map_or(FILES_MAX, |current| current.max(files)), options, server_count)
    }

    fn divide(files: u64, options: &RouteOptions, server_count: usize) -> Result<Limits, Failure> {
        let per_worker = (server_count * DIALLED_PER_SERVER) as u64 + FILES_PER_WORKER;
        let metrics =
            options.metrics_listen.as_ref().map_or(0, |_| admin::CONNECTIONS_MAX as u64 + FILES_OF_METRICS);
        let own = per_worker * options.proxies as u64 + FILES_OF_PROCESS + metrics;
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
}
