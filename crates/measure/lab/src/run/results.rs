//! Results of a run, read from its directory: its experiment and the records of its trials.
//!
//! `RUN/experiment.toml` is the file as it was carried out, `RUN/trials/NNNN.json` a [`TrialRecord`] each.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::experiment::design::{Cell, Design};
use crate::experiment::{self, Experiment};
use crate::record::TrialRecord;
use crate::record::profile::CpuProfile;
use serde::de::DeserializeOwned;

/// A run, complete or still in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The experiment.
    pub experiment: Experiment,
    /// The same, as its file has it.
    pub notation: String,
    /// The records, in the order in which they were made.
    pub records: Vec<TrialRecord>,
    /// The profile of each cell, if the experiment asks for it.
    pub profiles: Vec<CpuProfile>,
}

/// Errors of reading a run's directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory does not exist, or access is denied.
    #[error("read {path}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its experiment is invalid.
    #[error("read {path}")]
    Experiment {
        /// Its file.
        path: PathBuf,
        /// The error.
        source: experiment::Error,
    },
    /// A trial's file has unexpected content.
    #[error("read {path}: it is no record of a trial, or no profile")]
    Record {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// No trial has ended.
    #[error("read {path}: no trial has ended yet")]
    Empty {
        /// The directory of the trials.
        path: PathBuf,
    },
}

/// Reasons why a run is not complete enough to be stored, or to confirm anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A cell has no trial that counts, and will have none.
    #[error("{cell} has no trial that counts: {why}")]
    Unseen {
        /// The cell.
        cell: String,
        /// The reason why its last trial does not count.
        why: String,
    },
    /// Rounds are missing.
    #[error("of its {rounds} rounds {done} are finished")]
    Unfinished {
        /// Rounds in which every cell has been tried.
        done: usize,
        /// Rounds of the experiment.
        rounds: usize,
    },
    /// Most of a cell's trials are lost: a median of the few that are left is far noisier than those of other runs.
    #[error("{cell} has a trial that counts in {seen} of {rounds} rounds: {why}")]
    Seldom {
        /// The cell.
        cell: String,
        /// Rounds with one.
        seen: usize,
        /// All.
        rounds: usize,
        /// The reason why its last lost trial does not count.
        why: String,
    },
    /// It was continued on another machine.
    #[error("its trials are of {0}")]
    Mixed(String),
}

impl Unfit {
    /// The remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Unfit::Unseen { .. } | Unfit::Seldom { .. } => {
                "nothing of it is kept; `evenkeel lab report RUN` lists what was left out"
            }
            Unfit::Unfinished { .. } => {
                "nothing of it is kept; `evenkeel lab run FILE --out RUN` goes on with it"
            }
            Unfit::Mixed(_) => "nothing of it is kept; a run of its own for each machine and kernel is",
        }
    }
}

impl Results {
    /// Reads a run's directory.
    pub fn read(run: &Path) -> Result<Results, Error> {
        let path = run.join("experiment.toml");
        let notation = text(&path)?;
        let experiment = Experiment::parse(&notation).map_err(|source| Error::Experiment { path, source })?;
        let directory = run.join("trials");
        let mut records: Vec<TrialRecord> = all_of(&directory)?;
        let profiles = run.join(PROFILES);
        let profiles = if profiles.exists() { all_of(&profiles)? } else { Vec::new() };
        if records.is_empty() {
            return Err(Error::Empty { path: directory });
        }
        records.iter_mut().for_each(|record| record.leave_out_incredible(&experiment.measure.primary));
        records.sort_by_key(|record: &TrialRecord| record.place);
        Ok(Results { experiment, notation, records, profiles })
    }

    /// Its first trial, in the order in which they were made: if the clock was set back meanwhile, times have another
    /// order.
    pub(crate) fn first(&self) -> Option<&TrialRecord> {
        self.records.iter().min_by_key(|record| record.place)
    }

    /// The host of its first trial.
    pub fn machine(&self) -> &str {
        self.first().map_or("", |record| &record.host)
    }

    /// When its first trial began.
    pub fn began_unix_s(&self) -> u64 {
        self.first().map_or(0, |record| record.began_unix_s)
    }

    /// Whether it is complete: every round was carried out, on one machine, and at least half of each cell's trials
    /// count. A cell without results cannot be called good.
    pub fn whole(&self) -> Result<(), Unfit> {
        let rounds = self.experiment.repeat.rounds as usize;
        let cells = Design::of(&self.experiment).cells;
        let has_it = |record: &&TrialRecord| record.figure(&self.experiment.measure.primary).is_some();
        let seen = |cell: &Cell| {
            distinct(self.valid().filter(has_it).filter(|it| cell.holds(it)).map(|it| it.round))
        };
        let why = |cell: &Cell| {
            let of_cell = || self.records.iter().rev().filter(|record| cell.holds(record));
            let lost = of_cell().find(|record| !record.is_valid()).or(of_cell().next());
            lost.map_or("it has none at all".to_owned(), |record| record.doubts.join("; "))
        };
        if let Some(cell) = cells.iter().find(|cell| seen(cell) == 0) {
            return Err(Unfit::Unseen { cell: cell.name(), why: why(cell) });
        }
        let tried =
            |cell: &Cell| distinct(self.records.iter().filter(|it| cell.holds(it)).map(|it| it.round));
        let done = cells.iter().map(tried).min().unwrap_or(0);
        if done < rounds {
            return Err(Unfit::Unfinished { done, rounds });
        }
        if let Some(cell) = cells.iter().find(|cell| 2 * seen(cell) < rounds) {
            return Err(Unfit::Seldom { cell: cell.name(), seen: seen(cell), rounds, why: why(cell) });
        }
        let place = |record: &TrialRecord| format!("{} with {}", record.host, record.kernel);
        let places: BTreeSet<String> = self.valid().map(place).collect();
        if places.len() > 1 {
            return Err(Unfit::Mixed(places.into_iter().collect::<Vec<_>>().join(" and ")));
        }
        Ok(())
    }

    /// The records that count.
    pub fn valid(&self) -> impl Iterator<Item = &TrialRecord> {
        self.records.iter().filter(|record| record.is_valid())
    }
}

fn distinct(rounds: impl Iterator<Item = u32>) -> usize {
    rounds.collect::<BTreeSet<u32>>().len()
}

/// Where a run keeps its profiles.
pub(crate) const PROFILES: &str = "profiles";

/// All files of a directory, one value in each.
fn all_of<T: DeserializeOwned>(directory: &Path) -> Result<Vec<T>, Error> {
    let one = |path: PathBuf| {
        let read = serde_json::from_str(&text(&path)?);
        read.map_err(|source| Error::Record { path, source })
    };
    trial_files(directory)?.into_iter().map(one).collect()
}

/// A file that is still being written has another ending.
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
