//! Drains: the phases in which a living member's slot goes to another one follow each other as generations.
//!
//! The generation in force says which phase it is, and the machine of [`fleet::drain`] says when the next one may begin. What
//! else is needed comes from turns and probes, so a controller that has just started, or another one, goes on.

use std::collections::{BTreeMap, BTreeSet};

use fleet::drain::{Drain, DrainEvent, DrainPhase, DrainSettings, DrainState};
use fleet::health::{HitCounts, SlotMember, WarmUp, WarmUpStep};
use fleet::rollout::RolloutState;
use fleet::{
    ClusterName, FleetContent, Generation, GenerationNumber, MemberId, RouterId, SlotRecord, TextDigest,
    ViewName,
};
use serde_json::{Value, json};
use stdx::clock::Now;

use super::freezes::frozen_scope_of;
use super::resizes::{self, ResizePass, Resizes};
use super::warm_ups::{WarmUps, sum};
use crate::controller::observing::member_facts::MemberFacts;
use crate::controller::register_mirror::FleetView;
use crate::controller::rollout::published::published;
use crate::controller::rollout::target_rollout::{ALL_HEARD_MS, TargetRollout};
use crate::service::authorise::ControlVerb;
use crate::service::turn::SweepOrder;

/// A new member that is not read yet and does not answer for this long is given up: nothing is lost with it.
const NEW_LOST_AFTER_MS: u64 = 10_000;
/// The host of an old member is gone if it does not answer for this long and its agent does not say that it runs.
const OLD_GONE_AFTER_MS: u64 = 30_000;

/// The drain or the resize of the generation in force, if it has one: there is one of them at a time.
pub(crate) struct Drains {
    resizes: Resizes,
    /// The phase that is going on.
    phase: Option<DrainWatch>,
    /// Where it was at the last pass, for people, and in which generation.
    line: Option<(GenerationNumber, String)>,
    /// No phase ends before.
    after: Now,
    /// Members of a drained slot that are emptied, and by which order.
    emptying: BTreeMap<MemberId, u64>,
    /// New members of slots that are warmed up.
    warm_ups: WarmUps,
}

/// A phase that this controller watches.
struct DrainWatch {
    /// The generation with which the phase began.
    since: GenerationNumber,
    /// The texts of the phase are those of the generations up to this one.
    until: GenerationNumber,
    texts: BTreeSet<(ViewName, TextDigest)>,
    machine: Drain,
    warm_up: WarmUp,
}

/// The drained slot of the generation in force.
struct DrainedSlot {
    cluster: ClusterName,
    slot: SlotRecord,
    phase: DrainPhase,
    old: MemberId,
    new: MemberId,
}

/// The next generation of a drain or a resize.
pub(crate) struct DrainStep {
    /// What it is for the audit log.
    pub(crate) verb: ControlVerb,
    /// Which drain.
    pub(crate) what: String,
    pub(crate) reason: String,
    pub(crate) content: FleetContent,
}

/// A member of a drained slot that is lost, and what becomes of the slot.
pub(crate) struct SavedSlot {
    pub(crate) place: SlotMember,
    pub(crate) evidence: String,
    /// Or what it waits for.
    pub(crate) content: Result<FleetContent, String>,
}

impl DrainedSlot {
    fn of(view: &FleetView) -> Option<DrainedSlot> {
        let (cluster, slot, drain) = view.current()?.content.draining()?;
        let (old, new) = slot.drained()?;
        let (old, new, phase) = (old.clone(), new.clone(), drain.phase);
        Some(DrainedSlot { cluster: cluster.name.clone(), slot: slot.clone(), phase, old, new })
    }

    fn what(&self) -> String {
        format!("the drain of {} ({}/{}) to {}", self.old, self.cluster, self.slot.id, self.new)
    }
}

impl Drains {
    /// Those of a controller that begins. If a drain began before it, no phase ends before all agents were heard: it knows the
    /// routers to wait for from them.
    pub(crate) fn new(view: &FleetView, now: Now) -> Drains {
        let is_resizing = view.current().is_some_and(|current| current.content.resizing().is_some());
        let wait_ms = if is_resizing || DrainedSlot::of(view).is_some() { ALL_HEARD_MS } else { 0 };
        let after = Now::at_ms(now.ms() + wait_ms);
        let (resizes, warm_ups) = (Resizes::default(), WarmUps::default());
        Drains { resizes, phase: None, line: None, after, emptying: BTreeMap::new(), warm_ups }
    }

    /// New members of slots that are warmed up.
    pub(crate) fn warm_ups(&mut self) -> &mut WarmUps {
        &mut self.warm_ups
    }

