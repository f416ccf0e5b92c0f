//! HTTP client: one request at a time and connection, over TCP, TLS or a socket file; connections are kept for the next one.
//!
//! Nothing is followed, retried or sent through a proxy: who asks knows which request may be made twice. A request is sent
//! again only if hyper has kept it, because its connection was closed before a byte of it was sent.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
pub use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::header::{HOST, HeaderValue};
pub use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Idle connections that are kept: more than one only after requests at the same time.
const IDLE_MAX: usize = 8;

/// A connection that takes requests.
type Sender = SendRequest<Full<Bytes>>;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpPlace {
    /// Behind a socket file.
    Unix(PathBuf),
    /// At a port of a host.
    Network {
        /// Whether TLS is spoken.
        is_tls: bool,
        /// Name or address; of IPv6 without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
}

impl HttpPlace {
    /// What HTTP calls the authority: host and port.
    fn authority(&self) -> String {
        match self {
            HttpPlace::Unix(_) => "localhost".to_owned(),
            HttpPlace::Network { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            HttpPlace::Network { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for HttpPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HttpPlace::Unix(path) => write!(formatter, "unix:{}", path.display()),
            HttpPlace::Network { is_tls, .. } => {
                write!(formatter, "{}://{}", if *is_tls { "https" } else { "http" }, self.authority())
            }
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpFault {
    /// Nothing of the request was sent.
    #[error("connect")]
    Connect(#[source] io::Error),
    /// The server may have the request.
    #[error("send a request, and read its answer")]
    Exchange(#[source] hyper::Error),
    /// It cannot be written as HTTP.
    #[error("write a request")]
    Request(#[source] hyper::http::Error),
}

/// A client of one server.
pub struct HttpClient {
    place: HttpPlace,
    authority: HeaderValue,
    tls: Arc<ClientConfig>,
    connect_within: Duration,
    idle: Arc<Mutex<Vec<Sender>>>,
}

impl HttpClient {
    /// Nothing is connected yet. Fails if no header can name the host.
    pub fn new(
        place: HttpPlace,
        tls: Arc<ClientConfig>,
        connect_within: Duration,
    ) -> Result<HttpClient, HttpFault> {
        let authority = HeaderValue::from_str(&place.authority());
        let authority = authority.map_err(|error| HttpFault::Request(error.into()))?;
        Ok(HttpClient { place, authority, tls, connect_within, idle: Arc::default() })
    }

    /// Where the server is.
    pub fn place(&self) -> &HttpPlace {
        &self.place
    }

    /// Sends a request; returns when the answer begins.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        header: Option<(HeaderName, &str)>,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, HttpFault> {
        self.send_with(method, path, header.as_slice(), body).await
    }

    /// The same with any number of headers.
    pub async fn send_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<HttpAnswer, HttpFault> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.authority.clone());
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let mut request = request.body(Full::new(Bytes::from(body))).map_err(HttpFault::Request)?;
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.answer(response, sender)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(HttpFault::Exchange(error.into_error())),
                },
            }
        }
        let connected = timeout(self.connect_within, self.connect()).await;
        let mut sender =
            connected.unwrap_or_else(|_| Err(HttpFault::Connect(io::ErrorKind::TimedOut.into())))?;
        let response = sender.send_request(request).await.map_err(HttpFault::Exchange)?;
        Ok(self.answer(response, sender))
    }

    fn take_idle(&self) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn answer(&self, response: hyper::Response<Incoming>, sender: Sender) -> HttpAnswer {
        let (head, body) = response.into_parts();
        let last = Some((sender, Arc::clone(&self.idle)));
        HttpAnswer { status: head.status, headers: head.headers, body, last }
    }

    async fn connect(&self) -> Result<Sender, HttpFault> {
        let stream = self.stream().await.map_err(HttpFault::Connect)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(HttpFault::Exchange)?;
        // What ends it is told to who waits for an answer.
        tokio::spawn(async move { connection.await.ok() });
        Ok(sender)
    }

    async fn stream(&self) -> io::Result<Box<dyn HttpStream>> {
        let (is_tls, host, port) = match &self.place {
            HttpPlace::Unix(path) => {
                #[allow(
                    clippy::disallowed_methods,
                    reason = "who asks has named the socket, and its server may run as any user"
                )]
                let stream = UnixStream::connect(path).await?;
                return Ok(Box::new(stream));
            }
            HttpPlace::Network { is_tls, host, port } => (*is_tls, host, *port),
        };
        let stream = self.first_that_answers(host, port).await?;
        // Without it, a request waits for the acknowledgement of the one before.
        stream.set_nodelay(true)?;
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await?))
    }

    /// A name may have addresses that lead nowhere: each has its part of the time.
    async fn first_that_answers(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
        let each = self.connect_within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failure)
    }
}

/// Asks a server once, and waits for its whole answer: its status and its body.
///
/// # Errors
/// Says what failed; an answer that is longer than `len_max` bytes or takes longer than `within` is an error, too.
pub fn get(
    client: &HttpClient,
    path: &str,
    header: Option<(HeaderName, &str)>,
    within: Duration,
    len_max: usize,
) -> io::Result<(StatusCode, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let whole = async {
        let mut answer = client.send(Method::GET, path, header, Vec::new()).await?;
        Ok(answer.whole(len_max).await?.map(|body| (answer.status, body)))
    };
    let whole = runtime.block_on(async { timeout(within, whole).await });
    let whole: Result<_, HttpFault> = whole.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    let too_long = || io::Error::other(format!("the answer has more than {len_max} bytes"));
    let whole = whole.map_err(|fault| match fault {
        HttpFault::Connect(error) => error,
        fault => io::Error::other(fault),
    });
    whole?.ok_or_else(too_long)
}

/// What HTTP is spoken on. As one type, hyper's code for a connection is compiled once.
trait HttpStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> HttpStream for S {}

/// An answer whose body is still to come.
pub struct HttpAnswer {
    /// Whether it is what was asked for.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// Its connection, which is closed if the body is not read to its end, and where it is kept otherwise.
    last: Option<(Sender, Arc<Mutex<Vec<Sender>>>)>,
}

impl HttpAnswer {
    /// The whole body; `None` if it is longer than `len_max` bytes.
    pub async fn whole(&mut self, len_max: usize) -> Result<Option<Vec<u8>>, HttpFault> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > len_max {
                return Ok(None);
            }
            body.extend_from_slice(&piece);
        }
        Ok(Some(body))
    }

    /// The next piece of the body.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, HttpFault> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(piece) = frame.map_err(HttpFault::Exchange)?.into_data() {
                return Ok(Some(piece));
            }
        }
        if let Some((sender, idle)) = self.last.take() {
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(sender);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
