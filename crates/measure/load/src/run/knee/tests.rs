use super::*;
use crate::measure::verdict::InvalidReason;
use crate::report::summary::WaitsSummary;

/// What came of the rate that the search wanted.
fn tried(search: &mut Search, outcome: TryOutcome, latency_us: f64) {
    let rate = search.rate;
    let none = Try { rate, outcome, latency_us, missing: 0, errors: 0, wrong_values: 0, not_stored: 0 };
    search.tried(none);
}

/// Searches a server whose p99 grows with the rate and varies; it reaches 1 ms at `knee`.
fn search(knee: f64, first: f64, noise: f64, seed: u64) -> Knee {
    let mut search = Search::new(first, seed);
    let mut prng = Prng::new(seed + 1);
    while let Some(rate) = search.next() {
        let latency_us = 1000.0 * (rate / knee).powi(4) * (1.0 + noise * (2.0 * prng.unit() - 1.0));
        let outcome = if latency_us < 1000.0 { TryOutcome::Held } else { TryOutcome::Missed };
        tried(&mut search, outcome, latency_us);
        assert!(search.tries.len() < 80, "it ends: {:?}", search.tries);
    }
    search.knee(&"p99<1ms".parse().expect("an objective"), Description::default())
}

#[test]
fn the_knee_is_found_from_below_and_from_above() {
    for first in [1000.0, 80_000.0, 900_000.0] {
        let knee = search(123_456.0, first, 0.0, 1);
        let rate = knee.rate.expect("it held somewhere");
        assert!((0.94..=1.0).contains(&(rate / 123_456.0)), "{knee}");
        assert!(
            knee.held_up_to <= 123_456.0 && knee.missed_from.expect("it was missed") >= 123_456.0,
            "{knee}"
        );
    }
}

#[test]
fn a_noisy_knee_lies_in_its_interval_and_is_not_far_off() {
    for seed in 0..200 {
        let knee = search(50_000.0, 1000.0, 0.3, seed);
        let rate = knee.rate.expect("it held somewhere");
        assert!((0.85..1.15).contains(&(rate / 50_000.0)), "{knee}");
        assert!(knee.held_up_to <= rate && knee.missed_from.is_none_or(|missed| missed > rate), "{knee}");
    }
}

#[test]
fn a_run_that_was_disturbed_does_not_hide_the_knee() {
    let mut search = Search::new(1000.0, 1);
    let mut disturbed = false;
    while let Some(rate) = search.next() {
        let held = rate < 50_000.0 && (disturbed || rate < 8000.0);
        disturbed |= rate >= 8000.0;
        tried(&mut search, if held { TryOutcome::Held } else { TryOutcome::Missed }, 0.0);
    }
    let knee = search.knee(&"p99<1ms".parse().expect("an objective"), Description::default());
    assert!(knee.rate.is_some_and(|rate| rate > 45_000.0 && rate < 50_000.0), "{knee}");
}

#[test]
fn a_server_that_never_keeps_it_is_told() {
    let knee = search(0.5, 1000.0, 0.0, 1);
    assert_eq!(knee.rate, None);
    assert!(knee.to_string().contains("p99<1000us never held"), "{knee}");
    assert!(knee.ended.is_some());
}

#[test]
fn a_generator_that_is_too_slow_ends_the_search() {
    let mut search = Search::new(1000.0, 1);
    while let Some(rate) = search.next() {
        tried(&mut search, if rate < 5000.0 { TryOutcome::Held } else { TryOutcome::Invalid }, 10.0);
    }
    let knee = search.knee(&"max<5ms".parse().expect("an objective"), Description::default());
    assert_eq!((knee.rate, knee.missed_from), (Some(4000.0), None));
    let ended = knee.ended.expect("too early");
    assert!(ended.starts_with("3 runs in a row at 8000 requests/s say nothing: "), "{ended}");
    let mut search = Search::new(1000.0, 1);
    (0..3).for_each(|_| tried(&mut search, TryOutcome::Invalid, 10.0));
    let knee = search.knee(&"max<5ms".parse().expect("an objective"), Description::default()).to_string();
    assert!(knee.contains("no run says whether max<5000us holds\n"), "{knee}");
}