    /// Begins a pass, which finds anew who is emptied or swept. Returns who was.
    pub(crate) fn begin_pass(&mut self) -> (BTreeMap<MemberId, u64>, BTreeMap<MemberId, SweepOrder>) {
        (std::mem::take(&mut self.emptying), self.resizes.begin_pass())
    }

    /// Members of a resized cluster that are swept, and by which order.
    pub(crate) fn sweeping(&self) -> &BTreeMap<MemberId, SweepOrder> {
        self.resizes.sweeping()
    }

    /// Members of a drained slot that are emptied, and by which order.
    pub(crate) fn emptying(&self) -> &BTreeMap<MemberId, u64> {
        &self.emptying
    }

    /// Lets the drain go on, and keeps where it is, for people. Returns its next generation, if it is time.
    pub(crate) fn advance(
        &mut self,
        facts: MemberFacts<'_>,
        rollout: &TargetRollout,
        away: Option<&str>,
    ) -> Option<DrainStep> {
        self.line = None;
        let pass = ResizePass { facts, rollout, away, after: self.after };
        if let Some(step) = self.resizes.step(&pass, &mut self.emptying) {
            self.phase = None;
            return step.map_err(|line| self.keep_line(facts.view(), line)).ok();
        }
        let Some(drained) = DrainedSlot::of(facts.view()) else {
            self.phase = None;
            return None;
        };
        let step = self.step(facts, rollout, away, &drained);
        step.map_err(|line| self.keep_line(facts.view(), line)).ok()
    }

    /// Keeps where the drain is, for people.
    pub(crate) fn keep_line(&mut self, view: &FleetView, line: String) {
        self.line = view.target().map(|target| (target, line));
    }

    /// The next generation of a drain; or a line that says what it waits for.
    fn step(
        &mut self,
        facts: MemberFacts<'_>,
        rollout: &TargetRollout,
        away: Option<&str>,
        drained: &DrainedSlot,
    ) -> Result<DrainStep, String> {
        let what = drained.what();
        if let Some(why) = halt(facts.view(), rollout, away) {
            // When it goes on, the fence counts anew.
            self.phase = None;
            return Err(format!("{what} waits: {why}"));
        }
        self.watch_phase(facts, drained);
        let next = self.next_of(facts, rollout, drained).map_err(|note| format!("{what}: {note}"));
        next.map(|(reason, content)| DrainStep { verb: ControlVerb::Drain, what, reason, content })
    }

    /// Where the drain is, for people. There is a line as long as there is a drain: who waits for its end, as the pages say, must not take the
    /// moment between a phase's generation and the next pass for it.
    pub(crate) fn line(&self, view: &FleetView) -> Option<String> {
        let kept = self.line.as_ref().filter(|(generation, _)| Some(*generation) == view.target());
        if let Some(line) = resizes::line(view) {
            return Some(kept.map_or(line, |(_, kept)| kept.clone()));
        }
        let drained = DrainedSlot::of(view)?;
        Some(kept.map_or_else(
            || format!("{}: {}", drained.what(), phase_words(drained.phase, &drained.old, &drained.new)),
            |(_, line)| line.clone(),
        ))
    }

    /// Tells the machine of this phase what agents say of their routers.
    fn watch_phase(&mut self, facts: MemberFacts<'_>, drained: &DrainedSlot) {
        let (view, now) = (facts.view(), facts.now());
        let Some(until) = view.target() else { return };
        let is_same = |watch: &DrainWatch| watch.until == until;
        if !self.phase.as_ref().is_some_and(is_same) {
            let (since, texts) = phase_texts(view, &drained.slot);
            let before = self.phase.take().filter(|watch| watch.since == since);
            let drain = drained.slot.drain.as_ref().expect("it is drained");
            let warm_up_ms = u64::from(drain.warm_up_s) * 1000;
            let settings = DrainSettings { warm_up_ms, ..DrainSettings::default() };
            let (machine, warm_up) = match before {
                Some(before) => (before.machine, before.warm_up),
                None => {
                    // All that are known, at once: a machine that knows of nobody waits for nobody.
                    let routers = facts.agents().routers().map(|report| report.router.clone());
                    (Drain::resume(routers, drained.phase, settings, now), WarmUp::new(now))
                }
            };
            self.phase = Some(DrainWatch { since, until, texts, machine, warm_up });
        }
        let counts = facts.hit_counts();
        let count = |member: &MemberId| counts.get(member).copied().unwrap_or_default();
        let peers = view.current().and_then(|now| now.content.cluster(&drained.cluster));
        let peers = peers.into_iter().flat_map(|cluster| &cluster.slots);
        let peers = peers.filter(|slot| slot.drain.is_none() && !slot.is_cold);
        let peers = peers.map(|slot| count(&slot.member)).fold(HitCounts::default(), sum);
        let is_old_gone = drained.phase != DrainPhase::ReadOld && is_gone(facts, &drained.old);
        let Some(watch) = &mut self.phase else { return };
        let mut events = vec![DrainEvent::Tick];
        for report in facts.agents().routers() {
            let router = report.router.clone();
            events.push(DrainEvent::Appeared { router: router.clone() });
            let text = report.loaded.clone().map(|loaded| (report.view.clone(), loaded));
            if text.is_some_and(|text| watch.texts.contains(&text)) {
                events.push(DrainEvent::Acknowledged { router, phase: drained.phase });
            }
        }
        if watch.warm_up.step(now, count(&drained.new), peers) == WarmUpStep::Warm {
            events.push(DrainEvent::Warm);
        }
        if is_old_gone {
            events.push(DrainEvent::OldClosed);
        }
        watch.machine.on_all(events, now);
    }

