//! Resizes: the phases in which a cluster grows or shrinks follow each other as generations.
//!
//! As for a drain, the generation in force says which phase it is, and the machine of [`fleet::drain`] says when the next one may
//! begin. Two things differ. There is no fence: the old owners of keys serve other keys as well and cannot be emptied, so a phase waits
//! for a router that does not load it, and says for which. And before the members that get keys are read, those of a growing
//! cluster are emptied, those of a shrinking one are swept.

use std::collections::{BTreeMap, BTreeSet};

use fleet::drain::{Drain, DrainEvent, DrainPhase, DrainSettings, DrainState};
use fleet::health::{HitCounts, WarmUp, WarmUpStep};
use fleet::resize::{ClusterResize, GainedKeys};
use fleet::rollout::RolloutState;
use fleet::{
    ClusterName, ClusterRecord, Generation, GenerationNumber, MemberId, RouterId, TextDigest, ViewName,
};
use serde_json::{Value, json};
use stdx::clock::Now;
use stdx::words::counted;

use super::drains::DrainStep;
use super::freezes::frozen_scope_of;
use super::warm_ups::sum;
use crate::controller::observing::member_facts::MemberFacts;
use crate::controller::register_mirror::FleetView;
use crate::controller::rollout::published::published;
use crate::controller::rollout::target_rollout::TargetRollout;
use crate::service::authorise::ControlVerb;
use crate::service::turn::SweepOrder;

/// A router that has not loaded a phase for this long is named with what a person can do about it.
const LATE_AFTER_MS: u64 = 300_000;
/// No time ends a phase for a router that has not loaded it.
const NO_FENCE_MS: u64 = u64::MAX;

/// The resize of the generation in force, if it has one.
#[derive(Default)]
pub(crate) struct Resizes {
    phase: Option<ResizeWatch>,
    /// The phase that was watched before something halted it: its time goes on.
    halted: Option<ResizeWatch>,
    /// Members that are swept, and by which order.
    sweeping: BTreeMap<MemberId, SweepOrder>,
}

/// A phase that this controller watches.
struct ResizeWatch {
    /// The generation with which the phase began.
    since: GenerationNumber,
    /// The texts of the phase are those of the generations up to this one.
    until: GenerationNumber,
    texts: BTreeSet<(ViewName, TextDigest)>,
    machine: Drain,
    began: Now,
    warm_up: WarmUp,
}

/// What a pass over a resize is given.
pub(super) struct ResizePass<'p> {
    pub(super) facts: MemberFacts<'p>,
    pub(super) rollout: &'p TargetRollout,
    /// Why the register is away.
    pub(super) away: Option<&'p str>,
    /// No phase ends before.
    pub(super) after: Now,
}

impl Resizes {
    /// Members that are swept, and by which order.
    pub(crate) fn sweeping(&self) -> &BTreeMap<MemberId, SweepOrder> {
        &self.sweeping
    }

    /// Begins a pass, which finds anew who is swept. Returns who was.
    pub(super) fn begin_pass(&mut self) -> BTreeMap<MemberId, SweepOrder> {
        std::mem::take(&mut self.sweeping)
    }

    /// A router's process is gone, as its agent says.
    pub(super) fn leave(&mut self, router: RouterId, now: Now) {
        if let Some(watch) = &mut self.phase {
            watch.machine.on(DrainEvent::Left { router }, now);
        }
    }

    /// The next generation of the resize; a line that says what it waits for; none if nothing is resized. Members that get keys are
    /// added to those that are emptied.
    pub(super) fn step(
        &mut self,
        pass: &ResizePass<'_>,
        emptying: &mut BTreeMap<MemberId, u64>,
    ) -> Option<Result<DrainStep, String>> {
        let current = pass.facts.view().current()?;
        let Some((cluster, resize)) = current.content.resizing() else {
            (self.phase, self.halted) = (None, None);
            return None;
        };
        let what = what(&cluster.name, resize);
        if let Some(why) = halt(pass) {
            // When it goes on, all routers are asked for the phase again.
            self.halted = self.phase.take().or(self.halted.take());
            return Some(Err(format!("{what} waits: {why}")));
        }
        self.watch_phase(pass.facts, cluster, resize);
        let next = self.next_of(pass, cluster, resize, emptying);
        Some(match next {
            Ok((reason, content)) => Ok(DrainStep { verb: ControlVerb::Scale, what, reason, content }),
            Err(note) => Err(format!("{what}: {note}")),
        })
    }

