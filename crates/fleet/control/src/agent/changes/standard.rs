//! The standard of a host: what it shall have, how far it has it, and what is next.
//!
//! Does nothing itself and reads no clock. An attempt at it is a change of the host like those that controllers order, with a number that
//! the agent gives it: it is applied with a deadline, kept when a controller is heard, and otherwise taken back by the host itself.

use std::time::Duration;

use fleet::tuning::standards::StandardWord;
use fleet::tuning::{AnswerDigest, PlanWish};
use fleet::waves::{ChangeNumber, HostOrder, HostWord};
use serde::{Deserialize, Serialize};
use stdx::clock::Now;

use super::course::{ChangeCourse, after};
use super::record::ChangeRecord;
use crate::service::turn::{ChangeOrder, HostAct, StandardOrder};

/// Interval of plans that find whether a host still meets its standard.
const PLAN_EVERY: Duration = Duration::from_secs(3600);
/// A plan that is older is made again before it is applied.
const PLAN_IS_NEW_FOR: Duration = Duration::from_secs(60);
/// An order counts for so long: the next one comes after 20 s at the latest. An agent that has lost its controllers tunes nothing.
const ORDER_COUNTS_FOR: Duration = Duration::from_secs(60);
/// The first pause after a plan has failed; it doubles with each failure.
const PAUSE_FIRST: Duration = Duration::from_secs(2);
/// Pause after an attempt has failed, and the longest one after plans have.
const RETRY_AFTER: Duration = Duration::from_secs(600);
/// Attempts within a day: a host that crashes because of its standard, or whose settings something else sets back, does not get them in a circle.
const TRIES_MAX: usize = 3;
const DAY_S: u64 = 24 * 3600;
/// The version of the order of an attempt, until it is ended.
pub(super) const STANDARD_VERSION: u64 = 1;

/// What must not be forgotten of the standard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StandardRecord {
    /// What was wanted last.
    wish: Option<PlanWish>,
    /// The tuner's program with which the host has met it: another one may want other values, and that is no drift.
    met: Option<String>,
    /// The last attempt that was begun.
    number: u64,
    /// The last attempt was kept.
    is_kept: bool,
    /// When attempts were begun, in seconds since 1970.
    tries: Vec<u64>,
}

/// What a plan for the standard has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StandardPlan {
    /// Nothing is to be changed.
    Empty {
        /// The tuner's program.
        mark: String,
    },
    /// Something is.
    Lacks {
        /// How many settings.
        settings: usize,
        /// The first, in words.
        first: String,
        /// What would be done.
        own: AnswerDigest,
        /// The tuner's program.
        mark: String,
    },
}

/// What is known from the last plan or attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Empty,
    Lacks { settings: usize, first: String, own: AnswerDigest, at: Now },
    Failed(String),
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StandardStep {
    /// Plan.
    Plan(PlanWish),
    /// Begin an attempt.
    Begin(AnswerDigest),
    /// Nothing now.
    Rest,
}

/// Why an agent does not do what a standard needs; none if it does.
#[derive(Clone, Debug, Default)]
pub(super) struct StandardRefusals {
    /// Plan.
    pub(super) plan: Option<String>,
    /// Tune.
    pub(super) act: Option<String>,
}

/// The standard of this host.
pub(super) struct Standard {
    record: StandardRecord,
    refusals: StandardRefusals,
    /// The newest order, and when it was heard.
    order: Option<(StandardOrder, Now)>,
    found: Option<Found>,
    plan_at: Now,
    plan_failures: u32,
    /// An attempt was begun since the last plan.
    is_tried: bool,
    /// What the last attempt has come to, as far as that was taken into account.
    seen: Option<HostWord>,
}

impl Standard {
    /// Goes on with what was kept.
    pub(super) fn new(record: StandardRecord, refusals: StandardRefusals) -> Standard {
        Standard {
            record,
            refusals,
            order: None,
            found: None,
            plan_at: Now::default(),
            plan_failures: 0,
            is_tried: false,
            seen: None,
        }
    }

    /// What is kept of it.
    pub(super) fn record(&self) -> &StandardRecord {
        &self.record
    }

    /// What is wanted, if a controller has said so since the agent began.
    pub(super) fn wish(&self) -> Option<&PlanWish> {
        self.order.as_ref().map(|(order, _)| &order.wish)
    }

