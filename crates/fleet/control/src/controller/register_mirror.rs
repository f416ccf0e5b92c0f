//! The register mirror: what this controller has read in the register, when it reads it again, and all that it writes there.
//!
//! The target and what hangs on it are noted as soon as they are written; policy and members are read again after a write, as
//! after one of another controller. A register that is away changes nothing: what is known stays in force.

mod fleet_view;

use fleet::health::Quarantined;
use fleet::waves::{ChangeNumber, ChangeProgress};
use fleet::{FleetMember, Generation, GenerationNumber, MemberId, TextDigest};
use stdx::clock::Now;

pub(super) use fleet_view::FleetView;

use super::rollout::published::published;
use crate::audit::AuditHead;
use crate::decisions::changes::{ChangeEnd, ChangeRecord, ChangeRow};
use crate::decisions::{
    FleetDecisions, GoneHost, HeldRecord, ListScope, NewGeneration, Publication, ReplacedChange, RolloutWord,
    RouterList,
};
use crate::identity::join_token::JoinTokens;
use crate::register::{RegisterError, Revision};
use crate::words::in_full;

/// Time after which the register is read although it has not said that it changed.
const READ_EVERY_MS: u64 = 60_000;
/// Time until a register that was away is asked again.
pub(super) const RETRY_MS: u64 = 1_000;
/// Interval of questions whether the register answers: a controller that does not hear of decisions sends its agents to others.
const ASK_EVERY_MS: u64 = 2_000;

/// A register, and what it had when it was read last.
pub(super) struct RegisterMirror {
    decisions: FleetDecisions,
    view: FleetView,
    /// When the register is read again.
    read_at: Now,
    /// When it is asked whether it answers.
    ask_at: Now,
    /// Why it could not be read.
    away: Option<String>,
    /// When it was read last by a controller that has followed what it had.
    followed_at: Option<Now>,
}

/// What was new.
pub(super) struct RegisterNews {
    /// The target before, if it is another one now.
    pub(super) target_before: Option<Option<GenerationNumber>>,
    /// Members have changed.
    pub(super) has_new_members: bool,
}

impl RegisterMirror {
    /// Reads it all.
    pub(super) fn new(decisions: FleetDecisions, now: Now) -> Result<RegisterMirror, RegisterError> {
        Ok(RegisterMirror {
            view: FleetView::read(&decisions)?,
            decisions,
            read_at: Now::at_ms(now.ms() + READ_EVERY_MS),
            ask_at: Now::at_ms(now.ms() + ASK_EVERY_MS),
            away: None,
            followed_at: None,
        })
    }

    /// What the register has, as far as it is known.
    pub(super) fn view(&self) -> &FleetView {
        &self.view
    }

    /// The generation in force.
    pub(super) fn target(&self) -> Option<GenerationNumber> {
        self.view.target()
    }

    /// Why the register could not be read, if it is away.
    pub(super) fn away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// Has it read at the next moment.
    pub(super) fn read_soon(&mut self, now: Now) {
        self.read_at = now;
    }

    /// Whether it is to be read. If it is time, it is asked for the target alone: whether it answers, and whether there was news
    /// that nobody has told.
    pub(super) fn is_read_due(&mut self, now: Now) -> bool {
        if self.read_at > now && self.ask_at <= now {
            self.ask_at = Now::at_ms(now.ms() + ASK_EVERY_MS);
            match self.decisions.target() {
                Ok(target) if target == self.view.target_record() => {}
                // The one that reads says what is wrong.
                _ => self.read_at = now,
            }
        }
        self.read_at <= now
    }

    /// Whether what is known is too old for people, and the register is not known to be away.
    pub(super) fn is_old(&self, now: Now) -> bool {
        self.followed_at.is_none_or(|at| at.ms() + RETRY_MS <= now.ms()) && self.away.is_none()
    }

    /// Reads the register. None if it is away.
    pub(super) fn read(&mut self, now: Now) -> Option<RegisterNews> {
        let before = self.view.target_record();
        self.ask_at = Now::at_ms(now.ms() + ASK_EVERY_MS);
        match self.view.read_news(&self.decisions) {
            Ok(has_new_members) => {
                self.read_at = Now::at_ms(now.ms() + READ_EVERY_MS);
                self.away = None;
                let is_other = self.view.target_record() != before;
                let target_before = is_other.then(|| before.map(|before| before.number));
                Some(RegisterNews { target_before, has_new_members })
            }
            Err(error) => {
                self.read_at = Now::at_ms(now.ms() + RETRY_MS);
                self.away = Some(in_full(&error));
                None
            }
        }
    }

    /// Notes that all that was read is followed.
    pub(super) fn note_followed(&mut self, now: Now) {
        self.followed_at = Some(now);
    }

    /// When it was read last and followed.
    pub(super) fn followed_at(&self) -> Option<Now> {
        self.followed_at
    }

