//! Words of a rollout: lanes, waves, events, states.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use stdx::clock::Now;

use crate::{GenerationNumber, RouterId, TextDigest, ViewName, ZoneName};

/// A generation as routers see it: its number, and the text of each view by digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedTexts {
    /// Its place in the chain.
    pub generation: GenerationNumber,
    /// What each view's routers report when they have loaded it.
    pub digests: BTreeMap<ViewName, TextDigest>,
}

/// How carefully a generation goes out, by what it can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutLane {
    /// Pools keep their lengths: a member replaces another in its slot.
    SlotChange,
    /// Weights differ.
    Weights,
    /// Routes differ, or pools appear, go, grow or shrink.
    Routes,
    /// The content before a bad generation, as a new generation.
    Rollback,
}

impl RolloutLane {
    /// A word for programs.
    pub fn word(self) -> &'static str {
        match self {
            RolloutLane::SlotChange => "slot_change",
            RolloutLane::Weights => "weights",
            RolloutLane::Routes => "routes",
            RolloutLane::Rollback => "rollback",
        }
    }
}

/// Which routers have their turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutWave {
    /// A few of each view.
    Canaries,
    /// This share of each view, over all zones.
    Share {
        /// Of the living routers.
        percent: u8,
    },
    /// What remains of one zone.
    Zone(ZoneName),
    /// What remains.
    All,
}

impl fmt::Display for RolloutWave {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RolloutWave::Canaries => write!(formatter, "canaries"),
            RolloutWave::Share { percent } => write!(formatter, "{percent} % of the routers"),
            RolloutWave::Zone(zone) => write!(formatter, "zone {zone}"),
            RolloutWave::All => write!(formatter, "all routers that are left"),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variant says what its router, reason and moment are")]
pub enum RolloutEvent {
    /// A router is known from now on, and has this generation.
    Appeared { router: RouterId, zone: ZoneName, view: ViewName, has: GenerationNumber },
    /// A router was taken out of the inventory.
    Left { router: RouterId },
    /// A router has loaded the text with this digest.
    Acknowledged { router: RouterId, digest: TextDigest },
    /// A router does not answer what it has loaded: it may have ended.
    Unanswered { router: RouterId },
    /// A router has not loaded the text, and serves with the one before.
    Refused { router: RouterId, reason: String },
    /// The agent put the old text back by itself.
    Crashed { router: RouterId, reason: String },
    /// The agent is not heard from.
    Silent { router: RouterId, since: Now },
    /// The agent is heard from again.
    Heard { router: RouterId },
    /// Somebody else has written the router's file, and its agent leaves it as it is.
    SetAside { router: RouterId },
    /// A moment passed.
    Tick,
    /// A person stops the rollout.
    Halt { reason: String },
    /// A person lets a halted rollout go on, whatever these routers do.
    Resume { excused: BTreeSet<RouterId> },
    /// A person does not want to wait for the time of waves.
    Hurry,
    /// A person forbids changes in the scope that this rollout is in.
    Freeze,
    /// A person allows them again.
    Thaw,
}

/// What is wrong with a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// It did not load the text.
    Refused(String),
    /// The agent put the old text back.
    Crashed(String),
    /// Its agent lives, and said nothing about the text within the fence; so did too many of its view.
    NoAnswer,
    /// Too many canaries of its view are silent since they have the text.
    FellSilent,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Shortfall::Refused(reason) => write!(formatter, "does not load the text: {reason}"),
            Shortfall::Crashed(reason) => write!(formatter, "went back from the text: {reason}"),
            Shortfall::NoAnswer => write!(formatter, "says nothing about the text, and its agent lives"),
            Shortfall::FellSilent => {
                write!(formatter, "is silent since it has the text, and others are, too")
            }
        }
    }
}

/// The evidence for a halt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaltEvidence {
    /// One router is enough.
    Router {
        /// The router.
        router: RouterId,
        /// Whether it was a canary.
        is_canary: bool,
        /// What is wrong with it.
        shortfall: Shortfall,
    },
    /// A person.
    Person {
        /// As the person gave it.
        reason: String,
    },
}

impl fmt::Display for HaltEvidence {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HaltEvidence::Router { router, is_canary, shortfall } => {
                let canary = if *is_canary { ", a canary," } else { "" };
                write!(formatter, "the router {router}{canary} {shortfall}")
            }
            HaltEvidence::Person { reason } => write!(formatter, "by hand: {reason}"),
        }
    }
}

/// Where a rollout is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// On its way.
    Going {
        /// Whose turn it is.
        wave: RolloutWave,
        /// A router that must load the text first; without one the wave waits for its time.
        waits_for: Option<RouterId>,
    },
    /// Every router shall have it, and all that are heard from have loaded it.
    Done,
    /// No further router gets it.
    Halted(HaltEvidence),
    /// No further router gets it until a person thaws.
    Frozen,
    /// Its successor has the old content.
    RollingBack {
        /// The successor.
        to: GenerationNumber,
    },
}

impl RolloutState {
    /// All words.
    pub const WORDS: [&'static str; 5] = ["going", "done", "halted", "frozen", "rolling_back"];

    /// A word for programs.
    pub fn word(&self) -> &'static str {
        let [going, done, halted, frozen, rolling_back] = RolloutState::WORDS;
        match self {
            RolloutState::Going { .. } => going,
            RolloutState::Done => done,
            RolloutState::Halted(_) => halted,
            RolloutState::Frozen => frozen,
            RolloutState::RollingBack { .. } => rolling_back,
        }
    }
}

/// Why a rollout does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    /// Numbers only grow.
    #[error("roll out generation {found}: it is not newer than {base}; take the next number of the chain")]
    NotNewer {
        /// The number given.
        found: GenerationNumber,
        /// The number it must exceed.
        base: GenerationNumber,
    },
    /// This text has failed before.
    #[error("roll out text {digest} to view {view}: it failed in a router before; change the configuration")]
    RefusedText {
        /// Whose text.
        view: ViewName,
        /// The text.
        digest: TextDigest,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &dyn fmt::Display, expected: &str) {
        assert_eq!(words.to_string(), expected);
    }

    #[test]
    fn people_read_sentences() {
        let router = |shortfall| HaltEvidence::Router {
            router: "r1".parse().expect("a name"),
            is_canary: true,
            shortfall,
        };
        check(
            &router(Shortfall::Crashed("it ended".into())),
            "the router r1, a canary, went back from the text: it ended",
        );
        check(
            &router(Shortfall::NoAnswer),
            "the router r1, a canary, says nothing about the text, and its agent lives",
        );
        check(&HaltEvidence::Person { reason: "wait".into() }, "by hand: wait");
        check(&RolloutWave::Share { percent: 5 }, "5 % of the routers");
        check(&RolloutWave::Zone("z1".parse().expect("a name")), "zone z1");
    }
}
