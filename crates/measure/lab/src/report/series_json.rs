//! A history as JSON, for programs and for the console. Its fields are in docs/lab/report.md.

use serde::Serialize;

use super::history::by_experiment;
use crate::history::MetricSeries;
use crate::history::gate::{Suspicion, suspicions};
use crate::record::quantity::{Better, Unit, change, number};

/// Grows when a field goes or changes its meaning, and not when one is added.
const FORMAT: u32 = 1;
/// The newest points of each series: more are in no picture.
const POINTS_MAX: usize = 200;

/// All series, and those that seem to have become worse.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryReport {
    format: u32,
    suspicions: Vec<SuspectedSeries>,
    experiments: Vec<ExperimentSeries>,
}

/// Series of one experiment on one machine.
#[derive(Clone, Debug, Serialize)]
struct ExperimentSeries {
    experiment: String,
    machine: String,
    series: Vec<SeriesReport>,
}

/// One metric of one cell.
#[derive(Clone, Debug, Serialize)]
struct SeriesReport {
    cell: String,
    metric: String,
    /// The metric with its unit, for people.
    title: String,
    is_primary: bool,
    better: Option<&'static str>,
    /// The cell that it is measured by; null if levels are medians.
    pinned: Option<String>,
    runs: usize,
    /// The newest median, for people.
    newest: String,
    /// The newest level against the first one, for people.
    against_first: Option<String>,
    points: Vec<SeriesPoint>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
struct SeriesPoint {
    commit: String,
    unix_s: u64,
    trials: usize,
    median: f64,
    low: f64,
    high: f64,
    /// The judged value: the ratio to the pinned cell, or the median.
    level: f64,
}

/// A series that seems to have become worse.
#[derive(Clone, Debug, Serialize)]
struct SuspectedSeries {
    experiment: String,
    machine: String,
    cell: String,
    title: String,
    /// For people, such as `+12 %`.
    change: String,
    good: String,
    worse_since: String,
    p: f64,
}

impl HistoryReport {
    /// Of these series.
    pub fn of(series: &[MetricSeries]) -> HistoryReport {
        let experiments = by_experiment(series).map(|of_one| ExperimentSeries {
            experiment: of_one[0].experiment.clone(),
            machine: of_one[0].machine.clone(),
            series: of_one.iter().map(SeriesReport::of).collect(),
        });
        let suspicions = suspicions(series).iter().map(SuspectedSeries::of).collect();
        HistoryReport { format: FORMAT, suspicions, experiments: experiments.collect() }
    }

    /// Its text.
    pub fn text(&self) -> String {
        // What is not finite is null.
        format!("{:#}\n", serde_json::json!(self))
    }
}

impl SeriesReport {
    fn of(series: &MetricSeries) -> SeriesReport {
        let newest = &series.points[series.points.len() - 1];
        let levels = series.levels();
        let (level, first) = (levels[levels.len() - 1], levels[0]);
        let unit = Unit::of(&series.metric, newest.median.middle);
        let point = |(point, level): (&crate::history::Point, f64)| SeriesPoint {
            commit: point.commit.clone(),
            unix_s: point.began_unix_s,
            trials: point.trials,
            median: point.median.middle,
            low: point.median.low,
            high: point.median.high,
            level,
        };
        let left_out = levels.len().saturating_sub(POINTS_MAX);
        SeriesReport {
            cell: series.cell.clone(),
            metric: series.metric.clone(),
            is_primary: series.is_primary,
            better: series.better.map(|better| match better {
                Better::Lower => "lower",
                Better::Higher => "higher",
            }),
            pinned: series.is_relative().then(|| series.pinned.clone()),
            runs: series.points.len(),
            newest: number(newest.median.middle * unit.factor),
            title: unit.title,
            against_first: (first > 0.0).then(|| change(level / first)),
            points: series.points.iter().zip(levels).skip(left_out).map(point).collect(),
        }
    }
}

impl SuspectedSeries {
    fn of(suspicion: &Suspicion) -> SuspectedSeries {
        let (series, point) = (&suspicion.series, &suspicion.change);
        SuspectedSeries {
            experiment: series.experiment.clone(),
            machine: series.machine.clone(),
            cell: series.cell.clone(),
            title: Unit::of(&series.metric, point.before.max(point.after)).title,
            change: change(point.after / point.before),
            good: suspicion.last_good().commit.clone(),
            worse_since: suspicion.culprit().commit.clone(),
            p: point.p,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::verdict::Interval;
    use crate::history::Point;

    fn series(levels: &[f64]) -> MetricSeries {
        let point = |(at, level): (usize, &f64)| Point {
            commit: format!("c{at}"),
            kernel: "6.1".to_owned(),
            began_unix_s: 1_800_000_000 + at as u64,
            trials: 5,
            median: Interval { low: level * 0.99, middle: *level, high: level * 1.01 },
            values: Vec::new(),
            ratio: None,
        };
        MetricSeries {
            experiment: "Is it fast?".to_owned(),
            machine: "m1".to_owned(),
            cell: "evenkeel".to_owned(),
            metric: "p99_us".to_owned(),
            is_primary: true,
            better: Some(Better::Lower),
            matters: 0.02,
            definition: String::new(),
            pinned: String::new(),
            points: levels.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn a_series_has_its_points_and_what_people_read() {
        let report = HistoryReport::of(&[series(&[100.0, 110.0])]);
        let json = serde_json::json!(report);
        let one = &json["experiments"][0]["series"][0];
        assert_eq!(
            (&one["runs"], &one["better"], &one["pinned"]),
            (&2.into(), &"lower".into(), &serde_json::Value::Null)
        );
        assert_eq!((&one["points"][1]["commit"], &one["points"][1]["level"]), (&"c1".into(), &110.0.into()));
        assert_eq!(one["newest"], "110");
        assert!(one["against_first"].as_str().expect("a change").starts_with("+10"), "{one}");
        assert_eq!(json["suspicions"], serde_json::json!([]), "two runs show nothing");
        let long: Vec<f64> = (0..POINTS_MAX + 5).map(|_| 100.0).collect();
        let json = serde_json::json!(HistoryReport::of(&[series(&long)]));
        let one = &json["experiments"][0]["series"][0];
        assert_eq!(
            (one["points"].as_array().expect("points").len(), &one["runs"]),
            (POINTS_MAX, &long.len().into())
        );
        assert_eq!(one["points"][0]["commit"], "c5", "the newest are kept");
    }

    #[test]
    fn a_series_that_became_worse_is_named_with_its_commits() {
        let levels: Vec<f64> =
            (0..40).map(|at| if at < 32 { 100.0 } else { 150.0 } + f64::from(at % 3)).collect();
        let json = serde_json::json!(HistoryReport::of(&[series(&levels)]));
        let found = &json["suspicions"][0];
        assert_eq!((&found["good"], &found["worse_since"]), (&"c31".into(), &"c32".into()), "{json}");
        assert!(found["change"].as_str().expect("a change").starts_with("+4"), "{found}");
    }
}
