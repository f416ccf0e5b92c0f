//! Generations: how the group makes them, reads them, and gives their slots to the fluid load.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::health::{HealthWatch, Roster, SlotMember, WarmUp};
use fleet::{
    ClusterPolicy, FleetContent, FleetMember, FleetPlanInput, FleetPolicy, Generation, GenerationNumber,
    Inventory, MemberId, RESIZE_WARM_UP_S, TextDigest, ViewPolicy, ZoneName, is_forgotten, next_number, plan,
    texts,
};
use stdx::clock::Now;
use stdx::prng::mix;

use super::names::{name, view_name};
use super::{ControllerGroup, PassResult};
use crate::bug::PlantedBug;
use crate::checker::SlotChange;
use crate::hosts::SimulatedHost;
use crate::load::FluidLoad;
use crate::register::{AuditLine, Author, PublishOutcome, PublishedGeneration, RoutesKind, TargetSeen};
use crate::shape::{FleetShape, ZONES};

/// A new leader has heard of all routers after this: turns take 20 s, and a restart of all 30 s.
const ALL_HEARD_MS: u64 = 60_000;

/// A generation to be.
pub(super) struct Draft {
    pub(super) content: FleetContent,
    pub(super) routes: RoutesKind,
    pub(super) author: Author,
}

impl ControllerGroup {
    /// Tries to make a draft the target in place of the one that was seen.
    pub(super) fn publish(
        &mut self,
        seen: TargetSeen,
        current: &FleetContent,
        draft: Draft,
    ) -> PublishOutcome {
        let Draft { mut content, routes, author } = draft;
        let audit =
            |number, content: &FleetContent| AuditLine { number, changes: differences(current, content) };
        let parent = GenerationNumber(seen.number);
        let number = next_number(Some(parent), self.routers.generations());
        let entry = audit(number.0, &content);
        if self.has(PlantedBug::SlotsSorted) {
            let sorted =
                |cluster: &mut fleet::ClusterRecord| cluster.slots.sort_by(|a, b| a.member.cmp(&b.member));
            content.clusters.iter_mut().for_each(sorted);
        }
        if self.has(PlantedBug::AuditBeforeCommit) && self.register.works {
            self.register.audit.push(entry.clone());
        }
        let digest = digest(&content);
        let generation = Generation {
            number,
            parent: Some(parent),
            reason: format!("{author:?}"),
            lower: None,
            origin: None,
            content,
        };
        let published = PublishedGeneration { generation, routes, digest, author };
        let compares = !self.has(PlantedBug::CompareLeftOut);
        let before = self.register.audit.len();
        let kept = self.has(PlantedBug::TimeoutIsDone).then(|| published.generation.content.clone());
        let result = self.register.publish(seen, published, entry, compares);
        if self.has(PlantedBug::AuditBeforeCommit) {
            // It was written before.
            self.register.audit.truncate(before);
        }
        match (result, kept) {
            (PublishOutcome::NoAnswer, Some(content)) => {
                (self.target.number, self.content) = (number.0, content);
                self.newest = number.0;
                PublishOutcome::Done(self.target)
            }
            (result, _) => result,
        }
    }

    /// What the routes of the present generation are.
    pub(super) fn routes_now(&self) -> RoutesKind {
        self.register.generation(self.target.number).map_or(RoutesKind::Good, |present| present.routes)
    }

    pub(super) fn desk_reads(&mut self, seen: TargetSeen) {
        if seen != self.desk.seen
            && let Some(found) = self.register.generation(seen.number)
        {
            (self.desk.seen, self.desk.content) = (seen, found.generation.content.clone());
        }
    }

    /// Takes a new target, as the watch of the register tells it.
    pub(super) fn read_target(
        &mut self,
        now_ms: u64,
        at: usize,
        hosts: &[SimulatedHost],
        watch: &mut HealthWatch,
    ) {
        let Some(target) = self.register.target().filter(|target| *target != self.target) else { return };
        // A register that went back is not believed before the controllers start again.
        if target.revision < self.target.revision {
            return;
        }
        let before = self.target.number;
        self.note_replaced(now_ms, target);
        self.take_target(target, hosts);
        let roster = Roster::new(GenerationNumber(target.number), self.places.clone()).expect("a roster");
        watch.set_roster(self.clock(at, now_ms), roster);
        if !self.goes_back_already(target.number) {
            self.begin_rollout(now_ms, Some(before));
        }
    }

