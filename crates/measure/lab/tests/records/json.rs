//! The fields of a report as JSON are those that its page documents.

use std::collections::{BTreeMap, BTreeSet};

use lab::analyze::aims::{AimStanding, AimVerdict, WantedRatio};
use lab::analyze::compare::compare;
use lab::report::json::RunReport;
use serde_json::Value;

use crate::pages::{STRATEGIES, results};

/// Objects of intervals, which all have the same fields.
const INTERVALS: [&str; 4] = ["median", "ratio", "slope", "equals"];

/// The fields of each object, by its path; objects by subject or factor have any.
fn collect(path: &str, value: &Value, found: &mut BTreeMap<String, BTreeSet<String>>) {
    let name = path.rsplit('.').next().unwrap_or(path);
    match value {
        Value::Object(_) if ["versions", "programs", "levels"].contains(&name) => {}
        Value::Object(fields) => {
            let path = if INTERVALS.contains(&name) { "an interval" } else { path };
            found.entry(path.to_owned()).or_default().extend(fields.keys().cloned());
            for (field, value) in fields {
                collect(&format!("{path}.{field}"), value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(&format!("{path}[]"), value, found)),
        _ => {}
    }
}

/// The words in code in the second column of the table of objects. What a sentence explains about a field in code is in brackets.
fn documented(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let table = page.split("| object | fields |").nth(1).expect("a table of objects");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let code =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        let (objects, fields) = row[1..].split_once('|').expect("two columns");
        // After a colon, a field's values.
        let fields = fields.split([';', '|']).flat_map(|part| code(part.split(':').next().unwrap_or(part)));
        let fields: BTreeSet<String> = fields.collect();
        let objects = match objects.trim() {
            "the report" => vec!["report".to_owned()],
            objects if objects.contains("`median`") => vec!["an interval".to_owned()],
            objects => code(objects).iter().map(|object| format!("report.{object}")).collect(),
        };
        objects.into_iter().for_each(|object| drop(all.insert(object, fields.clone())));
    }
    all
}

#[test]
fn the_page_has_every_field_of_the_report_and_no_other() {
    // Four rates instead of four numbers of threads, and the baseline once more.
    let mut results = results();
    let [left_out, remarked] = [5, 7];
    results.records[left_out].doubts.push("steal: other guests".to_owned());
    results.records[remarked].remarks.push("slip: it was late".to_owned());
    for record in &mut results.records {
        let threads: f64 = record.levels["threads"].parse().expect("a number");
        let metrics = [
            ("requests_per_second", 1_000.0 * threads),
            ("host_busy_share", threads / 100.0),
            ("p99_us", 100.0 + threads * 0.1 + f64::from(record.place) * 0.01),
        ];
        record.metrics.extend(metrics.map(|(name, value)| (name.to_owned(), value)));
        record.program = Some("00".repeat(32));
    }
    let mut comparison = compare(&results);
    comparison.metrics[0].equals = comparison.metrics[0].standings[1].ratio;
    let aim = |must| AimStanding {
        cell: "spread, threads=8".to_owned(),
        metric: "p99_us".to_owned(),
        must,
        ratio: comparison.metrics[0].standings[1].ratio,
        verdict: AimVerdict::Open,
    };
    comparison.aims =
        vec![aim(WantedRatio::AtLeast(1.2)), aim(WantedRatio::AtMost(1.0)), aim(WantedRatio::Within(0.01))];
    let json: Value = serde_json::from_str(&RunReport::of(&results, &comparison).text()).expect("JSON");
    let mut found = BTreeMap::new();
    collect("report", &json, &mut found);
    assert!(STRATEGIES.contains("[[factor]]") && json["cells"][0]["levels"]["threads"] == "8", "{json}");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/lab/report.md"));
    assert_eq!(found, documented(&page.expect("the page")));
}
