//! The JSON of `evenkeel load --json`.

use super::output::{About, Doubt, LoadFigures, LoadResults, figures};
use super::too_early;
use crate::experiment::TrialLoad;
use load::{
    Connects, CpuCost, Failures, Handshakes, InvalidReason, Latency, RunVerdict, Second, WaitsSummary,
};
use serde::{Deserialize, Serialize};
use stdx::steady;

/// The fields of a `load::Summary` that are used: another version may have more, or fewer of the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Summary {
    verdict: RunVerdict,
    seconds: f64,
    keys_asked: u64,
    hits: u64,
    errors: u64,
    wrong_values: u64,
    not_stored: u64,
    #[serde(default)]
    failures: Failures,
    #[serde(default)]
    availability: Option<f64>,
    requests_per_second: f64,
    keys_per_second: f64,
    latency: Latency,
    waits: Option<WaitsSummary>,
    #[serde(default)]
    connects: Option<Connects>,
    #[serde(default)]
    handshakes: Option<Handshakes>,
    client: CpuCost,
    busiest_thread: f64,
    #[serde(default)]
    cpu_wait: f64,
    server: Option<CpuCost>,
    #[serde(default)]
    probes: Option<ProbesSummary>,
    series: Vec<Second>,
}

/// Of a `load::Probes`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ProbesSummary {
    verdict: RunVerdict,
    latency: Latency,
    waits: WaitsSummary,
}

/// Seconds by which its window may be longer than asked for, and the share of the warm-up that this is at most.
const WINDOW_SLACK_S: f64 = 0.5;
const SLACK_SHARE: f64 = 0.5;

/// The figures that a verdict's reason concerns.
fn about(reason: &str) -> About {
    match reason {
        "late" => About::Latencies,
        // Rate and latencies are limited by the client; the work per CPU-second is not.
        "client-saturated" | "client-waited" | "overloaded" | "rate-missed" | "arrivals" => About::WallClock,
        _ => About::All,
    }
}