    /// Tells the machine of this phase what agents say of their routers.
    fn watch_phase(&mut self, facts: MemberFacts<'_>, cluster: &ClusterRecord, resize: &ClusterResize) {
        let (view, now) = (facts.view(), facts.now());
        let Some(until) = view.target() else { return };
        if self.phase.as_ref().is_none_or(|watch| watch.until != until) {
            let (since, texts) = phase_texts(view, cluster);
            let before = self.phase.take().filter(|watch| watch.since == since);
            let warm_up_ms = u64::from(resize.warm_up_s) * 1000;
            let settings = DrainSettings { fence_ms: NO_FENCE_MS, warm_up_ms };
            let (machine, began, warm_up) = match before {
                Some(before) => (before.machine, before.began, before.warm_up),
                None => {
                    // All that are known, at once: a machine that knows of nobody waits for nobody.
                    let routers = facts.agents().routers().map(|report| report.router.clone());
                    let machine = Drain::resume(routers, resize.phase, settings, now);
                    match self.halted.take().filter(|watch| watch.since == since) {
                        Some(halted) => (machine, halted.began, halted.warm_up),
                        None => (machine, now, WarmUp::new(now)),
                    }
                }
            };
            self.phase = Some(ResizeWatch { since, until, texts, machine, began, warm_up });
        }
        let Some(watch) = &mut self.phase else { return };
        let mut events = vec![DrainEvent::Tick];
        for report in facts.agents().routers() {
            let router = report.router.clone();
            events.push(DrainEvent::Appeared { router: router.clone() });
            let text = report.loaded.clone().map(|loaded| (report.view.clone(), loaded));
            if text.is_some_and(|text| watch.texts.contains(&text)) {
                events.push(DrainEvent::Acknowledged { router, phase: resize.phase });
            }
        }
        // Members that stay have keys of their own, and their hit ratio says nothing of those that they get. Without routers there is
        // nobody to warm up for.
        let is_warm = resize.grows()
            && resize.phase == DrainPhase::ReadNew
            && watch.warm_up.step(
                now,
                gaining_counts(facts, cluster),
                staying_counts(facts, cluster, resize),
            ) == WarmUpStep::Warm;
        if is_warm || facts.agents().routers().next().is_none() {
            events.push(DrainEvent::Warm);
        }
        watch.machine.on_all(events, now);
    }

    /// The next generation of a resize and its reason; or a note about what it waits for.
    fn next_of(
        &mut self,
        pass: &ResizePass<'_>,
        cluster: &ClusterRecord,
        resize: &ClusterResize,
        emptying: &mut BTreeMap<MemberId, u64>,
    ) -> Result<(String, fleet::FleetContent), String> {
        let (facts, words) = (pass.facts, phase_words(resize.phase));
        let content = facts.view().content();
        if facts.now() < pass.after {
            return Err(format!("{words}; agents come back to this controller first"));
        }
        let Some(watch) = &self.phase else { return Err(words.to_owned()) };
        let since = watch.since;
        let next = match (watch.machine.state(), resize.phase) {
            (DrainState::Routers(next), phase) if next > phase => Some(next),
            (DrainState::Retiring | DrainState::Done, DrainPhase::NewOnly) => None,
            (DrainState::Retiring | DrainState::Done | DrainState::Fencing, _) => Some(DrainPhase::NewOnly),
            (DrainState::Routers(_), _) => return Err(watch.waits_for(facts, &cluster.name, resize)),
        };
        // All routers send deletes to both now: whatever members that get keys have of them goes, and nothing old comes after.
        if resize.phase == DrainPhase::ReadOld {
            match resize.gains() {
                GainedKeys::Emptied => empty(facts, cluster, since, emptying)?,
                GainedKeys::Swept => self.sweep(facts, cluster, resize, since)?,
            }
        }
        if !pass.rollout.is_rolled_out() {
            return Err(format!("{words}; waits for the present rollout"));
        }
        Ok(match next {
            Some(next) => (
                format!("{}: {}", what(&cluster.name, resize), phase_words(next)),
                content.in_resize_phase(next),
            ),
            None => {
                let to = counted(resize.to, "slot");
                (
                    format!("cluster {} has {to}: the new owners have their keys", cluster.name),
                    content.with_resize_done(),
                )
            }
        })
    }

