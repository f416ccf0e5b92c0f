//! What a comparison says, for people: sentences and tables, on a terminal and in a page.

mod history;
pub mod page;
mod table;

use stdx::statistics::rounds_min;

use crate::compare::{Comparison, Interval, Metric, Standing, Verdict};
use crate::experiment::Better;
use crate::quantity::{chance, change, number, title};

pub use history::{history, suspicion};
pub use table::Table;

/// The whole, for a terminal.
pub fn text(comparison: &Comparison) -> String {
    let mut text = format!("{}\n", comparison.question);
    for sentence in verdict(comparison) {
        text += &format!("  {sentence}\n");
    }
    for table in tables(comparison) {
        text += &format!("\n{table}");
    }
    text + &format!("\n{}\n", basis(comparison))
}

/// One run against another, for a terminal.
pub fn against(comparison: &Comparison) -> String {
    let tables = tables(comparison).into_iter().map(|table| format!("{table}\n"));
    let basis = "No pairs: medians, 95 % intervals by bootstrap, p by exchanging trials, after Holm. What the host \
                 did between the runs is in the difference, too.";
    format!("{}\n\n{}{basis}\n", comparison.question, tables.collect::<String>())
}

/// The answer to the question, in sentences about the metric that decides.
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    let metric = &comparison.metrics[0];
    let mut sentences: Vec<String> = Vec::new();
    let judged =
        |verdict: Verdict| metric.standings.iter().filter(move |standing| standing.verdict == verdict);
    for standing in judged(Verdict::Better).chain(judged(Verdict::Worse)) {
        let ratio = standing.ratio.expect("what was judged has pairs");
        sentences.push(format!(
            "{} is {}: {} {} ({}), p {}.",
            standing.cell(),
            standing.verdict.words(),
            title(&metric.name),
            change(ratio.middle),
            span(ratio, change),
            chance(standing.p),
        ));
    }
    for (verdict, words) in [
        (Verdict::Equivalent, "No difference that matters"),
        (Verdict::NoDifferenceShown, "No difference shown"),
        (Verdict::NotCompared, "Not compared, for want of pairs with values above zero"),
    ] {
        let names: Vec<String> = judged(verdict).map(Standing::cell).collect();
        if !names.is_empty() {
            sentences.push(format!("{words}: {}.", names.join("; ")));
        }
    }
    let told_apart = |standing: &&Standing| {
        standing.is_of_equals && matches!(standing.verdict, Verdict::Better | Verdict::Worse)
    };
    if let Some(standing) = metric.standings.iter().find(told_apart) {
        sentences.push(format!(
            "{} is the baseline under another name: do not believe this run.",
            standing.cell()
        ));
    }
    let comparisons =
        metric.standings.iter().filter(|standing| standing.verdict != Verdict::Baseline).count();
    let needed = rounds_min(comparisons);
    if (comparison.rounds as u32) < needed {
        sentences.push(format!(
            "No comparison could show a difference, however large: with {comparisons} that takes {needed} rounds, and there are {}.",
            comparison.rounds
        ));
    }
    sentences
}

/// What it rests on.
pub fn basis(comparison: &Comparison) -> String {
    let left_out = match comparison.left_out.len() {
        0 => "none left out".to_owned(),
        count => format!("{count} left out because of doubts"),
    };
    format!(
        "{} trials in {} rounds, {left_out}. The unit is the trial: pairs within a round, medians, 95 % intervals by bootstrap, sign-flip p after Holm.",
        comparison.trials, comparison.rounds
    )
}

/// All tables: a metric each, the one that decides first, then what was left out.
pub fn tables(comparison: &Comparison) -> Vec<Table> {
    let mut tables: Vec<Table> = comparison.metrics.iter().map(metric).collect();
    if !comparison.left_out.is_empty() {
        let rows = comparison.left_out.iter();
        let rows = rows
            .map(|trial| vec![format!("{:04}", trial.place), trial.cell.clone(), trial.doubts.join("; ")]);
        tables.push(Table {
            title: "Left out".into(),
            header: vec!["trial", "cell", "why"],
            rows: rows.collect(),
        });
    }
    tables
}

fn metric(metric: &Metric) -> Table {
    let better = match metric.better {
        Some(Better::Lower) => "lower is better; ",
        Some(Better::Higher) => "higher is better; ",
        None => "",
    };
    let why = if metric.band_from_equals { ", which is what equals differ by" } else { "" };
    Table {
        title: format!(
            "{}: {better}below {} % does not matter{why}",
            title(&metric.name),
            number(metric.band * 100.0)
        ),
        header: vec!["cell", "trials", "median", "(95 %)", "against baseline", "(95 %)", "p", "verdict"],
        rows: metric.standings.iter().map(row).collect(),
    }
}

fn row(standing: &Standing) -> Vec<String> {
    let ratio = |say: &dyn Fn(Interval) -> String| standing.ratio.map_or(String::new(), say);
    vec![
        standing.cell(),
        standing.values.len().to_string(),
        standing.median.map_or("none".into(), |median| number(median.middle)),
        standing.median.map_or(String::new(), |median| span(median, number)),
        ratio(&|ratio| change(ratio.middle)),
        ratio(&|ratio| span(ratio, change)),
        ratio(&|_| chance(standing.p)),
        standing.verdict.words().to_owned(),
    ]
}

fn span(interval: Interval, say: impl Fn(f64) -> String) -> String {
    format!("{} to {}", say(interval.low), say(interval.high))
}
