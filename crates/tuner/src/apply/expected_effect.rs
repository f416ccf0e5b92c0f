//! Expected effects of a plan, and how the host was before: kept beside the plan's journal for `verify`.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::observe::capture::Capture;
use crate::plan::change::Change;

/// Changes with their signals, and the measurement from before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedEffect {
    /// What was to be changed.
    pub changes: Vec<Change>,
    /// The host before the first change, if it was measured.
    pub before: Option<Capture>,
}

impl ExpectedEffect {
    /// Where the expected effects of a journal are: `000001.promise.json` beside `000001.jsonl`.
    fn path(journal: &Path) -> PathBuf {
        journal.with_extension("promise.json")
    }

    /// Keeps it. It is no part of the way back, so it need not be on the disk before the first change.
    pub fn keep(&self, journal: &Path) -> io::Result<()> {
        let (path, beside) = (ExpectedEffect::path(journal), journal.with_extension("promise.new"));
        std::fs::write(&beside, serde_json::to_vec(self)?)?;
        std::fs::rename(beside, path)
    }

    /// Takes it away, when the plan is undone: nobody will ask for it.
    pub(crate) fn forget(journal: &Path) -> io::Result<()> {
        match std::fs::remove_file(ExpectedEffect::path(journal)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Finds it again; none if the journal has none.
    pub fn of(journal: &Path) -> io::Result<Option<ExpectedEffect>> {
        match std::fs::read(ExpectedEffect::path(journal)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