    /// The next generation of a drain and its reason; or a note about what it waits for.
    fn next_of(
        &mut self,
        facts: MemberFacts<'_>,
        rollout: &TargetRollout,
        drained: &DrainedSlot,
    ) -> Result<(String, FleetContent), String> {
        let DrainedSlot { phase, old, new, .. } = drained;
        let (content, now) = (facts.view().content(), facts.now());
        if *phase == DrainPhase::ReadOld && facts.is_silent_for(new, NEW_LOST_AFTER_MS) {
            return Ok((format!("{new} does not answer: {old} keeps its slot"), content.without_drain()));
        }
        let words = phase_words(*phase, old, new);
        if now < self.after {
            return Err(format!("{words}; agents come back to this controller first"));
        }
        let Some(watch) = &self.phase else { return Err(words) };
        let (state, since, behind) = (watch.machine.state(), watch.since, watch.machine.behind().cloned());
        let next = match (state, phase) {
            (DrainState::Fencing, _) => {
                let who = behind.map_or("a router".to_owned(), |router| router.to_string());
                return Err(self.fence(facts, old, since, &who));
            }
            (DrainState::Routers(next), phase) if next > *phase => next,
            (DrainState::Retiring | DrainState::Done, DrainPhase::NewOnly) => {
                if_rolled_out(rollout, words)?;
                let reason = format!("{new} has the keys of {old}, which is emptied");
                return Ok((reason, content.without_drain()));
            }
            (DrainState::Retiring | DrainState::Done, _) => DrainPhase::NewOnly,
            (DrainState::Routers(_), _) => {
                return Err(match behind {
                    Some(router) => format!("{words}; waits for {router}"),
                    None if *phase == DrainPhase::ReadNew => {
                        format!("{words}; all routers have it, and {new} gets warm")
                    }
                    None => words,
                });
            }
        };
        // The new member is emptied at the end of the first phase, whatever it got since it was emptied last.
        if *phase == DrainPhase::ReadOld {
            self.emptying.insert(new.clone(), since.0);
            if !facts.is_emptied(new, since) {
                return Err(format!("{new} is emptied before it is read"));
            }
        }
        if_rolled_out(rollout, words)?;
        Ok((phase_words(next, old, new), content.in_drain_phase(next)))
    }

    /// A router has not loaded the phase in time: the old member is emptied before the others go on.
    fn fence(
        &mut self,
        facts: MemberFacts<'_>,
        old: &MemberId,
        since: GenerationNumber,
        who: &str,
    ) -> String {
        self.emptying.insert(old.clone(), since.0);
        if !facts.is_emptied(old, since) {
            return format!("{who} has not loaded the phase in time, so {old} is emptied");
        }
        if let Some(watch) = &mut self.phase {
            watch.machine.on(DrainEvent::OldClosed, facts.now());
        }
        format!("{who} has not loaded the phase in time; {old} is empty, and the others go on")
    }

    /// The loss of a member that routers read of a drained slot, and what becomes of the slot.
    pub(crate) fn save_one(
        &mut self,
        facts: MemberFacts<'_>,
        lost: &[(SlotMember, String)],
    ) -> Option<SavedSlot> {
        let all: Vec<_> = lost.iter().cloned().chain(lost_of_drain(facts)).collect();
        all.into_iter().find_map(|(place, evidence)| {
            let content = self.save(facts, &place)?;
            Some(SavedSlot { place, evidence, content })
        })
    }

