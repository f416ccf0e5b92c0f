//! Text reports of a history: its series, suspicions of the gate, and two commits compared.

use super::{ReportTable, metric, of_few, too_few_values};
use crate::history::MetricSeries;
use crate::history::commits::{self, Between, Side};
use crate::history::gate::{self, Suspicion, runs_min};
use crate::record::profile::{CpuProfile, Grown, grown};
use crate::record::quantity::{Unit, chance, change, number};
use std::collections::BTreeMap;

/// All series, a table for each experiment and machine.
pub fn history(series: &[MetricSeries]) -> String {
    if series.is_empty() {
        return "No run is kept yet: `evenkeel lab history --add RUN --commit COMMIT` keeps one.\n"
            .to_owned();
    }
    let tables = by_experiment(series).map(table);
    tables.map(|table| table.to_string()).collect::<Vec<_>>().join("\n")
}

/// Series of one experiment on one machine stand together.
pub(super) fn by_experiment(series: &[MetricSeries]) -> impl Iterator<Item = &[MetricSeries]> {
    series.chunk_by(|a, b| (&a.experiment, &a.machine) == (&b.experiment, &b.machine))
}

/// Of one experiment on one machine.
pub(super) fn table(series: &[MetricSeries]) -> ReportTable {
    ReportTable {
        title: format!("{} ({})", series[0].experiment, series[0].machine),
        header: vec![
            "metric",
            "cell",
            "runs",
            "newest",
            "commit",
            "of pinned",
            "against the first",
            "since the first",
        ],
        rows: series.iter().map(row).collect(),
    }
}

fn row(series: &MetricSeries) -> Vec<String> {
    let newest = &series.points[series.points.len() - 1];
    let levels = series.levels();
    let (level, first) = (levels[levels.len() - 1], levels[0]);
    let unit = Unit::of(&series.metric, newest.median.middle);
    vec![
        unit.title,
        series.cell.clone(),
        series.points.len().to_string(),
        number(newest.median.middle * unit.factor),
        newest.commit.clone(),
        if series.is_relative() { number(level) } else { String::new() },
        if first > 0.0 { change(level / first) } else { String::new() },
        series.sparkline(if series.is_relative() { 1.0 } else { unit.factor }),
    ]
}

/// The sentence that no series raises a suspicion, and from how many runs: few runs show little.
pub fn nothing_worse(series: &[MetricSeries]) -> String {
    let deciding: Vec<&MetricSeries> =
        series.iter().filter(|series| series.is_primary && !series.is_pinned()).collect();
    let same =
        |a: &&MetricSeries, b: &&MetricSeries| (&a.experiment, &a.machine) == (&b.experiment, &b.machine);
    let sentence = |series: &[&MetricSeries]| {
        let runs = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
        let place = format!("{} ({})", series[0].experiment, series[0].machine);
        let young = series.iter().filter(|series| series.points.len() < runs_min());
        let young: Vec<&str> = young.map(|series| series.cell.as_str()).collect();
        let least = runs_min();
        match young.len() {
            0 => format!("{place}: nothing became worse lately, in {runs} runs.\n"),
            count if count == series.len() => format!(
                "{place}: too few runs to see anything: there are {runs}, and it takes {least} at least.\n"
            ),
            _ => format!(
                "{place}: nothing became worse lately, in {runs} runs; too few runs to see anything of {}: it takes \
                 {least} at least.\n",
                young.join("; ")
            ),
        }
    };
    deciding.chunk_by(same).map(sentence).collect()
}

/// A suspicion, and the result of a rerun.
pub fn suspicion(suspicion: &Suspicion, confirmed: Option<bool>) -> String {
    let (series, point) = (&suspicion.series, &suspicion.change);
    let (good, bad) = (suspicion.last_good(), suspicion.culprit());
    let kernel = if good.kernel == bad.kernel {
        String::new()
    } else {
        format!(" The kernel changed, too: {} before, {} since.", good.kernel, bad.kernel)
    };
    let answer = match confirmed {
        Some(true) => "A rerun confirms it.",
        Some(false) => "A rerun does not confirm it.",
        None => "No rerun of it on this machine was there to confirm it.",
    };
    let (relative, host) = match series.is_relative() {
        true => (format!(" relative to {}", series.pinned), ""),
        false => {
            (String::new(), "\n  No subject is pinned to measure it by: a slower host would look the same.")
        }
    };
    // A ratio to the pinned subject has no unit.
    let most = if series.is_relative() { 0.0 } else { point.before.max(point.after) };
    let unit = Unit::of(&series.metric, most);
    format!(
        "{}, {}, on {}: {}{relative} became worse, {} ({} to {}; p {}).\n  Good at {}, worse since {}.{kernel}\n  {answer}{host}\n  {}\n",
        series.experiment,
        series.cell,
        series.machine,
        unit.title,
        change(point.after / point.before),
        number(point.before * unit.factor),
        number(point.after * unit.factor),
        chance(point.p),
        good.commit,
        bad.commit,
        series.sparkline(unit.factor),
    )
}

