//! Time limits of requests, and the next time at which something is to be done for servers.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::Servers;
use super::place_timers::earliest;
use crate::message::outcome::Outcome;
use crate::servers::destination::{DestinationState, FailedExchange};
use crate::worker::hot::HotValues;

impl Servers {
    /// This worker was late: until then no request times out, and what has arrived meanwhile is read first.
    pub(crate) fn read_until(&mut self, until: Now) {
        self.reads_until = until;
    }

    /// When something is to be done for servers.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Now> {
        let timeouts = earliest([self.timers.next(), self.datagrams.next_timeout()]);
        earliest([
            timeouts.map(|at| at.max(self.reads_until)),
            self.probes.next(),
            self.upkeep.next(),
            self.names.next(),
        ])
    }

    /// Takes a request that has waited too long, and its destination.
    pub(crate) fn take_expired(
        &mut self,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Option<(u32, FailedExchange)> {
        while let Some(place) = self.timers.due(self.now)
            && self.reads_until <= self.now
        {
            let destination = &mut self.destinations[place as usize];
            let Some(failed) = destination.expire(self.now) else {
                self.timers.remove_first();
                match destination.next_timeout() {
                    Some(next) => self.timers.add(place, next),
                    None => destination.has_timer = false,
                }
                continue;
            };
            if !destination.health.is_delivering(self.now, destination.timeout_us()) {
                self.note_failure(place, Outcome::Timeout, None, hot);
            }
            let destination = &mut self.destinations[place as usize];
            // It is known not to answer in time, but not that there is nobody.
            let is_early = destination.connection.take_early();
            if failed.operation.is_none() || is_early {
                // The host may be another one by now, that knows nothing of this connection.
                if let DestinationState::Open(link) = destination.connection.state() {
                    turn.abort(link);
                }
            }
            return Some((place, failed));
        }
        None
    }
}

#[cfg(test)]
impl Servers {
    pub(crate) fn reads_until(&self) -> Now {
        self.reads_until
    }

    /// When connections are looked through, or lines summed up.
    pub(crate) fn next_upkeep(&self) -> Option<Now> {
        self.upkeep.next()
    }
}
