//! Proposals: the changes that settings ask for, with refusals and the actions left to the user.

use crate::observe::facts::Nic;
use crate::settings::change::{Change, PlanRefusal, Risk, Setting, Stage};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignal, ExpectedSignals};
use os::CpuSet;

/// A setting, or several that belong together: adds its changes for what is in the scope, or the reason why not.
pub(crate) type Propose = fn(&mut ProposedChanges, &Scope);

/// Changes that a strategy, a profile or a rule proposes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProposedChanges {
    /// The requester: a strategy, a profile, the rule of a finding.
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
    /// The changes of these settings.
    pub(crate) fn of(asked_by: impl Into<String>, settings: &[Propose], scope: &Scope) -> ProposedChanges {
        let mut proposed = ProposedChanges { asked_by: asked_by.into(), ..ProposedChanges::default() };
        settings.iter().for_each(|propose| propose(&mut proposed, scope));
        proposed
    }

    /// Adds what another requester proposes; it keeps its name.
    pub(crate) fn extend(&mut self, other: ProposedChanges) {
        self.changes.extend(other.changes);
        self.refusals.extend(other.refusals);
        self.advice.extend(other.advice);
        self.irq_cpus = self.irq_cpus.or(&other.irq_cpus);
    }

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

    /// For each interface of a scope, of which there has to be one.
    pub(super) fn each(&mut self, scope: &Scope, propose: impl Fn(&mut ProposedChanges, &Nic)) {
        if scope.nics.is_empty() {
            self.refuse("network", scope.facts().why_no_device());
        }
        scope.nics.iter().for_each(|nic| propose(self, nic));
    }
}

/// Reason, risk and expected effects of a proposed change.
#[derive(Clone, Copy)]
pub(crate) struct Reason {
    pub(crate) why: &'static str,
    pub(crate) risk: Risk,
    pub(crate) signal: &'static [ExpectedSignals],
}
