//! Course of one change on a host: which step is next, and what the host says of it.
//!
//! Does nothing itself and reads no clock. An attempt is begun once at most: if it was begun and is not there any more, the host has gone
//! back, and a controller decides whether there is another attempt.

use std::time::Duration;

use fleet::waves::HostWord;
use stdx::clock::Now;

use super::actor::{ActPhase, ActState, BegunAct};
use super::record::{AttemptOutcome, ChangeRecord, TriedAttempt};
use crate::service::turn::ChangeOrder;

/// Interval of looks at a change that the host keeps: somebody else may take it back.
const KEPT_LOOK_EVERY: Duration = Duration::from_secs(300);
/// Interval of looks while another process is at work.
const WORK_LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a change should have been taken back by the host itself, it is looked at after so long.
const LAPSE_LOOK_AFTER: Duration = Duration::from_secs(1);
/// The first pause after a step has failed; it doubles with each failure.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause: a person who removes the cause should not have to wait.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Looks that fail before an attempt is given up that was not begun: a host that is busy may be so for a moment.
const LOOKS_MAX: u32 = 3;

/// Looks in a row that fail before a host says so of what it shall have: half a minute, since it may be busy for a moment.
const BLIND_LOOKS_MAX: u32 = 6;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CourseStep {
    /// Look how the host is.
    Look,
    /// Take this attempt back.
    GoBack(u32),
    /// Keep it: a controller has been heard since.
    Keep(u32),
    /// Begin it.
    Begin(u32),
    /// Nothing now.
    Rest,
}

/// One change on this host.
#[derive(Clone, Debug)]
pub(super) struct ChangeCourse {
    record: ChangeRecord,
    /// What the last look has found, or what is known without one.
    seen: Option<ActState>,
    /// When a look is due.
    look_at: Now,
    /// Nothing is done before, because a step has failed.
    not_before: Now,
    failures: u32,
    /// Why the last look has found nothing out.
    blind: Option<String>,
    /// Looks in a row that have found nothing out.
    blind_looks: u32,
    /// Why it could not be taken back.
    complaint: Option<String>,
    /// Why the attempt that is under way failed, if it did.
    failure: Option<String>,
    /// The attempt for which a controller has been heard after it was applied.
    heard: Option<u32>,
}

impl ChangeCourse {
    /// Goes on with what was kept, or begins with an order.
    pub(super) fn new(record: ChangeRecord) -> ChangeCourse {
        ChangeCourse {
            record,
            seen: None,
            look_at: Now::default(),
            not_before: Now::default(),
            failures: 0,
            blind: None,
            blind_looks: 0,
            complaint: None,
            failure: None,
            heard: None,
        }
    }

    /// What is kept of it.
    pub(super) fn record(&self) -> &ChangeRecord {
        &self.record
    }

    /// Takes an order. True if it is another one than before; one that is out of date is ignored.
    ///
    /// # Errors
    /// If it is about another change with the same number, while something of the first is on the host.
    pub(super) fn take(&mut self, order: &ChangeOrder) -> Result<bool, String> {
        let before = &self.record.order;
        if order.act != before.act {
            if self.seen != Some(ActState::AsBefore) {
                return Err(format!(
                    "change {} is not the one that this host has under this number; that one has to be taken back first",
                    order.order.change
                ));
            }
            *self = ChangeCourse::new(ChangeRecord { order: order.clone(), tried: None });
            return Ok(true);
        }
        if order.order.version < before.order.version || order == before {
            return Ok(false);
        }
        if order.order.attempt != before.order.attempt {
            // Whatever failed before is tried at once.
            (self.not_before, self.failures) = (Now::default(), 0);
        }
        self.record.order = order.clone();
        Ok(true)
    }

    /// It is not wanted any more: no attempt shall be there.
    pub(super) fn end(&mut self) {
        let order = &mut self.record.order.order;
        if order.attempt.take().is_some() {
            order.version += 1;
            (self.not_before, self.failures) = (Now::default(), 0);
        }
    }

