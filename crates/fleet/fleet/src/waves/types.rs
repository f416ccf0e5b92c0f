//! Words of a fleet-wide change: what hosts say, what they are told, why it halts, and where it is.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use stdx::clock::Now;

use super::figures::{FigureKind, HostFigures};
use super::plan::{ChangeNumber, HostsAlike};
use crate::{HostId, ZoneName};

/// What a host says of itself in every turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostWord {
    /// It is as it was before the change.
    AsBefore,
    /// It has applied the change, and goes back by itself unless it hears its controller in time.
    Trying {
        /// The attempt that it was told.
        attempt: u32,
    },
    /// It has heard its controller since, and keeps the change.
    Changed {
        /// The attempt that it was told.
        attempt: u32,
    },
    /// It has gone back by itself, because it did not hear its controller in time.
    Lapsed {
        /// The attempt that it was told.
        attempt: u32,
    },
    /// It could not apply the change, and is as before.
    Failed {
        /// The attempt that it was told.
        attempt: u32,
        /// In words.
        reason: String,
    },
    /// It shall go back, and cannot.
    Stuck {
        /// In words.
        reason: String,
    },
}

/// What a host is told in every turn. An order with a lower version than one that the host has had is out of date: the host ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOrder {
    /// Which change.
    pub change: ChangeNumber,
    /// The version of the progress in the register that it follows from.
    pub version: u64,
    /// The attempt with which it shall have the change; without one it shall be as before.
    pub attempt: Option<u32>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variant says what its host, reason, names and moment are")]
pub enum ChangeEvent {
    /// A host says how it is.
    Said { host: HostId, word: HostWord },
    /// The host is heard, and its agent says nothing of this change yet: it is neither changed nor as before.
    Wordless { host: HostId },
    /// A host's figures since its last word.
    Measured { host: HostId, figures: HostFigures },
    /// The host is not heard from.
    Silent { host: HostId, since: Now },
    /// A person or the guard has frozen a scope that the host is in.
    Frozen { host: HostId },
    /// It is not in a frozen scope any more.
    Thawed { host: HostId },
    /// The host would change something else now than what was planned.
    PlanDiffers { host: HostId },
    /// What keeps the settings in force leaves the host alone, because something else changes them.
    SteppedAside { host: HostId, reason: String },
    /// It does not leave the host alone, or does so no more.
    NotAside { host: HostId },
    /// The host was taken out of the inventory.
    Left { host: HostId },
    /// Something outside of the figures speaks against the change.
    /// `about` names what stands behind it and may go on to: a person who resumes has seen that, and it halts nothing more until it is over.
    Signal { from: SignalSource, reason: String, about: BTreeSet<String> },
    /// What a signal was about is over: it halts again when it comes back.
    SignalOver { about: String },
    /// It is not known, or not so now, that this allows the change to go on: nothing is halted, and nobody else is told.
    Withheld { by: SignalSource, reason: String },
    /// It allows the change to go on.
    Allowed { by: SignalSource },
    /// A person takes back what was done, or the rest of it.
    Undo { reason: String },
    /// A person lets a halted change go on, with what has halted it.
    Resume,
    /// A moment passed.
    Tick,
}

/// What speaks against a change besides its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalSource {
    /// The operator's query.
    Objective,
    /// What had to be so before it began.
    Gate,
    /// The guard against mass loss.
    Guard,
    /// An alarm.
    Alarm,
    /// A person.
    Person,
}

impl fmt::Display for SignalSource {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            SignalSource::Objective => "objective",
            SignalSource::Gate => "gate",
            SignalSource::Guard => "guard",
            SignalSource::Alarm => "alarm",
            SignalSource::Person => "person",
        })
    }
}

/// Why a change has halted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HaltCause {
    /// A look has shown harm.
    Worse {
        /// Of these hosts.
        kind: HostsAlike,
        /// These figures.
        figures: Vec<FigureKind>,
        /// The look.
        look: String,
    },
    /// All pairs that there are could not show that nothing is worse than the margin.
    CannotTell {
        /// Of these hosts.
        kind: HostsAlike,
        /// The last look.
        look: String,
    },
    /// A figure is unknown of too many hosts.
    NoFigures {
        /// Of these hosts.
        kind: HostsAlike,
        /// The figure.
        figure: FigureKind,
        /// Pairs that have it.
        known: usize,
        /// Pairs that a look needs.
        wanted: usize,
    },
    /// Too many hosts could not apply it, step aside, or fell silent with it.
    Troubled {
        /// How many.
        hosts: usize,
        /// One of them.
        host: HostId,
        /// What is wrong with that one.
        reason: String,
    },
    /// Something outside of the figures.
    Signal {
        /// Which.
        from: SignalSource,
        /// In words.
        reason: String,
        /// What stands behind it, by names: a person who resumes has seen that.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        about: BTreeSet<String>,
    },
}

