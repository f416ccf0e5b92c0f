//! Faults as they happen in the world.

use super::{Event, FleetWorld, RETRY_MS};
use crate::checker::KeyOwners;
use crate::fault::FleetFault;
use crate::shape::ZONES;

/// A controller that begins, or whose clock has jumped, observes for a minute before its word counts.
const OBSERVED_MS: u64 = 60_000;

impl FleetWorld {
    pub(super) fn fault(&mut self, now_ms: u64, at: usize) {
        self.fault_ms = now_ms;
        self.calm_since_ms = self.calm_since_ms.max(now_ms);
        match self.script[at].1.clone() {
            FleetFault::AgentsRestart { percent, for_ms } => {
                self.calm_since_ms = self.calm_since_ms.max(now_ms + for_ms);
                for host in self.some_hosts(self.hosts.len() as u64 * percent / 100, false) {
                    self.hosts[host].agent_away_until_ms = now_ms + for_ms;
                    self.reschedule(now_ms, host, for_ms);
                }
            }
            FleetFault::HostsDie(dead) => dead.into_iter().for_each(|host| self.die(now_ms, host)),
            FleetFault::AnyHostsDie(count) => {
                self.some_hosts(count as u64, true).into_iter().for_each(|host| self.die(now_ms, host));
            }
            FleetFault::HostFlaps { host, down_ms, up_ms, for_ms } => {
                self.flap(now_ms, host, down_ms, up_ms, now_ms + for_ms);
            }
            FleetFault::HostsReturn(back) => back.into_iter().for_each(|host| self.come_back(now_ms, host)),
            FleetFault::ZoneDies(zone) => self.zone(now_ms, zone, false),
            FleetFault::ZoneReturns(zone) => self.zone(now_ms, zone, true),
            FleetFault::DeadHostsReturn => {
                let is_back = |host: &usize| {
                    let host = &self.hosts[*host];
                    !host.works && self.zone_works[host.zone]
                };
                let dead: Vec<usize> = (0..self.hosts.len()).filter(is_back).collect();
                dead.into_iter().for_each(|host| self.come_back(now_ms, host));
            }
            FleetFault::ControllerStops(controller) => self.controllers.works[controller] = false,
            FleetFault::ControllerStarts(controller) => {
                self.controllers.works[controller] = self.zone_works[controller];
                self.calm_since_ms = self.calm_since_ms.max(now_ms + OBSERVED_MS);
            }
            FleetFault::ControllersStop => self.controllers.works = [false; ZONES],
            FleetFault::ControllersStart => {
                self.controllers.works = self.zone_works;
                self.calm_since_ms = self.calm_since_ms.max(now_ms + OBSERVED_MS);
            }
            FleetFault::RegisterStops => self.controllers.register.works = false,
            FleetFault::RegisterStarts => self.controllers.register.works = true,
            FleetFault::RoutersRestart => self.restart_routers(now_ms),
            FleetFault::RoutersLosePower => self.routers_lose_power(now_ms),
            FleetFault::RoutersCutOff { percent, for_ms } => self.cut_off(now_ms, percent, for_ms),
            FleetFault::RegisterIsBackedUp => self.controllers.register.back_up(),
            FleetFault::RegisterIsRestored => {
                self.controllers.restore_register(now_ms);
                self.checker.forget_replacements();
            }
            FleetFault::ClockJumps { controller, by_ms } => {
                self.controllers.clocks_ms[controller] += by_ms;
                // The leader takes itself as new.
                self.calm_since_ms = self.calm_since_ms.max(now_ms + OBSERVED_MS);
            }
            FleetFault::OperatorChangesRoutes(kind) => self.controllers.wants_routes(kind),
            FleetFault::OperatorDrains(slot) => self.drain(now_ms, slot),
            FleetFault::DeskLags { for_ms } => self.controllers.desk_lags(now_ms + for_ms),
            FleetFault::ServersSlow(count) => {
                for host in self.some_hosts(count as u64, true) {
                    self.hosts[host].slowness = 10.0;
                    self.disturb(host);
                }
            }
            FleetFault::ProbesLie { percent, for_ms } => {
                self.calm_since_ms = self.calm_since_ms.max(now_ms + for_ms);
                for host in self.some_hosts(self.hosts.len() as u64 * percent / 100, false) {
                    self.hosts[host].probes_lie_until_ms = now_ms + for_ms;
                }
            }
            FleetFault::OperatorReplaces(count) => {
                (0..count.min(self.shape.slots)).for_each(|slot| self.controllers.wants(slot));
            }
        }
        self.expect_all(now_ms);
    }

