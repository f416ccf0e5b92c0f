//! Outgoing connections, as handlers order them.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::address::{Address, Transport};

/// An order to connect to a place ([`crate::Turn::dial`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// Where to.
    pub place: Place,
    /// How long it may take from the order on, to the millisecond.
    pub timeout_ms: u32,
}

/// Where a server may listen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// An internet address. Names are not resolved here.
    Tcp(SocketAddr),
    /// The same, for datagrams.
    Udp(SocketAddr),
    /// A socket in the file system.
    Unix(Arc<Path>),
}

impl Place {
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Place::Tcp(_) => Transport::Tcp,
            Place::Udp(_) => Transport::Udp,
            Place::Unix(_) => Transport::Unix,
        }
    }

    pub(crate) fn address(&self) -> Address {
        match self {
            Place::Tcp(address) => Address::Tcp(*address),
            Place::Udp(address) => Address::Udp(*address),
            Place::Unix(path) => Address::Unix(Some(Arc::clone(path))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) | Place::Udp(address) => write!(f, "{address}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Nobody listens at the place.
    Refused,
    /// No answer in the time that [`Dial::timeout_ms`] gives, or that the kernel does.
    TimedOut,
    /// The system knows no way to the place.
    NoRoute,
    /// The system is short of descriptors, of memory or of ports.
    Exhausted,
    /// There are [`crate::Options::dialled_max`] dials and dialled connections of this worker already.
    LimitReached,
    /// The network is stopping.
    Stopping,
    /// The system refused for another reason: an error number.
    Failed(i32),
}

impl Unreachable {
    /// What an error of connecting means.
    pub(crate) fn from_errno(error: Errno) -> Unreachable {
        match error {
            // A path at which there is nothing is one at which nobody listens.
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
            Unreachable::Stopping => f.write_str("stopping"),
            Unreachable::Failed(error) => std::io::Error::from_raw_os_error(*error).fmt(f),
        }
    }
}
