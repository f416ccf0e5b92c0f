//! Histories of runs over time: one SQLite file, or a PostgreSQL database that several machines share.
//!
//! A run is keyed by its experiment, machine, kernel, commit and beginning. A series is what one metric of what is
//! [defined](crate::definition) in the same way did on one machine, in the order of the runs, whatever the question is
//! called. Trials with doubts never get here. Both stores have the same tables and understand
//! the same statements, which are here; how they are reached is in `sqlite` and `postgres` (in builds with the feature
//! `shared-history`).

mod entry;
#[cfg(feature = "shared-history")]
mod postgres;
mod sqlite;

pub use self::entry::{Entry, entries};
use self::sqlite::Sqlite;
use crate::compare::{Comparison, Interval, Verdict};
use crate::definition::{Definition, of_cells};
use crate::design::{Cell, Design};
use crate::experiment::Better;
use crate::profile::Profile;
use crate::quantity::number;
use crate::record::is_credible;
use crate::results::{Results, Unfit};
use std::collections::BTreeMap;
use std::path::Path;

/// The place where it is kept.
pub struct History {
    store: Box<dyn Store>,
}

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is none of ours, or not for us, or in use for too long.
    #[error("use the history {name}")]
    Store {
        /// The file, or the database.
        name: String,
        /// What may help.
        hint: Option<&'static str>,
        /// What SQLite or PostgreSQL says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A later version has made it.
    #[error("use the history {name}: its format is {found}, and only {VERSION} is known")]
    Version {
        /// The file, or the database.
        name: String,
        /// Its format.
        found: i64,
    },
    /// It is a database, and this program has been built without the client for one.
    #[error("use the history {scheme}…: this program is built without shared histories")]
    NotBuilt {
        /// How its URL begins.
        scheme: &'static str,
    },
    /// The run says too little.
    #[error("keep the run: {0}")]
    Unfit(Unfit),
    /// What was measured has no name that can be shown.
    #[error("keep the run: the commit {0:?} is empty or has control characters")]
    Commit(String),
    /// One run is one point.
    #[error("keep the run: it is in the history already, as {0}")]
    Kept(String),
    /// What its URL says about encryption makes no sense.
    #[error("use the history {name}: {what}")]
    Encryption {
        /// The database.
        name: String,
        /// What is wrong.
        what: String,
        /// What may help.
        hint: Option<&'static str>,
    },
}

impl Error {
    /// What may help.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::Store { hint, .. } | Error::Encryption { hint, .. } => *hint,
            Error::Version { .. } => Some("a later version of this program has made it, and understands it"),
            Error::NotBuilt { .. } => Some(
                "`cargo build --release --features shared-history` builds one that has them; a history in a file needs \
                 nothing",
            ),
            Error::Unfit(unfit) => Some(unfit.hint()),
            Error::Commit(_) | Error::Kept(_) => None,
        }
    }
}

/// Where the tables are.
trait Store {
    /// Adds a run with its points and profiles, or nothing at all. If the run is there already, its points that have no
    /// definition yet get theirs.
    fn add(&mut self, run: &[Value], points: &[Vec<Value>], profiles: &[Vec<Value>]) -> Result<Added, Error>;

    /// The profiles of what is defined so on a machine: commit, beginning, and what was sampled.
    fn profiles(&mut self, machine: &str, definition: &str) -> Result<Vec<(String, i64, String)>, Error>;

    /// All points, the oldest first.
    fn lines(&mut self) -> Result<Vec<Line>, Error>;
}

/// What became of a run that was to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is kept.
    New,
    /// An earlier version has kept it, and its definitions are kept now, too.
    Defined,
    /// It is there already.
    Known,
}

impl Added {
    /// Of so many points that were added or changed.
    fn of(is_new: bool, changed: usize) -> Added {
        match (is_new, changed) {
            (true, _) => Added::New,
            (false, 0) => Added::Known,
            (false, _) => Added::Defined,
        }
    }
}

/// What a statement is given.
#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Whole(i64),
    Number(f64),
}

/// A series that has no points yet, and one of them.
type Line = (Series, Point);

