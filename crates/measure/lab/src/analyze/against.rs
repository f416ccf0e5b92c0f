//! Comparison of two runs: the same cells, days or commits apart.
//!
//! There are no pairs between two runs. Changes of the host between them are in the difference, too: alternation
//! within one run cancels those, and nothing does so here.

use stdx::statistics::{ALPHA, Shift};

use crate::analyze::compare::values;
use crate::analyze::comparison::{CellStanding, Comparison, Metric, Noted};
use crate::analyze::verdict::{Interval, Verdict};
use crate::experiment::design::{Cell, Design};
use crate::record::TrialRecord;
use crate::record::quantity;
use crate::record::quantity::Better;
use crate::run::results::Results;

/// Compares the cells that both have, by the measure of the new one.
pub fn against(old: &Results, new: &Results) -> Comparison {
    let measure = &new.experiment.measure;
    let olds: Vec<&TrialRecord> = old.valid().collect();
    let news: Vec<&TrialRecord> = new.valid().collect();
    let old_cells = Design::of(&old.experiment).cells;
    let in_both = |cell: &Cell| {
        old_cells.iter().any(|other| (&other.subject, &other.levels) == (&cell.subject, &cell.levels))
    };
    let cells: Vec<Cell> = Design::of(&new.experiment).cells.into_iter().filter(in_both).collect();
    let others = measure.also.iter().filter(|name| **name != measure.primary);
    let metrics = std::iter::once((&measure.primary, Some(measure.better)))
        .chain(others.map(|name| (name, quantity::better(name))));
    let metrics = metrics.map(|(name, better)| {
        let facing = |cell: &Cell| Facing {
            treatment: cell.treatment.clone(),
            condition: cell.condition.clone(),
            sides: [&olds, &news].map(|records| values(records, cell, name)),
        };
        metric(name, better, measure.equivalent, ["old", "new"], cells.iter().map(facing))
    });
    let noted = |note: fn(&TrialRecord) -> Option<Noted>| -> Vec<Noted> {
        let of = |which: &'static str, results: &Results| {
            let noted = results.records.iter().filter_map(note);
            noted.map(|it| Noted { cell: format!("{which}: {}", it.cell), ..it }).collect::<Vec<_>>()
        };
        [of("old", old), of("new", new)].concat()
    };
    Comparison {
        question: new.experiment.question.clone(),
        trials: olds.len() + news.len(),
        rounds: old.experiment.repeat.rounds.min(new.experiment.repeat.rounds) as usize,
        left_out: noted(Noted::doubts),
        remarked: noted(Noted::remarks),
        metrics: metrics.collect(),
        // They are about ratios within a run.
        aims: Vec::new(),
        efficiencies: Vec::new(),
    }
}

/// A cell with its values by round: the old ones and the new.
pub(crate) struct Facing {
    pub(crate) treatment: String,
    pub(crate) condition: String,
    pub(crate) sides: [Vec<(u32, f64)>; 2],
}

/// A metric of cells that both have; `names` are those of the sides. Two standings of each: the old one and the new.
pub(crate) fn metric(
    name: &str,
    better: Option<Better>,
    band: f64,
    names: [&str; 2],
    cells: impl Iterator<Item = Facing>,
) -> Metric {
    let mut standings = Vec::new();
    let mut compared = Vec::new();
    for Facing { treatment, condition, sides } in cells {
        let mut verdicts = [Verdict::Baseline, Verdict::NotCompared].into_iter().zip(names);
        let [old, new] = sides.map(|values| {
            let (verdict, which) = verdicts.next().expect("there are two sides");
            let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            standings.push(CellStanding {
                treatment: format!("{which}: {treatment}"),
                condition: condition.clone(),
                median: Interval::of(&plain),
                values,
                ratio: None,
                pairs: 0,
                is_of_equals: false,
                p: 1.0,
                is_within_equals: false,
                verdict,
            });
            plain
        });
        if !old.is_empty() && !new.is_empty() && old.iter().chain(&new).all(|value| *value > 0.0) {
            let logs = |values: Vec<f64>| values.into_iter().map(f64::ln).collect::<Vec<_>>();
            compared.push((standings.len() - 1, logs(old), logs(new)));
        }
    }
    for (index, old, new) in &compared {
        let shift = Shift::of_groups(old, new, compared.len()).expect("both have values");
        let standing = &mut standings[*index];
        (standing.ratio, standing.p) = (Some(Interval::from(shift).exp()), shift.p);
        // Where no difference could be shown, `could_show` reports it for the whole metric.
        standing.verdict = Verdict::of(&Shift { p_min: 0.0, ..shift }, band, better);
    }
    Metric { name: name.to_owned(), better, band, equals: None, standings, effects: Vec::new() }
}

/// Whether any difference could be shown, however large, with this many values on each side in this many comparisons:
/// of all ways to exchange them, two may be the most extreme, and p is that times the comparisons.
pub(crate) fn can_show(olds: usize, news: usize, comparisons: usize) -> bool {
    let ways: f64 = (1..=news).map(|count| (olds + count) as f64 / count as f64).product();
    2.0 * comparisons as f64 <= ALPHA * ways
}

/// Whether any difference in a compared metric could be shown; true if nothing was compared.
pub(crate) fn could_show(metric: &Metric) -> bool {
    let pairs = metric.standings.chunks_exact(2).filter(|pair| pair[1].ratio.is_some());
    let count = |which: usize| pairs.clone().map(|pair| pair[which].values.len()).max();
    let (Some(olds), Some(news)) = (count(0), count(1)) else { return true };
    can_show(olds, news, pairs.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_can_show_nothing() {
        // 2 of 20 ways; 2 of 70.
        assert!(!can_show(3, 3, 1) && can_show(4, 4, 1));
        // 2 × 2 of 70; of 126; of 252.
        assert!(!can_show(4, 4, 2) && can_show(4, 5, 2) && can_show(5, 5, 2));
        assert!(!can_show(1, 38, 1) && can_show(1, 39, 1) && !can_show(0, 9, 1));
        for (olds, news) in [(3, 3), (4, 4), (3, 6)] {
            // The most extreme of all is what the bound is about.
            let (low, high) = (vec![1.0; olds], vec![9.0; news]);
            let p = Shift::of_groups(&low, &high, 1).expect("values").p;
            assert_eq!(p <= ALPHA, can_show(olds, news, 1), "{olds} {news}");
        }
    }
}
