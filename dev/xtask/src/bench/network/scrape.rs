//! A scrape of the metrics of a server with very many idle connections.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::process::raise_open_files;

use super::endpoint::fetch;
use super::handshake::ask;
use super::server::NetworkServer;

/// Idle connections, if as many files may be open.
pub(super) const CONNECTIONS_MAX: u32 = 10_000;

/// Files of this process and of the server that are no idle connections.
const OTHER_FILES: u32 = 200;

/// Scrapes.
const SCRAPES: usize = 30;

/// A page is built at most every 0.1 s. A scrape that gets an older one shows nothing.
const PAUSE: Duration = Duration::from_millis(110);

/// The median time of a scrape in milliseconds; the longest is printed, too.
pub(super) fn median_ms(server: &NetworkServer) -> Result<f64> {
    // Who may not raise the limit has fewer connections.
    let _ = raise_open_files(u64::from(CONNECTIONS_MAX + OTHER_FILES));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = limit.saturating_sub(OTHER_FILES.into()).min(CONNECTIONS_MAX.into());
    ensure!(count > 0, "this process may open only {limit} files");
    let open = || -> Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port))?;
        ask(&mut stream)?;
        Ok(stream)
    };
    let _idle = (0..count).map(|_| open()).collect::<Result<Vec<_>>>()?;
    let mut times_ms = Vec::with_capacity(SCRAPES);
    for _ in 0..SCRAPES {
        clock::pass(PAUSE);
        let began = clock::now();
        let page = fetch(server.metrics_port(), "/metrics")?;
        times_ms.push(began.elapsed().as_secs_f64() * 1000.0);
        let shown = page.lines().find_map(|line| line.strip_prefix("memcached_current_connections "));
        let shown: u64 = shown.context("the page counts connections")?.parse()?;
        ensure!(shown >= count, "the page shows {shown} of {count} connections");
    }
    let longest = times_ms.iter().copied().fold(0.0, f64::max);
    eprintln!("  scrape: {count} connections, longest {longest:.2} ms");
    Ok(stdx::statistics::median(&times_ms))
}