/// The format of the tables.
const VERSION: i64 = 4;

/// From each format to the next: 1 did not keep the values of trials, 2 knew a series by the question alone, 3 had no
/// profiles.
const STEPS: [&str; VERSION as usize - 1] = [
    "alter table point add column by_round text not null default '';",
    "alter table point add column definition text not null default '';
    alter table point add column pinned text not null default '';
    alter table point add column ratio {number} not null default 0;",
    "create table profile (
        run {whole} not null references run (id), definition text not null, profile text not null,
        primary key (run, definition)
    );",
];

/// From that format to today's, if there is a way.
fn steps(found: i64) -> Option<String> {
    let before = usize::try_from(found).ok()?.checked_sub(1)?;
    STEPS.get(before..).filter(|steps| !steps.is_empty()).map(<[&str]>::concat)
}

/// The stores differ in how they call the types.
const TABLES: &str = "
create table run (
    id {id},
    experiment text not null, machine text not null, kernel text not null, commit_id text not null,
    began_unix_s {whole} not null,
    unique (experiment, machine, kernel, commit_id, began_unix_s)
);
create table point (
    run {whole} not null references run (id), cell text not null, metric text not null,
    is_primary {whole} not null, better text not null, matters {number} not null,
    trials {whole} not null, low {number} not null, median {number} not null, high {number} not null,
    by_round text not null default '',
    definition text not null default '', pinned text not null default '', ratio {number} not null default 0,
    primary key (run, cell, metric)
);
create table profile (
    run {whole} not null references run (id), definition text not null, profile text not null,
    primary key (run, definition)
);
";

/// Gives the number of the run, or nothing if it is there already.
const ADD_RUN: &str =
    "insert into run (experiment, machine, kernel, commit_id, began_unix_s) values ($1, $2, $3, $4, $5)
    on conflict do nothing returning id";

const ADD_PROFILE: &str = "insert into profile (run, definition, profile) values ($1, $2, $3)";

/// Those of a series, the oldest first.
const PROFILES: &str = "select commit_id, began_unix_s, profile
    from profile join run on run.id = profile.run
    where machine = $1 and definition = $2
    order by began_unix_s, run.id";

/// The number of a run that is there.
const FIND_RUN: &str =
    "select id from run where experiment = $1 and machine = $2 and kernel = $3 and commit_id = $4
    and began_unix_s = $5";

const ADD_POINT: &str = "insert into point (run, definition, pinned, ratio, cell, metric,
        is_primary, better, matters, trials, low, median, high, by_round)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

/// SQLite numbers such parameters in the order in which they appear.
const DEFINE_POINT: &str = "update point set definition = $1, pinned = $2, ratio = $3
    where run = $4 and cell = $5 and metric = $6 and definition = ''";

/// What [`DEFINE_POINT`] is given, of a point that [`ADD_POINT`] would be given.
fn defining<'v>(run: &'v Value, point: &'v [Value]) -> impl Iterator<Item = &'v Value> {
    point[..3].iter().chain([run]).chain(&point[3..5])
}

const SERIES: &str = "select experiment, machine, cell, metric, is_primary, better, matters,
        commit_id, kernel, began_unix_s, trials, low, median, high, by_round, definition, pinned, ratio
    from point join run on run.id = point.run
    order by began_unix_s, run.id";

/// A row of [`SERIES`], by number of the column.
fn line<E>(
    text: impl Fn(usize) -> Result<String, E>,
    whole: impl Fn(usize) -> Result<i64, E>,
    number: impl Fn(usize) -> Result<f64, E>,
) -> Result<Line, E> {
    let series = Series {
        experiment: text(0)?,
        machine: text(1)?,
        cell: text(2)?,
        metric: text(3)?,
        is_primary: whole(4)? != 0,
        better: better_of(&text(5)?),
        matters: number(6)?,
        definition: text(15)?,
        pinned: text(16)?,
        points: Vec::new(),
    };
    let point = Point {
        commit: text(7)?,
        kernel: text(8)?,
        began_unix_s: whole(9)? as u64,
        trials: whole(10)? as usize,
        median: Interval { low: number(11)?, middle: number(12)?, high: number(13)? },
        values: values_of(&text(14)?),
        ratio: Some(number(17)?).filter(|ratio| *ratio > 0.0),
    };
    Ok((series, point))
}

