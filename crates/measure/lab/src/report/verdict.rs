//! Verdict sentences: the answer to the question, from the metric that decides.

use stdx::statistics::rounds_min;

use super::{aims, span, unit};
use crate::analyze::comparison::{CellStanding, Comparison, Metric};
use crate::analyze::verdict::Verdict;
use crate::record::quantity::{chance, change};

/// Cells of one verdict that have a sentence of their own.
const SENTENCES_MAX: usize = 3;
/// More cells without a difference are only counted.
const NAMES_MAX: usize = 6;

/// The kind of a sentence, which gives it its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A difference, as verdicts are.
    Shown(Verdict),
    /// The remaining results cannot be believed.
    Warning,
    /// No difference was shown, or a further remark.
    Plain,
}

impl Mark {
    /// In a style sheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Mark::Shown(verdict) => class(verdict),
            Mark::Warning => "warning",
            Mark::Plain => "none",
        }
    }
}

/// A verdict in a style sheet: good, bad, neither, and nothing shown.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Different => "different",
        _ => "none",
    }
}

/// All of them, the most important first.
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    sentences(comparison).into_iter().map(|(_, sentence)| sentence).collect()
}

/// The same with the kind of each.
pub(super) fn sentences(comparison: &Comparison) -> Vec<(Mark, String)> {
    let metric = &comparison.metrics[0];
    if comparison.trials == 0 {
        let none = "No trial counts, so nothing is shown: the list of those that are left out says why.";
        return vec![(Mark::Warning, none.to_owned())];
    }
    if metric.standings.len() == 1 {
        let alone = "There is one cell, which a run compares with nothing: `evenkeel lab history` and `gate` follow it \
                     over commits.";
        return vec![(Mark::Plain, alone.to_owned())];
    }
    let told_apart = metric.standings.iter().find(|it| it.is_of_equals && it.verdict.is_shown());
    let warning = told_apart.map(|standing| {
        let what = "is the baseline under another name: do not believe this run.";
        (Mark::Warning, format!("{} {what}", standing.cell()))
    });
    let mut sentences: Vec<(Mark, String)> = warning.into_iter().collect();
    sentences.extend(of_factors(metric).map(|sentence| (Mark::Plain, sentence)));
    for verdict in [Verdict::Better, Verdict::Worse, Verdict::Different] {
        sentences.extend(of_cells(metric, verdict).into_iter().map(|it| (Mark::Shown(verdict), it)));
    }
    sentences.extend(aims::sentence(&comparison.aims).map(|sentence| (Mark::Plain, sentence)));
    sentences.extend(of_equals(metric).map(|sentence| (Mark::Warning, sentence)));
    for (verdict, words) in [
        (Verdict::Equivalent, "No difference that matters"),
        (Verdict::NoDifferenceShown, "No difference shown"),
        (Verdict::TooFewPairs, "Too few pairs to show any difference"),
        (Verdict::NotCompared, "Not compared, for want of pairs with values above zero"),
    ] {
        let names: Vec<String> = judged(metric, verdict).map(CellStanding::cell).collect();
        match names.len() {
            0 => {}
            1..=NAMES_MAX => sentences.push((Mark::Plain, format!("{words}: {}.", names.join("; ")))),
            more => sentences.push((Mark::Plain, format!("{words}: {more} cells, see the table."))),
        }
    }
    sentences.extend(too_few_rounds(metric, comparison.rounds).map(|it| (Mark::Warning, it)));
    sentences
}

/// A warning about differences that equals show, too.
fn of_equals(metric: &Metric) -> Option<String> {
    let within = metric.standings.iter().filter(|standing| standing.is_within_equals);
    let names: Vec<String> = within.map(CellStanding::cell).collect();
    let equals = metric.equals.filter(|_| !names.is_empty())?;
    Some(format!(
        "Equal subjects may differ by as much in this run ({}): {} may owe the difference to the host. A trial or two among \
         them may be outliers; more rounds decide.",
        span(equals, change),
        names.join("; ")
    ))
}

fn judged(metric: &Metric, verdict: Verdict) -> impl Iterator<Item = &CellStanding> {
    metric.standings.iter().filter(move |standing| standing.verdict == verdict)
}

fn of_factors(metric: &Metric) -> Option<String> {
    let shown = metric.effects.iter().filter(|effect| effect.verdict.is_shown());
    let shown: Vec<String> = shown
        .map(|it| format!("{} {} ({})", it.name, change(it.ratio.middle), span(it.ratio, change)))
        .collect();
    (!shown.is_empty()).then(|| format!("Of the factors, {}: {}.", unit(metric).title, shown.join("; ")))
}

/// The cells that differ most have a sentence each.
fn of_cells(metric: &Metric, verdict: Verdict) -> Vec<String> {
    let distance = |standing: &CellStanding| standing.ratio.map_or(0.0, |ratio| ratio.middle.ln().abs());
    let mut shown: Vec<&CellStanding> = judged(metric, verdict).collect();
    shown.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let sentence = |standing: &&CellStanding| {
        let ratio = standing.ratio.expect("what was judged has pairs");
        format!(
            "{} is {}: {} {} ({}), p {}.",
            standing.cell(),
            verdict.words(),
            unit(metric).title,
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
             and there {} {rounds}.",
            if rounds == 1 { "is" } else { "are" }
        )
    })
}
