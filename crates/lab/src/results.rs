//! The directory of a run, read: its experiment and what its trials have left behind.
//!
//! `RUN/experiment.toml` is the file as it was carried out, `RUN/trials/NNNN.json` a [`Record`] each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::design::{Cell, Design};
use crate::experiment::{self, Experiment};
use crate::record::Record;

/// A run, whole or still under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// What was asked.
    pub experiment: Experiment,
    /// The same, as its file has it.
    pub notation: String,
    /// What the trials have left behind, in the order in which they were made.
    pub records: Vec<Record>,
}

/// Why a directory cannot be read as a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory is not there, or not for us.
    #[error("read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its experiment is none.
    #[error("read {path}")]
    Experiment {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: experiment::Error,
    },
    /// A trial's file holds something else.
    #[error("read {path}: it is no record of a trial")]
    Record {
        /// The file.
        path: PathBuf,
        /// Where reading ended.
        source: serde_json::Error,
    },
    /// No trial has ended.
    #[error("read {path}: no trial has ended yet")]
    Empty {
        /// The directory of the trials.
        path: PathBuf,
    },
}

impl Results {
    /// Reads a run's directory.
    pub fn read(run: &Path) -> Result<Results, Error> {
        let path = run.join("experiment.toml");
        let notation = text(&path)?;
        let experiment = Experiment::parse(&notation).map_err(|source| Error::Experiment { path, source })?;
        let directory = run.join("trials");
        let mut records = Vec::new();
        for path in trial_files(&directory)? {
            let record = serde_json::from_str(&text(&path)?);
            records.push(record.map_err(|source| Error::Record { path, source })?);
        }
        if records.is_empty() {
            return Err(Error::Empty { path: directory });
        }
        records.sort_by_key(|record: &Record| record.place);
        Ok(Results { experiment, notation, records })
    }

    /// The host of its first trial.
    pub fn machine(&self) -> &str {
        self.records.iter().min_by_key(|record| record.began_unix_s).map_or("", |record| &record.host)
    }

    /// The first cell of which no trial that counts has the metric that decides, and why its last trial does not count:
    /// without it the run says nothing about that cell, least of all that it is well.
    pub fn unseen(&self) -> Option<(String, String)> {
        let has_it = |record: &&Record| record.metrics.contains_key(&self.experiment.measure.primary);
        let is_seen = |cell: &Cell| self.valid().filter(has_it).any(|record| cell.holds(record));
        let cell = Design::of(&self.experiment).cells.into_iter().find(|cell| !is_seen(cell))?;
        let last = self.records.iter().rfind(|record| cell.holds(record));
        let why = last.map_or("it has none at all".to_owned(), |record| record.doubts.join("; "));
        Some((cell.name(), why))
    }

    /// The records that count.
    pub fn valid(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.is_valid())
    }
}

/// A file that is being written has another ending.
fn trial_files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let unread = |source| Error::Read { path: directory.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}
