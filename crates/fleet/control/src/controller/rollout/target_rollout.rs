//! The rollout of the target: which generation each router shall have, from what agents say and with the time.
//!
//! ```text
//! a generation ─► begin ─► texts for the seats
//! turns ────────► hear, hear_silent, leave ─┐
//! people ───────► follow_word, set_frozen ──┼─► act ─► wanted, take_admitted ─► orders
//! time ─────────────────────────────────────┘   ├─► note_settled ─► a record for the register
//!                                               └─► after_failure ─► another generation
//! ```
//!
//! What routers may have whose turn has not come is in `base.rs`, and what becomes of a target whose text has failed in
//! `failed.rs`.

mod base;
mod failed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::rollout::{
    HaltEvidence, LayeredRollout, LayeredTexts, PublishedTexts, Rollout, RolloutEvent, RolloutLane,
    RolloutSettings, RolloutState,
};
use fleet::{FleetContent, Generation, GenerationNumber, RouterId, TextDigest, goes_on_from};
use stdx::clock::Now;

use super::failures::KeptFailures;
use super::published::published;
use crate::controller::observing::agents::AgentRecord;
use crate::controller::register_mirror::{FleetView, RETRY_MS};
use crate::decisions::RolloutWord;
use crate::service::turn::{RouterReport, TextReport};
use failed::FailedTarget;
pub(crate) use failed::{AfterFailure, FAILED_IN_A_ROW_MAX, failed_in_a_row};

/// Time after a start in which every agent has had a turn: turns take up to 20 s, and an agent restarts within 30 s.
pub(crate) const ALL_HEARD_MS: u64 = 60_000;

/// The rollout of the generation in force.
pub(crate) struct TargetRollout {
    settings: RolloutSettings,
    /// None before the first generation, and of a target whose text had failed before.
    machine: Option<LayeredRollout>,
    /// When it began here, and when this controller did.
    began: Now,
    controller_began: Now,
    /// A controller that has just started does not know all routers until then: it would draw other canaries than the others,
    /// and each would wait for the routers of the other ones.
    hears_until: Option<Now>,
    /// The newest generation that all routers have had, as far as this controller has seen, and when the register is asked again
    /// to keep that.
    settled: Option<GenerationNumber>,
    settle_at: Now,
    failed: FailedTarget,
    /// Of the target, of its lower generation if it has one, and of the generation before.
    digests: BTreeMap<GenerationNumber, PublishedTexts>,
}

impl TargetRollout {
    /// That of a controller that begins. It has nothing to roll out yet.
    pub(crate) fn new(settings: RolloutSettings, now: Now) -> TargetRollout {
        TargetRollout {
            settings,
            machine: None,
            began: now,
            controller_began: now,
            hears_until: None,
            settled: None,
            settle_at: now,
            failed: FailedTarget::default(),
            digests: BTreeMap::new(),
        }
    }

    /// Waits until then for routers that are not known yet.
    pub(crate) fn hear_until(&mut self, until: Now) {
        self.hears_until = Some(until);
    }

    /// Begins the rollout of the target. `before` is the target before it, if that is known. Returns the texts that orders of
    /// routers name.
    pub(crate) fn begin(
        &mut self,
        view: &FleetView,
        failures: &KeptFailures,
        before: Option<GenerationNumber>,
        now: Now,
    ) -> Option<Vec<(TextDigest, Arc<str>)>> {
        self.began = now;
        let current = view.current()?;
        if let Some(lower) = self.lower_of(view, current) {
            return Some(self.begin_layers(view, failures, current, lower));
        }
        let (before, lane) = self.lane_of(view, failures, current, before);
        let nothing = FleetContent::default();
        let (number, old) =
            before.map_or((GenerationNumber(0), &nothing), |before| (before.number, &before.content));
        // Other routes go out slowly anyway, and wait for routers that are not known yet. A slot change does not wait.
        if lane != RolloutLane::Routes {
            self.hears_until = None;
        }
        let (base, base_texts) = published(number, old);
        let (new, new_texts) = published(current.number, &current.content);
        let texts = base_texts.into_values().chain(new_texts.into_values());
        let digests = base.digests.values().chain(new.digests.values()).cloned();
        let texts = digests.zip(texts).map(|(digest, text)| (digest, text.into())).collect();
        self.digests = [(base.generation, base.clone()), (new.generation, new.clone())].into();
        let base_number = base.generation;
        // A text that has failed is not rolled out, whoever has published it.
        let machine = Rollout::begin(new, base, lane, self.settings.clone(), failures.texts());
        self.machine = machine.ok().map(LayeredRollout::plain);
        self.failed = FailedTarget::of(self.machine.is_none().then_some(base_number), false);
        Some(texts)
    }

