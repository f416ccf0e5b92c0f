//! A table of costs from what `evenkeel lab report --json` says of the experiment costs.toml, whose levels have
//! the names of the figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use fleet::advise::{CpuArchitecture, InputFigure};
use serde::Deserialize;

/// Why a report is no table of costs.
#[derive(Debug, thiserror::Error)]
pub enum LabCostsError {
    /// Not JSON, or of another form.
    #[error("understand the run's report: {0}")]
    Json(String),
    /// The run of another experiment.
    #[error("the run has the level `{0}`, which is no cost: expected a run of experiments/costs.toml")]
    Level(String),
    /// No metric that costs follow from.
    #[error("the run has no {METRIC}: expected a run of experiments/costs.toml")]
    Metric,
    /// A cost without its interval.
    #[error("the run has {0} trials of `{1}` that count: at least {TRIALS_MIN} are needed for an interval")]
    Trials(usize, String),
    /// Two runs have it.
    #[error("two runs have `{0}`: expected one of each experiment")]
    Twice(String),
    /// Deletes are measured beside sets.
    #[error("the run has `{BESIDE_SETS}` and no `set`, so what a delete costs does not follow")]
    Set,
}

/// What costs follow from.
const METRIC: &str = "requests_per_cpu_second";
/// Sets and deletes in equal shares.
const BESIDE_SETS: &str = "set_and_delete";
/// Fewer trials have no interval of 95 % (docs/lab/report.md).
const TRIALS_MIN: usize = 6;

/// Levels, each with the figure that it is.
const LEVELS: [&str; 17] = [
    "get",
    "get_of_16",
    "get_4k",
    "get_64k",
    "set",
    "set_of_16",
    "set_4k",
    "set_64k",
    BESIDE_SETS,
    "multiget_16",
    "multiget_100",
    "tls_get",
    "tls_get_of_16",
    "tls_get_4k",
    "tls_get_64k",
    "udp_get",
    "flash_get",
];

#[derive(Deserialize)]
struct Report {
    conditions: Conditions,
    cells: Vec<Cell>,
    metrics: Vec<Metric>,
}

#[derive(Deserialize)]
struct Conditions {
    hosts: Vec<String>,
}

#[derive(Deserialize)]
struct Cell {
    levels: BTreeMap<String, String>,
    treatment: String,
    condition: String,
}

#[derive(Deserialize)]
struct Metric {
    name: String,
    standings: Vec<Standing>,
}

#[derive(Deserialize)]
struct Standing {
    treatment: String,
    condition: String,
    median: Interval,
    values: Vec<(u32, f64)>,
}

#[derive(Deserialize)]
struct Interval {
    low: Option<f64>,
    middle: Option<f64>,
    high: Option<f64>,
}

/// Costs that runs have measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabCosts {
    /// Hosts of the runs.
    pub hosts: Vec<String>,
    /// In µs, by the names of files.
    pub figures: BTreeMap<String, InputFigure>,
}

impl LabCosts {
    /// Adds what the report of one run says.
    ///
    /// # Errors
    /// If it is no report of one of the experiments, or has too few trials.
    pub fn add(&mut self, json: &str) -> Result<(), LabCostsError> {
        let report: Report =
            serde_json::from_str(json).map_err(|error| LabCostsError::Json(error.to_string()))?;
        let metric =
            report.metrics.iter().find(|metric| metric.name == METRIC).ok_or(LabCostsError::Metric)?;
        let mut costs = BTreeMap::new();
        for cell in &report.cells {
            let level = cell.levels.get("work").cloned().unwrap_or_default();
            if !LEVELS.contains(&level.as_str()) {
                return Err(LabCostsError::Level(level));
            }
            let is_of_cell = |standing: &&Standing| {
                (&standing.treatment, &standing.condition) == (&cell.treatment, &cell.condition)
            };
            let cost = metric.standings.iter().find(is_of_cell);
            let cost = cost.map_or(Err(LabCostsError::Trials(0, level.clone())), |it| it.cost(&level))?;
            costs.insert(level, cost);
        }
        if let Some(both) = costs.remove(BESIDE_SETS) {
            let set = costs.get("set").ok_or(LabCostsError::Set)?;
            costs.insert("delete".to_owned(), delete(&both, set));
        }
        for (level, cost) in costs {
            let name = format!("{level}_us");
            if self.figures.insert(name, cost).is_some() {
                return Err(LabCostsError::Twice(level));
            }
        }
        self.hosts.extend(report.conditions.hosts);
        self.hosts.sort_unstable();
        self.hosts.dedup();
        Ok(())
    }

    /// The file for `--costs`.
    pub fn to_toml(&self, architecture: CpuArchitecture, clock_ghz: &InputFigure) -> String {
        let mut text = format!(
            "# CPU time of the server in µs, as `evenkeel advise costs` read it from runs on {}.\narchitecture = \"{}\"\n",
            self.hosts.join(", "),
            architecture.as_str()
        );
        let clock = std::iter::once(("clock_ghz", clock_ghz));
        for (name, figure) in clock.chain(self.figures.iter().map(|(name, figure)| (name.as_str(), figure))) {
            let InputFigure { value, low, high, basis, source } = figure;
            let [value, low, high] = [value, low, high].map(|number| rounded(*number));
            write!(
                text,
                "\n[figures.{name}]\nvalue = {value}\nlow = {low}\nhigh = {high}\nsource = \"{}\"\nfrom = \"{source}\"\n",
                basis.as_str()
            )
            .expect("a string takes it");
        }
        text
    }
}

