//! Outcomes of dials, their TLS handshakes, and datagrams.

use std::ops::ControlFlow;

use stdx::clock::Now;

use super::EventLoop;
use crate::event_loop::dial::{Dial, DialTls, Place, Unreachable};
use crate::event_loop::dialling::{DialOutcome, Securing};
use crate::handler::{Arrival, ConnectionId, Handler, Origin};
use crate::kernel::Kernel;
use crate::secure::handshakes::{DialledCandidate, SecuredDial};
use crate::slab::Token;
use crate::sockets::datagram_sockets::Purpose;

/// Dials that expire, or have an outcome at once, before connections have their turn.
pub(super) const OUTCOMES_MAX: usize = 64;

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Begins new dials, and ends those that have expired.
    #[cold]
    pub(super) fn dial(&mut self, now: Now) {
        for _ in 0..OUTCOMES_MAX {
            let known_at_once = self.dials.begin(&mut self.kernel, now);
            let Some(outcome) = known_at_once.or_else(|| self.dials.expire(now)) else { break };
            self.dialled(outcome, now);
        }
    }

    /// Reports the outcome of a dial to the handler.
    #[cold]
    pub(super) fn dialled(&mut self, outcome: DialOutcome<K::Socket>, now: Now) {
        let DialOutcome { dial: Dial { place, tls, .. }, tag, expires, result } = outcome;
        match (result, tls) {
            (Ok(connected), _) if matches!(place, Place::Udp(_)) => {
                match self.datagram_sockets.add_dialled(&self.kernel, connected.socket) {
                    Ok(socket) => {
                        self.table.counters().dialled.add(1);
                        self.handler.on_socket(tag, socket, &mut self.turn);
                    }
                    Err(error) => self.unreachable(tag, Unreachable::from_errno(error)),
                }
            }
            (Ok(connected), Some(tls)) => {
                let left_us = expires.us.saturating_sub(now.us);
                let securing = Securing { place, tag, watched: connected.watched };
                self.secure_dialled(connected.socket, securing, tls, left_us.div_ceil(1000));
            }
            (Ok(connected), None) => {
                let arrival = self.dialled_arrival(&place, tag, &connected.socket);
                self.table.counters().dialled.add(1);
                self.open(connected.socket, arrival, None, connected.watched, now);
            }
            (Err(why), _) => self.unreachable(tag, why),
        }
    }

    /// Has the handshake done; a message brings its outcome.
    #[cold]
    fn secure_dialled(&mut self, socket: K::Socket, securing: Securing, tls: DialTls, timeout_ms: u64) {
        let tag = securing.tag;
        let token = self.dials.secure(securing);
        if let Err(why) = self.kernel.secure(DialledCandidate { socket, tls, timeout_ms, token }) {
            self.dials.secured(token);
            self.unreachable(tag, why);
        }
    }

    /// Reports the outcome of a handshake to the handler.
    #[cold]
    pub(super) fn secured(
        &mut self,
        token: Token,
        result: Result<SecuredDial<K::Socket>, Unreachable>,
        now: Now,
    ) {
        let Some(Securing { place, tag, watched }) = self.dials.secured(token) else { return };
        match result {
            Ok(SecuredDial { socket, security, session }) => {
                let mut arrival = self.dialled_arrival(&place, tag, &socket);
                arrival.security = Some(security);
                self.table.counters().dialled.add(1);
                self.open(socket, arrival, Some(session), watched, now);
            }
            Err(why) => self.unreachable(tag, why),
        }
    }

    /// Ends all dials: nobody waits for them any more.
    pub(super) fn cancel_dials(&mut self, now: Now) {
        while let Some(outcome) = self.dials.cancel_first() {
            self.dialled(outcome, now);
        }
        for Securing { tag, .. } in self.dials.cancel_securing() {
            self.unreachable(tag, Unreachable::Stopping);
        }
    }

    fn dialled_arrival(&self, place: &Place, tag: u64, socket: &K::Socket) -> Arrival {
        Arrival {
            id: ConnectionId(self.limit.next_id()),
            origin: Origin::Dialled { tag },
            transport: place.transport(),
            peer: place.address(),
            local: self.kernel.local(socket),
            security: None,
        }
    }

    fn unreachable(&mut self, tag: u64, why: Unreachable) {
        self.table.counters().unreachable.add(1);
        // Before the call, so that there is room for another dial.
        self.turn.dial_ended();
        self.handler.on_unreachable(tag, why, &mut self.turn);
    }

    /// A dialled connection or socket has ended, and its descriptor is free.
    pub(super) fn note_dialled_closed(&mut self) {
        self.turn.dial_ended();
        self.table.counters().dialled.sub(1);
        self.limit.descriptor_freed();
    }

    /// Passes arrived datagrams to the handler.
    #[cold]
    pub(super) fn receive_datagrams(&mut self) {
        let EventLoop { datagram_sockets, kernel, handler, turn, table, .. } = self;
        let overflowed = datagram_sockets.receive(kernel, |purpose, together| {
            if purpose == Purpose::Prefetch {
                together.datagrams().for_each(|datagram| handler.prefetch_datagram(&datagram));
                return ControlFlow::Continue(());
            }
            table.counters().datagrams.add(together.count() as u64);
            table.counters().bytes_read.add(together.bytes.len() as u64);
            together.datagrams().for_each(|datagram| handler.on_datagram(&datagram, turn));
            // The others wait until there is room for their replies, too.
            if turn.outgoing.is_half_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        table.counters().datagrams_overflowed.add(overflowed);
    }

    /// Sends the datagrams of this round.
    #[cold]
    pub(super) fn send_datagrams(&mut self) {
        let sent = self.datagram_sockets.send(&mut self.kernel, &mut self.turn.outgoing);
        self.table.counters().bytes_written.add(sent.bytes);
        self.table.counters().datagrams_dropped.add(sent.dropped);
    }
}
