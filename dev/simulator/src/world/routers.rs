//! Routers: what they load, what crashes them, and what they do with the keys of a drained member.

use super::{CANARY_MS, Event, FleetWorld, SimulatedAgent};
use crate::bug::PlantedBug;
use crate::controllers::{RouterOrders, RouterState};
use crate::register::RoutesKind;

/// A router ends so long after it has loaded a text that crashes it.
const CRASH_AFTER_MS: u64 = 1_000;
/// A kernel writes to its disk what nobody synchronises after this.
const WRITTEN_BACK_MS: u64 = 30_000;
/// Delays that are kept: enough for a percentile.
const DELAYS_MAX: usize = 1_000_000;

impl FleetWorld {
    /// A router's agent says what the router has, and carries out what it shall have.
    pub(super) fn router_turn(&mut self, now_ms: u64, agent: usize) {
        let orders = self.say(now_ms, agent);
        let had = self.agents[agent].phase;
        if orders.phase > had {
            self.agents[agent].phase = orders.phase;
            if let Some((owners, _)) = &mut self.owners {
                owners.leaves(had);
                owners.enters(orders.phase);
                owners.check(&mut self.checker, now_ms);
            }
            self.say(now_ms, agent);
        }
        let brings_news = !self.has(PlantedBug::TurnsBringNoNews);
        if brings_news && !self.agents[agent].is_pushed && self.load_generation(now_ms, agent, orders) {
            self.say(now_ms, agent);
        }
    }

    /// A controller sends what is new to a router whose poll is open.
    pub(super) fn push(&mut self, now_ms: u64, agent: usize) {
        self.agents[agent].is_pushed = false;
        if !self.works(now_ms, agent) || !self.controllers.works.contains(&true) {
            return;
        }
        let orders = self.controllers.orders(agent - self.hosts.len());
        if self.load_generation(now_ms, agent, orders) {
            self.say(now_ms, agent);
        }
    }

    fn say(&mut self, now_ms: u64, agent: usize) -> RouterOrders {
        let SimulatedAgent { generation, crashed, phase, .. } = self.agents[agent];
        if let Some(number) = crashed.filter(|_| self.controllers.leads_since_ms().is_some()) {
            self.checker.crash_is_known(number);
        }
        let state = RouterState { generation, crashed, phase };
        self.controllers.router_said(now_ms, agent - self.hosts.len(), state)
    }

    /// Whether the router has loaded what it shall have. Its agent refuses what is older, and what has crashed it.
    fn load_generation(&mut self, now_ms: u64, agent: usize, orders: RouterOrders) -> bool {
        let (before, number) = (self.agents[agent].generation, orders.generation);
        let is_older = number < before && !self.has(PlantedBug::OlderGenerationTaken);
        if number == 0 || number == before || is_older || self.agents[agent].crashed == Some(number) {
            return false;
        }
        let found = self.controllers.register.generation(number);
        let routes = found.map_or(RoutesKind::Good, |found| found.routes);
        let has_controller = self.controllers.works.contains(&true);
        self.checker.loads(now_ms, before, number, routes, has_controller);
        self.run.loads += 1;
        self.set_generation(agent, number);
        (self.agents[agent].before, self.agents[agent].loaded_ms) = (before, now_ms);
        if routes == RoutesKind::Deadly {
            let at_ms = now_ms + CRASH_AFTER_MS + self.prng.below(4 * CRASH_AFTER_MS);
            self.queue.push(at_ms, Event::Crash(agent, number));
        }
        if self.delays.len() < DELAYS_MAX {
            self.delays.push((now_ms - self.committed_ms).saturating_sub(CANARY_MS));
        }
        true
    }

    /// The router ends; its agent puts the text before back, and says so if it reaches a controller.
    pub(super) fn crash(&mut self, now_ms: u64, agent: usize, number: u64) {
        if self.agents[agent].generation != number {
            return;
        }
        self.run.crashed += 1;
        self.agents[agent].crashed = Some(number);
        self.set_generation(agent, self.agents[agent].before);
        if self.works(now_ms, agent) && self.controllers.works.contains(&true) {
            self.say(now_ms, agent);
        }
    }

    /// What is on the disk is all that a router has after its host had no power.
    pub(super) fn routers_lose_power(&mut self, now_ms: u64) {
        for agent in self.hosts.len()..self.agents.len() {
            let SimulatedAgent { generation, loaded_ms, .. } = self.agents[agent];
            let is_fresh = now_ms - loaded_ms < WRITTEN_BACK_MS;
            let is_lost = is_fresh && self.has(PlantedBug::AckBeforeDisk);
            let on_disk = if is_lost { self.agents[agent].before } else { generation };
            self.checker.require(on_disk >= generation, now_ms, "I1", || {
                format!("a router has had generation {generation}, and begins again with {on_disk}")
            });
            self.set_generation(agent, on_disk);
        }
        self.restart_routers(now_ms);
    }

    fn set_generation(&mut self, agent: usize, generation: u64) {
        let serves = self.serves(agent);
        if serves {
            self.leave_cohort(self.agents[agent].generation);
        }
        self.agents[agent].generation = generation;
        if serves {
            *self.cohorts.entry(generation).or_default() += 1;
        }
    }

    /// Clients of a lost zone are clients of the others.
    fn serves(&self, agent: usize) -> bool {
        self.zone_works[(agent - self.hosts.len()) % crate::shape::ZONES]
    }

    pub(super) fn serve(&mut self, agent: usize) {
        *self.cohorts.entry(self.agents[agent].generation).or_default() += 1;
        if let Some((owners, _)) = &mut self.owners {
            owners.enters(self.agents[agent].phase);
        }
    }

    pub(super) fn stop_serving(&mut self, agent: usize) {
        self.leave_cohort(self.agents[agent].generation);
        if let Some((owners, _)) = &mut self.owners {
            owners.leaves(self.agents[agent].phase);
        }
    }

    fn leave_cohort(&mut self, generation: u64) {
        let count = self.cohorts.get_mut(&generation).expect("a router's cohort");
        *count -= 1;
        if *count == 0 {
            self.cohorts.remove(&generation);
        }
    }
}
