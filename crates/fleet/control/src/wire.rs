//! Blocking conversations with servers and routers: a question, an answer, and one time limit for all of it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use os::clock::Stopwatch;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Where somebody listens: `HOST:PORT` or `unix:PATH`, and how to encrypt.
#[derive(Clone, Debug)]
pub struct PeerPlace {
    /// The address.
    pub address: String,
    /// TLS settings, over TCP.
    pub tls: Option<Arc<ClientConfig>>,
}

/// A connection.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Sends a question and reads until `is_whole`, the end, or more than `most` bytes.
pub(crate) fn converse(
    place: &PeerPlace,
    question: &[u8],
    within: Duration,
    most: usize,
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let watch = Stopwatch::start();
    let left = || -> io::Result<Duration> {
        match within.checked_sub(watch.passed()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(ErrorKind::TimedOut.into()),
        }
    };
    let mut stream = connect(place, left()?)?;
    stream.limit(left()?)?;
    stream.write_all(question)?;
    let (mut answer, mut part) = (Vec::new(), [0; 16 * 1024]);
    loop {
        stream.limit(left()?)?;
        let len = stream.read(&mut part)?;
        answer.extend_from_slice(&part[..len]);
        if len == 0 || answer.len() > most || is_whole(&answer) {
            return Ok(answer);
        }
    }
}

/// The certificate that somebody shows (DER), by a handshake of its own; none without TLS.
///
/// # Errors
/// If nobody answers in time, or it is not trusted.
pub fn shown_certificate(place: &PeerPlace, within: Duration) -> io::Result<Option<Vec<u8>>> {
    let Some(tls) = place.tls.as_ref().filter(|_| !place.address.starts_with("unix:")) else {
        return Ok(None);
    };
    // A session that is resumed shows the certificate with which it began.
    let mut config = ClientConfig::clone(tls);
    config.resumption = Resumption::disabled();
    let place = PeerPlace { address: place.address.clone(), tls: Some(Arc::new(config)) };
    let watch = Stopwatch::start();
    let mut stream = connect(&place, within)?;
    let Stream::Tls(session) = &mut stream else { return Ok(None) };
    while session.conn.is_handshaking() {
        let left = within.checked_sub(watch.passed()).filter(|left| !left.is_zero());
        set_limits(&session.sock, left.ok_or(ErrorKind::TimedOut)?)?;
        session.conn.complete_io(&mut session.sock)?;
    }
    let first = session.conn.peer_certificates().and_then(<[_]>::first);
    Ok(first.map(|first| first.to_vec()))
}

/// Has a server read its certificates again. A memcached does it when it is told, others look by themselves.
///
/// # Errors
/// If it does not answer in time.
pub fn refresh_certificates(place: &PeerPlace, within: Duration) -> io::Result<()> {
    converse(place, b"refresh_certs\r\n", within, 1024, |answer| answer.ends_with(b"\r\n")).map(drop)
}

/// Connects to a place.
pub(crate) fn connect(place: &PeerPlace, within: Duration) -> io::Result<Stream> {
    if let Some(path) = place.address.strip_prefix("unix:") {
        #[allow(clippy::disallowed_methods, reason = "a router may run as any user, and is told no secret")]
        return Ok(Stream::Unix(UnixStream::connect(path)?));
    }
    let address = place.address.to_socket_addrs()?.next().ok_or(ErrorKind::NotFound)?;
    let stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    let Some(tls) = &place.tls else { return Ok(Stream::Tcp(stream)) };
    let host = place.address.rsplit_once(':').map_or(&*place.address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let session = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
    Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))))
}

impl Stream {
    /// Time for the next read and write.
    pub(crate) fn limit(&self, within: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => set_limits(stream, within),
            Stream::Tls(stream) => set_limits(&stream.sock, within),
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(within))?;
                stream.set_write_timeout(Some(within))
            }
        }
    }
}

fn set_limits(stream: &TcpStream, within: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
