//! Compute efficiency for the owner of a fleet: requests gained for each percentage point of the machine's CPU, as
//! long as latency does not rise.
//!
//! It needs the same treatment under several rates; the slope leaves out the load of the idle machine. The rate is
//! given, and the CPU load is measured, with noise: so the load is regressed on the rate, and the slope inverted. The
//! other way round the noise flattens the line, and more noise would seem to give fewer requests per point.
//! Rates from the knee on, where latency rises, are left out. Every round has a slope of its own, and these are the
//! values that are compared: the unit is the round.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use stdx::statistics::{Shift, median};

use crate::analyze::verdict::{Interval, Verdict};
use crate::experiment::design::{Cell, Design};
use crate::record::TrialRecord;
use crate::record::quantity::Better;
use crate::run::results::Results;

/// The slope of a treatment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Efficiency {
    /// The treatment.
    pub treatment: String,
    /// Trials that count, at rates below the knee.
    pub trials: usize,
    /// Rates below the knee, and all.
    pub rates: (usize, usize),
    /// The highest rate below the knee, in requests per second.
    pub up_to: f64,
    /// The least and the highest CPU load of the machine there, in percent.
    pub busy_percent: (f64, f64),
    /// Requests per second for each percentage point; `None` if too few rates are below the knee.
    pub slope: Option<Interval>,
    /// The ratio to the slope of the first treatment, over the rates that are below the knee of both.
    pub ratio: Option<Interval>,
    /// The probability that chance alone gives as much in any of the comparisons.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// This many rates give a slope.
const RATES_MIN: usize = 3;

/// Over fewer percentage points than this a slope is noise.
const SPAN_MIN: f64 = 5.0;

/// The knee is where latency is more than this many times the least at lower rates: a percentile of a queue doubles
/// when half of the free capacity is used, and noise makes less than that.
const KNEE: f64 = 2.0;

/// Latencies that show where the knee is, the best first.
const LATENCIES: [&str; 4] = ["p99_us", "p95_us", "p90_us", "mean_us"];

/// The slope of each treatment that has had several rates; none if no treatment has one.
pub fn efficiencies(results: &Results) -> Vec<Efficiency> {
    let warm_up_s = results.experiment.workload.warm_up_s;
    let ladders: Vec<Ladder> = treatments(&Design::of(&results.experiment))
        .into_iter()
        .filter(|(_, cells)| cells.len() >= RATES_MIN)
        .filter_map(|(name, cells)| Ladder::of(name, &cells, results, warm_up_s))
        .collect();
    let found = judged(&ladders, results.experiment.measure.equivalent);
    if found.iter().all(|it| it.slope.is_none()) { Vec::new() } else { found }
}

/// Cells that differ by their load alone. Where nothing but the load varies, all cells are one treatment.
fn treatments(design: &Design) -> Vec<(String, Vec<&Cell>)> {
    if design.load_is_the_question {
        let subject = design.cells.first().map(|cell| cell.subject.clone());
        return subject.into_iter().map(|subject| (subject, design.cells.iter().collect())).collect();
    }
    let cells = |name: &str| design.cells.iter().filter(|cell| cell.treatment == name).collect();
    design.treatment_names().into_iter().map(|name| (name.to_owned(), cells(name))).collect()
}

fn judged(ladders: &[Ladder], band: f64) -> Vec<Efficiency> {
    let compared: Vec<Vec<f64>> =
        ladders.iter().skip(1).map(|ladder| ladder.log_ratios(&ladders[0])).collect();
    let comparisons = compared.iter().filter(|logs| !logs.is_empty()).count();
    let efficiency = |(place, ladder): (usize, &Ladder)| {
        let logs = place.checked_sub(1).map_or(&[][..], |place| &compared[place]);
        let shift = Shift::of_pairs(logs, comparisons);
        let verdict = match (place, shift) {
            (0, _) => Verdict::Baseline,
            (_, None) => Verdict::NotCompared,
            (_, Some(shift)) => Verdict::of(&shift, band, Some(Better::Higher)),
        };
        let busy = || ladder.steps.iter().flat_map(|step| step.trials.values()).map(|trial| trial.busy);
        Efficiency {
            treatment: ladder.treatment.clone(),
            trials: busy().count(),
            rates: (ladder.steps.len(), ladder.rates),
            up_to: ladder.steps.last().map_or(0.0, |step| step.rate),
            busy_percent: (busy().fold(f64::INFINITY, f64::min), busy().fold(0.0, f64::max)),
            slope: ladder.slope(),
            ratio: shift.map(|shift| Interval::from(shift).exp()),
            p: shift.map_or(1.0, |shift| shift.p),
            verdict,
        }
    };
    ladders.iter().enumerate().map(efficiency).collect()
}

/// A treatment under rising rates, up to its knee.
struct Ladder {
    treatment: String,
    /// The number of all rates, those from the knee on included.
    rates: usize,
    steps: Vec<Step>,
}

/// A treatment under one load.
struct Step {
    condition: String,
    /// The median of its trials.
    rate: f64,
    latency: Option<f64>,
    /// By round.
    trials: BTreeMap<u32, Trial>,
}

#[derive(Clone, Copy)]
struct Trial {
    rate: f64,
    /// Of the machine, in percent.
    busy: f64,
}