    /// One of the members of a drained slot is lost that routers read: the other one gets the slot alone as soon as it is empty,
    /// for it lacks what was stored in the lost one. None if the other one cannot.
    fn save(&mut self, facts: MemberFacts<'_>, lost: &SlotMember) -> Option<Result<FleetContent, String>> {
        let view = facts.view();
        let drained = DrainedSlot::of(view).filter(|drained| drained.slot.member == lost.member)?;
        let other = &drained.slot.drain.as_ref()?.other;
        if !facts.is_fit_to_be_read(other) {
            return None;
        }
        let since = phase_texts(view, &drained.slot).0;
        self.emptying.insert(other.clone(), since.0);
        if !facts.is_emptied(other, since) {
            return Some(Err(format!(
                "{} is lost, and {other} is emptied to take its slot alone",
                lost.member
            )));
        }
        Some(Ok(view.content().with_other_alone(&drained.slot.id, &lost.member)))
    }

    /// A router's process is gone, as its agent says.
    pub(crate) fn leave(&mut self, router: RouterId, now: Now) {
        self.resizes.leave(router.clone(), now);
        if let Some(watch) = &mut self.phase {
            watch.machine.on(DrainEvent::Left { router }, now);
        }
    }
}

/// The drain for programs.
pub(crate) fn drain_json(view: &FleetView) -> Value {
    let Some(drained) = DrainedSlot::of(view) else { return Value::Null };
    json!({
        "cluster": drained.cluster, "slot": drained.slot.id, "old": drained.old, "new": drained.new,
        "phase": drained.phase, "reads": drained.slot.member,
    })
}

/// Why nothing may go on, whatever the machine says.
fn halt(view: &FleetView, rollout: &TargetRollout, away: Option<&str>) -> Option<String> {
    if let Some(away) = away {
        return Some(format!("the register is away: {away}"));
    }
    if let Some(RolloutState::Halted(evidence)) = rollout.state() {
        return Some(format!("the rollout of its phase has halted: {evidence}"));
    }
    let frozen = frozen_scope_of(view, &view.content().without_drain());
    frozen.map(|(scope, why)| format!("{scope} is frozen: {why}"))
}

/// The generation with which a slot came into its phase, and the texts of that and the later ones.
fn phase_texts(view: &FleetView, slot: &SlotRecord) -> (GenerationNumber, BTreeSet<(ViewName, TextDigest)>) {
    let (mut since, mut texts) = (GenerationNumber(0), BTreeSet::new());
    let mut next = view.current();
    let has_phase = |one: &&Generation| {
        one.content
            .draining()
            .is_some_and(|(_, other, _)| (&other.id, &other.drain) == (&slot.id, &slot.drain))
    };
    while let Some(one) = next.filter(has_phase) {
        since = one.number;
        texts.extend(published(one.number, &one.content).0.digests);
        next = one.parent.and_then(|number| view.generations().get(&number));
    }
    (since, texts)
}

fn if_rolled_out(rollout: &TargetRollout, words: String) -> Result<(), String> {
    if rollout.is_rolled_out() { Ok(()) } else { Err(format!("{words}; waits for the present rollout")) }
}

/// The new member of a drain that is read and gone, as all observers say. No guard limits it: its predecessor is at hand, and no
/// spare is used.
fn lost_of_drain(facts: MemberFacts<'_>) -> Option<(SlotMember, String)> {
    let drained = DrainedSlot::of(facts.view()).filter(|drained| drained.phase != DrainPhase::ReadOld)?;
    let new = facts.view().inventory().get(&drained.new)?;
    if !facts.health().may_replace(&new.id) || !is_gone(facts, &new.id) {
        return None;
    }
    let evidence = format!("probes, its agent and routers agree; {} has the slot again", drained.old);
    let (cluster, slot) = (drained.cluster, drained.slot.id);
    let (member, host, zone) = (new.id.clone(), new.host.clone(), new.zone.clone());
    Some((SlotMember { cluster, slot, member, host, zone }, evidence))
}

fn is_gone(facts: MemberFacts<'_>, member: &MemberId) -> bool {
    facts.is_gone_for(member, OLD_GONE_AFTER_MS)
}

