//! The simulated controllers: observations into crate `fleet`, its decisions into new generations.
//!
//! The controller that leads has the real `HealthWatch`; the others probe, and pass on heartbeats once a second. A new leader
//! knows nothing but what the register has. Another controller, the desk, takes what operators ask for. Nothing here judges:
//! what is tested is the real code, unless a planted bug is asked for.

mod deciding;
mod names;
mod observing;
mod publishing;
mod routers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fleet::health::{
    GuardScope, GuardSettings, HealthDecision, HealthThresholds, HealthWatch, ProcessSight, Roster,
    SlotMember, SlotReplacement, WarmUp,
};
use fleet::{
    ClusterName, FleetContent, FleetPolicy, GenerationNumber, HostId, Inventory, MemberId, RouterId,
    TextDigest, ZoneName,
};
use stdx::clock::Now;

use crate::bug::PlantedBug;
use crate::checker::SlotChange;
use crate::hosts::{SimulatedHost, zone_names};
use crate::load::FluidLoad;
use crate::register::{AuditLine, Commit, FleetRegister, RoutesKind, TargetSeen};
use crate::shape::{FleetShape, ZONES};
use names::name;
pub(crate) use publishing::differences;
pub(crate) use routers::{RouterOrders, RouterState, SimulatedDrain};

/// Reports a zone. Its routers see the same, so a report stands for some hundred of them.
const REPORTERS: usize = 17;
/// A leader's lease.
const LEASE_MS: u64 = 10_000;
/// Agents have a turn each 20 s at most, and 5 s are for the way.
const SILENCE_MS: u64 = 25_000;
/// Wishes of operators that wait.
pub(crate) const WISHES_MAX: usize = 100;
/// Controllers' clocks begin here, so that one that is five minutes late has a time, too.
const CLOCK_BEGIN_MS: u64 = 600_000;

/// What a pass has found and done.
#[derive(Debug, Default)]
pub(crate) struct PassResult {
    /// Slots that have another member in the newest generation.
    pub(crate) changes: Vec<SlotChange>,
    pub(crate) frozen: usize,
    /// Why slots keep lost members: a freeze or a limit of the guard, or that no member can take one.
    pub(crate) excuses: Vec<Excuse>,
    pub(crate) commits: Vec<Commit>,
    pub(crate) audit: Vec<AuditLine>,
}

/// Why slots keep their members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    Frozen(GuardScope),
    /// Slots, by their number.
    Slot(usize),
}

/// Where operators' wishes come in: a controller with its own view of the register.
#[derive(Debug)]
struct OperatorDesk {
    seen: TargetSeen,
    content: FleetContent,
    /// It does not hear of new generations before.
    lags_until_ms: u64,
    slots: VecDeque<usize>,
    routes: VecDeque<RoutesKind>,
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
    host_of: BTreeMap<MemberId, usize>,
    inventory: Inventory,
    pub(crate) works: [bool; ZONES],
    /// By how much each controller's clock is before the fleet's time.
    pub(crate) clocks_ms: [u64; ZONES],
    pub(crate) register: FleetRegister,
    leader: Option<(usize, HealthWatch)>,
    leader_since_ms: u64,
    lease_until_ms: u64,
    /// The generation in force as the leader has read it.
    target: TargetSeen,
    /// What routers are given. Without a leader the other controllers go on with it.
    pub(crate) newest: u64,
    /// Slots have the members of this generation.
    applied: u64,
    content: FleetContent,
    policy: FleetPolicy,
    places: Vec<SlotMember>,
    /// The host of each of them.
    slot_hosts: Vec<usize>,
    warm_ups: BTreeMap<usize, WarmUp>,
    desk: OperatorDesk,
    heard: Vec<usize>,
    heard_ms: Vec<u64>,
    routers: routers::RouterTable,
    condemned: BTreeSet<TextDigest>,
    pub(crate) drain: Option<SimulatedDrain>,
}

