//! Open loops: against the scripted server, and against a memcached that is stopped now and then.

use crate::memcached::Memcached;
use crate::support::{Script, arguments, run, server};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn every_request_of_the_schedule_is_sent_and_answered() {
    for engine in ["auto", "epoll"] {
        for line in [
            "--arrivals constant",
            "--depth 16 --connections 2 --gets 0.8",
            "--arrivals pareto --threads 2 --multiget 5",
            "--spin --protocol meta",
        ] {
            let line = format!(
                "{} --engine {engine} --rate 4000 --requests 800 --warm-up 50ms --keys 200 --prefill --verify {line}",
                server(usize::MAX, |_, reply| reply)
            );
            let summary = run(&line).expect(&line);
            assert!(summary.is_clean(), "{line}\n{summary}");
            let waits = summary.waits.expect("an open loop");
            // What the warm-up sent does not count, nor does it use anything up.
            assert_eq!((summary.requests, waits.unanswered, waits.unsent), (800, 0, 0), "{line}\n{summary}");
            assert_eq!(summary.misses, 0, "{line}\n{summary}");
            assert!(summary.latency.max_us >= waits.service.p50_us, "{line}\n{summary}");
        }
    }
}

#[test]
fn a_silent_server_makes_the_run_invalid() {
    let line = format!(
        "{} --rate 1000 --duration 200ms --warm-up 0 --connections 3",
        server(usize::MAX, |_, _| Vec::new())
    );
    let summary = run(&line).expect(&line);
    let waits = summary.waits.expect("an open loop");
    assert_eq!((summary.requests, waits.unanswered), (0, 3), "{summary}");
    assert!(waits.unsent > 100, "{summary}");
    assert!(summary.verdict.reasons.iter().any(|reason| reason.what == "rate-missed"), "{summary}");
    assert!(summary.to_string().contains("  missing   3 requests not answered in time, "), "{summary}");
    // The first of the warm-up keep the connections: none of the window's is sent.
    let summary = run(&line.replace("--warm-up 0", "--warm-up 100ms")).expect(&line);
    assert_eq!(summary.waits.map(|waits| waits.unanswered), Some(0), "{summary}");
    // Nor do those of the warm-up that wait for a connection count as requests of the window.
    for warm_up in ["100ms", "2s"] {
        let more = format!("--arrivals constant --warm-up {warm_up}");
        let summary = run(&line.replace("--warm-up 0", &more)).expect(&line);
        let unsent = summary.waits.map(|waits| waits.unsent);
        assert!(unsent.is_some_and(|unsent| (199..=201).contains(&unsent)), "{summary}");
        assert!(summary.verdict.reasons.iter().all(|reason| reason.what != "arrivals"), "{summary}");
    }
}

/// One connection of a server that takes 2 ms for each request: 500 a second, whatever is asked.
#[expect(clippy::disallowed_methods, reason = "another program lives in real time")]
fn slow(_: &str, reply: Vec<u8>) -> Vec<u8> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2) {
        thread::park_timeout(Duration::from_millis(2) - begun.elapsed());
    }
    reply
}

#[test]
fn a_rate_that_was_not_reached_is_not_shown_as_reached() {
    for line in
        ["--duration 600ms", "--requests 300", "--duration 600ms --depth 100", "--duration 5m --requests 300"]
    {
        // What is left at the end takes the server as long again: it is answered before the wait for replies ends.
        let line = format!("{} --connections 1 --rate 1000 --warm-up 0 {line}", server(usize::MAX, slow));
        let summary = run(&line).expect(&line);
        let waits = summary.waits.expect("an open loop");
        assert_eq!((waits.unanswered, waits.unsent), (0, 0), "{line}\n{summary}");
        assert!(summary.requests_per_second < 510.0, "{line}\n{summary}");
        assert!(summary.keys_per_second < 510.0, "{line}\n{summary}");
        assert!(
            summary.verdict.reasons.iter().any(|reason| reason.what == "overloaded"),
            "{line}\n{summary}"
        );
    }
    // Nor is it by probes, which are judged apart.
    let line = format!(
        "{} --connections 1 --warm-up 0 --duration 600ms --probes 1 --probe-rate 1000",
        server(usize::MAX, slow)
    );
    let summary = run(&line).expect(&line);
    let probes = summary.probes.as_ref().expect("probes");
    assert!(probes.requests_per_second < 510.0, "{summary}");
    assert!(probes.verdict.reasons.iter().any(|reason| reason.what == "overloaded"), "{summary}");
    assert!(summary.verdict.reasons.iter().all(|reason| reason.what != "overloaded"), "{summary}");
}

