//! A mailbox: what other threads leave for a worker, new connections and orders.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};

use crate::handler::Arrival;

/// One piece of mail.
pub(crate) enum Letter<S = OwnedFd> {
    /// Serve this connection.
    Accepted(S, Arrival),
    /// Close everything and end.
    Stop,
}

/// A queue with a bell.
pub(crate) struct Mailbox<S = OwnedFd> {
    letters: Mutex<Vec<Letter<S>>>,
    /// Waited for edge-triggered: every write is an event, and nobody has to read it back to zero.
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
        // Whoever found it empty rings; the worker takes all that is there by then.
        if was_empty {
            ring(&self.bell);
        }
    }

    /// Takes everything out, in the order it was posted.
    pub(crate) fn take(&self) -> Vec<Letter<S>> {
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Something to ring and to wait for.
pub(crate) fn bell() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Rings. Cannot fail in a way that matters: a bell too loud to be rung again (2^64 - 2 unread rings) is heard.
pub(crate) fn ring(bell: &OwnedFd) {
    let _heard = write(bell, &1u64.to_ne_bytes());
}
