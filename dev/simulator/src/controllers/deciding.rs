//! Slots and their members: the plan, the budget, quarantine, flushes and warm-ups of `fleet`.

use std::collections::BTreeSet;

use fleet::health::{ColdSlots, HealthWatch, HitCounts, StaleMember, UnitShare, WarmUpStep, check_headroom};
use fleet::{
    Excluded, FleetContent, FleetPlan, FleetPlanInput, FleetPolicy, MemberId, PlanError, Replacement,
    SlotChanges, UnfitMember, change_slots, plan,
};
use stdx::clock::Now;

use super::publishing::{Draft, routes_text};
use super::{ControllerGroup, Excuse, PassResult, SILENCE_MS};
use crate::bug::PlantedBug;
use crate::hosts::SimulatedHost;
use crate::load::FluidLoad;
use crate::register::{Author, PublishOutcome, RoutesKind};

/// The default of `backend_headroom`.
const HEADROOM: f64 = 0.5;
/// Plans of one pass: a member that cannot be flushed is left out of the next one.
const PLANS_MAX: usize = 4;

impl ControllerGroup {
    /// Gives slots of lost members to others.
    pub(super) fn replace_lost(
        &mut self,
        now: Now,
        now_ms: u64,
        lost: &[usize],
        hosts: &mut [SimulatedHost],
        watch: &mut HealthWatch,
        result: &mut PassResult,
    ) {
        // The texts of a rollout that is going are not proven: nobody shall get them because of a replacement.
        if lost.is_empty() || !self.is_rolled_out() {
            return;
        }
        let wishes: Vec<Replacement> = lost.iter().map(|slot| wish(&self.places[*slot].member)).collect();
        let current = self.content.clone();
        let policy = self.policy.clone();
        let Some((plan, errors)) = self.plan(now, now_ms, &policy, &current, &wishes, hosts, watch) else {
            return;
        };
        if !errors.is_empty() {
            let kept = |slot: &&usize| has_member(&plan.content, &self.places[**slot].member);
            result.excuses.extend(lost.iter().filter(kept).map(|slot| Excuse::Slot(*slot)));
        }
        if plan.content != current {
            let draft = Draft { content: plan.content, routes: self.routes_now(), author: Author::Health };
            self.publish(self.target, &current, draft);
        }
    }

    /// Carries out what operators want, as seen from the desk.
    pub(super) fn serve_desk(
        &mut self,
        now: Now,
        now_ms: u64,
        hosts: &mut [SimulatedHost],
        load: &FluidLoad,
        watch: &mut HealthWatch,
    ) {
        // The desk's own watch of the register is late by one pass, or by more.
        if let Some(seen) = self.register.target().filter(|_| now_ms >= self.desk.lags_until_ms) {
            self.desk_reads(seen);
        }
        // A number must be above what routers have, so they must have been heard.
        if !self.is_rolled_out() || !self.has_heard_routers(now_ms) || self.wishes() == 0 {
            return;
        }
        let current = self.desk.content.clone();
        if let Some(kind) = self.desk.routes.front().copied() {
            let is_checked = !self.has(PlantedBug::CheckOmitted);
            if is_checked && kind == RoutesKind::Wrong {
                self.desk.routes.pop_front();
                return;
            }
            let mut policy = self.policy.clone();
            policy.views[0].routes = routes_text(kind, self.desk.seen.number + 1);
            let Some((plan, _)) = self.plan(now, now_ms, &policy, &current, &[], hosts, watch) else {
                return;
            };
            let draft = Draft { content: plan.content, routes: kind, author: Author::Operator };
            if self.publish_from_desk(&current, draft) {
                self.policy = policy;
                self.desk.routes.pop_front();
            }
        } else if let Some(slot) = self.desk.slots.front().copied().filter(|slot| self.fits(*slot, load)) {
            let member = &current.clusters[slot / self.shape.slots].slots[slot % self.shape.slots].member;
            let (wishes, policy) = ([wish(member)], self.policy.clone());
            let Some((plan, _)) = self.plan(now, now_ms, &policy, &current, &wishes, hosts, watch) else {
                return;
            };
            let draft = Draft { content: plan.content, routes: self.routes_now(), author: Author::Operator };
            if self.publish_from_desk(&current, draft) {
                self.desk.slots.pop_front();
            }
        }
    }

