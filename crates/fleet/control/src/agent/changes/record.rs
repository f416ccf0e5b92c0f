//! Records of changes of the host, which an agent does not forget: the newest order of each, and what became of its attempts; what is known of
//! the host's standard.
//!
//! It is no proof of how the host is. What it proves is which attempts were begun: none is begun twice.

use std::fmt;

use fleet::tuning::AnswerDigest;
use fleet::waves::ChangeNumber;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::standard::StandardRecord;
use crate::agent::state::{AgentStateError, AgentStore};
use crate::service::turn::{ChangeOrder, HostAct};

/// The name of the file.
const NAME: &str = "changes-of-the-host";

/// A change of the host, or an attempt to bring it to its standard, which the agent numbers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CourseId {
    /// A change that a controller has ordered.
    Change(ChangeNumber),
    /// The standard.
    Standard(ChangeNumber),
}

impl fmt::Display for CourseId {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            CourseId::Change(number) => write!(formatter, "change {number} of the host"),
            CourseId::Standard(number) => write!(formatter, "attempt {number} at the host's standard"),
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangeRecord {
    /// The newest order that was had.
    pub(super) order: ChangeOrder,
    /// The newest attempt that was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tried: Option<TriedAttempt>,
}

/// An attempt that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TriedAttempt {
    /// Its number.
    pub(super) attempt: u32,
    /// The start of the host since which it was begun: settings end with it.
    pub(super) boot: String,
    /// What became of it.
    pub(super) outcome: AttemptOutcome,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AttemptOutcome {
    /// Not known yet: a look at the host says it.
    Begun,
    /// The host was as it shall be already.
    Nothing,
    /// The host has kept it.
    Kept,
    /// The host has gone back by itself.
    Lapsed,
    /// It was not done, and the host is as before.
    Failed {
        /// Why.
        reason: String,
    },
    /// The host has gone back as it was told, or by a restart.
    Back,
}

/// All that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptRecords {
    /// By their ids.
    pub(super) changes: Vec<ChangeRecord>,
    pub(super) standard: StandardRecord,
}

/// The file, as it is written.
#[derive(Default, Serialize, Deserialize)]
struct RecordFile {
    changes: Vec<Value>,
    /// An older agent leaves it out; what a newer one has written and is not understood is forgotten.
    #[serde(default)]
    standard: Value,
}

/// The file with all changes.
pub(super) struct RecordStore {
    store: AgentStore,
    /// Those of a newer agent that was here before: they are kept for the next one.
    foreign: Vec<Value>,
}

impl RecordStore {
    /// Reads what was kept.
    pub(super) fn open(store: AgentStore) -> Result<(RecordStore, KeptRecords), AgentStateError> {
        let file: RecordFile = store.load(NAME)?.unwrap_or_default();
        let (mut records, mut foreign) = (Vec::new(), Vec::new());
        for value in file.changes {
            match serde_json::from_value(value.clone()) {
                Ok(record) => records.push(record),
                Err(_) => foreign.push(value),
            }
        }
        records.sort_by_key(ChangeRecord::id);
        let standard = serde_json::from_value(file.standard).unwrap_or_default();
        Ok((RecordStore { store, foreign }, KeptRecords { changes: records, standard }))
    }

    /// Keeps all of them. When this returns, they are on the disk.
    pub(super) fn keep(&self, kept: &KeptRecords) -> Result<(), AgentStateError> {
        let json = |record: &ChangeRecord| serde_json::to_value(record).expect("it has names and numbers");
        let changes = self.foreign.iter().cloned().chain(kept.changes.iter().map(json)).collect();
        let standard = serde_json::to_value(&kept.standard).expect("it has names and numbers");
        self.store.keep(NAME, &RecordFile { changes, standard })
    }
}

impl ChangeRecord {
    /// What the host would do for it, as it was told.
    pub(super) fn own(&self) -> &AnswerDigest {
        self.order.act.own()
    }

    /// Which change.
    pub(super) fn id(&self) -> CourseId {
        match self.order.act {
            HostAct::Standard { .. } => CourseId::Standard(self.order.order.change),
            HostAct::Tune { .. } | HostAct::Upgrade { .. } => CourseId::Change(self.order.order.change),
        }
    }
}
