//! The prediction for one worker, as text and JSON.

use fleet::advise::{AdviceInputs, CpuStops, InputFigure, WorkerRate};
use serde_json::json;

use super::amount::short;

/// For people.
pub fn rate_text(rate: &WorkerRate, stops: &CpuStops, inputs: &AdviceInputs) -> String {
    let workload = &inputs.workload;
    let (target, share) = (short(workload.p99_ms.value), stops.beyond.value * 100.0);
    let stops = format!(
        "  stops     {share:.3} % of the time beyond {target} ms, shorter ones {:.2} µs ({})\n",
        stops.short_us.value, stops.beyond.source
    );
    if rate.per_s <= 0.0 {
        return format!(
            "{}\n  no rate: one request in a hundred takes longer than {target} ms at any\n{stops}",
            workload.name
        );
    }
    format!(
        "{}\n  rate      {:.0} requests/s of one worker, {:.0} to {:.0}\n  request   {:.2} µs of CPU time\n  \
         used      {:.0} % of its CPU, when one request in a hundred takes longer than {target} ms\n{stops}",
        workload.name,
        rate.per_s,
        rate.range.0,
        rate.range.1,
        rate.request_us,
        rate.used * 100.0
    )
}

/// For programs.
pub fn rate_json(rate: &WorkerRate, stops: &CpuStops, inputs: &AdviceInputs) -> String {
    let figure = |figure: &InputFigure| json!({ "value": figure.value, "low": figure.low, "high": figure.high, "from": figure.source });
    let document = json!({
        "format": 1,
        "workload": inputs.workload.name,
        "p99_ms": inputs.workload.p99_ms.value,
        "requests_per_s": rate.per_s,
        "low": rate.range.0,
        "high": rate.range.1,
        "request_us": rate.request_us,
        "used": rate.used,
        "stops_beyond_share": figure(&stops.beyond),
        "short_stops_us": figure(&stops.short_us),
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::moderate;
    use crate::usual_inputs;

    #[test]
    fn a_prediction_has_its_range_and_its_stops() {
        let inputs = usual_inputs(moderate());
        let rate = WorkerRate { request_us: 7.5, used: 0.9, per_s: 120_000.0, range: (110_000.0, 130_000.0) };
        let beyond = InputFigure::measured(0.0005, 0.0, 0.001, "watched for 10 s");
        let stopped = CpuStops { beyond, short_us: InputFigure::chosen(12.5) };
        let text = rate_text(&rate, &stopped, &inputs);
        assert_eq!(
            text,
            "test\n  rate      120000 requests/s of one worker, 110000 to 130000\n  request   7.50 µs of CPU time\n  \
             used      90 % of its CPU, when one request in a hundred takes longer than 1 ms\n  \
             stops     0.050 % of the time beyond 1 ms, shorter ones 12.50 µs (watched for 10 s)\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&rate_json(&rate, &stopped, &inputs)).expect("JSON");
        assert_eq!(
            (&json["requests_per_s"], &json["stops_beyond_share"]["value"]),
            (&120_000.0.into(), &0.0005.into())
        );
        let none = WorkerRate { used: 0.0, per_s: 0.0, range: (0.0, 0.0), ..rate };
        assert!(rate_text(&none, &stopped, &inputs).contains("no rate: one request in a hundred"));
    }
}