    /// From now on it is measured until every agent that works has had a turn.
    fn expect_all(&mut self, now_ms: u64) {
        self.heard_since = (0..self.agents.len()).map(|agent| !self.works(now_ms, agent)).collect();
        self.silent = self.heard_since.iter().filter(|heard| !**heard).count();
        self.run.all_heard_ms = None;
    }

    /// Different hosts, chosen at random.
    fn some_hosts(&mut self, count: u64, with_slot: bool) -> Vec<usize> {
        let mut all: Vec<usize> =
            (0..self.hosts.len()).filter(|host| !with_slot || self.slot_of[*host].is_some()).collect();
        let count = (count as usize).min(all.len());
        for at in 0..count {
            let other = at + self.prng.below((all.len() - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }

    pub(super) fn disturb(&mut self, host: usize) {
        if let Some(slot) = self.slot_of[host] {
            self.load.disturb(slot / self.shape.slots);
        }
    }

    fn die(&mut self, now_ms: u64, host: usize) {
        self.hosts[host].falls(now_ms);
        self.disturb(host);
        if let Some(slot) = self.slot_of[host] {
            self.convergence.died(now_ms, slot);
            if self.hosts[host].flaps(now_ms) {
                self.convergence.flaps(now_ms, slot);
            }
        }
        self.old_member_is_open(host, false);
    }

    /// A host that flaps falls, or works again if it is away; in the end it works.
    pub(super) fn flap(&mut self, now_ms: u64, host: usize, down_ms: u64, up_ms: u64, until_ms: u64) {
        let works = self.hosts[host].works;
        if works && now_ms >= until_ms {
            return;
        }
        if works {
            self.die(now_ms, host);
        } else {
            self.come_back(now_ms, host);
        }
        let next_ms = now_ms + if works { down_ms } else { up_ms };
        self.queue.push(next_ms, Event::Flap { host, down_ms, up_ms, until_ms });
    }

    fn come_back(&mut self, now_ms: u64, host: usize) {
        if std::mem::replace(&mut self.hosts[host].works, true) {
            return;
        }
        self.hosts[host].has_old_values = false;
        if let Some(slot) = self.slot_of[host] {
            self.load.empty(slot);
            self.convergence.works(slot);
        }
        self.old_member_is_open(host, true);
        self.schedule(now_ms, host, 0, RETRY_MS);
    }

    fn zone(&mut self, now_ms: u64, zone: usize, works: bool) {
        if std::mem::replace(&mut self.zone_works[zone], works) == works {
            return;
        }
        self.controllers.works[zone] = works;
        self.calm_since_ms = self.calm_since_ms.max(now_ms + OBSERVED_MS);
        for host in (0..self.hosts.len()).filter(|host| self.hosts[*host].zone == zone).collect::<Vec<_>>() {
            if works { self.come_back(now_ms, host) } else { self.die(now_ms, host) }
        }
        for router in (zone..self.shape.routers).step_by(ZONES) {
            let agent = self.hosts.len() + router;
            // Clients of a lost zone are clients of the others now.
            if works {
                self.serve(agent);
                self.schedule(now_ms, agent, 0, RETRY_MS);
            } else {
                self.stop_serving(agent);
            }
        }
    }

    /// Each has its file on its disk, and asks at once.
    pub(super) fn restart_routers(&mut self, now_ms: u64) {
        for agent in self.hosts.len()..self.agents.len() {
            self.agents[agent].has_poll = false;
            self.reschedule(now_ms, agent, 0);
        }
    }

    /// The agent's process was restarted: it gives up its turn, and comes after this time.
    fn reschedule(&mut self, now_ms: u64, agent: usize, least_ms: u64) {
        self.agents[agent].has_event = false;
        self.agents[agent].turn += 1;
        self.schedule(now_ms, agent, least_ms, RETRY_MS);
    }

    fn cut_off(&mut self, now_ms: u64, percent: u64, for_ms: u64) {
        self.calm_since_ms = self.calm_since_ms.max(now_ms + for_ms);
        for agent in self.hosts.len()..self.agents.len() {
            if self.prng.below(100) < percent {
                self.agents[agent].cut_off_until_ms = now_ms + for_ms;
                self.agents[agent].has_poll = false;
                self.reschedule(now_ms, agent, for_ms);
            }
        }
    }

    fn drain(&mut self, now_ms: u64, slot: usize) {
        if let Some(host) = self.controllers.drains(slot) {
            let serving = self.cohorts.values().sum();
            let mut owners = KeyOwners::new(host, serving);
            owners.is_open = self.hosts[host].works;
            self.owners = Some((owners, now_ms));
        }
    }

    /// The process of a drained member ended, or began again: it listens and is empty.
    fn old_member_is_open(&mut self, host: usize, is_open: bool) {
        if let Some((owners, _)) = self.owners.as_mut().filter(|(owners, _)| owners.host == host) {
            owners.is_open = is_open;
        }
    }
}
