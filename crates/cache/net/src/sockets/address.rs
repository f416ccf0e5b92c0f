//! Addresses of connections.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// A stream socket in the file system.
    Unix,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Internet address and port.
    Tcp(SocketAddr),
    /// Internet address and port, for datagrams.
    Udp(SocketAddr),
    /// A path; `None` for the connecting end, which has no name.
    Unix(Option<Arc<Path>>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Udp(address) => write!(f, "udp:{address}"),
            Address::Unix(Some(path)) => write!(f, "{}", path.display()),
            Address::Unix(None) => f.write_str("unnamed"),
        }
    }
}
