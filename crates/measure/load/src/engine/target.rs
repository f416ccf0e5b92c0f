//! The address of the server, and opening connections to it.

use crate::engine::connecting::{self, TcpServer};
use crate::types::description::Description;
use crate::types::error::Error;
use rustix::net::sockopt;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The server's address, resolved once.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tcp(TcpServer),
    Unix(PathBuf),
}

impl Target {
    /// The server's name or address, without the port.
    pub(crate) fn host(run: &Description) -> &str {
        match &run.server {
            Some(server) => {
                let host = server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host);
                host.trim_start_matches('[').trim_end_matches(']')
            }
            None => &run.host,
        }
    }

    pub(crate) fn of(run: &Description) -> Result<Target, Error> {
        if let Some(path) = &run.socket {
            return Ok(Target::Unix(path.clone()));
        }
        let server = run.server.clone().unwrap_or_else(|| match run.host.contains(':') {
            true => format!("[{}]:{}", run.host, run.port),
            false => format!("{}:{}", run.host, run.port),
        });
        let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        match server.to_socket_addrs().and_then(|mut found| found.next().ok_or_else(no_address)) {
            Ok(address) => Ok(Target::Tcp(TcpServer { address, fast_open: run.fast_open })),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(Error::Arguments(format!("--server is HOST:PORT, not {server:?}")))
            }
            Err(source) => Err(Error::Resolve { server, source }),
        }
    }

    /// Opens `count` sockets for datagrams to the server.
    pub(crate) fn datagrams(&self, count: usize) -> Result<Vec<OwnedFd>, Error> {
        let Target::Tcp(TcpServer { address, .. }) = self else {
            unreachable!("the arguments exclude each other")
        };
        let local: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let one = || -> io::Result<OwnedFd> {
            let socket = UdpSocket::bind((local, 0))?;
            socket.connect(address)?;
            // As much as the system allows: datagrams that do not fit are lost here, which is no fault of the server.
            let forced = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_LEN);
            if forced.is_err() {
                let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_LEN);
            }
            Ok(socket.into())
        };
        (1..=count)
            .map(|number| {
                one().map_err(|source| Error::Connect { server: self.to_string(), number, count, source })
            })
            .collect()
    }

    /// Begins to open a connection, which does not block.
    pub(crate) fn begin(&self) -> rustix::io::Result<OwnedFd> {
        match self {
            Target::Tcp(server) => connecting::begin(*server),
            Target::Unix(path) => connecting::begin_unix(path),
        }
    }

    /// Opens `count` connections. They block, as io_uring needs them.
    pub(crate) fn connect(&self, count: usize) -> Result<Vec<OwnedFd>, Error> {
        let opened = match self {
            Target::Tcp(server) => connecting::open(*server, count),
            // There is no round trip to save, and a connection that finds the server's queue full waits.
            Target::Unix(path) => (1..=count)
                .map(|number| UnixStream::connect(path).map(OwnedFd::from).map_err(|error| (number, error)))
                .collect(),
        };
        opened.map_err(|(number, source)| match self {
            Target::Tcp(TcpServer { fast_open: true, .. }) if source.kind() == io::ErrorKind::Unsupported => {
                Error::FastOpen(source)
            }
            _ => Error::Connect { server: self.to_string(), number, count, source },
        })
    }
}

/// The replies to a thousand requests of 2 KiB, with what the kernel adds.
const RECEIVE_BUFFER_LEN: usize = 4 << 20;

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(server) => write!(f, "{}", server.address),
            Target::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
