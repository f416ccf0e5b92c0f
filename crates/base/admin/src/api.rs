//! HTTP for programs that ask for something to be done: requests with bodies, answers that may take a while, and who asks.
//!
//! ```text
//! TCP  ─► TLS (mutual, if the settings ask for certificates) ─┐
//! unix ───────────────────────────────────────────────────────┴─► head, body ─► Api::answer ─► JSON
//! ```
//!
//! Everything runs on the one thread that calls [`ApiListener::serve`]. Nothing here knows a path.

mod connections;
mod requests;

use std::future::Future;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use os::socket_file::listen_privately;

pub use crate::streams::ApiTls;
use crate::{Error, bind_all};

/// What a client wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiMethod {
    /// To read.
    Get,
    /// To change something, or to report.
    Post,
}

/// A whole request.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// What for.
    pub method: ApiMethod,
    /// The path, as sent: with its escapes.
    pub path: String,
    /// What follows the `?`, as sent.
    pub query: Option<String>,
    /// The body; of a GET it is empty.
    pub body: Vec<u8>,
    /// Who asks.
    pub peer: ApiPeer,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiPeer {
    /// A process of this host that may open the socket's file.
    Local,
    /// The DER of the certificate that the TLS settings have accepted.
    Certificate(Vec<u8>),
    /// Over the network without a certificate.
    Unknown,
}

/// An answer in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiReply {
    /// HTTP's status code; one that HTTP does not have becomes 500.
    pub status: u16,
    /// The document.
    pub json: String,
    /// When to ask again, of an answer that says "not now".
    pub retry_after_s: Option<u32>,
}

impl ApiReply {
    /// The document with a status.
    pub fn new(status: u16, json: String) -> ApiReply {
        ApiReply { status, json, retry_after_s: None }
    }
}

/// An answer that may take a while. It is dropped if the client goes away.
pub type ApiAnswer = Pin<Box<dyn Future<Output = ApiReply> + Send>>;

/// What answers. Called on the thread that serves, so it must not block: what takes long is a future.
pub trait Api: Send + Sync + 'static {
    /// Answers one request.
    fn answer(self: Arc<Self>, request: ApiRequest) -> ApiAnswer;
}

/// Limits of what clients can take.
#[derive(Clone, Copy, Debug)]
pub struct ApiLimits {
    /// Connections whose handshake has succeeded. A further one is closed: those that are there have work in progress.
    pub connections: usize,
    /// Handshakes at one time. A further one takes the place of the oldest, so that peers that say nothing keep nobody out.
    pub handshakes: usize,
    /// Time for a handshake.
    pub handshake_time: Duration,
    /// Time from the end of one request to the end of the next one's head.
    pub head_time: Duration,
    /// Time for a body.
    pub body_time: Duration,
    /// Bytes of a body.
    pub body_len: usize,
    /// Bytes of a body of a peer without a certificate ([`ApiPeer::Unknown`]).
    pub stranger_body_len: usize,
    /// Bytes of all bodies that are being read. A further one is told to come again.
    pub bodies_len: usize,
}

impl Default for ApiLimits {
    /// A third of 25,000 agents with some room, and bodies of the largest policy; 32 of those at a time.
    fn default() -> ApiLimits {
        ApiLimits {
            connections: 16_384,
            handshakes: 256,
            handshake_time: Duration::from_secs(10),
            head_time: Duration::from_secs(60),
            body_time: Duration::from_secs(30),
            body_len: 8 * 1024 * 1024,
            stranger_body_len: 16 * 1024,
            bodies_len: 256 * 1024 * 1024,
        }
    }
}

/// Bound sockets. Clients can connect from now on, and wait until [`ApiListener::serve`].
#[derive(Default)]
pub struct ApiListener {
    tcp: Vec<(TcpListener, Option<ApiTls>)>,
    unix: Vec<UnixListener>,
}

impl ApiListener {
    /// Binds every address of a host as well. Without TLS, every peer is [`ApiPeer::Unknown`].
    pub fn tcp(mut self, host: &str, port: u16, tls: Option<ApiTls>) -> Result<ApiListener, Error> {
        let address = format!("{host}:{port}");
        let sockets = (host, port).to_socket_addrs().and_then(bind_all);
        let sockets = sockets.map_err(|source| Error::Listen { address, source })?;
        self.tcp.extend(sockets.into_iter().map(|socket| (socket, tls.clone())));
        Ok(self)
    }

    /// Binds a socket file as well, which only its owner may open. Its folder must be one that nobody else can enter: the file
    /// gets its mode only after it is there. What an earlier process has left is replaced, a socket in use is not.
    pub fn unix(mut self, path: &Path) -> Result<ApiListener, Error> {
        let failed = |source| Error::Listen { address: format!("unix:{}", path.display()), source };
        self.unix.push(listen_privately(path).map_err(failed)?);
        Ok(self)
    }

    /// The addresses, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.tcp.iter().filter_map(|(socket, _)| socket.local_addr().ok()).collect()
    }

    /// Serves until the process ends: returns only if it cannot begin.
    pub fn serve(self, api: Arc<dyn Api>, limits: ApiLimits) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Prepare)?;
        runtime.block_on(connections::serve(self, api, limits)).map_err(Error::Prepare)
    }
}
