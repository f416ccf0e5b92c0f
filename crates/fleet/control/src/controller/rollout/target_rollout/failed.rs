//! A target whose text has failed in a router.
//!
//! Routes go back to what they were. A slot does not: the member that has left it misses what was deleted since, wherever a
//! router has loaded the new text, and cannot be emptied as long as other routers use it. So other members take the slots of
//! those that came with the text: empty ones, which no router knows yet.

use fleet::rollout::{HaltEvidence, LayeredRollout, RolloutState};
use fleet::{FleetContent, Generation, GenerationNumber, MemberId, Replacement, gone_back_to};
use stdx::clock::Now;

use super::TargetRollout;
use crate::controller::register_mirror::FleetView;
use crate::controller::rollout::failures::KeptFailures;
use crate::controller::rollout::published::published;

/// Texts in a row that may fail before a person is waited for: three members that end a router are no accident.
pub(crate) const FAILED_IN_A_ROW_MAX: usize = 3;
/// Time until a slot's new member is looked for again.
const TRY_EVERY_MS: u64 = 1_000;

/// What is done about a target whose text has failed.
#[derive(Default)]
pub(super) struct FailedTarget {
    /// The text had failed before this controller began its rollout: the generation that routers have instead.
    base: Option<GenerationNumber>,
    /// It was the text of its lower generation.
    is_lower: bool,
    /// Since when it is known here.
    since: Option<Now>,
    /// When something is tried again, and why it did not help, for people.
    try_at: Now,
    note: Option<String>,
}

/// What follows the target if its text has failed.
pub(crate) enum AfterFailure {
    /// This content, which routers have whose turn has not come, or with the members that slots have now.
    GoBack { to: GenerationNumber, content: FleetContent, evidence: String },
    /// Other members take the slots of those that came with the text, in this content. Routes that were on their way are given up.
    Replace {
        entered: Vec<Replacement>,
        ground: FleetContent,
        given_up: Option<GenerationNumber>,
        evidence: String,
    },
}

impl FailedTarget {
    /// Of a target that routers do not get, but the base; none yet of one that they get.
    pub(super) fn of(base: Option<GenerationNumber>, is_lower: bool) -> FailedTarget {
        FailedTarget { base, is_lower, ..FailedTarget::default() }
    }

    pub(super) fn base(&self) -> Option<GenerationNumber> {
        self.base
    }

    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl TargetRollout {
    /// What follows the target if its text has failed in a router. Whatever else has halted a rollout waits for a person. Others
    /// take slots when that has stood for `waits_ms`.
    pub(crate) fn after_failure(
        &mut self,
        view: &FleetView,
        waits_ms: u64,
        now: Now,
    ) -> Option<AfterFailure> {
        let (base, evidence) = self.failed_target()?;
        let since = *self.failed.since.get_or_insert(now);
        if now < self.failed.try_at {
            return None;
        }
        let current = view.current()?;
        if let Some(lower) = self.lower_of(view, current).filter(|_| self.has_lower_failed()) {
            let entered = view.generations().get(&base).map(|base| entered(&base.content, &lower.content))?;
            if entered.is_empty() || since.ms() + waits_ms > now.ms() {
                return None;
            }
            self.failed.try_at = Now::at_ms(now.ms() + TRY_EVERY_MS);
            let (ground, given_up) = (lower.content.clone(), view.target());
            return Some(AfterFailure::Replace { entered, ground, given_up, evidence });
        }
        // What was gone back from must not come again, and the first one has nothing before it.
        let is_back = gone_back_to(view.generations(), current).is_some();
        let before = view.generations().get(&base).filter(|_| !is_back)?;
        let (to, with_members) = (before.number, before.content.clone().with_members_of(&current.content));
        if with_members != current.content {
            return Some(AfterFailure::GoBack { to, content: with_members, evidence });
        }
        // Nothing but slots differs, and they are what has failed.
        let entered = entered(&before.content, &current.content);
        if entered.is_empty() {
            return Some(AfterFailure::GoBack { to, content: before.content.clone(), evidence });
        }
        if since.ms() + waits_ms > now.ms() {
            return None;
        }
        self.failed.try_at = Now::at_ms(now.ms() + TRY_EVERY_MS);
        let (ground, given_up) = (current.content.clone(), None);
        Some(AfterFailure::Replace { entered, ground, given_up, evidence })
    }

    /// Keeps why nobody takes the slots, for people.
    pub(crate) fn note_failure(&mut self, note: String) {
        self.failed.note = Some(note);
    }

    /// The generation that routers have instead of a target that has failed, and what was seen.
    fn failed_target(&self) -> Option<(GenerationNumber, String)> {
        let Some(machine) = &self.machine else {
            return self.failed.base.map(|base| (base, "its text has failed in a router before".to_owned()));
        };
        match machine.state() {
            RolloutState::Halted(HaltEvidence::Router { router, shortfall, .. })
                if machine.condemned().next().is_some() =>
            {
                let base =
                    if machine.has_lower_failed() { machine.before_lower() } else { Some(machine.base()) };
                Some((base?, format!("{router} {shortfall}")))
            }
            _ => None,
        }
    }

    /// Whether what has failed is the lower generation: the new members, and not the routes.
    fn has_lower_failed(&self) -> bool {
        let fails = LayeredRollout::has_lower_failed;
        self.machine.as_ref().map_or(self.failed.is_lower, fails)
    }

    /// Goes back to the texts of the base, which most routers have, by a generation that has its content. False if there is no
    /// rollout to go back from.
    pub(crate) fn go_back(&mut self, generation: &Generation) -> bool {
        let number = generation.number;
        let Some(back) = self.machine.as_mut().and_then(|machine| machine.roll_back(number)) else {
            return false;
        };
        // The texts are those of the generation before, which are there.
        self.digests.insert(number, published(number, &generation.content).0);
        self.machine = Some(back);
        true
    }
}

/// How many generations up to this one have failed, one after the other.
pub(crate) fn failed_in_a_row(view: &FleetView, failures: &KeptFailures, current: &Generation) -> usize {
    let chain = std::iter::successors(Some(current), |one| view.generations().get(&one.parent?));
    chain.take_while(|one| failures.has_failed(one)).count()
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
