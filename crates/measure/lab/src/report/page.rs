//! HTML report of a run, one self-contained page: verdict and the table that decides, pictures, other tables, the
//! conditions of the run.

use std::collections::BTreeSet;

use stdx::statistics::median;

use super::table::markup;
use super::verdict::sentences;
use super::{basis, noted, tables};
use crate::analyze::compare::compare_metric;
use crate::analyze::comparison::{Comparison, Metric};
use crate::experiment::design::{Cell, Design};
use crate::record::TrialRecord;
use crate::record::quantity::{Unit, is_latency};
use crate::report::picture::percentiles::{PERCENTILES, PercentileCurve};
use crate::report::picture::{bars, curves, heat, percentiles, seconds};
use crate::run::results::Results;

/// A picture of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Its file's name, without an ending.
    pub name: String,
    /// The text of the SVG.
    pub svg: String,
}

/// All pictures for which a run's records suffice, in the order of the page.
pub fn pictures(results: &Results, comparison: &Comparison) -> Vec<Picture> {
    let design = Design::of(&results.experiment);
    let valid: Vec<&TrialRecord> = results.valid().collect();
    let mut all: Vec<Picture> = Vec::new();
    let mut add = |name: String, svg: Option<String>| {
        let name = unlike(file_name(&name), &all);
        all.extend(svg.map(|svg| Picture { name, svg }));
    };
    for metric in &comparison.metrics {
        add(format!("bars-{}", metric.name), bars::bars(metric));
    }
    let throughput = known(&valid, &["requests_per_second"], "_per_second");
    let latency = known(&valid, &["p99_us", "p95_us"], "_us");
    if let Some((throughput, latency)) = throughput.zip(latency) {
        let of = |name: &str| -> Metric { compare_metric(results, name) };
        add("curves".into(), curves::curves(&of(&throughput), &of(&latency)));
    }
    for condition in design.condition_names() {
        let cells: Vec<&Cell> = design.cells.iter().filter(|cell| cell.condition == condition).collect();
        let under = if condition.is_empty() { String::new() } else { format!(", {condition}") };
        let lines: Vec<PercentileCurve> = cells.iter().map(|cell| line(cell, &valid)).collect();
        let what = format!("Percentiles of latency{under}: medians of trials{}", doubtful(&cells, &valid));
        add(format!("percentiles{under}"), percentiles::percentiles(&what, &lines));
        for metric in sampled(&valid) {
            // Trials that do not count, or whose figure is not compared, are drawn all the same, in grey.
            let counts = |record: &&TrialRecord| {
                record.is_valid() && !(record.latencies_are_doubtful && is_latency(&metric))
            };
            let counted: Vec<&TrialRecord> = valid.iter().copied().filter(counts).collect();
            let others: Vec<&TrialRecord> = results.records.iter().filter(|record| !counts(record)).collect();
            let mut trials: Vec<seconds::Trials> =
                cells.iter().map(|cell| series(cell, &counted, &metric)).collect();
            let mut grey: Vec<Vec<(f64, f64)>> =
                cells.iter().flat_map(|cell| series(cell, &others, &metric).1).collect();
            let all = || trials.iter().flat_map(|(_, trials)| trials).chain(&grey).flatten();
            let unit = Unit::of(&metric, all().map(|point| point.1).fold(0.0, f64::max));
            let points = trials.iter_mut().flat_map(|(_, trials)| trials).chain(&mut grey).flatten();
            points.for_each(|point| point.1 *= unit.factor);
            let warm_up_s = results.experiment.workload.warm_up_s;
            let most = trials.iter().map(|(_, trials)| trials.len()).max().unwrap_or(0);
            let drawn = match seconds::one_in(most, trials.len()) {
                1 => "every trial".to_owned(),
                some => format!("one trial in {some} and the median of all"),
            };
            let doubtful = if grey.is_empty() { "" } else { "; doubtful ones in grey" };
            let what = format!("{}{under}: {drawn}, second by second{doubtful}", unit.title);
            let picture = seconds::seconds(&what, &unit.title, &trials, &grey, warm_up_s);
            add(format!("seconds-{metric}{under}"), picture);
        }
    }
    for cell in &design.cells {
        if let Some(record) = middle_trial(cell, &valid, &results.experiment.measure.primary) {
            let mut what = format!("{}: trial {:04}, the middle one", cell.name(), record.place);
            // The host's CPUs only carry out the machine's, in whatever order.
            let inside = record.guest.as_ref().map(|guest| &guest.samples).filter(|it| !it.is_empty());
            if inside.is_some() {
                what += ", in the virtual machine";
            }
            add(format!("cpus-{}", cell.name()), heat::heat(&what, inside.unwrap_or(&record.samples)));
        }
    }
    all
}

/// The page.
pub fn page(results: &Results, comparison: &Comparison, pictures: &[Picture]) -> String {
    let question = markup(&comparison.question);
    let sentences: String = sentences(comparison)
        .iter()
        .map(|(mark, sentence)| format!("<p class=\"{}\">{}</p>\n", mark.class(), markup(sentence)))
        .collect();
    let remarks = noted("Remarks", "what to know", &comparison.remarked);
    let tables = tables(comparison);
    let (deciding, others) = tables.split_first().expect("the metric that decides has a table");
    let others: String = others.iter().chain(&remarks).map(super::ReportTable::html).collect();
    let figures = match pictures {
        [] => "<p class=\"basis\">No trial that counts has figures to draw.</p>\n".to_owned(),
        pictures => pictures.iter().map(figure).collect(),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{question}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <h1>{question}</h1>\n<section class=\"verdict\">\n{sentences}</section>\n{}<p class=\"basis\">{}</p>\n\
         <h2>Pictures</h2>\n<div class=\"pictures\">\n{figures}</div>\n<h2>Other tables</h2>\n{others}\
         <h2>How it was run</h2>\n{}<pre>{}</pre>\n</body></html>\n",
        deciding.html(),
        markup(&basis(comparison)),
        circumstances(results),
        markup(results.notation.trim()),
    )
}