    fn note_replaced(&mut self, now_ms: u64, target: TargetSeen) {
        let Some(new) = self.register.generation(target.number).map(Arc::clone) else { return };
        for (slot, _, _) in differences(&self.content, &new.generation.content) {
            let was_lost = new.author == Author::Health;
            self.register.note_replaced(now_ms, self.places[slot].clone(), was_lost);
        }
    }

    pub(super) fn take_target(&mut self, target: TargetSeen, hosts: &[SimulatedHost]) {
        let found = self.register.generation(target.number).expect("the target is kept");
        self.content = found.generation.content.clone();
        self.policy.views[0].routes.clone_from(&self.content.views[0].routes);
        (self.target, self.newest) = (target, target.number);
        self.take_content(hosts);
    }

    pub(super) fn take_content(&mut self, hosts: &[SimulatedHost]) {
        let slots = self
            .content
            .clusters
            .iter()
            .flat_map(|cluster| cluster.slots.iter().map(|slot| (cluster.name.clone(), slot)));
        let place = |(cluster, slot): (fleet::ClusterName, &fleet::SlotRecord)| {
            let host = &hosts[self.host_of[&slot.member]];
            SlotMember {
                cluster,
                slot: slot.id.clone(),
                member: slot.member.clone(),
                host: host.id.clone(),
                zone: self.zones[host.zone].clone(),
            }
        };
        let places: Vec<SlotMember> = slots.map(place).collect();
        self.slot_hosts = places.iter().map(|place| self.host_of[&place.member]).collect();
        self.places = places;
    }

    /// The leader leads for so long that all routers have had a turn.
    pub(super) fn has_heard_routers(&self, now_ms: u64) -> bool {
        self.leader_since_ms == 0 || now_ms >= self.leader_since_ms + ALL_HEARD_MS
    }

    /// A register that was restored from a backup has forgotten generations that routers have: its target is published once
    /// more, above them.
    pub(super) fn publish_forgotten(&mut self, now_ms: u64) {
        let number = GenerationNumber(self.target.number);
        if self.has_heard_routers(now_ms) && is_forgotten(number, self.routers.generations()) {
            let current = self.content.clone();
            let draft = Draft { content: current.clone(), routes: self.routes_now(), author: Author::Backup };
            self.publish(self.target, &current, draft);
        }
    }

    /// Gives the slots of the newest generation to the load.
    pub(super) fn apply(
        &mut self,
        now_ms: u64,
        hosts: &mut [SimulatedHost],
        load: &mut FluidLoad,
        result: &mut PassResult,
    ) {
        // Routers refuse what is older than what they have.
        if self.newest <= self.applied {
            return;
        }
        self.applied = self.newest;
        let present = self.register.generation(self.newest).map_or(Author::Health, |present| present.author);
        for slot in 0..load.slots.len() {
            let (from, to) = (load.slots[slot].host, self.slot_hosts[slot]);
            if from == to {
                continue;
            }
            hosts[from].has_old_values |= hosts[from].works;
            result.changes.push(SlotChange { slot, from, to, author: present });
            load.replace(slot, to, self.newest, hosts[from].works);
            self.warm_ups.insert(slot, WarmUp::new(Now::at_ms(now_ms)));
        }
    }

    /// Goes back to the content before a generation that failed.
    pub(super) fn go_back(&mut self) {
        let Some(failed) = self.register.generation(self.target.number).map(Arc::clone) else { return };
        let parent = failed.generation.parent.and_then(|parent| self.register.generation(parent.0));
        let Some(before) = parent.map(Arc::clone) else { return };
        let content = before.generation.content.clone();
        let draft = Draft { content, routes: before.routes, author: Author::Operator };
        let current = self.content.clone();
        if let PublishOutcome::Done(target) = self.publish(self.target, &current, draft) {
            self.roll_back(target.number);
        }
    }
}

