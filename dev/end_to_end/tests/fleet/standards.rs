//! The standard of hosts with slots: real controllers, agents and tuners, and hosts that somebody changes by hand.
//!
//! An agent looks at its host when it begins, and otherwise only every few minutes: each of these tests that has changed a host starts its agent
//! again.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use serde_json::Value;

use super::changing::{ChangingFleet, SETTING, root};

/// What somebody sets by hand.
const BY_HAND: &str = "64";
const WANTED: &str = "4096";

fn policy(drift: &str, slots: usize) -> String {
    let cluster = format!(
        "[[cluster]]\nname = \"web\"\nslots = {slots}\n[[view]]\nname = \"main\"\nroutes = '{{\"route\": \"PoolRoute|web\"}}'\n"
    );
    let cluster = if slots == 0 { "" } else { &cluster };
    format!("fleet = \"prod\"\n[[tuning]]\nprofile = \"memcached\"\ndrift = \"{drift}\"\n{cluster}")
}

/// Puts a policy in force as soon as it can be.
#[track_caller]
fn put_in_force(fleet: &Fleet, policy: &str) {
    fleet.write("policy.toml", policy);
    fleet.until(|fleet| {
        fleet.try_control(&["plan", "--policy", "policy.toml", "--apply", "--why", "a test"]).is_ok()
    });
}

fn value(fleet: &Fleet, host: usize) -> String {
    fs::read_to_string(root(fleet, host).join(SETTING)).expect("a setting").trim().to_owned()
}

/// Changes a host by hand, and has its agent look.
fn change_by_hand(fleet: &mut ChangingFleet, host: usize) {
    fleet.set(host, SETTING, &format!("{BY_HAND}\n"));
    fleet.fleet.restart_agent(host - 1);
}

/// Waits until hosts are counted so wherever they are: in the status, as in `meets 1, tuning 0`, and in the metrics.
#[track_caller]
fn until_counted(fleet: &Fleet, counts: &[(&str, usize)]) {
    let is_shown = |status: &str| {
        let shown: Vec<String> =
            counts.iter().map(|(state, count)| format!("{} {count}", state.replace('_', " "))).collect();
        status.contains(&format!("profile memcached: 2 hosts ({})", shown.join(", ")))
    };
    fleet.until(|fleet| is_shown(&fleet.status()));
    let (metrics, _) = pages(fleet);
    let line = |(state, count): &(&str, usize)| {
        format!("evenkeel_control_standard_hosts{{state=\"{state}\"}} {count}\n")
    };
    // They are counted every five seconds.
    fleet.until(|_| {
        let text = fetch(metrics, "/metrics");
        counts.iter().all(|count| text.contains(&line(count)))
    });
}

/// What is said to need a person because of the standard, if anything is.
fn need(fleet: &Fleet) -> Option<String> {
    let (_, console) = pages(fleet);
    let summary: Value = serde_json::from_str(&fetch(console, "/v1/summary")).expect("JSON");
    let needs = summary["needs"].as_array().expect("needs").iter();
    let texts: Vec<&str> = needs
        .filter(|need| need["about"]["kind"] == "standards")
        .filter_map(|need| need["text"].as_str())
        .collect();
    assert!(texts.len() <= 1, "one entry for all hosts: {texts:?}");
    texts.first().map(|text| (*text).to_owned())
}

/// Where the metrics and the console of the controller are.
fn pages(fleet: &Fleet) -> (SocketAddr, SocketAddr) {
    let said = fleet.read("c1.log");
    let behind = |words: &str| said.split_once(words).map(|(_, behind)| behind);
    let metrics = behind("metrics at http://").and_then(|behind| behind.split_once("/metrics"));
    let console = behind("console at http://").and_then(|behind| behind.split_once('/'));
    let address = |found: Option<(&str, &str)>| found.and_then(|(address, _)| address.parse().ok());
    address(metrics).zip(address(console)).unwrap_or_else(|| panic!("no pages: {said}"))
}

fn fetch(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

#[test]
fn drift_is_reported_or_repaired_as_the_policy_says_until_the_host_steps_aside() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller_flags =
        ["--metrics-listen", "127.0.0.1:0", "--console", "127.0.0.1:0"].map(str::to_owned).into();
    fleet.controller(1, 1);
    let kind = |_| HostKind { has_no_router: true, ..HostKind::default() };
    let mut fleet = ChangingFleet::new(fleet, 2, kind);
    put_in_force(&fleet.fleet, &policy("report", 0));
    until_counted(&fleet.fleet, &[("meets", 2)]);
    put_in_force(&fleet.fleet, &policy("report", 2));
    assert_eq!(need(&fleet.fleet), None, "both meet it");

    // Reported, and left as it is.
    change_by_hand(&mut fleet, 1);
    until_counted(&fleet.fleet, &[("meets", 1), ("drifted", 1)]);
    let status = fleet.fleet.status();
    assert!(status.contains("  h1: it met it, and") && status.contains(SETTING), "{status}");
    let text = need(&fleet.fleet).expect("a person is needed");
    assert!(text.contains("1 host (h1): drifted 1"), "{text}");
    assert_eq!(value(&fleet.fleet, 1), BY_HAND);

    // Repaired without anybody.
    put_in_force(&fleet.fleet, &policy("repair", 2));
    until_counted(&fleet.fleet, &[("meets", 2)]);
    assert_eq!((value(&fleet.fleet, 1), need(&fleet.fleet)), (WANTED.to_owned(), None));
    change_by_hand(&mut fleet, 1);
    fleet.fleet.until(|fleet| value(fleet, 1) == WANTED);
    until_counted(&fleet.fleet, &[("meets", 2)]);
    let audit = fleet.fleet.read("audit1.log");
    let why = "h1 gets the standard of all other hosts, profile memcached: it met it";
    let parts = ["evenkeel://prod/controller/c1", "\"change-apply\"", "\"done\"", why];
    let repairs = audit.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
    assert!(repairs.count() >= 2, "each is recorded: {audit}");

    // The first tuning and two repairs did not stay.
    change_by_hand(&mut fleet, 1);
    until_counted(&fleet.fleet, &[("meets", 1), ("stepped_aside", 1)]);
    let status = fleet.fleet.status();
    assert!(status.contains("  h1: ") && status.contains("it did not stay"), "{status}");
    let text = need(&fleet.fleet).expect("a person is needed");
    assert!(text.contains("1 host (h1): stepped aside 1"), "{text}");

    // A person takes back what the standard has set on a host, and that is respected.
    let tuner = fleet.fleet.path("tuner2").join("tuner");
    let ended = Command::new(tuner).args(["tune", "rollback"]).output().expect("a process");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    fleet.fleet.restart_agent(1);
    until_counted(&fleet.fleet, &[("stepped_aside", 2)]);
    assert!(fleet.is_as_before(2));
    assert_eq!(value(&fleet.fleet, 1), BY_HAND, "it was left alone meanwhile");
}
