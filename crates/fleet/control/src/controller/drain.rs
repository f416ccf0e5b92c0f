//! Drains: the phases in which a living member's slot goes to another one follow each other as generations.
//!
//! The generation in force says which phase it is, and the machine of [`fleet::drain`] says when the next one may begin. What
//! else is needed comes from turns and probes, so a controller that has just started, or another one, goes on.

use std::collections::BTreeSet;

use fleet::drain::{Drain, DrainEvent, DrainPhase, DrainSettings, DrainState};
use fleet::health::{HitCounts, SlotMember, WarmUp, WarmUpStep};
use fleet::rollout::RolloutState;
use fleet::{
    ClusterName, FleetContent, Generation, GenerationNumber, MemberId, RouterId, SlotRecord, TextDigest,
    ViewName,
};
use serde_json::{Value, json};
use stdx::clock::Now;

use super::Controller;
use super::published::published;
use super::state::{ALL_HEARD_MS, DrainWatch};
use crate::authorise::ControlVerb;

/// A new member that is not read yet and does not answer for this long is given up: nothing is lost with it.
const NEW_LOST_AFTER_MS: u64 = 10_000;
/// The host of an old member is gone if it does not answer for this long and its agent does not say that it runs.
const OLD_GONE_AFTER_MS: u64 = 30_000;

/// The drained slot of the generation in force.
struct DrainedSlot {
    cluster: ClusterName,
    slot: SlotRecord,
    phase: DrainPhase,
    old: MemberId,
    new: MemberId,
}

impl DrainedSlot {
    fn what(&self) -> String {
        format!("the drain of {} ({}/{}) to {}", self.old, self.cluster, self.slot.id, self.new)
    }
}

impl Controller {
    /// Finds a drain that began before this controller. No phase ends before all agents were heard: it knows the routers to wait for
    /// from them.
    pub(super) fn resume_drain(&mut self) {
        if self.drained_slot().is_some() {
            self.drain_after = Now::at_ms(self.now.ms() + ALL_HEARD_MS);
        }
    }

    fn drained_slot(&self) -> Option<DrainedSlot> {
        let (cluster, slot, drain) = self.register.view().current()?.content.draining()?;
        let (old, new) = slot.drained()?;
        let (old, new, phase) = (old.clone(), new.clone(), drain.phase);
        Some(DrainedSlot { cluster: cluster.name.clone(), slot: slot.clone(), phase, old, new })
    }

    /// Lets the drain go on, and keeps where it is, for people.
    pub(super) fn advance_drain(&mut self) {
        let line = match self.drained_slot() {
            Some(drained) => self.step_drain(&drained).err(),
            None => {
                self.drain = None;
                None
            }
        };
        self.drain_line = line.and_then(|line| Some((self.target()?, line)));
    }

    /// The next generation of a drain; or a line that says what it waits for.
    fn step_drain(&mut self, drained: &DrainedSlot) -> Result<(), String> {
        let what = drained.what();
        if let Some(why) = self.drain_halt() {
            // When it goes on, the fence counts anew.
            self.drain = None;
            return Err(format!("{what} waits: {why}"));
        }
        self.watch_phase(drained);
        let (reason, content) = self.next_of_drain(drained).map_err(|note| format!("{what}: {note}"))?;
        self.publish_drain(&reason, content).map_err(|why| format!("{what} waits: {why}"))
    }

    /// Where the drain is, for people. There is a line as long as there is a drain: who waits for its end, as the pages say, must not take the
    /// moment between a phase's generation and the next pass for it.
    pub(super) fn drain_line(&self) -> Option<String> {
        let drained = self.drained_slot()?;
        let kept = self.drain_line.as_ref().filter(|(generation, _)| Some(*generation) == self.target());
        Some(kept.map_or_else(
            || format!("{}: {}", drained.what(), phase_words(drained.phase, &drained.old, &drained.new)),
            |(_, line)| line.clone(),
        ))
    }

    /// Why nothing may go on, whatever the machine says.
    fn drain_halt(&self) -> Option<String> {
        if let Some(away) = self.register.away() {
            return Some(format!("the register is away: {away}"));
        }
        if let Some(RolloutState::Halted(evidence)) = self.rollout.as_ref().map(|rollout| rollout.state()) {
            return Some(format!("the rollout of its phase has halted: {evidence}"));
        }
        let current = self.register.view().content();
        self.frozen_scope_of(&current.without_drain()).map(|(scope, why)| format!("{scope} is frozen: {why}"))
    }

