//! TLS handshakes, on threads of their own: a worker only gets connections whose session is established, so that nobody's
//! requests wait for somebody's signature.
//!
//! ```text
//! acceptor ──► newcomers ──► handshake-N: epoll, rustls ──► worker
//!                              │ deadline, or the oldest of too many
//!                              └──► closed
//! ```
//!
//! A handshake in progress is no connection yet: it does not count against [`crate::Options::connections_max`], but has a
//! limit of its own. At that limit the oldest one makes room, so that clients who stop half-way delay nobody.

mod handshake;
mod thread;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;
use tls::Acceptor;

use crate::handler::Arrival;
use crate::message_queue::MessageQueue;
pub(crate) use thread::{HandshakeSetup, HandshakeThread};

/// Connections that may wait for a thread to begin their handshake. With more, accepting pauses.
const NEWCOMERS_MAX: usize = 1024;

/// An accepted connection without a session.
pub(crate) struct Newcomer {
    pub(crate) socket: OwnedFd,
    pub(crate) arrival: Arrival,
    /// The number of its listener.
    pub(crate) listener: u16,
}

/// The acceptors of sessions, by the numbers of their listeners.
pub(crate) type Acceptors = Arc<[Option<Arc<Acceptor>>]>;

/// Where the acceptor of connections gives those that need a session.
pub(crate) struct HandshakeDealer {
    acceptors: Acceptors,
    threads: Vec<Arc<MessageQueue<Newcomer>>>,
    /// Not posted yet, by thread.
    pending: Vec<Vec<Newcomer>>,
    next_thread: usize,
    counters: Arc<HandshakeCounters>,
}

impl HandshakeDealer {
    pub(crate) fn new(
        acceptors: Acceptors,
        threads: Vec<Arc<MessageQueue<Newcomer>>>,
        counters: Arc<HandshakeCounters>,
    ) -> HandshakeDealer {
        let pending = threads.iter().map(|_| Vec::new()).collect();
        HandshakeDealer { acceptors, threads, pending, next_thread: 0, counters }
    }

    /// Whether connections from this listener need a session.
    pub(crate) fn are_for(&self, listener: u16) -> bool {
        self.acceptors[usize::from(listener)].is_some()
    }

    /// Whether the threads have as many newcomers as they may.
    pub(crate) fn are_behind(&self) -> bool {
        self.counters.newcomers.load(Ordering::Relaxed) >= NEWCOMERS_MAX
    }

    /// Begins a handshake, with the next [`HandshakeDealer::post`].
    pub(crate) fn begin(&mut self, newcomer: Newcomer) {
        self.counters.newcomers.fetch_add(1, Ordering::Relaxed);
        self.pending[self.next_thread].push(newcomer);
        self.next_thread = (self.next_thread + 1) % self.pending.len();
    }

    pub(crate) fn post(&mut self) {
        for (pending, newcomers) in self.pending.iter_mut().zip(&self.threads) {
            if !pending.is_empty() {
                newcomers.post(pending);
            }
        }
    }
}

/// A queue of newcomers for each thread.
pub(crate) fn queues(threads: usize) -> Result<Vec<Arc<MessageQueue<Newcomer>>>, Errno> {
    (0..threads).map(|_| MessageQueue::new().map(Arc::new)).collect()
}

/// What the threads have done, for any thread to read.
#[derive(Default)]
pub(crate) struct HandshakeCounters {
    /// Accepted, and not yet seen by a thread.
    newcomers: AtomicUsize,
    in_progress: AtomicU64,
    full: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
    expired: AtomicU64,
    displaced: AtomicU64,
    /// The kernel has refused keys.
    kernel_refused: AtomicBool,
}

/// Counts of TLS handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// HandshakeDealer now, those that wait for their beginning included.
    pub in_progress: u64,
    /// Sessions established with a key exchange and a signature.
    pub full: u64,
    /// Sessions established with a ticket.
    pub resumed: u64,
    /// HandshakeDealer that ended with an error: of the protocol, of a certificate, or of the socket.
    pub failed: u64,
    /// HandshakeDealer that took longer than [`crate::Options::handshake_timeout_ms`].
    pub expired: u64,
    /// HandshakeDealer that ended because there were [`crate::Options::handshakes_max`], and it was the oldest.
    pub displaced: u64,
}

impl HandshakeCounters {
    pub(crate) fn counts(&self) -> HandshakeCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HandshakeCounts {
            in_progress: load(&self.in_progress) + self.newcomers.load(Ordering::Relaxed) as u64,
            full: load(&self.full),
            resumed: load(&self.resumed),
            failed: load(&self.failed),
            expired: load(&self.expired),
            displaced: load(&self.displaced),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