    /// Makes a generation the target, with the lower one that was made with it and these records of replacements.
    pub(super) fn publish(
        &mut self,
        generation: &Generation,
        lower: Option<&Generation>,
        replaced: &ReplacedChange,
    ) -> Result<Publication, RegisterError> {
        let json = |one: &Generation| serde_json::to_vec(one).expect("a generation has names and texts");
        let texts = |one: &Generation| published(one.number, &one.content).1.into_values();
        let new = NewGeneration {
            number: generation.number,
            json: json(generation),
            texts: texts(generation).chain(lower.into_iter().flat_map(texts)).collect(),
            lower: lower.map(|lower| (lower.number, json(lower))),
            replaced: replaced.clone(),
        };
        let published = self.decisions.publish(self.view.target_record(), &new)?;
        if let Publication::Done(target) = published {
            self.view.note_target(target, new.replaced);
        }
        Ok(published)
    }

    /// Takes a generation that was published.
    pub(super) fn add(&mut self, generation: Generation) {
        self.view.add(generation);
    }

    /// The policy's text.
    pub(super) fn policy_text(&self) -> Result<Option<String>, RegisterError> {
        Ok(self.decisions.policy()?.0)
    }

    /// Replaces the policy, if nobody else has; whether it did. Its revision is new, even if the answer is lost.
    pub(super) fn set_policy(&mut self, text: &str, now: Now) -> Result<bool, RegisterError> {
        self.read_soon(now);
        self.decisions.set_policy(text, self.view.policy_revision())
    }

