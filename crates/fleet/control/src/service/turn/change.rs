//! Changes of hosts in turns: what a host shall have of each change that concerns it, and what it says of it.
//!
//! Decisions are those of `fleet::waves`: a controller says in every turn what the host shall be like, and the host says in every turn
//! what it is like. Neither counts on a message that was sent once.

use fleet::tuning::{AnswerDigest, PlanWish};
use fleet::waves::{ChangeNumber, HostOrder, HostWord};
use serde::{Deserialize, Serialize};

use super::fault::{TurnFault, shorten};
use super::tuning::understood;

/// Changes that one host has had or is told of, and that are not forgotten yet.
pub const CHANGES_MAX: usize = 16;

/// What an agent says of changes of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesReport {
    /// What it can do to its host, and is allowed to by its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "understood")]
    pub allowed: Vec<ActKind>,
    /// How the host is, in each change that it was told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "understood")]
    pub words: Vec<ChangeWord>,
    /// Changes that the host keeps, and something else on it works against.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "understood")]
    pub aside: Vec<AsideWord>,
}

/// What an agent can do to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActKind {
    /// Settings of the host.
    Tune,
    /// The program of its servers and routers.
    Upgrade,
}

impl ActKind {
    /// What a host that carries a wish out must be able to do.
    pub fn of(wish: &PlanWish) -> ActKind {
        match wish {
            PlanWish::Profile(_) | PlanWish::Strategy(_) => ActKind::Tune,
            PlanWish::Version(_) => ActKind::Upgrade,
        }
    }
}

/// How a host is in one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeWord {
    /// Which change.
    pub change: ChangeNumber,
    /// What the host would do for that change, as it was told: a register from a backup gives numbers twice. None of an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<AnswerDigest>,
    /// The word.
    pub word: HostWord,
}

/// What of a change does not stay on a host, because something else changes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsideWord {
    /// Which change.
    pub change: ChangeNumber,
    /// As that of [`ChangeWord`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<AnswerDigest>,
    /// What was found.
    pub reason: String,
}

/// What a host shall have of one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOrder {
    /// Which change, the version that it follows from, and whether the host shall have it.
    pub order: HostOrder,
    /// What is done to the host.
    pub act: HostAct,
    /// The host goes back by itself if it has not heard a controller for so long after it was changed.
    pub confirm_ms: u64,
}

/// What is done to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAct {
    /// The plan that the host has made for this wish.
    Tune {
        /// What was planned.
        wish: PlanWish,
        /// What the host would do when it was asked. It does nothing if it would do something else now.
        own: AnswerDigest,
    },
    /// The plan for the host's standard. No controller orders it: the agent of a host that may act does.
    Standard {
        /// What was planned.
        wish: PlanWish,
        /// What the host would do when it was planned.
        own: AnswerDigest,
    },
    /// The program of its servers and routers is another one, which they take over from the present one.
    Upgrade {
        /// The name of the version, as the agent's file has it in the paths of programs.
        version: String,
        /// What the host would do when it was asked. It does nothing if it would do something else now.
        own: AnswerDigest,
    },
}

impl HostAct {
    /// What carries out a plan that a host has made for a wish.
    pub fn of(wish: PlanWish, own: AnswerDigest) -> HostAct {
        match wish {
            PlanWish::Version(version) => HostAct::Upgrade { version, own },
            PlanWish::Profile(_) | PlanWish::Strategy(_) => HostAct::Tune { wish, own },
        }
    }

    /// What the host would do when it was asked.
    pub fn own(&self) -> &AnswerDigest {
        let (HostAct::Tune { own, .. } | HostAct::Standard { own, .. } | HostAct::Upgrade { own, .. }) = self;
        own
    }

    /// Its kind.
    pub fn kind(&self) -> ActKind {
        match self {
            HostAct::Tune { .. } | HostAct::Standard { .. } => ActKind::Tune,
            HostAct::Upgrade { .. } => ActKind::Upgrade,
        }
    }
}

impl ChangesReport {
    /// Refuses what no honest agent sends.
    pub(super) fn check_limits(&mut self) -> Result<(), TurnFault> {
        if self.words.len() > CHANGES_MAX {
            return Err(TurnFault::TooMany { what: "changes", found: self.words.len(), most: CHANGES_MAX });
        }
        if self.aside.len() > CHANGES_MAX {
            return Err(TurnFault::TooMany { what: "changes", found: self.aside.len(), most: CHANGES_MAX });
        }
        for AsideWord { reason, .. } in &mut self.aside {
            shorten(reason);
            *reason = reason.replace(char::is_control, " ");
        }
        for word in &mut self.words {
            if let HostWord::Failed { reason, .. } | HostWord::Stuck { reason } = &mut word.word {
                shorten(reason);
                *reason = reason.replace(char::is_control, " ");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn what_a_newer_side_says_spoils_no_turn() {
        let newer = json!({"allowed": ["tune", "melt"], "moon": 1, "words": [
            {"change": 4, "word": {"trying": {"attempt": 2}}}, {"change": 5, "word": {"melted": {}}}]});
        let report: ChangesReport = from_value(newer).expect("a report");
        assert_eq!(report.allowed, [ActKind::Tune]);
        let word = ChangeWord { change: ChangeNumber(4), own: None, word: HostWord::Trying { attempt: 2 } };
        assert_eq!((report.words, report.aside), (vec![word], Vec::new()));
    }

    #[test]
    fn reasons_are_bounded_and_do_nothing_to_a_terminal() {
        let failed = json!({"failed": {"attempt": 1, "reason": "\u{1b}[2J".repeat(10_000)}});
        let mut report: ChangesReport =
            from_value(json!({"words": [{"change": 1, "word": failed}]})).expect("a report");
        assert!(report.check_limits().is_ok());
        let HostWord::Failed { reason, .. } = &report.words[0].word else { panic!("another word") };
        assert!(!reason.contains(char::is_control) && reason.len() <= super::super::TEXT_MAX);
        report.aside = vec![AsideWord { change: ChangeNumber(1), own: None, reason: "\n".repeat(10_000) }];
        assert!(report.check_limits().is_ok() && report.aside[0].reason.len() <= super::super::TEXT_MAX);
        assert!(!report.aside[0].reason.contains('\n'));
        report.words = vec![report.words[0].clone(); CHANGES_MAX + 1];
        assert!(report.check_limits().is_err());
    }
}
