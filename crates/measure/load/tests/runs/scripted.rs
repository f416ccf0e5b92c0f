//! Whole runs against a scripted server, on both engines.

use crate::support::{CLOSE, Script, run, server};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};

const ENGINES: [&str; 2] = ["--engine auto", "--engine epoll"];
const HONEST: Script = |_, reply| reply;

/// A short run without warm-up on each engine.
fn check(piece: usize, script: Script, line: &str, expect: impl Fn(&str, Result<load::Summary, String>)) {
    for engine in ENGINES {
        let server = server(piece, script);
        let line = format!("{server} {engine} --warm-up 0 {line}");
        expect(&line, run(&line));
    }
}

fn is_clean(line: &str, outcome: Result<load::Summary, String>) {
    let summary = outcome.expect(line);
    assert!(summary.is_clean(), "{line}\n{summary}");
    assert!(summary.requests >= 500, "{line}\n{summary}");
    assert_eq!(summary.misses, 0, "{line}\n{summary}");
    assert_eq!(summary.hits, summary.keys_asked, "{line}\n{summary}");
}

#[test]
fn every_mix_reads_back_what_was_stored() {
    for line in [
        "",
        "--gets 0.5",
        "--gets 0",
        "--depth 16 --gets 0.9",
        "--multiget 10",
        "--multiget 7 --depth 3 --gets 0.8 --threads 2",
        "--popularity zipf:0.99 --gets 0.7",
        "--key-size 5-40 --value-size 0-300 --gets 0.7 --depth 4",
        "--key-size 250 --value-size 10,20,20000",
    ] {
        for protocol in ["text", "meta"] {
            let line = format!(
                "--protocol {protocol} --connections 4 --requests 500 --duration 5m --prefill --keys 200 --verify {line}"
            );
            check(usize::MAX, HONEST, &line, is_clean);
        }
    }
}

#[test]
fn replies_in_small_pieces_are_understood() {
    for piece in [1, 2, 7, 30] {
        let line = "--connections 3 --depth 5 --multiget 3 --gets 0.8 --value-size 0-40 --requests 500 --keys 200 --prefill --verify";
        check(piece, HONEST, line, is_clean);
    }
}

#[test]
fn more_than_the_sockets_hold_goes_out_in_the_end() {
    // Eight pipelined megabytes on one connection: sends come back short, receives run out of buffers.
    let line =
        "--keys 10 --value-size 1m --connections 1 --depth 8 --gets 0.5 --requests 100 --prefill --verify";
    for engine in ENGINES {
        let line = format!("{} {engine} --warm-up 0 {line}", server(usize::MAX, HONEST));
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean() && summary.requests >= 100 && summary.misses == 0, "{line}\n{summary}");
    }
}

#[test]
fn a_generator_that_waits_for_its_cpu_says_so() {
    let allowed = sched_getaffinity(None).expect("a set");
    let cpu = (0..1024).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
    let line =
        format!("{} --cpu {cpu} --duration 400ms --warm-up 100ms --keys 10", server(usize::MAX, HONEST));
    let ended = AtomicBool::new(false);
    // Three neighbours that never sleep: the generator gets a quarter of the CPU, of which it needs more.
    let summary = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut one = CpuSet::new();
                one.set(cpu);
                sched_setaffinity(None, &one).expect("a CPU of ours");
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let summary = run(&line);
        ended.store(true, Ordering::Relaxed);
        summary.expect(&line)
    });
    assert!(summary.cpu_wait > 0.1, "{summary}");
    assert!(summary.verdict.reasons.iter().any(|reason| reason.what == "client-waited"), "{summary}");
    assert!(summary.to_string().contains(" %, waited for a CPU "), "{summary}");
}

#[test]
fn missing_keys_are_counted() {
    for line in ["", "--multiget 5", "--protocol meta", "--protocol meta --multiget 5"] {
        check(
            usize::MAX,
            HONEST,
            &format!("--connections 2 --verify --requests 50 {line}"),
            |line, outcome| {
                let summary = outcome.expect(line);
                assert!(summary.requests >= 50 && summary.hits == 0, "{line}\n{summary}");
                assert_eq!(summary.misses, summary.keys_asked, "{line}\n{summary}");
            },
        );
    }
}

