//! Entries of a history, one for each metric of each cell, absolute and relative to the pinned subject.

use crate::analyze::comparison::{Comparison, Metric};
use crate::analyze::verdict::Interval;
use crate::experiment::design::Design;
use crate::history::definition::of_cells;
use crate::record::quantity::Better;
use crate::run::results::Results;
use stdx::statistics::median;

/// One metric of one cell in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The digest that defines its trials, and those of the cells that it is measured by.
    pub definition: String,
    /// The cell's name.
    pub cell: String,
    /// The metric's name.
    pub metric: String,
    /// Whether it decides the experiment.
    pub is_primary: bool,
    /// Whether high or low values are good, if known.
    pub better: Option<Better>,
    /// Relative differences below this are insignificant in practice.
    pub matters: f64,
    /// The cell that it is measured by, which may be itself; empty: none is pinned.
    pub pinned: String,
    /// The median over rounds of the ratio to that cell; `None`: none is pinned, or a value is not above zero.
    pub ratio: Option<f64>,
    /// Of its trials.
    pub median: Interval,
    /// The value of each trial, with its round.
    pub values: Vec<(u32, f64)>,
}

/// The entries of a run; its comparison is computed without the history.
pub fn entries(results: &Results, comparison: &Comparison) -> Vec<Entry> {
    let cells = Design::of(&results.experiment).cells;
    let definitions = of_cells(results, &cells);
    let of_metric = |(index, metric): (usize, &Metric)| {
        // The standings of a comparison are in the order of the design.
        let found = metric.standings.iter().zip(&definitions).filter_map(|(standing, definition)| {
            let pinned = definition.pinned.map(|place| &metric.standings[place]);
            Some(Entry {
                definition: definition.digest.clone(),
                cell: standing.cell(),
                metric: metric.name.clone(),
                is_primary: index == 0,
                better: metric.better,
                matters: results.experiment.measure.equivalent,
                pinned: pinned.map_or(String::new(), |pinned| pinned.cell()),
                ratio: pinned.and_then(|pinned| ratio(&standing.values, &pinned.values)),
                median: standing.median?,
                values: standing.values.clone(),
            })
        });
        found.collect::<Vec<_>>()
    };
    comparison.metrics.iter().enumerate().flat_map(of_metric).collect()
}

/// The median of the ratios of a round; if no round has both, the ratio of the medians.
fn ratio(values: &[(u32, f64)], pinned: &[(u32, f64)]) -> Option<f64> {
    if values.is_empty() || pinned.is_empty() || values.iter().chain(pinned).any(|(_, value)| *value <= 0.0) {
        return None;
    }
    let pair = |(round, value): &(u32, f64)| {
        let (_, unit) = pinned.iter().find(|(other, _)| other == round)?;
        Some(value / unit)
    };
    let pairs: Vec<f64> = values.iter().filter_map(pair).collect();
    let plain = |values: &[(u32, f64)]| values.iter().map(|(_, value)| *value).collect::<Vec<_>>();
    Some(match pairs.is_empty() {
        false => median(&pairs),
        true => median(&plain(values)) / median(&plain(pinned)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_rounds_that_have_both() {
        let slow_rounds = [(0, 200.0), (1, 100.0), (2, 400.0)];
        assert_eq!(ratio(&slow_rounds, &[(0, 100.0), (1, 50.0), (3, 7.0)]), Some(2.0));
        assert_eq!(ratio(&[(0, 200.0)], &[(1, 50.0)]), Some(4.0));
        assert_eq!(ratio(&[(0, 0.0)], &[(0, 50.0)]), None);
        assert_eq!(ratio(&[], &[(0, 50.0)]), None);
    }
}
