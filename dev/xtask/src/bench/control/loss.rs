//! From the loss of a process, or of a whole host, until a spare has its slot in every router. All routers have traffic.

use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;

use super::figure::{ControlFigure, HEALTH, ROUTERS, SERVERS, quantile};
use super::traffic::Traffic;

/// A host that is lost is missed by no user for longer than this.
const MOST_S: f64 = 15.0;
/// Longer than tests are patient.
const PATIENCE_S: u64 = 180;
/// Until controllers judge: they have begun to observe, and the guard has forgotten what was lost before.
const OBSERVED: Duration = Duration::from_secs(65);
/// The same after a loss: whoever has a new slot is observed, and the guard has forgotten it (see [`HEALTH`]).
const FORGOTTEN: Duration = Duration::from_secs(32);

/// Loses hosts, and then processes on hosts that live, by turns.
pub(super) fn measure(fleet: &mut Fleet, hosts: usize, processes: usize) -> Result<Vec<ControlFigure>> {
    eprintln!("loss: with\n{HEALTH}");
    let _traffic = Traffic::begin(fleet)?;
    clock::pass(OBSERVED);
    let mut host_times = lose(fleet, hosts, true)?;
    let mut process_times = lose(fleet, processes, false)?;
    let name = |what: &str, which: &str| format!("{what} lost → spare in its slot everywhere, {which}");
    let row = |name: String, value: f64| ControlFigure::new("loss", name, value, "s");
    let mut figures = Vec::new();
    if hosts > 0 {
        figures.push(row(name("host", "p50"), quantile(&mut host_times, 0.5)));
        let worst = format!("worst of {hosts}");
        figures.push(row(name("host", &worst), quantile(&mut host_times, 1.0)).at_most(MOST_S));
    }
    if processes > 0 {
        let worst = format!("worst of {processes}");
        figures.push(row(name("process", &worst), quantile(&mut process_times, 1.0)));
    }
    Ok(figures)
}

fn lose(fleet: &mut Fleet, count: usize, is_host: bool) -> Result<Vec<f64>> {
    // A host that is lost has no router, because all routers are waited for.
    let mut numbers: Vec<usize> =
        if is_host { (ROUTERS + 1..=SERVERS).collect() } else { (1..=ROUTERS).collect() };
    let mut times = Vec::new();
    for round in 0..count {
        // The one that has had its slot for longest: whoever has a new one is not judged yet.
        let number = fleet.host_with_slot("web", numbers.iter().copied()).context("a member with a slot")?;
        numbers.retain(|other| *other != number);
        numbers.push(number);
        let after_s = time(fleet, number, is_host).with_context(|| format!("round {}", round + 1))?;
        let (what, status) = (if is_host { "host" } else { "process" }, fleet.status());
        // What was seen when, by the controllers' own words.
        let reason = status.lines().find(|line| line.starts_with("generation ")).unwrap_or_default();
        eprintln!("loss: {what} {number} lost: {after_s:.1} s\n  {reason}");
        times.push(after_s);
    }
    Ok(times)
}

fn time(fleet: &mut Fleet, number: usize, is_host: bool) -> Result<f64> {
    let generation = fleet.generation().context("a generation")?;
    let began = clock::now();
    if is_host {
        fleet.hosts[number - 1].agent = None;
    }
    fleet.hosts[number - 1].server.kill()?;
    let mut after = None;
    while after.is_none() && began.elapsed().as_secs() < PATIENCE_S {
        after = clock::wait_for(|| fleet.has_loaded(generation + 1).then(|| began.elapsed().as_secs_f64()));
    }
    let after = after.with_context(|| format!("it is not replaced: {}", fleet.status()))?;
    fleet.hosts[number - 1].server.start_again()?;
    fleet.note_pid(number - 1);
    if is_host {
        fleet.restart_agent(number - 1);
    }
    // It is the next spare, although it is lost more often than a member may be.
    for scope in [format!("host/h{number}"), format!("member/m{number}")] {
        fleet.control(&["thaw", &scope, "--why", "it was lost on purpose"]);
    }
    fleet.until(|fleet| fleet.status().contains(" spare "));
    clock::pass(FORGOTTEN);
    Ok(after)
}
