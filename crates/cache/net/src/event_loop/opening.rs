//! Connections as they come and go: opened, queued for their next turns, closed.

use stdx::clock::Now;

use super::{EventLoop, LISTENING, stamps};
use crate::event_loop::connection::{Connection, Dialogue};
use crate::event_loop::turn::Link;
use crate::handler::{Arrival, CloseReason, Handler, Next};
use crate::kernel::Kernel;
use crate::secure::session::{PeerEnd, Session};

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Starts to serve a connection, which has been counted.
    pub(crate) fn open(
        &mut self,
        socket: K::Socket,
        arrival: Arrival,
        session: Option<Box<Session>>,
        watched: bool,
        now: Now,
    ) {
        let link = Link(self.slab.next_token());
        let (origin, stampable) = (arrival.origin, stamps::is_stampable(&arrival));
        let opened = arrival.opened(K::number(&socket), link);
        self.turn.opened(link);
        let in_kernel = opened.security.as_ref().is_some_and(|security| security.in_kernel);
        let dialogue = Dialogue::open(&mut self.handler, &opened, &mut self.turn);
        let has_input = session.as_ref().is_some_and(|session| session.has_input());
        if session.is_some() {
            self.secure.add(&mut self.lanes);
        }
        let connection =
            Connection { in_kernel, stampable, ..Connection::new(socket, origin, session, dialogue) };
        let token = self.slab.insert(connection);
        if self.stamped.are_missing() {
            self.stamped.add(token.index, self.slab.at_mut(token.index), &mut self.kernel, now);
        }
        self.table.insert(token.index, opened, now);
        self.table.counters().places.set(self.slab.places() as u64);
        let socket = &self.slab.at(token.index).socket;
        let listening = match watched {
            true => self.kernel.watch_anew(socket, token.to_u64(), LISTENING),
            false => self.kernel.watch(socket, token.to_u64(), LISTENING),
        };
        if listening.is_err() {
            self.close(token.index, CloseReason::Error);
        } else if has_input {
            self.slab.at_mut(token.index).readable = true;
            self.enqueue(token.index, now);
        }
    }

    /// Queues a connection for its next turn.
    #[inline]
    pub(super) fn enqueue(&mut self, index: u32, now: Now) {
        let token = self.slab.token(index);
        let connection = self.slab.at_mut(index);
        if connection.dialogue.next == Next::Again {
            self.table.counters().yields.add(1);
        }
        self.visits.add_after_turn(token, connection, now);
    }

    pub(super) fn close(&mut self, index: u32, reason: CloseReason) {
        if self.slab.at(index).is_encrypted() && reason != CloseReason::Error {
            self.slab.at_mut(index).tell_end(&mut self.kernel);
        }
        let dialled = self.slab.at(index).dialled;
        // In this order: a peer that sees the end can rely on the handler having freed the connection, and the next
        // connection finds its memory and descriptor free.
        drop(self.take_out(index, reason));
        if dialled {
            self.limit.descriptor_freed();
        } else {
            self.limit.connection_closed();
        }
    }

    /// Removes a connection, and tells the handler. Its socket is still open.
    pub(super) fn take_out(&mut self, index: u32, reason: CloseReason) -> K::Socket {
        self.turn.closed(Link(self.slab.token(index)));
        if self.slab.at(index).stamped {
            self.stamped.remove(index, self.slab.at_mut(index), &mut self.kernel);
        }
        let Connection { dialogue, blocked, secure, socket, dialled, .. } = self.slab.remove(index);
        self.table.remove(index);
        drop(blocked);
        if let Some(secure) = secure {
            self.secure.remove();
            if secure.session.end() == Some(PeerEnd::Failed) {
                self.table.counters().sessions_failed.add(1);
            }
        }
        if dialled {
            self.turn.dial_ended();
            self.table.counters().dialled.sub(1);
        }
        self.handler.on_close(dialogue.state, reason, &mut self.turn);
        socket
    }
}
