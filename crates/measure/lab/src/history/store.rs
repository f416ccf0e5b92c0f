//! Tables and statements of a history, in the words of SQLite.

use super::series::{MetricSeries, Point};
use crate::analyze::verdict::Interval;
use crate::experiment::TRIALS_MAX;
use crate::record::is_credible;
use crate::record::quantity::Better;
use crate::run::results::Unfit;

/// Errors of a history.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is another file, or access is denied, or it is in use for too long.
    #[error("use the history {name}")]
    Store {
        /// The file.
        name: String,
        /// The remedy.
        hint: Option<&'static str>,
        /// The message of SQLite.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A later version has made it.
    #[error("use the history {name}: its format is {found}, and only {VERSION} is known")]
    Version {
        /// The file.
        name: String,
        /// Its format.
        found: i64,
    },
    /// It is the URL of a database.
    #[error("use the history {scheme}://…: a history is a file, not a database")]
    Database {
        /// How its URL begins.
        scheme: String,
    },
    /// The run is incomplete.
    #[error("keep the run: {0}")]
    Unfit(Unfit),
    /// The commit's name cannot be shown.
    #[error("keep the run: the commit {0:?} is empty or has control characters")]
    Commit(String),
    /// A run is added once.
    #[error("keep the run: it is in the history already, as {0}")]
    Kept(String),
}

impl Error {
    /// The remedy.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::Store { hint, .. } => *hint,
            Error::Version { .. } => Some("a later version of this program has made it, and understands it"),
            Error::Database { .. } => Some(
                "runs are directories: copy them to the host that keeps the history (`scp -r RUN HOST:`), and add them \
                 there with `evenkeel lab history --add RUN --commit COMMIT`",
            ),
            Error::Unfit(unfit) => Some(unfit.hint()),
            Error::Commit(_) | Error::Kept(_) => None,
        }
    }
}

/// The result of adding a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was added.
    New,
    /// An earlier version has added it, and its definitions are added now, too.
    Defined,
    /// It was there already.
    Known,
}

impl Added {
    /// The number of points that were added or changed.
    pub(super) fn of(is_new: bool, changed: usize) -> Added {
        match (is_new, changed) {
            (true, _) => Added::New,
            (false, 0) => Added::Known,
            (false, _) => Added::Defined,
        }
    }
}

/// A parameter of a statement.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Number(f64),
}

/// A series that has no points yet, and one of them.
pub(super) type Line = (MetricSeries, Point);

/// The format of the tables.
pub(super) const VERSION: i64 = 4;

/// From each format to the next: 1 did not store the values of trials, 2 identified a series by the question alone, 3
/// had no profiles.
pub(super) const STEPS: [&str; VERSION as usize - 1] = [
    "alter table point add column by_round text not null default '';",
    "alter table point add column definition text not null default '';
    alter table point add column pinned text not null default '';
    alter table point add column ratio real not null default 0;",
    "create table profile (
        run integer not null references run (id), definition text not null, profile text not null,
        primary key (run, definition)
    ) strict;",
];

/// From that format to today's, if there is a way.
pub(super) fn steps(found: i64) -> Option<String> {
    let before = usize::try_from(found).ok()?.checked_sub(1)?;
    STEPS.get(before..).filter(|steps| !steps.is_empty()).map(<[&str]>::concat)
}

/// Of a new history. `strict` makes a column's type count, which it does anywhere else.
pub(super) const TABLES: &str = "
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
    by_round text not null default '',
    definition text not null default '', pinned text not null default '', ratio real not null default 0,
    primary key (run, cell, metric)
) strict;
create table profile (
    run integer not null references run (id), definition text not null, profile text not null,
    primary key (run, definition)
) strict;
";

/// Gives the number of the run, or nothing if it is there already.
pub(super) const ADD_RUN: &str =
    "insert into run (experiment, machine, kernel, commit_id, began_unix_s) values ($1, $2, $3, $4, $5)
    on conflict do nothing returning id";