/// One metric of one cell on one machine, the oldest run first.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The question of the experiment, as the newest run has it.
    pub experiment: String,
    /// The host's name.
    pub machine: String,
    /// The cell's name, as the newest run has it.
    pub cell: String,
    /// The metric's name.
    pub metric: String,
    /// Whether it decides the experiment.
    pub is_primary: bool,
    /// Which values are good, if that is known.
    pub better: Option<Better>,
    /// Relative differences below this do not matter, as the newest run says.
    pub matters: f64,
    /// The digest of what defines its trials; empty: an earlier version has kept it, and it is known by its names.
    pub definition: String,
    /// The cell that it is measured by, which may be itself; empty: there is none.
    pub pinned: String,
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
    /// The value of each, with its round; none if an earlier version has kept the run.
    pub values: Vec<(u32, f64)>,
    /// What it is relative to the pinned cell in the same run.
    pub ratio: Option<f64>,
}

impl History {
    /// Opens a file, or a database whose URL begins with `postgres://`; what is not there yet is made. `password` is for
    /// a URL that has none.
    pub fn open(store: &str, password: Option<&str>) -> Result<History, Error> {
        let store: Box<dyn Store> = match scheme(store) {
            Some(scheme) => shared(scheme, store, password)?,
            None => Box::new(Sqlite::open(Path::new(store))?),
        };
        Ok(History { store })
    }

    /// The same, but a file has to be there.
    pub fn open_kept(store: &str, password: Option<&str>) -> Result<History, Error> {
        if scheme(store).is_none() && !Path::new(store).exists() {
            return Err(Error::Store {
                name: store.to_owned(),
                hint: Some("`evenkeel lab history --add RUN --commit COMMIT` makes it"),
                source: Box::new(std::io::Error::new(std::io::ErrorKind::NotFound, "it is not there")),
            });
        }
        History::open(store, password)
    }

    /// One that is forgotten.
    pub fn in_memory() -> Result<History, Error> {
        Ok(History { store: Box::new(Sqlite::in_memory()?) })
    }

    /// Keeps what a run has shown at that commit, if it is whole.
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

    /// What was sampled of the runs of a series that have a profile: by place among its points.
    pub fn profiles(&mut self, series: &Series) -> Result<BTreeMap<usize, Profile>, Error> {
        let mut found = BTreeMap::new();
        for (commit, began_unix_s, text) in self.store.profiles(&series.machine, &series.definition)? {
            let is_it = |point: &Point| point.commit == commit && point.began_unix_s == began_unix_s as u64;
            // What a later version may have written is none.
            let profile = serde_json::from_str(&text).ok();
            found.extend(series.points.iter().position(is_it).zip(profile));
        }
        Ok(found)
    }

    /// All series, those of an experiment together, and those that decide first.
    pub fn series(&mut self) -> Result<Vec<Series>, Error> {
        let mut all: BTreeMap<[String; 5], Series> = BTreeMap::new();
        // An earlier version may have kept what no trial can have shown.
        let is_credible = |(_, point): &Line| is_credible(point.median.middle);
        for (mut series, point) in self.store.lines()?.into_iter().filter(is_credible) {
            let key = series.key();
            // The newest run says how it is called and judged.
            series.points = all.remove(&key).map_or(Vec::new(), |before| before.points);
            series.points.push(point);
            all.insert(key, series);
        }
        let mut all: Vec<Series> = all.into_values().collect();
        all.sort_by(|a, b| a.place().cmp(&b.place()));
        Ok(all)
    }
}

/// What was sampled in a run, by definition.
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

/// How psql knows a URL from the name of a database; `None`: it is a file.
fn scheme(store: &str) -> Option<&'static str> {
    ["postgres://", "postgresql://"].into_iter().find(|scheme| store.starts_with(scheme))
}

