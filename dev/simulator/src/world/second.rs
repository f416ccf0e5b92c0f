//! A second of the world: the controllers' pass, the checks of its result, and the fluid step.

use super::{CANARY_MS, Event, FleetWorld, WorldSample};
use crate::checker::{Calm, ChangeFacts, Convergence, SlotChange};
use crate::controllers::{PassResult, WISHES_MAX};
use crate::hosts::zone_names;
use crate::register::Author;
use crate::shape::ZONES;

/// Microseconds in which a controller answers one poll with a new configuration.
const ANSWER_US: u64 = 100;
/// Figures are kept once in this many seconds.
const SAMPLE_EVERY_S: u64 = 10;

impl FleetWorld {
    pub(super) fn second(&mut self, now_ms: u64) {
        self.queue.push(now_ms + 1000, Event::Second);
        let most = self.admitted.iter().max().copied().unwrap_or(0);
        self.checker.require(most <= self.shape.admitted, now_ms, "I13", || {
            format!("a controller has begun {most} turns in a second")
        });
        self.admitted = [0; ZONES];
        let before = self.controllers.newest;
        let cold: Vec<f64> = self.cold_loads();
        let result = self.controllers.pass(now_ms, &mut self.hosts, &mut self.load);
        self.checker.commits(now_ms, &result.commits, &result.audit);
        let wishes = self.controllers.wishes();
        self.checker.require(wishes <= WISHES_MAX, now_ms, "I13", || format!("{wishes} wishes wait"));
        for change in &result.changes {
            self.slot_of[change.from] = None;
        }
        for change in &result.changes {
            self.changed(now_ms, change, &cold);
        }
        if self.controllers.newest > before {
            self.checker.require(self.controllers.register.works, now_ms, "I10", || {
                "a generation without a register".to_owned()
            });
            self.publish(now_ms);
        }
        self.check_drain(now_ms);
        self.check_convergence(now_ms, &result);
        self.step(now_ms, result.frozen);
    }

    fn check_drain(&mut self, now_ms: u64) {
        let Some((owners, since_ms)) = &mut self.owners else { return };
        if self.controllers.drain.is_none() {
            self.run.drained_ms = Some(now_ms - *since_ms);
            self.owners = None;
            self.agents.iter_mut().for_each(|agent| agent.phase = None);
            return;
        }
        let can_act =
            self.controllers.leads_since_ms().is_some() && self.hosts[owners.host].has_agent(now_ms);
        owners.pass(&mut self.checker, now_ms, 1000, can_act);
    }

    fn check_convergence(&mut self, now_ms: u64, result: &PassResult) {
        // A fault that goes on excuses everything.
        let is_whole = self.controllers.register.works
            && self.controllers.works.iter().chain(&self.zone_works).all(|works| *works);
        let leads = self.controllers.leads_since_ms().filter(|_| is_whole);
        let newest = self.controllers.newest;
        let mut calm = Calm {
            since_ms: self.calm_since_ms,
            leader_since_ms: leads,
            committed_ms: self.committed_ms,
            behind: 0,
            is_rolled_out: self.controllers.is_rolled_out(),
        };
        if Convergence::is_due(now_ms, &calm) && self.cohorts.range(..newest).next().is_some() {
            let routers = self.hosts.len()..self.agents.len();
            let is_behind =
                |agent: &usize| self.works(now_ms, *agent) && self.agents[*agent].generation < newest;
            calm.behind = routers.filter(is_behind).count();
        }
        let (zones, hosts, load) = (zone_names(), &self.hosts, &self.load);
        let zone_of = |slot: usize| zones[hosts[load.slots[slot].host].zone].to_string();
        self.convergence.pass(&mut self.checker, now_ms, &self.shape, zone_of, &calm, &result.excuses);
    }

    /// Per cluster the additional misses of slots that warm up.
    fn cold_loads(&self) -> Vec<f64> {
        let mut cold = vec![0.0; self.shape.clusters];
        let h = self.shape.hit_ratio;
        for (at, _) in self.load.slots.iter().enumerate().filter(|(_, slot)| slot.warms_up) {
            let warmth = (self.load.own_hit_ratio(at) / h).min(1.0);
            cold[at / self.shape.slots] += (1.0 - warmth) * h / (1.0 - h) / self.shape.slots as f64;
        }
        cold
    }

    fn changed(&mut self, now_ms: u64, change: &SlotChange, cold: &[f64]) {
        let h = self.shape.hit_ratio;
        let from = &self.hosts[change.from];
        // What flaps was away, as probes and routers have seen, and may work at this moment.
        let has_flapped = 2 * u32::from(from.flaps(now_ms));
        let facts = ChangeFacts {
            accusing_kinds: has_flapped
                + u32::from(!from.has_agent(now_ms))
                + u32::from(!from.answers_probes(now_ms))
                + u32::from(!from.works),
            cold_load: cold[change.slot / self.shape.slots] + h / (1.0 - h) / self.shape.slots as f64,
            zone: from.zone,
            has_old_values: self.hosts[change.to].has_old_values,
        };
        self.checker.changes(now_ms, &self.shape, change, &facts);
        let count = match change.author {
            Author::Health => {
                self.run.first_replaced_ms.get_or_insert(now_ms - self.fault_ms);
                &mut self.run.replaced
            }
            Author::Operator => &mut self.run.voluntary,
            Author::Backup => &mut self.run.restored,
        };
        *count += 1;
        self.slot_of[change.to] = Some(change.slot);
        self.convergence.is_steady(change.slot);
        if self.hosts[change.to].works {
            self.convergence.works(change.slot);
        } else {
            self.convergence.died(now_ms, change.slot);
        }
    }

    /// All routers with an open poll get the new generation: a canary first, then one after the other.
    fn publish(&mut self, now_ms: u64) {
        self.committed_ms = now_ms;
        for router in 0..self.shape.routers {
            let agent = self.hosts.len() + router;
            if self.agents[agent].has_poll && !std::mem::replace(&mut self.agents[agent].is_pushed, true) {
                let wait_ms = if router % 100 == 0 { 0 } else { CANARY_MS };
                let turn_ms = router as u64 / ZONES as u64 * ANSWER_US / 1000;
                self.queue.push(now_ms + wait_ms + turn_ms, Event::Load(agent));
            }
        }
    }

    fn step(&mut self, now_ms: u64, frozen: usize) {
        let all: usize = self.cohorts.values().sum();
        let cohorts = &self.cohorts;
        let loaded =
            |generation: u64| match cohorts.range(..generation).map(|(_, count)| count).sum::<usize>() {
                0 => 1.0,
                behind => 1.0 - behind as f64 / all as f64,
            };
        let step = self.load.step(&self.hosts, loaded);
        let worst = &mut self.interval;
        worst.database = worst.database.max(step.database);
        worst.worst_database = worst.worst_database.max(step.worst_database);
        worst.hit_ratio = worst.hit_ratio.min(step.hit_ratio);
        worst.errors = worst.errors.max(step.errors);
        worst.frozen = worst.frozen.max(frozen);
        if (now_ms / 1000).is_multiple_of(SAMPLE_EVERY_S) {
            worst.at_s = now_ms as f64 / 1000.0;
            worst.suspects = self.controllers.suspects();
            worst.replacements = self.run.replaced + self.run.voluntary;
            self.run.samples.push(*worst);
            self.interval = WorldSample { hit_ratio: 1.0, ..WorldSample::default() };
        }
    }
}
