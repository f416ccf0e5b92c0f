//! Outputs for other connections and orders of a round, carried out after its calls.

use super::EventLoop;
use crate::handler::{CloseReason, Handler, Next};
use crate::kernel::Kernel;
use crate::turn::Order;

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

    /// Carries out the orders.
    #[cold]
    pub(super) fn execute_orders(&mut self) {
        for order in self.turn.take_orders() {
            let (Order::Wake(link) | Order::Close(link) | Order::Abort(link)) = order else {
                match order {
                    Order::Dial(dial, tag) => self.dials.enqueue(dial, tag, self.turn.now()),
                    Order::CloseSocket(socket) if self.datagram_sockets.close(socket) => {
                        self.note_dialled_closed()
                    }
                    _ => {}
                }
                continue;
            };
            let Some(connection) = self.slab.get_mut(link.0) else { continue };
            match order {
                Order::Wake(_) if connection.dialogue.next != Next::Wait => {}
                Order::Wake(_) => {
                    connection.dialogue.next = Next::Again;
                    connection.due = true;
                    if !connection.is_held_up() && !connection.queued {
                        connection.queued = true;
                        self.queue.push_back(link.0);
                    }
                }
                // Output that has not been offered to the socket yet is sent first.
                Order::Close(_) if self.turn.unsent(link) > 0 => {
                    connection.dialogue.next = Next::Close(CloseReason::Normal);
                    connection.due = false;
                }
                _ => self.close(link.0.index, CloseReason::Normal),
            }
        }
    }
}