    /// Whether the wish is fulfilled. A desk that was overtaken reads the target, and tries again with the next pass.
    fn publish_from_desk(&mut self, current: &FleetContent, draft: Draft) -> bool {
        let published = self.publish(self.desk.seen, current, draft);
        if published == PublishOutcome::Overtaken
            && let Some(seen) = self.register.target()
        {
            self.desk_reads(seen);
        }
        matches!(published, PublishOutcome::Done(_))
    }

    /// A plan whose new members are empty.
    #[allow(clippy::too_many_arguments, reason = "what a plan is made from")]
    fn plan(
        &self,
        now: Now,
        now_ms: u64,
        policy: &FleetPolicy,
        current: &FleetContent,
        wishes: &[Replacement],
        hosts: &mut [SimulatedHost],
        watch: &mut HealthWatch,
    ) -> Option<(FleetPlan, Vec<PlanError>)> {
        let mut excluded = self.excluded(now, now_ms, current, hosts, watch);
        for _ in 0..PLANS_MAX {
            let input = FleetPlanInput { policy, inventory: &self.inventory, current, excluded: &excluded };
            // Routes change with routes, and slots with slots.
            let (plan, errors) = match wishes {
                [] => (plan(&input).ok()?, Vec::new()),
                _ => {
                    let SlotChanges { plan, unmet } = change_slots(&input, wishes);
                    (plan, unmet)
                }
            };
            let stale = self.flush(now, now_ms, current, &plan.content, hosts);
            if stale.is_empty() {
                return Some((plan, errors));
            }
            excluded.extend(stale.into_iter().map(|member| (member, UnfitMember::NotEmptied)));
        }
        None
    }

    /// Members that take no slot now: in quarantine, without an answer, or with an agent that is silent.
    fn excluded(
        &self,
        now: Now,
        now_ms: u64,
        current: &FleetContent,
        hosts: &[SimulatedHost],
        watch: &mut HealthWatch,
    ) -> Excluded {
        let used: BTreeSet<&MemberId> =
            current.clusters.iter().flat_map(|one| one.slots.iter().map(|slot| &slot.member)).collect();
        let has_quarantine = !self.has(PlantedBug::QuarantineIgnored);
        let is_unfit = |(at, host): &(usize, &SimulatedHost)| {
            now_ms - self.heard_ms[*at] > SILENCE_MS
                || !host.answers_probes(now_ms)
                || (has_quarantine && watch.quarantine().check(now, &host.member, &host.id).is_err())
        };
        let mut free = hosts.iter().enumerate().filter(|(_, host)| !used.contains(&host.member));
        let mut excluded = Excluded::new();
        free.by_ref().filter(|one| is_unfit(one)).for_each(|(_, host)| {
            excluded.insert(host.member.clone(), UnfitMember::NoAnswer);
        });
        excluded
    }

    /// Lets the agents of new members flush them. Returns those that have not.
    fn flush(
        &self,
        now: Now,
        now_ms: u64,
        current: &FleetContent,
        planned: &FleetContent,
        hosts: &mut [SimulatedHost],
    ) -> Vec<MemberId> {
        let mut stale = Vec::new();
        for (_, _, member) in super::publishing::differences(current, planned) {
            let host = &mut hosts[self.host_of[&member]];
            let waits = StaleMember::new(member.clone(), host.flushes);
            let reported = if self.has(PlantedBug::FlushAssumed) {
                host.flushes + 1
            } else {
                host.flush(now_ms);
                host.flushes
            };
            if waits.reported(reported, now).ok().and_then(|flushed| flushed.enter(now).ok()).is_none() {
                stale.push(member);
            }
        }
        stale
    }

    /// Ends warm-ups by the real rule.
    pub(super) fn warm_up(&mut self, now_ms: u64, load: &mut FluidLoad) {
        let (now, slots) = (Now::at_ms(now_ms), self.shape.slots);
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

fn wish(member: &MemberId) -> Replacement {
    Replacement { member: member.clone(), by: None }
}

fn has_member(content: &FleetContent, member: &MemberId) -> bool {
    content.slot_of(member).is_some()
}
