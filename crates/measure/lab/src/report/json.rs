//! A report as JSON, for programs. Its fields are in docs/lab/report.md, and a test holds them to that page.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::RunFacts;
use super::verdict::verdict;
use crate::analyze::comparison::Comparison;
use crate::experiment::design::Design;
use crate::run::results::Results;

/// Grows when a field goes or changes its meaning, and not when one is added.
const FORMAT: u32 = 1;

/// Everything that a report says, with the value of every trial.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport<'r> {
    format: u32,
    verdict: Vec<String>,
    conditions: RunFacts,
    cells: Vec<ReportCell>,
    #[serde(flatten)]
    comparison: &'r Comparison,
}

/// A cell in parts; `treatment` and `condition` are its names elsewhere.
#[derive(Clone, Debug, Serialize)]
struct ReportCell {
    subject: String,
    levels: BTreeMap<String, String>,
    treatment: String,
    condition: String,
}

impl<'r> RunReport<'r> {
    /// The report of a run.
    pub fn of(results: &Results, comparison: &'r Comparison) -> RunReport<'r> {
        let cells = Design::of(&results.experiment).cells.into_iter();
        RunReport {
            format: FORMAT,
            verdict: verdict(comparison),
            conditions: RunFacts::of(results),
            cells: cells
                .map(|it| ReportCell {
                    subject: it.subject,
                    levels: it.levels,
                    treatment: it.treatment,
                    condition: it.condition,
                })
                .collect(),
            comparison,
        }
    }

    /// Its text.
    pub fn text(&self) -> String {
        // What is not finite is null.
        format!("{:#}\n", serde_json::json!(self))
    }

    /// The same in one line, for files that are kept.
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::json!(self))
    }
}
