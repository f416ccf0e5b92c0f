//! Comparisons within a run: every cell against the baseline under the same conditions.
//!
//! Pure. The unit is the trial. A cell's trial and the baseline's trial of the same round are a pair; the logarithms of
//! their ratios give estimate, interval and p, all of one statistic ([`Shift`]). Trials with doubts are left out, and
//! said to be.

use serde::Serialize;
use stdx::statistics::{ALPHA, Shift, median, median_interval};

use crate::design::{Cell, Design};
use crate::effects::{Effect, effects};
use crate::efficiency::{Efficiency, efficiencies};
use crate::experiment::{Better, Experiment, Subject};
use crate::quantity;
use crate::record::Record;
use crate::results::Results;

/// Everything that is said about a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was asked.
    pub question: String,
    /// Trials that count.
    pub trials: usize,
    /// Rounds that have a trial that counts.
    pub rounds: usize,
    /// Trials that do not count, and why.
    pub left_out: Vec<Noted>,
    /// Trials that count, with something to know besides.
    pub remarked: Vec<Noted>,
    /// The metric that decides first, then the others.
    pub metrics: Vec<Metric>,
    /// Requests per percentage point of CPU, where there are several rates.
    pub efficiencies: Vec<Efficiency>,
}

/// A trial about which there is something to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noted {
    /// Its place in the order of all trials.
    pub place: u32,
    /// Its cell's name.
    pub cell: String,
    /// Why it does not count, or what to know besides.
    pub notes: Vec<String>,
}

impl Noted {
    pub(crate) fn doubts(record: &Record) -> Option<Noted> {
        Noted::some(record, &record.doubts)
    }

    pub(crate) fn remarks(record: &Record) -> Option<Noted> {
        Noted::some(record, &record.remarks).filter(|_| record.is_valid())
    }

    fn some(record: &Record, notes: &[String]) -> Option<Noted> {
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
    /// Relative differences below this do not matter.
    pub band: f64,
    /// How far equal subjects, compared with each other, are apart: no difference is shown within. 0: there are none.
    pub noise: f64,
    /// In the order of the design.
    pub standings: Vec<Standing>,
    /// What each factor does, where several vary.
    pub effects: Vec<Effect>,
}

/// A cell, compared with its baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// What is compared.
    pub treatment: String,
    /// Under which conditions.
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
    /// How often chance alone gives as much in any comparison of the metric. At most 0.05 exactly when the interval of
    /// the ratio does not hold 1.
    pub p: f64,
    /// What follows.
    pub verdict: Verdict,
}