impl ControllerGroup {
    pub(crate) fn new(shape: &FleetShape, hosts: &[SimulatedHost], bugs: &[PlantedBug]) -> ControllerGroup {
        let zones = zone_names();
        let policy = publishing::policy(shape);
        let inventory = publishing::inventory(hosts, &zones);
        let content = publishing::first_content(shape, hosts, &policy);
        let first = publishing::first_generation(content.clone());
        let target = TargetSeen { number: 1, revision: 1 };
        let mut group = ControllerGroup {
            places: Vec::new(),
            slot_hosts: Vec::new(),
            probers: std::array::from_fn(|at| name(format!("controller-{at}"))),
            reporters: (0..ZONES * REPORTERS).map(|at| name(format!("r{at:03}"))).collect(),
            clusters: policy.clusters.iter().map(|cluster| cluster.name.clone()).collect(),
            host_of: hosts.iter().enumerate().map(|(at, host)| (host.member.clone(), at)).collect(),
            heard_ms: vec![0; hosts.len()],
            desk: OperatorDesk {
                seen: target,
                content: content.clone(),
                lags_until_ms: 0,
                slots: VecDeque::new(),
                routes: VecDeque::new(),
            },
            routers: routers::RouterTable::new(shape.routers),
            register: FleetRegister::new(first),
            shape: shape.clone(),
            bugs: bugs.to_vec(),
            zones,
            inventory,
            works: [true; ZONES],
            clocks_ms: [CLOCK_BEGIN_MS; ZONES],
            leader: None,
            leader_since_ms: 0,
            lease_until_ms: 0,
            newest: target.number,
            applied: target.number,
            target,
            content,
            policy,
            warm_ups: BTreeMap::new(),
            heard: Vec::new(),
            condemned: BTreeSet::new(),
            drain: None,
        };
        group.take_content(hosts);
        group
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.bugs.contains(&bug)
    }

    /// A heartbeat, at whichever controller.
    pub(crate) fn heard(&mut self, host: usize) {
        self.heard.push(host);
    }

    /// An operator wants another member in this slot.
    pub(crate) fn wants(&mut self, slot: usize) {
        if self.desk.slots.len() < WISHES_MAX {
            self.desk.slots.push_back(slot);
        }
    }

    /// An operator wants other routes.
    pub(crate) fn wants_routes(&mut self, kind: RoutesKind) {
        if self.desk.routes.len() < WISHES_MAX {
            self.desk.routes.push_back(kind);
        }
    }

    /// The desk does not hear of new generations before this time.
    pub(crate) fn desk_lags(&mut self, until_ms: u64) {
        self.desk.lags_until_ms = until_ms;
    }

    /// The register has a backup's contents, and the controllers start again, as an operator must.
    pub(crate) fn restore_register(&mut self, now_ms: u64) {
        self.register.restore();
        (self.leader, self.lease_until_ms) = (None, now_ms + LEASE_MS);
    }

    /// Wishes that wait.
    pub(crate) fn wishes(&self) -> usize {
        self.desk.slots.len().max(self.desk.routes.len())
    }

    pub(crate) fn leads_since_ms(&self) -> Option<u64> {
        self.leader.as_ref().map(|_| self.leader_since_ms)
    }

    /// Members whose state is a reason to worry.
    pub(crate) fn suspects(&self) -> usize {
        let Some((_, watch)) = &self.leader else { return 0 };
        let is_suspect =
            |place: &&SlotMember| watch.verdict(&place.member).is_some_and(|verdict| verdict.is_suspect());
        self.places.iter().filter(is_suspect).count()
    }

