//! Planning: from policy, inventory and the content in force to the content that is wanted next.
//!
//! What is in force stays wherever the policy allows it: a member that is missing from the inventory keeps its slot until
//! somebody asks to replace it. A cluster grows and shrinks at its end; a replacement takes the slot of the member that it
//! replaces. So a plan moves no key that it need not.
//!
//! [`plan`] follows the policy and gives no slot that exists to another member. [`change_slots`] does that, and nothing else: the policy says
//! only who may take a slot. After a rollback it wants routes and sizes that are not in force, and nobody has asked for those.

mod seats;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use stdx::words::counted;

use crate::generation::{ClusterRecord, FleetContent, SlotRecord, ViewRecord};
use crate::inventory::{FleetMember, Inventory};
use crate::policy::{ClusterPolicy, FleetPolicy, ShadowPolicy, asks_handle, shadow_step};
use crate::{ClusterName, MemberId};
use seats::ClusterSeats;

/// Members that are named with the reason why they do not do.
const NAMED_MAX: usize = 5;

/// The end of the step that says so of a member that takes a slot all the same.
pub const TAKES_UNTUNED: &str = ", and no other member can take the slot";

/// A wish: another member for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The member that leaves its slot.
    pub member: MemberId,
    /// The one that takes it; the best spare if none.
    pub by: Option<MemberId>,
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct FleetPlanInput<'i> {
    /// What people want.
    pub policy: &'i FleetPolicy,
    /// Who exists.
    pub inventory: &'i Inventory,
    /// What is in force.
    pub current: &'i FleetContent,
    /// Members that take no slot now.
    pub excluded: &'i Excluded,
}

/// Members that take no slot now, each with the one cause.
pub type Excluded = BTreeMap<MemberId, UnfitMember>;

/// Why a member that has no slot takes none now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnfitMember {
    /// It has a slot.
    InSlot,
    /// It or its host is in quarantine.
    Quarantined,
    /// No probe was answered yet.
    NotProbed,
    /// It does not answer probes.
    NoAnswer,
    /// Its host's agent is not heard.
    NoAgent,
    /// It was not emptied since it has left its slot or has joined.
    NotEmptied,
    /// Its host does not meet its standard of tuning.
    Untuned,
    /// Its host has a standard of tuning, and its agent is not heard.
    StandardUnheard,
}

impl UnfitMember {
    fn words(self) -> &'static str {
        match self {
            UnfitMember::InSlot => "it has a slot, or leaves one by this plan",
            UnfitMember::Quarantined => "it or its host is in quarantine",
            UnfitMember::NotProbed => "no probe of it was answered yet",
            UnfitMember::NoAnswer => "it does not answer probes",
            UnfitMember::NoAgent => "its host's agent is not heard, and only that can empty it",
            UnfitMember::NotEmptied => "it is not emptied yet",
            UnfitMember::Untuned => {
                "its host does not meet its standard of tuning (`control status` says what it lacks)"
            }
            UnfitMember::StandardUnheard => {
                "its host's agent is not heard, which says whether the host meets its standard of tuning"
            }
        }
    }

    /// Why a host that may have a lost member's slot, if nobody else can, is only the last resort; none of all others.
    fn last_resort(self) -> Option<&'static str> {
        match self {
            UnfitMember::Untuned => Some("its host does not meet its standard of tuning"),
            UnfitMember::StandardUnheard => {
                Some("it is not known whether its host meets its standard of tuning")
            }
            _ => None,
        }
    }
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetPlan {
    /// What shall be in force.
    pub content: FleetContent,
    /// What it does, a line each, for people; none if nothing changes.
    pub steps: Vec<String>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The member has no slot.
    #[error("replace {0}: it has no slot in any cluster")]
    NoSlot(MemberId),
    /// Nobody may take a slot of a cluster that nobody wants.
    #[error("replace {member}: the policy has no cluster {cluster} any more")]
    NoCluster {
        /// Whose slot it is.
        member: MemberId,
        /// The cluster.
        cluster: ClusterName,
    },
    /// The same member twice.
    #[error("replace {0}: it is asked for twice")]
    Twice(MemberId),
    /// Nobody can take a slot.
    #[error(
        "find a member for slot {slot} of the cluster {cluster}: {reasons}\n  hint: add a member, or change the policy"
    )]
    NoSpare {
        /// The cluster.
        cluster: ClusterName,
        /// The slot's place.
        slot: usize,
        /// Why those that have no slot do not do.
        reasons: String,
    },
    /// The one that was named cannot take the slot.
    #[error("give slot {slot} of the cluster {cluster} to {member}: {reason}")]
    NotHim {
        /// The cluster.
        cluster: ClusterName,
        /// The slot's place.
        slot: usize,
        /// Who.
        member: MemberId,
        /// Why not.
        reason: String,
    },
}

