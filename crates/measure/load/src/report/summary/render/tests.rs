use super::*;
use crate::measure::failures::Failures;
use crate::measure::latency::Latency;
use crate::measure::verdict::{InvalidReason, RunVerdict};
use crate::report::summary::{ErrorLine, SCHEMA, WaitsSummary};
use crate::types::description::Description;
use crate::types::part::Part;
use crate::workload::plan::RunPlan;

/// As a plan has it.
fn run(line: &str) -> Description {
    let run = Description::of(line.split(' ')).expect(line);
    RunPlan::new(&run, Part::WHOLE).expect(line).run
}

fn summary() -> Summary {
    let cost = |cpu_seconds, per_second: f64| CpuCost {
        cpu_seconds,
        requests_per_cpu_second: per_second,
        keys_per_cpu_second: per_second * 10.0,
    };
    Summary {
        schema: SCHEMA,
        failures: Failures::default(),
        availability: Some(1.0),
        failure: None,
        run: run("--depth 16 --gets 0.9 --multiget 10 --value-size 64-1k --popularity zipf"),
        r#loop: String::from("closed"),
        verdict: RunVerdict { valid: true, reasons: Vec::new() },
        engine: String::from("io_uring"),
        target: String::from("127.0.0.1:11211"),
        transport: String::from("tcp"),
        seconds: 5.0,
        requests: 1_000_000,
        commands: Vec::new(),
        gets: 900_000,
        sets: 100_000,
        keys_asked: 9_000_000,
        hits: 8_999_100,
        misses: 900,
        refills: 0,
        not_stored: 0,
        wrong_values: 0,
        errors: 0,
        lost: 0,
        stray_datagrams: 0,
        error_lines: Vec::new(),
        requests_per_second: 200_000.4,
        keys_per_second: 1_820_000.0,
        latency: Latency {
            p50_us: 250.2,
            p90_us: 300.0,
            p99_us: 999.5,
            p999_us: 1_234.0,
            max_us: 10_000.0,
            mean_us: 260.0,
        },
        waits: None,
        unread: None,
        connects: None,
        handshakes: None,
        steal: 0.0,
        client: cost(4.0, 250_000.0),
        busiest_thread: 0.8,
        cpu_wait: 0.0,
        server: Some(cost(5.0, 200_000.0)),
        probes: None,
        recorded: None,
        series: Vec::new(),
        agents: Vec::new(),
    }
}

#[test]
fn a_good_run_reads_like_this() {
    let expected = "\
closed loop (io_uring) against 127.0.0.1:11211 (tcp): 64 connections of depth 16, 1 thread
  text protocol, 90 % gets of 10 keys; 100,000 items, keys of 14, values of 64-1024 bytes, zipf:0.99, seed 1
  rate            200,000 requests/s     1,820,000 keys/s  over 5.00 s
  server          200,000 requests/CPU-s 2,000,000 keys/CPU-s  in 5.00 CPU-s
  client          250,000 requests/CPU-s 2,500,000 keys/CPU-s  in 4.00 CPU-s, busiest thread 80 %
  latency   p50 250 | p90 300 | p99 1,000 | p99.9 1,234 | max 10,000 µs
  requests  900,000 gets, 8,999,100 hits, 900 misses (0.01 %), 100,000 sets
VALID
";
    assert_eq!(summary().to_string(), expected);
}

#[test]
fn an_open_loop_says_where_the_time_went() {
    let latency = |scale: f64| Latency {
        p50_us: scale,
        p90_us: scale * 2.0,
        p99_us: scale * 3.0,
        p999_us: scale * 4.0,
        max_us: scale * 5.0,
        mean_us: scale,
    };
    let open = Summary {
        r#loop: String::from("open"),
        run: run("--rate 10000 --depth 16"),
        latency: latency(100.0),
        waits: Some(WaitsSummary {
            service: latency(80.0),
            slip: latency(20.0),
            late: latency(10.0),
            unanswered: 0,
            unsent: 0,
        }),
        ..summary()
    };
    let shown = open.to_string();
    let first = "open loop (io_uring) of 10,000 requests/s, poisson, against 127.0.0.1:11211 (tcp): 64 connections of \
                 depth 16, 1 thread";
    let waits = "  latency   p50 100 | p90 200 | p99 300 | p99.9 400 | max 500 µs
    service p50 80 | p90 160 | p99 240 | p99.9 320 | max 400 µs
    slip    p50 20 | p90 40 | p99 60 | p99.9 80 | max 100 µs
    late    p50 10 | p90 20 | p99 30 | p99.9 40 | max 50 µs
";
    assert!(shown.starts_with(first) && shown.contains(waits) && !shown.contains("missing"), "{shown}");
    let waits = open.waits.map(|waits| WaitsSummary { unanswered: 3, unsent: 4500, ..waits });
    let shown = Summary { waits, ..open }.to_string();
    assert!(shown.contains("  missing   3 requests not answered in time, 4,500 never sent\n"), "{shown}");
}

#[test]
fn other_commands_have_their_line() {
    let count = |command: &str, requests, declined| CommandCount {
        command: String::from(command),
        requests,
        declined,
    };
    let mixed = Summary {
        run: run("--workload etc --mix get=9,add=1 --ttl 60:0.5,3600 --multiget 10 --value-size 64-1k"),
        commands: vec![count("get", 9000, 0), count("add", 1000, 990), count("delete", 5, 0)],
        ..summary()
    };
    let shown = mixed.to_string();
    for line in [
        "  workload etc: text protocol, get=0.9,add=0.1, gets of 10 keys; 100,000 items, keys of fb_key, values of 64-1024 bytes, \
         TTLs of 60:0.5,3600 s, zipf:0.99, seed 1\n",
        "  commands  1,000 add (990 was there), 5 delete\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn a_bad_run_says_what_was_bad() {
    let bad = Summary {
        run: run("--verify"),
        refills: 1234,
        wrong_values: 2,
        not_stored: 3,
        errors: 4000,
        error_lines: vec![ErrorLine { line: String::from("SERVER_ERROR busy"), times: 4000 }],
        misses: 5_000_000,
        verdict: RunVerdict {
            valid: false,
            reasons: vec![InvalidReason {
                what: String::from("steal"),
                why: String::from("others took 9 %"),
            }],
        },
        ..summary()
    };
    assert!(!bad.is_clean() && summary().is_clean());
    let shown = bad.to_string();
    let tail: Vec<&str> = shown.lines().skip(7).collect();
    let expected = [
        "  backfill  1,234 missed keys",
        "  verified  2 wrong values",
        "  declined  3 sets",
        "  errors    4,000",
        "         4,000× SERVER_ERROR busy",
        "warning: more than a tenth of the keys were missing: store them with --prefill or --backfill",
        "INVALID (steal): others took 9 %",
    ];
    assert_eq!(tail, expected);
}

#[test]
fn large_numbers_are_grouped() {
    for (number, shown) in
        [(0.0, "0"), (7.0, "7"), (999.0, "999"), (1000.0, "1,000"), (1_234_567.8, "1,234,568")]
    {
        assert_eq!(grouped(number), shown);
    }
}
