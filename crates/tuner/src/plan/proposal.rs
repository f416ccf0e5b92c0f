//! Proposed changes of a strategy, a profile or a remedy, with its refusals and the actions left to the user.

use crate::observe::facts::Nic;
use crate::plan::change::{Change, PlanRefusal, Risk, Setting, Stage};
use crate::plan::signal::{ExpectedSignal, ExpectedSignals};
use os::CpuSet;

/// Changes that a strategy, a profile or a remedy proposes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProposedChanges {
    /// Its name.
    pub asked_by: String,
    /// The requested values, also where they are in force already.
    pub changes: Vec<Change>,
    /// Requests that are not possible, and the reasons.
    pub refusals: Vec<PlanRefusal>,
    /// Actions that no live setting can replace.
    pub advice: Vec<String>,
    /// CPUs that interrupts are gathered on, so that services should have the others.
    pub irq_cpus: CpuSet,
}

impl ProposedChanges {
    pub(crate) fn refuse(&mut self, subject: impl Into<String>, reason: impl Into<String>) {
        let asked_by = self.asked_by.clone();
        self.refusals.push(PlanRefusal { subject: subject.into(), asked_by, reason: reason.into() });
    }

    /// A change with one of the known reasons.
    pub(crate) fn propose(
        &mut self,
        stage: Stage,
        setting: Setting,
        now: String,
        wanted: String,
        reason: Reason,
    ) {
        self.propose_with(stage, setting, now, wanted, reason.why.to_owned(), reason.risk, reason.signal);
    }

    /// A change whose reason has figures of this host in it.
    #[expect(clippy::too_many_arguments, reason = "they are the fields of a change")]
    pub(crate) fn propose_with(
        &mut self,
        stage: Stage,
        setting: Setting,
        now: String,
        wanted: String,
        why: String,
        risk: Risk,
        signal: &[ExpectedSignals],
    ) {
        let (asked_by, signal) = (self.asked_by.clone(), ExpectedSignal(signal.to_vec()));
        self.changes.push(Change { stage, setting, now, wanted, why, asked_by, risk, signal });
    }

    /// Adds to the last change the memory that it takes at most.
    pub(crate) fn at_cost(&mut self, bytes: u64) {
        let mib = bytes.div_ceil(1 << 20);
        if let Some(change) = self.changes.last_mut() {
            change.why.push_str(&format!("; when full it takes up to {mib} MiB of memory"));
        }
    }

    pub(super) fn each(&mut self, nics: &[&Nic], propose: impl Fn(&mut ProposedChanges, &Nic)) {
        if nics.is_empty() {
            self.refuse("network", "there is no interface that is up; name one with --nic");
        }
        nics.iter().for_each(|nic| propose(self, nic));
    }
}

/// Reason, risk and expected effects of a proposed change.
#[derive(Clone, Copy)]
pub(crate) struct Reason {
    pub(crate) why: &'static str,
    pub(crate) risk: Risk,
    pub(crate) signal: &'static [ExpectedSignals],
}
