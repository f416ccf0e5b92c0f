//! The connection limit: counted up by the acceptor, down by the workers; and whether anything is accepted at all.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::clock::precise_us;
use crate::network::message_queue::{new_eventfd, notify};

/// Shared by the acceptor, the workers and every [`crate::View`].
pub(crate) struct ConnectionLimit {
    max: usize,
    current: AtomicUsize,
    /// Accepting is paused, and a thread that closes a connection must notify the acceptor.
    paused: AtomicBool,
    pub(crate) wake_up: OwnedFd,
    /// The acceptor is to accept nothing.
    hold_asked: AtomicBool,
    /// It does not, and all that it had accepted is on its way.
    holds: AtomicBool,
    /// The last connection number given.
    last_id: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) pauses: AtomicU64,
    paused_us: AtomicU64,
    paused_since_us: AtomicU64,
}

impl ConnectionLimit {
    pub(crate) fn new(max: usize) -> Result<ConnectionLimit, Errno> {
        Ok(ConnectionLimit {
            max,
            current: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            wake_up: new_eventfd()?,
            hold_asked: AtomicBool::new(false),
            holds: AtomicBool::new(false),
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
    pub(crate) fn connection_opened(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.next_id()
    }

    /// Counts a connection that has its number already, unless the limit is reached.
    pub(crate) fn try_open(&self) -> bool {
        let below = |current| (current < self.max).then_some(current + 1);
        let counted = self.current.fetch_update(Ordering::SeqCst, Ordering::SeqCst, below).is_ok();
        if counted {
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
        counted
    }

    /// A number for a connection that is not counted.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The last connection number given.
    pub(crate) fn last_id(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// A connection was closed.
    pub(crate) fn connection_closed(&self) {
        // In one total order with `pause`: either the acceptor, which looks at `current` again after it has set
        // `paused`, sees this change, or this thread sees `paused` and notifies it.
        self.current.fetch_sub(1, Ordering::SeqCst);
        self.descriptor_freed();
    }

    /// A descriptor is free again.
    pub(crate) fn descriptor_freed(&self) {
        if self.is_paused() {
            notify(&self.wake_up);
        }
    }

    /// Asks the acceptor to accept nothing, or to go on. Connections wait in the listeners' queues meanwhile.
    pub(crate) fn ask_to_hold(&self, hold: bool) {
        self.hold_asked.store(hold, Ordering::SeqCst);
        notify(&self.wake_up);
    }

    pub(crate) fn is_hold_asked(&self) -> bool {
        self.hold_asked.load(Ordering::SeqCst)
    }

    /// The acceptor does as it was asked.
    pub(crate) fn note_hold(&self, holds: bool) {
        self.holds.store(holds, Ordering::SeqCst);
    }

    /// Whether nothing is accepted.
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::SeqCst)
    }

    /// Accepting pauses.
    pub(crate) fn pause(&self) {
        if !self.paused.swap(true, Ordering::SeqCst) {
            self.pauses.fetch_add(1, Ordering::Relaxed);
            self.paused_since_us.store(precise_us(), Ordering::Relaxed);
        }
    }

    /// Accepting continues.
    pub(crate) fn resume(&self) {
        if self.paused.swap(false, Ordering::SeqCst) {
            let since_us = self.paused_since_us.load(Ordering::Relaxed);
            self.paused_us.fetch_add(precise_us().saturating_sub(since_us), Ordering::Relaxed);
        }
    }

    /// Total length of all pauses, the present one included.
    pub(crate) fn paused_us(&self) -> u64 {
        let past_us = self.paused_us.load(Ordering::Relaxed);
        let since_us = self.paused_since_us.load(Ordering::Relaxed);
        if self.is_paused() { past_us + precise_us().saturating_sub(since_us) } else { past_us }
    }
}
