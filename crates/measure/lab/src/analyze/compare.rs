//! Comparisons within a run: every cell against the baseline under the same conditions.
//!
//! Pure. The unit is the trial. A cell's trial and the baseline's trial of the same round are a pair; the logarithms
//! of their ratios give estimate, interval and p, all of one statistic ([`Shift`]). Trials with doubts are left out,
//! and listed.

use stdx::statistics::Shift;

use super::aims::aims;
use super::comparison::{CellStanding, Comparison, Metric, Noted};
use super::effects::effects;
use super::efficiency::efficiencies;
use super::verdict::{Interval, Verdict};
use crate::experiment::design::{Cell, Design};
use crate::experiment::{Experiment, Subject};
use crate::record::TrialRecord;
use crate::record::quantity;
use crate::record::quantity::Better;
use crate::run::results::Results;

/// Compares the cells of a run.
pub fn compare(results: &Results) -> Comparison {
    let experiment = &results.experiment;
    let design = Design::of(experiment);
    let valid: Vec<&TrialRecord> = results.valid().collect();
    let measure = &experiment.measure;
    let primary = metric(experiment, &design, &valid, &measure.primary, Some(measure.better));
    let others = measure.also.iter().filter(|name| **name != measure.primary);
    let others = others.map(|name| metric(experiment, &design, &valid, name, quantity::better(name)));
    let metrics: Vec<Metric> = std::iter::once(primary).chain(others).collect();
    let mut rounds: Vec<u32> = valid.iter().map(|record| record.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    Comparison {
        question: experiment.question.clone(),
        trials: valid.len(),
        rounds: rounds.len(),
        left_out: results.records.iter().filter_map(Noted::doubts).collect(),
        remarked: results.records.iter().filter_map(Noted::remarks).collect(),
        aims: aims(experiment, &design, &metrics),
        metrics,
        efficiencies: efficiencies(results),
    }
}

/// One metric of a run, whether its experiment names it or not.
pub fn compare_metric(results: &Results, name: &str) -> Metric {
    let valid: Vec<&TrialRecord> = results.valid().collect();
    let experiment = &results.experiment;
    metric(experiment, &Design::of(experiment), &valid, name, quantity::better(name))
}

fn metric(
    experiment: &Experiment,
    design: &Design,
    records: &[&TrialRecord],
    name: &str,
    better: Option<Better>,
) -> Metric {
    let values = |cell: &Cell| values(records, cell, name);
    let band = experiment.measure.equivalent;
    let mut standings: Vec<CellStanding> = Vec::new();
    let mut compared: Vec<(usize, Vec<f64>)> = Vec::new();
    for cell in &design.cells {
        let own = values(cell);
        let baseline = design.baseline(cell);
        let is_baseline = baseline == cell;
        let logs = if is_baseline { Vec::new() } else { log_ratios(&own, &values(baseline)) };
        let plain: Vec<f64> = own.iter().map(|(_, value)| *value).collect();
        standings.push(CellStanding {
            treatment: cell.treatment.clone(),
            condition: cell.condition.clone(),
            median: Interval::of(&plain),
            values: own,
            ratio: None,
            pairs: logs.len(),
            is_of_equals: !is_baseline
                && cell.levels == baseline.levels
                && equals(experiment, &cell.subject, &baseline.subject),
            p: 1.0,
            is_within_equals: false,
            verdict: if is_baseline { Verdict::Baseline } else { Verdict::NotCompared },
        });
        if !logs.is_empty() {
            compared.push((standings.len() - 1, logs));
        }
    }
    let comparisons = compared.len();
    let equals = difference_of_equals(experiment, design, &values, comparisons);
    for (index, logs) in &compared {
        let shift = Shift::of_pairs(logs, comparisons).expect("only pairs are judged");
        let standing = &mut standings[*index];
        (standing.ratio, standing.p) = (Some(Interval::from(shift).exp()), shift.p);
        standing.verdict = Verdict::of(&shift, band, better);
        // What equals differ by comes from these themselves: it does not excuse their own differences.
        let may_be_host = |ratio: Interval| equals.is_some_and(|equals| ratio.is_in(equals));
        standing.is_within_equals =
            standing.verdict.is_shown() && !standing.is_of_equals && standing.ratio.is_some_and(may_be_host);
    }
    let effects = effects(experiment, records, name, better);
    Metric { name: name.to_owned(), better, band, equals, standings, effects }
}

/// The values of a cell by round; of a round that was repeated, the last.
pub(crate) fn values(records: &[&TrialRecord], cell: &Cell, metric: &str) -> Vec<(u32, f64)> {
    let own = records.iter().filter(|record| cell.holds(record));
    let found = own.filter_map(|record| Some((record.round, record.figure(metric)?)));
    found.collect::<std::collections::BTreeMap<u32, f64>>().into_iter().collect()
}

/// The logarithms of the ratios of two cells, by round. A value of zero has none: then nothing is compared, because to
/// leave out just those rounds would choose among them.
fn log_ratios(values: &[(u32, f64)], baseline: &[(u32, f64)]) -> Vec<f64> {
    if values.iter().chain(baseline).any(|(_, value)| *value <= 0.0) {
        return Vec::new();
    }
    let pair = |(round, value): &(u32, f64)| {
        let (_, base) = baseline.iter().find(|(other, _)| other == round)?;
        // Not the logarithm of the ratio: exchanging the two must change the sign and nothing else.
        Some(value.ln() - base.ln())
    };
    values.iter().filter_map(pair).collect()
}

/// Noise of this host: the ratios of subjects that differ by nothing but their names, to the one that comes first. It is
/// the interval as it is: one trial of one of them that was slow widens it on that side only.
fn difference_of_equals(
    experiment: &Experiment,
    design: &Design,
    values: &impl Fn(&Cell) -> Vec<(u32, f64)>,
    comparisons: usize,
) -> Option<Interval> {
    let mut widest: Option<Interval> = None;
    for (index, cell) in design.cells.iter().enumerate() {
        let is_equal =
            |other: &&Cell| other.levels == cell.levels && equals(experiment, &cell.subject, &other.subject);
        for equal in design.cells[..index].iter().filter(is_equal) {
            let shift = Shift::of_pairs(&log_ratios(&values(cell), &values(equal)), comparisons);
            // With too few pairs for an interval, nothing follows about the host.
            let Some(shift) = shift.filter(Shift::is_bounded) else { continue };
            let ratio = Interval::from(shift).exp();
            let both = |other: Interval| Interval {
                low: ratio.low.min(other.low),
                high: ratio.high.max(other.high),
                ..ratio
            };
            widest = Some(widest.map_or(ratio, both));
        }
    }
    widest
}

/// Whether two subjects differ by nothing but their names and ports.
fn equals(experiment: &Experiment, one: &str, other: &str) -> bool {
    let nameless = |name: &str| {
        let subject = experiment.subjects.iter().find(|subject| subject.name == name)?;
        Some(Subject { name: String::new(), port: None, pinned: false, ..subject.clone() })
    };
    one != other && nameless(one) == nameless(other)
}