pub(super) fn parse(text: &str, workload: &TrialLoad) -> Result<LoadResults, String> {
    let summary: Summary = serde_json::from_str(text)
        .map_err(|error| format!("understand what `evenkeel load --json {{output}}` wrote: {error}"))?;
    let (measured, warm_up_s) = (workload.measured_s(), workload.warm_up_s);
    let too_long = (warm_up_s > 0.0
        && summary.seconds > measured + WINDOW_SLACK_S.min(SLACK_SHARE * warm_up_s))
    .then(|| {
        format!(
            "its window of {:.2} s has the warm-up in it; use --warm-up {{warm_up}}s --duration {{measured}}s",
            summary.seconds
        )
    });
    let late = match too_long {
        Some(why) if !workload.is_short() => return Err(why),
        // A busy host closes a short one as late as that.
        other => {
            other.map(|why| Doubt { why: format!("window: {why}, or a quieter host"), about: About::All })
        }
    };
    if let Some(what) = too_early(summary.seconds, measured) {
        return Err(format!("by its own clock {what}"));
    }
    // Of a server that was not seen to run, nothing is known.
    let server = summary.server.filter(|server| server.cpu_seconds > 0.0);
    let mut metrics = figures([
        ("requests_per_second", Some(summary.requests_per_second)),
        ("keys_per_second", Some(summary.keys_per_second)),
        ("requests_per_cpu_second", server.map(|server| server.requests_per_cpu_second)),
        ("keys_per_cpu_second", server.map(|server| server.keys_per_cpu_second)),
        ("server_cpu_s", server.map(|server| server.cpu_seconds)),
        ("client_requests_per_cpu_second", Some(summary.client.requests_per_cpu_second)),
        ("client_busy_share", Some(summary.busiest_thread)),
        ("client_wait_share", Some(summary.cpu_wait)),
        ("hit_share", (summary.keys_asked > 0).then(|| summary.hits as f64 / summary.keys_asked as f64)),
        ("errors", Some(summary.errors as f64)),
        ("availability_share", summary.availability),
        ("timeouts", Some(summary.failures.timeouts as f64)),
        ("wrong_values", Some(summary.wrong_values as f64)),
        ("connect_p50_us", summary.connects.map(|connects| connects.latency.p50_us)),
        ("connect_p99_us", summary.connects.map(|connects| connects.latency.p99_us)),
        ("connects_opened", summary.connects.map(|connects| connects.opened as f64)),
        ("connects_failed", summary.connects.map(|connects| (connects.refused + connects.timed_out) as f64)),
        ("handshake_p50_us", summary.handshakes.map(|handshakes| handshakes.latency.p50_us)),
        ("handshake_p99_us", summary.handshakes.map(|handshakes| handshakes.latency.p99_us)),
        ("resumed_share", summary.handshakes.and_then(resumed_share)),
        ("slip_p99_us", summary.waits.map(|waits| waits.slip.p99_us)),
        ("service_p99_us", summary.waits.map(|waits| waits.service.p99_us)),
    ]);
    metrics.extend(latencies(&summary.latency));
    if let Some(probes) = &summary.probes {
        metrics.extend(figures([
            ("probe_p50_us", Some(probes.latency.p50_us)),
            ("probe_p99_us", Some(probes.latency.p99_us)),
            ("probe_service_p99_us", Some(probes.waits.service.p99_us)),
        ]));
    }
    metrics.extend(sustained(&summary.series));
    let mut at_s = 0.0;
    let seconds = summary.series.iter().map(|second| {
        at_s += second.seconds;
        let mut figures = figures([
            ("requests_per_second", Some(second.requests_per_second)),
            ("client_busy_share", Some(second.busiest_thread)),
        ]);
        figures.extend(second.latency.iter().flat_map(latencies));
        (at_s, figures)
    });
    let doubts = summary
        .verdict
        .reasons
        .iter()
        .map(|InvalidReason { what, why }| Doubt { why: format!("{what}: {why}"), about: about(what) });
    let of_probes = summary.probes.iter().flat_map(|probes| &probes.verdict.reasons);
    let of_probes = of_probes.map(|InvalidReason { what, why }| Doubt {
        why: format!("probes-{what}: {why}"),
        about: About::Latencies,
    });
    let Failures { timeouts, closed, reset, malformed, unconnected, .. } = summary.failures;
    let broken = timeouts + closed + reset + malformed + unconnected;
    let is_clean = summary.errors == 0 && summary.wrong_values == 0 && summary.not_stored == 0 && broken == 0;
    let unclean = (!is_clean).then(|| Doubt {
        why: format!(
            "errors: the server sent {} error lines, {} wrong values and declined {} sets; {broken} requests failed \
             without a reply",
            summary.errors, summary.wrong_values, summary.not_stored
        ),
        about: About::All,
    });
    let seconds: Vec<_> = seconds.collect();
    Ok(LoadResults {
        metrics,
        seconds,
        end_s: at_s,
        doubts: doubts.chain(of_probes).chain(late).chain(unclean).collect(),
    })
}

/// The rate that the load keeps in the end, and the one before if there was another: how long a burst credit lasts, and what is left.
fn sustained(series: &[Second]) -> LoadFigures {
    let rates: Vec<f64> = series.iter().map(|second| second.requests_per_second).collect();
    let sustained = steady::sustained(&rates);
    let burst = sustained.filter(|sustained| sustained.before.is_some());
    figures([
        ("sustained_requests_per_second", sustained.map(|sustained| sustained.level)),
        ("burst_requests_per_second", burst.and_then(|burst| burst.before)),
        ("burst_s", burst.map(|burst| series[..burst.from].iter().map(|second| second.seconds).sum())),
    ])
}

/// Of the handshakes, the share that resumed a session; unknown without any.
fn resumed_share(handshakes: Handshakes) -> Option<f64> {
    (handshakes.count > 0).then(|| handshakes.resumed as f64 / handshakes.count as f64)
}

