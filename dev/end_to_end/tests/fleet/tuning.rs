//! The tuner on the hosts of a fleet: real controllers, agents and tuners, which look at this machine and change nothing.

use std::fs;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use serde_json::Value;

/// What `profile memcached` would set, if it is not set already.
const SETTINGS: [&str; 3] =
    ["/proc/sys/net/ipv4/tcp_fastopen", "/proc/sys/net/core/somaxconn", "/proc/sys/vm/swappiness"];

fn settings() -> Vec<String> {
    SETTINGS.map(|path| fs::read_to_string(path).unwrap_or_default()).into()
}

/// Lets the tuner run on a host, and starts its agent again.
fn allow(fleet: &mut Fleet, host: usize, seconds: u32) {
    let (file, section) = (format!("agent.toml{host}"), "\n[tune]\n");
    let text = fleet.read(&file);
    let before = text.split(section).next().expect("there is a first part");
    fleet.write(&file, &format!("{before}{section}check = true\nplan = true\nseconds = {seconds}\n"));
    fleet.hosts[host - 1].agent = None;
    fleet.restart_agent(host - 1);
}

fn json(fleet: &Fleet, words: &[&str]) -> Value {
    serde_json::from_str(&fleet.control(&[words, &["--json"]].concat())).expect("JSON")
}

fn causes(json: &Value) -> Vec<(&str, usize)> {
    let missing = json["missing"].as_array().expect("causes").iter();
    missing
        .map(|one| (one["cause"].as_str().expect("a word"), one["hosts"].as_array().expect("hosts").len()))
        .collect()
}

#[test]
fn a_fleet_says_what_limits_its_hosts_and_what_would_change_and_changes_nothing() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    let kind = || HostKind { zone: Some("a"), has_no_router: true, ..HostKind::default() };
    (1..=2).for_each(|host| fleet.host_with(host, kind()));
    let before = settings();
    fleet.until(|fleet| causes(&json(fleet, &["tune", "check"])) == [("not_allowed", 2)]);
    let refused = fleet.try_control(&["tune", "plan", "--hosts", "zone=b", "--profile", "memcached"]);
    assert!(refused.expect_err("nobody").contains("no host has the zone \"b\"; there is a"));
    (1..=2).for_each(|host| allow(&mut fleet, host, 2));
    fleet.until(|fleet| causes(&json(fleet, &["tune", "check"])) == [("waiting", 2)]);

    let text = fleet.control(&["tune", "check", "--now"]);
    assert!(text.starts_with("2 hosts of all: 2 have answered\n") && text.contains(" CPU"), "{text}");
    let found = json(&fleet, &["tune", "check", "--hosts", "host=h1"]);
    let check = &found["checks"][0];
    assert_eq!((&found["hosts"], &check["host"]), (&Value::from(1), &Value::from("h1")), "{found}");
    assert!(check["check"]["window_s"].as_f64().is_some_and(|seconds| seconds >= 2.0), "{found}");

    let plan = ["tune", "plan", "--hosts", "zone=a", "--profile", "memcached"];
    let planned = json(&fleet, &plan);
    // Both are this machine: their servers differ, and what is set for them does not.
    assert_eq!((&planned["planned"], causes(&planned).len()), (&Value::from(2), 0), "{planned}");
    let [group] = &planned["groups"].as_array().expect("groups")[..] else { panic!("{planned}") };
    assert_eq!(
        (group["hosts"].as_array().map(Vec::len), &group["pairs"]),
        (Some(2), &Value::from(1)),
        "{planned}"
    );
    let id = planned["id"].as_str().expect("a question");
    let again = json(&fleet, &["tune", "plan", "--id", id]);
    assert_eq!(again["plan"], planned["plan"], "it is kept");
    assert_eq!(settings(), before, "nothing is changed");

    let wrong = json(&fleet, &["tune", "plan", "--hosts", "all", "--profile", "no-such-one"]);
    assert_eq!(causes(&wrong), [("failed", 2)], "{wrong}");

    fleet.certificate("reader", "reader");
    assert!(
        fleet.control_as("reader", &["tune", "check"]).is_ok_and(|text| text.contains("2 have answered"))
    );
    assert!(fleet.control_as("reader", &["tune", "plan", "--id", id]).is_ok());
    let refused = fleet.control_as("reader", &["tune", "check", "--now"]).expect_err("a reader asks no host");
    assert!(refused.contains("tune-ask as evenkeel://prod/reader/reader: only operator may"), "{refused}");

    ends_with_its_agent(&mut fleet);
}

/// A look that would take minutes is over when its agent is killed.
fn ends_with_its_agent(fleet: &mut Fleet) {
    allow(fleet, 2, 100);
    fleet.until(|fleet| causes(&json(fleet, &["tune", "check"])) == [("waiting", 1)]);
    fleet.control(&["tune", "check", "--hosts", "host=h2", "--now", "--wait", "1"]);
    let agent = fleet.hosts[1].agent.as_ref().expect("it runs").pid();
    let mark = format!("EVENKEEL_PARENT={agent}");
    let look = clock::wait_for(|| started_by(&mark)).expect("it looks");
    fleet.hosts[1].agent = None;
    let is_over = || (!fs::exists(format!("/proc/{look}")).unwrap_or(true)).then_some(());
    assert!(clock::wait_for(is_over).is_some(), "process {look} goes on without its agent");
}

/// A process with this in its environment.
fn started_by(mark: &str) -> Option<u32> {
    let pids = fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    })
}
