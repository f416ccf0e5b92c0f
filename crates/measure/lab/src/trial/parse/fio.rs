//! The JSON of `fio --output-format=json+`. It drops its warm-up itself (`--ramp_time`).

use super::output::{LoadFigures, LoadResults, figures};
use super::too_early;
use serde_json::Value;

/// The directions of fio's I/O, with the names of their figures here.
const DIRECTIONS: [(&str, &str); 3] = [("read", "read"), ("write", "write"), ("trim", "trim")];

/// Of jobs that had to run for `measured_s`.
pub(super) fn parse(text: &str, measured_s: f64) -> Result<LoadResults, String> {
    // Warnings may stand before it.
    let json = text.find("\n{").map_or(text, |start| &text[start..]);
    let value: Value = serde_json::from_str(json)
        .map_err(|error| format!("understand what `fio --output-format=json+` wrote: {error}"))?;
    let jobs = value.get("jobs").and_then(Value::as_array).filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or("find the jobs in what fio wrote")?;
    if let Some(job) = jobs.iter().find(|job| job["error"].as_i64().is_some_and(|error| error != 0)) {
        return Err(format!(
            "use the results: fio's job {} ended with error {}",
            job["jobname"], job["error"]
        ));
    }
    // In milliseconds, without the ramp.
    let ran_s = |job: &Value| job["job_runtime"].as_f64().map(|ms| ms / 1000.0);
    if let Some(what) = jobs.iter().filter_map(ran_s).reduce(f64::max).and_then(|s| too_early(s, measured_s))
    {
        return Err(format!("by its own clock {what}"));
    }
    let mut metrics = LoadFigures::new();
    for (direction, name) in DIRECTIONS {
        metrics.extend(of_direction(jobs, direction, name));
    }
    let sum = |end: &str| -> f64 {
        metrics.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, figure)| figure).sum()
    };
    let (requests, mib) = (sum("_iops"), sum("_mib_per_second"));
    metrics.extend(figures([("requests_per_second", Some(requests)), ("mib_per_second", Some(mib))]));
    Ok(LoadResults { metrics, ..LoadResults::default() })
}

/// Rates are added over jobs; of latencies, the worst job's is taken. Directions without I/O have no figures.
fn of_direction(jobs: &[Value], direction: &str, name: &str) -> LoadFigures {
    let did = || {
        jobs.iter().map(|job| &job[direction]).filter(|it| it["total_ios"].as_u64().is_some_and(|n| n > 0))
    };
    let sum = |key: &str| did().filter_map(|it| it[key].as_f64()).sum::<f64>();
    let worst = |pointer: &str| did().filter_map(|it| it.pointer(pointer)?.as_f64()).reduce(f64::max);
    if did().next().is_none() {
        return LoadFigures::new();
    }
    let us = |pointer: &str| worst(pointer).map(|ns| ns / 1000.0);
    let all = figures([
        ("iops", Some(sum("iops"))),
        ("mib_per_second", Some(sum("bw_bytes") / f64::from(1 << 20))),
        ("p50_us", us("/clat_ns/percentile/50.000000")),
        ("p99_us", us("/clat_ns/percentile/99.000000")),
        ("p999_us", us("/clat_ns/percentile/99.900000")),
        ("max_us", us("/clat_ns/max")),
        ("mean_us", us("/clat_ns/mean")),
    ]);
    all.into_iter().map(|(figure, value)| (format!("{name}_{figure}"), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDRW: &str = include_str!("fixtures/fio-3.33-randrw.json");

    #[test]
    fn reads_and_writes_have_their_own_figures() {
        let metrics = parse(RANDRW, 4.0).expect("figures").metrics;
        assert_eq!(metrics["read_iops"], 10348.162959);
        assert_eq!(metrics["read_p99_us"], 201.728);
        assert_eq!(metrics["read_mib_per_second"], 42_386_075.0 / 1_048_576.0);
        assert_eq!(metrics["requests_per_second"], metrics["read_iops"] + metrics["write_iops"]);
        assert!(!metrics.keys().any(|name| name.starts_with("trim")), "{metrics:?}");
    }

    #[test]
    fn what_is_no_result_is_said() {
        assert!(
            parse("fio: command not found", 4.0).expect_err("no JSON").starts_with("understand what `fio")
        );
        assert_eq!(parse("{}", 4.0).expect_err("no jobs"), "find the jobs in what fio wrote");
        let failed = RANDRW.replace("\"error\" : 0", "\"error\" : 28");
        assert_eq!(
            parse(&failed, 4.0).expect_err("ENOSPC"),
            "use the results: fio's job \"r\" ended with error 28"
        );
        assert_eq!(parse(&format!("note: both iodepth\n{RANDRW}"), 4.0), parse(RANDRW, 4.0));
    }
}
