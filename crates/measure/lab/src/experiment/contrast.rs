//! Contrasts of a factorial design: the differences between its cells that are the effect of a level or an
//! interaction. Pure, and without a trial's figures.

use super::matrix;
use super::types::Experiment;
use std::collections::BTreeSet;

/// A factor for the effects: the subject is one, too.
pub(crate) struct Factor {
    pub(crate) name: String,
    pub(crate) levels: Vec<String>,
}

/// A mean of differences between cells.
pub(crate) struct Contrast {
    pub(crate) name: String,
    pub(crate) is_interaction: bool,
    differences: Vec<Difference>,
}

/// Cells, by their place, with the sign of each.
type Difference = Vec<(usize, f64)>;

/// A cell's logarithm, if it has a trial that counts.
pub(crate) type Round = Vec<Option<f64>>;

/// The number of effects of such an experiment.
pub(crate) fn count(experiment: &Experiment) -> usize {
    let factors = factors(experiment);
    if factors.len() < 2 || !experiment.measure.effects {
        0
    } else {
        contrasts(&factors, &cells(experiment, &factors)).len()
    }
}

pub(crate) fn factors(experiment: &Experiment) -> Vec<Factor> {
    let subjects = experiment.subjects.iter().map(|subject| subject.name.clone()).collect();
    let subject = Factor { name: SUBJECT.into(), levels: subjects };
    let others = experiment.factors.iter().map(|factor| Factor {
        name: factor.name.clone(),
        levels: factor.levels.iter().map(|level| level.name.clone()).collect(),
    });
    std::iter::once(subject).chain(others).filter(|factor| factor.levels.len() > 1).collect()
}

/// The subject's name as a factor.
pub(crate) const SUBJECT: &str = "subject";

/// All combinations in which the subject takes part.
pub(crate) fn cells(experiment: &Experiment, factors: &[Factor]) -> Vec<Vec<usize>> {
    let of_file = matrix::cells(experiment);
    let places = |cell: &matrix::Cell| {
        let levels = cell.level_names(experiment);
        let place = |factor: &Factor| {
            // A factor of the file may have this name, too.
            let level = levels.get(&factor.name).unwrap_or(&cell.subject(experiment).name);
            factor.levels.iter().position(|other| other == level)
        };
        factors.iter().map(place).collect::<Option<Vec<usize>>>()
    };
    let there: BTreeSet<Vec<usize>> = of_file.iter().filter_map(places).collect();
    combinations(factors).into_iter().filter(|cell| there.contains(cell)).collect()
}

fn combinations(factors: &[Factor]) -> Vec<Vec<usize>> {
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

pub(crate) fn contrasts(factors: &[Factor], cells: &[Vec<usize>]) -> Vec<Contrast> {
    let say = |(factor, level): (usize, usize)| {
        format!("{}={}", factors[factor].name, factors[factor].levels[level])
    };
    let levels = |factor: usize| (1..factors[factor].levels.len()).map(move |level| (factor, level));
    // A cell, and the same with the first level of a factor.
    let at = |cell: &Vec<usize>| cells.iter().position(|other| other == cell);
    let without = |cell: &Vec<usize>, (factor, _): (usize, usize)| {
        let mut cell = cell.clone();
        cell[factor] = 0;
        cell
    };
    let has = |cell: &Vec<usize>, (factor, level): (usize, usize)| cell[factor] == level;
    let mut contrasts = Vec::new();
    for first in (0..factors.len()).flat_map(levels) {
        let difference = |cell: &Vec<usize>| Some(vec![(at(cell)?, 1.0), (at(&without(cell, first))?, -1.0)]);
        contrasts.push(Contrast {
            name: say(first),
            is_interaction: false,
            differences: cells.iter().filter(|cell| has(cell, first)).filter_map(difference).collect(),
        });
    }
    for first in (0..factors.len()).flat_map(levels) {
        for second in (first.0 + 1..factors.len()).flat_map(levels) {
            let difference = |cell: &Vec<usize>| {
                let neither = without(&without(cell, first), second);
                Some(vec![
                    (at(cell)?, 1.0),
                    (at(&without(cell, first))?, -1.0),
                    (at(&without(cell, second))?, -1.0),
                    (at(&neither)?, 1.0),
                ])
            };
            let both = cells.iter().filter(|cell| has(cell, first) && has(cell, second));
            contrasts.push(Contrast {
                name: format!("{} × {}", say(first), say(second)),
                is_interaction: true,
                differences: both.filter_map(difference).collect(),
            });
        }
    }
    // Of levels for different subjects, nothing is compared.
    contrasts.retain(|contrast| !contrast.differences.is_empty());
    contrasts
}

impl Contrast {
    /// Its value in a round that has at least half of the differences.
    pub(crate) fn value(&self, round: &Round) -> Option<f64> {
        let sum = |difference: &Difference| {
            difference.iter().map(|(cell, sign)| Some(round[*cell]? * sign)).sum::<Option<f64>>()
        };
        let found: Vec<f64> = self.differences.iter().filter_map(sum).collect();
        (found.len() * 2 >= self.differences.len()).then(|| found.iter().sum::<f64>() / found.len() as f64)
    }
}