    /// A controller has answered, with an order of this version, what was said after the attempt had been applied.
    pub(super) fn hear(&mut self, attempt: u32, version: u64) {
        if version >= self.record.order.order.version {
            self.heard = Some(attempt);
        }
    }

    /// What is to be done.
    pub(super) fn next(&self, now: Now) -> CourseStep {
        if now < self.not_before {
            return CourseStep::Rest;
        }
        let Some(seen) = self.seen.filter(|_| now < self.look_at) else { return CourseStep::Look };
        let told = self.record.order.order.attempt;
        match seen {
            ActState::There { phase: ActPhase::AtWork, .. } => CourseStep::Rest,
            ActState::There { attempt, phase } if told == Some(attempt) => match phase {
                ActPhase::Waiting(_) if self.heard == told => CourseStep::Keep(attempt),
                ActPhase::Waiting(_) | ActPhase::Kept | ActPhase::AtWork => CourseStep::Rest,
                ActPhase::Interrupted => CourseStep::GoBack(attempt),
            },
            ActState::There { attempt, .. } => CourseStep::GoBack(attempt),
            ActState::AsBefore => match told.filter(|told| self.is_new(*told)) {
                Some(told) => CourseStep::Begin(told),
                None => CourseStep::Rest,
            },
        }
    }

    fn is_new(&self, attempt: u32) -> bool {
        self.record.tried.as_ref().is_none_or(|tried| tried.attempt < attempt)
    }

    /// Something of it is on the host and may still change, or has to go back.
    pub(super) fn is_under_way(&self) -> bool {
        match self.seen {
            None => self.record.tried.as_ref().is_some_and(|tried| tried.outcome == AttemptOutcome::Begun),
            Some(ActState::AsBefore) => false,
            Some(ActState::There { attempt, phase }) => {
                phase != ActPhase::Kept || self.record.order.order.attempt != Some(attempt)
            }
        }
    }