#[test]
fn what_is_missed_is_stored() {
    for protocol in ["text", "meta"] {
        for line in [
            "",
            "--verify --depth 8",
            "--multiget 5 --depth 2",
            "--rate 3000 --duration 5m",
            "--rate 3000 --duration 5m --multiget 20 --connections 1 --depth 4",
        ] {
            for engine in ENGINES {
                let server = server(usize::MAX, HONEST);
                let common = format!(
                    "{server} {engine} --protocol {protocol} --keys 50 --requests 1000 --warm-up 0 --value-size 0-300"
                );
                let line = format!("{common} --connections 3 --backfill {line}");
                let summary = run(&line).expect(&line);
                assert!(summary.is_clean(), "{line}\n{summary}");
                // On a busy machine a closed loop may have missed them all before the window was opened.
                let has_missed = summary.misses > 0 && summary.refills > 0;
                assert!(has_missed || summary.r#loop == "closed", "{line}\n{summary}");
                assert_eq!(summary.hits + summary.misses, summary.keys_asked, "{line}\n{summary}");
                // They are no requests that were asked for.
                assert_eq!((summary.sets, summary.requests), (0, summary.gets), "{line}\n{summary}");
                let after = run(&format!("{common} --verify")).expect(&common);
                assert!(after.is_clean() && after.misses == 0 && after.hits >= 1000, "{line}\n{after}");
            }
        }
    }
}

/// What a proxy sends that asked several servers.
#[test]
fn values_in_any_order_are_right() {
    let turned: Script = |request, reply| {
        if !request.starts_with("get ") {
            return reply;
        }
        let (mut rest, mut values) = (&reply[..], Vec::new());
        while rest.starts_with(b"VALUE ") {
            let end = rest.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
            let line = std::str::from_utf8(&rest[..end]).expect("a key of this test").trim_end();
            let (_, len) = line.rsplit_once(' ').expect("a length");
            let (value, more) = rest.split_at(end + len.parse::<usize>().expect("a length") + 2);
            values.push(value);
            rest = more;
        }
        let middle = values.len() / 2;
        values.rotate_left(middle);
        [&values.concat(), rest].concat()
    };
    let line =
        "--connections 2 --keys 30 --multiget 9 --depth 2 --value-size 0-99 --requests 1000 --duration 5m";
    let both = format!("{line} --prefill --verify");
    check(usize::MAX, turned, &both, |line, outcome| {
        let summary = outcome.expect(line);
        assert!(summary.is_clean() && summary.misses == 0, "{line}\n{summary}");
    });
    // What one of several misses is stored, and nothing else.
    let server = server(usize::MAX, turned);
    let backfilled = run(&format!("{server} --warm-up 0 {line} --backfill --verify")).expect(line);
    assert!(backfilled.is_clean(), "{backfilled}");
    let after = run(&format!("{server} --warm-up 0 {line} --verify")).expect(line);
    assert!(after.is_clean() && after.misses == 0, "{after}");
}

#[test]
fn wrong_values_are_seen() {
    let swapped: Script = |request, reply| match request {
        "get key:0000000007" => b"VALUE key:0000000007 0 3\r\nabc\r\nEND\r\n".to_vec(),
        "get key:0000000008" => b"VALUE key:0000000009 0 3\r\nabc\r\nEND\r\n".to_vec(),
        _ => reply,
    };
    check(
        usize::MAX,
        swapped,
        "--connections 2 --keys 10 --prefill --verify --requests 500",
        |line, outcome| {
            let summary = outcome.expect(line);
            assert!(summary.wrong_values > 20 && !summary.is_clean(), "{line}\n{summary}");
            assert_eq!(summary.errors, 0, "{line}\n{summary}");
        },
    );
}

#[test]
fn a_value_that_nobody_asked_for_is_a_malformed_reply() {
    let ends = |script: Script, line: &str, words: &str| {
        check(usize::MAX, script, &format!("{line} --fail-fast"), |line, outcome| {
            // The window may be open by then.
            let error = outcome.map_or_else(|error| error, |summary| summary.failure.expect(line));
            assert!(error.contains(words), "{line}\n{error}");
        });
    };
    let other: Script = |request, reply| match request {
        "get key:0000000007" | "gets key:0000000007" => b"VALUE key:0000000008 0 1\r\na\r\nEND\r\n".to_vec(),
        "get 7" => b"VALUE 17 0 1\r\na\r\nEND\r\n".to_vec(),
        _ => reply,
    };
    let words = "expected VALUE with the key that was asked for";
    ends(other, "--keys 10 --duration 5m", words);
    ends(other, "--keys 10 --key-size 1 --depth 5 --duration 5m", words);
    let twice: Script = |request, reply| match request {
        "get key:0" => b"VALUE key:0 0 1\r\na\r\nVALUE key:0 0 1\r\na\r\nEND\r\n".to_vec(),
        "mn" => b"VA 1\r\na\r\nVA 1\r\na\r\nVA 1\r\na\r\nMN\r\n".to_vec(),
        _ => reply,
    };
    ends(twice, "--keys 1 --key-size 5 --duration 5m", "expected END: every key has its value");
    ends(
        twice,
        "--keys 1 --key-size 5 --multiget 2 --protocol meta --duration 5m",
        "expected MN: every key has its value",
    );
}

#[test]
fn error_lines_are_counted_and_shown() {
    let full: Script = |request, reply| match request.starts_with("set") {
        true => b"SERVER_ERROR out of memory storing object\r\n".to_vec(),
        false => reply,
    };
    check(usize::MAX, full, "--connections 2 --gets 0.5 --requests 200", |line, outcome| {
        let summary = outcome.expect(line);
        assert_eq!((summary.errors, summary.error_lines.len()), (summary.sets, 1), "{line}\n{summary}");
        assert_eq!(summary.error_lines[0].line, "SERVER_ERROR out of memory storing object");
        assert!(summary.to_string().contains("SERVER_ERROR out of memory storing object"), "{summary}");
    });
    check(usize::MAX, full, "--prefill --keys 200 --requests 1", |line, outcome| {
        let error = outcome.expect_err(line);
        assert!(error.starts_with("store all keys first: 200 of 200 refused"), "{error}");
    });
}

#[test]
fn a_server_that_speaks_something_else_ends_the_run() {
    check(
        usize::MAX,
        |_, _| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        "--requests 5",
        |line, outcome| {
            let error = outcome.map_or_else(|error| error, |summary| summary.failure.expect(line));
            let expected =
                r#"understand the reply "HTTP/1.1 400 Bad Request": expected VALUE or END, to a get"#;
            assert_eq!(error, expected);
        },
    );
    check(
        usize::MAX,
        |_, _| b"ERROR Too many open connections\r\n".to_vec(),
        "--requests 5",
        |line, outcome| {
            let error = outcome.map_or_else(|error| error, |summary| summary.failure.expect(line));
            let expected =
                r#"understand the reply "ERROR Too many open connections": expected VALUE or END, to a get"#;
            assert_eq!(error, expected);
        },
    );
    check(
        usize::MAX,
        |_, _| b"END\r\nEND\r\n".to_vec(),
        "--connections 1 --requests 5 --fail-fast",
        |line, outcome| {
            let error = outcome.map_or_else(|error| error, |summary| summary.failure.expect(line));
            assert_eq!(error, r#"understand the reply "END": expected nothing: no request is on its way"#);
        },
    );
}

#[test]
fn a_closed_connection_ends_the_run_with_fail_fast() {
    check(
        usize::MAX,
        |_, _| CLOSE.to_vec(),
        "--connections 1 --requests 5 --fail-fast",
        |line, outcome| {
            let error = outcome.map_or_else(|error| error, |summary| summary.failure.expect(line));
            assert!(error.starts_with("keep connection 0"), "{error}");
        },
    );
}

#[test]
fn the_window_closes_on_a_silent_server() {
    check(
        usize::MAX,
        |_, _| Vec::new(),
        "--duration 100ms",
        |line, outcome| {
            let summary = outcome.expect(line);
            assert_eq!((summary.requests, summary.requests_per_second), (0, 0.0), "{line}");
            assert!(summary.seconds >= 0.1, "{line}: {}", summary.seconds);
            assert!(
                summary.verdict.reasons.iter().any(|reason| reason.what == "silent"),
                "{line}: {summary}"
            );
        },
    );
}

#[test]
fn a_refused_connection_names_the_server() {
    let error = run("--server 127.0.0.1:1 --connections 3").expect_err("nobody listens there");
    assert_eq!(error, "connect to 127.0.0.1:1 (connection 1 of 3)");
}

#[test]
fn contradictions_are_refused() {
    for (line, expected) in [
        ("--connections 0", "use these arguments: --connections must be at least 1"),
        ("--gets 1.5", "use these arguments: --gets is a share between 0 and 1, not 1.5"),
        (
            "--mix get=1,append=1 --verify",
            "use these arguments: append and prepend change values, which --verify would find wrong",
        ),
        (
            "--mix incr=1 --key-size 8",
            "use these arguments: incr and decr need keys of at least 4 bytes and the digits of the largest number",
        ),
        (
            "--popularity hot:0.9,100 --keys 100",
            "use these arguments: hot:0.9,100 of 100 keys: some have to be cold",
        ),
        ("--workload list", "use these arguments: `list` shows the workloads, it is none"),
        ("--connections 1 --threads 2", "use these arguments: 2 threads need as many connections"),
        (
            "--keys 1000 --key-size 2",
            "use these arguments: 1000 keys need 3 digits, a key size of 2 has no room",
        ),
    ] {
        assert_eq!(run(line).expect_err(line), expected);
    }
}

#[test]
fn the_same_seed_asks_the_same_and_the_json_says_so() {
    let file = std::env::temp_dir().join(format!("evenkeel-load-{}.json", std::process::id()));
    let line = "--connections 1 --depth 4 --gets 0.5 --seed 7 --requests 100 --warm-up 0 --keys 100";
    let mut seen = Vec::new();
    for _ in 0..2 {
        let summary = run(&format!("{} {line} --json {}", server(9, HONEST), file.display())).expect(line);
        let text = std::fs::read_to_string(&file).expect("the file was written");
        let read: load::Summary = serde_json::from_str(&text).expect("a summary");
        assert_eq!((read.requests, read.r#loop.as_str()), (summary.requests, "closed"));
        seen.push((summary.gets, summary.sets, summary.hits));
    }
    std::fs::remove_file(&file).expect("the file is there");
    // Requests completed beyond the hundredth depend on timing, the first hundred do not.
    assert!(seen.iter().all(|&(gets, sets, _)| gets + sets < 108 && gets > 25 && sets > 25), "{seen:?}");
}
