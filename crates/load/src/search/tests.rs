use super::*;
use crate::verdict::Reason;

/// Searches a server whose p99 grows with the rate and varies; it reaches 1 ms at `knee`.
fn search(knee: f64, first: f64, noise: f64, seed: u64) -> Knee {
    let mut search = Search::new(first, seed);
    let mut prng = Prng::new(seed + 1);
    while let Some(rate) = search.next() {
        let latency_us = 1000.0 * (rate / knee).powi(4) * (1.0 + noise * (2.0 * prng.unit() - 1.0));
        let outcome = if latency_us < 1000.0 { Outcome::Held } else { Outcome::Missed };
        search.tried(outcome, latency_us);
        assert!(search.tries.len() < 80, "it ends: {:?}", search.tries);
    }
    search.knee(&"p99<1ms".parse().expect("an objective"))
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
        search.tried(if held { Outcome::Held } else { Outcome::Missed }, 0.0);
    }
    let knee = search.knee(&"p99<1ms".parse().expect("an objective"));
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
        search.tried(if rate < 5000.0 { Outcome::Held } else { Outcome::Invalid }, 10.0);
    }
    let knee = search.knee(&"max<5ms".parse().expect("an objective"));
    assert_eq!((knee.rate, knee.missed_from), (Some(4000.0), None));
    let ended = knee.ended.expect("too early");
    assert!(ended.starts_with("3 runs in a row at 8000 requests/s say nothing: "), "{ended}");
    let mut search = Search::new(1000.0, 1);
    (0..3).for_each(|_| search.tried(Outcome::Invalid, 10.0));
    let knee = search.knee(&"max<5ms".parse().expect("an objective")).to_string();
    assert!(knee.contains("no run says whether max<5000us holds\n"), "{knee}");
}

#[test]
fn a_run_without_requests_says_nothing() {
    let objective: Objective = "p99<1ms".parse().expect("an objective");
    let mut summary = Summary::default();
    let mut judge = |what: &str| {
        summary.verdict.reasons = vec![Reason { what: what.to_owned(), why: String::new() }];
        objective.judge(&summary)
    };
    assert_eq!(judge("empty"), Outcome::Invalid);
    assert_eq!(judge("rate-missed"), Outcome::Missed);
    assert_eq!(judge("unsteady"), Outcome::Held);
}

#[test]
fn objectives_are_read() {
    for (text, shown) in [
        ("p99<1ms", "p99<1000us"),
        ("p99.9 < 500us", "p99.9<500us"),
        ("max<=2s", "max<2000000us"),
        ("p50<0.5ms", "p50<500us"),
    ] {
        assert_eq!(text.parse::<Objective>().map(|objective| objective.to_string()).as_deref(), Ok(shown));
    }
    for bad in ["", "p99", "p99<", "p99<1", "p98<1ms", "p99>1ms", "p99<-1ms", "p99<0ms"] {
        assert!(bad.parse::<Objective>().is_err(), "{bad:?}");
    }
}
