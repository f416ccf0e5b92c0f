//! Upkeep: the rollout goes on, a target that has failed or was forgotten gives way to another generation, and what the
//! register lacks is written there.

use fleet::{FleetContent, GenerationNumber, Replacement};

use crate::controller::Controller;
use crate::controller::acting::healing::given_up_words;
use crate::controller::rollout::target_rollout::{AfterFailure, FAILED_IN_A_ROW_MAX, failed_in_a_row};
use crate::controller::slots::freezes::frozen_by;
use crate::decisions::{CONDEMNED_MAX, Publication};
use crate::register::RegisterError;
use crate::service::authorise::ControlVerb;
use stdx::words::counted;

impl Controller {
    /// Lets the rollout go on, and leaves the target if its text has failed.
    pub(crate) fn advance_rollout(&mut self) {
        let is_frozen = self.register.view().frozen().iter().any(|(scope, _)| scope == "fleet");
        self.rollout.set_frozen(is_frozen, self.now);
        self.rollout.act(self.now);
        self.failures.add(self.rollout.condemned().cloned());
        self.leave_failed();
        self.keep_settled();
    }

    /// Notes that all routers have the target. The first controller by name writes it down.
    fn keep_settled(&mut self) {
        let Some(settled) = self.rollout.note_settled(self.register.view(), self.now) else { return };
        let Some(target) = self.register.target() else { return };
        if self.register.away().is_some() || self.peers.waits_ms(self.now) > 0 {
            return;
        }
        if self.register.keep_settled(target, settled).is_err() {
            self.rollout.settle_later(self.now);
        }
    }

    /// Publishes another generation if the target's text has failed in a router.
    fn leave_failed(&mut self) {
        let waits_ms = self.peers.waits_ms(self.now);
        if self.register.away().is_some() {
            return;
        }
        match self.rollout.after_failure(self.register.view(), waits_ms, self.now) {
            None => {}
            Some(AfterFailure::GoBack { to, content, evidence }) => self.go_back(to, content, &evidence),
            Some(AfterFailure::Replace { entered, ground, given_up, evidence }) => {
                let evidence = given_up_words(given_up) + &evidence;
                let gone_on = self.go_on(&ground, &entered, &evidence);
                if let (Err(why), Some(number)) = (gone_on, self.register.target()) {
                    let note = format!("generation {number} has failed ({evidence}): {why}");
                    self.rollout.note_failure(note);
                }
            }
        }
    }

    /// Publishes what routers have whose turn has not come as a new generation.
    fn go_back(&mut self, to: GenerationNumber, content: FleetContent, evidence: &str) {
        let before = self.register.view().generations().get(&to);
        let (Some(target), Some(before)) = (self.register.target(), before) else { return };
        let mut reason = format!("back to the content of generation {to}: {evidence}");
        let now = self.register.view().content();
        if let Some((_, resize)) = now.resizing().filter(|_| content.resizing().is_none()) {
            let wants = counted(resize.to, "slot");
            reason += &format!("; the policy still wants {wants}: change it, or the next plan resizes again");
        }
        let is_known = content == before.content;
        let generation = self.successor(reason, content);
        let Ok(Publication::Done(_)) = self.publish_recorded(ControlVerb::Rollback, &generation, None) else {
            // Another controller has done it, or the register is away: the next moment finds out.
            self.register.read_soon(self.now);
            return;
        };
        let is_back = is_known && self.rollout.go_back(&generation);
        self.register.add(generation);
        if is_back {
            self.follow_target();
        } else {
            self.begin_rollout(Some(target));
        }
    }

