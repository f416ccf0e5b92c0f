//! Commands of people for the rollout that is going on: it halts, goes on, hurries, or is given up.
//!
//! The register keeps it with the generation's number, so that all controllers do the same, and one that is started again as well. A later
//! generation makes it void.

use admin::api::ApiReply;
use fleet::rollout::{HaltEvidence, RolloutEvent, RolloutState};
use serde_json::json;

use super::Controller;
use super::replies::{document, refusal, register_away};
use crate::decisions::RolloutWord;
use crate::questions::RolloutAct;

impl Controller {
    /// Does what a person wants.
    pub(super) fn on_rollout_act(&mut self, act: RolloutAct, why: &str) -> ApiReply {
        let Some(number) = self.target() else { return refusal(409, "there is no generation yet") };
        if act == RolloutAct::Abandon {
            return self.abandon(why);
        }
        let has_failed = self.rollout.as_ref().is_none_or(|rollout| !rollout.condemned().is_empty());
        if has_failed && act != RolloutAct::Halt {
            return refusal(
                409,
                &format!(
                    "the text of generation {number} has ended or failed in a router, and no other one gets it\n  hint: `control rollout \
                     abandon --why …`, or another change"
                ),
            );
        }
        let (known, revision) = match self.register.rollout_word() {
            Ok((word, revision)) => (word.filter(|word| word.generation == number), revision),
            Err(error) => return register_away(&error),
        };
        let mut word = known.unwrap_or(RolloutWord::none(number));
        if act == RolloutAct::Halt {
            word.halted = Some(why.to_owned());
        } else {
            word.halted = None;
            word.is_hurried |= act == RolloutAct::Hurry;
            word.excused.extend(self.rollout.as_ref().map(|rollout| rollout.failing()).unwrap_or_default());
        }
        match self.register.set_rollout_word(&word, revision) {
            Ok(true) => {}
            Ok(false) => return self.overtaken(),
            Err(error) => return register_away(&error),
        }
        self.follow_rollout_word();
        self.give_new_orders();
        let without = word.excused.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let without =
            if without.is_empty() { without } else { format!(", whatever these routers do: {without}") };
        let text = match act {
            RolloutAct::Halt => format!("no further router gets generation {number}\n"),
            RolloutAct::Hurry => {
                format!("generation {number} goes on without the time of its waves{without}\n")
            }
            _ => format!("generation {number} goes on{without}\n"),
        };
        document(text, json!({"generation": number, "excused": word.excused}))
    }

    /// Tells the rollout what a person wants of it.
    pub(super) fn follow_rollout_word(&mut self) {
        let Some(word) = self.register.view().rollout_word().cloned() else { return };
        match word.halted {
            Some(reason) => self.tell(RolloutEvent::Halt { reason }),
            None => self.tell(RolloutEvent::Resume { excused: word.excused }),
        }
        if word.is_hurried {
            self.tell(RolloutEvent::Hurry);
        }
    }

    /// Gives routers what all of them have had, with the members that slots have now.
    fn abandon(&mut self, why: &str) -> ApiReply {
        let number = self.target().expect("there is a generation");
        if self.is_rolled_out() || self.settled() >= Some(number) {
            let hint = "`control rollback N` puts the routes of an earlier one in force";
            return refusal(409, &format!("all routers have generation {number}\n  hint: {hint}"));
        }
        let Some(before) = self.base_of_target() else {
            return refusal(
                409,
                &format!(
                    "there is no generation before {number} that all routers have had, so nothing to go back to\n  hint: `control plan \
                     --policy FILE` makes another one"
                ),
            );
        };
        if before
            .content
            .clone()
            .with_members_of(&self.register.view().content())
            .member_of_two_slots()
            .is_some()
        {
            let (hint, before) = ("`control plan --policy FILE` makes another one", before.number);
            return refusal(
                409,
                &format!(
                    "generation {before} has a slot whose member has another one since, so its routes cannot come back\n  hint: {hint}"
                ),
            );
        }
        let (content, given_up) = self.ground();
        if given_up.is_none() {
            let hint = "`control rollout hurry`, `control drain MEMBER --cancel`, or `control replace` with another member";
            return refusal(
                409,
                &format!(
                    "generation {number} changes nothing but who has which slot, and a slot goes on and not back\n  hint: {hint}"
                ),
            );
        }
        if let Some(reply) = self.frozen_by(&content) {
            return reply;
        }
        if let Err(reply) = self.put_in_force(content, why) {
            return reply;
        }
        let new = self.target().expect("it is in force");
        let text =
            format!("generation {number} is given up: generation {new} has the routes that were before it\n");
        document(text, json!({"generation": new, "given_up": number}))
    }

    /// What a rollout waits for that goes on by nobody's work but a person's, and what that person can do.
    pub(super) fn rollout_notes(&self) -> Vec<String> {
        let Some(rollout) = &self.rollout else { return Vec::new() };
        let mut notes = Vec::new();
        let number = rollout.generation();
        let ways = "`control rollout resume`, `hurry` or `abandon` with --why";
        match rollout.state() {
            RolloutState::Halted(HaltEvidence::Person { .. }) => {
                notes.push(format!("generation {number} is halted by a person, until {ways}"));
            }
            RolloutState::Halted(HaltEvidence::Router { router, .. }) if rollout.condemned().is_empty() => {
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
        notes.extend(rollout.set_aside().map(|router| {
            format!(
                "{router} keeps a file that somebody else has written, whatever is published: put back what its agent wrote, or remove the \
                 file, and the agent writes it again"
            )
        }));
        notes
    }
}