/// Slots that have another member: their number over all clusters, the member before, the new one.
pub(crate) fn differences(old: &FleetContent, new: &FleetContent) -> Vec<(usize, MemberId, MemberId)> {
    let slots = |content: &FleetContent| {
        content
            .clusters
            .iter()
            .flat_map(|cluster| cluster.slots.iter().map(|slot| slot.member.clone()))
            .collect::<Vec<_>>()
    };
    let pairs = slots(old).into_iter().zip(slots(new)).enumerate();
    pairs.filter(|(_, (old, new))| old != new).map(|(slot, (old, new))| (slot, old, new)).collect()
}

/// The number of a text, in place of its MD5.
fn digest(content: &FleetContent) -> TextDigest {
    let text = texts(content).into_values().next().expect("a view");
    let sum = text.bytes().fold(1_u64, |sum, byte| mix(sum ^ u64::from(byte)));
    format!("{sum:032x}").parse().expect("digits")
}

pub(super) fn routes_text(kind: RoutesKind, number: u64) -> String {
    format!("{{\"route\": \"PoolRoute|c00\", \"name\": \"{kind:?} {number}\"}}")
}

pub(super) fn policy(shape: &FleetShape) -> FleetPolicy {
    let cluster = |at: usize| ClusterPolicy {
        name: name(format!("c{at:02}")),
        slots: shape.slots,
        class: None,
        zones: Vec::new(),
        shares_hosts: false,
        gutter: None,
        warm_up: None,
        resize_warm_up_s: RESIZE_WARM_UP_S,
        pool: BTreeMap::new(),
    };
    let view = ViewPolicy {
        name: view_name(),
        clusters: Vec::new(),
        route_prefix: None,
        routes: routes_text(RoutesKind::Good, 1),
    };
    FleetPolicy {
        shadows: Vec::new(),
        fleet: name("simulated".to_owned()),
        clusters: (0..shape.clusters).map(cluster).collect(),
        views: vec![view],
        waves: fleet::waves::WaveSettings::default(),
        tunings: Vec::new(),
    }
}

pub(super) fn inventory(hosts: &[SimulatedHost], zones: &[ZoneName; ZONES]) -> Inventory {
    let member = |host: &SimulatedHost| FleetMember {
        id: host.member.clone(),
        host: host.id.clone(),
        zone: zones[host.zone].clone(),
        class: None,
        address: format!("{}:11211", host.id),
        is_held: false,
    };
    Inventory::new(hosts.iter().map(member)).expect("an inventory")
}

/// The hosts' members in their order.
pub(super) fn first_content(
    shape: &FleetShape,
    hosts: &[SimulatedHost],
    policy: &FleetPolicy,
) -> FleetContent {
    let clusters = policy.clusters.iter().enumerate().map(|(at, cluster)| {
        let slot = |slot: usize| {
            let host = &hosts[at * shape.slots + slot];
            let (member, address) = (host.member.clone(), format!("{}:11211", host.id));
            fleet::SlotRecord { id: name(format!("s{slot}")), member, address, is_cold: false, drain: None }
        };
        let slots = (0..shape.slots).map(slot).collect();
        fleet::ClusterRecord {
            name: cluster.name.clone(),
            pool: BTreeMap::new(),
            gutter: None,
            warm_up: None,
            shadow: None,
            resize: None,
            slots,
        }
    });
    let clusters: Vec<_> = clusters.collect();
    let current = FleetContent { clusters, views: Vec::new() };
    let input = FleetPlanInput {
        policy,
        inventory: &Inventory::default(),
        current: &current,
        excluded: &fleet::Excluded::new(),
    };
    plan(&input).expect("nothing is missing").content
}

pub(super) fn first_generation(content: FleetContent) -> PublishedGeneration {
    let digest = digest(&content);
    let generation = Generation {
        number: GenerationNumber(1),
        parent: None,
        reason: "first".to_owned(),
        lower: None,
        origin: None,
        content,
    };
    PublishedGeneration { generation, routes: RoutesKind::Good, digest, author: Author::Operator }
}
