//! Rules, their explanations and their remedies.

use super::host::RuleInput;
use crate::Finding;

/// One rule.
pub(crate) struct Rule {
    /// Its explanation.
    pub(crate) explanation: Explanation,
    /// The plan's action.
    pub(crate) remedy: Remedy,
    /// Its function.
    pub(crate) find: fn(&RuleInput) -> Vec<Finding>,
}

/// The explanation of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// The rule's name: `softirq-one-core`.
    pub rule: &'static str,
    /// Its finding, in a few words.
    pub title: &'static str,
    /// Its figures, and their thresholds.
    pub evidence: &'static str,
    /// The meaning of that.
    pub meaning: &'static str,
    /// The remedy, and when not to use it.
    pub remedy: &'static str,
}

/// A plan's action for a finding. `plan` carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// None: an external limit, or good to know.
    ReportOnly,
    /// None that could be undone, or a matter of judgement: the plan describes it in words.
    ByHand,
    /// A queue of the device for each core.
    Queues,
    /// Longer receive rings.
    Rings,
    /// Interrupts on cores of their own.
    Spread,
    /// Deferred interrupts, or coalescing by the device where that is not supported.
    FewerInterrupts,
    /// Packets to other CPUs, and there to the programs that read them.
    Steering,
    /// Packets processed where their interrupts arrive.
    NoSteering,
    /// Packets to the right CPUs, or to none.
    Resteering,
    /// RFS with the present masks.
    Flows,
    /// A transmit queue near each CPU.
    Xps,
    /// Shorter time slices for the service of the finding.
    Turns,
    /// A longer accept queue for the listener of the finding.
    AcceptQueue,
    /// Fast Open for the listener of the finding, else for all that may gain by it.
    FastOpen,
    /// Limits that suit any server.
    Limits,
    /// A longer queue for packets that wait for their CPU.
    Backlog,
    /// Huge pages for programs that ask for them.
    HugePages,
    /// Less swapping.
    Swappiness,
    /// Earlier write-back, in smaller portions.
    DirtyPages,
    /// No I/O scheduler.
    IoScheduler,
    /// No search for neighbours of a disk's requests.
    IoMerges,
    /// Less reading ahead.
    ReadAhead,
    /// A clock that programs read without a system call.
    Clock,
}

impl Remedy {
    /// Whether a plan has changes for it.
    pub(crate) fn is_planned(self) -> bool {
        !matches!(self, Remedy::ReportOnly | Remedy::ByHand)
    }

    /// Whether interrupts arrive elsewhere then.
    pub(crate) fn moves_interrupts(self) -> bool {
        matches!(self, Remedy::Spread | Remedy::Queues)
    }

    /// Whether it hides the consequences of the finding's cause, where that has a remedy, too.
    pub(crate) fn hides_its_cause(self) -> bool {
        matches!(self, Remedy::Backlog | Remedy::Turns)
    }
}
