//! Records of changes of the host, which an agent does not forget: the newest order of each, and what became of its attempts.
//!
//! It is no proof of how the host is. What it proves is which attempts were begun: none is begun twice.

use fleet::tuning::AnswerDigest;
use fleet::waves::ChangeNumber;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::state::{AgentStateError, AgentStore};
use crate::service::turn::ChangeOrder;

/// The name of the file.
const NAME: &str = "changes-of-the-host";

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

/// The file, as it is written.
#[derive(Default, Serialize, Deserialize)]
struct RecordFile {
    changes: Vec<Value>,
}

/// The file with all changes.
pub(super) struct RecordStore {
    store: AgentStore,
    /// Those of a newer agent that was here before: they are kept for the next one.
    foreign: Vec<Value>,
}

impl RecordStore {
    /// Reads what was kept.
    pub(super) fn open(store: AgentStore) -> Result<(RecordStore, Vec<ChangeRecord>), AgentStateError> {
        let file: RecordFile = store.load(NAME)?.unwrap_or_default();
        let (mut records, mut foreign) = (Vec::new(), Vec::new());
        for value in file.changes {
            match serde_json::from_value(value.clone()) {
                Ok(record) => records.push(record),
                Err(_) => foreign.push(value),
            }
        }
        records.sort_by_key(|record: &ChangeRecord| record.order.order.change);
        Ok((RecordStore { store, foreign }, records))
    }

    /// Keeps all of them. When this returns, they are on the disk.
    pub(super) fn keep<'r>(
        &self,
        records: impl Iterator<Item = &'r ChangeRecord>,
    ) -> Result<(), AgentStateError> {
        let json = |record: &ChangeRecord| serde_json::to_value(record).expect("it has names and numbers");
        let changes = self.foreign.iter().cloned().chain(records.map(json)).collect();
        self.store.keep(NAME, &RecordFile { changes })
    }
}

impl ChangeRecord {
    /// What the host would do for it, as it was told.
    pub(super) fn own(&self) -> &AnswerDigest {
        self.order.act.own()
    }

    /// Which change.
    pub(super) fn change(&self) -> ChangeNumber {
        self.order.order.change
    }
}
