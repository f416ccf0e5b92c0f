//! The answer to the question, in sentences about the metric that decides.

use stdx::statistics::rounds_min;

use super::span;
use crate::compare::{Comparison, Metric, Standing, Verdict};
use crate::quantity::{chance, change, title};

/// Cells of one verdict that have a sentence of their own.
const SENTENCES_MAX: usize = 3;
/// More cells without a difference are only counted.
const NAMES_MAX: usize = 6;

/// All of them, what matters most first.
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    let metric = &comparison.metrics[0];
    let told_apart = metric.standings.iter().find(|it| it.is_of_equals && is_shown(it.verdict));
    let warning = told_apart.map(|standing| {
        format!("{} is the baseline under another name: do not believe this run.", standing.cell())
    });
    let mut sentences: Vec<String> = warning.into_iter().chain(of_factors(metric)).collect();
    for verdict in [Verdict::Better, Verdict::Worse, Verdict::Different] {
        sentences.extend(of_cells(metric, verdict));
    }
    for (verdict, words) in [
        (Verdict::Equivalent, "No difference that matters"),
        (Verdict::NoDifferenceShown, "No difference shown"),
        (Verdict::TooFewPairs, "Too few pairs to show any difference"),
        (Verdict::NotCompared, "Not compared, for want of pairs with values above zero"),
    ] {
        let names: Vec<String> = judged(metric, verdict).map(Standing::cell).collect();
        match names.len() {
            0 => {}
            1..=NAMES_MAX => sentences.push(format!("{words}: {}.", names.join("; "))),
            more => sentences.push(format!("{words}: {more} cells, see the table.")),
        }
    }
    sentences.extend(too_few_rounds(metric, comparison.rounds));
    sentences
}

fn is_shown(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse | Verdict::Different)
}

fn judged(metric: &Metric, verdict: Verdict) -> impl Iterator<Item = &Standing> {
    metric.standings.iter().filter(move |standing| standing.verdict == verdict)
}

fn of_factors(metric: &Metric) -> Option<String> {
    let shown = metric.effects.iter().filter(|effect| is_shown(effect.verdict));
    let shown: Vec<String> = shown
        .map(|it| format!("{} {} ({})", it.name, change(it.ratio.middle), span(it.ratio, change)))
        .collect();
    (!shown.is_empty()).then(|| format!("Of the factors, {}: {}.", title(&metric.name), shown.join("; ")))
}

/// The cells that differ most have a sentence each.
fn of_cells(metric: &Metric, verdict: Verdict) -> Vec<String> {
    let distance = |standing: &Standing| standing.ratio.map_or(0.0, |ratio| ratio.middle.ln().abs());
    let mut shown: Vec<&Standing> = judged(metric, verdict).collect();
    shown.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let sentence = |standing: &&Standing| {
        let ratio = standing.ratio.expect("what was judged has pairs");
        format!(
            "{} is {}: {} {} ({}), p {}.",
            standing.cell(),
            verdict.words(),
            title(&metric.name),
            change(ratio.middle),
            span(ratio, change),
            chance(standing.p),
        )
    };
    let more = shown.len().saturating_sub(SENTENCES_MAX);
    let rest = (more > 0).then(|| format!("{more} more are {}, by less: see the table.", verdict.words()));
    shown.iter().take(SENTENCES_MAX).map(sentence).chain(rest).collect()
}

fn too_few_rounds(metric: &Metric, rounds: usize) -> Option<String> {
    let comparisons = metric.standings.iter().filter(|it| it.verdict != Verdict::Baseline).count();
    let needed = rounds_min(comparisons);
    ((rounds as u32) < needed).then(|| {
        format!(
            "No comparison could show a difference, however large: with {comparisons} that takes {needed} rounds, \
             and there are {rounds}."
        )
    })
}
