//! The simulated controllers: observations into crate `fleet`, its decisions into new generations.
//!
//! The controller that leads has the real `HealthWatch`; the others probe, and pass on heartbeats once a second. A new leader
//! knows nothing but the history of generations. Nothing here judges: what is tested is the real code, unless a planted bug is
//! asked for.

use std::collections::BTreeMap;

use fleet::health::{
    ColdSlots, GuardSettings, HealthDecision, HealthThresholds, HealthWatch, HitCounts, ProbeOutcome,
    ProbeRound, ProcessSight, Roster, SlotMember, StaleMember, TkoReport, UnitShare, WarmUp, WarmUpStep,
    check_headroom,
};
use fleet::{ClusterName, GenerationNumber, HostId, MemberId, RouterId, ZoneName};
use stdx::clock::Now;

use crate::checker::SlotChange;
use crate::hosts::{SimulatedHost, zone_names};
use crate::load::FluidLoad;
use crate::shape::{FleetShape, ZONES};

/// Reports a zone. Its routers see the same, so a report stands for some hundred of them.
const REPORTERS: usize = 17;
/// Each router's agent has a turn in this time, and reports with it.
const REPORT_EVERY_S: u64 = 15;
/// A probe that found nothing new is passed on once in this time: it counts for ten seconds.
const PROBES_REPEATED_S: usize = 5;
/// A leader's lease.
const LEASE_MS: u64 = 10_000;
/// The default of `backend_headroom`.
const HEADROOM: f64 = 0.5;
/// Planted bugs believe a host to be dead after this silence.
const SILENCE_MS: u64 = 25_000;

/// An error that somebody could make in the control plane. It is made here, between observations and decisions, so that no
/// shipped code has a switch for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A host whose lease expires loses its slot.
    LeaseExpiryReplaces,
    /// The guard has no limit for clusters and zones.
    GuardCountsFleetOnly,
    /// The guard has no limit at all.
    GuardOff,
    /// The silence of an agent is passed on as failed probes and routers' TKO.
    OneObserverSuffices,
    /// A new leader takes hosts that it has not heard as dead.
    UnknownIsDead,
    /// An operator's replacements are not compared with the backend's headroom.
    BudgetIgnored,
    /// Members in quarantine get slots.
    QuarantineIgnored,
}

/// What a pass has found.
#[derive(Debug, Default)]
pub(crate) struct PassResult {
    pub(crate) changes: Vec<SlotChange>,
    pub(crate) frozen: usize,
}

/// Three controllers, one in each zone, and their register.
#[derive(Debug)]
pub(crate) struct ControllerGroup {
    shape: FleetShape,
    bugs: Vec<PlantedBug>,
    zones: [ZoneName; ZONES],
    probers: [HostId; ZONES],
    reporters: Vec<RouterId>,
    clusters: Vec<ClusterName>,
    pub(crate) works: [bool; ZONES],
    pub(crate) register_works: bool,
    leader: Option<(usize, HealthWatch)>,
    leader_since_ms: u64,
    lease_until_ms: u64,
    pub(crate) generation: u64,
    places: Vec<SlotMember>,
    spares: Vec<usize>,
    replaced: Vec<(u64, SlotMember)>,
    warm_ups: BTreeMap<usize, WarmUp>,
    wanted: Vec<usize>,
    heard: Vec<usize>,
    heard_ms: Vec<u64>,
}

