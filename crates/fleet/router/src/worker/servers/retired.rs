//! Destinations that no plan names: closed and forgotten once their requests have ended.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::Servers;
use crate::servers::destination::{Destination, DestinationState};

/// Microseconds between two looks at retired destinations.
const LOOK_EVERY_US: u64 = 1_000_000;

impl Servers {
    /// Notes the destinations that no plan names; these are named.
    pub(crate) fn retire(&mut self, named: impl Iterator<Item = u32>) {
        let mut is_named = vec![false; self.destinations.len()];
        let beside = self.free.iter().copied().chain(self.datagrams.reader());
        named.chain(beside).for_each(|place| is_named[place as usize] = true);
        self.retired = (0..is_named.len() as u32).filter(|place| !is_named[*place as usize]).collect();
        self.look_at = self.now;
    }

    /// Whether there are such destinations.
    #[inline]
    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// When to look at them again.
    #[inline]
    pub(crate) fn look_at(&self) -> Now {
        self.look_at
    }

    /// Closes the connections of retired destinations that wait for no reply, and forgets those without a connection.
    pub(crate) fn forget_retired(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.look_at = Now { us: self.now.us + LOOK_EVERY_US };
        let retired = std::mem::take(&mut self.retired);
        for place in retired {
            let destination = &self.destinations[place as usize];
            let has_datagrams = destination.udp.as_ref().is_some_and(|udp| !udp.is_idle() || udp.has_timer);
            let state = destination.connection.state();
            if let DestinationState::Open(link) = state
                && destination.queue.has_only_expired()
            {
                // Nobody waits for its replies, which may never come.
                turn.abort(link);
            } else if destination.queue.is_empty() && !has_datagrams {
                match state {
                    DestinationState::Open(link) => turn.close(link),
                    DestinationState::Idle if !destination.has_timer => {
                        self.close_datagrams(place, turn);
                        self.forget(place);
                        continue;
                    }
                    DestinationState::Idle | DestinationState::Resolving | DestinationState::Dialling => {}
                }
            }
            self.retired.push(place);
        }
    }

    fn forget(&mut self, place: u32) {
        let Destination { spec, health, probe_interval_ms, .. } = &self.destinations[place as usize];
        let (spec, health) = (Arc::clone(spec), Arc::clone(health));
        if probe_interval_ms.is_some() {
            // Nobody probes it any more. Should it come back, the next request finds out.
            self.shared.recovered(&health, self.now);
            self.probes.forget(place);
        }
        if let Some(places) = self.by_name.get_mut(&spec.name) {
            places.retain(|other| *other != place);
            if places.is_empty() {
                self.by_name.remove(&spec.name);
            }
        }
        let forgotten = Destination::new(spec, Arc::default());
        forgotten.cells.set_gone();
        self.counts.cells().show(place, &forgotten.cells);
        self.destinations[place as usize] = forgotten;
        self.free.push(place);
    }
}