#[test]
fn a_server_that_is_far_away_is_not_overloaded() {
    // Each of 40 connections waits for 2 ms: together they manage 20,000 a second.
    let line = format!(
        "{} --connections 40 --rate 500 --arrivals constant --warm-up 0 --duration 400ms",
        server(usize::MAX, slow)
    );
    let mut seen = Vec::new();
    for _ in 0..CHANCES {
        let summary = run(&line).expect(&line);
        if summary.verdict.reasons.iter().all(|reason| reason.what != "overloaded") {
            return;
        }
        // A machine that is too busy to answer in time is slow, indeed.
        seen.push(summary.to_string());
    }
    panic!("always overloaded: {}", seen.join("\n"));
}

#[test]
fn errors_of_the_warm_up_do_not_count() {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let script: Script = |_, reply| match REQUESTS.fetch_add(1, Ordering::Relaxed) {
        0..5 => b"SERVER_ERROR just started\r\n".to_vec(),
        _ => reply,
    };
    // The first five come in the first 50 ms.
    let line = format!(
        "{} --rate 100 --arrivals constant --warm-up 2s --duration 300ms --connections 2",
        server(usize::MAX, script)
    );
    let summary = run(&line).expect(&line);
    assert!(REQUESTS.load(Ordering::Relaxed) > 5 && summary.is_clean(), "{summary}");
    assert!(summary.error_lines.is_empty() && summary.requests > 0, "{summary}");
}

#[test]
fn a_pace_needs_a_rate_that_can_be_kept() {
    for (line, expected) in
        [("--rate 0", "0"), ("--rate -5", "-5"), ("--rate NaN", "NaN"), ("--rate 1e-12", "0.000000000001")]
    {
        let line = line.replace("--rate ", "--rate=");
        let expected =
            format!("use these arguments: --rate must be between 1e-6 and 1e9 requests/s, not {expected}");
        assert_eq!(run(&line).expect_err(&line), expected);
    }
}

#[test]
fn replies_end_when_the_kernel_has_them() {
    for more in ["--rate 2000 --probes 2 --probe-rate 100", "--depth 4 --multiget 3"] {
        let line = format!(
            "{} --duration 500ms --warm-up 100ms --connections 4 --keys 100 --kernel-timestamps {more}",
            server(usize::MAX, |_, reply| reply)
        );
        let summary = match run(&line) {
            Ok(summary) => summary,
            Err(error) if error.contains("io_uring") => return eprintln!("left out: {error}"),
            Err(error) => panic!("{line}: {error}"),
        };
        let unread = summary.unread.expect("it was asked for");
        assert!(unread.p50_us > 0.0 && unread.max_us < 10e6, "{summary}");
        assert!(summary.latency.p50_us > 0.0, "{summary}");
        assert_eq!(
            summary.probes.as_ref().is_some_and(|probes| probes.unread.is_some()),
            more.contains("probes")
        );
        assert!(summary.waits.is_none_or(|waits| waits.unsent + waits.unanswered == 0), "{summary}");
    }
    for (line, expected) in [
        ("--engine epoll", "not with --udp, --socket or --engine epoll"),
        ("--udp", "not with --udp, --socket or --engine epoll"),
        ("--churn 10", "not with --udp, --socket, --engine uring, --kernel-timestamps or --slot"),
    ] {
        let refused = run(&format!("--kernel-timestamps {line}")).expect_err(line);
        assert!(refused.ends_with(expected), "{refused}");
    }
}

