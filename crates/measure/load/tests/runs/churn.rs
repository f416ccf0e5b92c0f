//! Connections that come and go.

use crate::memcached::Listening;
use crate::support::{CLOSE, Script, run, server};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const COMMON: &str = "--warm-up 0 --keys 50 --prefill --verify";

#[test]
fn connections_end_after_their_requests() {
    for more in ["", "--depth 4 --gets 0.5", "--rate 4000", "--threads 2 --multiget 5"] {
        let line = format!(
            "{} {COMMON} --connections 4 --requests 1000 --duration 5m --reconnect-after 50 {more}",
            server(usize::MAX, |_, reply| reply)
        );
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean() && summary.misses == 0 && summary.lost == 0, "{line}\n{summary}");
        let connects = summary.connects.expect("they came and went");
        // Twenty, but some are away at the end, and some had done part of theirs before the window of a closed loop.
        assert!((8..=24).contains(&connects.opened), "{line}\n{summary}");
        assert_eq!((connects.refused, connects.timed_out, connects.closed_by_server), (0, 0, 0), "{summary}");
        assert!(connects.latency.p50_us > 0.0, "{summary}");
    }
}

#[test]
fn churn_follows_its_rate_and_a_storm_comes_once() {
    // The window is known in an open loop.
    let line = format!(
        "{} {COMMON} --connections 20 --rate 500 --duration 1s --churn 200 --storm 20@300ms",
        server(usize::MAX, |_, reply| reply)
    );
    let summary = run(&line).expect(&line);
    assert!(summary.is_clean() && summary.lost == 0, "{line}\n{summary}");
    let opened = summary.connects.expect("they came and went").opened;
    // 200 ± 6 deviations and 20: a machine that is busy with other things may leave some for later.
    assert!((100..=305).contains(&opened), "{line}\n{summary}");
}

#[test]
fn a_server_that_closes_is_counted_and_met_again() {
    static GETS: AtomicU64 = AtomicU64::new(0);
    let script: Script = |request, reply| match request.starts_with("get") {
        true if GETS.fetch_add(1, Ordering::Relaxed) % 50 == 49 => CLOSE.to_vec(),
        _ => reply,
    };
    let line = format!(
        "{} {COMMON} --connections 3 --depth 2 --requests 1000 --duration 5m --churn 1",
        server(usize::MAX, script)
    );
    let summary = run(&line).expect(&line);
    let connects = summary.connects.expect("they came and went");
    assert!(summary.errors == 0 && summary.requests >= 1000, "{line}\n{summary}");
    assert!((10..=25).contains(&connects.closed_by_server), "{line}\n{summary}");
    assert!(summary.lost >= connects.closed_by_server, "what was on its way is lost: {line}\n{summary}");
    assert!(connects.opened + 3 >= connects.closed_by_server, "{line}\n{summary}");
}

#[test]
fn who_is_refused_tries_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    // It takes two connections, and then stops listening.
    thread::spawn(move || {
        let both: Vec<_> = listener.incoming().take(2).collect();
        drop(listener);
        drop(both);
    });
    let line = format!("--server {address} --connections 2 --warm-up 0 --duration 500ms --churn 1");
    let summary = run(&line).expect(&line);
    let connects = summary.connects.expect("they were closed");
    assert!(connects.refused >= 2 && connects.opened == 0, "{line}\n{summary}");
    assert_eq!(summary.requests, 0, "{line}\n{summary}");
}

#[test]
fn contradictions_are_refused() {
    for (line, expected) in [
        ("--churn 5 --udp", "--reconnect-after, --churn and --storm are for TCP"),
        ("--storm 5@1s --engine uring", "--reconnect-after, --churn and --storm are for TCP"),
        ("--churn 0", "--churn must be above 0 and at most 1000000 connections/s, not 0"),
        ("--reconnect-after 0", "--reconnect-after must be at least 1"),
        ("--storm 5@2s --duration 2s", "--storm 5@2s comes when the window of 2s is over"),
        ("--storm 65@1s", "--storm has more than the 64 connections that there are"),
    ] {
        let error = run(line).expect_err(line);
        assert!(error.starts_with(&format!("use these arguments: {expected}")), "{error}");
    }
}

#[test]
fn memcached_meets_a_storm() {
    let Some(memcached) = Listening::start("storm", &[]) else { return };
    let line = format!(
        "--server {} {COMMON} --connections 1000 --rate 2000 --duration 1s --storm 1000@200ms",
        memcached.addresses[0]
    );
    let summary = run(&line).expect(&line);
    assert!(summary.is_clean() && summary.misses == 0 && summary.lost == 0, "{line}\n{summary}");
    assert!(summary.connects.is_some_and(|connects| connects.opened > 0), "{line}\n{summary}");
}