/// At most this many functions are listed.
const GROWN_MAX: usize = 10;

/// The location of a suspicion: the functions that grew.
pub fn grown_functions(suspicion: &Suspicion, profiles: &BTreeMap<usize, CpuProfile>) -> String {
    let commit = |place: usize| &*suspicion.series.points[place].commit;
    let (before, after) = match gate::sides(suspicion, profiles) {
        [Some(before), Some(after)] => (before, after),
        sides => {
            let side = if sides[0].is_none() { "before" } else { "since" };
            return format!(
                "  Where: no run {side} has a profile; `profile = true` in [measure] has each run sample one with perf.\n"
            );
        }
    };
    for (place, profile) in [before, after] {
        if let Some(why) = &profile.why_not {
            return format!("  Where: {} has no profile: {}\n", commit(place), printable(why));
        }
    }
    let (found, is_time) = grown(before.1, after.1);
    let sampled = format!(
        "{} samples at {} and {} at {}",
        before.1.samples(),
        commit(before.0),
        after.1.samples(),
        commit(after.0)
    );
    if found.is_empty() {
        return format!("  Where: no function grew by more than chance makes of {sampled}.\n");
    }
    let unit = if is_time { "µs of CPU time for each request" } else { "% of its CPU time" };
    let figure = |value: f64| number(if is_time { value } else { 100.0 * value });
    let line = |it: &Grown| {
        format!(
            "    +{}  {} to {}  {}\n",
            figure(it.after - it.before),
            figure(it.before),
            figure(it.after),
            printable(&it.name)
        )
    };
    let lines: String = found.iter().take(GROWN_MAX).map(line).collect();
    format!("  Where ({unit}; {sampled}):\n{lines}")
}

/// Without control characters for terminals: a profile has function names of other programs, and a history has the
/// entries of other machines.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Two commits, for a terminal.
pub fn commits(between: &Between) -> String {
    let Between { experiment, machine, old, new, unit, metrics } = between;
    let values_are = if *unit == commits::Unit::Run { "runs" } else { "trials" };
    let table = |it| {
        let mut table = metric(it);
        table.header[1] = values_are;
        format!("{table}\n")
    };
    let tables: String = metrics.iter().map(table).collect();
    let unit = match unit {
        commits::Unit::Trial => "No pairs: ratio, interval and p by ranks of all trials (Mann-Whitney); all intervals of a table \
                        hold together with 95 %. What the host did between the runs is in the difference, too."
            .to_owned(),
        commits::Unit::Run => format!(
            "The unit is the run: ratio, interval and p by ranks of the medians of {} and {} runs (Mann-Whitney); all \
             intervals of a table hold together with 95 %.",
            old.runs, new.runs
        ),
    };
    let more = match (between.unit, old.runs, new.runs) {
        (commits::Unit::Run, ..) | (commits::Unit::Trial, 1, 1) => String::new(),
        (commits::Unit::Trial, olds, news) => format!(
            " Of {olds} and {news} runs the newest of each: more of them are needed to be the unit themselves."
        ),
    };
    let values = || metrics.iter().flat_map(|it| &it.standings).map(|it| it.values.len());
    let few = if values().all(|count| count > 0) {
        of_few(metrics, values_are)
    } else {
        " An earlier version has kept a run without the values of its trials: only its medians are known."
            .to_owned()
    };
    format!(
        "{experiment} ({machine})\n\n{tables}{unit}{more}{}{few}{}\n",
        kernels(old, new),
        too_few_values(metrics)
    )
}

fn kernels(old: &Side, new: &Side) -> String {
    match old.kernel == new.kernel {
        true => String::new(),
        false => format!(" The kernel changed, too: {} before, {} since.", old.kernel, new.kernel),
    }
}
