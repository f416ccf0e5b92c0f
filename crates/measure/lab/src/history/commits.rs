//! Comparisons of two commits of a history: the same cells on the same machine.
//!
//! There are no pairs between two runs, as in [`against`](crate::analyze::against). Of one run each, the trials are
//! compared. The state of a machine on a day is common to the trials of a run, so that trials of several runs are not
//! independent: where both commits have enough runs to show a difference, a run's median is the unit, and otherwise
//! the newest run of each is taken.

use serde::Serialize;

use crate::analyze::against::{Facing, can_show, metric};
use crate::analyze::comparison::Metric;
use crate::history::{MetricSeries, Point};

/// At most this many names of commits are listed.
const SHOWN_MAX: usize = 5;

/// Two commits in an experiment on a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Between {
    /// The question of the experiment.
    pub experiment: String,
    /// The host's name.
    pub machine: String,
    /// The earlier one.
    pub old: Side,
    /// The later one.
    pub new: Side,
    /// The unit of comparison.
    pub unit: Unit,
    /// The metric that decides first, then the others.
    pub metrics: Vec<Metric>,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The name in the history.
    pub commit: String,
    /// The number of its runs.
    pub runs: usize,
    /// The kernel of the newest.
    pub kernel: String,
}

/// The meaning of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A trial, of the newest run of each.
    Trial,
    /// A run's median.
    Run,
}

/// Errors of a comparison of two commits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No commit has that name.
    #[error("find {0} in the history: no run of it is kept")]
    Unknown(String),
    /// Several names begin so.
    #[error("find {0} in the history: it may be {1}")]
    Ambiguous(String, String),
    /// Both names mean one commit.
    #[error("compare {0} with itself")]
    Same(String),
    /// Each has been measured, but not in the same way.
    #[error("compare {0} with {1}: on no machine are there runs of both that have a cell in common")]
    Apart(String, String),
}

/// Compares two commits, each given by its name or the beginning of it, on every machine where both have runs.
pub fn between(series: &[MetricSeries], old: &str, new: &str) -> Result<Vec<Between>, Error> {
    let (old, new) = (known(series, old)?, known(series, new)?);
    if old == new {
        return Err(Error::Same(old.to_owned()));
    }
    let place = |series: &MetricSeries| (series.experiment.clone(), series.machine.clone());
    let found: Vec<Between> = series
        .chunk_by(|a, b| place(a) == place(b))
        .filter_map(|series| on_a_machine(series, old, new))
        .collect();
    if found.is_empty() { Err(Error::Apart(old.to_owned(), new.to_owned())) } else { Ok(found) }
}

/// The commit of this name.
fn known<'s>(series: &'s [MetricSeries], name: &str) -> Result<&'s str, Error> {
    let commits = || series.iter().flat_map(|series| &series.points).map(|point| point.commit.as_str());
    if let Some(commit) = commits().find(|commit| *commit == name) {
        return Ok(commit);
    }
    let found: std::collections::BTreeSet<&str> =
        commits().filter(|commit| commit.starts_with(name)).collect();
    let mut found = found.into_iter();
    match (found.next(), found.len()) {
        (None, _) => Err(Error::Unknown(name.to_owned())),
        (Some(commit), 0) => Ok(commit),
        (Some(commit), more) => {
            let shown: Vec<&str> = std::iter::once(commit).chain(found.take(SHOWN_MAX - 1)).collect();
            let rest = if more < SHOWN_MAX { "" } else { ", …" };
            Err(Error::Ambiguous(name.to_owned(), shown.join(", ") + rest))
        }
    }
}

/// All of `series` are of one experiment on one machine.
fn on_a_machine(series: &[MetricSeries], old: &str, new: &str) -> Option<Between> {
    // The cells and metrics that both have are compared.
    let in_both: Vec<(&MetricSeries, [Vec<&Point>; 2])> = series
        .iter()
        .map(|series| (series, [old, new].map(|commit| points(series, commit))))
        .filter(|(_, sides)| sides.iter().all(|points| !points.is_empty()))
        .collect();
    let (first, newest) = in_both.first()?;
    let runs = |side: usize| in_both.iter().map(|(_, sides)| sides[side].len()).min().unwrap_or(0);
    let cells = in_both.iter().filter(|(series, _)| series.metric == first.metric).count();
    let unit = if can_show(runs(0), runs(1), cells) { Unit::Run } else { Unit::Trial };
    let side = |side: usize, commit: &str| Side {
        commit: commit.to_owned(),
        runs: runs(side),
        kernel: newest[side].last().map_or(String::new(), |point| point.kernel.clone()),
    };
    Some(Between {
        experiment: series[0].experiment.clone(),
        machine: series[0].machine.clone(),
        old: side(0, old),
        new: side(1, new),
        unit,
        metrics: in_both
            .chunk_by(|(a, _), (b, _)| a.metric == b.metric)
            .map(|cells| of_metric(cells, [old, new], unit))
            .collect(),
    })
}

fn points<'s>(series: &'s MetricSeries, commit: &str) -> Vec<&'s Point> {
    series.points.iter().filter(|point| point.commit == commit).collect()
}

fn of_metric(cells: &[(&MetricSeries, [Vec<&Point>; 2])], names: [&str; 2], unit: Unit) -> Metric {
    let (first, _) = &cells[0];
    let facing = |(series, sides): &(&MetricSeries, [Vec<&Point>; 2])| Facing {
        treatment: series.cell.clone(),
        condition: String::new(),
        sides: sides.each_ref().map(|points| values(points, unit)),
    };
    let mut metric = metric(&first.metric, first.better, first.matters, names, cells.iter().map(facing));
    // For runs whose trials were not stored, the median was.
    let newest = cells.iter().flat_map(|(_, sides)| sides.iter().map(|points| points.last()));
    for (standing, newest) in metric.standings.iter_mut().zip(newest) {
        standing.median = standing.median.or(newest.map(|point| point.median));
    }
    metric
}

fn values(points: &[&Point], unit: Unit) -> Vec<(u32, f64)> {
    match unit {
        Unit::Trial => points.last().map_or(Vec::new(), |newest| newest.values.clone()),
        Unit::Run => (0..).zip(points).map(|(run, point)| (run, point.median.middle)).collect(),
    }
}
