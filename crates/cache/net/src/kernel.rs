//! The kernel's interface for an event loop: connections, readiness, batches of receives and of sends.
//!
//! There are two: the machine's ([`crate::kernel::system::System`]), and the simulated one of [`crate::sim::World`]. The event
//! loop is the same code over both.

pub(crate) mod arrival_clock;
pub(crate) mod busy_poll;
pub(crate) mod driver;
pub(crate) mod frame_ports;
pub(crate) mod system;
pub(crate) mod uring;

use std::io::IoSlice;
use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use stdx::clock::Now;

use crate::event_loop::dial::{Place, Unreachable};
use crate::event_loop::lanes::Lanes;
use crate::files::file_read::{FileRead, FinishedRead};
use crate::secure::handshakes::DialledCandidate;
use crate::sockets::address::Address;
use crate::sockets::segments::DatagramBatch;

/// Sockets and their operations. None of them waits.
pub(crate) trait Kernel {
    /// One end of a connection, which is closed when it is dropped.
    type Socket;

    /// The number that identifies a socket in reports.
    fn number(socket: &Self::Socket) -> i32;

    /// The local address of a connection.
    fn local(&self, socket: &Self::Socket) -> Address;

    /// Reports changes of `socket` with `data`, edge-triggered.
    fn watch(&self, socket: &Self::Socket, data: u64, flags: EventFlags) -> Result<(), Errno>;

    /// Changes the reported events of a socket; those that are true already are reported once more.
    fn watch_anew(&self, socket: &Self::Socket, data: u64, flags: EventFlags) -> Result<(), Errno>;

    /// Reports nothing more of a socket that lives on: it may come back, and one that is watched already cannot be watched.
    fn unwatch(&self, socket: &Self::Socket);

    /// The event at `position` of the last wait.
    fn event(&self, position: usize) -> (u64, EventFlags);

    /// Carries out the receives of all lanes that want one. Each lane has its outcome also after an error, which means
    /// that io_uring has stopped working and epoll takes over.
    fn receive<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Self::Socket,
    ) -> Result<(), Errno>
    where
        Self::Socket: 's;

    /// Sends the outputs of all lanes. Errors as for [`Kernel::receive`].
    fn send<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Self::Socket,
    ) -> Result<(), Errno>
    where
        Self::Socket: 's;

    /// Sends a few bytes before the connection is closed, if the socket takes them.
    fn send_last(&mut self, socket: &Self::Socket, bytes: &[u8]);

    /// The same, of the alert with which a TLS session ends whose keys the kernel has.
    fn end_kernel_session(&mut self, socket: &Self::Socket);

    /// Receives into `body`, and what follows the body into `beyond`.
    fn receive_body(
        &mut self,
        socket: &Self::Socket,
        body: &mut [u8],
        beyond: &mut [u8],
    ) -> Result<usize, Errno>;

    /// Has arrivals at this TCP socket stamped, or no longer; false where that cannot be.
    fn stamp(&mut self, _socket: &Self::Socket, _on: bool) -> bool {
        false
    }

    /// Receives from a socket whose arrivals are stamped, and the time at which the newest bytes came, if that is known.
    fn receive_stamped(
        &mut self,
        _socket: &Self::Socket,
        _room: &mut [u8],
    ) -> Result<(usize, Option<Now>), Errno> {
        unreachable!("where nothing is stamped, nothing is received so")
    }

    /// Receives datagrams that have arrived, in place of the earlier ones in `arrivals`.
    fn receive_datagrams(&mut self, socket: &Self::Socket, arrivals: &mut DatagramBatch)
    -> Result<(), Errno>;

    /// Datagrams that this socket's receive buffer has had no room for, so far.
    fn overflowed(&self, _socket: &Self::Socket) -> u32 {
        0
    }

    /// Sends datagrams to the peers at the same positions of `to`, in order; `None` is the peer of a socket that was
    /// dialled. Those of one peer should be together. Returns how many were taken.
    fn send_datagrams(
        &mut self,
        socket: &Self::Socket,
        to: &[Option<SocketAddr>],
        datagrams: &[IoSlice<'_>],
    ) -> usize;

    /// Begins reads of files. Those that fail at once, or are finished already, are added to `finished`.
    fn begin_reads(&mut self, reads: Vec<FileRead>, finished: &mut Vec<FinishedRead>);

    /// Adds the reads that have finished since the last call.
    fn take_finished_reads(&mut self, finished: &mut Vec<FinishedRead>);

    /// Ends all reads, and adds them. This may take a moment.
    fn end_reads(&mut self, finished: &mut Vec<FinishedRead>);

    /// Begins to connect.
    fn connect(&mut self, place: &Place) -> Connect<Self::Socket>;

    /// The outcome of connecting, once the socket can be written to.
    fn connected(&mut self, socket: &Self::Socket, place: &Place) -> Result<(), Unreachable>;

    /// Has the TLS handshake of a dialled connection done. Its outcome comes as a message.
    fn secure(&mut self, dialled: DialledCandidate<Self::Socket>) -> Result<(), Unreachable>;
}

/// State of a connection attempt.
pub(crate) enum Connect<S> {
    /// There is a connection.
    Done(S),
    /// The socket becomes writable when the outcome is known.
    UnderWay(S),
    /// The listen queue is full, and no event tells when there is room.
    Busy,
    /// It has failed.
    Failed(Unreachable),
}