    /// Tells the machine of this phase what agents say of their routers.
    fn watch_phase(&mut self, drained: &DrainedSlot) {
        let Some(until) = self.target() else { return };
        let is_same = |watch: &DrainWatch| watch.until == until;
        if !self.drain.as_ref().is_some_and(is_same) {
            let (since, texts) = self.phase_texts(&drained.slot);
            let before = self.drain.take().filter(|watch| watch.since == since);
            let drain = drained.slot.drain.as_ref().expect("it is drained");
            let warm_up_ms = u64::from(drain.warm_up_s) * 1000;
            let settings = DrainSettings { warm_up_ms, ..DrainSettings::default() };
            let (machine, warm_up) = match before {
                Some(before) => (before.machine, before.warm_up),
                None => {
                    // All that are known, at once: a machine that knows of nobody waits for nobody.
                    let reports = self.agents.routers();
                    let routers = reports.map(|report| report.router.clone());
                    (Drain::resume(routers, drained.phase, settings, self.now), WarmUp::new(self.now))
                }
            };
            self.drain = Some(DrainWatch { since, until, texts, machine, warm_up });
        }
        let counts = self.hit_counts();
        let count = |member: &MemberId| counts.get(member).copied().unwrap_or_default();
        let peers = self.register.view().current().and_then(|now| now.content.cluster(&drained.cluster));
        let peers = peers.into_iter().flat_map(|cluster| &cluster.slots);
        let peers = peers.filter(|slot| slot.drain.is_none() && !slot.is_cold);
        let peers = peers.map(|slot| count(&slot.member)).fold(HitCounts::default(), |sum, one| HitCounts {
            hits: sum.hits.saturating_add(one.hits),
            misses: sum.misses.saturating_add(one.misses),
        });
        let is_old_gone = drained.phase != DrainPhase::ReadOld && self.is_gone(&drained.old);
        let Some(watch) = &mut self.drain else { return };
        let mut events = vec![DrainEvent::Tick];
        for report in self.agents.routers() {
            let router = report.router.clone();
            events.push(DrainEvent::Appeared { router: router.clone() });
            let text = report.loaded.clone().map(|loaded| (report.view.clone(), loaded));
            if text.is_some_and(|text| watch.texts.contains(&text)) {
                events.push(DrainEvent::Acknowledged { router, phase: drained.phase });
            }
        }
        if watch.warm_up.step(self.now, count(&drained.new), peers) == WarmUpStep::Warm {
            events.push(DrainEvent::Warm);
        }
        if is_old_gone {
            events.push(DrainEvent::OldClosed);
        }
        watch.machine.on_all(events, self.now);
    }

    /// The generation with which a slot came into its phase, and the texts of that and the later ones.
    fn phase_texts(&self, slot: &SlotRecord) -> (GenerationNumber, BTreeSet<(ViewName, TextDigest)>) {
        let (mut since, mut texts) = (GenerationNumber(0), BTreeSet::new());
        let mut next = self.register.view().current();
        let has_phase = |one: &&Generation| {
            one.content
                .draining()
                .is_some_and(|(_, other, _)| (&other.id, &other.drain) == (&slot.id, &slot.drain))
        };
        while let Some(one) = next.filter(has_phase) {
            since = one.number;
            texts.extend(published(one.number, &one.content).0.digests);
            next = one.parent.and_then(|number| self.register.view().generations().get(&number));
        }
        (since, texts)
    }

    /// The next generation of a drain and its reason; or a note about what it waits for.
    fn next_of_drain(&mut self, drained: &DrainedSlot) -> Result<(String, FleetContent), String> {
        let DrainedSlot { phase, old, new, .. } = drained;
        let content = self.register.view().content();
        if *phase == DrainPhase::ReadOld && self.is_silent_for(new, NEW_LOST_AFTER_MS) {
            return Ok((format!("{new} does not answer: {old} keeps its slot"), content.without_drain()));
        }
        let words = phase_words(*phase, old, new);
        if self.now < self.drain_after {
            return Err(format!("{words}; agents come back to this controller first"));
        }
        let Some(watch) = &self.drain else { return Err(words) };
        let (state, since, behind) = (watch.machine.state(), watch.since, watch.machine.behind().cloned());
        match (state, phase) {
            (DrainState::Fencing, _) => {
                let who = behind.map_or("a router".to_owned(), |router| router.to_string());
                self.emptying.insert(old.clone(), since.0);
                if !self.is_emptied(old, since) {
                    return Err(format!("{who} has not loaded the phase in time, so {old} is emptied"));
                }
                let now = self.now;
                if let Some(watch) = &mut self.drain {
                    watch.machine.on(DrainEvent::OldClosed, now);
                }
                Err(format!("{who} has not loaded the phase in time; {old} is empty, and the others go on"))
            }
            (DrainState::Routers(next), phase) if next > *phase => self.enter(drained, next, since, content),
            (DrainState::Retiring | DrainState::Done, DrainPhase::NewOnly) => {
                self.if_rolled_out(words)?;
                Ok((format!("{new} has the keys of {old}, which is emptied"), content.without_drain()))
            }
            (DrainState::Retiring | DrainState::Done, _) => {
                self.enter(drained, DrainPhase::NewOnly, since, content)
            }
            (DrainState::Routers(_), _) => Err(match behind {
                Some(router) => format!("{words}; waits for {router}"),
                None if *phase == DrainPhase::ReadNew => {
                    format!("{words}; all routers have it, and {new} gets warm")
                }
                None => words,
            }),
        }
    }