/// 100,000 requests, all of which took 2 ms, and the first of them the generator's own lateness.
fn run(reasons: &[&str], own_us: f64) -> Summary {
    let all = |us| Latency { p50_us: us, p90_us: us, p99_us: us, p999_us: us, max_us: us, mean_us: us };
    let waits = WaitsSummary {
        slip: all(own_us),
        late: all(own_us),
        service: all(2000.0 - own_us),
        unanswered: 0,
        unsent: 0,
    };
    let mut summary =
        Summary { requests: 100_000, latency: all(2000.0), waits: Some(waits), ..Summary::default() };
    summary.verdict.reasons =
        reasons.iter().map(|&what| InvalidReason { what: what.to_owned(), why: String::new() }).collect();
    summary
}

#[track_caller]
fn judged(objective: &str, summary: &Summary) -> TryOutcome {
    objective.parse::<Objective>().expect("an objective").judge(1000.0, summary).outcome
}

#[test]
fn a_run_without_requests_says_nothing() {
    let judge = |what: &str| judged("p99<3ms", &run(&[what], 0.0));
    assert_eq!(judge("empty"), TryOutcome::Invalid);
    assert_eq!(judge("rate-missed"), TryOutcome::Missed);
    assert_eq!(judge("unsteady"), TryOutcome::Held);
}

#[test]
fn the_server_is_not_blamed_for_the_generators_lateness() {
    assert_eq!(judged("p99<1ms", &run(&[], 0.0)), TryOutcome::Missed);
    assert_eq!(judged("p99<1ms", &run(&["late"], 1500.0)), TryOutcome::Invalid);
    assert_eq!(judged("p99<1ms", &run(&["late", "rate-missed"], 1500.0)), TryOutcome::Invalid);
    assert_eq!(
        judged("p99<1ms", &run(&["late"], 500.0)),
        TryOutcome::Missed,
        "it was slow enough without that"
    );
    assert_eq!(judged("p99<3ms", &run(&["late"], 1600.0)), TryOutcome::Invalid, "half of the limit");
    let lost = Summary { lost: 2000, ..run(&["late"], 500.0) };
    assert_eq!(judged("p99<3ms", &lost), TryOutcome::Missed, "so little has lost no request");
}

#[test]
fn a_server_that_answers_with_errors_does_not_hold() {
    for summary in [
        Summary { errors: 3, ..run(&[], 0.0) },
        Summary { wrong_values: 1, ..run(&["late"], 1900.0) },
        Summary { not_stored: 1, ..run(&[], 0.0) },
    ] {
        assert_eq!(judged("p99<3ms", &summary), TryOutcome::Missed);
    }
    let objective: Objective = "p99<3ms".parse().expect("an objective");
    let mut search = Search::new(1000.0, 1);
    search.tried(objective.judge(1000.0, &Summary { errors: 3, lost: 7, ..run(&[], 0.0) }));
    let knee = search.knee(&objective, Description::default());
    assert!(!knee.is_clean());
    let shown = knee.to_string();
    assert!(
        shown.starts_with("          1000 requests/s        2000 µs  missed, 7 not answered, 3 errors\n"),
        "{shown}"
    );
}

#[test]
fn what_was_never_answered_is_slower_than_any_limit() {
    let missing = |unanswered, unsent, lost| {
        let mut summary = Summary { lost, ..run(&[], 0.0) };
        summary.waits = summary.waits.map(|waits| WaitsSummary { unanswered, unsent, ..waits });
        summary
    };
    assert_eq!(judged("max<3ms", &missing(0, 0, 0)), TryOutcome::Held);
    for (unanswered, unsent, lost) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        assert_eq!(judged("max<3ms", &missing(unanswered, unsent, lost)), TryOutcome::Missed);
    }
    assert_eq!(judged("p99.9<3ms", &missing(50, 25, 24)), TryOutcome::Held);
    assert_eq!(judged("p99.9<3ms", &missing(50, 26, 26)), TryOutcome::Missed);
}
