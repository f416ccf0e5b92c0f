//! Probes: connections apart from those of the load.

use crate::memcached::Memcached;
use crate::support::{Script, run, server};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn probes_have_their_own_figures_and_no_part_in_those_of_the_load() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let script: Script = |_, reply| {
        SEEN.fetch_add(1, Ordering::Relaxed);
        reply
    };
    // Nothing but the requests of the load ends the first run: the probes have to end with it.
    for (line, requests) in [
        ("--rate 500 --requests 300", Some(300)),
        ("--rate 500 --duration 700ms --requests 100 --threads 2", Some(100)),
        ("--depth 4 --duration 600ms", None),
    ] {
        SEEN.store(0, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("evenkeel-probes-{}.json", std::process::id()));
        let line = format!(
            "{} --warm-up 0 --connections 3 --probes 2 --probe-rate 300 --json {} {line}",
            server(usize::MAX, script),
            file.display()
        );
        let summary = run(&line).expect(&line);
        let probes = summary.probes.as_ref().expect("probes");
        assert!(summary.is_clean() && probes.requests > 0 && probes.errors == 0, "{line}\n{summary}");
        assert_eq!((probes.connections, summary.run.connections), (2, 3), "{line}\n{summary}");
        assert_eq!((probes.waits.unanswered, probes.waits.unsent), (0, 0), "{line}\n{summary}");
        assert!(probes.latency.p50_us >= probes.waits.service.p50_us, "{line}\n{summary}");
        if let Some(requests) = requests {
            assert_eq!(summary.requests, requests, "{line}\n{summary}");
            assert_eq!(SEEN.load(Ordering::Relaxed), requests + probes.requests, "{line}\n{summary}");
        }
        let text = summary.to_string();
        assert!(text.contains("  probes    300 requests/s asked of 2 connections, "), "{text}");
        let json = std::fs::read_to_string(&file).expect("a result");
        std::fs::remove_file(&file).expect("the result");
        let read: load::Summary = serde_json::from_str(&json).expect("a summary");
        assert_eq!(read.probes.map(|probes| probes.requests), Some(probes.requests), "{json}");
    }
}

#[test]
fn probes_that_are_not_answered_are_judged_apart() {
    thread_local! {
        static ANSWERED: Cell<u32> = const { Cell::new(0) };
    }
    // Each connection is answered ten times, and then no more.
    let script: Script = |_, reply| {
        ANSWERED.set(ANSWERED.get() + 1);
        if ANSWERED.get() > 10 { Vec::new() } else { reply }
    };
    let line = format!(
        "{} --warm-up 0 --connections 3 --duration 300ms --probes 1 --probe-rate 1000",
        server(usize::MAX, script)
    );
    let summary = run(&line).expect(&line);
    let probes = summary.probes.as_ref().expect("probes");
    assert_eq!((probes.requests, probes.waits.unanswered), (10, 1), "{line}\n{summary}");
    assert!(probes.waits.unsent > 0, "{line}\n{summary}");
    let reasons = |verdict: &load::RunVerdict| {
        let reasons: Vec<String> = verdict.reasons.iter().map(|reason| reason.what.clone()).collect();
        reasons
    };
    assert!(reasons(&probes.verdict).contains(&String::from("rate-missed")), "{line}\n{summary}");
    assert!(!reasons(&summary.verdict).contains(&String::from("rate-missed")), "{line}\n{summary}");
    assert!(summary.to_string().contains("lower --probe-rate, or use more --probes"), "{summary}");
}

#[test]
fn probes_are_wanted_whole() {
    for (line, expected) in [
        ("--probes 0 --probe-rate 5", "--probes must be at least 1"),
        ("--probes 1 --probe-rate 0", "--probe-rate must be between 1e-6 and 1e9 requests/s, not 0"),
    ] {
        assert_eq!(run(line).expect_err(line), format!("use these arguments: {expected}"));
    }
}

#[test]
fn memcached_is_probed_while_it_is_loaded() {
    let Some(memcached) = Memcached::start("probes") else { return };
    let line = format!(
        "--socket {} --prefill --keys 1000 --verify --gets 0.9 --depth 16 --duration 1500ms --warm-up 100ms --probes 4 \
         --probe-rate 500",
        memcached.socket.display()
    );
    let summary = run(&line).expect(&line);
    let probes = summary.probes.as_ref().expect("probes");
    assert!(summary.is_clean() && probes.misses == 0 && probes.wrong_values == 0, "{line}\n{summary}");
    assert!(probes.requests > 0 && summary.requests > probes.requests, "{line}\n{summary}");
    assert!(summary.series.iter().any(|second| second.probes.is_some()), "{line}\n{summary}");
}
