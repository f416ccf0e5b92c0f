//! Bases: what a router may have whose turn has not come, and since when nobody uses a member that has left its slot.
//!
//! That is the newest generation that all routers have had. It is written down, one write for each rollout, so that a controller
//! that is started does not take a generation for proven that was on its way. If that write is lost, an older generation counts,
//! and routers that have more keep what they have.

use fleet::rollout::{HaltEvidence, LayeredRollout, RolloutLane, RolloutState};
use fleet::{ClusterRecord, FleetContent, Generation, GenerationNumber, gone_back_to};

use super::TargetRollout;
use crate::controller::register_mirror::FleetView;
use crate::controller::rollout::failures::KeptFailures;

impl TargetRollout {
    /// What routers may have whose turn for a generation has not come, and how it goes out: a plan says the same as the rollout does.
    /// `before` is the target before it, if that is known.
    pub(crate) fn lane_of<'v>(
        &self,
        view: &'v FleetView,
        failures: &KeptFailures,
        next: &Generation,
        before: Option<GenerationNumber>,
    ) -> (Option<&'v Generation>, RolloutLane) {
        let base = self.base_of(view, failures, next, before);
        let base = base.and_then(|number| view.generations().get(&number));
        // All routers have had it: whoever comes gets it at once.
        if self.settled(view) == Some(next.number) {
            return (base, RolloutLane::Rollback);
        }
        let nothing = FleetContent::default();
        (base, lane(base.map_or(&nothing, |base| &base.content), &next.content))
    }

    /// What routers may have whose turn has not come: the newest generation that all have had, and none that has failed.
    fn base_of(
        &self,
        view: &FleetView,
        failures: &KeptFailures,
        current: &Generation,
        before: Option<GenerationNumber>,
    ) -> Option<GenerationNumber> {
        let generations = view.generations();
        // What was gone back from has failed: no router gets it that lacks it, whoever has gone back.
        if let Some(back) = gone_back_to(generations, current) {
            let parent = current.parent.and_then(|parent| generations.get(&parent));
            let is_lower = |parent: &&Generation| parent.lower == Some(back.number);
            return match parent.filter(is_lower).and(back.parent) {
                Some(before) if !self.has_all_lower(current.parent) => {
                    self.lower_base(view, failures, before)
                }
                _ => Some(back.number),
            };
        }
        let has_all = self.has_reached_all(before);
        let settled = self.settled(view).max(has_all);
        let is_known =
            |number: &GenerationNumber| *number < current.number && generations.contains_key(number);
        // Of an older register nothing is known but the chain.
        let first =
            settled.filter(is_known).or_else(|| before.or(current.parent).map(|one| self.proven(one)));
        let first = generations.get(&first?);
        let mut chain = std::iter::successors(first, |one| generations.get(&one.parent?));
        chain.find(|one| !failures.has_failed(one)).map(|one| one.number)
    }

    /// The generation before, if its rollout here has come to its end.
    fn has_reached_all(&self, before: Option<GenerationNumber>) -> Option<GenerationNumber> {
        let done = self.machine.as_ref().filter(|machine| machine.state() == RolloutState::Done);
        done.map(LayeredRollout::generation).filter(|done| before == Some(*done))
    }

    /// Not a generation that is still on its way, for its canaries have not shown yet that it is good.
    fn proven(&self, before: GenerationNumber) -> GenerationNumber {
        match &self.machine {
            // Where there was nothing before, there is nothing else to have.
            Some(going)
                if going.generation() == before
                    && going.proven() > GenerationNumber(0)
                    && going.state() != RolloutState::Done =>
            {
                going.proven()
            }
            _ => before,
        }
    }

    /// The lower generation that was made with a target, while routes of the target are not with all routers.
    pub(super) fn lower_of<'v>(&self, view: &'v FleetView, target: &Generation) -> Option<&'v Generation> {
        let lower = view.generations().get(&target.lower?);
        lower.filter(|_| self.settled(view) < Some(target.number))
    }

    /// Whether all routers have the lower generation of a target, as far as this controller has seen.
    fn has_all_lower(&self, target: Option<GenerationNumber>) -> bool {
        let machine = self.machine.as_ref().filter(|machine| Some(machine.generation()) == target);
        machine.is_some_and(|machine| !machine.is_in_slots())
    }

    /// What all routers have had before a lower generation, which was made while the routes of `before` were on their way.
    pub(super) fn lower_base(
        &self,
        view: &FleetView,
        failures: &KeptFailures,
        before: GenerationNumber,
    ) -> Option<GenerationNumber> {
        let generations = view.generations();
        let before = generations.get(&before)?;
        let Some(lower) = before.lower.and_then(|lower| generations.get(&lower)) else {
            return self.base_of(view, failures, before, None);
        };
        if self.has_all_lower(Some(before.number)) && !failures.has_failed(lower) {
            return Some(lower.number);
        }
        self.lower_base(view, failures, lower.parent?)
    }

    /// Whether nothing but other routes is on its way: a lost member does not wait for that.
    pub(crate) fn brings_routes_only(&self, view: &FleetView) -> bool {
        let is_in_slots = self.machine.as_ref().is_some_and(LayeredRollout::is_in_slots);
        !is_in_slots && self.routes_before(view).is_some()
    }

    /// What routers have whose turn has not come, if the target brings other routes and its rollout goes on after a change of slots: then
    /// that is a change of both contents. Routes that have failed do not go on, nor what a drain is in, nor those that routers have
    /// halted: what these have shown would be forgotten.
    pub(crate) fn routes_before<'v>(&self, view: &'v FleetView) -> Option<&'v Generation> {
        let is_halted = matches!(self.state(), Some(RolloutState::Halted(HaltEvidence::Router { .. })));
        let current = view.current().filter(|_| !self.has_failed() && !is_halted)?;
        let before = self.base_of_target(view)?;
        let is_drained = current.content.draining().or(before.content.draining()).is_some();
        let is_routes = lane(&before.content, &current.content) == RolloutLane::Routes;
        (is_routes && !is_drained).then_some(before)
    }

    /// What all routers have had before the target, while they do not all have it; `None` also if that is not kept any more.
    pub(crate) fn base_of_target<'v>(&self, view: &'v FleetView) -> Option<&'v Generation> {
        let base = match &self.machine {
            _ if self.is_rolled_out() || self.settled(view) >= view.target() => None,
            Some(machine) => Some(machine.base()),
            None => self.failed.base(),
        };
        view.generations().get(&base?)
    }

    /// What a change of slots stands on while the target is not with all routers. Other routes of it are not proven, and nobody shall get
    /// them because of a lost server: then it is what all routers have had, with the members that slots have now, and the target is
    /// given up.
    pub(crate) fn ground(&self, view: &FleetView) -> (FleetContent, Option<GenerationNumber>) {
        let current = view.content();
        let Some(before) = self.base_of_target(view) else { return (current, None) };
        if lane(&before.content, &current) == RolloutLane::SlotChange {
            return (current, None);
        }
        let ground = before.content.clone().with_members_of(&current);
        // A slot that the target has taken away may have a member that has got another one since.
        if ground.member_of_two_slots().is_some() { (current, None) } else { (ground, view.target()) }
    }
}

