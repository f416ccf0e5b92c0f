//! Outputs for other connections and orders of a round, carried out after its calls.

use super::EventLoop;
use crate::event_loop::turn::{Link, Order};
use crate::handler::{CloseReason, Handler, Next};
use crate::kernel::Kernel;

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Gives a lane to each output that was written through the turn, or appends it to what its connection has to send.
    #[cold]
    pub(super) fn deliver_outputs(&mut self) {
        let mut outputs = self.turn.take_outputs();
        for (link, mut output) in outputs.drain(..) {
            let Some(connection) = self.slab.get_mut(link.0) else {
                self.turn.keep(output);
                continue;
            };
            if let Some(blocked) = &mut connection.blocked {
                blocked.take_from(&mut output);
                let (len, memory) = (blocked.len(), blocked.memory(H::share));
                let wire = connection.wire_len();
                self.turn.set_blocked(link, len + wire, memory + wire);
                self.turn.keep(output);
                continue;
            }
            let position = self.lanes.list.iter().position(|lane| lane.index == link.0.index);
            let position = match position {
                Some(position) => position,
                None if self.lanes.room() > 0 => self.lanes.push(link.0.index, false, false),
                // The next round comes at once.
                None => {
                    self.turn.put_back(link, output);
                    continue;
                }
            };
            self.lanes.outputs[position].take_from(&mut output);
            self.turn.keep(output);
        }
        self.turn.keep_outputs(outputs);
    }

    /// Wakes connections so that they have their turn in this round. Those with output that has not been offered to their sockets are
    /// woken after it, and so are all of them where anything else is ordered.
    #[cold]
    pub(super) fn wake_now(&mut self) {
        let mut orders = self.turn.take_orders();
        if orders.iter().all(|order| matches!(order, Order::Wake(_))) {
            orders.retain(|order| {
                let Order::Wake(link) = order else { return true };
                let waits = self.turn.unsent(*link) > 0;
                if !waits {
                    self.wake(*link);
                }
                waits
            });
        }
        self.turn.put_back_orders(orders);
    }

    /// Ends a connection's wait.
    fn wake(&mut self, link: Link) {
        let Some(connection) = self.slab.get_mut(link.0) else { return };
        if connection.dialogue.next != Next::Wait {
            return;
        }
        connection.dialogue.next = Next::Again;
        self.visits.add_due(link.0, connection);
    }

    /// Carries out the orders.
    #[cold]
    pub(super) fn execute_orders(&mut self) {
        for order in self.turn.take_orders() {
            match order {
                Order::Wake(link) => self.wake(link),
                Order::Close(link) => self.close_after_output(link),
                Order::Abort(link) => {
                    if self.slab.get_mut(link.0).is_some() {
                        self.close(link.0.index, CloseReason::Normal);
                    }
                }
                Order::Dial(dial, tag) => self.dials.enqueue(dial, tag, self.turn.now()),
                Order::CloseSocket(socket) => {
                    if self.datagram_sockets.close(socket) {
                        self.note_dialled_closed();
                    }
                }
            }
        }
    }

    /// Closes a connection. Output that has not been offered to its socket yet is sent first.
    fn close_after_output(&mut self, link: Link) {
        let Some(connection) = self.slab.get_mut(link.0) else { return };
        if self.turn.unsent(link) > 0 {
            connection.dialogue.next = Next::Close(CloseReason::Normal);
            connection.due = false;
        } else {
            self.close(link.0.index, CloseReason::Normal);
        }
    }
}