    /// Begins the rollout of a target that was made with a lower generation.
    fn begin_layers(
        &mut self,
        view: &FleetView,
        failures: &KeptFailures,
        current: &Generation,
        lower: &Generation,
    ) -> Vec<(TextDigest, Arc<str>)> {
        let base = lower.parent.and_then(|parent| self.lower_base(view, failures, parent));
        let base = base.and_then(|number| view.generations().get(&number));
        let nothing = FleetContent::default();
        let (number, old) = base.map_or((GenerationNumber(0), &nothing), |base| (base.number, &base.content));
        let all = [published(number, old), published(lower.number, &lower.content)]
            .into_iter()
            .chain([published(current.number, &current.content)]);
        let (digests, texts): (Vec<PublishedTexts>, Vec<_>) = all.unzip();
        let of_digests = digests.iter().flat_map(|one| one.digests.values().cloned());
        let texts = of_digests.zip(texts.into_iter().flat_map(BTreeMap::into_values));
        let texts = texts.map(|(digest, text)| (digest, text.into())).collect();
        self.digests = digests.iter().map(|one| (one.generation, one.clone())).collect();
        let goes_on_from = goes_on_from(view.generations(), current);
        let is_refused =
            |at: usize| digests[at].digests.values().any(|digest| failures.texts().contains(digest));
        let is_lower = is_refused(1);
        let instead = if is_lower { number } else { lower.number };
        let [base, lower, upper] = <[PublishedTexts; 3]>::try_from(digests).expect("there are three");
        let layers = LayeredTexts { base, lower, upper, goes_on_from };
        let machine = LayeredRollout::begin(layers, &self.settings, failures.texts(), self.machine.as_ref());
        self.machine = machine.ok();
        self.failed = FailedTarget::of(self.machine.is_none().then_some(instead), is_lower);
        texts
    }

    /// Says what happened; at the next moment the rollout acts on it.
    fn tell(&mut self, event: RolloutEvent, now: Now) {
        if let Some(machine) = &mut self.machine {
            machine.note(event, now);
        }
    }

    fn tell_of_lower(&mut self, event: RolloutEvent, now: Now) {
        if let Some(machine) = &mut self.machine {
            machine.note_of_lower(event, now);
        }
    }

    /// Takes what the last turn of an agent says.
    pub(crate) fn hear(&mut self, record: &AgentRecord, target: Option<GenerationNumber>, now: Now) {
        let zone = &record.report().zone;
        for report in record.report().routers.clone() {
            let router = report.router.clone();
            let has = report.generation.unwrap_or(GenerationNumber(0));
            let view = report.view.clone();
            self.tell(RolloutEvent::Appeared { router: router.clone(), zone: zone.clone(), view, has }, now);
            self.tell(RolloutEvent::Heard { router: router.clone() }, now);
            let lower = self.machine.as_ref().and_then(LayeredRollout::lower);
            let event = match report.text {
                TextReport::Refused { generation, reason } if lower == Some(generation) => {
                    self.tell_of_lower(RolloutEvent::Refused { router, reason }, now);
                    continue;
                }
                TextReport::Crashed { generation, reason } if lower == Some(generation) => {
                    self.tell_of_lower(RolloutEvent::Crashed { router, reason }, now);
                    continue;
                }
                TextReport::Refused { generation, reason } if target == Some(generation) => {
                    RolloutEvent::Refused { router, reason }
                }
                TextReport::Crashed { generation, reason } if target == Some(generation) => {
                    RolloutEvent::Crashed { router, reason }
                }
                // It keeps what somebody has put there, which is that router's matter.
                TextReport::Foreign => RolloutEvent::SetAside { router },
                _ => match report.loaded {
                    Some(digest) => RolloutEvent::Acknowledged { router, digest },
                    None => RolloutEvent::Unanswered { router },
                },
            };
            self.tell(event, now);
        }
        // A rollout that begins after an agent has fallen silent does not wait for it.
        if record.is_silent() {
            for report in &record.report().routers {
                self.hear_silent(report.router.clone(), record.heard(), now);
            }
        }
    }