/// What routers do in a phase.
pub(crate) fn phase_words(phase: DrainPhase, old: &MemberId, new: &MemberId) -> String {
    match phase {
        DrainPhase::ReadOld => format!("{old} is read, deletes go to it and to {new}"),
        DrainPhase::ReadNew => format!("{new} is read and warmed up from {old}, deletes go to both"),
        DrainPhase::NewOnly => format!("{new} alone is read, deletes go to it and to {old}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleet::health::HealthThresholds;
    use fleet::rollout::RolloutSettings;

    use super::*;
    use crate::controller::health::MemberHealth;
    use crate::controller::observing::agents::Agents;
    use crate::controller::observing::probes::MemberProbes;
    use crate::controller::testing::{generation, slot, turn, view};
    use crate::probe::ProbeResult;

    /// A fleet in which `m1` leaves its slot to `m3`, and all members answer.
    struct Scene {
        view: FleetView,
        agents: Agents,
        probes: MemberProbes,
        health: MemberHealth,
        rollout: TargetRollout,
    }

    fn at(ms: u64) -> Now {
        Now::at_ms(ms)
    }

    impl Scene {
        fn new() -> Scene {
            let whole = slot(1, 2, Value::Null);
            let drain =
                json!({"phase": "read-old", "other": "m3", "other_address": "10.0.0.3:1", "warm_up_s": 60});
            let before = generation(1, &[slot(0, 1, Value::Null), whole.clone()], "PoolRoute|web");
            let drained = generation(2, &[slot(0, 1, json!({"drain": drain})), whole], "PoolRoute|web");
            let mut probes = MemberProbes::default();
            for member in ["m1", "m2", "m3"] {
                let (member, answer) = (member.parse().expect("a name"), Ok(Duration::ZERO));
                probes.take(ProbeResult { member, answer }, Duration::from_secs(1), at(0));
            }
            let prober = ("c1".parse().expect("a name"), "a".parse().expect("a name"));
            Scene {
                view: view(&[before, drained]),
                agents: Agents::new(at(0)),
                probes,
                health: MemberHealth::new(HealthThresholds::default(), prober, at(0)).expect("thresholds"),
                rollout: TargetRollout::new(RolloutSettings::default(), at(0)),
            }
        }

        fn facts(&self, now_ms: u64) -> MemberFacts<'_> {
            MemberFacts::new(&self.view, &self.agents, &self.probes, &self.health, at(now_ms))
        }

        fn line(&self, drains: &mut Drains, now_ms: u64, away: Option<&str>) -> String {
            assert!(drains.advance(self.facts(now_ms), &self.rollout, away).is_none(), "it waits");
            drains.line(&self.view).expect("there is a line as long as there is a drain")
        }
    }

    #[test]
    fn a_drain_that_began_before_the_controller_waits_until_all_agents_were_heard() {
        let scene = Scene::new();
        let mut drains = Drains::new(&scene.view, at(0));
        assert!(
            drains.line(&scene.view).expect("a line").ends_with("m1 is read, deletes go to it and to m3")
        );
        let line = scene.line(&mut drains, ALL_HEARD_MS - 1, None);
        assert!(line.ends_with("agents come back to this controller first"), "{line}");
        let line = scene.line(&mut drains, ALL_HEARD_MS, Some("no answer"));
        assert!(line.ends_with("waits: the register is away: no answer"), "{line}");
        let line = scene.line(&mut drains, ALL_HEARD_MS, None);
        assert!(!line.contains("agents come back"), "{line}");
        assert_eq!(drain_json(&scene.view)["new"], "m3");
    }

    #[test]
    fn the_other_member_of_a_drained_slot_takes_it_alone_when_it_is_emptied() {
        let mut scene = Scene::new();
        let mut drains = Drains::new(&scene.view, at(0));
        let place = SlotMember {
            cluster: "web".parse().expect("a name"),
            slot: "s0".parse().expect("a name"),
            member: "m1".parse().expect("a name"),
            host: "h1".parse().expect("a name"),
            zone: "a".parse().expect("a name"),
        };
        let lost = [(place, "it is gone".to_owned())];
        assert!(drains.save_one(scene.facts(0), &lost).is_none(), "no agent speaks of the other one");
        turn(&mut scene.agents, (3, 1), 0, None);
        let saved = drains.save_one(scene.facts(0), &lost).expect("the other one answers");
        assert_eq!(saved.content, Err("m1 is lost, and m3 is emptied to take its slot alone".to_owned()));
        assert_eq!(drains.emptying().values().collect::<Vec<_>>(), [&2], "by the number of the phase");
        turn(&mut scene.agents, (3, 2), 2, None);
        let content =
            drains.save_one(scene.facts(0), &lost).expect("it answers").content.expect("it is empty");
        assert_eq!(content.clusters[0].slots[0].member.as_str(), "m3");
        assert_eq!(drains.begin_pass().0.len(), 1);
        assert!(drains.emptying().is_empty());
    }
}
