//! The JSON of `memtier_benchmark --json-out-file`.
//!
//! Its totals have the warm-up in them. With one, figures come from its seconds: the rate is their mean, and a
//! percentile that of the median second.

use super::output::{About, Doubt, LoadFigures, LoadResults, figures, typical};
use serde_json::Value;

pub(super) fn parse(text: &str, warm_up_s: f64) -> Result<LoadResults, String> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| format!("understand what memtier_benchmark wrote to --json-out-file: {error}"))?;
    let all = &value["ALL STATS"];
    let totals = &all["Totals"];
    if !totals.is_object() {
        return Err("find the totals in what memtier_benchmark wrote to --json-out-file".to_owned());
    }
    let end_s = all["Runtime"]["Total duration"].as_f64().map(|ms| ms / 1000.0);
    let seconds = seconds(&totals["Time-Serie"], end_s.unwrap_or(f64::INFINITY));
    let metrics = match warm_up_s {
        0.0 => of_totals(totals),
        _ => typical(&seconds, warm_up_s),
    };
    if metrics.is_empty() {
        return Err(format!("find seconds after the first {warm_up_s} s in what memtier_benchmark wrote"));
    }
    let errors = totals["Connection Errors"].as_u64().unwrap_or(0);
    let doubt = (errors > 0).then(|| Doubt {
        why: format!("errors: memtier_benchmark had {errors} connection errors"),
        about: About::All,
    });
    let end_s = end_s.or(seconds.last().map(|(at_s, _)| *at_s)).unwrap_or(0.0);
    Ok(LoadResults { metrics, seconds, end_s, doubts: doubt.into_iter().collect() })
}

/// By the number of the second. The last seconds are not whole: late replies.
fn seconds(series: &Value, end_s: f64) -> Vec<(f64, LoadFigures)> {
    let second = |(number, second): (&String, &Value)| {
        let at_s = number.parse::<f64>().ok()? + 1.0;
        let count = second["Count"].as_f64()?;
        let mean_ms = second["Accumulated Latency"].as_f64().map(|sum| sum / count);
        let mut all =
            figures([("requests_per_second", Some(count)), ("mean_us", mean_ms.map(|ms| ms * 1000.0))]);
        all.extend(percentiles(second));
        (at_s <= end_s + 0.5).then_some((at_s, all))
    };
    let mut seconds: Vec<_> = series.as_object().into_iter().flatten().filter_map(second).collect();
    seconds.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    seconds
}

fn of_totals(totals: &Value) -> LoadFigures {
    let per_second = |key: &str| totals[key].as_f64();
    let lookups =
        per_second("Hits/sec").zip(per_second("Misses/sec")).filter(|(hits, misses)| hits + misses > 0.0);
    let mut all = figures([
        ("requests_per_second", per_second("Ops/sec")),
        ("hit_share", lookups.map(|(hits, misses)| hits / (hits + misses))),
        ("max_us", totals["Max Latency"].as_f64().map(|ms| ms * 1000.0)),
    ]);
    all.extend(percentiles(&totals["Percentile Latencies"]));
    all
}

/// `p99.90` in milliseconds is `p999_us`.
fn percentiles(value: &Value) -> LoadFigures {
    let us = |key: &str| value[key].as_f64().map(|ms| ms * 1000.0);
    figures([("p50_us", us("p50.00")), ("p99_us", us("p99.00")), ("p999_us", us("p99.90"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = include_str!("fixtures/memtier-2.3.1.json");

    #[test]
    fn without_a_warm_up_its_totals_count() {
        let results = parse(RUN, 0.0).expect("figures");
        assert_eq!((results.metrics["requests_per_second"], results.metrics["p99_us"]), (32664.86, 823.0));
        assert_eq!((results.seconds.len(), results.end_s, results.doubts.len()), (4, 4.0, 0));
        assert_eq!(results.seconds[1].1["requests_per_second"], 40459.0);
    }

    #[test]
    fn with_one_its_later_seconds_count() {
        let metrics = parse(RUN, 2.0).expect("figures").metrics;
        assert_eq!(metrics["requests_per_second"], (28599.0 + 37477.0) / 2.0);
        assert!((metrics["p99_us"] - 355.0).abs() < 1e-6, "{metrics:?}");
    }

    #[test]
    fn what_is_no_result_is_said() {
        assert!(parse("", 0.0).expect_err("nothing").starts_with("understand what memtier_benchmark"));
        assert!(parse("{}", 0.0).expect_err("no totals").starts_with("find the totals"));
        assert!(parse(RUN, 9.0).expect_err("all dropped").contains("after the first 9 s"));
        let refused = RUN.replace("\"Connection Errors\": 0", "\"Connection Errors\": 3");
        assert_eq!(parse(&refused, 0.0).expect("figures").doubts.len(), 1);
    }
}
