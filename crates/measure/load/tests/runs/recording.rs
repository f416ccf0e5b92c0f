//! Recordings: what a run asked, written as a trace, and replayed.

use crate::support::{Script, run, server};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

/// A file of one test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("evenkeel-load-{name}-{}.trace", std::process::id())))
    }

    /// Client and request of each line, a request as `get KEY` or `set KEY LEN`.
    fn requests(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(&self.0).expect("a recording");
        let request = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            let [_, key, key_size, value_size, client, operation, _] = fields[..] else {
                panic!("seven fields, not {line}")
            };
            assert_eq!(key.len().to_string(), key_size, "{line}");
            let size = if operation == "get" { String::new() } else { format!(" {value_size}") };
            (client.to_owned(), format!("{operation} {key}{size}"))
        };
        text.lines().map(request).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Only if the test has come so far.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What a server was asked, and by which of its threads, which is on which connection.
type Seen = Mutex<Vec<(ThreadId, String)>>;

fn see(seen: &Seen, request: &str) {
    let words: Vec<&str> = request.split(' ').collect();
    let request = match words[..] {
        ["set", key, _, _, len] => format!("set {key} {len}"),
        _ => request.to_owned(),
    };
    seen.lock().expect("no panic").push((thread::current().id(), request));
}

fn take(seen: &Seen) -> Vec<(ThreadId, String)> {
    std::mem::take(&mut *seen.lock().expect("no panic"))
}

/// The requests by client, or by another key that `group` returns.
fn grouped<K: Ord, T>(
    requests: &[T],
    group: impl Fn(&T) -> K,
    request: impl Fn(&T) -> &str,
) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<K, Vec<String>> = BTreeMap::new();
    requests.iter().for_each(|one| groups.entry(group(one)).or_default().push(request(one).to_owned()));
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort();
    groups
}

const COMMON: &str =
    "--warm-up 0 --keys 100 --key-size 6-20 --value-size 20-300 --gets 0.6 --requests 600 --duration 5m";

#[test]
fn a_replay_asks_what_was_recorded_in_its_order() {
    static SEEN: Seen = Mutex::new(Vec::new());
    let script: Script = |request, reply| {
        see(&SEEN, request);
        reply
    };
    let server = server(usize::MAX, script);
    for (name, line) in
        [("open", "--rate 5000"), ("closed", ""), ("backfill", "--rate 5000 --backfill --depth 4")]
    {
        let file = Scratch::new(name);
        let line = format!("{server} {COMMON} --connections 1 {line} --record {}", file.0.display());
        let summary = run(&line).expect(&line);
        let seen: Vec<String> = take(&SEEN).into_iter().map(|(_, request)| request).collect();
        let recorded: Vec<String> = file.requests().into_iter().map(|(_, request)| request).collect();
        let stated = summary.recorded.as_ref().expect("a recording");
        assert!(stated.requests == recorded.len() as u64 && summary.is_recorded_whole(), "{line}\n{summary}");
        match name {
            // What was sent before the window opened is not in it; nothing is on its way when the run ends.
            "closed" => {
                assert!(recorded.len() >= 600 - 1, "{line}\n{summary}");
                assert!(seen.windows(recorded.len()).any(|some| some == recorded), "{line}\n{summary}");
            }
            _ => {
                assert_eq!(recorded.len() as u64, 600 + summary.refills, "{line}\n{summary}");
                assert_eq!(seen, recorded, "{line}\n{summary}");
            }
        }
        let line = format!("{server} --warm-up 0 --connections 1 --depth 64 --trace {}", file.0.display());
        let summary = run(&line).expect(&line);
        let replayed: Vec<String> = take(&SEEN).into_iter().map(|(_, request)| request).collect();
        assert!(summary.is_clean(), "{line}\n{summary}");
        assert_eq!(replayed, recorded, "{line}\n{summary}");
    }
}

#[test]
fn threads_are_told_apart_and_keys_keep_their_order() {
    static SEEN: Seen = Mutex::new(Vec::new());
    let script: Script = |request, reply| {
        see(&SEEN, request);
        reply
    };
    let server = server(usize::MAX, script);
    let file = Scratch::new("threads");
    let line =
        format!("{server} {COMMON} --connections 3 --threads 3 --rate 5000 --record {}", file.0.display());
    run(&line).expect(&line);
    let (seen, recorded) = (take(&SEEN), file.requests());
    let by_client = grouped(&recorded, |(client, _)| client.clone(), |(_, request)| request);
    let by_connection = grouped(&seen, |(connection, _)| format!("{connection:?}"), |(_, request)| request);
    assert_eq!(by_client.len(), 3);
    assert_eq!(by_client, by_connection, "{line}");
    let line = format!("{server} --warm-up 0 --connections 2 --threads 2 --trace {}", file.0.display());
    run(&line).expect(&line);
    let key = |request: &str| request.split(' ').nth(1).map(str::to_owned);
    let replayed = take(&SEEN);
    assert_eq!(replayed.len(), recorded.len());
    let by_key = grouped(&recorded, |(_, request)| key(request), |(_, request)| request);
    assert_eq!(grouped(&replayed, |(_, request)| key(request), |(_, request)| request), by_key, "{line}");
}

#[test]
fn a_disk_that_is_full_ends_the_run_with_its_reason() {
    // Writing to it always fails, as on a full disk; the notes lie beside it, where there is room.
    let line =
        format!("{} {COMMON} --connections 1 --record /dev/full", server(usize::MAX, |_, reply| reply));
    let error = run(&line).expect_err(&line);
    assert_eq!(error, "write /dev/full");
}
