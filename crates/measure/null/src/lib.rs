//! Null servers: the lower bound for what a real server, or a real proxy, costs on the same sockets.
//!
//! * [`server`]: a server that keeps nothing, and has the same value for every key;
//! * [`proxy`]: a proxy that routes nothing, because each client has a server of its own.
//!
//! Both use the workers and drivers of `net`, as `evenkeel serve` and `route` do: what these need more CPU time for is their
//! own work. No command line in here, and no signal.

mod proxy;
mod server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use net::{DriverChoice, Error, Handler, Listen, Network, Options, Place, Running, View};
use tls::{Acceptor, CertificateFiles, ListenerTls, PeerCheck, TlsServerError, TlsSettings};

use proxy::NullProxy;
use server::NullServer;

/// Where a null server listens, and what with.
#[derive(Clone, Debug)]
pub struct NullOptions {
    /// The address of connections.
    pub address: SocketAddr,
    /// Whether datagrams are answered at that address, too.
    pub with_udp: bool,
    /// A socket file besides.
    pub socket: Option<PathBuf>,
    /// What accepts TLS sessions at the address; `None`: it is plain.
    pub acceptor: Option<Arc<Acceptor>>,
    /// Threads that answer.
    pub workers: usize,
    /// How receives and sends reach the kernel.
    pub driver: DriverChoice,
}

/// The answer to requests.
#[derive(Clone, Debug)]
pub enum NullAnswer {
    /// A value of this many bytes under every key.
    Value(usize),
    /// What one of these servers answers; each client has one of them, in turn.
    Of(Vec<SocketAddr>),
}

/// Clients of a server, and servers' connections of a proxy: as many as a benchmark makes.
const CONNECTIONS_MAX: usize = 100_000;

/// Permissions of a socket file: those of its user alone.
const SOCKET_MODE: u32 = 0o700;

/// A null server whose sockets are bound.
pub struct BoundNull {
    network: Network,
    answer: NullAnswer,
    workers: usize,
}

/// A null server that serves.
pub struct RunningNull {
    view: View,
    wait: Box<dyn FnOnce() -> Result<(), Error>>,
}

impl BoundNull {
    /// Binds its sockets. Clients can connect from now on.
    pub fn bind(options: NullOptions, answer: NullAnswer) -> Result<BoundNull, Error> {
        let NullOptions { address, with_udp, socket, acceptor, workers, driver } = options;
        let mut listen = vec![Listen::Tcp(address)];
        listen.extend(with_udp.then_some(Listen::Udp(address)));
        listen.extend(socket.map(|path| Listen::Unix { path, mode: SOCKET_MODE }));
        let options = Options {
            workers,
            driver,
            connections_max: CONNECTIONS_MAX,
            dialled_max: CONNECTIONS_MAX,
            reads_max: 0,
            acceptors: vec![acceptor],
            ..Options::default()
        };
        Ok(BoundNull { network: Network::bind(&listen, options)?, answer, workers })
    }

    /// A handle that ends it.
    pub fn stop(&self) -> net::Stop {
        self.network.stop()
    }

    /// Serves from now on.
    pub fn start(self) -> Result<RunningNull, Error> {
        let BoundNull { network, answer, workers } = self;
        let view = network.view();
        let wait: Box<dyn FnOnce() -> Result<(), Error>> = match answer {
            NullAnswer::Value(len) => waited_for(network.start(vec_of(workers, || NullServer::new(len)))?),
            NullAnswer::Of(servers) => {
                let places: Vec<Place> = servers.into_iter().map(Place::Tcp).collect();
                waited_for(network.start(vec_of(workers, || NullProxy::new(places.clone())))?)
            }
        };
        Ok(RunningNull { view, wait })
    }
}

impl RunningNull {
    /// What is known of it while it runs.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Waits until it has been stopped.
    pub fn wait(self) -> Result<(), Error> {
        (self.wait)()
    }
}

fn vec_of<H>(workers: usize, handler: impl FnMut() -> H) -> Vec<H> {
    std::iter::repeat_with(handler).take(workers).collect()
}

fn waited_for<H: Handler + 'static>(running: Running<H>) -> Box<dyn FnOnce() -> Result<(), Error>> {
    Box::new(|| running.join().map(drop))
}

/// What accepts TLS sessions with the certificate, its chain and its key in one file.
pub fn acceptor(path: &Path) -> Result<Arc<Acceptor>, TlsServerError> {
    let certificates = vec![CertificateFiles { chain: path.to_owned(), key: None }];
    let (listener, _) = ListenerTls::load(TlsSettings::new(certificates))?;
    listener.acceptor(PeerCheck::Never).map(Arc::new)
}