impl fmt::Display for HaltCause {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HaltCause::Worse { kind, figures, look } => {
                let figures = figures.iter().map(|figure| figure.word()).collect::<Vec<_>>().join(", ");
                write!(formatter, "{figures} of {kind} is worse: {look}")
            }
            HaltCause::CannotTell { kind, look } => {
                write!(formatter, "{kind} cannot be judged with the pairs that there are: {look}")
            }
            HaltCause::NoFigures { kind, figure, known, wanted } => write!(
                formatter,
                "{kind} cannot be judged: {} is known of {known} pairs, and a look needs {wanted}",
                figure.word()
            ),
            HaltCause::Troubled { hosts, host, reason } => {
                write!(formatter, "{hosts} hosts are in trouble with it; {host}: {reason}")
            }
            HaltCause::Signal { from: SignalSource::Person, reason, .. } => {
                write!(formatter, "by hand: {reason}")
            }
            HaltCause::Signal { from: SignalSource::Objective, reason, .. } => {
                write!(formatter, "the objective is missed: {reason}")
            }
            HaltCause::Signal { from: SignalSource::Gate, reason, .. } => {
                write!(formatter, "the gate is missed: {reason}")
            }
            HaltCause::Signal { from: SignalSource::Guard, reason, .. } => {
                write!(formatter, "the guard has frozen a scope: {reason}")
            }
            HaltCause::Signal { from: SignalSource::Alarm, reason, .. } => {
                write!(formatter, "an alarm: {reason}")
            }
        }
    }
}

/// Why a host does not have the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Not heard from.
    Silent,
    /// In a frozen scope.
    Frozen,
    /// It would change something else now.
    PlanDiffers,
    /// It stepped aside.
    SteppedAside(String),
    /// It could not apply it.
    Failed(String),
    /// Each time that it was told, it did not say in time that it has it.
    DoesNotConfirm,
    /// Taken out of the inventory.
    Gone,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LeftOut::Silent => write!(formatter, "is not heard from"),
            LeftOut::Frozen => write!(formatter, "is in a frozen scope"),
            LeftOut::PlanDiffers => write!(formatter, "would change something else now: plan it anew"),
            LeftOut::SteppedAside(reason) => write!(formatter, "stepped aside: {reason}"),
            LeftOut::Failed(reason) => write!(formatter, "could not apply it: {reason}"),
            LeftOut::DoesNotConfirm => {
                write!(formatter, "did not say in time that it has the change, each time that it was told")
            }
            LeftOut::Gone => write!(formatter, "is not in the inventory any more"),
        }
    }
}

/// Which hosts have their turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeWave {
    /// Nobody: figures before the change are taken.
    Baseline,
    /// Those that have a control.
    Canaries,
    /// This share of a zone.
    Share {
        /// Of its hosts.
        percent: u8,
        /// Which.
        zone: ZoneName,
    },
    /// What remains of a zone.
    Rest {
        /// Which.
        zone: ZoneName,
    },
}

impl fmt::Display for ChangeWave {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ChangeWave::Baseline => write!(formatter, "figures before the change"),
            ChangeWave::Canaries => write!(formatter, "canaries"),
            ChangeWave::Share { percent, zone } => write!(formatter, "{percent} % of zone {zone}"),
            ChangeWave::Rest { zone } => write!(formatter, "the rest of zone {zone}"),
        }
    }
}

/// What a change waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The time in which figures are taken.
    Time,
    /// The register has to take a decision first.
    Register,
    /// A host has to apply it, go back, or be heard.
    Host(HostId),
    /// Something outside has to allow it.
    Signal {
        /// What.
        by: SignalSource,
        /// Why it does not, in words.
        reason: String,
    },
}

/// Where a change is.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeState {
    /// On its way.
    Going {
        /// Whose turn it is.
        wave: ChangeWave,
        /// What has to happen first.
        waits_for: WaitsFor,
    },
    /// No further host gets it; those that have it keep it. A person resumes or undoes.
    Halted(HaltCause),
    /// Hosts go back, the last first.
    Undoing {
        /// Why.
        cause: HaltCause,
        /// Hosts that are not heard as before yet.
        left: usize,
    },
    /// Every host has it that is not left out.
    Done,
    /// Every host is as before.
    Undone(HaltCause),
}

impl ChangeState {
    /// All words.
    pub const WORDS: [&'static str; 5] = ["going", "halted", "undoing", "done", "undone"];

    /// A word for programs.
    pub fn word(&self) -> &'static str {
        let [going, halted, undoing, done, undone] = ChangeState::WORDS;
        match self {
            ChangeState::Going { .. } => going,
            ChangeState::Halted(_) => halted,
            ChangeState::Undoing { .. } => undoing,
            ChangeState::Done => done,
            ChangeState::Undone(_) => undone,
        }
    }
}