/// Pixels of a picture that can still be read in a column of its own; a wider one has the width of the page.
const COLUMN_MAX: u32 = 960;

fn figure(picture: &Picture) -> String {
    let width = picture.svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok());
    let class = if width.is_some_and(|width: u32| width > COLUMN_MAX) { " class=\"wide\"" } else { "" };
    format!("<figure id=\"{}\"{class}>{}</figure>\n", picture.name, picture.svg)
}

/// The style of this page and of the trends page.
pub(super) const STYLE: &str = "\
 :root { color-scheme: light dark; --rule: #d8dbdf; --dim: #6b7280; --good: #007a5a; --bad: #b84700; --other: #005f99 }\
 @media (prefers-color-scheme: dark) { :root { --rule: #3a4047; --dim: #9aa1ab; --good: #3fc79a; --bad: #ff9a57;\
 --other: #6bb8f0 } }\
 body { font: 15px/1.5 system-ui, sans-serif; max-width: 88rem; margin: 2rem auto; padding: 0 1.5rem; overflow-wrap: anywhere }\
 h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem } h3 { font-size: 1rem; margin-bottom: .4rem }\
 .verdict p { font-size: 1.1rem; border-left: 5px solid var(--dim); padding-left: .9rem; margin: .5rem 0 }\
 .verdict p.better { border-color: var(--good) } .verdict p.worse, .verdict p.warning { border-color: var(--bad) }\
 .verdict p.different { border-color: var(--other) } .verdict p.warning { color: var(--bad); font-weight: 600 }\
 .pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1.2rem;\
 align-items: start } figure { margin: 0 } svg { width: 100%; max-width: 52rem; height: auto } .wide { overflow-x: auto }\
 figure.wide { grid-column: 1 / -1 } figure.wide svg { width: auto; max-width: none }\
 table { border-collapse: collapse } th, td { text-align: left; padding: .2rem .7rem; border-bottom: 1px solid var(--rule);\
 white-space: nowrap } .sparks { font-size: .6rem } .long { white-space: normal; min-width: 24rem } .n { text-align: right; font-variant-numeric: tabular-nums }\
 tr[class] td:last-child { font-weight: 600 } tr.better td:last-child { color: var(--good) }\
 tr.worse td:last-child { color: var(--bad) } tr.different td:last-child { color: var(--other) }\
 tr.none td:last-child { color: var(--dim); font-weight: 400 } .basis { color: var(--dim) } pre { overflow-x: auto; border: 1px solid var(--rule); padding: 1rem }";

/// Kernels, hosts, versions.
fn circumstances(results: &Results) -> String {
    let each = |say: fn(&TrialRecord) -> Option<String>| -> String {
        let distinct: BTreeSet<String> = results.records.iter().filter_map(say).collect();
        distinct.into_iter().collect::<Vec<_>>().join(", ")
    };
    let rows = [
        ("host", each(|record| Some(record.host.clone()))),
        ("kernel", each(|record| Some(record.kernel.clone()))),
        (
            "kernels of virtual machines",
            each(|record| {
                record.guest.as_ref().map(|guest| format!("{} ({})", guest.kernel, guest.accelerator))
            }),
        ),
        ("versions", each(|record| Some(format!("{}: {}", record.subject, record.version.clone()?)))),
        ("rounds", results.experiment.repeat.rounds.to_string()),
        ("seed of the order", results.experiment.repeat.seed.to_string()),
    ];
    let filled = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let rows: String = filled
        .map(|(name, value)| format!("<tr><th>{name}</th><td>{}</td></tr>\n", markup(&value)))
        .collect();
    format!("<table>\n{rows}</table>\n")
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
fn doubtful(cells: &[&Cell], records: &[&TrialRecord]) -> String {
    let own = || records.iter().filter(|record| cells.iter().any(|cell| cell.holds(record)));
    let doubtful = own().filter(|record| record.latencies_are_doubtful).count();
    match doubtful {
        0 => String::new(),
        some if some == own().count() => String::from("; DOUBTFUL, not compared"),
        some => format!("; {some} of {} DOUBTFUL, not compared", own().count()),
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

fn series(cell: &Cell, records: &[&TrialRecord], metric: &str) -> seconds::Trials {
    let own = records.iter().filter(|record| cell.holds(record));
    let trial = |record: &&TrialRecord| -> Vec<(f64, f64)> {
        let samples = record.samples.iter();
        samples.filter_map(|sample| Some((sample.at_s, *sample.load.get(metric)?))).collect()
    };
    (cell.treatment.clone(), own.map(trial).collect())
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
        let mut all = Vec::new();
        for cell in ["cpus-0,2-3", "cpus-0-2,3", "cpus-0,2,3", "cpus-1"] {
            all.push(Picture { name: unlike(file_name(cell), &all), svg: String::new() });
        }
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["cpus-0-2-3", "cpus-0-2-3-2", "cpus-0-2-3-3", "cpus-1"]);
        let long = format!("cpus-{}", "größe ".repeat(100));
        assert!(
            file_name(&long).len() < 255 - ".svg".len() - 8 && file_name(&long).starts_with("cpus-größe-")
        );
    }
}