/// So many multiplications, each of the result of the one before, so that a CPU cannot begin the next one sooner. Their time is the clock.
pub fn multiply(count: u64) -> u64 {
    // A square of a square is no single multiplication, so that the compiler leaves each of them.
    (0..count).fold(std::hint::black_box(3_u64), |product, _| product.wrapping_mul(product))
}

/// Four digits, which is more than the intervals have.
fn rounded(number: f64) -> String {
    let digits = 3 - number.abs().max(1e-9).log10().floor() as i32;
    let places = usize::try_from(digits).unwrap_or(0);
    format!("{number:.places$}")
}

impl Standing {
    fn cost(&self, level: &str) -> Result<InputFigure, LabCostsError> {
        let (Some(low), Some(middle), Some(high)) = (self.median.low, self.median.middle, self.median.high)
        else {
            return Err(LabCostsError::Trials(self.values.len(), level.to_owned()));
        };
        if self.values.len() < TRIALS_MIN {
            return Err(LabCostsError::Trials(self.values.len(), level.to_owned()));
        }
        let us = |per_second: f64| 1e6 / per_second;
        let source = format!("`{level}` of the lab's experiment, {} trials", self.values.len());
        Ok(InputFigure::measured(us(middle), us(high), us(low), source))
    }
}

/// Of sets and deletes in equal shares each request takes the mean of both.
fn delete(both: &InputFigure, set: &InputFigure) -> InputFigure {
    let value = (2.0 * both.value - set.value).max(0.0);
    // Errors of both are independent.
    let off = |both_off: f64, set_off: f64| (2.0 * both_off).hypot(set_off);
    InputFigure::measured(
        value,
        (value - off(both.value - both.low, set.high - set.value)).max(0.0),
        value + off(both.high - both.value, set.value - set.low),
        format!("{}, less `set`", both.source),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::moderate;
    use crate::{replace_costs, usual_inputs};

    fn report(levels: &[(&str, f64, usize)]) -> String {
        let cell = |level: &str| {
            serde_json::json!({ "subject": "evenkeel", "levels": { "work": level },
                "treatment": "evenkeel", "condition": format!("work={level}") })
        };
        let standing = |(level, median, trials): &(&str, f64, usize)| {
            serde_json::json!({ "treatment": "evenkeel", "condition": format!("work={level}"),
                "median": { "low": median * 0.8, "middle": median, "high": median * 1.25 },
                "values": (0..*trials).map(|round| (round, *median)).collect::<Vec<_>>() })
        };
        let cells: Vec<_> = levels.iter().map(|(level, ..)| cell(level)).collect();
        let standings: Vec<_> = levels.iter().map(standing).collect();
        serde_json::json!({ "format": 1, "conditions": { "hosts": ["h1"] }, "cells": cells,
            "metrics": [{ "name": METRIC, "standings": standings }] })
        .to_string()
    }

    #[test]
    fn a_run_becomes_a_table_that_advice_reads() {
        let mut costs = LabCosts::default();
        costs.add(&report(&[("set", 200_000.0, 6), (BESIDE_SETS, 250_000.0, 6)])).expect("a run");
        costs.add(&report(&[("flash_get", 100_000.0, 6)])).expect("another run");
        let clock = InputFigure::measured(4.0, 3.9, 4.1, "a test");
        let text = costs.to_toml(CpuArchitecture::Arm, &clock);
        let mut inputs = usual_inputs(moderate());
        replace_costs(&mut inputs, &text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(inputs.costs.architecture, CpuArchitecture::Arm);
        assert_eq!(inputs.costs.clock_ghz, clock);
        let set = &inputs.costs.set_us;
        assert_eq!((set.value, set.low, set.high), (5.0, 4.0, 6.25));
        assert_eq!(inputs.costs.flash_get_us.value, 10.0);
        // Both take 4 µs on average, and a set 5.
        let delete = &inputs.costs.delete_us;
        assert!((delete.value - 3.0).abs() < 1e-3 && delete.low < 1.7 && delete.high > 5.0, "{delete:?}");
    }

    #[test]
    fn other_runs_are_refused() {
        let refused = |levels: &[(&str, f64, usize)]| {
            LabCosts::default().add(&report(levels)).expect_err("no table of costs").to_string()
        };
        assert!(refused(&[("get-d1-c64", 1e5, 6)]).contains("level `get-d1-c64`"));
        assert!(refused(&[("get", 1e5, 5)]).starts_with("the run has 5 trials of `get`"));
        assert!(refused(&[(BESIDE_SETS, 1e5, 6)]).contains("no `set`"));
        let mut twice = LabCosts::default();
        twice.add(&report(&[("get", 1e5, 6)])).expect("a run");
        let error = twice.add(&report(&[("get", 1e5, 6)])).expect_err("twice").to_string();
        assert!(error.starts_with("two runs have `get`"), "{error}");
        assert!(twice.add("{}").expect_err("no report").to_string().starts_with("understand"));
    }
}