/// Plans what the policy wants.
///
/// # Errors
/// If a slot finds no member: a plan is carried out whole or not at all.
pub fn plan(input: &FleetPlanInput<'_>) -> Result<FleetPlan, PlanError> {
    let mut planner = Planner::new(input);
    let mut clusters = Vec::new();
    for policy in &input.policy.clusters {
        clusters.push(planner.cluster(policy)?);
    }
    for gone in input.current.clusters.iter().filter(|old| input.policy.cluster(&old.name).is_none()) {
        planner.steps.push(format!(
            "cluster {}: goes, with {}",
            gone.name,
            counted(gone.slots.len(), "slot")
        ));
    }
    let views = input.policy.views.iter().map(|view| ViewRecord {
        name: view.name.clone(),
        clusters: view.clusters.clone(),
        route_prefix: view.route_prefix.clone(),
        routes: view.routes.clone(),
        pools_at: view.object_start().expect("a policy's routes are checked"),
    });
    let content = FleetContent { clusters, views: views.collect() };
    planner.views(&content);
    Ok(FleetPlan { content, steps: planner.steps })
}

/// Other members for slots, and why some wishes are not fulfilled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotChanges {
    /// What shall be in force: what is, with these members.
    pub plan: FleetPlan,
    /// What does not find a member, in the order of the wishes.
    pub unmet: Vec<PlanError>,
}

/// Gives slots to other members: the only way in which a slot changes its member, whoever asks for it. As many wishes as find a member are
/// fulfilled, the first ones first: a fleet that runs out of spares mends what it can.
pub fn change_slots(input: &FleetPlanInput<'_>, wishes: &[Replacement]) -> SlotChanges {
    let mut planner = Planner::new(input);
    let (mut content, mut unmet, mut seen) = (input.current.clone(), Vec::new(), BTreeSet::new());
    let mut seats = BTreeMap::new();
    for wish in wishes {
        let fulfilled = match seen.insert(&wish.member) {
            true => planner.fulfil(wish, &mut content, &mut seats),
            false => Err(PlanError::Twice(wish.member.clone())),
        };
        unmet.extend(fulfilled.err());
    }
    SlotChanges { plan: FleetPlan { content, steps: planner.steps }, unmet }
}

/// The same for members that are lost: a slot that finds nobody else gets a member whose host does not meet its standard. A slow server is
/// better than none.
pub fn mend_slots(input: &FleetPlanInput<'_>, wishes: &[Replacement]) -> SlotChanges {
    let first = change_slots(input, wishes);
    let mut excluded = input.excluded.clone();
    excluded.retain(|_, unfit| unfit.last_resort().is_none());
    if first.unmet.is_empty() || excluded.len() == input.excluded.len() {
        return first;
    }
    // Those that have found a member keep it, and whoever has left a slot takes no other one before it is emptied.
    let current = &first.plan.content;
    let (before, now): (BTreeSet<_>, BTreeSet<_>) =
        (members(input.current).collect(), members(current).collect());
    let left: Vec<Replacement> = wishes.iter().filter(|wish| now.contains(&wish.member)).cloned().collect();
    excluded.extend(before.difference(&now).map(|member| ((*member).clone(), UnfitMember::InSlot)));
    let mut second = change_slots(&FleetPlanInput { excluded: &excluded, current, ..*input }, &left);
    let note = |member: &MemberId| {
        let why = input.excluded.get(member)?.last_resort()?;
        Some(format!("{member}: {why}{TAKES_UNTUNED}"))
    };
    let taken = members(&second.plan.content).filter(|member| !now.contains(member));
    let notes: Vec<String> = taken.filter_map(note).collect();
    let no_slot = first.unmet.into_iter().filter(|error| matches!(error, PlanError::NoSlot(_)));
    second.unmet.extend(no_slot);
    second.plan.steps = [first.plan.steps, second.plan.steps, notes].concat();
    second
}

