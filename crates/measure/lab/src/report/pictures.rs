//! Pictures of a run: what its records suffice for, in the order of the page.

use std::collections::BTreeSet;

use stdx::statistics::median;

use crate::analyze::compare::compare_metric;
use crate::analyze::comparison::{Comparison, Metric};
use crate::experiment::Experiment;
use crate::experiment::design::{Cell, Design, is_condition};
use crate::record::TrialRecord;
use crate::record::quantity::{is_latency, title};
use crate::report::picture::percentiles::{PERCENTILES, PercentileCurve};
use crate::report::picture::seconds::{SecondsPanel, TrialSeconds};
use crate::report::picture::{curves, dots, heat, percentiles, seconds};
use crate::run::results::Results;

/// Whether any two trials differ. A picture of points that all lie at one place (no errors in any trial) shows less than the table.
fn varies(metric: &Metric) -> bool {
    let mut values = metric.standings.iter().flat_map(|cell| &cell.values).map(|(_, value)| value);
    values.next().is_some_and(|first| values.any(|value| value != first))
}

/// A picture of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Its file's name, without an ending.
    pub name: String,
    /// What it shows, in half a sentence.
    pub caption: String,
    /// The text of the SVG.
    pub svg: String,
}

/// All pictures for which a run's records suffice.
pub fn pictures(results: &Results, comparison: &Comparison) -> Vec<Picture> {
    let design = Design::of(&results.experiment);
    let valid: Vec<&TrialRecord> = results.valid().collect();
    let mut all = Gallery::default();
    let primary = &results.experiment.measure.primary;
    for metric in comparison.metrics.iter().filter(|metric| metric.name == *primary || varies(metric)) {
        let caption = format!("{} of each cell", plain(&metric.name));
        all.add(format!("cells-{}", metric.name), caption, dots::dots(metric));
    }
    let throughput = known(&valid, &["requests_per_second"], "_per_second");
    let latency = known(&valid, &["p99_us", "p95_us"], "_us");
    if let Some((throughput, latency)) = throughput.zip(latency).filter(|_| has_steps(&results.experiment)) {
        let of = |name: &str| -> Metric { compare_metric(results, name) };
        let caption = format!("{} over {}", plain(&latency), plain(&throughput));
        all.add("curves".into(), caption, curves::curves(&of(&throughput), &of(&latency)));
    }
    let (conditions, cells) = (design.condition_names(), |condition: &str| -> Vec<&Cell> {
        design.cells.iter().filter(|cell| cell.condition == condition).collect()
    });
    let panel = |condition: &&str| {
        let lines = cells(condition).iter().map(|cell| line(cell, &valid)).collect();
        ((*condition).to_owned(), lines)
    };
    let panels: Vec<(String, Vec<PercentileCurve>)> = conditions.iter().map(panel).collect();
    let remark = format!("Medians of trials, logarithmic{}.", doubtful(&valid));
    all.add(
        "percentiles".into(),
        "percentiles of latency".into(),
        percentiles::percentiles(&remark, &panels),
    );
    for metric in sampled(&valid) {
        let panel = |condition: &&str| seconds_panel(condition, &cells(condition), results, &metric);
        let panels: Vec<SecondsPanel> = conditions.iter().map(panel).collect();
        let warm_up_s = results.experiment.workload.warm_up_s;
        let caption = format!("{} second by second", plain(&metric));
        all.add(format!("seconds-{metric}"), caption, seconds::seconds(&metric, &panels, warm_up_s));
    }
    for cell in &design.cells {
        if let Some(record) = middle_trial(cell, &valid, &results.experiment.measure.primary) {
            // The host's CPUs only carry out the machine's, in whatever order.
            let inside = record.guest.as_ref().map(|guest| &guest.samples).filter(|it| !it.is_empty());
            let place = if inside.is_some() { ", in the virtual machine" } else { "" };
            let remark = format!(
                "Shares of each CPU in trial {:04}, the middle one{place}; bars are means.",
                record.place
            );
            let picture = heat::heat(&cell.name(), &remark, inside.unwrap_or(&record.samples));
            all.add(format!("cpus-{}", cell.name()), cpus_caption(cell), picture);
        }
    }
    all.0
}

/// Whether conditions are steps of a quantity, such as a number of threads: a line from one to the next means something.
fn has_steps(experiment: &Experiment) -> bool {
    let mut conditions = experiment.factors.iter().filter(|factor| is_condition(factor, experiment));
    conditions.all(|factor| {
        factor.levels.iter().all(|level| level.name.starts_with(|letter: char| letter.is_ascii_digit()))
    })
}

/// Pictures, each with a name of its own.
#[derive(Default)]
struct Gallery(Vec<Picture>);

impl Gallery {
    fn add(&mut self, name: String, caption: String, svg: Option<String>) {
        let name = unlike(file_name(&name), &self.0);
        self.0.extend(svg.map(|svg| Picture { name, caption, svg }));
    }
}

/// A metric's name for people, without its unit, which depends on the values.
pub(super) fn plain(metric: &str) -> String {
    let title = title(metric);
    title.split(" (").next().unwrap_or_default().to_owned()
}

