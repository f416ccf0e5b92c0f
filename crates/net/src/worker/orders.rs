//! Outputs for other connections and orders of a round, carried out once its calls are over.

use super::Worker;
use crate::connection::Wish;
use crate::handler::{CloseReason, Handler};
use crate::kernel::Kernel;
use crate::turn::Order;

impl<H: Handler, K: Kernel> Worker<H, K> {
    /// Gives the outputs that were said by the way a lane each, or adds them to what those connections have to send.
    #[cold]
    pub(super) fn deliver(&mut self) {
        for (link, output) in self.turn.take_outputs() {
            let Some(connection) = self.slab.get_mut(link.0) else { continue };
            if let Some(blocked) = &mut connection.blocked {
                blocked.append(output);
                self.turn.set_blocked(link, blocked.len());
                continue;
            }
            let position = self.lanes.list.iter().position(|lane| lane.index == link.0.index);
            match position {
                Some(position) => self.lanes.outputs[position].append(output),
                None if self.lanes.room() > 0 => {
                    let position = self.lanes.push(link.0.index, false, false);
                    self.lanes.outputs[position].append(output);
                }
                // The next round comes at once.
                None => self.turn.put_back(link, output),
            }
        }
    }

    /// Carries out what was ordered.
    #[cold]
    pub(super) fn obey(&mut self) {
        for order in self.turn.take_orders() {
            let (Order::Wake(link) | Order::Close(link) | Order::Abort(link)) = order else {
                match order {
                    Order::Dial(dial, tag) => self.dials.ask(dial, tag, self.turn.now()),
                    Order::CloseSocket(socket) if self.datagram_sockets.close(socket) => {
                        self.one_dialled_less()
                    }
                    _ => {}
                }
                continue;
            };
            let Some(connection) = self.slab.get_mut(link.0) else { continue };
            match order {
                Order::Wake(_) if connection.talk.wish != Wish::Wait => {}
                Order::Wake(_) => {
                    connection.talk.wish = Wish::Again;
                    connection.due = true;
                    if !connection.is_held_up() && !connection.queued {
                        connection.queued = true;
                        self.queue.push_back(link.0);
                    }
                }
                // What is still to be offered to the socket goes out first.
                Order::Close(_) if self.turn.unsent(link) > 0 => {
                    connection.talk.wish = Wish::Close(CloseReason::Normal);
                    connection.due = false;
                }
                _ => self.close(link.0.index, CloseReason::Normal),
            }
        }
    }
}
