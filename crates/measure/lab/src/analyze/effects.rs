//! Effects of factors, and interactions: whether two factors together do more than each by itself.
//!
//! For designs with every combination of levels. The effect of a level is its ratio to the first level of its factor, as
//! the mean over all combinations of the others; an interaction is by how much that ratio changes when another factor
//! leaves its first level. Both are means of differences between logarithms of cells of one round: the round's common
//! part cancels out, so the round is a block and gives one value. Combinations that a round lacks are left out of its
//! mean, because one doubtful trial of many must not cost a whole round; a round with less than half of them is left
//! out.

use std::collections::BTreeMap;

use serde::Serialize;
use stdx::statistics::Shift;

use crate::analyze::verdict::{Interval, Verdict};
use crate::experiment::Experiment;
use crate::experiment::contrast::{Contrast, Factor, Round, SUBJECT, cells, contrasts, factors};
use crate::record::TrialRecord;
use crate::record::quantity::Better;

/// The effect of a level, or of two levels together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactorEffect {
    /// The level, or both: `kernel=tuned`, `kernel=tuned × allocator=jemalloc`.
    pub name: String,
    /// Whether it is an interaction of two factors.
    pub is_interaction: bool,
    /// The ratio.
    pub ratio: Interval,
    /// Rounds that have at least half of the combinations.
    pub rounds: usize,
    /// The probability that chance alone gives as much in any of the effects on the metric.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// All effects on a metric; none if fewer than two factors vary, or none are wanted.
pub(crate) fn effects(
    experiment: &Experiment,
    records: &[&TrialRecord],
    metric: &str,
    better: Option<Better>,
) -> Vec<FactorEffect> {
    let factors = factors(experiment);
    if factors.len() < 2 || !experiment.measure.effects {
        return Vec::new();
    }
    let cells = cells(experiment, &factors);
    let rounds = rounds(&factors, &cells, records, metric);
    let with_values = |contrast: Contrast| {
        let logs: Vec<f64> = rounds.iter().filter_map(|round| contrast.value(round)).collect();
        (!logs.is_empty()).then_some((contrast, logs))
    };
    let (contrasts, logs): (Vec<_>, Vec<_>) =
        contrasts(&factors, &cells).into_iter().filter_map(with_values).unzip();
    let comparisons = contrasts.len();
    let effect = |(contrast, logs): (Contrast, Vec<f64>)| {
        let shift = Shift::of_pairs(&logs, comparisons).expect("there is a round");
        FactorEffect {
            name: contrast.name,
            is_interaction: contrast.is_interaction,
            ratio: Interval::from(shift).exp(),
            rounds: logs.len(),
            p: shift.p,
            verdict: Verdict::of(&shift, experiment.measure.equivalent, better),
        }
    };
    contrasts.into_iter().zip(logs).map(effect).collect()
}

/// The logarithms of all cells, by round. A value of zero has none: then there are no rounds, because leaving out
/// just those cells would select among them.
fn rounds(factors: &[Factor], cells: &[Vec<usize>], records: &[&TrialRecord], metric: &str) -> Vec<Round> {
    let mut rounds: BTreeMap<u32, Round> = BTreeMap::new();
    for record in records {
        let place = factors.iter().map(|factor| {
            let level = match record.levels.get(&factor.name) {
                Some(level) => level,
                None if factor.name == SUBJECT => &record.subject,
                None => return None,
            };
            factor.levels.iter().position(|other| other == level)
        });
        let place: Option<Vec<usize>> = place.collect();
        let cell = place.and_then(|place| cells.iter().position(|cell| *cell == place));
        if let Some((cell, value)) = cell.zip(record.figure(metric)) {
            if value <= 0.0 {
                return Vec::new();
            }
            rounds.entry(record.round).or_insert_with(|| vec![None; cells.len()])[cell] = Some(value.ln());
        }
    }
    rounds.into_values().collect()
}