    /// Notes that the agent of a router is silent, which was heard last at `since`.
    pub(crate) fn hear_silent(&mut self, router: RouterId, since: Now, now: Now) {
        self.tell(RolloutEvent::Silent { router, since }, now);
    }

    /// Notes that a router is gone.
    pub(crate) fn leave(&mut self, router: RouterId, now: Now) {
        self.tell(RolloutEvent::Left { router }, now);
    }

    /// Takes what a person wants of the rollout.
    pub(crate) fn follow_word(&mut self, word: Option<&RolloutWord>, now: Now) {
        let (Some(word), Some(machine)) = (word, &mut self.machine) else { return };
        let mut events = vec![match word.halted.clone() {
            Some(reason) => RolloutEvent::Halt { reason },
            None => RolloutEvent::Resume { excused: word.excused.clone() },
        }];
        events.extend(word.is_hurried.then_some(RolloutEvent::Hurry));
        for event in events {
            // What was said of the routes before members of slots changed is not about those.
            if word.generation == machine.generation() {
                machine.note(event, now);
            } else {
                machine.note_of_routes(event, now);
            }
        }
    }

    /// Says whether the fleet is frozen.
    pub(crate) fn set_frozen(&mut self, is_frozen: bool, now: Now) {
        self.tell(if is_frozen { RolloutEvent::Freeze } else { RolloutEvent::Thaw }, now);
    }

    /// Lets the rollout go on with the time, once the routers are known.
    pub(crate) fn act(&mut self, now: Now) {
        self.hears_until = self.hears_until.filter(|until| now < *until);
        let knows_all = self.hears_until.is_none();
        if let Some(machine) = &mut self.machine {
            machine.act(knows_all, now);
        }
    }

    /// Texts of the target that have failed in a router.
    pub(crate) fn condemned(&self) -> impl Iterator<Item = &TextDigest> {
        self.machine.iter().flat_map(LayeredRollout::condemned)
    }

    /// Where the rollout is.
    pub(crate) fn state(&self) -> Option<RolloutState> {
        self.machine.as_ref().map(LayeredRollout::state)
    }

    /// How carefully the target goes out.
    pub(crate) fn lane(&self) -> Option<RolloutLane> {
        self.machine.as_ref().map(LayeredRollout::lane)
    }

    /// Whether all routers have the target, and all are known.
    pub(crate) fn is_rolled_out(&self) -> bool {
        self.hears_until.is_none()
            && self.machine.as_ref().is_some_and(|machine| matches!(machine.state(), RolloutState::Done))
    }

    /// When it began here.
    pub(crate) fn began(&self) -> Now {
        self.began
    }

    /// Whether the text has ended or failed in a router, so that no other one gets it.
    pub(crate) fn has_failed(&self) -> bool {
        self.machine.as_ref().is_none_or(|machine| machine.condemned().next().is_some())
    }

    /// Routers that have halted it, or would.
    pub(crate) fn failing(&self) -> BTreeSet<RouterId> {
        self.machine.as_ref().map(LayeredRollout::failing).unwrap_or_default()
    }

    /// The generation that a router shall have, and its text there.
    pub(crate) fn wanted(&self, report: &RouterReport) -> Option<(GenerationNumber, TextDigest)> {
        let generation = self.machine.as_ref()?.wanted(&report.router)?;
        let digest = self.digests.get(&generation)?.digests.get(&report.view)?.clone();
        Some((generation, digest))
    }

