//! Questions about the size of a cluster: the plan of a resize, giving one up, and what is refused meanwhile.

use std::collections::BTreeMap;

use admin::api::ApiReply;
use fleet::drain::DrainPhase;
use fleet::health::HitCounts;
use fleet::resize::{ClusterResize, GainedKeys, PER_SLOT_ATTRIBUTES};
use fleet::{
    ClusterName, ClusterRecord, FleetContent, FleetPlan, FleetPlanInput, FleetPolicy, PlanError, UnfitMember,
    ViewName, plan, policy_with_slots, texts,
};
use stdx::words::counted;

use super::drains::MOVES_SERVERS;
use super::{PlannedChange, Planner};
use crate::controller::answers::replies::refusal;
use crate::controller::slots::freezes::frozen_scope_of;
use crate::controller::slots::resizes::{phase_words, what};
use crate::controller::slots::warm_ups::sum;
use crate::routers::pool_owners::PoolOwners;
use crate::routers::resize_check::{ResizeTexts, SweptPool};
use crate::routers::route_check::CheckedRoutes;
use crate::service::questions::{ChangeQuestion, ChangeRequest, ScaleQuestion};

/// Keys that are followed through the texts of all phases, eight requests each: a controller decides nothing else meanwhile.
const KEYS_FOLLOWED: usize = if cfg!(test) { 2_000 } else { 20_000 };
/// Gets of a cluster that prove its hit ratio: at 0.95 the standard error is 0.2 points.
const GETS_MIN: u64 = 10_000;

/// Hashes of keys that a check costs at most, where each slot costs one for each key: such a check takes a second.
const HASHES_MAX: usize = 20_000_000;
/// Keys that are followed at least.
const KEYS_FOLLOWED_MIN: usize = 1_000;

/// Whether a member is replaced without phases, which would be a drain within a resize.
fn is_at_once(request: &ChangeRequest) -> bool {
    let ChangeRequest::Replace { now, .. } = request;
    *now
}

/// A resize that a policy asks for.
pub(super) struct ResizeWish {
    /// What the policy wants in the end.
    pub(super) plan: FleetPlan,
    /// The policy, if it is another one than that in force.
    pub(super) policy: Option<String>,
    /// How long new owners are warmed up, in seconds; as the policy says if none.
    pub(super) warm_up_s: Option<u32>,
}

