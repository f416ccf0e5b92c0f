//! Expected effects of a plan, and a measurement from before: kept beside the plan's journal for `verify`.

use std::io;
use std::path::{Path, PathBuf};

use os::DirectoryEntry;
use serde::{Deserialize, Serialize};

use crate::observe::capture::Capture;
use crate::plan::change::Change;

/// Changes with their signals, and the measurement from before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedEffect {
    /// The planned changes.
    pub changes: Vec<Change>,
    /// The host before the first change, if it was measured.
    pub before: Option<Capture>,
}

impl ExpectedEffect {
    /// The path of a journal's expected effects: `000001.promise.json` beside `000001.jsonl`.
    pub(crate) fn path(journal: &Path) -> PathBuf {
        journal.with_extension("promise.json")
    }

    /// Stores it. It is not needed for rollback, so it need not be on the disk before the first change.
    pub fn keep(&self, journal: &Path) -> io::Result<()> {
        os::file::replace(&ExpectedEffect::path(journal), serde_json::to_vec(self)?)
    }

    /// Removes it when the plan is undone: it is not needed any more.
    pub(crate) fn forget(journal: &Path) -> io::Result<()> {
        DirectoryEntry::of(&ExpectedEffect::path(journal))?.remove_if_there()
    }

    /// Reads it; none if the journal has none.
    pub fn of(journal: &Path) -> io::Result<Option<ExpectedEffect>> {
        match std::fs::read(ExpectedEffect::path(journal)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