    /// A later phase. The new member is emptied at the end of the first one, whatever it got since it was emptied last.
    fn enter(
        &mut self,
        drained: &DrainedSlot,
        next: DrainPhase,
        since: GenerationNumber,
        content: FleetContent,
    ) -> Result<(String, FleetContent), String> {
        let DrainedSlot { phase, old, new, .. } = drained;
        if *phase == DrainPhase::ReadOld {
            self.emptying.insert(new.clone(), since.0);
            if !self.is_emptied(new, since) {
                return Err(format!("{new} is emptied before it is read"));
            }
        }
        self.if_rolled_out(phase_words(*phase, old, new))?;
        Ok((phase_words(next, old, new), content.in_drain_phase(next)))
    }

    fn if_rolled_out(&self, words: String) -> Result<(), String> {
        if self.is_rolled_out() { Ok(()) } else { Err(format!("{words}; waits for the present rollout")) }
    }

    /// The first controller by name does it, and another one when that is away.
    fn publish_drain(&mut self, reason: &str, content: FleetContent) -> Result<(), String> {
        if self.peers.waits_ms(self.now) > 0 {
            return Ok(());
        }
        self.publish_unasked(ControlVerb::Drain, reason, content)
    }

    /// The new member of a drain that is read and gone, as all observers say. No guard limits it: its predecessor is at hand, and no
    /// spare is used.
    fn lost_of_drain(&self) -> Option<(SlotMember, String)> {
        let drained = self.drained_slot().filter(|drained| drained.phase != DrainPhase::ReadOld)?;
        let new = self.register.view().inventory().get(&drained.new)?;
        let is_lost = self.watch.verdict(&new.id).is_some_and(|verdict| verdict.may_replace());
        if !is_lost || !self.is_gone(&new.id) {
            return None;
        }
        let evidence = format!("probes, its agent and routers agree; {} has the slot again", drained.old);
        let (cluster, slot) = (drained.cluster, drained.slot.id);
        let (member, host, zone) = (new.id.clone(), new.host.clone(), new.zone.clone());
        Some((SlotMember { cluster, slot, member, host, zone }, evidence))
    }

    /// The loss of a member that routers read of a drained slot, and what becomes of the slot.
    pub(super) fn save_one(
        &mut self,
        lost: &[(SlotMember, String)],
    ) -> Option<(SlotMember, String, Result<FleetContent, String>)> {
        let all: Vec<_> = lost.iter().cloned().chain(self.lost_of_drain()).collect();
        all.into_iter().find_map(|(place, evidence)| {
            let saved = self.save_drained(&place)?;
            Some((place, evidence, saved))
        })
    }

    /// One of the members of a drained slot is lost that routers read: the other one gets the slot alone as soon as it is empty,
    /// for it lacks what was stored in the lost one. None if the other one cannot.
    fn save_drained(&mut self, lost: &SlotMember) -> Option<Result<FleetContent, String>> {
        let drained = self.drained_slot().filter(|drained| drained.slot.member == lost.member)?;
        let other = &drained.slot.drain.as_ref()?.other;
        let host = self.register.view().inventory().get(other)?.host.clone();
        let is_held = self.watch.quarantine().check(self.now, other, &host).is_err();
        let answers = self.probes.answers(other) == Some(true);
        if is_held || !answers || self.report_of(other).is_none() {
            return None;
        }
        let since = self.phase_texts(&drained.slot).0;
        self.emptying.insert(other.clone(), since.0);
        if !self.is_emptied(other, since) {
            return Some(Err(format!(
                "{} is lost, and {other} is emptied to take its slot alone",
                lost.member
            )));
        }
        Some(Ok(self.register.view().content().with_other_alone(&drained.slot.id, &lost.member)))
    }

    fn is_emptied(&self, member: &MemberId, since: GenerationNumber) -> bool {
        self.report_of(member).is_some_and(|report| report.flushes >= since.0)
    }

    /// Probes have failed for so long.
    pub(super) fn is_silent_for(&self, member: &MemberId, ms: u64) -> bool {
        self.probes.is_silent_for(member, ms, self.now)
    }

    fn is_gone(&self, member: &MemberId) -> bool {
        self.is_gone_for(member, OLD_GONE_AFTER_MS)
    }

    /// A router's process is gone, as its agent says.
    pub(super) fn forget_in_drain(&mut self, router: RouterId) {
        let now = self.now;
        if let Some(watch) = &mut self.drain {
            watch.machine.on(DrainEvent::Left { router }, now);
        }
    }

    /// The drain for programs.
    pub(super) fn drain_json(&self) -> Value {
        let Some(drained) = self.drained_slot() else { return Value::Null };
        json!({
            "cluster": drained.cluster, "slot": drained.slot.id, "old": drained.old, "new": drained.new,
            "phase": drained.phase, "reads": drained.slot.member,
        })
    }
}

/// What routers do in a phase.
pub(super) fn phase_words(phase: DrainPhase, old: &MemberId, new: &MemberId) -> String {
    match phase {
        DrainPhase::ReadOld => format!("{old} is read, deletes go to it and to {new}"),
        DrainPhase::ReadNew => format!("{new} is read and warmed up from {old}, deletes go to both"),
        DrainPhase::NewOnly => format!("{new} alone is read, deletes go to it and to {old}"),
    }
}
