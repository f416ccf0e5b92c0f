//! Reports of a comparison: sentences and tables, on a terminal and in a page.

mod aims;
pub mod facts;
mod history;
pub mod json;
mod notes;
pub mod page;
pub mod picture;
pub mod pictures;
pub mod publish;
pub mod series_json;
mod table;
pub mod trend;
mod verdict;
pub mod weeks;

use stdx::words::counted;

use crate::analyze::against::could_show;
use crate::analyze::comparison::{CellStanding, Comparison, Metric};
use crate::analyze::effects::FactorEffect;
use crate::analyze::efficiency::Efficiency;
use crate::analyze::verdict::Interval;
use crate::record::quantity::Better;
use crate::record::quantity::{Unit, chance, change, number};

pub use history::{commits, grown_functions, history, nothing_worse, suspicion};
pub use notes::{kind, left_out, remarks};
pub use table::ReportTable;
pub use verdict::verdict;

/// The whole report, for a terminal.
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
    let basis = "No pairs: ratio, interval and p by ranks of all trials (Mann-Whitney); all intervals of a table hold \
                 together with 95 %. What the host did between the runs is in the difference, too.";
    format!(
        "{}\n\n{}{basis}{}\n",
        comparison.question,
        tables.collect::<String>(),
        of_few(&comparison.metrics, "trials")
    )
}

/// From this many trials on, an interval of their median of 95 % exists: of five, the true median lies outside of all
/// of them in 1 of 16 cases, whatever the distribution.
const INTERVAL_TRIALS_MIN: usize = 6;

/// The meaning of intervals of few values, which are trials or runs.
fn of_few(metrics: &[Metric], what: &str) -> String {
    let mut counts = metrics.iter().flat_map(|it| &it.standings).map(|it| it.values.len());
    match counts.any(|count| (1..INTERVAL_TRIALS_MIN).contains(&count)) {
        true => format!(
            " Of fewer than six {what} the interval of their median reaches from the least to the most, and means less \
             than 95 %: of two, the true median lies outside every other time."
        ),
        false => String::new(),
    }
}

/// For comparisons without pairs: whether more runs are needed to show anything.
fn too_few_values(metrics: &[Metric]) -> &'static str {
    match metrics.iter().all(could_show) {
        true => "",
        false => {
            " Where so few values are exchanged in so many comparisons, no difference could be shown, however large."
        }
    }
}

/// The basis of the comparison: trials and rounds.
pub fn basis(comparison: &Comparison) -> String {
    let left_out = match comparison.left_out.len() {
        0 => "none left out".to_owned(),
        count => format!("{count} left out because of doubts"),
    };
    let remarked = match comparison.remarked.len() {
        0 => String::new(),
        count => format!(", {count} with remarks that the page lists"),
    };
    format!(
        "{} in {}, {left_out}{remarked}. The unit is the trial; ratio, interval and p by ranks of the pairs within a round (Wilcoxon); all intervals of a table hold together with 95 %.{}",
        counted(comparison.trials, "trial"),
        counted(comparison.rounds, "round"),
        of_few(&comparison.metrics, "trials")
    )
}

/// All tables: a metric each, the one that decides first, then the trials that were left out.
pub fn tables(comparison: &Comparison) -> Vec<ReportTable> {
    let of_metric = |it: &Metric| std::iter::once(metric(it)).chain(effects(it)).collect::<Vec<_>>();
    let mut tables: Vec<ReportTable> = comparison.metrics.iter().flat_map(of_metric).collect();
    tables.extend(aims::table(&comparison.aims));
    tables.extend(efficiencies(comparison));
    tables.extend(left_out(comparison));
    tables
}

fn metric(metric: &Metric) -> ReportTable {
    let better = match metric.better {
        Some(Better::Lower) => "lower is better; ",
        Some(Better::Higher) => "higher is better; ",
        None => "",
    };
    let noise = metric
        .equals
        .map_or_else(String::new, |equals| format!("; equals differ by {}", span(equals, change)));
    let unit = unit(metric);
    ReportTable {
        title: format!(
            "{}: {better}below {} % does not matter{noise}",
            unit.title,
            number(metric.band * 100.0)
        ),
        header: vec!["cell", "trials", "median", "(95 %)", "against baseline", "(95 %)", "p", "verdict"],
        rows: metric.standings.iter().map(|standing| row(standing, unit.factor)).collect(),
    }
}

fn effects(metric: &Metric) -> Option<ReportTable> {
    if metric.effects.is_empty() {
        return None;
    }
    let row = |effect: &FactorEffect| {
        vec![
            effect.name.clone(),
            effect.rounds.to_string(),
            change(effect.ratio.middle),
            span(effect.ratio, change),
            chance(effect.p),
            effect.verdict.words().to_owned(),
        ]
    };
    Some(ReportTable {
        title: format!(
            "Effects on {}, each against the first level of its factor over all levels of the others; with ×, what two \
             give beyond both",
            unit(metric).title
        ),
        header: vec!["effect", "rounds", "ratio", "(95 %)", "p", "verdict"],
        rows: metric.effects.iter().map(row).collect(),
    })
}

fn efficiencies(comparison: &Comparison) -> Option<ReportTable> {
    let row = |efficiency: &Efficiency| {
        let Efficiency { rates: (below, all), busy_percent: (low, high), slope, ratio, .. } = *efficiency;
        let of_ratio = |say: &dyn Fn(Interval) -> String| ratio.map_or(String::new(), say);
        vec![
            efficiency.treatment.clone(),
            efficiency.trials.to_string(),
            format!("{below} of {all}"),
            number(efficiency.up_to),
            format!("{low:.0} to {high:.0} %"),
            slope.map_or("none".into(), |slope| number(slope.middle)),
            slope.map_or(String::new(), |slope| span(slope, number)),
            of_ratio(&|ratio| change(ratio.middle)),
            of_ratio(&|ratio| span(ratio, change)),
            of_ratio(&|_| chance(efficiency.p)),
            efficiency.verdict.words().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = comparison.efficiencies.iter().map(row).collect();
    (!rows.is_empty()).then(|| ReportTable {
        title: "Compute efficiency: requests/s for each percentage point of the machine's CPU, over the rates that do \
                not raise latency; three make a slope"
            .into(),
        header: vec![
            "treatment",
            "trials",
            "rates",
            "up to",
            "busy",
            "slope",
            "(95 %)",
            "against the first",
            "(95 %)",
            "p",
            "verdict",
        ],
        rows,
    })
}

/// The unit of a metric in its table.
fn unit(metric: &Metric) -> Unit {
    let medians = metric.standings.iter().filter_map(|standing| standing.median);
    Unit::of(&metric.name, medians.map(|median| median.middle).fold(0.0, f64::max))
}

fn row(standing: &CellStanding, factor: f64) -> Vec<String> {
    let ratio = |say: &dyn Fn(Interval) -> String| standing.ratio.map_or(String::new(), say);
    let median = standing.median.map(|median| median.times(factor));
    vec![
        standing.cell(),
        standing.values.len().to_string(),
        median.map_or("none".into(), |median| number(median.middle)),
        median.map_or(String::new(), |median| span(median, number)),
        ratio(&|ratio| change(ratio.middle)),
        ratio(&|ratio| span(ratio, change)),
        ratio(&|_| chance(standing.p)),
        standing.verdict.words().to_owned(),
    ]
}

/// A value without bounds has a dash.
fn span(interval: Interval, say: impl Fn(f64) -> String) -> String {
    if !interval.is_bounded() {
        return "-".to_owned();
    }
    format!("{} to {}", say(interval.low), say(interval.high))
}