    /// Gives the slots that these members have in a content to others. The error says why not.
    fn go_on(
        &mut self,
        ground: &FleetContent,
        entered: &[Replacement],
        evidence: &str,
    ) -> Result<(), String> {
        let names: Vec<&str> = entered.iter().map(|one| one.member.as_str()).collect();
        let who = names.join(" and ");
        let view = self.register.view();
        let Some(current) = view.current() else { return Ok(()) };
        let failed = failed_in_a_row(view, &self.failures, current);
        if failed >= FAILED_IN_A_ROW_MAX {
            return Err(format!(
                "{failed} texts in a row have failed, so nobody takes the place of {who} by itself; find out what ends the \
                 router, then `control replace`"
            ));
        }
        let waits =
            |error: String| format!("nobody can take the place of {who}, so it waits for a spare: {error}");
        let content = self.planner().all_changed_slots(ground, entered).map_err(waits)?.content;
        if frozen_by(view, &content).is_some() {
            return Err(format!("the scope of {who} is frozen"));
        }
        let reason = format!("in place of {who}, with whom a text has failed: {evidence}");
        self.publish_unasked(ControlVerb::Replace, &reason, content)
    }

    /// Publishes the target anew if routers have generations beyond it.
    pub(crate) fn publish_forgotten(&mut self) {
        if !self.forgotten.begin_look(self.now) {
            return;
        }
        let (Some(target), None) = (self.register.target(), self.register.away()) else { return };
        if self.peers.waits_ms(self.now) > 0 {
            return;
        }
        let Some(words) = self.forgotten.find(target, &self.agents, self.now) else { return };
        let content = self.register.view().content();
        let outcome = match frozen_by(self.register.view(), &content) {
            Some(_) => Err("the fleet is frozen".to_owned()),
            None => {
                let reason = format!("the content of generation {target} once more: {words}");
                self.publish_unasked(ControlVerb::Rollback, &reason, content)
            }
        };
        let line = match outcome {
            Ok(()) if self.register.target() == Some(target) => return,
            Ok(()) => {
                let number = self.register.target().unwrap_or(target);
                format!("{words}; what {target} has goes out once more, as {number}")
            }
            Err(error) => format!("{words}; what {target} has does not go out once more yet: {error}"),
        };
        if let Some(line) = self.forgotten.note(line) {
            self.log.add(line);
        }
    }

    /// Writes failures that the register does not have yet: what this controller has learnt outlives it, and all others know it.
    pub(crate) fn keep_failures(&mut self) {
        if !self.failures.may_keep(self.now) {
            return;
        }
        match self.keep_condemned().and_then(|()| self.keep_quarantines()) {
            Ok(()) => self.failures.note_all_kept(),
            Err(error) => {
                if self.failures.note_not_kept(self.now) {
                    self.log.add(format!("failures are not kept, and a restart would forget them: {error}"));
                }
            }
        }
    }

    fn keep_condemned(&mut self) -> Result<(), RegisterError> {
        let new = self.failures.unkept();
        if new.is_empty() {
            return Ok(());
        }
        let dropped = self.register.condemn(&new)?;
        self.failures.note_kept(new);
        for text in dropped {
            let line =
                format!("text {text} has failed and is forgotten: {CONDEMNED_MAX} later ones are kept");
            self.log.add(line);
        }
        Ok(())
    }

    fn keep_quarantines(&mut self) -> Result<(), RegisterError> {
        let new = self.health.unkept();
        if new.is_empty() {
            return Ok(());
        }
        let dropped = self.register.hold(&new)?;
        self.health.note_kept(new, &dropped).into_iter().for_each(|line| self.log.add(line));
        Ok(())
    }

    /// Writes lists of routers that are others than those in the register, if it is time.
    pub(crate) fn keep_router_lists(&mut self) {
        if self.register.away().is_some()
            || self.peers.waits_ms(self.now) > 0
            || !self.router_lists.begin_look(self.now)
        {
            return;
        }
        let mut trouble = None;
        let kept = self.register.view().router_lists();
        for (scope, list) in self.router_lists.changes(kept, &self.agents, self.now) {
            let what = format!("the list of the routers of view {} in zone {}", scope.0, scope.1);
            let written = list.and_then(|list| {
                let written = self.register.write_router_list(scope, list, self.now);
                written.map_err(|error| error.to_string())
            });
            if let Err(why) = written {
                trouble.get_or_insert(format!("{what} stays as it is: {why}"));
            }
        }
        if let Some(why) = self.router_lists.note_trouble(trouble) {
            self.log.add(why);
        }
        self.follow_router_lists();
    }
}