#[test]
fn requests_of_a_slot_go_out_together() {
    let common = format!(
        "{} --rate 4000 --arrivals constant --duration 500ms --warm-up 100ms --connections 50 --keys 100",
        server(usize::MAX, |_, reply| reply)
    );
    let with = |more: &str| match run(&format!("{common} {more}")) {
        Err(error) if error.contains("io_uring") => None,
        summary => Some(summary.expect(&common)),
    };
    let Some(summary) = with("--slot 5ms") else { return eprintln!("left out: no io_uring") };
    let waits = summary.waits.expect("an open loop");
    assert!(summary.is_clean() && waits.unanswered + waits.unsent == 0, "{summary}");
    // Twenty requests a slot, evenly spread over it; whatever else makes them wait comes in addition.
    assert!(waits.slip.p50_us > 2_000.0 && summary.latency.p50_us > waits.slip.p50_us / 2.0, "{summary}");
    assert!(summary.unread.is_some(), "replies end when the kernel has them: {summary}");
    assert!(summary.to_string().contains(" requests/s, constant, in slots of 5000 µs against "), "{summary}");
    assert_eq!(summary.run.slot, Some("5ms".parse().expect("a time")));
    for (line, expected) in [
        ("--slot 1us", "--slot must be between 10µs and 10ms, not 0.000001s"),
        ("--slot 100us --engine epoll", "not with --udp, --socket or --engine epoll"),
        ("--slot 100us --udp", "not with --udp, --socket or --engine epoll"),
    ] {
        let refused = run(&format!("--rate 5 {line}")).expect_err(line);
        assert!(refused.ends_with(expected), "{refused}");
    }
    assert!(run("--slot 1ms").expect_err("a closed loop").contains("--spin and --slot are for an open loop"));
}

#[test]
fn a_search_ends_with_a_knee() {
    let line = format!(
        "{} --search p50<200ms --rate 200 --duration 20ms --warm-up 5ms --connections 2 --keys 10",
        server(usize::MAX, |_, reply| reply)
    );
    let arguments = arguments(&line);
    let objective = arguments.search.expect("an objective");
    let search = || load::search(&arguments, &objective, &mut std::io::sink()).expect(&line);
    // One clock tick that another guest of the machine takes spoils so short a run, and three in a row end the search.
    let is_spoilt = |knee: &load::Knee| knee.tries.iter().all(|one| one.outcome == load::TryOutcome::Invalid);
    let Some(knee) = (0..CHANCES).map(|_| search()).find(|knee| !is_spoilt(knee)) else {
        return eprintln!("left out, because other guests take this machine's CPU time");
    };
    // Where a server's limit is depends on the machine; the least that any manages is known.
    assert!(knee.rate.is_some_and(|rate| rate >= 200.0 && rate >= knee.held_up_to), "{knee}");
    let error = run("--spin --requests 5").expect_err("a closed loop");
    assert_eq!(
        error,
        "use these arguments: --arrivals, --spin and --slot are for an open loop: use --rate or --search, too"
    );
}

const CHANCES: usize = 8;

/// If this program was itself stopped for this long, theory does not include it.
const STALLED_TOO: Duration = Duration::from_millis(5);

/// How long the server is stopped, and how often.
const STALL: Duration = Duration::from_millis(100);
const EVERY: Duration = Duration::from_millis(500);

/// Stops and continues a process until it is ended; returns how long it was stopped each time.
#[expect(clippy::disallowed_methods, reason = "another program lives in real time")]
fn stall(pid: Pid, ended: &AtomicBool) -> Vec<Duration> {
    let mut stalls = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let begun = Instant::now();
        kill_process(pid, Signal::STOP).expect("a process of ours");
        thread::sleep(STALL);
        kill_process(pid, Signal::CONT).expect("a process of ours");
        stalls.push(begun.elapsed());
        thread::sleep(EVERY.saturating_sub(begun.elapsed()));
    }
    stalls
}