impl Ladder {
    fn of(treatment: String, cells: &[&Cell], results: &Results, warm_up_s: f64) -> Option<Ladder> {
        let of_cell = |cell: &&Cell| {
            let own: Vec<&TrialRecord> = results.valid().filter(|record| cell.holds(record)).collect();
            Step::of(&cell.condition, &own, warm_up_s)
        };
        let mut steps: Vec<Step> = cells.iter().filter_map(of_cell).collect();
        steps.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let rates = steps.len();
        let mut least = f64::INFINITY;
        let knee = steps.iter().position(|step| {
            let latency = step.latency.unwrap_or(0.0);
            let is_raised = latency > KNEE * least;
            least = least.min(step.latency.unwrap_or(f64::INFINITY));
            is_raised
        });
        steps.truncate(knee.unwrap_or(rates));
        (rates > 0).then_some(Ladder { treatment, rates, steps })
    }

    fn slope(&self) -> Option<Interval> {
        let slopes: Vec<f64> = self.points_per_request(|_| true).into_values().collect();
        let shift = Shift::of_pairs(&slopes, 1)?;
        let inverted = |points: f64| if points > 0.0 { points.recip() } else { f64::INFINITY };
        let middle = Some(inverted(shift.middle)).filter(|slope| slope.is_finite())?;
        let low = if shift.high.is_finite() { inverted(shift.high) } else { f64::NEG_INFINITY };
        Some(Interval { low, middle, high: inverted(shift.low) })
    }

    /// By how much more of a point a request takes for the other one, by round; none if a round has no such figure,
    /// because leaving out just those would select among them.
    fn log_ratios(&self, other: &Ladder) -> Vec<f64> {
        let has = |ladder: &Ladder, condition: &str| ladder.steps.iter().any(|it| it.condition == condition);
        let own = self.points_per_request(|step| has(other, &step.condition));
        let others = other.points_per_request(|step| has(self, &step.condition));
        if own.values().chain(others.values()).any(|points| *points <= 0.0) {
            return Vec::new();
        }
        own.iter().filter_map(|(round, points)| Some(others.get(round)?.ln() - points.ln())).collect()
    }

    /// The slope of the CPU load on the rate in each round, over the chosen steps.
    fn points_per_request(&self, is_wanted: impl Fn(&Step) -> bool) -> BTreeMap<u32, f64> {
        let steps: Vec<&Step> = self.steps.iter().filter(|step| is_wanted(step)).collect();
        let rounds: BTreeSet<u32> = steps.iter().flat_map(|step| step.trials.keys().copied()).collect();
        let of_round = |round: u32| {
            let trials: Vec<Trial> =
                steps.iter().filter_map(|step| step.trials.get(&round).copied()).collect();
            Some((round, slope(&trials)?))
        };
        let busiest = |pick: fn(f64, f64) -> f64| {
            let medians = steps.iter().map(|step| step.busy());
            medians.reduce(pick).unwrap_or(0.0)
        };
        match busiest(f64::max) - busiest(f64::min) < SPAN_MIN {
            true => BTreeMap::new(),
            false => rounds.into_iter().filter_map(of_round).collect(),
        }
    }
}

impl Step {
    fn of(condition: &str, records: &[&TrialRecord], warm_up_s: f64) -> Option<Step> {
        let trial = |record: &&TrialRecord| Some((record.round, Trial::of(record, warm_up_s)?));
        let trials: BTreeMap<u32, Trial> = records.iter().filter_map(trial).collect();
        let rates: Vec<f64> = trials.values().map(|trial| trial.rate).collect();
        let latencies = LATENCIES
            .iter()
            .map(|name| -> Vec<f64> { records.iter().filter_map(|record| record.figure(name)).collect() });
        let latency = latencies.into_iter().find(|values| !values.is_empty()).map(|values| median(&values));
        (!rates.is_empty()).then(|| Step {
            condition: condition.to_owned(),
            rate: median(&rates),
            latency,
            trials,
        })
    }

    fn busy(&self) -> f64 {
        median(&self.trials.values().map(|trial| trial.busy).collect::<Vec<_>>())
    }
}

impl Trial {
    fn of(record: &TrialRecord, warm_up_s: f64) -> Option<Trial> {
        let counts = record.samples.iter().filter(|sample| sample.at_s > warm_up_s);
        let busy: Vec<f64> = counts.flat_map(|sample| &sample.cpus).filter_map(|cpu| cpu.busy()).collect();
        let rate = *record.metrics.get("requests_per_second")?;
        let mean = busy.iter().sum::<f64>() / busy.len() as f64;
        (!busy.is_empty()).then_some(Trial { rate, busy: 100.0 * mean })
    }
}

/// Slope of the straight line with the least squares of the CPU load; none for few rates, or if all rates are the
/// same.
fn slope(trials: &[Trial]) -> Option<f64> {
    let count = trials.len() as f64;
    let mean = |pick: fn(&Trial) -> f64| trials.iter().map(pick).sum::<f64>() / count;
    let (rate, busy) = (mean(|trial| trial.rate), mean(|trial| trial.busy));
    let spread: f64 = trials.iter().map(|trial| (trial.rate - rate).powi(2)).sum();
    let common: f64 = trials.iter().map(|trial| (trial.rate - rate) * (trial.busy - busy)).sum();
    (trials.len() >= RATES_MIN && spread > 0.0).then(|| common / spread)
}
