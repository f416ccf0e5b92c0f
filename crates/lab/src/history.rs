//! What runs have shown over time: one SQLite file.
//!
//! An entry is keyed by its experiment, machine, kernel and commit; a series is what one metric of one cell did on one
//! machine, in the order of the runs. Trials with doubts never get here.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::compare::{Comparison, Interval, Verdict};
use crate::experiment::Better;
use crate::results::Results;

/// The file.
#[derive(Debug)]
pub struct History {
    connection: Connection,
}

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is none of ours, or not for us, or in use for too long.
    #[error("use the history {path}")]
    Store {
        /// The file.
        path: String,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A later version has made it.
    #[error("use the history {path}: its format is {found}, and only {VERSION} is known")]
    Version {
        /// The file.
        path: String,
        /// Its format.
        found: i64,
    },
}

/// The format of the file: `user_version`.
const VERSION: i64 = 1;

const TABLES: &str = "
create table run (
    id integer primary key,
    experiment text not null, machine text not null, kernel text not null, commit_id text not null,
    began_unix_s integer not null,
    unique (experiment, machine, kernel, commit_id, began_unix_s)
) strict;
create table point (
    run integer not null references run (id), cell text not null, metric text not null,
    is_primary integer not null, better text not null, matters real not null,
    trials integer not null, low real not null, median real not null, high real not null,
    primary key (run, cell, metric)
) strict;
";

/// One metric of one cell on one machine, the oldest run first.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The question of the experiment.
    pub experiment: String,
    /// The host's name.
    pub machine: String,
    /// The cell's name.
    pub cell: String,
    /// The metric's name.
    pub metric: String,
    /// Whether it decides the experiment.
    pub is_primary: bool,
    /// Which values are good, if that is known.
    pub better: Option<Better>,
    /// Relative differences below this do not matter, as the newest run says.
    pub matters: f64,
    /// What each run has shown.
    pub points: Vec<Point>,
}

/// What one run has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What was measured.
    pub commit: String,
    /// On which kernel.
    pub kernel: String,
    /// When its first trial began.
    pub began_unix_s: u64,
    /// How many trials count.
    pub trials: usize,
    /// Their median.
    pub median: Interval,
}

impl History {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<History, Error> {
        let connection = Connection::open(path).map_err(failed(path))?;
        Self::prepared(connection, path)
    }

    /// One that is forgotten.
    pub fn in_memory() -> Result<History, Error> {
        let path = Path::new(":memory:");
        Self::prepared(Connection::open_in_memory().map_err(failed(path))?, path)
    }

    fn prepared(mut connection: Connection, path: &Path) -> Result<History, Error> {
        let failed = failed(path);
        // Two that begin at once: the second finds the tables of the first.
        let transaction = connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(&failed)?;
        let found: i64 =
            transaction.query_row("pragma user_version", [], |row| row.get(0)).map_err(&failed)?;
        match found {
            0 => transaction
                .execute_batch(&format!("{TABLES} pragma user_version = {VERSION};"))
                .map_err(&failed)?,
            VERSION => {}
            found => return Err(Error::Version { path: path.display().to_string(), found }),
        }
        transaction.commit().map_err(&failed)?;
        Ok(History { connection })
    }

    /// Keeps what a run has shown at that commit. False: it is there already.
    pub fn add(&mut self, results: &Results, comparison: &Comparison, commit: &str) -> Result<bool, Error> {
        self.insert(results, comparison, commit).map_err(|source| Error::Store { path: self.path(), source })
    }

    fn path(&self) -> String {
        self.connection.path().unwrap_or_default().to_owned()
    }

