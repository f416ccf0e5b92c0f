//! The kernel, as a worker sees it: connections, readiness, batches of receives and of sends.
//!
//! There are two: the machine's ([`crate::system::System`]), and the one that [`crate::sim::World`] simulates. A worker is
//! the same code over both.

use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::address::Address;
use crate::dial::{Place, Unreachable};
use crate::lanes::Lanes;

/// Sockets and what can be done with them. Nothing here waits.
pub(crate) trait Kernel {
    /// One end of a connection, which is closed when it is dropped.
    type Socket;

    /// The name that people know a socket by.
    fn number(socket: &Self::Socket) -> i32;

    /// The end of a connection that is ours.
    fn local(&self, socket: &Self::Socket) -> Address;

    /// Reports changes of `socket` as `data`, edge-triggered.
    fn watch(&self, socket: &Self::Socket, data: u64, flags: EventFlags) -> Result<(), Errno>;

    /// Reports other changes of it from now on; what is the case already counts as a change.
    fn watch_anew(&self, socket: &Self::Socket, data: u64, flags: EventFlags) -> Result<(), Errno>;

    /// The event at `position` of the last wait.
    fn event(&self, position: usize) -> (u64, EventFlags);

    /// Does the receives of all lanes that want one. Each has its outcome also after an error, which says that a faster way
    /// has stopped working and another one will be used.
    fn receive<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Self::Socket,
    ) -> Result<(), Errno>
    where
        Self::Socket: 's;

    /// Sends what lies in the outputs of all lanes. Errors are as of [`Kernel::receive`].
    fn send<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Self::Socket,
    ) -> Result<(), Errno>
    where
        Self::Socket: 's;

    /// Receives into `body` and, what the peer sent beyond it, into `beyond`.
    fn receive_body(
        &mut self,
        socket: &Self::Socket,
        body: &mut [u8],
        beyond: &mut [u8],
    ) -> Result<usize, Errno>;

    /// Receives a datagram into `buffer`, of which none is longer.
    fn receive_datagram(
        &mut self,
        socket: &Self::Socket,
        buffer: &mut [u8],
    ) -> Result<(usize, SocketAddr), Errno>;

    /// Sends a datagram; `to` is `None` for a socket that was dialled.
    fn send_datagram(
        &mut self,
        socket: &Self::Socket,
        to: Option<SocketAddr>,
        bytes: &[u8],
    ) -> Result<(), Errno>;

    /// Begins to connect.
    fn connect(&mut self, place: &Place) -> Connect<Self::Socket>;

    /// What came of connecting, once the socket can be written to.
    fn connected(&mut self, socket: &Self::Socket, place: &Place) -> Result<(), Unreachable>;
}

/// What came of beginning to connect.
pub(crate) enum Connect<S> {
    /// There is a connection.
    Done(S),
    /// The socket can be written to once it is known.
    UnderWay(S),
    /// The queue of who listens is full, and nothing tells when it is not any more.
    Busy,
    /// There will be none.
    Failed(Unreachable),
}