/// The caption of the picture of a cell's CPUs.
pub(super) fn cpus_caption(cell: &Cell) -> String {
    format!("shares of each CPU, {}", cell.name())
}

/// A metric that records have: one of the preferred, or the first with that ending.
fn known(records: &[&TrialRecord], preferred: &[&str], ending: &str) -> Option<String> {
    let names: BTreeSet<&String> = records.iter().flat_map(|record| record.metrics.keys()).collect();
    let first = preferred.iter().map(|name| (*name).to_owned()).find(|name| names.contains(name));
    first.or_else(|| names.into_iter().find(|name| name.ends_with(ending)).cloned())
}

/// Metrics of the load that are sampled, the two that people look at first.
fn sampled(records: &[&TrialRecord]) -> Vec<String> {
    let names: BTreeSet<&String> =
        records.iter().flat_map(|record| &record.samples).flat_map(|sample| sample.load.keys()).collect();
    let first = |preferred: &[&str]| {
        preferred.iter().map(|name| (*name).to_owned()).find(|name| names.contains(name))
    };
    let found = [first(&["requests_per_second", "keys_per_second"]), first(&["p99_us", "p95_us", "mean_us"])];
    found.into_iter().flatten().collect()
}

/// A mark for pictures of latencies that are not compared.
fn doubtful(records: &[&TrialRecord]) -> String {
    match records.iter().filter(|record| record.latencies_are_doubtful).count() {
        0 => String::new(),
        some if some == records.len() => String::from("; DOUBTFUL, not compared"),
        some => format!("; {some} of {} DOUBTFUL, not compared", records.len()),
    }
}

fn line(cell: &Cell, records: &[&TrialRecord]) -> PercentileCurve {
    let points = PERCENTILES.iter().filter_map(|(metric, name)| {
        let own = records.iter().filter(|record| cell.holds(record));
        let values: Vec<f64> = own.filter_map(|record| record.metrics.get(*metric).copied()).collect();
        (!values.is_empty()).then(|| (*name, median(&values)))
    });
    (cell.treatment.clone(), points.collect())
}

fn seconds_panel(condition: &str, cells: &[&Cell], results: &Results, metric: &str) -> SecondsPanel {
    // Trials that do not count, or whose figure is not compared, are drawn all the same, in grey.
    let counts =
        |record: &&TrialRecord| record.is_valid() && !(record.latencies_are_doubtful && is_latency(metric));
    let (counted, others): (Vec<&TrialRecord>, Vec<&TrialRecord>) = results.records.iter().partition(counts);
    SecondsPanel {
        condition: condition.to_owned(),
        treatments: cells
            .iter()
            .map(|cell| (cell.treatment.clone(), series(cell, &counted, metric)))
            .collect(),
        doubtful: cells.iter().flat_map(|cell| series(cell, &others, metric)).collect(),
    }
}

fn series(cell: &Cell, records: &[&TrialRecord], metric: &str) -> Vec<TrialSeconds> {
    let own = records.iter().filter(|record| cell.holds(record));
    let trial = |record: &&TrialRecord| -> TrialSeconds {
        let samples = record.samples.iter();
        samples.filter_map(|sample| Some((sample.at_s, *sample.load.get(metric)?))).collect()
    };
    own.map(trial).collect()
}

/// The trial whose value is the median, or just below: one that is typical.
fn middle_trial<'r>(cell: &Cell, records: &[&'r TrialRecord], metric: &str) -> Option<&'r TrialRecord> {
    let own = records.iter().copied().filter(|record| cell.holds(record));
    let mut own: Vec<(f64, &TrialRecord)> =
        own.filter_map(|record| Some((*record.metrics.get(metric)?, record))).collect();
    own.sort_by(|a, b| a.0.total_cmp(&b.0));
    own.get(own.len().saturating_sub(1) / 2).map(|(_, record)| *record)
}

/// Letters of a file's name: of four bytes each and with a number and an ending, file systems take them (255 bytes).
const FILE_NAME_MAX: usize = 60;

/// Letters, digits and dashes.
fn file_name(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").chars().take(FILE_NAME_MAX).collect()
}

/// A name that no other picture has: `0,2-3` and `0-2,3` have the same letters and digits.
fn unlike(name: String, others: &[Picture]) -> String {
    let is_new = |name: &String| others.iter().all(|other| other.name != *name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(is_new).expect("numbers have no end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_has_a_name_of_its_own() {
        let mut all = Gallery::default();
        for cell in ["cpus-0,2-3", "cpus-0-2,3", "cpus-0,2,3", "cpus-1"] {
            all.add(cell.to_owned(), String::new(), Some(String::new()));
        }
        let names: Vec<&str> = all.0.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["cpus-0-2-3", "cpus-0-2-3-2", "cpus-0-2-3-3", "cpus-1"]);
        let long = format!("cpus-{}", "größe ".repeat(100));
        assert!(
            file_name(&long).len() < 255 - ".svg".len() - 8 && file_name(&long).starts_with("cpus-größe-")
        );
    }
}