    /// Why it could not be taken back or looked at the last time.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.complaint.as_deref().or(self.blind.as_deref())
    }

    /// How the host is has never been found out.
    pub(super) fn is_blind(&self) -> bool {
        self.seen.is_none()
    }

    /// Nothing of it is on the host, as far as is known.
    pub(super) fn is_as_before(&self) -> bool {
        self.seen == Some(ActState::AsBefore)
    }

    /// The attempt that may be on the host without a trace: one that was begun, or, if nothing is known of any and none shall be there, one of
    /// an agent that had another folder.
    pub(super) fn may_be_unnoted(&self) -> Option<u32> {
        match &self.record.tried {
            Some(tried) => {
                let may_be = matches!(tried.outcome, AttemptOutcome::Begun | AttemptOutcome::Kept);
                may_be.then_some(tried.attempt)
            }
            // Below all that a controller counts: each of those is a new one.
            None => self.record.order.order.attempt.is_none().then_some(0),
        }
    }

    /// An attempt is about to begin: from here on it counts as begun.
    pub(super) fn begin(&mut self, attempt: u32, boot: &str) {
        self.tried(attempt, boot, AttemptOutcome::Begun);
        // From now on it is not as before, for those who ask meanwhile, too.
        self.seen = Some(ActState::There { attempt, phase: ActPhase::AtWork });
        (self.failure, self.heard, self.complaint) = (None, None, None);
    }

    /// It is over, or was not begun after all.
    pub(super) fn has_begun(&mut self, begun: Result<BegunAct, String>) {
        match begun {
            Ok(BegunAct::Done) => self.look_again(),
            Ok(BegunAct::Nothing) => {
                self.outcome(AttemptOutcome::Nothing);
                self.look_again();
            }
            Err(reason) => {
                self.failure = Some(reason);
                self.look_again();
            }
        }
    }

    /// An attempt that is not begun at all.
    pub(super) fn refuse(&mut self, attempt: u32, boot: &str, reason: String) {
        self.tried(attempt, boot, AttemptOutcome::Failed { reason });
        self.seen = Some(ActState::AsBefore);
    }

    /// It was kept, or not; a look says which.
    pub(super) fn has_kept(&mut self, kept: Result<(), String>, now: Now) {
        if let Err(why) = kept {
            // If the host is as before by then, that is why.
            self.failure = Some(format!("it could not be kept: {why}"));
            self.pause(now);
        }
        self.look_again();
    }

    /// It is about to be taken back, for this reason if the host has one of its own.
    pub(super) fn fails(&mut self, why: Option<String>) {
        self.failure = why.or(self.failure.take());
    }

    /// It was taken back, or not; a look says which.
    pub(super) fn has_gone_back(&mut self, gone: Result<(), String>, now: Now) {
        if self.failure.is_none() && self.record.order.order.attempt.is_some() {
            self.failure = Some("it was interrupted, and taken back".to_owned());
        }
        self.look_again();
        if let Err(why) = gone {
            self.pause(now);
            self.complaint = Some(why);
        }
    }

    /// Takes what a look has found.
    pub(super) fn looked(&mut self, found: Result<ActState, String>, boot: &str, now: Now) {
        let told = self.record.order.order.attempt;
        let state = match found {
            Ok(state) => state,
            Err(why) => {
                let why = format!("look how the host is: {why}");
                // Nothing of this change was ever done here, as far as this agent knows.
                let is_hopeless = self.is_untouched() && self.failures + 1 >= LOOKS_MAX;
                if let Some(told) = told.filter(|told| is_hopeless && self.is_new(*told)) {
                    self.tried(told, boot, AttemptOutcome::Failed { reason: why.clone() });
                }
                self.blind = Some(why);
                self.blind_looks = self.blind_looks.saturating_add(1);
                self.pause(now);
                return;
            }
        };
        let pause = match state {
            ActState::There { phase: ActPhase::AtWork, .. } => Some(WORK_LOOK_EVERY),
            ActState::There { phase: ActPhase::Waiting(left), .. } => Some(left + LAPSE_LOOK_AFTER),
            ActState::There { phase: ActPhase::Kept, .. } => Some(KEPT_LOOK_EVERY),
            ActState::There { phase: ActPhase::Interrupted, .. } | ActState::AsBefore => None,
        };
        self.look_at = pause.map_or(Now { us: u64::MAX }, |pause| after(now, pause));
        (self.seen, self.blind, self.blind_looks) = (Some(state), None, 0);
        match state {
            ActState::There { attempt, phase } => {
                if self.is_new(attempt) {
                    // The agent's folder is a new one, or an older one came back.
                    self.tried(attempt, boot, AttemptOutcome::Begun);
                }
                if phase == ActPhase::Kept && told == Some(attempt) {
                    self.outcome(AttemptOutcome::Kept);
                    self.failure = None;
                }
                if told == Some(attempt) && phase != ActPhase::Interrupted {
                    (self.complaint, self.failures) = (None, 0);
                }
            }
            ActState::AsBefore => {
                (self.complaint, self.failures) = (None, 0);
                self.is_back(boot);
            }
        }
    }

    /// The host is as before: what has become of the attempt?
    fn is_back(&mut self, boot: &str) {
        let (told, failure) = (self.record.order.order.attempt, self.failure.take());
        let Some(tried) = &mut self.record.tried else { return };
        let is_same_boot = tried.boot == boot;
        let is_told = told == Some(tried.attempt);
        tried.outcome = match std::mem::replace(&mut tried.outcome, AttemptOutcome::Back) {
            AttemptOutcome::Begun if !is_told && failure.is_none() => AttemptOutcome::Back,
            AttemptOutcome::Begun => match failure {
                Some(reason) => AttemptOutcome::Failed { reason },
                None => AttemptOutcome::Lapsed,
            },
            AttemptOutcome::Kept if is_told && is_same_boot => {
                let reason = failure.unwrap_or_else(|| {
                    "it was taken back on the host, and not by the host's agent".to_owned()
                });
                AttemptOutcome::Failed { reason }
            }
            AttemptOutcome::Nothing if is_told && is_same_boot => AttemptOutcome::Nothing,
            AttemptOutcome::Kept | AttemptOutcome::Nothing | AttemptOutcome::Back => AttemptOutcome::Back,
            other @ (AttemptOutcome::Lapsed | AttemptOutcome::Failed { .. }) => other,
        };
    }

    /// What the host says of it; nothing before it is known.
    pub(super) fn word(&self) -> Option<HostWord> {
        let is_off = self.record.order.order.attempt.is_none();
        // What it shall have it has still, as far as is known, and for a while that counts.
        let is_said = is_off || self.blind_looks >= BLIND_LOOKS_MAX;
        let trouble = self.complaint.as_ref().or(self.blind.as_ref().filter(|_| is_said));
        match (self.seen, trouble) {
            (Some(ActState::AsBefore), _) => self.word_before(),
            (None, _) if self.is_untouched() && self.failures >= LOOKS_MAX => self.word_before(),
            (_, Some(why)) => Some(HostWord::Stuck { reason: why.clone() }),
            (None, None) => None,
            (Some(ActState::There { attempt, phase: ActPhase::Kept }), None) => {
                Some(HostWord::Changed { attempt })
            }
            (Some(ActState::There { attempt, .. }), None) => Some(HostWord::Trying { attempt }),
        }
    }

    /// The attempt that is applied and waits for a controller.
    pub(super) fn waiting(&self) -> Option<u32> {
        match self.seen {
            Some(ActState::There { attempt, phase: ActPhase::Waiting(_) }) => Some(attempt),
            _ => None,
        }
    }

    /// The attempt that the host keeps.
    pub(super) fn kept(&self) -> Option<u32> {
        match self.seen {
            Some(ActState::There { attempt, phase: ActPhase::Kept }) => Some(attempt),
            _ => None,
        }
    }

    fn word_before(&self) -> Option<HostWord> {
        let Some(TriedAttempt { attempt, outcome, .. }) = &self.record.tried else {
            return Some(HostWord::AsBefore);
        };
        let attempt = *attempt;
        Some(match outcome {
            AttemptOutcome::Nothing if self.record.order.order.attempt == Some(attempt) => {
                HostWord::Changed { attempt }
            }
            AttemptOutcome::Lapsed => HostWord::Lapsed { attempt },
            AttemptOutcome::Failed { reason } => HostWord::Failed { attempt, reason: reason.clone() },
            AttemptOutcome::Begun | AttemptOutcome::Nothing | AttemptOutcome::Kept | AttemptOutcome::Back => {
                HostWord::AsBefore
            }
        })
    }

    /// No attempt was begun that may be on the host.
    fn is_untouched(&self) -> bool {
        !self.record.tried.as_ref().is_some_and(|tried| {
            matches!(tried.outcome, AttemptOutcome::Begun | AttemptOutcome::Kept | AttemptOutcome::Nothing)
        })
    }

    fn tried(&mut self, attempt: u32, boot: &str, outcome: AttemptOutcome) {
        self.record.tried = Some(TriedAttempt { attempt, boot: boot.to_owned(), outcome });
    }

    fn outcome(&mut self, outcome: AttemptOutcome) {
        if let Some(tried) = &mut self.record.tried {
            tried.outcome = outcome;
        }
    }

    fn look_again(&mut self) {
        self.look_at = Now::default();
    }

    fn pause(&mut self, now: Now) {
        let pause = PAUSE_FIRST.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
        self.failures += 1;
        self.not_before = after(now, pause);
    }
}

/// That moment.
pub(super) fn after(now: Now, time: Duration) -> Now {
    Now { us: now.us.saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)) }
}

#[cfg(test)]
mod tests;