    /// Routers that shall have the generation since the last call.
    pub(crate) fn take_admitted(&mut self) -> Vec<RouterId> {
        self.machine.as_mut().map_or(Vec::new(), LayeredRollout::take_admitted)
    }

    /// The newest generation that all routers have had, as far as anybody has seen.
    pub(crate) fn settled(&self, view: &FleetView) -> Option<GenerationNumber> {
        self.settled.max(view.settled())
    }

    /// Notes that all routers have the target. A controller that has just started does not know all of them. Returns the newest
    /// generation that all routers have had, if the register does not have it and may be asked.
    pub(crate) fn note_settled(&mut self, view: &FleetView, now: Now) -> Option<GenerationNumber> {
        let target = view.target().filter(|_| self.is_rolled_out())?;
        if now.ms() < self.controller_began.ms() + ALL_HEARD_MS {
            return None;
        }
        self.settled = self.settled.max(Some(target));
        self.settled.filter(|settled| view.settled() < Some(*settled) && self.settle_at <= now)
    }

    /// The register could not be asked to keep what is settled.
    pub(crate) fn settle_later(&mut self, now: Now) {
        self.settle_at = Now::at_ms(now.ms() + RETRY_MS);
    }

    /// What the rollout waits for that goes on by nobody's work but a person's, and what that person can do.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = self.machine.as_ref().map_or(Vec::new(), notes);
        notes.extend(self.failed.note().map(str::to_owned));
        notes
    }

    #[cfg(test)]
    pub(crate) fn forget_the_start(&mut self) {
        self.hears_until = None;
    }

    #[cfg(test)]
    pub(crate) fn seen_settled(&self) -> Option<GenerationNumber> {
        self.settled
    }

    #[cfg(test)]
    pub(crate) fn digests_of(&self, generation: GenerationNumber) -> &PublishedTexts {
        &self.digests[&generation]
    }
}

