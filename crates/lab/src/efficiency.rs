//! Compute efficiency as a fleet's owner sees it: how many more requests a percentage point of the machine's CPU gives.
//!
//! That takes the same treatment under several rates; the slope leaves out what the machine does when it is idle.

use std::collections::BTreeSet;

use serde::Serialize;
use stdx::prng::Prng;

use crate::compare::{Interval, SEED};
use crate::design::{Cell, Design};
use crate::record::Record;
use crate::results::Results;

/// The slope of a treatment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Efficiency {
    /// What is compared.
    pub treatment: String,
    /// Trials that count.
    pub trials: usize,
    /// The least and the most of the machine that was busy, in percent.
    pub busy_percent: (f64, f64),
    /// Requests per second for each percentage point.
    pub slope: Interval,
}

/// A trial: its round, how busy the machine was in percent, requests per second.
type Point = (u32, f64, f64);

/// So many rates give a slope.
const RATES_MIN: usize = 3;

/// Over fewer percentage points than this a slope is noise.
const SPAN_MIN: f64 = 5.0;

/// Samples drawn for an interval.
const RESAMPLES: usize = 2_000;

/// The slope of each treatment that has had several rates.
pub fn efficiencies(results: &Results) -> Vec<Efficiency> {
    let design = Design::of(&results.experiment);
    if design.condition_names().len() < RATES_MIN {
        return Vec::new();
    }
    let warm_up_s = f64::from(results.experiment.workload.warm_up_s);
    let of = |treatment: &str| {
        let cells: Vec<&Cell> = design.cells.iter().filter(|cell| cell.treatment == treatment).collect();
        let own = results.valid().filter(|record| cells.iter().any(|cell| cell.holds(record)));
        let points: Vec<Point> = own.filter_map(|record| point(record, warm_up_s)).collect();
        efficiency(treatment, &points)
    };
    design.treatment_names().into_iter().filter_map(of).collect()
}

fn point(record: &Record, warm_up_s: f64) -> Option<Point> {
    let counts = record.samples.iter().filter(|sample| sample.at_s > warm_up_s);
    let known = counts.flat_map(|sample| &sample.cpus).filter(|cpu| cpu.busy().is_some());
    let busy: Vec<f64> = known.map(|cpu| 1.0 - cpu.idle).collect();
    let rate = *record.metrics.get("requests_per_second")?;
    (!busy.is_empty()).then(|| (record.round, 100.0 * busy.iter().sum::<f64>() / busy.len() as f64, rate))
}

fn efficiency(treatment: &str, points: &[Point]) -> Option<Efficiency> {
    let busy = || points.iter().map(|point| point.1);
    let busy_percent = (busy().fold(f64::INFINITY, f64::min), busy().fold(0.0, f64::max));
    if busy_percent.1 - busy_percent.0 < SPAN_MIN {
        return None;
    }
    let middle = slope(points)?;
    let rounds: Vec<u32> = points.iter().map(|point| point.0).collect::<BTreeSet<_>>().into_iter().collect();
    let mut prng = Prng::new(SEED);
    let mut slopes: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let drawn = rounds.iter().map(|_| rounds[prng.below(rounds.len() as u64) as usize]);
            let drawn: Vec<u32> = drawn.collect();
            let of_round =
                |round: &u32| points.iter().filter(|point| point.0 == *round).copied().collect::<Vec<_>>();
            slope(&drawn.iter().flat_map(of_round).collect::<Vec<_>>())
        })
        .collect();
    slopes.sort_by(f64::total_cmp);
    let tail = slopes.len() / 40;
    let slope = Interval { low: *slopes.get(tail)?, middle, high: slopes[slopes.len() - 1 - tail] };
    Some(Efficiency { treatment: treatment.to_owned(), trials: points.len(), busy_percent, slope })
}

/// Of the straight line with the least squares; none if all are equally busy.
fn slope(points: &[Point]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |pick: fn(&Point) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.1), mean(|point| point.2));
    let spread: f64 = points.iter().map(|point| (point.1 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|point| (point.1 - x) * (point.2 - y)).sum();
    (spread > 0.0).then(|| common / spread)
}