    /// Takes an order.
    pub(super) fn take(&mut self, order: Option<StandardOrder>, now: Now) {
        let is_paused = matches!(self.found, Some(Found::Failed(_))) && now < self.plan_at;
        let Some(order) = order else {
            self.order = None;
            // A pause after a failure goes on, whatever is heard meanwhile.
            self.found = self.found.take().filter(|_| is_paused);
            return;
        };
        if self.record.wish.as_ref() != Some(&order.wish) {
            let number = self.record.number;
            self.record =
                StandardRecord { wish: Some(order.wish.clone()), number, ..StandardRecord::default() };
            (self.found, self.plan_failures) = (None, 0);
            self.plan_soon(now);
        }
        let is_news = self.order.as_ref().is_none_or(|(before, _)| order.may_act && !before.may_act);
        if is_news && !is_paused {
            self.plan_soon(now);
        }
        self.order = Some((order, now));
    }

    /// The host may be another one than at the last plan.
    pub(super) fn plan_soon(&mut self, now: Now) {
        self.plan_at = self.plan_at.min(now);
    }

    /// A controller has changed the host, or has taken a change back: what it lacks then is what people wanted, and no drift.
    pub(super) fn note_change(&mut self, now: Now) {
        self.record.met = None;
        self.plan_soon(now);
    }

    /// Takes what the last attempt has come to.
    pub(super) fn settle(&mut self, course: Option<&ChangeCourse>, now: Now) {
        let word = course.filter(|course| !course.is_under_way()).and_then(ChangeCourse::word);
        if word.is_none() || word == self.seen {
            return;
        }
        let failure = match &word {
            Some(HostWord::Changed { .. }) => {
                self.record.is_kept = true;
                None
            }
            // It was there, and a person has taken it back: that is looked at by `is_taken_back`.
            Some(HostWord::Failed { .. }) if self.record.is_kept => None,
            word => word.as_ref().and_then(failure_of),
        };
        match failure {
            Some(reason) => {
                self.found = Some(Found::Failed(reason));
                self.plan_at = after(now, RETRY_AFTER);
                self.is_tried = false;
            }
            None => self.plan_soon(now),
        }
        self.seen = word;
    }

    /// What is to be done. `is_busy`: a change of the host is under way.
    pub(super) fn next(
        &self,
        course: Option<&ChangeCourse>,
        is_busy: bool,
        (now, unix_s): (Now, u64),
    ) -> StandardStep {
        let Some((order, heard)) = &self.order else { return StandardStep::Rest };
        let is_under_way = course.is_some_and(ChangeCourse::is_under_way);
        if self.refusals.plan.is_some() || is_busy || is_under_way {
            return StandardStep::Rest;
        }
        if now >= self.plan_at {
            return StandardStep::Plan(order.wish.clone());
        }
        let Some(Found::Lacks { own, at, .. }) = &self.found else { return StandardStep::Rest };
        let may_act = order.may_act
            && now <= after(*heard, ORDER_COUNTS_FOR)
            && self.refusals.act.is_none()
            && !self.is_taken_back(course)
            && self.tries(unix_s) < TRIES_MAX;
        match may_act {
            false => StandardStep::Rest,
            true if now > after(*at, PLAN_IS_NEW_FOR) => StandardStep::Plan(order.wish.clone()),
            true => StandardStep::Begin(own.clone()),
        }
    }

    /// Takes what a plan has found.
    pub(super) fn planned(&mut self, found: Result<StandardPlan, String>, now: Now) {
        self.is_tried = false;
        let (found, pause) = match found {
            Ok(StandardPlan::Empty { mark }) => {
                self.record.met = Some(mark);
                (Found::Empty, None)
            }
            Ok(StandardPlan::Lacks { settings, first, own, mark }) => {
                if self.record.met.as_ref() != Some(&mark) {
                    self.record.met = None;
                }
                (Found::Lacks { settings, first, own, at: now }, None)
            }
            Err(why) => {
                let pause = PAUSE_FIRST.saturating_mul(1 << self.plan_failures.min(10)).min(RETRY_AFTER);
                (Found::Failed(format!("it is not known how far it has it: {why}")), Some(pause))
            }
        };
        self.plan_failures = if pause.is_some() { self.plan_failures + 1 } else { 0 };
        self.plan_at = after(now, pause.unwrap_or(PLAN_EVERY));
        self.found = Some(found);
    }