    /// One pass; once a second.
    pub(crate) fn pass(
        &mut self,
        now_ms: u64,
        hosts: &mut [SimulatedHost],
        load: &mut FluidLoad,
    ) -> PassResult {
        self.elect(now_ms, hosts);
        let mut result = PassResult::default();
        let heard = std::mem::take(&mut self.heard);
        let Some((at, mut watch)) = self.leader.take() else { return result };
        let now = self.clock(at, now_ms);
        self.read_target(now_ms, at, hosts, &mut watch);
        for host in heard {
            self.heard_ms[host] = now_ms;
            watch.agent_said(now, &hosts[host].id, &[(hosts[host].member.clone(), ProcessSight::Running)]);
        }
        let claimed = self.claimed_dead(now, now_ms, hosts, &mut watch);
        self.probe(now, now_ms, hosts, &claimed, &mut watch);
        self.report(now, now_ms, hosts, &claimed, load, &mut watch);
        let lost = self.judge(now, now_ms, &mut watch, &mut result);
        self.warm_up(now_ms, load);
        self.advance_routers(now_ms);
        self.replace_lost(now, now_ms, &lost, hosts, &mut watch, &mut result);
        self.read_target(now_ms, at, hosts, &mut watch);
        self.serve_desk(now, now_ms, hosts, load, &mut watch);
        self.read_target(now_ms, at, hosts, &mut watch);
        self.publish_forgotten(now_ms);
        self.read_target(now_ms, at, hosts, &mut watch);
        self.apply(now_ms, hosts, load, &mut result);
        result.commits = std::mem::take(&mut self.register.commits);
        result.audit = std::mem::take(&mut self.register.audit);
        self.leader = Some((at, watch));
        result
    }

    fn judge(
        &mut self,
        now: Now,
        now_ms: u64,
        watch: &mut HealthWatch,
        result: &mut PassResult,
    ) -> Vec<usize> {
        let decisions = watch.decide(now);
        let mut lost = self.bypassed(now_ms);
        let slot_of = |place: &SlotMember| self.places.iter().position(|known| known == place);
        for decision in decisions.list {
            match decision {
                HealthDecision::Freeze { scope, reason, .. } => {
                    result.frozen += 1;
                    // A freeze without a reason explains nothing.
                    result.excuses.extend((!reason.is_empty()).then_some(Excuse::Frozen(scope)));
                }
                HealthDecision::Replace { place, .. } => lost.extend(slot_of(&place)),
                // Suspicion ends sooner than that: it waits for the guard's limit.
                HealthDecision::WaitUntil { place, until, .. } if until.ms() > now.ms() + 60_000 => {
                    result.excuses.extend(slot_of(&place).map(Excuse::Slot));
                }
                HealthDecision::WaitUntil { .. } | HealthDecision::Alarm { .. } => {}
            }
        }
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    fn clock(&self, controller: usize, now_ms: u64) -> Now {
        Now::at_ms(now_ms + self.clocks_ms[controller])
    }

    /// The lease of a leader that stopped must run out first. Without a register the present leader goes on observing.
    fn elect(&mut self, now_ms: u64, hosts: &[SimulatedHost]) {
        let works = self.leader.as_ref().is_some_and(|(at, _)| self.works[*at]);
        if works {
            self.lease_until_ms = now_ms + LEASE_MS;
            return;
        }
        self.leader = None;
        let first = self.works.iter().position(|works| *works);
        let (Some(at), Some(target)) = (first, self.register.target()) else { return };
        if now_ms < self.lease_until_ms {
            return;
        }
        self.forget_routers();
        self.take_target(target, hosts);
        let now = self.clock(at, now_ms);
        let roster = Roster::new(GenerationNumber(target.number), self.places.clone()).expect("a roster");
        let mut watch = HealthWatch::new(now, self.settings(), roster).expect("accepted settings");
        watch.expect_probers(ZONES);
        for (then_ms, place, was_lost) in self.register.replaced() {
            let replaced = SlotReplacement::new(place.clone(), *was_lost);
            watch.remember_replacement(now, &replaced, now_ms - then_ms);
        }
        (self.leader, self.leader_since_ms) = (Some((at, watch)), now_ms);
        self.heard_ms.fill(now_ms);
        self.begin_rollout(now_ms, None);
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
}
