//! Outgoing connections, as handlers order them.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::secure::handshakes::HandshakeFault;
use crate::sockets::address::{Address, Transport};

/// An order to connect to a place ([`crate::Turn::dial`]).
#[derive(Clone, Debug)]
pub struct Dial {
    /// Where to.
    pub place: Place,
    /// Time limit in milliseconds, counted from the order; a TLS handshake is included.
    pub timeout_ms: u32,
    /// With TLS, if the network can ([`crate::Options::secure_dials`]). Not for datagrams.
    pub tls: Option<DialTls>,
}

/// TLS of a dialled connection. Dials with the same settings share the tickets of their servers: all but the first to a
/// name resume its session.
#[derive(Clone, Debug)]
pub struct DialTls {
    /// Whom to trust, and what to show.
    pub settings: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
}

/// An address that a server may listen at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// An internet address. Host names are not resolved here.
    Tcp(SocketAddr),
    /// The same with TCP Fast Open, where the system allows it (`net.ipv4.tcp_fastopen`). If the kernel has a cookie of
    /// the server, the connection is reported at once: the first output goes with the SYN, **and may arrive twice**. That there
    /// is no server then only shows as the end of the connection, or as silence. With [`Dial::tls`] all of this concerns the
    /// handshake.
    FastTcp(SocketAddr),
    /// An internet address for datagrams.
    Udp(SocketAddr),
    /// A socket in the file system.
    Unix(Arc<Path>),
}

impl Place {
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Place::Tcp(_) | Place::FastTcp(_) => Transport::Tcp,
            Place::Udp(_) => Transport::Udp,
            Place::Unix(_) => Transport::Unix,
        }
    }

    pub(crate) fn address(&self) -> Address {
        match self {
            Place::Tcp(address) | Place::FastTcp(address) => Address::Tcp(*address),
            Place::Udp(address) => Address::Udp(*address),
            Place::Unix(path) => Address::Unix(Some(Arc::clone(path))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) | Place::FastTcp(address) | Place::Udp(address) => write!(f, "{address}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No socket listens at the place.
    Refused,
    /// No answer within [`Dial::timeout_ms`] or the kernel's own limit.
    TimedOut,
    /// The system has no route to the place.
    NoRoute,
    /// The system lacks descriptors, memory or ports.
    Exhausted,
    /// This worker has [`crate::Options::dialled_max`] dials and dialled connections already.
    LimitReached,
    /// There is no TLS session: the server has broken the protocol, or is not to be trusted, or does not trust us.
    Handshake(HandshakeFault),
    /// The network is stopping.
    Stopping,
    /// The system refused for another reason: an error number.
    Failed(i32),
}

impl Unreachable {
    /// The meaning of a connect error.
    pub(crate) fn from_errno(error: Errno) -> Unreachable {
        match error {
            // A path that does not exist is treated as one without a listener.
            Errno::CONNREFUSED | Errno::NOENT | Errno::CONNRESET => Unreachable::Refused,
            Errno::TIMEDOUT => Unreachable::TimedOut,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => Unreachable::NoRoute,
            Errno::MFILE
            | Errno::NFILE
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::NOSPC
            | Errno::ADDRNOTAVAIL => Unreachable::Exhausted,
            error => Unreachable::Failed(error.raw_os_error()),
        }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreachable::Refused => f.write_str("connection refused"),
            Unreachable::TimedOut => f.write_str("timed out"),
            Unreachable::NoRoute => f.write_str("no route"),
            Unreachable::Exhausted => f.write_str("out of descriptors, memory or ports"),
            Unreachable::LimitReached => f.write_str("too many dialled connections"),
            Unreachable::Handshake(fault) => write!(f, "the TLS handshake failed: {fault}"),
            Unreachable::Stopping => f.write_str("stopping"),
            Unreachable::Failed(error) => std::io::Error::from_raw_os_error(*error).fmt(f),
        }
    }
}