impl Standing {
    /// Treatment and condition, for people.
    pub fn cell(&self) -> String {
        let parts = [&*self.treatment, &*self.condition].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// A value and where it lies with 95 % confidence. So few values may give no interval: then it has no bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The best guess.
    pub middle: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The median of values, if there are any.
    pub fn of(values: &[f64]) -> Option<Interval> {
        if values.is_empty() {
            return None;
        }
        let (low, high) = median_interval(values, SEED);
        Some(Interval { low, middle: median(values), high })
    }

    /// The same, of logarithms, back in their unit.
    pub fn exp(self) -> Interval {
        Interval { low: self.low.exp(), middle: self.middle.exp(), high: self.high.exp() }
    }

    /// The same in another unit.
    pub fn times(self, factor: f64) -> Interval {
        Interval { low: self.low * factor, middle: self.middle * factor, high: self.high * factor }
    }

    /// Whether values were enough to give one.
    pub fn is_bounded(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// The same, of logarithms, is nowhere farther from nothing than this.
    pub fn is_within(self, log: f64) -> bool {
        self.low >= -log && self.high <= log
    }
}

impl From<Shift> for Interval {
    fn from(shift: Shift) -> Interval {
        Interval { low: shift.low, middle: shift.middle, high: shift.high }
    }
}

/// What records say about a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// What the others are compared with.
    Baseline,
    /// A difference was shown, for the better.
    Better,
    /// A difference was shown, for the worse.
    Worse,
    /// A difference was shown, of a metric whose good values are not known.
    Different,
    /// Any difference is smaller than what matters.
    Equivalent,
    /// Chance may have made all that was seen.
    NoDifferenceShown,
    /// The same, and even if the two were worlds apart, so few pairs could not show it.
    TooFewPairs,
    /// There are no pairs with values above zero.
    NotCompared,
}

impl Verdict {
    /// Of a shift of logarithms: differences within `band` do not matter, and `noise` is what equals differ by.
    pub(crate) fn of(shift: &Shift, band: f64, noise: f64, better: Option<Better>) -> Verdict {
        let interval = Interval::from(*shift);
        if interval.is_within(band.ln_1p()) {
            return Verdict::Equivalent;
        }
        if shift.p_min > ALPHA {
            return Verdict::TooFewPairs;
        }
        if shift.p > ALPHA || interval.is_within(noise.ln_1p()) {
            return Verdict::NoDifferenceShown;
        }
        match better {
            None => Verdict::Different,
            Some(better) if (shift.high < 0.0) == (better == Better::Lower) => Verdict::Better,
            Some(_) => Verdict::Worse,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Baseline => "baseline",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::Equivalent => "equivalent",
            Verdict::NoDifferenceShown => "no difference shown",
            Verdict::TooFewPairs => "too few pairs",
            Verdict::NotCompared => "not compared",
        }
    }
}

/// The same records give the same intervals.
pub(crate) const SEED: u64 = 1;

/// Compares the cells of a run.
pub fn compare(results: &Results) -> Comparison {
    let experiment = &results.experiment;
    let design = Design::of(experiment);
    let valid: Vec<&Record> = results.valid().collect();
    let measure = &experiment.measure;
    let primary = metric(experiment, &design, &valid, &measure.primary, Some(measure.better));
    let others = measure.also.iter().filter(|name| **name != measure.primary);
    let others = others.map(|name| metric(experiment, &design, &valid, name, quantity::better(name)));
    let mut rounds: Vec<u32> = valid.iter().map(|record| record.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    Comparison {
        question: experiment.question.clone(),
        trials: valid.len(),
        rounds: rounds.len(),
        left_out: results.records.iter().filter_map(Noted::doubts).collect(),
        remarked: results.records.iter().filter_map(Noted::remarks).collect(),
        metrics: std::iter::once(primary).chain(others).collect(),
        efficiencies: efficiencies(results),
    }
}

/// One metric of a run, whether its experiment names it or not.
pub fn compare_metric(results: &Results, name: &str) -> Metric {
    let valid: Vec<&Record> = results.valid().collect();
    let experiment = &results.experiment;
    metric(experiment, &Design::of(experiment), &valid, name, quantity::better(name))
}

fn metric(
    experiment: &Experiment,
    design: &Design,
    records: &[&Record],
    name: &str,
    better: Option<Better>,
) -> Metric {
    let values = |cell: &Cell| values(records, cell, name);
    let band = experiment.measure.equivalent;
    let mut standings: Vec<Standing> = Vec::new();
    let mut compared: Vec<(usize, Vec<f64>)> = Vec::new();
    for cell in &design.cells {
        let own = values(cell);
        let baseline = design.baseline(cell);
        let is_baseline = baseline == cell;
        let logs = if is_baseline { Vec::new() } else { log_ratios(&own, &values(baseline)) };
        let plain: Vec<f64> = own.iter().map(|(_, value)| *value).collect();
        standings.push(Standing {
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
            verdict: if is_baseline { Verdict::Baseline } else { Verdict::NotCompared },
        });
        if !logs.is_empty() {
            compared.push((standings.len() - 1, logs));
        }
    }
    let comparisons = compared.len();
    let noise = noise_of_equals(experiment, design, &values, comparisons);
    for (index, logs) in &compared {
        let shift = Shift::of_pairs(logs, comparisons).expect("only pairs are judged");
        let standing = &mut standings[*index];
        (standing.ratio, standing.p) = (Some(Interval::from(shift).exp()), shift.p);
        // Equals have made the noise; it does not excuse themselves.
        let noise = if standing.is_of_equals { 0.0 } else { noise };
        standing.verdict = Verdict::of(&shift, band, noise, better);
    }
    let effects = effects(experiment, records, name, better);
    Metric { name: name.to_owned(), better, band, noise, standings, effects }
}

/// The values of a cell by round; of a round that was repeated, the last.
pub(crate) fn values(records: &[&Record], cell: &Cell, metric: &str) -> Vec<(u32, f64)> {
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
        // Not the logarithm of the ratio: exchanging the two shall change the sign and nothing else.
        Some(value.ln() - base.ln())
    };
    values.iter().filter_map(pair).collect()
}

/// How far apart subjects are that differ by nothing but their names: what this host makes of nothing.
fn noise_of_equals(
    experiment: &Experiment,
    design: &Design,
    values: &impl Fn(&Cell) -> Vec<(u32, f64)>,
    comparisons: usize,
) -> f64 {
    let mut farthest: f64 = 0.0;
    for (index, cell) in design.cells.iter().enumerate() {
        let is_equal =
            |other: &&Cell| other.levels == cell.levels && equals(experiment, &cell.subject, &other.subject);
        for equal in design.cells[..index].iter().filter(is_equal) {
            let shift = Shift::of_pairs(&log_ratios(&values(cell), &values(equal)), comparisons);
            // So few pairs that they have no interval say nothing about the host.
            let ends = shift.filter(Shift::is_bounded).map_or(0.0, |shift| shift.high.max(-shift.low));
            farthest = farthest.max(ends.exp_m1());
        }
    }
    farthest
}

/// Whether two subjects differ by nothing but their names and ports.
fn equals(experiment: &Experiment, one: &str, other: &str) -> bool {
    let nameless = |name: &str| {
        let subject = experiment.subjects.iter().find(|subject| subject.name == name)?;
        Some(Subject { name: String::new(), port: None, pinned: false, ..subject.clone() })
    };
    one != other && nameless(one) == nameless(other)
}
