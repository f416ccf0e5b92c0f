//! Connections that go to another network, and those that come from one.

use std::collections::HashSet;
use std::sync::mpsc::Sender;

use stdx::clock::Now;

use super::EventLoop;
use crate::handler::{Activity, Arrival, CloseReason, Handler};
use crate::kernel::Kernel;
use crate::network::handed::HandedConnection;

/// Connections that leave a worker in a round: the others are served in between, after some milliseconds.
const GIVEN_PER_ROUND_MAX: usize = 256;

/// Where a worker's connections go.
pub(super) struct Giving<S> {
    to: Option<Sender<HandedConnection<S>>>,
    /// There is something to do in the next round: more were at rest than leave in one.
    has_more: bool,
    /// TLS sessions that were at rest in the last round: what had arrived by then has been seen in this one.
    resting: HashSet<u64>,
}

impl<S> Default for Giving<S> {
    fn default() -> Giving<S> {
        Giving { to: None, has_more: false, resting: HashSet::new() }
    }
}

impl<S> Giving<S> {
    /// Whether the next round comes at once.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }
}

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Gives connections away from now on, or not any more.
    pub(super) fn begin_giving(&mut self, to: Option<Sender<HandedConnection<K::Socket>>>) {
        self.handler.leave(to.is_some(), &mut self.turn);
        self.giving = Giving { to, ..Giving::default() };
    }

    /// Gives away what is at rest.
    pub(super) fn give(&mut self) {
        let Some(to) = self.giving.to.clone() else { return };
        let mut given = 0;
        let rested = std::mem::take(&mut self.giving.resting);
        self.giving.has_more = false;
        for index in self.slab.indices().collect::<Vec<_>>() {
            let connection = self.slab.at_mut(index);
            let Some(state) = connection.state_at_rest(&self.handler) else { continue };
            if given == GIVEN_PER_ROUND_MAX {
                self.giving.has_more = true;
                break;
            }
            given += 1;
            if connection.is_encrypted() {
                let is_idle = !connection.wants_input() && connection.wire_len() == 0;
                let token = self.slab.token(index).to_u64();
                match is_idle && rested.contains(&token) {
                    true => self.close(index, CloseReason::Shutdown),
                    false if is_idle => {
                        self.giving.resting.insert(token);
                        self.giving.has_more = true;
                    }
                    false => {}
                }
                continue;
            }
            let (listener, rest) = (connection.listener, connection.dialogue.take_rest());
            let socket = self.take_out(index, CloseReason::HandedOver);
            self.kernel.unwatch(&socket);
            // Whoever has begun this receives until the last sender is gone.
            let _ = to.send(HandedConnection { socket, listener, state, rest });
            // After it: who counts none knows that all are in the channel.
            self.limit.connection_closed();
        }
    }

    /// Whether a worker that is told to stop serves for another round.
    pub(super) fn goes_on_to_rest(&self, left_us: u64) -> bool {
        self.departure.serves_to_rest() && left_us > 0 && !self.is_at_rest()
    }

    /// Whether nothing is worth waiting for before connections are handed over.
    pub(super) fn is_at_rest(&self) -> bool {
        let will_rest = |index: &u32| {
            let connection = self.slab.at(*index);
            let activity = self.handler.activity(&connection.dialogue.state);
            // Those cannot go, or have no end.
            !connection.dialled && !connection.is_encrypted() && activity != Activity::Watching
        };
        self.slab.indices().filter(will_rest).all(|index| self.slab.at(index).packed(&self.handler).is_some())
    }

    /// Takes out all connections that are at rest. Their peers notice nothing.
    pub(super) fn hand_over(&mut self) -> Vec<HandedConnection<K::Socket>> {
        let mut handed = Vec::new();
        for index in self.slab.indices().collect::<Vec<_>>() {
            let Some(state) = self.slab.at(index).packed(&self.handler) else { continue };
            let connection = self.slab.at_mut(index);
            let (listener, rest) = (connection.listener, connection.dialogue.take_rest());
            let socket = self.take_out(index, CloseReason::HandedOver);
            self.limit.connection_closed();
            handed.push(HandedConnection { socket, listener, state, rest });
        }
        handed
    }

    /// Serves a connection of another network, which has been counted.
    pub(super) fn open_handed(&mut self, handed: HandedConnection<K::Socket>, arrival: Arrival, now: Now) {
        let HandedConnection { socket, state, rest, .. } = handed;
        let token = self.slab.next_token();
        self.open(socket, arrival, None, false, now);
        // It is gone if it cannot be watched.
        let Some(connection) = self.slab.get_mut(token) else { return };
        if !self.handler.unpack(&mut connection.dialogue.state, &state) {
            return self.close(token.index, CloseReason::Error);
        }
        connection.due = !rest.is_empty();
        connection.dialogue.set_rest(rest);
        self.enqueue(token.index, now);
    }
}
