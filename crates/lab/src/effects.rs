//! Effects of factors, and interactions: whether two factors do more together than each by itself.
//!
//! For designs with every combination of levels. The effect of a level is its ratio to the first level of its factor, as
//! the mean over all combinations of the others; an interaction is by how much that ratio changes when another factor
//! leaves its first level. Both are means of differences between logarithms of cells of one round: what the round has in
//! common cancels out, so the round is a block and gives one value. Combinations that a round lacks are left out of its
//! mean, because one doubtful trial of many shall not cost a whole round; with less than half of them, the round is.

use std::collections::BTreeMap;

use serde::Serialize;
use stdx::statistics::Shift;

use crate::compare::{Interval, Verdict};
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
    /// Rounds that have at least half of the combinations.
    pub rounds: usize,
    /// How often chance alone gives as much in any of the effects on the metric.
    pub p: f64,
    /// What follows.
    pub verdict: Verdict,
}

/// A factor as effects see it: the subject is one, too.
struct Factor {
    name: String,
    levels: Vec<String>,
}

/// A mean of differences between cells.
struct Contrast {
    name: String,
    is_interaction: bool,
    differences: Vec<Difference>,
}

/// Cells, by their place, with the sign of each.
type Difference = Vec<(usize, f64)>;

/// A cell's logarithm, if it has a trial that counts.
type Round = Vec<Option<f64>>;

/// All effects on a metric; none if fewer than two factors vary.
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
        Effect {
            name: contrast.name,
            is_interaction: contrast.is_interaction,
            ratio: Interval::from(shift).exp(),
            rounds: logs.len(),
            p: shift.p,
            verdict: Verdict::of(&shift, experiment.measure.equivalent, 0.0, better),
        }
    };
    contrasts.into_iter().zip(logs).map(effect).collect()
}

/// How many effects such an experiment has.
pub(crate) fn count(experiment: &Experiment) -> usize {
    let factors = factors(experiment);
    if factors.len() < 2 { 0 } else { contrasts(&factors, &cells(&factors)).len() }
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

/// The logarithms of all cells, by round. A value of zero has none: then there are no rounds, because to leave out just
/// those cells would choose among them.
fn rounds(factors: &[Factor], cells: &[Vec<usize>], records: &[&Record], metric: &str) -> Vec<Round> {
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

fn contrasts(factors: &[Factor], cells: &[Vec<usize>]) -> Vec<Contrast> {
    let say = |(factor, level): (usize, usize)| {
        format!("{}={}", factors[factor].name, factors[factor].levels[level])
    };
    let levels = |factor: usize| (1..factors[factor].levels.len()).map(move |level| (factor, level));
    // A cell, and the same with the first level of a factor.
    let at =
        |cell: &Vec<usize>| cells.iter().position(|other| other == cell).expect("all combinations are cells");
    let without = |cell: &Vec<usize>, (factor, _): (usize, usize)| {
        let mut cell = cell.clone();
        cell[factor] = 0;
        cell
    };
    let has = |cell: &Vec<usize>, (factor, level): (usize, usize)| cell[factor] == level;
    let mut contrasts = Vec::new();
    for first in (0..factors.len()).flat_map(levels) {
        let difference = |cell: &Vec<usize>| vec![(at(cell), 1.0), (at(&without(cell, first)), -1.0)];
        contrasts.push(Contrast {
            name: say(first),
            is_interaction: false,
            differences: cells.iter().filter(|cell| has(cell, first)).map(difference).collect(),
        });
    }
    for first in (0..factors.len()).flat_map(levels) {
        for second in (first.0 + 1..factors.len()).flat_map(levels) {
            let difference = |cell: &Vec<usize>| {
                let neither = without(&without(cell, first), second);
                vec![
                    (at(cell), 1.0),
                    (at(&without(cell, first)), -1.0),
                    (at(&without(cell, second)), -1.0),
                    (at(&neither), 1.0),
                ]
            };
            let both = cells.iter().filter(|cell| has(cell, first) && has(cell, second));
            contrasts.push(Contrast {
                name: format!("{} × {}", say(first), say(second)),
                is_interaction: true,
                differences: both.map(difference).collect(),
            });
        }
    }
    contrasts
}

impl Contrast {
    /// Its value in a round that has at least half of the differences.
    fn value(&self, round: &Round) -> Option<f64> {
        let sum = |difference: &Difference| {
            difference.iter().map(|(cell, sign)| Some(round[*cell]? * sign)).sum::<Option<f64>>()
        };
        let found: Vec<f64> = self.differences.iter().filter_map(sum).collect();
        (found.len() * 2 >= self.differences.len()).then(|| found.iter().sum::<f64>() / found.len() as f64)
    }
}
