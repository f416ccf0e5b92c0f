//! Whether the newest runs of a history are worse for good: what stops a commit.
//!
//! A suspicion is a [change point](crate::change_point) for the worse that is among the newest runs, large enough to
//! matter, and not made good since: a later change for the better may take back a part of it only. It becomes an alarm
//! when the experiment, carried out once more, has the new level too: a bad week of the host is over by then.

use crate::change_point::{ChangePoint, Detector};
use crate::compare::{Comparison, Verdict};
use crate::history::{Point, Series};

/// A change point is new while it is among the last so many runs; somebody has seen the older ones.
const NEWEST_RUNS: usize = 15;

/// Chance that one look at a history without a change gives a suspicion, over all of its series together, as the split
/// test states it. Choosing the best place to split makes it more: the tests say how often it really is.
const CHANCE: f64 = 0.000_2;

/// A series that seems to have become worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspicion {
    /// Which series.
    pub series: Series,
    /// Where, and how much is left of it: `after` is the newest level.
    pub change: ChangePoint,
}

impl Suspicion {
    /// The first run of the new level.
    pub fn culprit(&self) -> &Point {
        &self.series.points[self.change.index]
    }

    /// The last run of the level before.
    pub fn last_good(&self) -> &Point {
        &self.series.points[self.change.index - 1]
    }

    /// Whether a rerun has the new level: its median lies beyond the middle of both. `None`: it is of another experiment
    /// or machine, or does not have that cell and metric.
    pub fn is_confirmed_by(&self, machine: &str, rerun: &Comparison) -> Option<bool> {
        if (&*self.series.experiment, &*self.series.machine) != (&*rerun.question, machine) {
            return None;
        }
        let metric = rerun.metrics.iter().find(|metric| metric.name == self.series.metric)?;
        let standing = metric.standings.iter().find(|standing| standing.cell() == self.series.cell)?;
        let (before, after) = (self.change.before, self.change.after);
        let reached = (standing.median?.middle - before) / (after - before);
        Some(reached > 0.5)
    }
}

/// Of fewer runs than this nothing can be seen: both levels have to last.
pub fn runs_min() -> usize {
    2 * Detector::default().runs_min
}

/// Series of the metrics that decide that have become worse lately, the worst first.
pub fn suspicions(series: &[Series]) -> Vec<Suspicion> {
    let deciding = || series.iter().filter(|series| series.is_primary);
    let count = deciding().count().max(1);
    let worse = |series: &Series| {
        let detector =
            Detector { p_max: CHANCE / count as f64, change_min: series.matters, ..Detector::default() };
        let points = detector.change_points(&series.medians());
        let level = points.last().map_or(f64::NAN, |newest| newest.after);
        let is_new = |change: &ChangePoint| change.index + NEWEST_RUNS >= series.points.len();
        let is_worse = |change: &ChangePoint| series.judge(change.before, change.after) == Verdict::Worse;
        let became_worse = points.into_iter().filter(|change| is_new(change) && is_worse(change));
        let left = became_worse.map(|change| ChangePoint { after: level, ..change });
        let lasting = left.filter(|left| is_worse(left) && left.magnitude() > series.matters);
        lasting.map(|change| Suspicion { series: series.clone(), change }).collect::<Vec<_>>()
    };
    let mut found: Vec<Suspicion> = deciding().flat_map(worse).collect();
    found.sort_by(|a, b| b.change.magnitude().total_cmp(&a.change.magnitude()));
    found
}
