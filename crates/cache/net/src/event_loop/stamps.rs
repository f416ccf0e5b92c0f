//! Waiting times of input, from the kernel's receive stamps, on a sample of the connections.
//!
//! A stamp costs a receive of its own (recvmsg(2), no batch) and three reads of clocks, so one connection in 256 has them.
//! The others pay nothing: whether a connection is one of the sample is a part of whether it receives apart from the
//! others, which has to be known because of TLS.

use std::collections::HashMap;

use stdx::clock::Now;

use crate::event_loop::connection::Connection;
use crate::event_loop::lanes::Lane;
use crate::handler::{Arrival, Handler, Origin};
use crate::kernel::Kernel;
use crate::slab::Slab;
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
    missing: usize,
    /// Connections that could not be chosen, since the last tick.
    failures: u32,
    /// There are waits to report, or connections to choose.
    has_news: bool,
    /// Of this round, in microseconds.
    waits_us: Vec<u64>,
}

/// Whether arrivals of a connection can be stamped ([`crate::sockets::receive_stamp::set_stamps`]).
pub(super) fn is_stampable(arrival: &Arrival) -> bool {
    let in_kernel = arrival.security.as_ref().is_some_and(|security| security.in_kernel);
    arrival.transport == Transport::Tcp && matches!(arrival.origin, Origin::Accepted { .. }) && !in_kernel
}

impl StampedConnections {
    /// Whether a connection that is opened would be one of the sample.
    #[inline]
    pub(super) fn are_missing(&self) -> bool {
        self.missing > 0
    }

    /// Whether there are waits to report, or connections to choose.
    #[inline]
    pub(super) fn have_news(&self) -> bool {
        self.has_news
    }

    /// Ends the sample. The connections of the next rounds are the next one.
    #[cold]
    pub(super) fn choose_anew<H: Handler, K: Kernel>(
        &mut self,
        slab: &mut Slab<Connection<H, K>>,
        kernel: &mut K,
    ) {
        for index in self.last_turns.keys().copied().collect::<Vec<_>>() {
            self.remove(index, slab.at_mut(index), kernel);
        }
        self.missing = slab.len().div_ceil(CONNECTIONS_PER_STAMPED).max(1);
        (self.failures, self.has_news) = (0, true);
    }

    /// Adds a connection to the sample, if it can be one of it.
    #[cold]
    pub(super) fn add<H: Handler, K: Kernel>(
        &mut self,
        index: u32,
        connection: &mut Connection<H, K>,
        kernel: &mut K,
        now: Now,
    ) {
        if !connection.stampable || connection.stamped || !kernel.stamp(&connection.socket, true) {
            self.failures += 1;
            return;
        }
        (connection.stamped, connection.apart) = (true, true);
        self.missing -= 1;
        self.last_turns.insert(index, now);
    }

    /// The connection is in the sample no longer, and another one is missing.
    #[cold]
    pub(super) fn remove<H: Handler, K: Kernel>(
        &mut self,
        index: u32,
        connection: &mut Connection<H, K>,
        kernel: &mut K,
    ) {
        (connection.stamped, connection.apart) = (false, connection.secure.is_some());
        kernel.stamp(&connection.socket, false);
        self.last_turns.remove(&index);
        self.missing += 1;
        self.has_news = true;
    }

    /// Notes a turn of a connection, and returns when its last one was.
    pub(super) fn begin_turn(&mut self, index: u32, now: Now) -> Now {
        self.last_turns.insert(index, now).unwrap_or(now)
    }

    /// Notes when input came that has been received in this turn.
    pub(super) fn note_arrival(&mut self, arrival: Now, last_turn: Now, now: Now) {
        // What came before the connection's last turn was not received then: the peer did not take its output, it has
        // sent more than a turn takes, or the connection waits for something of its own. None of that is the worker's load.
        if arrival >= last_turn {
            self.waits_us.push(now.us.saturating_sub(arrival.us));
            self.has_news = true;
        }
    }

    /// Reports the waits of a round, and chooses a connection of it if one is missing.
    #[cold]
    pub(super) fn report<H: Handler, K: Kernel>(
        &mut self,
        round: &[Lane],
        slab: &mut Slab<Connection<H, K>>,
        handler: &mut H,
        kernel: &mut K,
        now: Now,
    ) {
        for waited_us in self.waits_us.drain(..) {
            handler.on_waited(waited_us);
        }
        if self.missing > 0 && !round.is_empty() {
            let chosen = round[now.us as usize % round.len()].index;
            self.add(chosen, slab.at_mut(chosen), kernel, now);
        }
        self.has_news = self.missing > 0 && self.failures < FAILURES_MAX;
    }
}