    fn insert(&mut self, results: &Results, comparison: &Comparison, commit: &str) -> rusqlite::Result<bool> {
        let Some(first) = results.records.iter().min_by_key(|record| record.began_unix_s) else {
            return Ok(false);
        };
        let transaction = self.connection.transaction()?;
        let inserted = transaction.execute(
            "insert or ignore into run (experiment, machine, kernel, commit_id, began_unix_s) values (?, ?, ?, ?, ?)",
            params![comparison.question, first.host, first.kernel, commit, first.began_unix_s as i64],
        )?;
        if inserted == 0 {
            return Ok(false);
        }
        let run = transaction.last_insert_rowid();
        for (index, metric) in comparison.metrics.iter().enumerate() {
            for standing in &metric.standings {
                let Some(median) = standing.median else { continue };
                transaction.execute(
                    "insert into point values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    params![
                        run,
                        standing.cell(),
                        metric.name,
                        index == 0,
                        better_word(metric.better),
                        results.experiment.measure.equivalent,
                        standing.values.len() as i64,
                        median.low,
                        median.middle,
                        median.high,
                    ],
                )?;
            }
        }
        transaction.commit()?;
        Ok(true)
    }

    /// All series, those of an experiment together.
    pub fn series(&self) -> Result<Vec<Series>, Error> {
        self.select().map_err(|source| Error::Store { path: self.path(), source })
    }

    fn select(&self) -> rusqlite::Result<Vec<Series>> {
        let mut statement = self.connection.prepare(
            "select experiment, machine, cell, metric, is_primary, better, matters,
                    commit_id, kernel, began_unix_s, trials, low, median, high
             from point join run on run.id = point.run
             order by experiment, machine, is_primary desc, metric, cell, began_unix_s, run.id",
        )?;
        let mut rows = statement.query([])?;
        let mut all: Vec<Series> = Vec::new();
        while let Some(row) = rows.next()? {
            let better: String = row.get(5)?;
            let series = Series {
                experiment: row.get(0)?,
                machine: row.get(1)?,
                cell: row.get(2)?,
                metric: row.get(3)?,
                is_primary: row.get(4)?,
                better: better_of(&better),
                matters: row.get(6)?,
                points: Vec::new(),
            };
            let point = Point {
                commit: row.get(7)?,
                kernel: row.get(8)?,
                began_unix_s: row.get::<_, i64>(9)? as u64,
                trials: row.get::<_, i64>(10)? as usize,
                median: Interval { low: row.get(11)?, middle: row.get(12)?, high: row.get(13)? },
            };
            let same = |other: &&mut Series| {
                let key = |it: &Series| {
                    (it.experiment.clone(), it.machine.clone(), it.cell.clone(), it.metric.clone())
                };
                key(other) == key(&series)
            };
            match all.last_mut().filter(same) {
                Some(last) => {
                    (last.is_primary, last.better, last.matters) =
                        (series.is_primary, series.better, series.matters);
                    last.points.push(point);
                }
                None => all.push(Series { points: vec![point], ..series }),
            }
        }
        Ok(all)
    }
}

fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::Store { path: path.clone(), source }
}

fn better_word(better: Option<Better>) -> &'static str {
    match better {
        Some(Better::Lower) => "lower",
        Some(Better::Higher) => "higher",
        None => "",
    }
}

fn better_of(word: &str) -> Option<Better> {
    match word {
        "lower" => Some(Better::Lower),
        "higher" => Some(Better::Higher),
        _ => None,
    }
}

impl Series {
    /// The medians, the oldest first.
    pub fn medians(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.median.middle).collect()
    }

    /// What going from one level to another is.
    pub fn judge(&self, before: f64, after: f64) -> Verdict {
        match self.better {
            None => Verdict::Different,
            Some(better) if (after < before) == (better == Better::Lower) => Verdict::Better,
            Some(_) => Verdict::Worse,
        }
    }

    /// The newest medians as a line of bars, from the least to the most of them.
    pub fn sparkline(&self) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let medians = self.medians();
        let newest = &medians[medians.len().saturating_sub(SPARKS_MAX)..];
        let low = newest.iter().copied().fold(f64::INFINITY, f64::min);
        let high = newest.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let bar = |value: &f64| {
            let share = if high > low { (value - low) / (high - low) } else { 0.5 };
            BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
        };
        newest.iter().map(bar).collect()
    }
}

/// So many runs have a bar.
const SPARKS_MAX: usize = 40;
