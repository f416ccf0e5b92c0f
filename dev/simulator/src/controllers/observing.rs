//! Observers and what they tell the controller that leads: probes and routers' reports, or what a planted bug makes of them.

use fleet::MemberId;
use fleet::health::{HealthWatch, ProbeOutcome, ProbeRound, ProcessSight, TkoReport};
use stdx::clock::Now;

use super::{ControllerGroup, SILENCE_MS};
use crate::bug::PlantedBug;
use crate::hosts::SimulatedHost;
use crate::load::FluidLoad;
use crate::shape::ZONES;

/// Each router's agent has a turn in this time, and reports with it.
const REPORT_EVERY_S: u64 = 15;
/// A probe that found nothing new is passed on once in this time: it counts for ten seconds.
const PROBES_REPEATED_S: usize = 5;

impl ControllerGroup {
    /// The host that has a slot in the present generation.
    pub(super) fn host_at(&self, slot: usize) -> usize {
        self.slot_hosts[slot]
    }

    /// Slots whose members a planted bug declares dead to all kinds of observers.
    pub(super) fn claimed_dead(
        &self,
        now: Now,
        now_ms: u64,
        hosts: &[SimulatedHost],
        watch: &mut HealthWatch,
    ) -> Vec<bool> {
        let mut claimed = vec![false; self.places.len()];
        if self.has(PlantedBug::OneObserverSuffices) {
            for (slot, claimed) in claimed.iter_mut().enumerate() {
                let at = self.host_at(slot);
                *claimed = now_ms - self.heard_ms[at] > SILENCE_MS;
                if *claimed {
                    let host = &hosts[at];
                    watch.agent_said(now, &host.id, &[(host.member.clone(), ProcessSight::Down)]);
                }
            }
        }
        claimed
    }

    /// Slots that a planted bug gives away without any judgement.
    pub(super) fn bypassed(&self, now_ms: u64) -> Vec<usize> {
        let expired = |host: usize| now_ms - self.heard_ms[host] > SILENCE_MS;
        let is_dead: Box<dyn Fn(usize) -> bool> = if self.has(PlantedBug::LeaseExpiryReplaces) {
            Box::new(expired)
        } else if self.has(PlantedBug::UnknownIsDead)
            && now_ms == self.leader_since_ms + 5_000
            && now_ms > 60_000
        {
            Box::new(|host| self.heard_ms[host] == self.leader_since_ms)
        } else {
            return Vec::new();
        };
        (0..self.places.len()).filter(|slot| is_dead(self.host_at(*slot))).collect()
    }

    pub(super) fn probe(
        &self,
        now: Now,
        now_ms: u64,
        hosts: &[SimulatedHost],
        claimed: &[bool],
        watch: &mut HealthWatch,
    ) {
        let turn = (now_ms / 1000) as usize % PROBES_REPEATED_S;
        let mut answered = 0;
        let mut outcomes = Vec::new();
        for (at, claimed) in claimed.iter().enumerate() {
            let host = &hosts[self.host_at(at)];
            let fails = !host.answers_probes(now_ms) && !self.hides(now_ms, host);
            answered += u32::from(!fails);
            let outcome = match () {
                () if fails || *claimed => ProbeOutcome::Failed,
                () if host.slowness > 1.0 => ProbeOutcome::Late,
                () if at % PROBES_REPEATED_S == turn => ProbeOutcome::Answered,
                () => continue,
            };
            outcomes.push((host.member.clone(), outcome));
        }
        for at in (0..ZONES).filter(|at| self.works[*at]) {
            let zone = &self.zones[at % self.shape.controller_zones];
            let (prober, asked) = (&self.probers[at], claimed.len() as u32);
            watch.probed(now, &ProbeRound { prober, zone, asked, answered, outcomes: &outcomes });
        }
    }

    /// Routers tell of the servers that they use, which are not those of a generation that they have not loaded.
    pub(super) fn report(
        &self,
        now: Now,
        now_ms: u64,
        hosts: &[SimulatedHost],
        claimed: &[bool],
        load: &FluidLoad,
        watch: &mut HealthWatch,
    ) {
        let due = |at: &usize| {
            (now_ms / 1000 + *at as u64).is_multiple_of(REPORT_EVERY_S) && self.works[at % ZONES]
        };
        let mut due = (0..self.reporters.len()).filter(due).peekable();
        if due.peek().is_none() {
            return;
        }
        let is_dead = |host: &SimulatedHost| !host.works && !self.hides(now_ms, host);
        let dead =
            load.slots.iter().enumerate().filter(|(at, slot)| is_dead(&hosts[slot.host]) || claimed[*at]);
        let tko: Vec<MemberId> = dead.map(|(_, slot)| hosts[slot.host].member.clone()).collect();
        for at in due {
            let (router, zone) = (&self.reporters[at], &self.zones[at % ZONES]);
            let (serves, traffic, unasked) = (&*self.clusters, &*self.clusters, &[]);
            watch.router_said(now, &TkoReport { router, zone, serves, traffic, unasked, tko: &tko });
        }
    }

    /// A planted bug: whoever observes a failure waits until it has lasted.
    fn hides(&self, now_ms: u64, host: &SimulatedHost) -> bool {
        self.has(PlantedBug::ShortFailuresHidden) && host.fell_lately(now_ms)
    }
}