impl Planner<'_> {
    /// A change that must wait for a resize to end, because routers have its phases: the refusal.
    pub(crate) fn refused_while_resizing(&self, change: &ChangeQuestion) -> Result<(), ApiReply> {
        let content = self.facts.view().content();
        let Some((cluster, resize)) = content.resizing() else { return Ok(()) };
        let name = &cluster.name;
        match change {
            ChangeQuestion::CancelScale(_) | ChangeQuestion::PolicyAtOnce(_) => return Ok(()),
            ChangeQuestion::Scale(scale) if scale.cluster == *name && scale.slots == resize.from => {
                return Ok(());
            }
            // The text of a lost member's replacement has failed, and what ends the router is found: this is the way on.
            ChangeQuestion::Requests(requests)
                if self.rollout.has_failed() && requests.iter().all(is_at_once) =>
            {
                return Ok(());
            }
            _ => {}
        }
        let over = format!(
            "wait until it is done (`control status`), or give it up (`control scale {name} --cancel`)"
        );
        let over = match self.rollout.has_failed() {
            true => {
                format!("`control replace MEMBER --now` once it is known what ends the router; then {over}")
            }
            false => over,
        };
        // It goes on, and is given up, only when a person has thawed it.
        let (waits, hint) = match frozen_scope_of(self.facts.view(), &content.clone().with_resize_done()) {
            None => (String::new(), over),
            Some((scope, why)) => (
                format!("; it waits, because {scope} is frozen: {why}"),
                format!("`control thaw {scope} --why …` when that is over; then {over}"),
            ),
        };
        let error = format!("{} is going on, and nothing else changes meanwhile", what(name, resize));
        Err(refusal(409, &format!("{error}{waits}\n  hint: {hint}")))
    }

    /// A policy without phases, whatever the fleet is about: a resize that is going on is over.
    pub(super) fn planned_at_once(&self, text: &str) -> Result<PlannedChange, ApiReply> {
        let policy = FleetPolicy::parse(text).map_err(|error| refusal(422, &error.to_string()))?;
        let current = self.facts.view().content();
        let ground = current.clone().with_resize_done();
        let planned = self.plan_of(&policy, &ground);
        let mut plan = planned.map_err(|error| refusal(422, &self.missing(&error, &policy, &ground)))?;
        if let Some((cluster, resize)) = current.resizing() {
            plan.steps.push(format!("{} ends where it is", what(&cluster.name, resize)));
        }
        self.resized_at_once(ResizeWish { plan, policy: Some(text.to_owned()), warm_up_s: None }, &current)
    }

    /// Another number of slots, as a person asks for it.
    pub(super) fn planned_scale(&self, question: &ScaleQuestion) -> Result<PlannedChange, ApiReply> {
        let ScaleQuestion { cluster: name, slots, warm_up_s, now } = question;
        let refused = |status, error: &str| refusal(status, &format!("scale {name}: {error}"));
        let current = self.facts.view().content();
        if let Some((resized, resize)) = current.resizing().filter(|(resized, _)| resized.name == *name)
            && resize.from == *slots
        {
            return self.planned_scale_cancel(&resized.name);
        }
        let Some(text) = self.facts.view().policy_text() else {
            let hint = "`control plan --policy FILE` gives it one";
            return Err(refused(422, &format!("the fleet has no policy\n  hint: {hint}")));
        };
        let Some(policy) = FleetPolicy::parse(text).ok().and_then(|policy| policy.cluster(name).cloned())
        else {
            return Err(refused(404, "the policy has no cluster of this name"));
        };
        if let Some(attribute) = PER_SLOT_ATTRIBUTES.iter().find(|one| policy.pool.contains_key(**one)) {
            return Err(refused(
                422,
                &format!(
                    "its pool has `{attribute}`, with a value for each slot\n  hint: change it together with `slots` in the policy, and \
                     `control plan --policy FILE`"
                ),
            ));
        }
        let is_other = policy.slots != *slots;
        let text = match is_other {
            true => {
                policy_with_slots(text, name, *slots).map_err(|error| refused(422, &error.to_string()))?
            }
            false => None,
        };
        let wanted = match &text {
            Some(text) => FleetPolicy::parse(text).map_err(|error| refused(422, &error.to_string()))?,
            None => self.facts.view().policy().cloned().expect("its text is there"),
        };
        let plan = self
            .plan_of(&wanted, &current)
            .map_err(|error| refused(422, &self.missing(&error, &wanted, &current)))?;
        if current.resized_in(&plan.content).next().is_none() {
            let words = format!("{name} has {}", counted(*slots, "slot"));
            let mut planned =
                PlannedChange { policy: text, is_complete: Some(words), ..PlannedChange::default() };
            if is_other {
                planned.plan = plan;
                planned.plan.steps.push("another policy, which wants what is in force".to_owned());
            }
            return Ok(planned);
        }
        let wish = ResizeWish { plan, policy: text, warm_up_s: *warm_up_s };
        if *now { self.resized_at_once(wish, &current) } else { self.planned_resize(wish) }
    }

    /// What a policy wants.
    pub(super) fn plan_of(
        &self,
        policy: &FleetPolicy,
        current: &FleetContent,
    ) -> Result<FleetPlan, PlanError> {
        let (inventory, excluded) = (self.facts.view().inventory(), &self.facts.excluded_by(Some(policy)));
        plan(&FleetPlanInput { policy, inventory, current, excluded })
    }

    /// Why a policy has no plan; of members that are missing, how many of which class and in which zones.
    pub(super) fn missing(&self, error: &PlanError, policy: &FleetPolicy, current: &FleetContent) -> String {
        let PlanError::NoSpare { cluster, slot, .. } = error else { return error.to_string() };
        let hint = self.standards_hint(policy).map_or(String::new(), |hint| format!("\n  hint: {hint}"));
        let (Some(policy), Some(old)) = (policy.cluster(cluster), current.cluster(cluster)) else {
            return format!("{error}{hint}");
        };
        let (needed, missing) = (policy.slots.saturating_sub(old.slots.len()), policy.slots - slot);
        let class = policy.class.as_ref().map_or(String::new(), |class| format!(" of class {class}"));
        let zones: Vec<&str> = policy.zones.iter().map(|zone| zone.as_str()).collect();
        let zones = if zones.is_empty() { String::new() } else { format!(" in zone {}", zones.join(" or ")) };
        let are = if missing == 1 { "is" } else { "are" };
        format!("{} needed, and {missing} {are} missing{class}{zones}: {error}{hint}", counted_are(needed))
    }

    /// What to do about members that have no slot by a policy because it brings the standards of their hosts as well.
    fn standards_hint(&self, policy: &FleetPolicy) -> Option<String> {
        let present = self.facts.view().policy().map_or(&[][..], |policy| &policy.tunings);
        let excluded = self.facts.excluded_by(Some(policy));
        let is_untuned = excluded.values().any(|unfit| *unfit == UnfitMember::Untuned);
        (policy.tunings != present && is_untuned).then(|| {
            "hosts are told the standards of a policy when it is in force: apply it first without the slots that are new (the first policy of a \
             fleet: without [[cluster]] and [[view]]), and as a whole when `control status` says that hosts meet them"
                .to_owned()
        })
    }

    /// All at once, as a person asks.
    fn resized_at_once(&self, wish: ResizeWish, current: &FleetContent) -> Result<PlannedChange, ApiReply> {
        let ResizeWish { mut plan, policy, .. } = wish;
        let names: Vec<ClusterName> = current.resized_in(&plan.content).cloned().collect();
        plan.steps.extend(names.iter().map(|name| {
            format!(
                "at once: keys of {name} that move are cold; until all routers have this generation, what one of them deletes or sets is missed \
                 by others; and a member that had a key before it went elsewhere answers with what it had then; without --now nothing is lost"
            )
        }));
        Ok(PlannedChange { plan, policy, ..PlannedChange::default() })
    }

    /// The first phase of a resize.
    pub(super) fn planned_resize(&self, wish: ResizeWish) -> Result<PlannedChange, ApiReply> {
        let ResizeWish { plan, policy, warm_up_s } = wish;
        let current = self.facts.view().content();
        let names: Vec<&ClusterName> = current.resized_in(&plan.content).collect();
        let [name] = &*names else {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            let error = format!(
                "{} would have other numbers of slots, and one cluster is resized at a time",
                names.join(" and ")
            );
            return Err(refusal(
                422,
                &format!("{error}\n  hint: `control scale CLUSTER N`, one after the other"),
            ));
        };
        let refused = |status, error: &str| refusal(status, &format!("resize {name}: {error}"));
        let at_once = format!(
            "hint: `control scale {name} N --now` does it at once: keys that move are cold, and may be old when they move back"
        );
        if current.beside_resize(&plan.content, name) != current {
            let hint = "`control scale` changes the slots first, then the policy what is left; or `control plan --policy FILE --now`, by \
                        which keys that move are cold, and may be old when they move back";
            return Err(refused(422, &format!("the policy changes something else as well\n  hint: {hint}")));
        }
        let (Some(old), Some(wanted)) = (current.cluster(name), plan.content.cluster(name)) else {
            return Err(refused(422, "it is not in force"));
        };
        for pool in [&old.pool, &wanted.pool] {
            if let Some(attribute) = MOVES_SERVERS.iter().find(|one| pool.contains_key(**one)) {
                let why = "with which a router cannot find the keys of one slot";
                return Err(refused(422, &format!("its pool has `{attribute}`, {why}\n  {at_once}")));
            }
        }
        if !self.rollout.is_rolled_out() {
            return Err(refused(
                409,
                "a rollout is going on; a resize begins when all routers have it (`control status`)",
            ));
        }
        let warm_up_s = warm_up_s.unwrap_or_else(|| self.warm_up_s(policy.as_deref(), name));
        let first = current.clone().with_resize(wanted, warm_up_s);
        let record = first.cluster(name).expect("it is resized");
        let resize = record.resize.as_ref().expect("it is resized");
        self.refuse_unswept(record, resize)?;
        let keys = self.check_routes(&current, &first.clone().in_resize_phase(DrainPhase::ReadNew))?;
        for later in [first.clone().in_resize_phase(DrainPhase::NewOnly), first.clone().with_resize_done()] {
            if let Some(unfit) = self.unfit_text(&later) {
                return Err(refused(422, &unfit));
            }
        }
        let share = self.check_phases(&current, &first, record, resize);
        let share = share.map_err(|why| refused(422, &format!("{why}\n  {at_once}")))?;
        let mut steps = self.words(&plan, record, resize, share);
        if let Some(text) = &policy
            && self.facts.view().policy() == FleetPolicy::parse(text).ok().as_ref()
        {
            steps.push("the policy is the one in force".to_owned());
        }
        Ok(PlannedChange {
            plan: FleetPlan { content: first, steps },
            policy,
            keys,
            ..PlannedChange::default()
        })
    }

    fn warm_up_s(&self, text: Option<&str>, name: &ClusterName) -> u32 {
        let given = text.and_then(|text| FleetPolicy::parse(text).ok());
        let policy = given.as_ref().or(self.facts.view().policy());
        policy
            .and_then(|policy| policy.cluster(name))
            .map_or(fleet::RESIZE_WARM_UP_S, |policy| policy.resize_warm_up_s)
    }

    /// The refusal if a member that must be swept has nobody who can.
    fn refuse_unswept(&self, record: &ClusterRecord, resize: &ClusterResize) -> Result<(), ApiReply> {
        if resize.gains() == GainedKeys::Emptied {
            return Ok(());
        }
        let cannot = record.gaining().iter().find_map(|slot| match self.facts.report_of(&slot.member) {
            None => Some((&slot.member, "no agent beside it is heard")),
            Some(report) if report.sweep.is_none() => {
                Some((
                    &slot.member,
                    "the agent beside it, or the controller with which that takes its turns, is older than this controller",
                ))
            }
            Some(_) => None,
        });
        let Some((member, why)) = cannot else { return Ok(()) };
        let error = format!(
            "resize {}: {member} gets keys that it may have had before, and nobody can delete what it has of them: {why}",
            record.name
        );
        let hint = format!(
            "start or renew what is older; or `control scale {} {} --now`, after which old values may be found",
            record.name, resize.to
        );
        Err(refusal(422, &format!("{error}\n  hint: {hint}")))
    }

    /// Follows sampled keys through all phases, in each view. Returns the largest share of keys that move.
    fn check_phases(
        &self,
        current: &FleetContent,
        first: &FleetContent,
        record: &ClusterRecord,
        resize: &ClusterResize,
    ) -> Result<f64, String> {
        let phase = |phase| texts(&first.clone().in_resize_phase(phase));
        let all = [
            texts(current),
            phase(DrainPhase::ReadOld),
            phase(DrainPhase::ReadNew),
            phase(DrainPhase::NewOnly),
            texts(&first.clone().with_resize_done()),
        ];
        let mut share = 0.0_f64;
        let views: Vec<_> = current.views.iter().filter(|view| current.is_in(record, view)).collect();
        // The thread that decides does nothing else meanwhile, neither for many views nor for many slots.
        let keys = KEYS_FOLLOWED.min(HASHES_MAX / record.slots.len().max(1)) / views.len().max(1);
        let keys = keys.max(KEYS_FOLLOWED_MIN);
        for view in views {
            let compiled = |texts: &BTreeMap<ViewName, String>| {
                let prefix = first.route_prefix(&view.name);
                CheckedRoutes::compile_for(&format!("view {}", view.name), &texts[&view.name], prefix)
            };
            let [before, read_old, read_new, new_only, after] = &all;
            let texts = ResizeTexts {
                before: compiled(before)?,
                read_old: compiled(read_old)?,
                read_new: compiled(read_new)?,
                new_only: compiled(new_only)?,
                after: compiled(after)?,
            };
            let swept = match resize.gains() {
                GainedKeys::Emptied => None,
                GainedKeys::Swept => Some(SweptPool {
                    owners: PoolOwners::new(&record.pool, resize.from)?,
                    addresses: record.slots.iter().map(|slot| slot.address.clone()).collect(),
                }),
            };
            let found =
                texts.check(swept, keys, self.unix_s).map_err(|why| format!("view {}: {why}", view.name))?;
            share = share.max(found);
        }
        Ok(share)
    }

    /// What a resize does, a line each.
    fn words(
        &self,
        plan: &FleetPlan,
        record: &ClusterRecord,
        resize: &ClusterResize,
        share: f64,
    ) -> Vec<String> {
        let (name, warm_up_s) = (&record.name, resize.warm_up_s);
        let grows = if resize.grows() { "grows" } else { "shrinks" };
        let to = counted(resize.to, "slot");
        let mut steps = vec![format!(
            "cluster {name}: {grows} from {} to {to}, in phases that all routers load one after the other:",
            resize.from
        )];
        steps.extend(plan.steps.iter().map(|step| format!("  {step}")));
        let phases = [DrainPhase::ReadOld, DrainPhase::ReadNew, DrainPhase::NewOnly];
        steps.extend(
            phases.iter().enumerate().map(|(at, phase)| format!("  {}. {}", at + 1, phase_words(*phase))),
        );
        steps.push(match resize.gains() {
            GainedKeys::Emptied => "between 1 and 2, members of added slots are emptied".to_owned(),
            GainedKeys::Swept => format!(
                "between 1 and 2, members that stay lose what they have of keys that are not theirs; in the end {} emptied and are spares",
                counted_are(resize.from - resize.to)
            ),
        });
        steps.push(format!(
            "keys that move have two owners for {warm_up_s} s of warm-up at most beside the time of the rollouts; a router that does not load a phase \
             is waited for, and `control status` names it; other keys stay where they are and cost nothing more"
        ));
        steps.push(cost_words(share, self.counts_of(record, resize)));
        steps
    }

    /// Hits and misses of the members that a cluster has now.
    fn counts_of(&self, record: &ClusterRecord, resize: &ClusterResize) -> HitCounts {
        let counts = self.facts.hit_counts();
        let present = record.slots[..resize.from.min(record.slots.len())].iter();
        present.filter_map(|slot| counts.get(&slot.member).copied()).fold(HitCounts::default(), sum)
    }

    /// The end of a resize before it is done.
    pub(super) fn planned_scale_cancel(&self, name: &ClusterName) -> Result<PlannedChange, ApiReply> {
        let current = self.facts.view().content();
        let Some((record, resize)) = current.resizing().filter(|(cluster, _)| cluster.name == *name) else {
            return Err(refusal(404, &format!("{name} is not being resized")));
        };
        let content = current.clone().with_resize_turned_back();
        let from = counted(resize.from, "slot");
        let mut steps = if resize.phase == DrainPhase::ReadOld {
            vec![format!("cluster {name}: keeps its {from}: the new owners of keys were not read yet")]
        } else {
            // Routers that have not come to the phase yet would get its text on the way back.
            if !self.rollout.is_rolled_out() {
                return Err(refusal(
                    409,
                    "the phase is going out; ask again when all routers have it (`control status`)",
                ));
            }
            let turned = content.cluster(name).expect("it is resized");
            self.refuse_unswept(turned, turned.resize.as_ref().expect("it goes back"))?;
            vec![
                format!("cluster {name}: goes back to {from}"),
                "the old owners lack what the new ones have got meanwhile: keys come back to them by the same phases".to_owned(),
            ]
        };
        // The policy wants the size that is given up; a person has to say what becomes of values for each slot.
        let is_by_slot = PER_SLOT_ATTRIBUTES.iter().any(|one| record.pool.contains_key(*one));
        let text = self.facts.view().policy_text().filter(|_| !is_by_slot);
        let policy = text.and_then(|text| policy_with_slots(text, name, resize.from).ok().flatten());
        if policy.is_none() {
            steps.push(format!(
                "the policy still wants {}: change it, or the next plan resizes again",
                counted(resize.to, "slot")
            ));
        }
        let policy = policy.filter(|policy| Some(&**policy) != self.facts.view().policy_text());
        Ok(PlannedChange { plan: FleetPlan { content, steps }, policy, ..PlannedChange::default() })
    }
}

