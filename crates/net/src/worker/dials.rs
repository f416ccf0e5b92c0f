//! Dials that have their outcome, and sockets for datagrams.

use stdx::clock::Now;

use super::Worker;
use crate::datagram::Datagram;
use crate::dial::{Place, Unreachable};
use crate::dialling::Outcome;
use crate::handler::{Arrival, ConnectionId, Handler, Origin};
use crate::kernel::Kernel;

/// Dials that time out, or are known at once, before connections have their turn.
pub(super) const OUTCOMES_MAX: usize = 64;

impl<H: Handler, K: Kernel> Worker<H, K> {
    /// Begins what was dialled, and tells what has taken too long.
    #[cold]
    pub(super) fn dial(&mut self, now: Now) {
        for _ in 0..OUTCOMES_MAX {
            let known_at_once = self.dials.begin(&mut self.kernel, now);
            let Some(outcome) = known_at_once.or_else(|| self.dials.expire(now)) else { break };
            self.dialled(outcome, now);
        }
    }

    /// Tells the handler what came of a dial.
    #[cold]
    pub(super) fn dialled(&mut self, outcome: Outcome<K::Socket>, now: Now) {
        let Outcome { place, tag, result } = outcome;
        match result {
            Ok(connected) if matches!(place, Place::Udp(_)) => {
                match self.datagram_sockets.add_dialled(&self.kernel, connected.socket) {
                    Ok(socket) => {
                        self.keeper.counters().dialled.add(1);
                        self.handler.on_socket(tag, socket, &mut self.turn);
                    }
                    Err(error) => self.unreachable(tag, Unreachable::from_errno(error)),
                }
            }
            Ok(connected) => {
                let arrival = Arrival {
                    id: ConnectionId(self.limit.next_id()),
                    origin: Origin::Dialled { tag },
                    transport: place.transport(),
                    peer: place.address(),
                    local: self.kernel.local(&connected.socket),
                };
                self.keeper.counters().dialled.add(1);
                self.open(connected.socket, arrival, connected.watched, now);
            }
            Err(why) => self.unreachable(tag, why),
        }
    }

    fn unreachable(&mut self, tag: u64, why: Unreachable) {
        self.keeper.counters().unreachable.add(1);
        // Before the call, so that there is room for another one.
        self.turn.hung_up();
        self.handler.on_unreachable(tag, why, &mut self.turn);
    }

    /// What was dialled has ended, and its descriptor is free.
    pub(super) fn one_dialled_less(&mut self) {
        self.turn.hung_up();
        self.keeper.counters().dialled.sub(1);
        self.limit.freed();
    }

    /// Gives the handler the datagrams that have arrived.
    #[cold]
    pub(super) fn receive_datagrams(&mut self) {
        let Worker { datagram_sockets, kernel, handler, turn, keeper, .. } = self;
        datagram_sockets.receive(kernel, |datagram: &Datagram<'_>| {
            keeper.counters().datagrams.add(1);
            keeper.counters().bytes_read.add(datagram.bytes.len() as u64);
            handler.on_datagram(datagram, turn);
        });
    }

    /// Sends the datagrams that this round has gathered.
    #[cold]
    pub(super) fn send_datagrams(&mut self) {
        let sent = self.datagram_sockets.send(&mut self.kernel, &mut self.turn.outgoing);
        self.keeper.counters().bytes_written.add(sent.bytes);
        self.keeper.counters().datagrams_dropped.add(sent.dropped);
    }
}