fn members(content: &FleetContent) -> impl Iterator<Item = &MemberId> {
    let slots = content.clusters.iter().flat_map(|cluster| &cluster.slots);
    // A slot that is drained has two.
    slots.flat_map(|slot| std::iter::once(&slot.member).chain(slot.drain.as_ref().map(|drain| &drain.other)))
}

struct Planner<'i> {
    input: FleetPlanInput<'i>,
    /// Members that have a slot, had one before this plan, or get one by it: whoever leaves a slot by this plan has missed
    /// nothing yet, but takes no other one before he was emptied.
    used: BTreeSet<MemberId>,
    steps: Vec<String>,
}

impl<'i> Planner<'i> {
    fn new(input: &FleetPlanInput<'i>) -> Planner<'i> {
        Planner { input: *input, used: members(input.current).cloned().collect(), steps: Vec::new() }
    }

    fn cluster(&mut self, policy: &'i ClusterPolicy) -> Result<ClusterRecord, PlanError> {
        let name = &policy.name;
        let pool = attributes(policy);
        let old = self.input.current.cluster(name);
        let mut record = ClusterRecord {
            name: name.clone(),
            pool,
            gutter: policy.gutter.clone(),
            warm_up: policy.warm_up.clone(),
            shadow: self.input.policy.shadow_of(name).cloned(),
            resize: None,
            slots: old.map_or(Vec::new(), |old| old.slots.clone()),
        };
        match old {
            None => {
                self.steps.push(format!("cluster {name}: begins, with {}", counted(policy.slots, "slot")))
            }
            Some(old) if old.pool != record.pool => {
                self.steps.push(format!("cluster {name}: other attributes of the pool"));
            }
            Some(_) => {}
        }
        self.follow_substitutes(old, &mut record);
        let shadow = shadow_step(old.and_then(|old| old.shadow.as_ref()), record.shadow.as_ref());
        if let Some(step) = shadow {
            self.steps.push(format!("cluster {name}: {step}"));
            self.note_uncopied(record.shadow.as_ref());
        }
        if record.slots.len() > policy.slots {
            for slot in record.slots.drain(policy.slots..) {
                self.steps.push(format!("cluster {name}: slot {} goes, {} leaves it", slot.id, slot.member));
            }
        }
        self.follow_addresses(&mut record);
        let mut seats = ClusterSeats::new(self.input.inventory, policy, &record);
        while record.slots.len() < policy.slots {
            let at = record.slots.len();
            let member = self.choose(&mut seats, &record, at, None)?;
            seats.add(&member);
            let id = format!("s{at}").parse().expect("a letter and a number are a name");
            if old.is_some() {
                self.steps.push(format!("cluster {name}: slot {id} is added, {} takes it", member.id));
            }
            let (member, address) = (member.id, member.address);
            record.slots.push(SlotRecord { id, member, address, is_cold: false, drain: None });
        }
        Ok(record)
    }

    /// Fulfils a wish in a content.
    fn fulfil(
        &mut self,
        wish: &Replacement,
        content: &mut FleetContent,
        seats: &mut BTreeMap<usize, ClusterSeats<'i>>,
    ) -> Result<(), PlanError> {
        let (current, member) = (self.input.current, || wish.member.clone());
        let place = current.clusters.iter().enumerate().find_map(|(number, cluster)| {
            Some((number, cluster.slots.iter().position(|slot| slot.member == wish.member)?))
        });
        let (number, at) = place.ok_or_else(|| PlanError::NoSlot(member()))?;
        let record = &mut content.clusters[number];
        let Some(policy) = self.input.policy.cluster(&record.name) else {
            return Err(PlanError::NoCluster { member: member(), cluster: record.name.clone() });
        };
        let new = || ClusterSeats::new(self.input.inventory, policy, &current.clusters[number]);
        let seats = seats.entry(number).or_insert_with(new);
        self.replace(seats, record, at, wish.by.as_ref())
    }

    /// Gives a slot to another member.
    fn replace(
        &mut self,
        seats: &mut ClusterSeats<'i>,
        record: &mut ClusterRecord,
        at: usize,
        by: Option<&MemberId>,
    ) -> Result<(), PlanError> {
        let FleetMember { id: member, address, .. } = {
            let new = self.choose(seats, record, at, by)?;
            seats.replace(&record.slots[at].member, &new);
            new
        };
        let (is_cold, id) = (record.warm_source().is_some(), record.slots[at].id.clone());
        let new = SlotRecord { id, member, address, is_cold, drain: None };
        let old = std::mem::replace(&mut record.slots[at], new);
        let (name, slot) = (&record.name, &record.slots[at]);
        let (id, new, old) = (&slot.id, &slot.member, &old.member);
        self.steps.push(format!("cluster {name}: {new} takes slot {id} in place of {old}"));
        Ok(())
    }

    /// Views that ask the pool alone, in whose routers nothing is copied.
    fn note_uncopied(&mut self, shadow: Option<&ShadowPolicy>) {
        let Some(ShadowPolicy { from, to, .. }) = shadow else { return };
        let views = self.input.policy.views.iter().filter(|view| view.has(from));
        let silent = views.filter(|view| asks_handle(&view.routes, from) == Some(false));
        self.steps.extend(silent.map(|view| {
            format!(
                "view {}: names the pool {from} and not the handle: its requests are not copied to {to}",
                view.name
            )
        }));
    }

    /// A slot that nothing warms any more is not cold for routers.
    fn follow_substitutes(&mut self, old: Option<&ClusterRecord>, record: &mut ClusterRecord) {
        if record.warm_source().is_none() {
            record.slots.iter_mut().for_each(|slot| slot.is_cold = false);
        }
        let Some(old) = old else { return };
        if old.gutter != record.gutter {
            self.steps.push(format!("cluster {}: another gutter", record.name));
        }
        if old.warm_up != record.warm_up {
            self.steps.push(format!("cluster {}: another warm-up", record.name));
        }
    }

    /// A member may have got another address: it is the same store.
    fn follow_addresses(&mut self, record: &mut ClusterRecord) {
        for slot in &mut record.slots {
            if let Some(member) = self.input.inventory.get(&slot.member)
                && member.address != slot.address
            {
                let (name, id, new) = (&record.name, &slot.member, &member.address);
                self.steps.push(format!("cluster {name}: {id} is at {new}, no more at {}", slot.address));
                slot.address.clone_from(new);
            }
        }
    }

    /// The member for a slot, which is used from now on.
    fn choose(
        &mut self,
        seats: &mut ClusterSeats<'i>,
        record: &ClusterRecord,
        at: usize,
        named: Option<&MemberId>,
    ) -> Result<FleetMember, PlanError> {
        #[cfg(test)]
        seats.check(record);
        let (cluster, slot) = (record.name.clone(), at);
        let present = record.slots.get(at).map(|slot| &slot.member);
        let member: FleetMember = match named {
            Some(member) => {
                let refused = |reason: String| PlanError::NotHim {
                    cluster: cluster.clone(),
                    slot,
                    member: member.clone(),
                    reason,
                };
                let found = self.input.inventory.get(member);
                let found = found.ok_or_else(|| refused("the inventory does not have it".to_owned()))?;
                match self.obstacle(seats, present, found) {
                    Some(reason) => return Err(refused(reason.to_owned())),
                    None => found.clone(),
                }
            }
            None => self.best(seats, present).cloned().ok_or_else(|| PlanError::NoSpare {
                cluster: cluster.clone(),
                slot,
                reasons: self.reasons(seats, present),
            })?,
        };
        self.used.insert(member.id.clone());
        Ok(member)
    }

    /// The spare of the zone that the slot's present member is in; for a new slot of the zone with the fewest slots.
    fn best(&self, seats: &mut ClusterSeats<'i>, present: Option<&MemberId>) -> Option<&'i FleetMember> {
        #[cfg(test)]
        let by_search = self.best_by_search(seats, present).map(|member| member.id.clone());
        seats.find_free(|member| self.unfit(seats.policy, member).is_none());
        let best = seats.best(present);
        #[cfg(test)]
        assert_eq!(best.map(|member| &member.id), by_search.as_ref());
        best
    }

    /// The same by a look at every member.
    #[cfg(test)]
    fn best_by_search(&self, seats: &ClusterSeats<'i>, present: Option<&MemberId>) -> Option<&FleetMember> {
        let wanted = present.and_then(|member| self.input.inventory.get(member)).map(|member| &member.zone);
        let free = self.input.inventory.members();
        let free = free.filter(|member| self.obstacle(seats, present, member).is_none());
        free.min_by_key(|member| {
            let is_elsewhere = wanted.is_some_and(|zone| *zone != member.zone);
            (is_elsewhere, seats.zones.get(&member.zone).copied().unwrap_or(0), &member.id)
        })
    }

    /// Why a member cannot take a slot.
    fn obstacle(
        &self,
        seats: &ClusterSeats<'_>,
        present: Option<&MemberId>,
        member: &FleetMember,
    ) -> Option<&'static str> {
        let shares = !seats.policy.shares_hosts && seats.has_other(&member.host, present);
        self.unfit(seats.policy, member).or(shares.then_some("its host has another slot of this cluster"))
    }

    /// Why a member cannot take any slot of a cluster.
    fn unfit(&self, policy: &ClusterPolicy, member: &FleetMember) -> Option<&'static str> {
        if self.used.contains(&member.id) {
            Some(UnfitMember::InSlot.words())
        } else if member.is_held {
            Some("it is held back")
        } else if let Some(unfit) = self.input.excluded.get(&member.id) {
            Some(unfit.words())
        } else if policy.class.is_some() && policy.class != member.class {
            Some("it is of another class")
        } else if !policy.zones.is_empty() && !policy.zones.contains(&member.zone) {
            Some("it is in another zone")
        } else {
            None
        }
    }