pub(super) const ADD_PROFILE: &str = "insert into profile (run, definition, profile) values ($1, $2, $3)";

/// Those of a series, the oldest first.
pub(super) const PROFILES: &str = "select commit_id, began_unix_s, profile
    from profile join run on run.id = profile.run
    where machine = $1 and definition = $2
    order by began_unix_s, run.id";

/// The number of a run that is there.
pub(super) const FIND_RUN: &str =
    "select id from run where experiment = $1 and machine = $2 and kernel = $3 and commit_id = $4
    and began_unix_s = $5";

pub(super) const ADD_POINT: &str = "insert into point (run, definition, pinned, ratio, cell, metric,
        is_primary, better, matters, trials, low, median, high, by_round)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

/// SQLite numbers such parameters in the order in which they appear.
pub(super) const DEFINE_POINT: &str = "update point set definition = $1, pinned = $2, ratio = $3
    where run = $4 and cell = $5 and metric = $6 and definition = ''";

/// The parameters of [`DEFINE_POINT`], for a point with the parameters of [`ADD_POINT`].
pub(super) fn defining<'v>(run: &'v Value, point: &'v [Value]) -> impl Iterator<Item = &'v Value> {
    point[..3].iter().chain([run]).chain(&point[3..5])
}

pub(super) const SERIES: &str = "select experiment, machine, cell, metric, is_primary, better, matters,
        commit_id, kernel, began_unix_s, trials, low, median, high, by_round, definition, pinned, ratio
    from point join run on run.id = point.run
    order by began_unix_s, run.id";

/// A row of [`SERIES`], by number of the column.
pub(super) fn line<E>(
    text: impl Fn(usize) -> Result<String, E>,
    whole: impl Fn(usize) -> Result<i64, E>,
    number: impl Fn(usize) -> Result<f64, E>,
) -> Result<Line, E> {
    let series = MetricSeries {
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
        ratio: Some(number(17)?).filter(|ratio| *ratio > 0.0 && is_credible(*ratio)),
    };
    Ok((series, point))
}

/// `0:101.5 1:99.25`, from which the same numbers come back.
pub(super) fn values_text(values: &[(u32, f64)]) -> String {
    values.iter().map(|(round, value)| format!("{round}:{value}")).collect::<Vec<_>>().join(" ")
}

pub(super) fn values_of(text: &str) -> Vec<(u32, f64)> {
    let value = |word: &str| {
        let (round, value) = word.split_once(':')?;
        Some((round.parse().ok()?, value.parse().ok().filter(|value| is_credible(*value))?))
    };
    // No run has more; to compare as many as a file can hold, round by round, takes minutes.
    text.split_whitespace().filter_map(value).take(TRIALS_MAX).collect()
}

pub(super) fn better_word(better: Option<Better>) -> &'static str {
    match better {
        Some(Better::Lower) => "lower",
        Some(Better::Higher) => "higher",
        None => "",
    }
}

pub(super) fn better_of(word: &str) -> Option<Better> {
    match word {
        "lower" => Some(Better::Lower),
        "higher" => Some(Better::Higher),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_trial_can_have_are_left_out() {
        assert_eq!(values_of("0:101.5 1:99.25 junk 2: :3 -1:4"), [(0, 101.5), (1, 99.25)]);
        assert_eq!(values_of(&"0:1 ".repeat(50_000)).len(), TRIALS_MAX);
        assert_eq!(values_of("0:nan 1:inf 2:-inf 3:1e300 4:7"), [(4, 7.0)]);
        let point = |ratio: f64| {
            let text = |_| Ok::<_, ()>(String::new());
            let number = |column| Ok(if column == 17 { ratio } else { 1.0 });
            line(text, |_| Ok(1), number).expect("a row").1
        };
        let ratios = [0.5, f64::INFINITY, f64::NAN, 1e300, -1.0].map(|ratio| point(ratio).ratio);
        assert_eq!(ratios, [Some(0.5), None, None, None, None]);
    }
}