    /// Has members that stay swept of keys that are not theirs; or a note about one that is not yet.
    fn sweep(
        &mut self,
        facts: MemberFacts<'_>,
        cluster: &ClusterRecord,
        resize: &ClusterResize,
        since: GenerationNumber,
    ) -> Result<(), String> {
        let mut waits = Vec::new();
        for (own, slot) in cluster.gaining().iter().enumerate() {
            let order = SweepOrder { number: since.0, pool: cluster.pool.clone(), slots: resize.from, own };
            self.sweeping.insert(slot.member.clone(), order);
            let report = facts.report_of(&slot.member);
            let sweep = report.and_then(|report| report.sweep.as_ref());
            match (report, sweep) {
                (_, Some(sweep)) if sweep.done >= since.0 => {}
                (_, Some(sweep)) => waits.push((slot, sweep.trouble.clone())),
                (Some(_), None) => {
                    waits.push((
                        slot,
                        Some(
                            "the agent beside it, or the controller with which that takes its turns, is older than this controller and does not know how to sweep"
                                .to_owned(),
                        ),
                    ));
                }
                (None, None) => waits.push((slot, Some("no agent beside it is heard".to_owned()))),
            }
        }
        // What needs a person comes first.
        waits.sort_by_key(|(_, trouble)| trouble.is_none());
        let Some((slot, trouble)) = waits.first() else { return Ok(()) };
        let member = &slot.member;
        let others = match waits.len() - 1 {
            0 => String::new(),
            count => format!(" and {}", counted(count, "other")),
        };
        Err(match trouble {
            Some(trouble) => {
                format!("{member}{others} must lose keys that are not its own, and has not: {trouble}")
            }
            None => {
                format!("{member}{others} loses keys that are not its own before it gets those that move")
            }
        })
    }
}

impl ResizeWatch {
    /// What the routers' phase waits for.
    fn waits_for(&self, facts: MemberFacts<'_>, cluster: &ClusterName, resize: &ClusterResize) -> String {
        let words = phase_words(resize.phase);
        match self.machine.behind() {
            Some(router) if facts.now().ms() >= self.began.ms() + LATE_AFTER_MS => format!(
                "{words}; waits for {router}, which has not loaded the phase for {} min: if its host is gone for good, `control members \
                 --remove-host`; or give it up ({}`control scale {cluster} --cancel`)",
                LATE_AFTER_MS / 60_000,
                // Later phases are given up only when their rollout is over.
                if resize.phase == DrainPhase::ReadOld { "" } else { "`control rollout resume`, then " }
            ),
            Some(router) => format!("{words}; waits for {router}"),
            None if resize.phase == DrainPhase::ReadNew => {
                format!("{words}; all routers have it, and the new owners get warm")
            }
            None => words.to_owned(),
        }
    }
}

/// Has members of added slots emptied; or a note about one that is not yet.
fn empty(
    facts: MemberFacts<'_>,
    cluster: &ClusterRecord,
    since: GenerationNumber,
    emptying: &mut BTreeMap<MemberId, u64>,
) -> Result<(), String> {
    let gaining = cluster.gaining().iter().map(|slot| &slot.member);
    emptying.extend(gaining.clone().map(|member| (member.clone(), since.0)));
    let mut waits = gaining.filter(|member| !facts.is_emptied(member, since));
    waits.next().map_or(Ok(()), |member| Err(format!("{member} is emptied before it is read")))
}

