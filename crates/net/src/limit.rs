//! The connection limit: counted up by the acceptor, down by the workers.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::clock::precise_us;
use crate::mailbox::{bell, ring};

/// Shared by the acceptor, the workers and those who look on.
pub(crate) struct Limit {
    max: usize,
    current: AtomicUsize,
    /// Accepting has been stopped, and whoever closes a connection is to ring.
    paused: AtomicBool,
    pub(crate) bell: OwnedFd,
    /// The last number that a connection was given.
    last_id: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) pauses: AtomicU64,
    paused_us: AtomicU64,
    paused_since_us: AtomicU64,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Result<Limit, Errno> {
        Ok(Limit {
            max,
            current: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            bell: bell()?,
            last_id: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
            paused_us: AtomicU64::new(0),
            paused_since_us: AtomicU64::new(0),
        })
    }

    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::SeqCst)
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.current() >= self.max
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// A connection was accepted; returns its number.
    pub(crate) fn enter(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.next_id()
    }

    /// A number for a connection, which is not counted.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last number that a connection was given.
    pub(crate) fn last_id(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// A connection was closed.
    pub(crate) fn leave(&self) {
        // In one total order with `pause`: either the acceptor, which looks at `current` again after it has set
        // `paused`, sees this, or this sees `paused` and rings.
        self.current.fetch_sub(1, Ordering::SeqCst);
        self.freed();
    }

    /// A descriptor can be used again.
    pub(crate) fn freed(&self) {
        if self.is_paused() {
            ring(&self.bell);
        }
    }

    /// Accepting stops.
    pub(crate) fn pause(&self) {
        if !self.paused.swap(true, Ordering::SeqCst) {
            self.pauses.fetch_add(1, Ordering::Relaxed);
            self.paused_since_us.store(precise_us(), Ordering::Relaxed);
        }
    }

    /// Accepting goes on.
    pub(crate) fn resume(&self) {
        if self.paused.swap(false, Ordering::SeqCst) {
            let since_us = self.paused_since_us.load(Ordering::Relaxed);
            self.paused_us.fetch_add(precise_us().saturating_sub(since_us), Ordering::Relaxed);
        }
    }

    /// How long accepting has been stopped in all pauses, the present one included.
    pub(crate) fn paused_us(&self) -> u64 {
        let past_us = self.paused_us.load(Ordering::Relaxed);
        let since_us = self.paused_since_us.load(Ordering::Relaxed);
        if self.is_paused() { past_us + precise_us().saturating_sub(since_us) } else { past_us }
    }
}