fn counted_are(count: usize) -> String {
    let are = if count == 1 { "is" } else { "are" };
    format!("{} {are}", counted(count, "member"))
}

/// What a resize costs the backend: k of n servers' keys cold multiply its load by 1 + k/n · h/(1−h).
fn cost_words(share: f64, counts: HitCounts) -> String {
    let gets = counts.hits.saturating_add(counts.misses);
    let by_phases = "by phases, a miss of a key that moves is looked up in its old owner first, so the backend is asked for what is asked for again \
                     only after the warm-up";
    if gets < GETS_MIN || counts.misses == 0 {
        return format!(
            "at once, it would multiply the misses by 1 + {share:.3} · h / (1 − h) at first, with h the hit ratio, which is not known here: agents know \
             of {gets} gets; {by_phases}"
        );
    }
    let ratio = counts.hits as f64 / gets as f64;
    let factor = 1.0 + share * counts.hits as f64 / counts.misses as f64;
    format!(
        "at once, it would multiply the misses by 1 + {share:.3} · h / (1 − h) = {factor:.2} at first, with the hit ratio h = {ratio:.3} since the servers \
         began; {by_phases}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(share: f64, hits: u64, misses: u64, expected: &str) {
        let words = cost_words(share, HitCounts { hits, misses });
        assert!(words.contains(expected), "{words}");
    }

    #[test]
    fn the_cost_is_a_figure_only_if_the_hit_ratio_is_known() {
        check(1.0 / 3.0, 9_500, 500, "1 + 0.333 · h / (1 − h) = 7.33 at first, with the hit ratio h = 0.950");
        check(1.0 / 3.0, 9_499, 500, "which is not known here: agents know of 9999 gets");
        check(0.5, 20_000, 0, "which is not known here");
    }
}