impl ControllerGroup {
    pub(crate) fn new(shape: &FleetShape, hosts: &[SimulatedHost], bugs: &[PlantedBug]) -> ControllerGroup {
        let zones = zone_names();
        let clusters: Vec<ClusterName> = (0..shape.clusters).map(|at| name(format!("c{at:02}"))).collect();
        let place = |slot: usize| SlotMember {
            cluster: clusters[slot / shape.slots].clone(),
            slot: name(format!("s{:02}", slot % shape.slots)),
            member: hosts[slot].member.clone(),
            host: hosts[slot].id.clone(),
            zone: zones[hosts[slot].zone].clone(),
        };
        ControllerGroup {
            places: (0..shape.servers()).map(place).collect(),
            probers: std::array::from_fn(|at| name(format!("controller-{at}"))),
            reporters: (0..ZONES * REPORTERS).map(|at| name(format!("r{at:03}"))).collect(),
            spares: (shape.servers()..shape.hosts()).collect(),
            heard_ms: vec![0; hosts.len()],
            shape: shape.clone(),
            bugs: bugs.to_vec(),
            zones,
            clusters,
            works: [true; ZONES],
            register_works: true,
            leader: None,
            leader_since_ms: 0,
            lease_until_ms: 0,
            generation: 1,
            replaced: Vec::new(),
            warm_ups: BTreeMap::new(),
            wanted: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// A heartbeat, at whichever controller.
    pub(crate) fn heard(&mut self, host: usize) {
        self.heard.push(host);
    }

    /// A host is back, and has no slot.
    pub(crate) fn returned(&mut self, host: usize) {
        if !self.spares.contains(&host) {
            self.spares.push(host);
        }
    }

    /// An operator wants another member in this slot.
    pub(crate) fn wants(&mut self, slot: usize) {
        self.wanted.push(slot);
    }

    /// Members whose state is a reason to worry.
    pub(crate) fn suspects(&self) -> usize {
        let Some((_, watch)) = &self.leader else { return 0 };
        let is_suspect =
            |place: &&SlotMember| watch.verdict(&place.member).is_some_and(|verdict| verdict.is_suspect());
        self.places.iter().filter(is_suspect).count()
    }

    /// The order of the slots, for a comparison with the one before.
    pub(crate) fn has_order_of(&self, slots: &[SlotMember]) -> bool {
        let is_same =
            |(now, then): (&SlotMember, &SlotMember)| now.slot == then.slot && now.cluster == then.cluster;
        self.places.len() == slots.len() && self.places.iter().zip(slots).all(is_same)
    }

    pub(crate) fn places(&self) -> &[SlotMember] {
        &self.places
    }

    /// One pass; once a second.
    pub(crate) fn pass(
        &mut self,
        now_ms: u64,
        hosts: &mut [SimulatedHost],
        load: &mut FluidLoad,
    ) -> PassResult {
        let now = Now::at_ms(now_ms);
        self.elect(now);
        let heard = std::mem::take(&mut self.heard);
        let Some((_, mut watch)) = self.leader.take() else { return PassResult::default() };
        for host in heard {
            self.heard_ms[host] = now_ms;
            watch.agent_said(now, &hosts[host].id, &[(hosts[host].member.clone(), ProcessSight::Running)]);
        }
        let claimed = self.claimed_dead(now_ms, hosts, load, &mut watch);
        self.probe(now, hosts, load, &claimed, &mut watch);
        self.report(now, hosts, load, &claimed, &mut watch);
        let decisions = watch.decide(now);
        let mut result = PassResult::default();
        let mut lost = self.bypassed(now_ms, hosts, load);
        for decision in decisions.list {
            match decision {
                HealthDecision::Freeze { .. } => result.frozen += 1,
                HealthDecision::Replace { place, .. } => {
                    lost.extend(self.places.iter().position(|known| *known == place))
                }
                HealthDecision::WaitUntil { .. } | HealthDecision::Alarm { .. } => {}
            }
        }
        if self.register_works {
            self.replace_all(now, &lost, hosts, load, &mut watch, &mut result);
        }
        self.leader = self.first_working().map(|at| (at, watch));
        result
    }

    fn first_working(&self) -> Option<usize> {
        self.works.iter().position(|works| *works)
    }

    /// The lease of a leader that stopped must run out first. Without a register the present leader goes on observing.
    fn elect(&mut self, now: Now) {
        let works = self.leader.as_ref().is_some_and(|(at, _)| self.works[*at]);
        if works {
            self.lease_until_ms = now.ms() + LEASE_MS;
            return;
        }
        self.leader = None;
        let Some(at) =
            self.first_working().filter(|_| self.register_works && now.ms() >= self.lease_until_ms)
        else {
            return;
        };
        let roster = Roster::new(GenerationNumber(self.generation), self.places.clone())
            .expect("a roster of the fleet");
        let mut watch = HealthWatch::new(now, self.settings(), roster).expect("accepted settings");
        for (then, place) in &self.replaced {
            watch.remember_replacement(now, place.clone(), now.ms() - then);
        }
        (self.leader, self.leader_since_ms) = (Some((at, watch)), now.ms());
        self.heard_ms.fill(now.ms());
    }

    fn settings(&self) -> HealthThresholds {
        let mut guard = GuardSettings::default();
        if self.has(PlantedBug::GuardCountsFleetOnly) || self.has(PlantedBug::GuardOff) {
            (guard.cluster_floor, guard.cluster_percent) = (1_000, 50);
            (guard.zone_floor, guard.zone_percent) = (1_000, 50);
        }
        if self.has(PlantedBug::GuardOff) {
            (guard.fleet_floor, guard.fleet_percent) = (1_000, 50);
        }
        HealthThresholds { guard, ..HealthThresholds::default() }
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.bugs.contains(&bug)
    }

    /// Slots whose members a planted bug declares dead to all kinds of observers.
    fn claimed_dead(
        &self,
        now_ms: u64,
        hosts: &[SimulatedHost],
        load: &FluidLoad,
        watch: &mut HealthWatch,
    ) -> Vec<bool> {
        let mut claimed = vec![false; load.slots.len()];
        if self.has(PlantedBug::OneObserverSuffices) {
            for (claimed, slot) in claimed.iter_mut().zip(&load.slots) {
                *claimed = now_ms - self.heard_ms[slot.host] > SILENCE_MS;
                if *claimed {
                    let host = &hosts[slot.host];
                    watch.agent_said(
                        Now::at_ms(now_ms),
                        &host.id,
                        &[(host.member.clone(), ProcessSight::Down)],
                    );
                }
            }
        }
        claimed
    }

    /// Slots that a planted bug gives away without any judgement.
    fn bypassed(&self, now_ms: u64, hosts: &[SimulatedHost], load: &FluidLoad) -> Vec<usize> {
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
        debug_assert_eq!(self.heard_ms.len(), hosts.len());
        (0..load.slots.len()).filter(|slot| is_dead(load.slots[*slot].host)).collect()
    }

    fn probe(
        &self,
        now: Now,
        hosts: &[SimulatedHost],
        load: &FluidLoad,
        claimed: &[bool],
        watch: &mut HealthWatch,
    ) {
        let turn = (now.ms() / 1000) as usize % PROBES_REPEATED_S;
        let mut answered = 0;
        let mut outcomes = Vec::new();
        for (at, slot) in load.slots.iter().enumerate() {
            let host = &hosts[slot.host];
            let fails = !host.works || now.ms() < host.probes_lie_until_ms;
            answered += u32::from(!fails);
            let outcome = match () {
                () if fails || claimed[at] => ProbeOutcome::Failed,
                () if host.slowness > 1.0 => ProbeOutcome::Late,
                () if at % PROBES_REPEATED_S == turn => ProbeOutcome::Answered,
                () => continue,
            };
            outcomes.push((host.member.clone(), outcome));
        }
        for at in (0..ZONES).filter(|at| self.works[*at]) {
            let (prober, zone, asked) = (&self.probers[at], &self.zones[at], load.slots.len() as u32);
            watch.probed(now, &ProbeRound { prober, zone, asked, answered, outcomes: &outcomes });
        }
    }

    fn report(
        &self,
        now: Now,
        hosts: &[SimulatedHost],
        load: &FluidLoad,
        claimed: &[bool],
        watch: &mut HealthWatch,
    ) {
        let due = |at: &usize| {
            (now.ms() / 1000 + *at as u64).is_multiple_of(REPORT_EVERY_S) && self.works[at % ZONES]
        };
        let mut due = (0..self.reporters.len()).filter(due).peekable();
        if due.peek().is_none() {
            return;
        }
        let dead = load.slots.iter().enumerate().filter(|(at, slot)| !hosts[slot.host].works || claimed[*at]);
        let tko: Vec<MemberId> = dead.map(|(_, slot)| hosts[slot.host].member.clone()).collect();
        for at in due {
            let (router, zone) = (&self.reporters[at], &self.zones[at % ZONES]);
            watch.router_said(now, &TkoReport { router, zone, traffic: &self.clusters, tko: &tko });
        }
    }

    fn replace_all(
        &mut self,
        now: Now,
        lost: &[usize],
        hosts: &mut [SimulatedHost],
        load: &mut FluidLoad,
        watch: &mut HealthWatch,
        result: &mut PassResult,
    ) {
        self.warm_up(now, load);
        for slot in lost {
            result.changes.extend(self.replace(now, *slot, false, hosts, load, watch));
        }
        if let Some(slot) = self.wanted.first().copied().filter(|slot| self.fits(*slot, load)) {
            self.wanted.remove(0);
            result.changes.extend(self.replace(now, slot, true, hosts, load, watch));
        }
        if result.changes.is_empty() {
            return;
        }
        self.generation += 1;
        for change in &result.changes {
            load.replace(change.slot, change.to, self.generation, hosts[change.from].works);
        }
        let roster = Roster::new(GenerationNumber(self.generation), self.places.clone())
            .expect("a roster of the fleet");
        watch.set_roster(now, roster);
    }

    fn replace(
        &mut self,
        now: Now,
        slot: usize,
        is_voluntary: bool,
        hosts: &mut [SimulatedHost],
        load: &FluidLoad,
        watch: &mut HealthWatch,
    ) -> Option<SlotChange> {
        let from = load.slots[slot].host;
        let has_quarantine = !self.has(PlantedBug::QuarantineIgnored);
        let may_enter = |host: &SimulatedHost, watch: &mut HealthWatch| {
            !has_quarantine || watch.quarantine().check(now, &host.member, &host.id).is_ok()
        };
        let fits = |spare: &usize| hosts[*spare].zone == hosts[from].zone && hosts[*spare].works;
        let at = self.spares.iter().rposition(|spare| fits(spare) && may_enter(&hosts[*spare], watch))?;
        let to = self.spares.remove(at);
        // The agent flushes it, and says so.
        let stale = StaleMember::new(hosts[to].member.clone(), hosts[to].flushes);
        hosts[to].flushes += 1;
        let flushed = stale.reported(hosts[to].flushes, now).expect("a flush that was seen");
        let member = flushed.enter(now).expect("a flush of this moment").into_member();
        self.replaced.retain(|(then, _)| now.ms() - then <= 3_600_000);
        self.replaced.push((now.ms(), self.places[slot].clone()));
        (self.places[slot].member, self.places[slot].host) = (member, hosts[to].id.clone());
        self.warm_ups.insert(slot, WarmUp::new(now));
        if hosts[from].works {
            self.spares.insert(0, from);
        }
        Some(SlotChange { slot, from, to, is_voluntary })
    }

    /// Ends warm-ups by the real rule.
    fn warm_up(&mut self, now: Now, load: &mut FluidLoad) {
        let slots = self.shape.slots;
        self.warm_ups.retain(|slot, warm_up| {
            let cluster = slot / slots * slots..(slot / slots + 1) * slots;
            let own = load.slots[*slot].counts;
            let mut peers = HitCounts::default();
            for peer in cluster.filter(|peer| peer != slot && !load.slots[*peer].warms_up) {
                peers.hits += load.slots[peer].counts.hits;
                peers.misses += load.slots[peer].counts.misses;
            }
            load.slots[*slot].warms_up = matches!(warm_up.step(now, own, peers), WarmUpStep::Warming { .. });
            load.slots[*slot].warms_up
        });
    }

    /// Whether the backend has room for one more cold slot in this cluster.
    fn fits(&self, slot: usize, load: &FluidLoad) -> bool {
        if self.has(PlantedBug::BudgetIgnored) {
            return true;
        }
        let cold = |warmth: f64| ColdSlots {
            share: UnitShare::new(1.0 / self.shape.slots as f64).expect("a share"),
            warmth: UnitShare::new(warmth.clamp(0.0, 1.0)),
            hit_ratio: UnitShare::new(self.shape.hit_ratio),
        };
        let in_cluster =
            self.warm_ups.keys().filter(|other| *other / self.shape.slots == slot / self.shape.slots);
        let warming: Vec<ColdSlots> =
            in_cluster.map(|other| cold(load.own_hit_ratio(*other) / self.shape.hit_ratio)).collect();
        check_headroom(&warming, &cold(0.0), HEADROOM).is_ok()
    }
}

fn name<T: std::str::FromStr<Err = fleet::NameError>>(text: String) -> T {
    text.parse().expect("a name")
}