/// A phase of a resize, as a drain's: routers that have either text read what is the same, and send deletes to both owners.
fn is_resize_step(old: &ClusterRecord, new: &ClusterRecord) -> bool {
    let is_one = old.name == new.name && has_same_others(old, new);
    is_one && (old.resize.is_some() || new.resize.is_some())
}

/// The same clusters answer for it, and get copies of its requests.
fn has_same_others(old: &ClusterRecord, new: &ClusterRecord) -> bool {
    (&old.gutter, &old.warm_up, &old.shadow) == (&new.gutter, &new.warm_up, &new.shadow)
}

/// How carefully a generation goes out. Where there was nothing, there is nothing to break.
pub(crate) fn lane(old: &FleetContent, new: &FleetContent) -> RolloutLane {
    if old.views.is_empty() {
        return RolloutLane::Rollback;
    }
    let is_same_shape = old.views == new.views
        && old.clusters.len() == new.clusters.len()
        && old.clusters.iter().zip(&new.clusters).all(|(old, new)| {
            old.name == new.name
                && old.pool == new.pool
                && has_same_others(old, new)
                && old.slots.len() == new.slots.len()
                || is_resize_step(old, new)
        });
    if is_same_shape { RolloutLane::SlotChange } else { RolloutLane::Routes }
}
