//! New plans: destinations of servers that stay are kept, with their connections.

use std::cmp::Reverse;
use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::RouteWorker;
use crate::plan::{DestinationSpec, RoutePlan, ServerId};
use crate::servers::destination::{Destination, DestinationState};
use crate::servers::udp::UdpSide;

/// Microseconds between two looks at retired destinations.
const LOOK_EVERY_US: u64 = 1_000_000;

impl RouteWorker {
    /// Goes on with the plan in force. Requests that have begun end on theirs.
    pub(super) fn adopt(&mut self) {
        self.hold_plan();
        let plan = self.shared.plan();
        let places = plan.servers.iter().map(|spec| self.place_of(spec)).collect();
        self.earlier.retain(|(plan, _)| plan.strong_count() > 0);
        self.earlier.push((Arc::downgrade(&self.plan), Arc::clone(&self.places)));
        (self.plan, self.places) = (plan, places);
        // Nodes have other meanings in another plan.
        self.flights.counts.clear();
        self.earlier.retain(|(plan, _)| plan.strong_count() > 0);
        let used: Vec<u64> =
            self.earlier.iter().filter_map(|(plan, _)| plan.upgrade()).map(|p| p.generation).collect();
        let RoutePlan { generation, states, .. } = &*self.plan;
        self.choices.adopt(*generation, states, |generation| used.contains(&generation));
        self.adopt_hot();
        self.retire();
    }

    /// Notes the destinations that neither this plan nor one with requests names.
    pub(super) fn retire(&mut self) {
        let mut is_named = vec![false; self.destinations.len()];
        for places in self.earlier.iter().map(|(_, places)| places).chain([&self.places]) {
            places.iter().for_each(|place| is_named[*place as usize] = true);
        }
        self.free.iter().chain(&self.udp_reader).for_each(|place| is_named[*place as usize] = true);
        self.retired = (0..is_named.len() as u32).filter(|place| !is_named[*place as usize]).collect();
        self.look_at = self.now;
    }

    /// When to look at retired destinations, or whether plans have ended; `None` for never.
    #[inline]
    pub(super) fn next_look(&self) -> Option<Now> {
        (!self.retired.is_empty() || !self.earlier.is_empty()).then_some(self.look_at)
    }

    /// Closes the connections of retired destinations that wait for no reply, and forgets those without a connection.
    pub(super) fn forget_retired(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.release_plans();
        let plans = self.earlier.len();
        self.earlier.retain(|(plan, _)| plan.strong_count() > 0);
        if self.earlier.len() < plans {
            // Their last requests have ended: nothing names their servers any more.
            self.retire();
        }
        self.look_at = Now { us: self.now.us + LOOK_EVERY_US };
        let retired = std::mem::take(&mut self.retired);
        for place in retired {
            let destination = &self.destinations[place as usize];
            let has_datagrams = destination.udp.as_ref().is_some_and(|udp| !udp.is_idle() || udp.has_timer);
            if let DestinationState::Open(link) = destination.state
                && destination.expired > 0
                && destination.exchanges.len() == destination.expired
            {
                // Nobody waits for its replies, which may never come.
                turn.abort(link);
            } else if destination.exchanges.is_empty() && !has_datagrams {
                match destination.state {
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
            self.probes.retain(|Reverse((_, other))| *other != place);
        }
        if let Some(places) = self.by_name.get_mut(&spec.name) {
            places.retain(|other| *other != place);
            if places.is_empty() {
                self.by_name.remove(&spec.name);
            }
        }
        let forgotten = Destination::new(spec, Arc::default());
        forgotten.cells.set_gone();
        self.cells.show(place, &forgotten.cells);
        self.destinations[place as usize] = forgotten;
        self.free.push(place);
    }

    /// The destination of a server: one that exists, or a new one.
    fn place_of(&mut self, spec: &Arc<DestinationSpec>) -> u32 {
        let known = self.by_name.get(&spec.name).into_iter().flatten().copied();
        let known = known.into_iter().find(|place| self.destinations[*place as usize].spec.is_same(spec));
        known.unwrap_or_else(|| {
            self.insert(Destination::new(Arc::clone(spec), self.shared.health_of(&spec.name)))
        })
    }

    /// Adds a destination of a server.
    pub(super) fn insert(&mut self, mut destination: Destination) -> u32 {
        let name = destination.spec.name.clone();
        if destination.spec.udp {
            destination.udp = Some(Box::new(UdpSide::new(self.prng.next_u64() as u16)));
        }
        let place = self.insert_unnamed(destination);
        self.cells.show(place, &self.destinations[place as usize].cells);
        self.by_name.entry(name).or_default().push(place);
        self.attach_hot(place);
        place
    }

    /// Adds a destination that no plan names.
    pub(super) fn insert_unnamed(&mut self, destination: Destination) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.destinations[place as usize] = destination;
                place
            }
            None => {
                self.destinations.push(destination);
                u32::try_from(self.destinations.len() - 1).expect("servers are bounded by the plan")
            }
        }
    }

    /// The destination of a server of `plan`.
    pub(super) fn destination_of(&self, plan: &Arc<RoutePlan>, server: ServerId) -> Option<u32> {
        if Arc::ptr_eq(plan, &self.plan) {
            return self.places.get(server.0 as usize).copied();
        }
        let (_, places) = self.earlier.iter().find(|(earlier, _)| earlier.as_ptr() == Arc::as_ptr(plan))?;
        places.get(server.0 as usize).copied()
    }
}
