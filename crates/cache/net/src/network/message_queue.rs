//! Message queues: how other threads give connections and orders to a worker, or to a thread that does handshakes.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, write};

use crate::event_loop::dial::Unreachable;
use crate::handler::Arrival;
use crate::network::handed::HandedConnection;
use crate::secure::handshakes::SecuredDial;
use crate::secure::session::Session;
use crate::slab::Token;

/// A message to a worker.
pub(crate) enum WorkerMessage<S = OwnedFd> {
    /// Serve this connection.
    Accepted(S, Arrival),
    /// Serve this connection, whose TLS handshake is over.
    Secured(S, Arrival, Box<Session>),
    /// The handshake of a dialled connection is over, or has failed.
    Dialled(Token, Result<SecuredDial<S>, Unreachable>),
    /// Serve this connection of another network.
    Handed(HandedConnection<S>, Arrival),
    /// Give each connection away as soon as it is at rest, or none any more.
    Give(Option<Sender<HandedConnection<S>>>),
    /// Say from now on whether all connections are at rest.
    Drain,
    /// Close everything, or hand it over, and end.
    Stop,
}

/// A queue of messages, and the eventfd that announces them.
pub(crate) struct MessageQueue<M = WorkerMessage> {
    pending: Mutex<Vec<M>>,
    /// Watched edge-triggered: every write is an event, and no read has to reset it.
    pub(crate) wake_up: OwnedFd,
}

impl<M> MessageQueue<M> {
    pub(crate) fn new() -> Result<MessageQueue<M>, Errno> {
        Ok(MessageQueue { pending: Mutex::default(), wake_up: new_eventfd()? })
    }

    /// Posts all of `pending`, and leaves it empty.
    pub(crate) fn post(&self, pending: &mut Vec<M>) {
        let mut queue = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = queue.is_empty();
        queue.append(pending);
        drop(queue);
        // The thread that found it empty writes to the eventfd; its reader takes all messages that are there by then.
        if was_empty {
            notify(&self.wake_up);
        }
    }

    /// Takes all messages, in the order in which they were posted.
    pub(crate) fn take(&self) -> Vec<M> {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A new eventfd.
pub(crate) fn new_eventfd() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Notifies the waiting thread. It fails only when the eventfd counter is saturated (2^64 − 2), and then the thread has been
/// notified.
pub(crate) fn notify(eventfd: &OwnedFd) {
    let _saturated = write(eventfd, &1u64.to_ne_bytes());
}
