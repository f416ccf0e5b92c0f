//! Connections that go to another network, and those that come from one.

use stdx::clock::Now;

use super::EventLoop;
use crate::handler::{Activity, Arrival, CloseReason, Handler};
use crate::kernel::Kernel;
use crate::network::handed::HandedConnection;

impl<H: Handler, K: Kernel> EventLoop<H, K> {
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
