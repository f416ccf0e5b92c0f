//! Connections that leave their network: for that of another process, or for the next one of this process.

use std::os::fd::OwnedFd;

/// A connection at rest: between two requests, without output. What its peer has sent meanwhile is still in the socket.
#[derive(Debug)]
pub struct HandedConnection<S = OwnedFd> {
    /// Its socket.
    pub socket: S,
    /// The index of its listener among the network's addresses.
    pub listener: u16,
    /// Its state, as [`crate::Handler::pack`] has put it.
    pub state: Vec<u8>,
    /// Input that has been received and not consumed.
    pub rest: Vec<u8>,
}
