//! Routers as the leader knows them, and what it tells them: the rollout of routes, and the phases of a drain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::drain::{Drain, DrainEvent, DrainPhase, DrainSettings, DrainState};
use fleet::rollout::{
    HaltEvidence, PublishedTexts, Rollout, RolloutEvent, RolloutLane, RolloutSettings, RolloutState,
};
use fleet::{Generation, GenerationNumber, RouterId, gone_back_to};
use stdx::clock::Now;

use super::names::{name, view_name};
use super::{ControllerGroup, SILENCE_MS};
use crate::bug::PlantedBug;
use crate::hosts::SimulatedHost;
use crate::register::PublishedGeneration;
use crate::shape::ZONES;

/// What a router's agent says with each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouterState {
    pub(crate) generation: u64,
    /// The generation whose text crashed the router.
    pub(crate) crashed: Option<u64>,
    pub(crate) phase: Option<DrainPhase>,
}

/// What it shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouterOrders {
    pub(crate) generation: u64,
    pub(crate) phase: Option<DrainPhase>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RouterSeen {
    generation: u64,
    heard_ms: Option<u64>,
    is_silent: bool,
}

/// The leader's knowledge of routers, and the rollout of routes.
#[derive(Debug)]
pub(crate) struct RouterTable {
    ids: Vec<RouterId>,
    seen: Vec<RouterSeen>,
    rollout: Option<RouteRollout>,
}

#[derive(Debug)]
struct RouteRollout {
    rollout: Rollout,
    number: u64,
}

/// A drain of a slot's member.
#[derive(Debug)]
pub(crate) struct SimulatedDrain {
    pub(crate) slot: usize,
    /// The host that is drained.
    pub(crate) host: usize,
    /// The leader's.
    machine: Option<Drain>,
    /// The old member's agent says that it has closed and flushed.
    is_closed: bool,
}

impl RouterTable {
    pub(super) fn new(routers: usize) -> RouterTable {
        RouterTable {
            ids: (0..routers).map(|at| name(format!("r{at:05}"))).collect(),
            seen: vec![RouterSeen::default(); routers],
            rollout: None,
        }
    }

    /// Generations that routers have said to have.
    pub(super) fn generations(&self) -> impl Iterator<Item = GenerationNumber> {
        self.seen.iter().map(|seen| GenerationNumber(seen.generation))
    }

    fn tell(&mut self, now: Now, event: RolloutEvent) {
        if let Some(route) = &mut self.rollout {
            route.rollout.on(event, now);
        }
    }
}

impl ControllerGroup {
    /// A new leader knows nothing of routers.
    pub(super) fn forget_routers(&mut self) {
        self.routers.seen.fill(RouterSeen::default());
        self.routers.rollout = None;
        self.condemned = BTreeSet::new();
        if let Some(drain) = &mut self.drain {
            drain.machine = None;
        }
    }

    /// Begins the rollout of the target, if its routes are others. `before` is what routers have; the parent if it is not known.
    pub(super) fn begin_rollout(&mut self, now_ms: u64, before: Option<u64>) {
        self.routers.rollout = None;
        let Some(target) = self.register.generation(self.target.number).map(Arc::clone) else { return };
        let parent = before.or(target.generation.parent.map(|parent| parent.0));
        let Some(parent) = parent.and_then(|number| self.register.generation(number)) else { return };
        if parent.generation.content.views == target.generation.content.views {
            return;
        }
        let (base, lane) = match self.goes_back_to(&target) {
            Some(back) => (back, RolloutLane::Rollback),
            None => (Arc::clone(parent), RolloutLane::Routes),
        };
        let settings = RolloutSettings::default();
        let rollout = Rollout::begin(published(&target), published(&base), lane, settings, &self.condemned);
        let Ok(rollout) = rollout else { return };
        self.routers.rollout = Some(RouteRollout { rollout, number: target.number() });
        for router in 0..self.routers.seen.len() {
            let seen = self.routers.seen[router];
            if seen.heard_ms.is_some() {
                self.appear(now_ms, router, seen.generation);
            }
        }
        self.routers.tell(Now::at_ms(now_ms), RolloutEvent::Tick);
    }

    fn goes_back_to(&self, target: &PublishedGeneration) -> Option<Arc<PublishedGeneration>> {
        let mut chain: BTreeMap<GenerationNumber, Generation> = BTreeMap::new();
        let mut next = target.generation.parent;
        for _ in 0..2 {
            let found = self.register.generation(next?.0)?;
            chain.insert(found.generation.number, found.generation.clone());
            next = found.generation.parent;
        }
        let back = gone_back_to(&chain, &target.generation)?;
        self.register.generation(back.number.0).map(Arc::clone)
    }

    fn appear(&mut self, now_ms: u64, router: usize, has: u64) {
        let id = self.routers.ids[router].clone();
        let (zone, view) = (self.zones[router % ZONES].clone(), view_name());
        let has = GenerationNumber(has);
        self.routers.tell(Now::at_ms(now_ms), RolloutEvent::Appeared { router: id, zone, view, has });
    }

    /// The rollout of this generation is there already: a rollback's comes from the rollout that failed.
    pub(super) fn goes_back_already(&self, number: u64) -> bool {
        self.routers.rollout.as_ref().is_some_and(|route| route.number == number)
    }

    pub(super) fn roll_back(&mut self, number: u64) {
        if let Some(route) = &mut self.routers.rollout
            && let Ok(rollout) = route.rollout.roll_back(GenerationNumber(number))
        {
            *route = RouteRollout { rollout, number };
        }
    }