fn notes(machine: &LayeredRollout) -> Vec<String> {
    let mut notes = Vec::new();
    let number = machine.generation();
    let ways = "`control rollout resume`, `hurry` or `abandon` with --why";
    match machine.state() {
        RolloutState::Halted(HaltEvidence::Person { .. }) => {
            notes.push(format!("generation {number} is halted by a person, until {ways}"));
        }
        RolloutState::Halted(HaltEvidence::Router { router, .. }) if machine.condemned().next().is_none() => {
            let until = format!("until {router} has loaded it, leaves or is set aside, or by {ways}");
            notes.push(format!("generation {number} is halted because of {router}, {until}"));
        }
        RolloutState::Halted(HaltEvidence::Router { router, .. }) => notes.push(format!(
            "generation {number} has failed in {router} and goes to no other router: `control rollout abandon --why …`, or another change"
        )),
        RolloutState::Frozen => {
            notes.push(format!("generation {number} waits until `control thaw fleet --why …`"));
        }
        _ => {}
    }
    if machine.is_in_slots() {
        notes.push(format!(
            "generation {number} brings its routes to no further router until all have the members that slots have now"
        ));
    }
    notes.extend(machine.set_aside().map(|router| {
        format!(
            "{router} keeps a file that somebody else has written, whatever is published: put back what its agent wrote, or remove the \
             file, and the agent writes it again"
        )
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::observing::agents::Agents;
    use crate::controller::testing::{digest, generation, report, slot, turn, view};
    use serde_json::Value;

    struct Scene {
        rollout: TargetRollout,
        failures: KeptFailures,
        agents: Agents,
    }

    fn at(ms: u64) -> Now {
        Now::at_ms(ms)
    }

    impl Scene {
        fn new() -> Scene {
            let rollout = TargetRollout::new(RolloutSettings::default(), at(0));
            Scene { rollout, failures: KeptFailures::new(at(0)), agents: Agents::new(at(0)) }
        }

        /// Tells the rollout what all agents have said, and lets it go on. Returns the generation that the first router shall have.
        fn act(&mut self, view: &FleetView) -> Option<u64> {
            for (_, record) in self.agents.iter() {
                self.rollout.hear(record, view.target(), at(0));
            }
            self.rollout.act(at(0));
            let wanted = self.rollout.wanted(self.agents.routers().next()?)?;
            Some(wanted.0.0)
        }
    }

    fn slots() -> [Value; 2] {
        [slot(0, 1, Value::Null), slot(1, 2, Value::Null)]
    }

    #[test]
    fn a_first_generation_goes_to_all_and_is_settled_when_all_agents_were_heard() {
        let first = generation(1, &slots(), "PoolRoute|web");
        let (view, mut scene) = (view(std::slice::from_ref(&first)), Scene::new());
        let texts = scene.rollout.begin(&view, &scene.failures, None, at(0)).expect("there is a target");
        assert_eq!(texts.iter().map(|(digest, _)| digest).collect::<Vec<_>>(), [&digest(&first)]);
        turn(&mut scene.agents, (1, 1), 0, None);
        assert_eq!((scene.act(&view), scene.rollout.is_rolled_out()), (Some(1), false));
        turn(&mut scene.agents, (1, 2), 0, Some(&first));
        assert_eq!((scene.act(&view), scene.rollout.is_rolled_out()), (Some(1), true));
        assert_eq!(scene.rollout.note_settled(&view, at(ALL_HEARD_MS - 1)), None, "routers may be missing");
        assert_eq!(scene.rollout.note_settled(&view, at(ALL_HEARD_MS)), Some(GenerationNumber(1)));
        scene.rollout.settle_later(at(ALL_HEARD_MS));
        assert_eq!(scene.rollout.note_settled(&view, at(ALL_HEARD_MS)), None);
    }

    #[test]
    fn a_text_that_fails_in_a_canary_gives_way_to_the_routes_before() {
        let before = generation(1, &slots(), "PoolRoute|web");
        let target = generation(2, &slots(), "AllSyncRoute|Pool|web");
        let (view, mut scene) = (view(&[before.clone(), target]), Scene::new());
        scene.rollout.begin(&view, &scene.failures, before.parent, at(0)).expect("there is a target");
        turn(&mut scene.agents, (1, 1), 0, Some(&before));
        assert_eq!(scene.act(&view), Some(2), "it is a canary");
        assert!(scene.rollout.after_failure(&view, 0, at(0)).is_none());
        let (generation, reason) = (GenerationNumber(2), "the router ended".to_owned());
        let mut failed = report(1, 2);
        failed.routers[0].text = TextReport::Crashed { generation, reason };
        scene.agents.take(failed, true, at(0)).expect("it is a later one");
        scene.act(&view);
        scene.failures.add(scene.rollout.condemned().cloned());
        let Some(AfterFailure::GoBack { to, content, evidence }) =
            scene.rollout.after_failure(&view, 0, at(0))
        else {
            panic!("it goes back")
        };
        assert_eq!((to, &content), (GenerationNumber(1), &before.content));
        assert!(scene.rollout.has_failed() && evidence.contains("r1"), "{evidence}");
        let number = GenerationNumber(3);
        assert!(scene.rollout.go_back(&Generation { number, content, ..before }));
        assert_eq!(scene.act(&view), Some(3));
    }

    #[test]
    fn a_controller_that_does_not_know_all_routers_waits_with_other_routes_but_not_with_a_slot() {
        let first = generation(1, &slots(), "PoolRoute|web");
        let routes = generation(2, &slots(), "AllSyncRoute|Pool|web");
        let member = generation(2, &[slot(0, 3, Value::Null), slot(1, 2, Value::Null)], "PoolRoute|web");
        for (target, wanted) in [(routes, 1), (member, 2)] {
            let (view, mut scene) = (view(&[first.clone(), target]), Scene::new());
            scene.rollout.hear_until(at(30_000));
            scene.rollout.begin(&view, &scene.failures, None, at(0)).expect("there is a target");
            turn(&mut scene.agents, (1, 1), 0, Some(&first));
            assert_eq!(scene.act(&view), Some(wanted));
        }
    }
}