/// The latency that a share of all requests exceed, if they arrive evenly over `window` and wait for the end of the
/// stall that they arrive in.
fn theory(stalls: &[Duration], window: Duration, share: f64) -> Duration {
    let waiting = |latency: &Duration| {
        let longer: Duration = stalls.iter().map(|stall| stall.saturating_sub(*latency)).sum();
        longer.as_secs_f64() / window.as_secs_f64() > share
    };
    let longest = stalls.iter().max().copied().unwrap_or_default();
    (0..).map(Duration::from_micros).find(|latency| !waiting(latency)).unwrap_or(longest)
}

/// memtier_benchmark is off by a factor of 20 here.
#[test]
fn a_server_that_stops_is_as_slow_as_theory_says() {
    let Some(memcached) = Memcached::start("stalls") else { return };
    let pid = Pid::from_child(&memcached.child);
    let line = format!(
        "--socket {} --rate 10000 --connections 50 --duration 4s --warm-up 0 --keys 1000 --prefill",
        memcached.socket.display()
    );
    let mut seen = Vec::new();
    let mut is_disturbed = true;
    // A machine that is busy with other things makes requests slower than theory: it gets several chances.
    for _ in 0..CHANCES {
        let ended = AtomicBool::new(false);
        let (summary, stalls) = thread::scope(|scope| {
            let stalls = scope.spawn(|| stall(pid, &ended));
            let summary = run(&line);
            ended.store(true, Ordering::Relaxed);
            (summary.expect(&line), stalls.join().expect("no panic"))
        });
        let window = Duration::from_secs_f64(summary.seconds);
        let theory_us = theory(&stalls, window, 0.01).as_secs_f64() * 1e6;
        let off = summary.latency.p99_us / theory_us - 1.0;
        let rate_off = summary.requests_per_second / 10_000.0 - 1.0;
        if off.abs() < 0.05 && rate_off.abs() < 0.02 {
            return;
        }
        // A generator that waits for the server before it counts would be off by a factor of 20, whatever else happens.
        // Unless it is theory that is off, because the program that stops the server was itself stopped.
        let is_theory_off = stalls.iter().any(|stall| *stall > STALL + STALLED_TOO);
        assert!(
            off > -0.5 || is_theory_off,
            "theory {theory_us:.0} µs of {} stalls\n{summary}",
            stalls.len()
        );
        let late_us = summary.waits.expect("an open loop").late.p999_us;
        is_disturbed &= late_us > STALLED_TOO.as_secs_f64() * 1e6 || is_theory_off;
        seen.push(format!("theory {theory_us:.0} µs of {} stalls\n{summary}", stalls.len()));
    }
    if is_disturbed {
        eprintln!("left out, because this machine has stalls of its own: {}", seen.join("\n"));
        return;
    }
    panic!("always off: {}", seen.join("\n"));
}

#[test]
fn every_second_is_in_the_interval_log() {
    let file = std::env::temp_dir().join(format!("evenkeel-load-{}.hlog", std::process::id()));
    // The last part of a second is, with its length. It is not in the log that a thread with few requests has its last one
    // long before the end.
    for (more, wanted) in [
        ("--rate 500 --duration 2100ms", &["0.000,1.000", "1.000,1.000", "2.000,0.1"][..]),
        ("--rate 10 --threads 2 --duration 2s", &["0.000,1.000", "1.000,1.000"]),
    ] {
        let line = format!(
            "{} {more} --warm-up 100ms --connections 2 --keys 10 --hdr-log {}",
            server(usize::MAX, |_, reply| reply),
            file.display()
        );
        run(&line).expect(&line);
        let text = std::fs::read_to_string(&file).expect("the file was written");
        std::fs::remove_file(&file).expect("the file is there");
        let lines: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(lines.len(), wanted.len(), "{line}\n{text}");
        assert!(lines.iter().zip(wanted).all(|(line, wanted)| line.starts_with(wanted)), "{line}\n{text}");
    }
}
