//! Workers, epoll and io_uring drivers, listeners.
//!
//! A [`Network`] binds sockets and runs one thread that accepts and one [`Handler`] per worker thread. A worker's event
//! loop goes round in phases, each over a whole batch of connections: wait, receive, prefetch, handle, send. The two
//! drivers differ only in how a batch of receives and a batch of sends reach the kernel.
//!
//! An idle connection owns no buffer: input is received into the worker's buffers, or into memory of the handler; only
//! the bytes that a handler leaves are copied aside. Output works the same way: only a connection whose peer does not
//! read keeps some, and nothing more is read from that peer until it has been sent.
//!
//! A handler may dial ([`Turn::dial`]). A dialled connection is served like an accepted one, with these differences: it
//! is read also while its output is blocked, it has no idle timeout, it ends as soon as its peer has finished, and it
//! has a limit of its own ([`Options::dialled_max`]).
//!
//! Datagrams are separate: each is passed to the handler when it arrives, those to send are sent at the end of the
//! round, and none is kept ([`Handler::on_datagram`], [`Turn::send_datagram`]). A UDP place can be dialled, too
//! ([`Place::Udp`]).
//!
//! Datagrams of an interface may be taken before the kernel makes packets of sockets of them ([`Options::frames`]). The handler sees no
//! difference.
//!
//! A handler may read files ([`Turn::read`]): the reads outlive the round, and their results come in a later one. A connection
//! whose reply needs one waits meanwhile ([`Next::Wait`]) and is woken ([`Turn::wake`]).
//!
//! With an acceptor of TLS sessions for a listener ([`Options::acceptors`]), handshakes are done by threads of their own,
//! and a worker's driver moves ciphertext; the handler sees and writes content only.
//!
//! Bytes have no meaning in this crate. It reads the clock once per round; the crates above get the time from it.

pub mod handler;

pub mod clock;
pub mod network;
pub mod options;
pub mod sim;

mod event_loop;
mod files;
mod kernel;
mod secure;
mod slab;
mod sockets;
#[cfg(test)]
mod testing;

pub use event_loop::dial::{Dial, DialTls, Place, Unreachable};
pub use event_loop::turn::{Link, Turn};
pub use files::block::Block;
pub use files::file_read::DiskFile;
pub use handler::{Activity, CloseReason, ConnectionId, Handler, Next, Opened, Origin, Progress, Security};
pub use kernel::frame_ports::FramesFrom;
pub use network::giver::{Giver, Intake};
pub use network::handed::HandedConnection;
pub use network::placement::{Deal, WorkerPlacement};
pub use network::view::{ConnectionCursor, ConnectionEntry, Counts, View};
pub use network::{Error, LeftNetwork, Network, Nudge, Running, Stop};
pub use options::{AtLimit, DriverChoice, Notice, Options};
pub use rustix::io::Errno;
pub use rustls::ClientConfig;
pub use rustls::pki_types::ServerName;
pub use sockets::address::{Address, Transport};
pub use sockets::datagram::{Datagram, DatagramPeer, SocketId};
pub use sockets::fast_open::connect_fast;
pub use sockets::listener::Listen;
pub use tls::CertificateEnd;
pub use xdp::Mode as FrameMode;

/// The most input that a handler sees at once, and so the longest unit that it can ask to see whole. A handler that
/// consumes nothing of this much input, and asks for more, has its connection closed.
pub const INPUT_MAX: usize = 16 * 1024;

pub use sockets::address;

pub use sockets::datagram;

pub use sockets::listener;

pub use sockets::segments;

pub use files::block;

pub use event_loop::dial;

pub use network::giver;

pub use network::handed;

pub use network::placement;

pub use network::view;
