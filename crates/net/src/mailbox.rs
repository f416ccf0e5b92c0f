//! Mailbox of a worker: connections and orders from other threads.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};

use crate::handler::Arrival;

/// A message to a worker.
pub(crate) enum Letter<S = OwnedFd> {
    /// Serve this connection.
    Accepted(S, Arrival),
    /// Close everything and end.
    Stop,
}

/// A queue of messages, and the eventfd that announces them.
pub(crate) struct Mailbox<S = OwnedFd> {
    letters: Mutex<Vec<Letter<S>>>,
    /// Waited for edge-triggered: every write is an event, and no read has to reset it.
    pub(crate) bell: OwnedFd,
}

impl<S> Mailbox<S> {
    pub(crate) fn new() -> Result<Mailbox<S>, Errno> {
        Ok(Mailbox { letters: Mutex::default(), bell: bell()? })
    }

    /// Posts all of `letters`, leaving it empty.
    pub(crate) fn post(&self, letters: &mut Vec<Letter<S>>) {
        let mut queue = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = queue.is_empty();
        queue.append(letters);
        drop(queue);
        // The thread that found it empty writes to the eventfd; the worker takes all messages that are there by then.
        if was_empty {
            ring(&self.bell);
        }
    }

    /// Takes everything out, in the order it was posted.
    pub(crate) fn take(&self) -> Vec<Letter<S>> {
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An eventfd.
pub(crate) fn bell() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Notifies the waiting thread. It fails only when the eventfd counter is saturated (2^64 − 2), and then the thread has been
/// notified.
pub(crate) fn ring(bell: &OwnedFd) {
    let _saturated = write(bell, &1u64.to_ne_bytes());
}
