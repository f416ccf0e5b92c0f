//! Regression gate: suspicions that the newest runs of a history are worse for good, which stop a commit.
//!
//! A suspicion is a [change point](super::change_point) for the worse that is among the newest runs, large enough to
//! matter, more than a swing of a history whose runs resemble their neighbours, and not reverted since: a later
//! change for the better may have taken back a part of it only. It becomes an alarm when the experiment, carried out
//! once more, has the new level too: a bad week of the host is over by then.
//!
//! Where a subject is pinned, the ratio to it in the same run is judged, so that a host that becomes slower, or is
//! another one under the same name, raises no alarm.

use crate::analyze::verdict::Verdict;
use crate::history::autoregression::beyond_swings;
use crate::history::change_point::{ChangePoint, Detector, judged};
use crate::history::{Entry, MetricSeries, Point};
use crate::record::profile::CpuProfile;
use std::collections::BTreeMap;

/// A change point is new while it is among this many newest runs; older ones have been reported.
const NEWEST_RUNS: usize = 15;

/// Probability that a history without a change, checked once, gives a suspicion at a given place, over all of its
/// series together. Choosing the best place, and checking after every run, makes it higher: the tests measure the
/// real frequency.
const CHANCE: f64 = 0.000_001;

/// This many runs are used to estimate the swings of a series: older ones may be from different conditions, and each
/// costs time.
const SWINGS_RUNS: usize = 100;

/// A series that seems to have become worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspicion {
    /// The series.
    pub series: MetricSeries,
    /// The change, and how much is left of it: `after` is the newest level.
    pub change: ChangePoint,
}

/// Reasons why a run cannot confirm a suspicion: it adds nothing to the history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRerun {
    /// It is one of the runs that are suspected, or were before.
    #[error("it is in the history already, as {0}")]
    Kept(String),
    /// Its measurement began before the series became worse.
    #[error("it did not begin after the run of {0}, which it is to confirm")]
    Early(String),
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

    /// Whether a rerun has the new level: its ratio or median lies beyond the middle of both. `None`: it has no trials that
    /// are defined in the same way, or is of another machine.
    pub fn is_confirmed_by(&self, machine: &str, rerun: &[Entry]) -> Option<bool> {
        let entry = self.series.entry(rerun).filter(|_| self.series.machine == machine)?;
        let level = if self.series.is_relative() { entry.ratio? } else { entry.median.middle };
        let (before, after) = (self.change.before, self.change.after);
        Some((level - before) / (after - before) > 0.5)
    }

    /// Whether a run of that machine that began then is a rerun, if it has trials that are defined in the same way: one that
    /// is not kept yet and began after the suspected run.
    pub fn is_rerun(&self, machine: &str, run: &[Entry], began_unix_s: u64) -> Result<(), NoRerun> {
        if !self.series.is_of(machine, run) {
            return Ok(());
        }
        // A machine carries out one run at a time.
        if let Some(kept) = self.series.points.iter().find(|point| point.began_unix_s == began_unix_s) {
            return Err(NoRerun::Kept(kept.commit.clone()));
        }
        match began_unix_s > self.culprit().began_unix_s {
            true => Ok(()),
            false => Err(NoRerun::Early(self.culprit().commit.clone())),
        }
    }
}

/// The profiles on both sides of a suspicion: of the newest run before it that has one, and the first since. Runs
/// where perf could not sample are used if no other has a profile.
pub fn sides<'p>(
    suspicion: &Suspicion,
    profiles: &'p BTreeMap<usize, CpuProfile>,
) -> [Option<(usize, &'p CpuProfile)>; 2] {
    let at = suspicion.change.index;
    let place = |(place, profile): (&usize, &'p CpuProfile)| (*place, profile);
    let is_sampled = |(_, profile): &(&usize, &CpuProfile)| profile.why_not.is_none();
    let (mut before, mut since) = (profiles.range(..at).rev(), profiles.range(at..));
    let nearest = [before.clone().next(), since.clone().next()];
    let sampled = [before.find(is_sampled), since.find(is_sampled)];
    [sampled[0].or(nearest[0]).map(place), sampled[1].or(nearest[1]).map(place)]
}

/// With fewer runs than this nothing can be found: both levels have to last.
pub fn runs_min() -> usize {
    2 * Detector::default().runs_min
}

/// The lasting changes of a series that are larger than its swings.
fn changes(levels: &[f64], matters: f64, p_max: f64) -> Vec<ChangePoint> {
    let proposed = Detector { change_min: matters, ..Detector::default() }.change_points(levels);
    let from = levels.len().saturating_sub(SWINGS_RUNS);
    let places: Vec<usize> = proposed.iter().filter(|it| it.index > from).map(|it| it.index - from).collect();
    let newest = &levels[from..];
    let found = beyond_swings(newest, &places, p_max);
    let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
    let judged = judged(&places, newest).into_iter().zip(found);
    judged.map(|(change, (_, p))| ChangePoint { index: change.index + from, p, ..change }).collect()
}

/// Series of the deciding metrics that have become worse lately, the worst first.
pub fn suspicions(series: &[MetricSeries]) -> Vec<Suspicion> {
    let deciding = || series.iter().filter(|series| series.is_primary && !series.is_pinned());
    let count = deciding().count().max(1);
    let worse = |series: &MetricSeries| {
        let points = changes(&series.levels(), series.matters, CHANCE / count as f64);
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
