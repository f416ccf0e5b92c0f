//! Dashboards, rules and the scrape configuration, checked by Prometheus' own programs and against processes that run.

use std::process::{Command, Stdio};

mod archive;
mod cases;
mod dashboards;
mod live;
mod names;
mod processes;
mod prometheus;
mod rules;
mod selectors;

/// Whether a program of Debian's can be used; without it the test is left out, and a thorough run fails.
fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let is_there = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_there {
        left_out(&format!("there is no {program} (Debian: prometheus)"));
    }
    is_there
}

/// Says what is left out; fails in a thorough run.
fn left_out(why: &str) {
    assert!(!is_thorough(), "{why}");
    eprintln!("left out: {why}");
}

/// Whether nothing may be left out.
fn is_thorough() -> bool {
    std::env::var_os("EVENKEEL_TEST_ALL").is_some_and(|value| value == "1")
}

/// A file of `deploy/monitoring`.
fn file(name: &str) -> String {
    let path = checkout::workspace().join(ship::monitoring::FOLDER).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
