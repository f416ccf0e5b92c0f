//! Workers, epoll and io_uring drivers, listeners.
//!
//! A [`Network`] binds sockets and runs one thread that accepts and one [`Handler`] per worker thread. A worker
//! goes round in phases, each over a whole batch of connections: wait, receive, prefetch, handle, send. The two
//! drivers differ only in how a batch of receives and a batch of sends reaches the kernel.
//!
//! An idle connection owns no buffer: input lands in the worker's buffers, or in memory that the handler gives;
//! only what a handler leaves of it is copied aside. Output leaves the same way, and only a connection whose
//! peer does not read keeps some; until it is gone nothing more is read from that peer.
//!
//! A handler may dial ([`Turn::dial`]). What it has dialled is served like what was accepted, with these differences: it is
//! read also while its output is blocked, it is never closed for being idle, it ends as soon as its peer has finished, and
//! it has a limit of its own ([`Options::dialled_max`]).
//!
//! Datagrams go beside all that: each that arrives is handed out, those to send go out at the end of the round, and none is
//! kept ([`Handler::on_datagram`], [`Turn::send_datagram`]). A place for datagrams can be dialled, too ([`Place::Udp`]).
//!
//! The bytes mean nothing in here. The clock is read in here (once per round) and nowhere above.

pub mod handler;

pub mod address;
pub mod clock;
pub mod datagram;
pub mod dial;
pub mod listener;
pub mod network;
pub mod options;
pub mod sim;
pub mod view;

mod acceptor;
#[cfg(test)]
mod caller;
mod connection;
mod datagram_sockets;
mod dialling;
mod driver;
mod kernel;
mod lanes;
mod limit;
mod mailbox;
#[cfg(test)]
mod parrot;
mod roster;
mod slab;
mod system;
mod turn;
mod uring;
mod worker;

pub use address::{Address, Transport};
pub use datagram::{Datagram, DatagramPeer, SocketId};
pub use dial::{Dial, Place, Unreachable};
pub use handler::{Activity, CloseReason, ConnectionId, Handler, Next, Opened, Origin, Progress};
pub use listener::Listen;
pub use network::{Error, Network, Nudge, Running, Stop};
pub use options::{AtLimit, DriverChoice, Notice, Options};
pub use turn::{Link, Turn};
pub use view::{Counts, Present, PresentCursor, View};

/// The most input that a handler sees at once, and so the longest thing that it can ask to see whole. A handler
/// that consumes nothing of this much input, and asks for more, has its connection closed.
pub const INPUT_MAX: usize = 16 * 1024;