    /// Which members do not do, or how many if they are many, by the reason.
    fn reasons(&self, seats: &ClusterSeats<'_>, present: Option<&MemberId>) -> String {
        let mut by_reason: BTreeMap<&str, Vec<&MemberId>> = BTreeMap::new();
        for member in self.input.inventory.members() {
            if let Some(reason) = self.obstacle(seats, present, member) {
                by_reason.entry(reason).or_default().push(&member.id);
            }
        }
        if by_reason.is_empty() {
            return "the inventory has no members".to_owned();
        }
        let all = counted(by_reason.values().map(Vec::len).sum(), "member");
        let parts = by_reason.iter().map(|(reason, members)| match &**members {
            // Members that have a slot are not of interest by their names.
            few if few.len() <= NAMED_MAX && *reason != UnfitMember::InSlot.words() => {
                let names: Vec<&str> = few.iter().map(|member| member.as_str()).collect();
                format!("{}: {reason}", names.join(", "))
            }
            many => format!("{} × {reason}", many.len()),
        });
        format!("of {all}: {}", parts.collect::<Vec<_>>().join("; "))
    }

    fn views(&mut self, content: &FleetContent) {
        let old = |name| self.input.current.views.iter().find(|view| view.name == name);
        let mut steps = Vec::new();
        for view in &content.views {
            match old(view.name.clone()) {
                None => steps.push(format!("view {}: begins", view.name)),
                Some(old) if old.route_prefix != view.route_prefix => {
                    steps.push(format!("view {}: another route prefix", view.name))
                }
                Some(old) if old.routes != view.routes => {
                    steps.push(format!("view {}: other routes", view.name))
                }
                Some(old) if old.clusters != view.clusters => {
                    steps.push(format!("view {}: other pools", view.name));
                }
                Some(_) => {}
            }
        }
        let is_gone = |old: &&ViewRecord| content.views.iter().all(|view| view.name != old.name);
        let gone = self.input.current.views.iter().filter(is_gone);
        steps.extend(gone.map(|view| format!("view {}: goes; its routers keep what they have", view.name)));
        self.steps.extend(steps);
    }
}

fn attributes(policy: &ClusterPolicy) -> BTreeMap<String, Value> {
    let json = |value: &toml::Value| serde_json::to_value(value).expect("TOML has no value that JSON lacks");
    policy.pool.iter().map(|(name, value)| (name.clone(), json(value))).collect()
}

#[cfg(test)]
mod tests;