    /// No rollout of routes is on its way.
    pub(crate) fn is_rolled_out(&self) -> bool {
        self.routers.rollout.is_none()
    }

    /// A router's agent has its turn. Returns what the router shall have.
    pub(crate) fn router_said(&mut self, now_ms: u64, router: usize, state: RouterState) -> RouterOrders {
        if self.leader.is_some() {
            self.note_router(now_ms, router, state);
        }
        self.orders(router)
    }

    /// What a router shall have.
    pub(crate) fn orders(&self, router: usize) -> RouterOrders {
        let wanted = match &self.routers.rollout {
            Some(route) => route.rollout.wanted(&self.routers.ids[router]).map_or(0, |wanted| wanted.0),
            None => self.newest,
        };
        let machine = self.drain.as_ref().and_then(|drain| drain.machine.as_ref());
        RouterOrders { generation: wanted, phase: machine.map(Drain::phase) }
    }

    fn note_router(&mut self, now_ms: u64, router: usize, state: RouterState) {
        let now = Now::at_ms(now_ms);
        let RouterState { generation, crashed, phase } = state;
        self.routers.seen[router] = RouterSeen { generation, heard_ms: Some(now_ms), is_silent: false };
        let id = self.routers.ids[router].clone();
        if let (Some(phase), Some(machine)) = (phase, self.drain_machine()) {
            machine.on(DrainEvent::Acknowledged { router: id.clone(), phase }, now);
        }
        let Some(number) = self.routers.rollout.as_ref().map(|route| route.number) else { return };
        self.appear(now_ms, router, generation);
        self.routers.tell(now, RolloutEvent::Heard { router: id.clone() });
        let has_crashed = crashed == Some(number);
        let loaded =
            if has_crashed && self.has(PlantedBug::CrashTakenAsLoaded) { number } else { generation };
        if has_crashed && loaded != number {
            let reason = "the router ended".to_owned();
            self.routers.tell(now, RolloutEvent::Crashed { router: id, reason });
        } else if let Some(digest) = self.register.generation(loaded).map(|one| one.digest.clone()) {
            self.routers.tell(now, RolloutEvent::Acknowledged { router: id, digest });
        }
    }

    fn drain_machine(&mut self) -> Option<&mut Drain> {
        self.drain.as_mut()?.machine.as_mut()
    }

    /// Once a second: silence, and the time that passes.
    pub(super) fn advance_routers(&mut self, now_ms: u64) {
        if self.routers.rollout.is_none() && self.drain.is_none() {
            return;
        }
        let now = Now::at_ms(now_ms);
        for router in 0..self.routers.seen.len() {
            let seen = &mut self.routers.seen[router];
            let Some(heard_ms) = seen.heard_ms.filter(|heard_ms| now_ms - heard_ms > SILENCE_MS) else {
                continue;
            };
            if !std::mem::replace(&mut seen.is_silent, true) {
                let (router, since) = (self.routers.ids[router].clone(), Now::at_ms(heard_ms));
                if self.has(PlantedBug::SilentRouterLeft)
                    && let Some(machine) = self.drain_machine()
                {
                    machine.on(DrainEvent::Left { router: router.clone() }, now);
                }
                self.routers.tell(now, RolloutEvent::Silent { router, since });
            }
        }
        self.routers.tell(now, RolloutEvent::Tick);
        self.advance_drain(now);
        let Some(route) = &self.routers.rollout else { return };
        self.condemned.extend(route.rollout.condemned().iter().cloned());
        match route.rollout.state() {
            RolloutState::Done => self.routers.rollout = None,
            RolloutState::Halted(HaltEvidence::Router { .. }) => self.go_back(),
            _ => {}
        }
    }

    /// An operator drains a slot's member. One at a time.
    pub(crate) fn drains(&mut self, slot: usize) -> Option<usize> {
        if self.drain.is_some() {
            return None;
        }
        let host = self.slot_hosts[slot];
        self.drain = Some(SimulatedDrain { slot, host, machine: None, is_closed: false });
        Some(host)
    }

    fn advance_drain(&mut self, now: Now) {
        let Some(drain) = &mut self.drain else { return };
        if self.slot_hosts[drain.slot] != drain.host {
            // It was lost meanwhile: another member has its slot, and a warm-up of its own.
            self.drain = None;
            return;
        }
        let ids = &self.routers.ids;
        let machine = drain
            .machine
            .get_or_insert_with(|| Drain::begin(ids.iter().cloned(), DrainSettings::default(), now));
        if drain.is_closed {
            machine.on(DrainEvent::OldClosed, now);
        }
        machine.on(DrainEvent::Tick, now);
        if machine.state() == DrainState::Done {
            self.drain = None;
        }
    }

    /// The agent of the drained host has its turn: whether it is told to close and flush, which it does.
    pub(crate) fn closes_old(&mut self, host: usize, hosts: &[SimulatedHost]) -> bool {
        let is_told = !self.has(PlantedBug::OldMemberStaysOpen);
        let is_meant = |drain: &&mut SimulatedDrain| is_told && drain.host == host && hosts[host].works;
        let Some(drain) = self.drain.as_mut().filter(is_meant) else { return false };
        let state = drain.machine.as_ref().map(Drain::state);
        if matches!(state, Some(DrainState::Fencing | DrainState::Retiring)) {
            drain.is_closed = true;
        }
        drain.is_closed
    }
}

fn published(one: &PublishedGeneration) -> PublishedTexts {
    let digests = BTreeMap::from([(view_name(), one.digest.clone())]);
    PublishedTexts { generation: one.generation.number, digests }
}
