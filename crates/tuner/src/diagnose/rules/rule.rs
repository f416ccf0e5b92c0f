//! Rules, their explanations and their remedies.

use super::host::Host;
use crate::Finding;

/// One rule.
pub(crate) struct Rule {
    /// What it looks for.
    pub(crate) explanation: Explanation,
    /// What a plan does about it.
    pub(crate) remedy: Remedy,
    /// Looks for it.
    pub(crate) find: fn(&Host) -> Vec<Finding>,
}

/// What a rule looks for, and why.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// The rule's name: `softirq-one-core`.
    pub rule: &'static str,
    /// What it finds, in a few words.
    pub title: &'static str,
    /// What it looks at, and from which value on it speaks.
    pub evidence: &'static str,
    /// What that means.
    pub meaning: &'static str,
    /// The remedy, and when not to use it.
    pub remedy: &'static str,
}

/// What a plan does about a finding. How, `plan` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing: a limit from outside, or good to know.
    ReportOnly,
    /// Nothing that could be taken back, or a matter of judgement: the plan says it in words.
    ByHand,
    /// A queue of the device for each core.
    Queues,
    /// Longer receive rings.
    Rings,
    /// Interrupts on cores of their own.
    Spread,
    /// Interrupts put off, or gathered by the device where that cannot be had.
    FewerInterrupts,
    /// Packets to other CPUs, and there to those that read them.
    Steering,
    /// Packets where their interrupts come.
    NoSteering,
    /// Packets to the right CPUs, or to none.
    Resteering,
    /// RFS with the masks that there are.
    Flows,
    /// A queue for sending that is near each CPU.
    Xps,
    /// Shorter turns for the service that the finding is about.
    Turns,
    /// A longer accept queue for the listener that the finding is about.
    AcceptQueue,
    /// Fast Open for the listener that the finding is about, else for all that may gain by it.
    FastOpen,
    /// Limits that suit any server.
    Limits,
    /// A longer queue for packets that wait for their CPU.
    Backlog,
    /// Huge pages for programs that ask for them.
    HugePages,
    /// Less swapping.
    Swappiness,
    /// Earlier writing, in smaller portions.
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

    /// Whether it hides what the finding's cause leads to, where that has a remedy, too.
    pub(crate) fn hides_its_cause(self) -> bool {
        matches!(self, Remedy::Backlog | Remedy::Turns)
    }
}
