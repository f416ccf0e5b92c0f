//! Persistent files, and the settings that they keep.

use serde::{Deserialize, Serialize};

use crate::apply::journal::JournalStep;
use crate::plan::change::{Change, Setting};

/// A setting that has to be in force after the next start, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The setting.
    pub setting: Setting,
    /// Its value.
    pub wanted: String,
    /// The reason.
    pub why: String,
    /// The requester: the rule of a finding, a strategy, a profile.
    pub asked_by: String,
}

/// A file that keeps settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentFile {
    /// Absolute, as the host sees it.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its permissions.
    pub mode: u32,
    /// Its purpose, in one sentence.
    pub why: String,
}

impl From<&Change> for Keep {
    fn from(change: &Change) -> Keep {
        let Change { setting, wanted, why, asked_by, .. } = change.clone();
        Keep { setting, wanted, why, asked_by }
    }
}

impl From<JournalStep> for Keep {
    fn from(step: JournalStep) -> Keep {
        Keep { setting: step.setting, wanted: step.wanted, why: step.why, asked_by: step.asked_by }
    }
}