fn gaining_counts(facts: MemberFacts<'_>, cluster: &ClusterRecord) -> HitCounts {
    let counts = facts.hit_counts();
    let count = |member: &MemberId| counts.get(member).copied().unwrap_or_default();
    cluster.gaining().iter().map(|slot| count(&slot.member)).fold(HitCounts::default(), sum)
}

/// Counts of the slots of a growing cluster that it had before.
fn staying_counts(facts: MemberFacts<'_>, cluster: &ClusterRecord, resize: &ClusterResize) -> HitCounts {
    let counts = facts.hit_counts();
    let count = |member: &MemberId| counts.get(member).copied().unwrap_or_default();
    let staying = &cluster.slots[..resize.from.min(cluster.slots.len())];
    staying
        .iter()
        .filter(|slot| !slot.is_cold)
        .map(|slot| count(&slot.member))
        .fold(HitCounts::default(), sum)
}

/// Why nothing may go on, whatever the machine says.
fn halt(pass: &ResizePass<'_>) -> Option<String> {
    if let Some(away) = pass.away {
        return Some(format!("the register is away: {away}"));
    }
    if let Some(RolloutState::Halted(evidence)) = pass.rollout.state() {
        return Some(format!("the rollout of its phase has halted: {evidence}"));
    }
    let view = pass.facts.view();
    let frozen = frozen_scope_of(view, &view.content().with_resize_done());
    frozen.map(|(scope, why)| format!("{scope} is frozen: {why}"))
}

/// The generation with which a cluster came into its phase with the members that it has, and the texts of that and the later ones: to
/// a member that has taken a slot since, no router of an earlier text sends deletes.
fn phase_texts(
    view: &FleetView,
    cluster: &ClusterRecord,
) -> (GenerationNumber, BTreeSet<(ViewName, TextDigest)>) {
    let (mut since, mut texts) = (GenerationNumber(0), BTreeSet::new());
    let mut next = view.current();
    let has_phase = |one: &&Generation| {
        one.content.resizing().is_some_and(|(other, resize)| {
            let is_phase = (&other.name, Some(resize)) == (&cluster.name, cluster.resize.as_ref());
            let members = |cluster: &ClusterRecord| -> Vec<MemberId> {
                cluster.slots.iter().map(|slot| slot.member.clone()).collect()
            };
            is_phase && members(other) == members(cluster)
        })
    };
    while let Some(one) = next.filter(has_phase) {
        since = one.number;
        texts.extend(published(one.number, &one.content).0.digests);
        next = one.parent.and_then(|number| view.generations().get(&number));
    }
    (since, texts)
}

/// Where the resize is, for people, before a pass has looked at it.
pub(super) fn line(view: &FleetView) -> Option<String> {
    let (cluster, resize) = view.current()?.content.resizing()?;
    Some(format!("{}: {}", what(&cluster.name, resize), phase_words(resize.phase)))
}

/// The resize for programs.
pub(crate) fn resize_json(view: &FleetView) -> Value {
    let Some((cluster, resize)) = view.current().and_then(|current| current.content.resizing()) else {
        return Value::Null;
    };
    json!({"cluster": cluster.name, "from": resize.from, "to": resize.to, "phase": resize.phase})
}

/// Which resize.
pub(crate) fn what(cluster: &ClusterName, resize: &ClusterResize) -> String {
    format!("the resize of {cluster} from {} to {}", resize.from, counted(resize.to, "slot"))
}

/// What routers do with keys that move in a phase.
pub(crate) fn phase_words(phase: DrainPhase) -> &'static str {
    match phase {
        DrainPhase::ReadOld => "the old owners of keys that move are read, deletes go to both",
        DrainPhase::ReadNew => "the new owners are read and warmed up from the old ones, deletes go to both",
        DrainPhase::NewOnly => "the new owners alone are read, deletes go to both",
    }
}