    /// Writes members that have changed, and forgets others; false if another controller has written one. One after the other:
    /// each of them is a whole decision, and the same change can be made again.
    pub(super) fn write_members(
        &mut self,
        members: &[FleetMember],
        remove: &[MemberId],
        now: Now,
    ) -> Result<bool, RegisterError> {
        // Whatever happens, the register has it.
        self.read_soon(now);
        let known = self.decisions.members()?;
        let revision = |id: &MemberId| {
            let entry = known.iter().find(|entry| entry.key.as_str().rsplit('/').next() == Some(id.as_str()));
            entry.map_or(Revision::ABSENT, |entry| entry.revision)
        };
        for member in members.iter().filter(|member| self.view.inventory().get(&member.id) != Some(*member)) {
            let json = serde_json::to_string(member).expect("a member has names and texts");
            if !self.decisions.set_member(member.id.as_str(), &json, revision(&member.id))? {
                return Ok(false);
            }
        }
        for id in remove {
            if !self.decisions.remove_member(id.as_str(), revision(id))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has every controller forget hosts.
    pub(super) fn note_gone(&self, gone: &[GoneHost]) -> Result<(), RegisterError> {
        self.decisions.note_gone(gone)
    }

    /// Freezes a scope; false if another controller has written about it at the same moment.
    pub(super) fn freeze(&mut self, scope: &str, why: &str) -> Result<bool, RegisterError> {
        let is_done = self.decisions.freeze(scope, why)?;
        if is_done {
            self.view.note_frozen(scope, why);
        }
        Ok(is_done)
    }

    /// Lets a scope change again; whether it was frozen.
    pub(super) fn thaw(&mut self, scope: &str) -> Result<bool, RegisterError> {
        let was_frozen = self.decisions.thaw(scope)?;
        self.view.note_thawed(scope);
        Ok(was_frozen)
    }

    /// What a person wants of a rollout, as the register has it now.
    pub(super) fn rollout_word(&self) -> Result<(Option<RolloutWord>, Revision), RegisterError> {
        self.decisions.rollout_word()
    }

    /// Writes what a person wants of a rollout; false if another controller has at the same moment.
    pub(super) fn set_rollout_word(
        &mut self,
        word: &RolloutWord,
        revision: Revision,
    ) -> Result<bool, RegisterError> {
        let is_done = self.decisions.set_rollout_word(word, revision)?;
        if is_done {
            self.view.note_rollout_word(word.clone());
        }
        Ok(is_done)
    }

    /// Writes down that all routers have had the target, and `settled` at least.
    pub(super) fn keep_settled(
        &mut self,
        target: GenerationNumber,
        settled: GenerationNumber,
    ) -> Result<(), RegisterError> {
        self.decisions.keep_settled(target)?;
        self.view.note_settled(settled);
        Ok(())
    }

    /// Adds texts that have failed. Returns those that were forgotten for want of room.
    pub(super) fn condemn(&self, texts: &[TextDigest]) -> Result<Vec<TextDigest>, RegisterError> {
        self.decisions.condemn(texts)
    }

    /// Adds members and hosts to the quarantine. Returns those that were let go for want of room.
    pub(super) fn hold(&self, records: &[HeldRecord]) -> Result<Vec<HeldRecord>, RegisterError> {
        self.decisions.hold(records)
    }

    /// Ends a quarantine. The losses before it count no more either: not here, and not in a controller that is started again.
    pub(super) fn release(&self, whose: &Quarantined) -> Result<(), RegisterError> {
        self.decisions.release(whose).and_then(|()| self.decisions.forgive(whose))
    }

    /// Replaces a list of routers, unless another controller has. An error is no reason to believe what is known.
    pub(super) fn write_router_list(
        &mut self,
        scope: ListScope,
        list: RouterList,
        now: Now,
    ) -> Result<(), RegisterError> {
        let revision =
            self.view.router_lists().get(&scope).map_or(Revision::ABSENT, |(_, revision)| *revision);
        let written = self.decisions.set_router_list(&scope, &list, revision);
        match &written {
            Ok(Some(revision)) => self.view.note_router_list(scope, list, *revision),
            Ok(None) | Err(_) => self.read_soon(now),
        }
        written.map(|_| ())
    }

    /// The record of a change of hosts, as the register has it.
    pub(super) fn change_record(&self, row: &ChangeRow) -> Result<ChangeRecord, RegisterError> {
        self.decisions.change_record(row)
    }

    /// What is decided of a change of hosts, and the revision to compare.
    pub(super) fn change_progress(
        &self,
        number: ChangeNumber,
    ) -> Result<(ChangeProgress, Revision), RegisterError> {
        self.decisions.change_progress(number)
    }

    /// Writes down a new change of hosts; false if another controller has at the same moment.
    pub(super) fn create_change(&mut self, record: &str, row: ChangeRow) -> Result<bool, RegisterError> {
        let known = self.decisions.create_change(self.view.known_changes(), record, row)?;
        let is_done = known.is_some();
        known.into_iter().for_each(|known| self.view.note_changes(known));
        Ok(is_done)
    }

    /// Writes what is decided of a change, and what has become of it if that is another thing now. None if another controller has
    /// written about it; otherwise the revision to compare next.
    pub(super) fn write_change_progress(
        &mut self,
        number: ChangeNumber,
        decided: (&ChangeProgress, Revision),
        end: Option<ChangeEnd>,
    ) -> Result<Option<Revision>, RegisterError> {
        let (list, revision) = self.view.known_changes();
        let new = list.with_end(number, end);
        let list = (new != *list).then_some((&new, *revision));
        let written = self.decisions.write_change_progress(number, decided, list)?;
        if let (Some(revision), true) = (written, list.is_some()) {
            self.view.note_changes((new, revision));
        }
        Ok(written)
    }

    /// Join tokens, and the revision to compare.
    pub(super) fn join_tokens(&self) -> Result<(Option<JoinTokens>, Revision), RegisterError> {
        self.decisions.join_tokens()
    }

    /// Replaces the join tokens; false if another controller has at the same moment.
    pub(super) fn set_join_tokens(
        &self,
        tokens: &JoinTokens,
        revision: Revision,
    ) -> Result<bool, RegisterError> {
        self.decisions.set_join_tokens(tokens, revision)
    }

    /// Keeps the last record of this controller's audit log.
    pub(super) fn keep_audit_head(&self, controller: &str, head: &AuditHead) {
        // If the register is away now, the log has more records than it knows of, and says so when it is opened.
        let _ = self.decisions.set_audit_head(controller, head);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::register::{SimulatedFault, SimulatedRegister};

    fn at(ms: u64) -> Now {
        Now::at_ms(ms)
    }

    fn mirror(register: &SimulatedRegister) -> RegisterMirror {
        let decisions = FleetDecisions::new(Arc::new(register.client()), &"f".parse().expect("a name"));
        RegisterMirror::new(decisions, at(0)).expect("an answer")
    }

    #[test]
    fn a_register_is_asked_every_two_seconds_and_read_when_it_does_not_answer() {
        let register = SimulatedRegister::default();
        let mut mirror = mirror(&register);
        assert!(!mirror.is_read_due(at(ASK_EVERY_MS)), "it answers, and has no other target");
        register.add_fault(SimulatedFault::NotReached);
        assert!(mirror.is_read_due(at(2 * ASK_EVERY_MS)));
        register.add_fault(SimulatedFault::NotReached);
        assert!(mirror.read(at(2 * ASK_EVERY_MS)).is_none() && mirror.away().is_some());
        assert!(!mirror.is_old(at(READ_EVERY_MS)), "people are told that it is away");
        assert!(!mirror.is_read_due(at(2 * ASK_EVERY_MS + RETRY_MS - 1)));
        assert!(mirror.is_read_due(at(2 * ASK_EVERY_MS + RETRY_MS)));
        let news = mirror.read(at(2 * ASK_EVERY_MS + RETRY_MS)).expect("it is back");
        assert!(mirror.away().is_none() && news.target_before.is_none() && !news.has_new_members);
    }

    #[test]
    fn what_is_written_is_known_at_once_and_what_others_write_when_it_is_read() {
        let register = SimulatedRegister::default();
        let (mut first, mut second) = (mirror(&register), mirror(&register));
        assert!(first.freeze("fleet", "we look").expect("an answer"));
        assert_eq!((first.view().frozen().len(), second.view().frozen().len()), (1, 0));
        second.read(at(1)).expect("an answer");
        assert_eq!(second.view().frozen(), first.view().frozen());
        assert!(second.thaw("fleet").expect("an answer") && second.view().frozen().is_empty());
    }
}