fn latencies(latency: &Latency) -> LoadFigures {
    figures([
        ("p50_us", Some(latency.p50_us)),
        ("p90_us", Some(latency.p90_us)),
        ("p99_us", Some(latency.p99_us)),
        ("p999_us", Some(latency.p999_us)),
        ("max_us", Some(latency.max_us)),
        ("mean_us", Some(latency.mean_us)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Parser;

    const CLOSED: &str = include_str!("fixtures/evenkeel-load-closed.json");

    fn workload(seconds: f64, warm_up_s: f64) -> TrialLoad {
        TrialLoad {
            prepare: Vec::new(),
            run: String::new(),
            beside: Vec::new(),
            stats: Vec::new(),
            parser: Parser::EvenkeelLoad,
            seconds,
            warm_up_s,
            subject_cpus: None,
        }
    }

    #[test]
    fn its_window_and_its_seconds_are_taken_as_they_are() {
        let results = parse(CLOSED, &workload(3.0, 1.0)).expect("figures");
        let summary: Summary = serde_json::from_str(CLOSED).expect("a summary");
        assert_eq!(results.metrics["requests_per_second"], summary.requests_per_second);
        assert_eq!(results.metrics["p99_us"], summary.latency.p99_us);
        assert_eq!(
            results.metrics["requests_per_cpu_second"],
            summary.server.expect("its CPU time").requests_per_cpu_second
        );
        assert_eq!(results.metrics["hit_share"], 1.0);
        assert_eq!((results.seconds.len(), results.doubts.len()), (2, 0));
        assert!((results.end_s - 2.0).abs() < 0.1, "{}", results.end_s);
    }

    #[test]
    fn what_todays_load_writes_is_read() {
        let today = load::Summary { seconds: 2.0, requests_per_second: 7.0, ..load::Summary::default() };
        let text = serde_json::to_string(&today).expect("text");
        let results = parse(&text, &workload(3.0, 1.0)).expect("figures");
        assert_eq!((results.metrics["requests_per_second"], results.doubts.len()), (7.0, 0));
    }

    #[test]
    fn the_rate_after_a_spent_credit_is_a_figure_of_its_own() {
        let summary: Summary = serde_json::from_str(CLOSED).expect("a summary");
        let series = |rates: &[(f64, usize)]| {
            let rates = rates.iter().flat_map(|&(rate, seconds)| std::iter::repeat_n(rate, seconds));
            let second =
                |requests_per_second| Second { seconds: 1.0, requests_per_second, ..summary.series[0] };
            rates.map(second).collect::<Vec<_>>()
        };
        let credit = sustained(&series(&[(1000.0, 12), (250.0, 30)]));
        assert_eq!(credit["sustained_requests_per_second"], 250.0);
        assert_eq!((credit["burst_requests_per_second"], credit["burst_s"]), (1000.0, 12.0));
        // Without a credit there is no burst, and a level that is not known is no figure.
        let flat = sustained(&series(&[(1000.0, 30)]));
        assert_eq!((flat.len(), flat["sustained_requests_per_second"]), (1, 1000.0));
        assert!(sustained(&series(&[(1000.0, 30), (250.0, 8)])).is_empty());
    }

    #[test]
    fn a_window_with_the_warm_up_in_it_is_an_error() {
        let error = parse(CLOSED, &workload(2.0, 1.0)).expect_err("2 s instead of 1");
        assert!(error.contains("use --warm-up {warm_up}s --duration {measured}s"), "{error}");
        // A short one may be late.
        let short = CLOSED.replacen("\"seconds\": 2.00040158", "\"seconds\": 0.52", 1);
        let doubts = parse(&short, &workload(0.45, 0.2)).expect("figures").doubts;
        assert!(
            doubts.iter().any(|doubt| doubt.why.starts_with("window: its window of 0.52 s")),
            "{doubts:?}"
        );
    }

    #[test]
    fn its_own_verdict_is_a_doubt() {
        let mut summary: Summary = serde_json::from_str(CLOSED).expect("a summary");
        let reason = |what: &str| InvalidReason { what: what.to_owned(), why: "because".to_owned() };
        summary.verdict.reasons = ["steal", "client-saturated", "late", "overloaded"].map(reason).into();
        summary.errors = 2;
        let text = serde_json::to_string(&summary).expect("text");
        let doubts = parse(&text, &workload(3.0, 1.0)).expect("figures").doubts;
        let kinds: Vec<_> = doubts.iter().map(|doubt| doubt.about).collect();
        assert_eq!(
            (doubts[0].why.as_str(), kinds),
            (
                "steal: because",
                vec![About::All, About::WallClock, About::Latencies, About::WallClock, About::All]
            )
        );
    }
}
