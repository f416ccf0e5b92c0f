//! Results of a comparison: metrics, the cells of each with their verdicts, and what was left out.

use super::aims::AimStanding;
use super::effects::FactorEffect;
use super::efficiency::Efficiency;
use super::verdict::{Interval, Verdict};
use crate::record::TrialRecord;
use crate::record::quantity::Better;
use serde::Serialize;

/// Everything that a report says about a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The experiment's question.
    pub question: String,
    /// Trials that count.
    pub trials: usize,
    /// Rounds that have a trial that counts.
    pub rounds: usize,
    /// Trials that do not count, and why.
    pub left_out: Vec<Noted>,
    /// Trials that count, with a remark.
    pub remarked: Vec<Noted>,
    /// The metric that decides first, then the others.
    pub metrics: Vec<Metric>,
    /// What the experiment aims at.
    pub aims: Vec<AimStanding>,
    /// Requests per percentage point of CPU, where there are several rates.
    pub efficiencies: Vec<Efficiency>,
}

/// A trial with a doubt or a remark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noted {
    /// Its place in the order of all trials.
    pub place: u32,
    /// Its cell's name.
    pub cell: String,
    /// The doubt or the remark.
    pub notes: Vec<String>,
}

impl Noted {
    pub(crate) fn doubts(record: &TrialRecord) -> Option<Noted> {
        Noted::some(record, &record.doubts)
    }

    pub(crate) fn remarks(record: &TrialRecord) -> Option<Noted> {
        Noted::some(record, &record.remarks).filter(|_| record.is_valid())
    }

    fn some(record: &TrialRecord, notes: &[String]) -> Option<Noted> {
        let noted = || Noted { place: record.place, cell: record.cell(), notes: notes.to_vec() };
        (!notes.is_empty()).then(noted)
    }
}

/// A metric in all cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Which values are good, if that is known.
    pub better: Option<Better>,
    /// Relative differences below this are insignificant in practice.
    pub band: f64,
    /// The ratios of equal subjects to each other that this run does not exclude: a difference in there may be the
    /// host's. `None`: there are none, or too few pairs.
    pub equals: Option<Interval>,
    /// In the order of the design.
    pub standings: Vec<CellStanding>,
    /// The effect of each factor, where several vary.
    pub effects: Vec<FactorEffect>,
}

/// A cell, compared with its baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellStanding {
    /// The treatment.
    pub treatment: String,
    /// The conditions.
    pub condition: String,
    /// The value of each trial that counts, with its round.
    pub values: Vec<(u32, f64)>,
    /// Their median and the interval that holds it with 95 % confidence; `None` without values.
    pub median: Option<Interval>,
    /// The ratio to the baseline, over pairs, with an interval that holds it together with those of all other cells of
    /// the metric with 95 % confidence; `None` for the baseline itself and without pairs.
    pub ratio: Option<Interval>,
    /// Rounds in which both count.
    pub pairs: usize,
    /// Whether it differs from the baseline by nothing but its name, so that any difference shown is a false alarm.
    pub is_of_equals: bool,
    /// The probability that chance alone gives as much in any comparison of the metric. At most 0.05 exactly when the
    /// interval of the ratio does not contain 1.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// A difference is shown, and equals may differ by as much in this run.
    pub is_within_equals: bool,
}

impl CellStanding {
    /// Treatment and condition, for people.
    pub fn cell(&self) -> String {
        let parts = [&*self.treatment, &*self.condition].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }
}
