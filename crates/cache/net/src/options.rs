//! Options of a network.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tls::Acceptor;

use crate::clock::Clock;
use crate::kernel::frame_ports::FramesFrom;
use crate::network::placement::WorkerPlacement;

/// Tells the operator, in a line of text, about a problem that no client can be told of.
pub type Notice = fn(&str);

/// Settings of a [`crate::Network`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads; as many handlers must be given.
    pub workers: usize,
    /// How batches of receives and sends reach the kernel.
    pub driver: DriverChoice,
    /// The most accepted connections at a time.
    pub connections_max: usize,
    /// The most dials and dialled connections of each worker, together. They are not accepted connections.
    pub dialled_max: usize,
    /// The most reads of files in flight of each worker ([`crate::Turn::read`]), up to 4096. Each has a block of memory of
    /// the handler's.
    pub reads_max: usize,
    /// The treatment of a connection beyond `connections_max`.
    pub at_limit: AtLimit,
    /// Connections that may wait at each listener; `None` for as many as the system allows. An inherited socket keeps
    /// its own number unless one is given.
    pub backlog: Option<u32>,
    /// Connections at each TCP listener that may bring data with their SYN and wait for the end of their handshake; 0
    /// for no TCP Fast Open.
    pub fast_open: u32,
    /// Listening sockets of a network that hands itself over: those at the places are served instead of new ones.
    pub adopted: Vec<Arc<OwnedFd>>,
    /// Another process may have listened at the places until now, and may have been killed: an address that is in use is tried for a
    /// second, because the kernel closes the sockets of a ring after the process has ended.
    pub follows_another: bool,
    /// Interfaces from which datagrams for the first UDP place are taken before they reach its sockets.
    pub frames: Option<FramesFrom>,
    /// For each place, in order, what accepts its TLS sessions; `None`, and all places beyond the end, without TLS. For
    /// datagrams there is none.
    pub acceptors: Vec<Option<Arc<Acceptor>>>,
    /// Whether handlers may dial with TLS ([`crate::Dial::tls`]).
    pub secure_dials: bool,
    /// Threads that do TLS handshakes, if there is an acceptor or handlers may dial with TLS.
    pub handshake_threads: usize,
    /// The most handshakes of accepted connections at a time. They are not connections yet, but each has a file descriptor.
    pub handshakes_max: usize,
    /// The most that a handshake takes before it is given up.
    pub handshake_timeout_ms: u32,
    /// Seconds without activity after which an accepted connection is closed; 0 for never.
    pub idle_timeout_s: u32,
    /// Where workers run, and which of them serves a connection.
    pub placement: WorkerPlacement,
    /// The clock of all workers.
    pub clock: Clock,
    /// Receives problems that do not end the network.
    pub notice: Notice,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: 4,
            driver: DriverChoice::Auto,
            connections_max: 1024,
            dialled_max: 1024,
            // Enough to keep several solid-state disks busy.
            reads_max: 256,
            at_limit: AtLimit::Wait,
            backlog: None,
            fast_open: 0,
            adopted: Vec::new(),
            follows_another: false,
            frames: None,
            acceptors: Vec::new(),
            secure_dials: false,
            handshake_threads: 1,
            handshakes_max: 1024,
            handshake_timeout_ms: 10_000,
            idle_timeout_s: 0,
            placement: WorkerPlacement::default(),
            clock: Clock::start(),
            notice: |_| {},
        }
    }
}

/// The treatment of a client that connects when there are [`Options::connections_max`] connections already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// It waits in the listener's queue until another connection closes.
    Wait,
    /// It receives these bytes and is closed.
    Refuse(&'static [u8]),
}

/// The way in which batches of receives and sends reach the kernel. Both wait with epoll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where the kernel allows it, else epoll.
    Auto,
    /// One system call for each receive and each send.
    Epoll,
    /// One system call for all receives of a round and one for all sends; falls back to `Epoll` where the kernel
    /// refuses io_uring. [`crate::View::driver`] tells.
    Uring,
}
