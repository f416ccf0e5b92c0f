//! TLS handshakes, on threads of their own: a worker only gets connections whose session is established, so that nobody's
//! requests wait for somebody's signature.
//!
//! ```text
//! acceptor ──► newcomers ──► handshake-N: epoll, rustls ──► worker
//!                              │ deadline, or the oldest of too many
//!                              └──► closed
//! ```
//!
//! Dialled connections come from the workers, and go back to them.
//!
//! A handshake of an accepted connection is no connection yet: it does not count against
//! [`crate::Options::connections_max`], but has a limit of its own. At that limit the oldest one makes room, so that
//! clients who stop half-way delay nobody.

mod fault;
mod handshake;
mod thread;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;
use tls::Acceptor;

use crate::event_loop::dial::DialTls;
use crate::handler::{Arrival, Security};
use crate::network::message_queue::MessageQueue;
use crate::secure::session::Session;
use crate::slab::Token;
pub(crate) use fault::HandshakeFault;
pub(crate) use thread::{HandshakeSetup, HandshakeThread};

/// Connections that may wait for a thread to begin their handshake. With more, listeners with TLS are not accepted from; the
/// acceptor looks again by itself.
const NEWCOMERS_MAX: usize = 1024;

/// An accepted connection without a session.
pub(crate) struct Newcomer {
    pub(crate) socket: OwnedFd,
    pub(crate) arrival: Arrival,
    /// The number of its listener.
    pub(crate) listener: u16,
}

/// A dialled connection without a session.
pub(crate) struct DialledCandidate<S> {
    pub(crate) socket: S,
    pub(crate) tls: DialTls,
    /// What is left of the dial's time.
    pub(crate) timeout_ms: u64,
    /// The worker's name for it.
    pub(crate) token: Token,
}

/// A dialled connection with its session.
pub(crate) struct SecuredDial<S> {
    pub(crate) socket: S,
    pub(crate) security: Arc<Security>,
    pub(crate) session: Box<Session>,
}

/// A connection for a thread.
pub(crate) enum Candidate {
    Accepted(Newcomer),
    /// And the number of its worker.
    Dialled(DialledCandidate<OwnedFd>, usize),
}

/// A worker's way to the threads. Its dials are bounded where they are ordered ([`crate::Options::dialled_max`]).
#[derive(Clone)]
pub(crate) struct DialHandshakes {
    threads: Arc<[Arc<MessageQueue<Candidate>>]>,
    worker: usize,
    next_thread: usize,
}

impl DialHandshakes {
    pub(crate) fn new(threads: Arc<[Arc<MessageQueue<Candidate>>]>, worker: usize) -> DialHandshakes {
        DialHandshakes { threads, worker, next_thread: worker }
    }

    /// Begins a handshake.
    pub(crate) fn begin(&mut self, dialled: DialledCandidate<OwnedFd>) {
        let thread = &self.threads[self.next_thread % self.threads.len()];
        thread.post(&mut vec![Candidate::Dialled(dialled, self.worker)]);
        self.next_thread += 1;
    }
}

/// The acceptors of sessions, by the numbers of their listeners.
pub(crate) type Acceptors = Arc<[Option<Arc<Acceptor>>]>;

/// Where the acceptor of connections gives those that need a session.
pub(crate) struct HandshakeDealer {
    acceptors: Acceptors,
    threads: Vec<Arc<MessageQueue<Candidate>>>,
    /// Not posted yet, by thread.
    pending: Vec<Vec<Candidate>>,
    next_thread: usize,
    counters: Arc<HandshakeCounters>,
}

impl HandshakeDealer {
    pub(crate) fn new(
        acceptors: Acceptors,
        threads: Vec<Arc<MessageQueue<Candidate>>>,
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
        self.pending[self.next_thread].push(Candidate::Accepted(newcomer));
        self.next_thread = (self.next_thread + 1) % self.pending.len();
    }

    pub(crate) fn post(&mut self) {
        for (pending, thread) in self.pending.iter_mut().zip(&self.threads) {
            if !pending.is_empty() {
                thread.post(pending);
            }
        }
    }
}

/// A queue for each thread.
pub(crate) fn queues(threads: usize) -> Result<Vec<Arc<MessageQueue<Candidate>>>, Errno> {
    (0..threads).map(|_| MessageQueue::new().map(Arc::new)).collect()
}

/// What the threads have done, for any thread to read.
#[derive(Default)]
pub(crate) struct HandshakeCounters {
    /// Accepted, and not yet seen by a thread.
    newcomers: AtomicUsize,
    in_progress: AtomicU64,
    full: PerVersion<AtomicU64>,
    resumed: PerVersion<AtomicU64>,
    failed: AtomicU64,
    expired: AtomicU64,
    displaced: AtomicU64,
    /// The kernel has refused keys.
    kernel_refused: AtomicBool,
}

/// A count for each version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerVersion<T> {
    /// TLS 1.2.
    pub v1_2: T,
    /// TLS 1.3.
    pub v1_3: T,
}

impl<T> PerVersion<T> {
    fn map<U>(&self, of: impl Fn(&T) -> U) -> PerVersion<U> {
        PerVersion { v1_2: of(&self.v1_2), v1_3: of(&self.v1_3) }
    }

    fn of(&self, security: &Security) -> &T {
        if security.version == TLS_1_2 { &self.v1_2 } else { &self.v1_3 }
    }
}

impl PerVersion<u64> {
    /// Over all versions.
    pub fn sum(&self) -> u64 {
        self.v1_2 + self.v1_3
    }
}

/// The name of TLS 1.2 in reports.
const TLS_1_2: &str = "TLSv1.2";

/// Counts of TLS handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// HandshakeDealer now, those that wait for their beginning included.
    pub in_progress: u64,
    /// Sessions established with a key exchange and a signature.
    pub full: PerVersion<u64>,
    /// Sessions established with a ticket.
    pub resumed: PerVersion<u64>,
    /// HandshakeDealer that ended with an error: of the protocol, of a certificate, or of the socket.
    pub failed: u64,
    /// HandshakeDealer that took longer than [`crate::Options::handshake_timeout_ms`].
    pub expired: u64,
    /// HandshakeDealer that ended because there were [`crate::Options::handshakes_max`], and it was the oldest.
    pub displaced: u64,
}

impl HandshakeCounters {
    /// Handshakes that go on or are to begin.
    pub(crate) fn pending(&self) -> usize {
        self.counts().in_progress as usize
    }

    pub(crate) fn counts(&self) -> HandshakeCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HandshakeCounts {
            in_progress: load(&self.in_progress) + self.newcomers.load(Ordering::Relaxed) as u64,
            full: self.full.map(load),
            resumed: self.resumed.map(load),
            failed: load(&self.failed),
            expired: load(&self.expired),
            displaced: load(&self.displaced),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
