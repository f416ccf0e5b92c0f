use super::*;
use crate::measure::seconds::SecondCounts;
use crate::measure::tally::Tally;
use crate::report::summary::{Edge, RunMeasurements};
use crate::types::clock::now_ns;
use crate::types::description::Description;
use crate::types::part::Part;
use crate::workload::plan::RunPlan;

/// The end of an agent whose requests took these times in milliseconds, in one second.
fn end(latencies_ms: &[u64], valid: bool) -> End {
    end_and_second(latencies_ms, valid).0
}

/// The same, with the report of that second.
fn end_and_second(latencies_ms: &[u64], valid: bool) -> (End, SecondCounts) {
    let run = Description::of("--rate 2000 --connections 16 --duration 1s".split(' ')).expect("good flags");
    let plan = RunPlan::new(&run, Part { index: 0, of: 2 }).expect("a good plan");
    let mut tally = Tally::open();
    for ms in latencies_ms {
        tally.done[0] += 1;
        tally.took(1, ms * 1_000_000);
        tally.waited(1000, 1000, ms * 1_000_000);
    }
    let counts = tally.close(1).remove(0).1;
    (tally.failures.unanswered, tally.failures.unsent) = (1, 2);
    let at_ns = now_ns();
    let edge = |at_ns, requests| Edge {
        at_ns,
        requests,
        keys: requests,
        client: vec![os::cpu_time::ThreadTimes::default()],
        server_cpu_ns: None,
        host: Default::default(),
    };
    let (open, close) = (edge(at_ns, 0), edge(at_ns + 1_000_000_000, latencies_ms.len() as u64));
    let series = vec![Second::between(&open, &close)];
    let measured = RunMeasurements {
        engine: "epoll",
        tally: tally.clone(),
        open,
        close,
        series,
        has_left: false,
        failure: None,
        recorded: None,
        probes: None,
    };
    let mut summary = Summary::new(&plan, measured);
    let reason = InvalidReason { what: String::from("late"), why: String::from("it was") };
    summary.verdict = RunVerdict { valid, reasons: if valid { Vec::new() } else { vec![reason] } };
    (End { summary, tally }, counts)
}

#[test]
fn percentiles_are_those_of_all_requests() {
    let (quick, quick_second) = end_and_second(&[1; 98], true);
    let (slow, slow_second) = end_and_second(&[1000; 2], true);
    let mut seconds = Seconds::new(2);
    seconds.add(0, 0, quick_second);
    assert!(seconds.take().is_empty(), "the other one has said nothing yet");
    seconds.add(1, 0, slow_second);
    let parts = vec![(String::from("a"), 5000, quick), (String::from("b"), 7000, slow)];
    let whole = unite(parts, &[], &seconds);
    // Their mean would say 500 ms of the median.
    assert!((whole.latency.p50_us / 1000.0 - 1.0).abs() < 0.01, "{whole}");
    assert!((whole.latency.p99_us / 1_000_000.0 - 1.0).abs() < 0.01, "{whole}");
    assert!((whole.series[0].latency.expect("known").p99_us / 1_000_000.0 - 1.0).abs() < 0.01);
    assert_eq!((whole.requests, whole.run.connections, whole.threads()), (100, 16, 2));
    assert_eq!((whole.run.rate, whole.requests_per_second), (Some(2000.0), 100.0));
    let waits = whole.waits.expect("an open loop");
    assert_eq!((waits.unanswered, waits.unsent, waits.service.max_us as u64 / 1000), (2, 4, 1000));
    // Three of each were not answered.
    assert_eq!(whole.availability, Some(100.0 / 106.0));
    assert!(whole.verdict.valid);
    assert_eq!(whole.agents[1].clock_error_us, 7.0);
    assert!(whole.to_string().contains("  agent     b: 2 requests/s, p99 1,000,"), "{whole}");
}

#[test]
fn one_invalid_agent_makes_the_whole_invalid() {
    let parts = vec![(String::from("a"), 0, end(&[1], true)), (String::from("b"), 0, end(&[1], false))];
    let whole = unite(parts, &[], &Seconds::new(2));
    assert!(whole.to_string().ends_with("INVALID (late): b: it was\n"), "{whole}");
}

#[test]
fn texts_of_an_agent_stay_in_their_lines() {
    let mut bad = end(&[1], false);
    let order = || String::from("x\x1b[2J\nVALID");
    bad.summary.verdict.reasons = vec![InvalidReason { what: order(), why: order() }];
    (bad.summary.engine, bad.summary.target) = (order(), order());
    (bad.summary.transport, bad.summary.r#loop) = (order(), order());
    bad.summary.run.tls_ca = order().into();
    bad.tally.error_lines.insert(order(), 1);
    let whole = unite(vec![(String::from("a"), 0, bad)], &[], &Seconds::new(1)).to_string();
    assert_eq!(whole.matches("x\\u001b[2J\\u000aVALID").count(), 8, "{whole}");
    assert!(!whole.contains('\x1b') && !whole.contains("\nVALID"), "{whole}");
}

#[test]
fn what_others_have_measured_outlives_an_agent() {
    let lost = Error::Agent { name: String::from("b"), why: String::from("ended too early") };
    let whole = unite(vec![(String::from("a"), 0, end(&[1; 98], true))], &[lost], &Seconds::new(2));
    assert_eq!((whole.requests, whole.verdict.valid, whole.is_clean()), (98, false, false));
    assert_eq!(whole.failure.as_deref(), Some("use the agent b: it ended too early"));
    let said = "INVALID (failed): the load was smaller than asked for: failed to use the agent b: it ended too early";
    assert!(whole.to_string().contains(said), "{whole}");
    // One that has failed, and could say what it has measured until then.
    let mut failed = end(&[1; 2], false);
    failed.summary.failure = Some(String::from("get replies"));
    let parts = vec![(String::from("a"), 0, end(&[1; 98], true)), (String::from("b"), 0, failed)];
    let whole = unite(parts, &[], &Seconds::new(2));
    assert_eq!((whole.requests, whole.failure.as_deref()), (100, Some("b: get replies")));
}
