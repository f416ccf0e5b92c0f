//! Failures of servers: connections that end, servers that become unavailable, and probes of these.

use std::fmt::Display;
use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::Servers;
use crate::message::outcome::Outcome;
use crate::servers::destination::{
    Destination, DestinationState, Exchange, FailedExchange, ReplyKind, ReplyTarget,
};
use crate::servers::health::{HealthChange, probe_delay_ms, probe_interval_ms};
use crate::shared::notices::NoticeKind;
use crate::stats::DestinationPhase;
use crate::worker::hot::HotValues;

impl Servers {
    /// A connection has ended: with what its requests fail, and whether this side has closed it because it was not used.
    pub(crate) fn disconnected(&mut self, place: u32) -> (Outcome, bool) {
        self.counts.cells().servers_closed.add(1);
        let Destination { spec, connection, queue, .. } = &self.destinations[place as usize];
        let is_early = connection.is_early();
        if spec.tls.is_some() && !connection.has_answered() && !queue.is_empty() {
            // In TLS 1.3 a server looks at a certificate when the handshake is over for its client.
            let spec = Arc::clone(spec);
            self.say(NoticeKind::Other, || {
                format!(
                    "server {} has ended a TLS session without an answer: perhaps it wants another certificate",
                    spec.name
                )
            });
        }
        let outcome = match is_early {
            // Nobody knows whether there was a connection.
            true => Outcome::ConnectError,
            false => Outcome::RemoteError,
        };
        let is_unused = self.destinations[place as usize].cells.phase() == DestinationPhase::Closed;
        (outcome, is_unused)
    }

    /// The connection of a destination has been closed by this side.
    pub(crate) fn set_closed(&self, place: u32) {
        self.destinations[place as usize].cells.set_phase(DestinationPhase::Closed);
    }

    /// A destination has lost its connection, or gets none. Returns its requests without a reply.
    pub(crate) fn lose(
        &mut self,
        place: u32,
        outcome: Outcome,
        why: Option<&dyn Display>,
        hot: &mut HotValues,
    ) -> Vec<FailedExchange> {
        self.doubt_name(place);
        let destination = &mut self.destinations[place as usize];
        let failed = destination.fail_all();
        hot.lose(destination);
        destination.cells.set_phase(DestinationPhase::Down);
        self.note_failure(place, outcome, why, hot);
        failed
    }

    /// Counts a request without a reply; a probe is followed by the next one.
    pub(crate) fn count_failed(
        &mut self,
        place: u32,
        failed: &FailedExchange,
        outcome: Outcome,
        is_failover: bool,
    ) {
        self.counts.failed(&self.destinations[place as usize], failed, outcome, is_failover, self.now);
        if failed.operation.is_none() {
            let last_ms = self.destinations[place as usize].probe_interval_ms;
            let interval_ms = probe_interval_ms(&self.shared.settings.health, last_ms);
            self.probe_later(place, interval_ms);
        }
    }

    /// Counts a failure; begins to probe if the server is unavailable because of it.
    pub(super) fn note_failure(
        &mut self,
        place: u32,
        outcome: Outcome,
        why: Option<&dyn Display>,
        hot: &mut HotValues,
    ) {
        let Destination { health, spec, .. } = &self.destinations[place as usize];
        let (change, count) = self.shared.failed(health, outcome, self.now);
        match change {
            HealthChange::None => {}
            HealthChange::Unavailable => {
                let spec = Arc::clone(spec);
                hot.drop_server(&self.destinations[place as usize]);
                self.counts.cells().became_unavailable.add(1);
                let interval = probe_interval_ms(&self.shared.settings.health, None);
                self.probe_later(place, interval);
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                self.say(NoticeKind::Unavailable, || {
                    let reason = outcome.name();
                    format!("server {} is unavailable ({reason}{why}); unavailable now: {count}", spec.name)
                });
            }
            HealthChange::GuardOpened(guard) => self.say(NoticeKind::Other, || {
                format!(
                    "pool {}: more than {} servers fail: no further one becomes unavailable (tko_tracker)",
                    guard.pool,
                    guard.upper()
                )
            }),
        }
    }

    fn probe_later(&mut self, place: u32, interval_ms: u32) {
        let delay_ms = probe_delay_ms(interval_ms, self.prng.next_u64());
        let due = Now { us: self.now.us + delay_ms * 1000 };
        self.destinations[place as usize].probe_interval_ms = Some(interval_ms);
        self.probes.add(place, due);
    }

    /// Sends the probes that are due.
    pub(crate) fn send_probes(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        while let Some(place) = self.probes.due(self.now) {
            self.probes.remove_first();
            self.probe(place, turn);
        }
    }

    fn probe(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        let destination = &mut self.destinations[place as usize];
        if destination.health.unavailable().is_none() {
            return;
        }
        if destination.connection.state() == DestinationState::Idle && self.dial(place, true, turn).is_err() {
            let interval = self.shared.settings.health.probe_max_ms;
            return self.probe_later(place, interval);
        }
        let destination = &mut self.destinations[place as usize];
        let output = destination.connection.output(true, turn);
        let Some(output) = output else {
            // Its end is about to be reported.
            let interval = self.shared.settings.health.probe_initial_ms;
            return self.probe_later(place, interval);
        };
        output.copy(b"version\r\n");
        let exchange = Exchange::new(ReplyTarget::Nobody, self.now.us, None, ReplyKind::Version, 0);
        self.await_reply(place, exchange);
    }
}