#[cfg(feature = "shared-history")]
fn shared(_: &str, url: &str, password: Option<&str>) -> Result<Box<dyn Store>, Error> {
    Ok(Box::new(postgres::Postgres::open(url, password)?))
}

/// The URL itself is not said again: it may hold a password.
#[cfg(not(feature = "shared-history"))]
fn shared(scheme: &'static str, _: &str, _: Option<&str>) -> Result<Box<dyn Store>, Error> {
    Err(Error::NotBuilt { scheme })
}

/// `0:101.5 1:99.25`, from which the same numbers come back.
fn values_text(values: &[(u32, f64)]) -> String {
    values.iter().map(|(round, value)| format!("{round}:{value}")).collect::<Vec<_>>().join(" ")
}

fn values_of(text: &str) -> Vec<(u32, f64)> {
    let value = |word: &str| {
        let (round, value) = word.split_once(':')?;
        Some((round.parse().ok()?, value.parse().ok()?))
    };
    text.split_whitespace().filter_map(value).collect()
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
    /// Without a definition, the names are all that is known.
    fn key(&self) -> [String; 5] {
        let named = |name: &String| if self.definition.is_empty() { name.clone() } else { String::new() };
        let (machine, metric) = (self.machine.clone(), self.metric.clone());
        [self.definition.clone(), machine, metric, named(&self.experiment), named(&self.cell)]
    }

    /// Whether such a run adds to it.
    pub fn is_of(&self, machine: &str, entries: &[Entry]) -> bool {
        self.machine == machine && self.entry(entries).is_some()
    }

    /// What such a run would add to it, whatever its machine.
    pub fn entry<'e>(&self, entries: &'e [Entry]) -> Option<&'e Entry> {
        let is_same = |entry: &&Entry| entry.definition == self.definition && entry.metric == self.metric;
        entries.iter().find(is_same)
    }

    /// Among all series.
    fn place(&self) -> (&str, &str, bool, &str, &str, &str) {
        (&self.experiment, &self.machine, !self.is_primary, &self.metric, &self.cell, &self.definition)
    }

    /// Whether it is judged by its ratio to the pinned subject: what makes the host slower is in both.
    pub fn is_relative(&self) -> bool {
        let is_other = !self.pinned.is_empty() && self.pinned != self.cell;
        is_other && self.points.iter().all(|point| point.ratio.is_some())
    }

    /// Whether it is the pinned subject itself: it shows the host, and nothing else can have changed.
    pub fn is_pinned(&self) -> bool {
        self.pinned == self.cell
    }

    /// The medians, the oldest first.
    pub fn medians(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.median.middle).collect()
    }

    /// What is judged, the oldest first: ratios to the pinned subject, or else medians.
    pub fn levels(&self) -> Vec<f64> {
        let is_relative = self.is_relative();
        let level = |point: &Point| point.ratio.filter(|_| is_relative).unwrap_or(point.median.middle);
        self.points.iter().map(level).collect()
    }

    /// What going from one level to another is.
    pub fn judge(&self, before: f64, after: f64) -> Verdict {
        match self.better {
            None => Verdict::Different,
            Some(better) if (after < before) == (better == Better::Lower) => Verdict::Better,
            Some(_) => Verdict::Worse,
        }
    }

    /// The newest levels as a line of bars, and what the lowest and the highest bar mean.
    pub fn sparkline(&self) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let levels = self.levels();
        let newest = &levels[levels.len().saturating_sub(SPARKS_MAX)..];
        let low = newest.iter().copied().fold(f64::INFINITY, f64::min);
        let high = newest.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let bar = |value: &f64| {
            let share = if high > low { (value - low) / (high - low) } else { 0.5 };
            BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
        };
        let bars: String = newest.iter().map(bar).collect();
        match high > low {
            true => {
                format!("{bars} ({} {}, {} {})", BARS[0], number(low), BARS[BARS.len() - 1], number(high))
            }
            false => format!("{bars} (all {})", number(low)),
        }
    }
}

/// So many runs have a bar.
const SPARKS_MAX: usize = 40;
