//! The HTTP endpoint of a server or router (`--metrics-listen`): its address, and where its pages come from.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;

use admin::{AdminListener, Limits, Source};
use console::ProcessSite;
use server::metrics::Monitor;
use server::options::MetricsAddress;
use stdx::clock::Now;

use crate::failure::Failure;
use crate::peers::host_sampler::HostSampler;
use crate::process::flag_files;

/// A bound endpoint.
pub(crate) struct Endpoint {
    listener: AdminListener,
    /// The host of its address, as given: a name by which browsers may ask for a page.
    name: Option<String>,
}

/// The address of pages, `HOST:PORT` on a command line. Anybody who reaches it can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagesAddress {
    host: Option<String>,
    port: u16,
}

impl FromStr for PagesAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<PagesAddress, String> {
        let wrong = || "expected HOST:PORT; `*` is every interface".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host) {
            "" => Err(wrong()),
            "*" => Ok(PagesAddress { host: None, port }),
            host if bare.is_none() && host.contains(':') => Err(wrong()),
            host => Ok(PagesAddress { host: Some(host.to_owned()), port }),
        }
    }
}

impl PagesAddress {
    /// Binds it.
    pub(crate) fn bind(&self) -> Result<Endpoint, Failure> {
        Endpoint::at(self.host.as_deref(), self.port).map_err(Failure::other)
    }
}

impl Endpoint {
    /// Binds its address, while the process may still be root.
    pub(crate) fn bind(address: &MetricsAddress) -> Result<Endpoint, Failure> {
        Endpoint::at(address.host.as_deref(), address.port).map_err(Failure::other)
    }

    /// The same from a host and a port; without a host, every interface.
    pub(crate) fn at(host: Option<&str>, port: u16) -> Result<Endpoint, admin::Error> {
        Ok(Endpoint { listener: AdminListener::bind(host, port)?, name: host.map(str::to_owned) })
    }

    /// Takes the sockets of the server that this one takes over if they are at this address, and otherwise binds it.
    pub(crate) fn take_or_bind(address: &MetricsAddress, passed: Vec<OwnedFd>) -> Result<Endpoint, Failure> {
        let host = address.host.as_deref();
        let hosts = host.map_or_else(|| vec!["::", "0.0.0.0"], |host| vec![host]);
        let resolve = |host| (host, address.port).to_socket_addrs().into_iter().flatten();
        let wanted: Vec<SocketAddr> = hosts.into_iter().flat_map(resolve).collect();
        let is_wanted = |socket: &TcpListener| {
            let found = socket.local_addr();
            let is_at = |at: SocketAddr, wanted: &SocketAddr| {
                at.ip() == wanted.ip() && (wanted.port() == 0 || at.port() == wanted.port())
            };
            found.is_ok_and(|at| wanted.iter().any(|wanted| is_at(at, wanted)))
        };
        let sockets: Vec<TcpListener> = passed.into_iter().map(TcpListener::from).collect();
        match !sockets.is_empty() && sockets.iter().all(is_wanted) {
            true => Ok(Endpoint { listener: AdminListener::of(sockets), name: host.map(str::to_owned) }),
            false => Endpoint::bind(address),
        }
    }

    /// Its sockets, for a server that takes over.
    pub(crate) fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(self.listener.sockets()?.into_iter().map(OwnedFd::from).collect())
    }

    /// For the start-up line.
    pub(crate) fn shown(&self) -> String {
        let pages = self.listener.addresses().into_iter().map(|address| format!("http://{address}/metrics"));
        format!(", metrics at {}", pages.collect::<Vec<_>>().join(", "))
    }

    /// Serves until the process ends. `clock` is that of the server. The cache serves without metrics, too, so a failure is
    /// only reported.
    pub(crate) fn serve(
        self,
        monitor: Monitor,
        host: HostSampler,
        clock: impl Fn() -> Now + Send + Sync + 'static,
    ) {
        let pages = Pages { monitor, host, clock };
        self.serve_process(pages, "serve", "the cache is served without them");
    }

    /// Serves other pages on a thread of its own.
    pub(crate) fn serve_beside(
        self,
        pages: impl Source,
        verb: &'static str,
        hint: &'static str,
    ) -> Result<(), Failure> {
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let spawned = thread.spawn(move || self.serve_pages(pages, verb, hint));
        spawned.map(drop).map_err(|error| Failure::system("start a thread for metrics", error))
    }

    /// Serves the pages of a process that handles requests, with the one for browsers. `hint` says what a failure leaves.
    pub(crate) fn serve_process(self, pages: impl Source, verb: &str, hint: &str) {
        let site = Arc::new(ProcessSite::new(self.name));
        report(self.listener.serve_with_site(Arc::new(pages), site, Limits::default()), verb, hint);
    }

    fn serve_pages(self, pages: impl Source, verb: &str, hint: &str) {
        report(self.listener.serve(Arc::new(pages), Limits::default()), verb, hint);
    }
}

/// Reports that pages could not be served.
fn report(served: Result<(), admin::Error>, verb: &str, hint: &str) {
    if let Err(error) = served {
        Failure::other(error).hint(hint).report(Some(verb));
    }
}

struct Pages<C> {
    monitor: Monitor,
    host: HostSampler,
    clock: C,
}

impl<C: Fn() -> Now + Send + Sync + 'static> Source for Pages<C> {
    fn metrics(&self) -> String {
        self.monitor.metrics((self.clock)()) + &self.host.metrics()
    }

    fn readiness(&self) -> Result<(), String> {
        self.monitor.readiness()
    }

    fn report(&self, name: &str) -> Option<String> {
        (name == "stats").then(|| self.monitor.report_with((self.clock)(), flag_files::report()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_pages_is_a_host_and_a_port() {
        let parse = |text: &str| text.parse::<PagesAddress>().map(|address| (address.host, address.port));
        let named = |host: &str, port| Ok((Some(host.to_owned()), port));
        assert_eq!(parse("127.0.0.1:9151"), named("127.0.0.1", 9151));
        assert_eq!(parse("[::1]:0"), named("::1", 0));
        assert_eq!(parse("*:9151"), Ok((None, 9151)));
        for wrong in ["", "9151", "h", ":9151", "h:", "h:70000", "::1:9151"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
