//! Blocking connections to servers, with or without TLS, and time limits for all that is done on them. Nothing here knows what the
//! bytes mean.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use os::clock::Stopwatch;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// A name or an address, and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A time limit for several steps together.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    watch: Stopwatch,
    within: Duration,
}

/// A connection.
#[derive(Debug)]
pub struct Wire(Stream);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ServerAddress {
    /// `host:port`, `[address]:port` or `unix:/path`.
    pub fn parse(text: &str) -> Option<ServerAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return (!path.is_empty()).then(|| ServerAddress::Unix(path.into()));
        }
        let (host, port) = text.rsplit_once(':')?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = inner.or_else(|| (!host.contains(':')).then_some(host)).filter(|host| !host.is_empty())?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some(ServerAddress::Tcp(host.to_owned(), port))
    }
}

impl Deadline {
    /// From now on.
    pub fn within(within: Duration) -> Deadline {
        Deadline { watch: Stopwatch::start(), within }
    }

    /// What is left.
    pub fn left(&self) -> io::Result<Duration> {
        let left = self.within.saturating_sub(self.watch.passed());
        if left.is_zero() { Err(self.missed()) } else { Ok(left) }
    }

    fn missed(&self) -> io::Error {
        io::Error::new(ErrorKind::TimedOut, format!("no answer within {} ms", self.within.as_millis()))
    }

    /// A read or write that a socket gives up is late.
    fn late(&self, error: io::Error) -> io::Error {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.missed(),
            _ => error,
        }
    }
}

impl Wire {
    /// Connects, and agrees on TLS if there are settings for it.
    pub fn connect(
        to: &ServerAddress,
        tls: Option<&Arc<ClientConfig>>,
        deadline: &Deadline,
    ) -> io::Result<Wire> {
        let (host, port) = match (to, tls) {
            (ServerAddress::Tcp(host, port), _) => (host, *port),
            (ServerAddress::Unix(path), None) => return Ok(Wire(Stream::Unix(connect_unix(path)?))),
            (ServerAddress::Unix(_), Some(_)) => {
                return Err(io::Error::new(ErrorKind::Unsupported, "there is no TLS on a unix socket"));
            }
        };
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        let addresses: Vec<_> = (host.as_str(), port).to_socket_addrs()?.collect();
        for (index, address) in addresses.iter().enumerate() {
            // One that does not answer leaves time for the others.
            let share = deadline.left()? / (addresses.len() - index) as u32;
            match TcpStream::connect_timeout(address, share) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return match tls {
                        None => Ok(Wire(Stream::Tcp(stream))),
                        Some(config) => encrypted(stream, host, config, deadline),
                    };
                }
                Err(error) => last = deadline.late(error),
            }
        }
        Err(last)
    }

    fn limit(&self, time: Duration) -> io::Result<()> {
        let stream = match &self.0 {
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(time))?;
                return stream.set_write_timeout(Some(time));
            }
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
        };
        stream.set_read_timeout(Some(time))?;
        stream.set_write_timeout(Some(time))
    }

    /// Sends all of it.
    pub fn send(&mut self, mut bytes: &[u8], deadline: &Deadline) -> io::Result<()> {
        while !bytes.is_empty() {
            self.limit(deadline.left()?)?;
            let sent = match &mut self.0 {
                Stream::Tcp(stream) => stream.write(bytes),
                Stream::Unix(stream) => stream.write(bytes),
                Stream::Tls(stream) => stream.write(bytes),
            };
            match sent {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(deadline.late(error)),
            }
        }
        if let Stream::Tls(stream) = &mut self.0 {
            stream.flush().map_err(|error| deadline.late(error))?;
        }
        Ok(())
    }

    /// Receives some bytes, at least one.
    pub fn receive(&mut self, buffer: &mut [u8], deadline: &Deadline) -> io::Result<usize> {
        loop {
            self.limit(deadline.left()?)?;
            let received = match &mut self.0 {
                Stream::Tcp(stream) => stream.read(buffer),
                Stream::Unix(stream) => stream.read(buffer),
                Stream::Tls(stream) => stream.read(buffer),
            };
            match received {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed")),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(deadline.late(error)),
            }
        }
    }
}

/// A listener whose queue is full would keep a blocking socket waiting for ever.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A whole handshake: each of its steps has what is left of the time.
fn encrypted(
    mut stream: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
    deadline: &Deadline,
) -> io::Result<Wire> {
    let wrong = |error: String| io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}"));
    let name = ServerName::try_from(host.to_owned()).map_err(|error| wrong(error.to_string()))?;
    let mut session =
        ClientConnection::new(Arc::clone(config), name).map_err(|error| wrong(error.to_string()))?;
    while session.is_handshaking() || session.wants_write() {
        let left = deadline.left()?;
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        if session.wants_write() {
            session.write_tls(&mut stream).map_err(|error| deadline.late(error))?;
            continue;
        }
        if session.read_tls(&mut stream).map_err(|error| deadline.late(error))? == 0 {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "the connection was closed in the TLS handshake",
            ));
        }
        if let Err(error) = session.process_new_packets() {
            // The server is told why, if it listens.
            let _ = session.write_tls(&mut stream);
            return Err(wrong(error.to_string()));
        }
    }
    Ok(Wire(Stream::Tls(Box::new(StreamOwned::new(session, stream)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_or_a_path() {
        let parse = ServerAddress::parse;
        let tcp = |host: &str, port| Some(ServerAddress::Tcp(host.to_owned(), port));
        assert_eq!(parse("h:5"), tcp("h", 5));
        assert_eq!(parse("[::1]:5"), tcp("::1", 5));
        assert_eq!(parse("unix:/a:b"), Some(ServerAddress::Unix("/a:b".into())));
        for wrong in ["", "h", ":5", "h:", "h:0", "h:65536", "::1:5", "[]:5", "unix:"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_full_queue_is_an_error_and_not_a_wait() {
        let path = std::env::temp_dir().join(format!("evenkeel-wire-{}", std::process::id()));
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let listener = listener.expect("a socket");
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).expect("a path")).expect("bind");
        rustix::net::listen(&listener, 0).expect("listen");
        let deadline = Deadline::within(Duration::from_secs(60));
        let connections: Vec<_> =
            (0..8).map(|_| Wire::connect(&ServerAddress::Unix(path.clone()), None, &deadline)).collect();
        let _ = std::fs::remove_file(&path);
        assert!(connections[0].is_ok() && connections[7].is_err(), "{connections:?}");
    }

    #[test]
    fn a_server_that_sends_a_little_at_a_time_does_not_extend_the_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = ServerAddress::parse(&listener.local_addr().expect("an address").to_string()).expect("one");
        let deadline = Deadline::within(Duration::from_millis(50));
        let mut wire = Wire::connect(&to, None, &deadline).expect("a connection");
        let (mut server, _) = listener.accept().expect("a connection");
        let trickle = std::thread::spawn(move || while server.write_all(b"x").is_ok() {});
        let error = loop {
            if let Err(error) = wire.receive(&mut [0], &deadline) {
                break error;
            }
        };
        assert_eq!(error.to_string(), "no answer within 50 ms");
        drop(wire);
        trickle.join().expect("its connection is closed");
    }
}
