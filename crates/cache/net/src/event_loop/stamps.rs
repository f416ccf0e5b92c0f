//! Waiting times of input, from the kernel's receive stamps, on a sample of the connections.
//!
//! A stamp costs a receive of its own (recvmsg(2), no batch) and three reads of clocks, so one connection in 256 has them.
//! The others pay nothing: whether a connection is one of the sample is a part of whether it receives apart from the
//! others, which has to be known because of TLS.

use std::collections::HashMap;

use stdx::clock::Now;

use super::{EventLoop, note_received, receive_body};
use crate::handler::{Arrival, Handler, Origin};
use crate::kernel::Kernel;
use crate::sockets::address::Transport;

/// Connections of a worker for each that has stamps; with fewer, one has.
const CONNECTIONS_PER_STAMPED: usize = 256;

/// Connections looked at between two ticks that could not be chosen. Where there are only unix sockets, looking costs no
/// more.
const FAILURES_MAX: u32 = 256;

/// The sample, which is chosen anew at each tick among the connections that have something to do: a connection that is
/// idle shows nothing, and one that is unlike the others must not stand for them for ever.
#[derive(Default)]
pub(super) struct StampedConnections {
    /// The beginning of the last turn of each, by its place in the slab.
    last_turns: HashMap<u32, Now>,
    /// Connections that are still to be chosen.
    pub(super) missing: usize,
    /// Connections that could not be chosen, since the last tick.
    failures: u32,
    /// There are waits to report, or connections to choose.
    pub(super) has_news: bool,
    /// Of this round, in microseconds.
    waits_us: Vec<u64>,
}

/// Whether arrivals of a connection can be stamped ([`crate::sockets::receive_stamp::set_stamps`]).
pub(super) fn is_stampable(arrival: &Arrival) -> bool {
    let in_kernel = arrival.security.as_ref().is_some_and(|security| security.in_kernel);
    arrival.transport == Transport::Tcp && matches!(arrival.origin, Origin::Accepted { .. }) && !in_kernel
}

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Ends the sample. The connections of the next rounds are the next one.
    #[cold]
    pub(super) fn choose_stamped_anew(&mut self) {
        for index in self.stamped.last_turns.keys().copied().collect::<Vec<_>>() {
            self.end_stamps(index);
        }
        self.stamped.missing = self.slab.len().div_ceil(CONNECTIONS_PER_STAMPED).max(1);
        (self.stamped.failures, self.stamped.has_news) = (0, true);
    }

    #[cold]
    pub(super) fn begin_stamps(&mut self, index: u32, now: Now) {
        let connection = self.slab.at_mut(index);
        if !connection.stampable || connection.stamped || !self.kernel.stamp(&connection.socket, true) {
            self.stamped.failures += 1;
            return;
        }
        (connection.stamped, connection.apart) = (true, true);
        self.stamped.missing -= 1;
        self.stamped.last_turns.insert(index, now);
    }

    /// The connection is in the sample no longer, and another one is missing.
    #[cold]
    pub(super) fn end_stamps(&mut self, index: u32) {
        let connection = self.slab.at_mut(index);
        (connection.stamped, connection.apart) = (false, connection.secure.is_some());
        self.kernel.stamp(&connection.socket, false);
        self.stamped.last_turns.remove(&index);
        self.stamped.missing += 1;
        self.stamped.has_news = true;
    }

    /// Prepares the receive of a connection with TLS, and carries out that of one with stamps.
    #[cold]
    pub(super) fn receive_apart(&mut self, position: usize, now: Now) {
        let index = self.lanes.list[position].index;
        let connection = self.slab.at(index);
        let (is_secure, is_stamped) = (connection.secure.is_some(), connection.stamped);
        if is_secure {
            self.receive_sealed(position);
        }
        if !is_stamped {
            return;
        }
        let last_turn = self.stamped.last_turns.insert(index, now).unwrap_or(now);
        if !is_secure {
            let (lane, buffer, _) = self.lanes.parts(position);
            if lane.receive {
                let (connection, counters) = (self.slab.at_mut(index), self.table.counters());
                receive_body(&mut self.handler, &mut self.kernel, lane, connection, buffer, counters);
            }
        }
        if self.lanes.list[position].receive {
            self.receive_stamped(position, last_turn, now);
        }
    }

    fn receive_stamped(&mut self, position: usize, last_turn: Now, now: Now) {
        let (lane, room) = self.lanes.target(position);
        let connection = self.slab.at_mut(lane.index);
        let outcome = self.kernel.receive_stamped(&connection.socket, room);
        lane.receive = false;
        lane.received = outcome.map(|(received, _)| received);
        if lane.sealed.is_none() {
            let (received, room) = (std::mem::replace(&mut lane.received, Ok(0)), room.len());
            note_received(lane, connection, received, room, self.table.counters());
        }
        // What came before the connection's last turn was not received then: the peer did not take its output, it has
        // sent more than a turn takes, or the connection waits for something of its own. None of that is the worker's load.
        if let Ok((_, Some(arrival))) = outcome
            && arrival >= last_turn
        {
            self.stamped.waits_us.push(now.us.saturating_sub(arrival.us));
            self.stamped.has_news = true;
        }
    }

    /// Reports the waits of a round, and chooses a connection of it if one is missing.
    #[cold]
    pub(super) fn note_stamped(&mut self, now: Now) {
        for waited_us in self.stamped.waits_us.drain(..) {
            self.handler.on_waited(waited_us);
        }
        let lanes = self.lanes.list.len();
        if self.stamped.missing > 0 && lanes > 0 {
            let chosen = self.lanes.list[now.us as usize % lanes].index;
            self.begin_stamps(chosen, now);
        }
        self.stamped.has_news = self.stamped.missing > 0 && self.stamped.failures < FAILURES_MAX;
    }
}
