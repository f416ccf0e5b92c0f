//! Orders that no coordinator of an agent's version gives, and the answers to them.

use super::*;
use crate::types::description::Description;
use serde_json::{Value, json};
use std::io::Cursor;

/// The agent fails, for this reason.
#[track_caller]
fn check(order: &str, why: &str) {
    let mut said = Vec::new();
    let ended = agent(Cursor::new(format!("{order}\n")), &mut said, || ());
    let said = String::from_utf8(said).expect("text");
    let failed: Value = said.lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("JSON");
    let failed = failed["failed"]["why"].as_str().expect(&said);
    assert!(ended.is_err() && failed.contains(why) && failed.len() < 2000, "{failed}");
}

/// A plan whose description is changed so.
#[track_caller]
fn check_run(change: Value, why: &str) {
    let mut run = serde_json::to_value(Description::default()).expect("JSON");
    for (flag, value) in change.as_object().expect("flags") {
        run[flag] = value.clone();
    }
    check(&json!({"plan": {"agent": 1, "agents": 2, "run": run}}).to_string(), why);
}

#[test]
fn another_versions_orders_are_refused() {
    let words = r#"{"plan":{"agent":0,"agents":1,"words":["--rate=5"]}}"#;
    check(
        words,
        "understand the coordinator: unknown field `words`, expected one of `agent`, `agents`, `run` at",
    );
    check(r#"{"plan":{"agent":0,"agents":1}}"#, "missing field `run`");
    check(r#"{"plan":{"agent":0,"agents":1,"run":{"host":"x"}}}"#, "missing field `port`");
    check_run(json!({"surprise": 1}), "unknown field `surprise`, expected one of `host`, ");
    check_run(json!({"warm_up": 1}), "invalid type: integer `1`, expected a string");
    check(r#""stop""#, "unknown variant `stop`");
    check("", "EOF while parsing");
    check("\u{0}\u{ff}", "expected value");
}

#[test]
fn what_no_command_line_could_say_is_refused() {
    check_run(json!({"depth": -1}), "invalid value: integer `-1`, expected usize");
    check_run(
        json!({"depth": 1_u64 << 63, "multiget": 2}),
        "--depth times --multiget must be at most 1048576",
    );
    check_run(json!({"threads": u64::MAX}), "threads of all agents need as many connections");
    check_run(json!({"connections": u64::MAX}), "connections: ");
    check_run(json!({"rate": 1e308}), "--rate must be between 1e-6 and 1e9 requests/s");
    check_run(json!({"requests": 1}), "--requests must be at least 1 for each agent");
    check_run(json!({"udp": true, "socket": "/x"}), "--udp, --tls and --socket exclude each other");
    check_run(json!({"warm_up": "300000h"}), "longer than 30 years");
    check_run(json!({"mix": "got=1"}), "\"got\" is none of get, ");
    check_run(json!({"workload": "list"}), "`list` shows the workloads, it is none");
    check_run(json!({"speed": -1}), "--speed must be above 0, not -1");
    check_run(json!({"keys": 0}), "--keys and --requests must be at least 1");
    let part = r#"{"plan":{"agent":2,"agents":2,"run":RUN}}"#;
    let run = Description::default().json().expect("JSON");
    check(&part.replace("RUN", &run), "there is no part 2 of 2");
}

#[test]
fn a_megabyte_of_order_is_refused_and_not_repeated() {
    check_run(json!({"ttl": "1,".repeat(500_000)}), "understand the coordinator: more than 65536 bytes in ");
}
