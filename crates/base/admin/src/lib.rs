//! HTTP for whoever watches a program of ours: metrics for Prometheus, health, readiness, reports in JSON.
//!
//! ```text
//! GET /metrics          Source::metrics      text format 0.0.4
//! GET /healthz          "ok" while this thread runs
//! GET /readyz           Source::readiness    200, or 503 and why
//! GET /api/v1/NAME      Source::report       JSON, or 404
//! GET /                 a list of these, or for browsers a page of the site, if there is one
//! ```
//!
//! Everything runs on the one thread that calls [`AdminListener::serve`], by hyper and tokio. A [`Source`] reads; there is no
//! request that changes anything, and none with a body. Nothing here knows what is watched.
//!
//! [`api`] is the other kind, on a port of its own: requests that change something, from peers who prove who they are. [`site`] is the
//! third: pages for people's browsers.

pub mod api;
pub mod site;

mod answers;
mod connections;
mod pages;
mod streams;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Where the pages come from. Called on the thread that serves, so it must be quick and wait for nobody.
pub trait Source: Send + Sync + 'static {
    /// All families, in Prometheus' text format 0.0.4.
    fn metrics(&self) -> String;

    /// Whether the program does its work; the error is a clause that says why not.
    fn readiness(&self) -> Result<(), String>;

    /// A report in JSON, by its name; `None` if there is none of this name.
    fn report(&self, name: &str) -> Option<String>;
}

/// Limits of what clients can take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time. A further one takes the place of the oldest.
    pub connections: usize,
    /// Time from the end of one request to the end of the next one's head.
    pub head_time: Duration,
    /// Age at which a connection is closed, even if its client takes a reply slowly. Scrapers open another one.
    pub age: Duration,
    /// Age up to which a page is sent again instead of being built anew: what bounds the CPU time of many scrapers.
    pub page_age: Duration,
}

/// Connections of [`Limits::default`], which a program has to have descriptors for.
pub const CONNECTIONS_MAX: usize = 64;

impl Default for Limits {
    /// A few Prometheus servers, dashboards and probes; a page costs its buffer for each at most.
    fn default() -> Limits {
        Limits {
            connections: CONNECTIONS_MAX,
            head_time: Duration::from_secs(10),
            age: Duration::from_secs(600),
            page_age: Duration::from_millis(100),
        }
    }
}

/// Errors of setting up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, or not one of this host, or its name has none.
    #[error("listen on {address} for metrics")]
    Listen {
        /// As given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The thread could not be prepared.
    #[error("prepare to serve metrics")]
    Prepare(#[source] io::Error),
}

/// Bound sockets. Clients can connect from now on, and wait until [`AdminListener::serve`].
pub struct AdminListener {
    sockets: Vec<TcpListener>,
}

impl AdminListener {
    /// Binds every address of `host`; without a host, every interface. Port 0 lets the kernel choose.
    pub fn bind(host: Option<&str>, port: u16) -> Result<AdminListener, Error> {
        let address = format!("{}:{port}", host.unwrap_or("*"));
        let failed = |source| Error::Listen { address: address.clone(), source };
        let sockets = match host {
            // Without IPv6, only IPv4.
            None => TcpListener::bind(("::", port))
                .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
                .map(|one| vec![one]),
            Some(host) => (host, port).to_socket_addrs().and_then(bind_all),
        };
        Ok(AdminListener { sockets: sockets.map_err(failed)? })
    }

    /// Sockets that another process has bound.
    pub fn of(sockets: Vec<TcpListener>) -> AdminListener {
        AdminListener { sockets }
    }

    /// The sockets, for another process.
    pub fn sockets(&self) -> io::Result<Vec<TcpListener>> {
        self.sockets.iter().map(TcpListener::try_clone).collect()
    }

    /// The addresses, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// Serves until the process ends: returns only if it cannot begin.
    pub fn serve(self, source: Arc<dyn Source>, limits: Limits) -> Result<(), Error> {
        self.serve_all(pages::AdminPages::new(source, None, limits.page_age), None, limits)
    }

    /// The same with a site for browsers: what they get of `/`, and of every path that is no page or report of the source.
    pub fn serve_with_site(
        self,
        source: Arc<dyn Source>,
        site: Arc<dyn site::BrowserSite>,
        limits: Limits,
    ) -> Result<(), Error> {
        self.serve_all(pages::AdminPages::new(source, Some(site), limits.page_age), None, limits)
    }

    /// Serves pages for browsers in the same way, over TLS if there are settings for it.
    pub fn serve_site(
        self,
        site: Arc<dyn site::BrowserSite>,
        tls: Option<streams::ApiTls>,
        limits: Limits,
    ) -> Result<(), Error> {
        self.serve_all(site::SiteAnswers(site), tls, limits)
    }

    fn serve_all(
        self,
        answers: impl answers::Answers,
        tls: Option<streams::ApiTls>,
        limits: Limits,
    ) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Prepare)?;
        let serve = connections::serve(self.sockets, tls, Arc::new(answers), limits);
        runtime.block_on(serve).map_err(Error::Prepare)
    }
}

/// A name can stand for an address of a family that this host does not have (`localhost`, `::1`): one has to do.
fn bind_all(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<Vec<TcpListener>> {
    let (mut sockets, mut problem) = (Vec::new(), None);
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(socket) => sockets.push(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(error) => problem = Some(error),
        }
    }
    match problem {
        Some(error) if sockets.is_empty() => Err(error),
        _ if sockets.is_empty() => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
        _ => Ok(sockets),
    }
}
