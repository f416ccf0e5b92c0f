//! The audit trail: the log that a controller appends to, if it has one, and what was wrong with it the last time; counts of what has
//! come of each act, also without a log.

use std::collections::BTreeMap;

use crate::audit::{AuditEntry, AuditError, AuditHead, AuditLog, AuditReach, AuditResult, PlanDigest};
use crate::identity::FleetIdentity;
use crate::service::authorise::ControlVerb;

/// An act for the audit log.
pub(crate) struct AuditAct<'a> {
    pub(super) who: &'a FleetIdentity,
    pub(super) verb: ControlVerb,
    pub(super) reach: AuditReach,
    pub(super) plan: Option<PlanDigest>,
    pub(super) why: &'a str,
}

/// A log, if there is one.
#[derive(Default)]
pub(super) struct AuditTrail {
    log: Option<AuditLog>,
    trouble: Option<String>,
    /// Entries and results that could not be appended.
    failures: u64,
    /// What has come of what was asked or decided, by verb and result.
    decided: DecisionCounts,
}

/// How many decisions there were of each verb, by what has come of them.
pub(crate) type DecisionCounts = BTreeMap<(&'static str, &'static str), u64>;

impl AuditTrail {
    /// Appends to this log from now on.
    pub(super) fn record_in(&mut self, log: AuditLog) {
        self.log = Some(log);
    }

    /// Appends what is about to be done, which is not done without. Returns the head for the register to keep.
    pub(super) fn append_begun(
        &mut self,
        entry: &AuditEntry,
        unix_s: u64,
    ) -> Result<Option<AuditHead>, AuditError> {
        self.append(entry, &AuditResult::Begun, unix_s)
    }

    /// Appends what has come of it, and keeps why not. What is done is done: the log has that it was begun.
    pub(super) fn append_result(
        &mut self,
        entry: &AuditEntry,
        result: &AuditResult,
        unix_s: u64,
    ) -> Option<AuditHead> {
        *self.decided.entry((entry.verb().word(), result.parts().0)).or_default() += 1;
        let appended = self.append(entry, result, unix_s);
        self.trouble = appended.as_ref().err().map(ToString::to_string);
        appended.ok().flatten()
    }

    fn append(
        &mut self,
        entry: &AuditEntry,
        result: &AuditResult,
        unix_s: u64,
    ) -> Result<Option<AuditHead>, AuditError> {
        let Some(log) = &mut self.log else { return Ok(None) };
        let appended = log.append(entry, result, unix_s);
        self.failures += u64::from(appended.is_err());
        appended.map(Some)
    }

    /// Why the last result is not in the log.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What has come of acts since the start.
    pub(super) fn decided(&self) -> &DecisionCounts {
        &self.decided
    }

    /// How often an act or its result could not be appended.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }
}
