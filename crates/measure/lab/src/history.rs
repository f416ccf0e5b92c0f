//! Histories of runs over time, in one SQLite file.
//!
//! A run is keyed by its experiment, machine, kernel, commit and beginning. A series holds the values of one metric
//! on one machine, for trials with the same [definition](crate::history::definition), in the order of the runs,
//! whatever the question is called. Trials with doubts are not added. The tables and statements
//! are in `store`; `sqlite` carries them out.

mod autoregression;
pub mod change_point;
pub mod commits;
pub mod definition;
mod entry;
pub mod gate;
mod series;
mod sqlite;
mod store;
pub(crate) mod student;

pub use self::entry::{Entry, entries};
pub use self::series::{MetricSeries, Point};
use self::sqlite::Sqlite;
pub use self::store::{Added, Error};
use self::store::{Line, Value, better_word, values_text};
use crate::analyze::comparison::Comparison;
use crate::experiment::design::{Cell, Design};
use crate::history::definition::{Definition, of_cells};
use crate::record::is_credible;
use crate::record::profile::CpuProfile;
use crate::run::results::Results;
use std::collections::BTreeMap;
use std::path::Path;

/// The location of a history.
pub struct History {
    store: Sqlite,
}

impl History {
    /// Opens a file, and creates it if it does not exist.
    pub fn open(store: &str) -> Result<History, Error> {
        // The URL of a database. It is not printed again: it may hold a password.
        if let Some((scheme, _)) = store.split_once("://") {
            return Err(Error::Database { scheme: scheme.to_owned() });
        }
        Ok(History { store: Sqlite::open(Path::new(store))? })
    }

    /// Opens a file that has to be there.
    pub fn open_kept(store: &str) -> Result<History, Error> {
        if !store.contains("://") && !Path::new(store).exists() {
            return Err(Error::Store {
                name: store.to_owned(),
                hint: Some("`evenkeel lab history --add RUN --commit COMMIT` makes it"),
                source: Box::new(std::io::Error::new(std::io::ErrorKind::NotFound, "it is not there")),
            });
        }
        History::open(store)
    }

    /// Opens a file that has to be there, and changes nothing of it.
    pub fn open_to_read(file: &Path) -> Result<History, Error> {
        Ok(History { store: Sqlite::open_to_read(file)? })
    }

    /// A history in memory, lost at the end.
    pub fn in_memory() -> Result<History, Error> {
        Ok(History { store: Sqlite::in_memory()? })
    }

    /// Adds the results of a run at that commit, if the run is complete.
    pub fn add(&mut self, results: &Results, comparison: &Comparison, commit: &str) -> Result<Added, Error> {
        let Some(first) = results.first() else {
            return Ok(Added::Known);
        };
        results.whole().map_err(Error::Unfit)?;
        if commit.trim().is_empty() || commit.contains(char::is_control) {
            return Err(Error::Commit(commit.to_owned()));
        }
        let shown = entries(results, comparison);
        let is_it = |(series, point): &Line| {
            point.began_unix_s == first.began_unix_s && series.is_of(results.machine(), &shown)
        };
        if let Some((_, kept)) = self.store.lines()?.into_iter().find(|it| is_it(it) && it.1.commit != commit)
        {
            return Err(Error::Kept(kept.commit));
        }
        let text = |text: &str| Value::Text(text.to_owned());
        let run = [
            text(&comparison.question),
            text(results.machine()),
            text(&first.kernel),
            text(commit),
            Value::Whole(first.began_unix_s as i64),
        ];
        let point = |entry: Entry| {
            vec![
                Value::Text(entry.definition),
                Value::Text(entry.pinned),
                Value::Number(entry.ratio.unwrap_or(0.0)),
                Value::Text(entry.cell),
                Value::Text(entry.metric),
                Value::Whole(i64::from(entry.is_primary)),
                text(better_word(entry.better)),
                Value::Number(entry.matters),
                Value::Whole(entry.values.len() as i64),
                Value::Number(entry.median.low),
                Value::Number(entry.median.middle),
                Value::Number(entry.median.high),
                Value::Text(values_text(&entry.values)),
            ]
        };
        let points: Vec<Vec<Value>> = shown.into_iter().map(point).collect();
        let profiles: Vec<Vec<Value>> = profiles(results)
            .into_iter()
            .map(|(definition, text)| vec![Value::Text(definition), Value::Text(text)])
            .collect();
        self.store.add(&run, &points, &profiles)
    }

    /// The profiles of the runs of a series: by index among its points.
    pub fn profiles(&mut self, series: &MetricSeries) -> Result<BTreeMap<usize, CpuProfile>, Error> {
        let mut found = BTreeMap::new();
        for (commit, began_unix_s, text) in self.store.profiles(&series.machine, &series.definition)? {
            let is_it = |point: &Point| point.commit == commit && point.began_unix_s == began_unix_s as u64;
            // A later version may have written one that this version cannot read.
            let profile = serde_json::from_str(&text).ok();
            found.extend(series.points.iter().position(is_it).zip(profile));
        }
        Ok(found)
    }

    /// All series, those of an experiment together, and those that decide first.
    pub fn series(&mut self) -> Result<Vec<MetricSeries>, Error> {
        let mut all: BTreeMap<[String; 5], MetricSeries> = BTreeMap::new();
        // An earlier version may have stored values that no trial can have.
        let is_credible = |(_, point): &Line| is_credible(point.median.middle);
        for (mut series, point) in self.store.lines()?.into_iter().filter(is_credible) {
            let key = series.key();
            // Name and judgement are those of the newest run.
            series.points = all.remove(&key).map_or(Vec::new(), |before| before.points);
            series.points.push(point);
            all.insert(key, series);
        }
        let mut all: Vec<MetricSeries> = all.into_values().collect();
        all.sort_by(|a, b| a.place().cmp(&b.place()));
        Ok(all)
    }
}

/// The profiles of a run, by definition.
fn profiles(results: &Results) -> Vec<(String, String)> {
    let cells = Design::of(&results.experiment).cells;
    let definitions = of_cells(results, &cells);
    let of = |(cell, definition): (&Cell, Definition)| {
        let name = results.records.iter().find(|record| cell.holds(record))?.cell();
        let profile = results.profiles.iter().find(|profile| profile.cell == name)?;
        Some((definition.digest, serde_json::to_string(profile).expect("it is plain data")))
    };
    cells.iter().zip(definitions).filter_map(of).collect()
}
