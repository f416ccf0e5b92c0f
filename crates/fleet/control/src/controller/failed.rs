//! A target whose text has failed in a router.
//!
//! Routes go back to what they were. A slot does not: the member that has left it misses what was deleted since, wherever a
//! router has loaded the new text, and cannot be emptied as long as other routers use it. So other members take the slots of
//! those that came with the text: empty ones, which no router knows yet.

use fleet::rollout::{HaltEvidence, Rollout, RolloutState};
use fleet::{FleetContent, Generation, GenerationNumber, MemberId, Replacement, gone_back_to};
use stdx::clock::Now;

use super::Controller;
use super::published::published;
use crate::authorise::ControlVerb;
use crate::decisions::Publication;

/// Texts in a row that may fail before a person is waited for: three members that end a router are no accident.
pub(super) const FAILED_IN_A_ROW_MAX: usize = 3;
/// Time until a slot's new member is looked for again.
const TRY_EVERY_MS: u64 = 1_000;

impl Controller {
    /// Publishes another generation if the target's text has failed in a router. Whatever else has halted a rollout waits for a
    /// person.
    pub(super) fn leave_failed(&mut self) {
        let (Some((base, evidence)), None) = (self.failed_target(), self.register.away()) else { return };
        let since = *self.failure.since.get_or_insert(self.now);
        if self.now < self.failure.try_at {
            return;
        }
        let Some(current) = self.register.view().current() else { return };
        // What was gone back from must not come again, and the first one has nothing before it.
        let is_back = gone_back_to(self.register.view().generations(), current).is_some();
        let Some(before) = self.register.view().generations().get(&base).filter(|_| !is_back) else { return };
        let with_members = before.content.clone().with_members_of(&current.content);
        if with_members != current.content {
            return self.go_back(before.number, with_members, &evidence);
        }
        // Nothing but slots differs, and they are what has failed.
        let entered = entered(&before.content, &current.content);
        if entered.is_empty() {
            let content = before.content.clone();
            return self.go_back(before.number, content, &evidence);
        }
        if since.ms() + self.peers.waits_ms(self.now) > self.now.ms() {
            return;
        }
        self.failure.try_at = Now::at_ms(self.now.ms() + TRY_EVERY_MS);
        if let Err(why) = self.go_on(entered, &evidence) {
            let number = self.target().unwrap_or(base);
            self.failure.note = Some(format!("generation {number} has failed ({evidence}): {why}"));
        }
    }

    /// The generation that routers have instead of a target that has failed, and what was seen.
    fn failed_target(&self) -> Option<(GenerationNumber, String)> {
        let Some(rollout) = &self.rollout else {
            return self.failure.base.map(|base| (base, "its text has failed in a router before".to_owned()));
        };
        match rollout.state() {
            RolloutState::Halted(HaltEvidence::Router { router, shortfall, .. })
                if !rollout.condemned().is_empty() =>
            {
                Some((rollout.base(), format!("{router} {shortfall}")))
            }
            _ => None,
        }
    }

    /// Publishes what routers have whose turn has not come as a new generation.
    fn go_back(&mut self, to: GenerationNumber, content: FleetContent, evidence: &str) {
        let (Some(target), Some(before)) = (self.target(), self.register.view().generations().get(&to))
        else {
            return;
        };
        let reason = format!("back to the content of generation {to}: {evidence}");
        let is_known = content == before.content;
        let generation = self.successor(reason, content);
        let number = generation.number;
        let Some(Publication::Done(_)) = self.publish_recorded(ControlVerb::Rollback, &generation).ok()
        else {
            // Another controller has done it, or the register is away: the next moment finds out.
            self.register.read_soon(self.now);
            return;
        };
        let roll_back = |rollout: &mut Rollout| rollout.roll_back(number).ok();
        let back = self.rollout.as_mut().filter(|_| is_known).and_then(roll_back);
        self.register.add(generation);
        match back {
            Some(back) => {
                // The texts are those of the generation before, which are there.
                let (texts, _) = published(number, &self.register.view().content());
                self.digests.insert(number, texts);
                self.rollout = Some(back);
                self.set_roster();
                self.set_cluster_files();
            }
            None => self.begin_rollout(Some(target)),
        }
    }

    /// Gives the slots of these members to others. The error says why not.
    fn go_on(&mut self, entered: Vec<Replacement>, evidence: &str) -> Result<(), String> {
        let names: Vec<&str> = entered.iter().map(|one| one.member.as_str()).collect();
        let who = names.join(" and ");
        let Some(current) = self.register.view().current() else { return Ok(()) };
        let failed = self.failed_in_a_row(current);
        if failed >= FAILED_IN_A_ROW_MAX {
            return Err(format!(
                "{failed} texts in a row have failed, so nobody takes the place of {who} by itself; find out what ends the \
                 router, then `control replace`"
            ));
        }
        let waits =
            |error: String| format!("nobody can take the place of {who}, so it waits for a spare: {error}");
        let content = self.all_changed_slots(&current.content, &entered).map_err(waits)?.content;
        if self.frozen_by(&content).is_some() {
            return Err(format!("the scope of {who} is frozen"));
        }
        let reason = format!("in place of {who}, with whom a text has failed: {evidence}");
        self.publish_unasked(ControlVerb::Replace, &reason, content)
    }

    /// How many generations up to this one have failed, one after the other.
    fn failed_in_a_row(&self, current: &Generation) -> usize {
        let generations = self.register.view().generations();
        let chain = std::iter::successors(Some(current), |one| generations.get(&one.parent?));
        chain.take_while(|one| self.has_failed(one)).count()
    }
}

/// Members that are read in a slot in which another one was read before, and is nowhere any more: that one cannot come back.
fn entered(before: &FleetContent, current: &FleetContent) -> Vec<Replacement> {
    let has_left = |member: &MemberId| current.slot_of(member).is_none();
    let slots = before.clusters.iter().filter_map(|old| Some((old, current.cluster(&old.name)?)));
    let slots = slots.flat_map(|(old, new)| {
        old.slots.iter().filter_map(|old| Some((old, new.slots.iter().find(|slot| slot.id == old.id)?)))
    });
    let replaced = slots.filter(|(old, _)| has_left(&old.member));
    replaced.map(|(_, new)| Replacement { member: new.member.clone(), by: None }).collect()
}
