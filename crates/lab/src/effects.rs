//! What each factor does, and whether two do more together than each by itself.
//!
//! For designs with every combination of levels. An effect is a weighted sum of the logarithms of all cells of a round:
//! what a round has in common cancels out, so the round is a block, and each complete round gives one value. The effect
//! of a level is its ratio to the first level of its factor, as the mean over all combinations of the others; an
//! interaction is by how much that ratio changes when another factor leaves its first level.

use std::collections::BTreeMap;

use serde::Serialize;
use stdx::statistics::{holm, sign_flip_p};

use crate::compare::{Evidence, Interval, SEED, Verdict};
use crate::experiment::{Better, Experiment};
use crate::record::Record;

/// What a level does, or two levels together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The level, or both: `kernel=tuned`, `kernel=tuned × allocator=jemalloc`.
    pub name: String,
    /// Whether it is about two factors together.
    pub is_interaction: bool,
    /// The ratio.
    pub ratio: Interval,
    /// Rounds in which every cell has a trial that counts.
    pub rounds: usize,
    /// How often chance alone gives as much, for all effects on the metric together (Holm).
    pub p: f64,
    /// What follows.
    pub verdict: Verdict,
}

/// A factor as effects see it: the subject is one, too.
struct Factor {
    name: String,
    levels: Vec<String>,
}

/// A sum over cells, which are lists of places of levels.
struct Contrast {
    name: String,
    is_interaction: bool,
    weights: Vec<f64>,
}

/// All effects on a metric; none if fewer than two factors vary, or no round is complete.
pub(crate) fn effects(
    experiment: &Experiment,
    records: &[&Record],
    metric: &str,
    better: Option<Better>,
) -> Vec<Effect> {
    let factors = factors(experiment);
    if factors.len() < 2 {
        return Vec::new();
    }
    let cells = cells(&factors);
    let rounds = complete_rounds(&factors, &cells, records, metric);
    if rounds.is_empty() {
        return Vec::new();
    }
    let contrasts = contrasts(&factors, &cells);
    let logs: Vec<Vec<f64>> = contrasts.iter().map(|contrast| contrast.values(&rounds)).collect();
    let ps: Vec<f64> = logs.iter().map(|logs| sign_flip_p(logs, SEED)).collect();
    let judged = contrasts.into_iter().zip(&logs).zip(holm(&ps));
    let effect = |((contrast, logs), p): ((Contrast, &Vec<f64>), f64)| {
        let interval = Interval::of(logs).expect("there is a round");
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let evidence = Evidence { interval, mean, count: logs.len(), p };
        Effect {
            name: contrast.name,
            is_interaction: contrast.is_interaction,
            ratio: interval.exp(),
            rounds: logs.len(),
            p,
            verdict: evidence.verdict(experiment.measure.equivalent, better),
        }
    };
    judged.map(effect).collect()
}

fn factors(experiment: &Experiment) -> Vec<Factor> {
    let subjects = experiment.subjects.iter().map(|subject| subject.name.clone()).collect();
    let subject = Factor { name: SUBJECT.into(), levels: subjects };
    let others = experiment.factors.iter().map(|factor| Factor {
        name: factor.name.clone(),
        levels: factor.levels.iter().map(|level| level.name.clone()).collect(),
    });
    std::iter::once(subject).chain(others).filter(|factor| factor.levels.len() > 1).collect()
}

/// What the subject is called where it is a factor.
const SUBJECT: &str = "subject";

/// All combinations.
fn cells(factors: &[Factor]) -> Vec<Vec<usize>> {
    let mut cells = vec![Vec::new()];
    for factor in factors {
        let longer = |cell: &Vec<usize>| {
            let cell = cell.clone();
            (0..factor.levels.len()).map(move |level| [&cell[..], &[level]].concat())
        };
        cells = cells.iter().flat_map(longer).collect();
    }
    cells
}

/// The logarithms of all cells, of each round that has them all.
fn complete_rounds(
    factors: &[Factor],
    cells: &[Vec<usize>],
    records: &[&Record],
    metric: &str,
) -> Vec<Vec<f64>> {
    let mut rounds: BTreeMap<u32, Vec<Option<f64>>> = BTreeMap::new();
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
        let value = record.metrics.get(metric).filter(|value| **value > 0.0 && value.is_finite());
        if let Some((cell, value)) = cell.zip(value) {
            rounds.entry(record.round).or_insert_with(|| vec![None; cells.len()])[cell] = Some(value.ln());
        }
    }
    rounds.into_values().filter_map(|logs| logs.into_iter().collect()).collect()
}

fn contrasts(factors: &[Factor], cells: &[Vec<usize>]) -> Vec<Contrast> {
    let say = |(factor, level): (usize, usize)| {
        format!("{}={}", factors[factor].name, factors[factor].levels[level])
    };
    let levels = |factor: usize| (1..factors[factor].levels.len()).map(move |level| (factor, level));
    let mut contrasts = Vec::new();
    for first in (0..factors.len()).flat_map(levels) {
        let others = cells.len() / factors[first.0].levels.len();
        let weight = |cell: &Vec<usize>| side(cell, first) / others as f64;
        contrasts.push(Contrast {
            name: say(first),
            is_interaction: false,
            weights: cells.iter().map(weight).collect(),
        });
    }
    for first in (0..factors.len()).flat_map(levels) {
        for second in (first.0 + 1..factors.len()).flat_map(levels) {
            let others = cells.len() / factors[first.0].levels.len() / factors[second.0].levels.len();
            let weight = |cell: &Vec<usize>| side(cell, first) * side(cell, second) / others as f64;
            contrasts.push(Contrast {
                name: format!("{} × {}", say(first), say(second)),
                is_interaction: true,
                weights: cells.iter().map(weight).collect(),
            });
        }
    }
    contrasts
}

/// 1 for a cell with that level, -1 for one with the first level of that factor.
fn side(cell: &[usize], (factor, level): (usize, usize)) -> f64 {
    match cell[factor] {
        0 => -1.0,
        own if own == level => 1.0,
        _ => 0.0,
    }
}

impl Contrast {
    /// Its value in each round.
    fn values(&self, rounds: &[Vec<f64>]) -> Vec<f64> {
        let of = |logs: &Vec<f64>| logs.iter().zip(&self.weights).map(|(log, weight)| log * weight).sum();
        rounds.iter().map(of).collect()
    }
}
