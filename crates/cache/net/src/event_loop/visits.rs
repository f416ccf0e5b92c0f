//! Visits: the connections that have their turn in the next rounds, and those that are called after a delay.

use std::collections::VecDeque;

use stdx::clock::Now;

use crate::event_loop::connection::Connection;
use crate::handler::{Handler, Next};
use crate::kernel::Kernel;
use crate::slab::{Slab, Token};

/// Time between two calls of a connection with [`crate::Next::Later`].
const LATER_MS: u64 = 50;

/// Connections to visit without an event.
#[derive(Default)]
pub(super) struct Visits {
    /// In the next rounds, in this order.
    queue: VecDeque<Token>,
    /// After a delay.
    waiting: Vec<Token>,
    /// When those are due.
    later_ms: u64,
}

impl Visits {
    /// Whether nothing is to be visited in the next round.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// When connections that wait are due.
    #[inline]
    pub(super) fn later_ms(&self) -> u64 {
        if self.waiting.is_empty() { u64::MAX } else { self.later_ms }
    }

    /// Adds a connection, unless it is in the queue.
    #[inline]
    pub(super) fn add<H: Handler, K: Kernel>(&mut self, token: Token, connection: &mut Connection<H, K>) {
        if !connection.queued {
            connection.queued = true;
            self.queue.push_back(token);
        }
    }

    /// Adds a connection whose handler is to be called, unless output that is blocked keeps it from that.
    pub(super) fn add_due<H: Handler, K: Kernel>(&mut self, token: Token, connection: &mut Connection<H, K>) {
        connection.due = true;
        if !connection.is_held_up() {
            self.add(token, connection);
        }
    }

    /// Adds a connection after its turn, if it has something to do in the next one.
    #[inline]
    pub(super) fn add_after_turn<H: Handler, K: Kernel>(
        &mut self,
        token: Token,
        connection: &mut Connection<H, K>,
        now: Now,
    ) {
        if connection.dialogue.next == Next::Later && !connection.waiting {
            connection.waiting = true;
            if self.waiting.is_empty() {
                self.later_ms = now.ms() + LATER_MS;
            }
            self.waiting.push(token);
        }
        if connection.due || connection.wants_input() {
            self.add(token, connection);
        }
    }

    /// Adds the connections whose delay is over.
    #[inline]
    pub(super) fn add_delayed<H: Handler, K: Kernel>(&mut self, slab: &mut Slab<Connection<H, K>>, now: Now) {
        if self.waiting.is_empty() || now.ms() < self.later_ms {
            return;
        }
        for token in std::mem::take(&mut self.waiting) {
            let Some(connection) = slab.get_mut(token) else { continue };
            connection.waiting = false;
            if connection.dialogue.next == Next::Later {
                self.add_due(token, connection);
            }
        }
    }

    /// Takes the next one, which may be gone.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Token> {
        self.queue.pop_front()
    }

    /// How many connections are in the queue.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}