    /// The attempt that was about to begin could not be begun at all, and is none.
    pub(super) fn not_begun(&mut self, why: String, now: Now) {
        self.record.tries.pop();
        (self.found, self.is_tried) = (Some(Found::Failed(why)), false);
        self.plan_at = after(now, RETRY_AFTER);
    }

    /// The host meets it, as the last plan has found.
    pub(super) fn is_met(&self) -> bool {
        self.found == Some(Found::Empty)
    }

    /// Begins an attempt: the record of the change of the host that it is.
    pub(super) fn begin(&mut self, own: AnswerDigest, unix_s: u64) -> Option<ChangeRecord> {
        let (order, _) = self.order.as_ref()?;
        self.record.number += 1;
        self.record.is_kept = false;
        self.record.tries.retain(|at| is_within_a_day(*at, unix_s));
        self.record.tries.push(unix_s);
        let old = self.record.tries.len().saturating_sub(TRIES_MAX);
        self.record.tries.drain(..old);
        (self.found, self.seen, self.is_tried) = (None, None, true);
        let (wish, confirm_ms) = (order.wish.clone(), order.confirm_ms);
        let order = HostOrder {
            change: ChangeNumber(self.record.number),
            version: STANDARD_VERSION,
            attempt: Some(1),
        };
        let order = ChangeOrder { order, act: HostAct::Standard { wish, own }, confirm_ms };
        Some(ChangeRecord { order, tried: None })
    }

    /// What the host says of it.
    pub(super) fn word(&self, course: Option<&ChangeCourse>, unix_s: u64) -> StandardWord {
        if self.order.is_none() {
            return StandardWord::Unknown;
        }
        if let Some(reason) = &self.refusals.plan {
            return StandardWord::Refused { reason: reason.clone() };
        }
        if let Some(course) = course.filter(|course| course.is_under_way()) {
            return match course.word() {
                Some(HostWord::Stuck { reason }) => {
                    StandardWord::SteppedAside { reason: format!("it is stuck: {reason}") }
                }
                _ => StandardWord::Tuning,
            };
        }
        let (settings, first) = match &self.found {
            None if self.is_tried => return StandardWord::Tuning,
            None => return StandardWord::Unknown,
            Some(Found::Empty) => return StandardWord::Meets,
            Some(Found::Failed(why)) => return StandardWord::Refused { reason: why.clone() },
            Some(Found::Lacks { settings, first, .. }) => (*settings, first.clone()),
        };
        let failure = course.and_then(ChangeCourse::word).as_ref().and_then(failure_of);
        if self.tries(unix_s) >= TRIES_MAX || self.is_taken_back(course) {
            let reason = failure.unwrap_or_else(|| format!("it did not stay: {first}"));
            return StandardWord::SteppedAside { reason };
        }
        match &self.refusals.act {
            Some(why) => StandardWord::Refused {
                reason: format!("{why}; it lacks {settings} of its settings: {first}"),
            },
            None if self.record.met.is_some() => StandardWord::Drifted { settings, first },
            None => StandardWord::Lacks { settings, first },
        }
    }

    /// The last attempt was kept, and is not there any more without a restart: somebody has taken it back on the host, and had a reason.
    fn is_taken_back(&self, course: Option<&ChangeCourse>) -> bool {
        let word = course.and_then(ChangeCourse::word);
        self.record.is_kept && matches!(word, Some(HostWord::Failed { .. }))
    }

    fn tries(&self, unix_s: u64) -> usize {
        self.record.tries.iter().filter(|at| is_within_a_day(**at, unix_s)).count()
    }
}

/// Also of a clock that was set back since.
fn is_within_a_day(at: u64, unix_s: u64) -> bool {
    at.abs_diff(unix_s) < DAY_S
}

/// Why an attempt did not succeed.
fn failure_of(word: &HostWord) -> Option<String> {
    match word {
        HostWord::Failed { reason, .. } => Some(reason.clone()),
        HostWord::Lapsed { .. } => Some(
            "it has gone back by itself: no controller was heard in time, or the host was started again"
                .to_owned(),
        ),
        HostWord::AsBefore | HostWord::Trying { .. } | HostWord::Changed { .. } | HostWord::Stuck { .. } => {
            None
        }
    }
}

#[cfg(test)]
mod tests;
