//! From the loss of a process, or of a whole host, until a spare has its slot in every router. All routers have traffic.

use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use stdx::statistics::median;

use crate::clients::traffic::FleetTraffic;
use crate::figures::{ScenarioFigures, worst};
use crate::fleet::{HEALTH, ROUTERS, SERVERS};

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Lost {
    /// A host: its server and its agent end
    Host,
    /// The server alone, on a host that lives
    Process,
}

/// Longer than tests are patient.
const PATIENCE_S: u64 = 180;
/// Until controllers judge: they have begun to observe, and the guard has forgotten what was lost before.
const OBSERVED: Duration = Duration::from_secs(65);
/// The same after a loss: whoever has a new slot is observed, and the guard has forgotten it (see [`HEALTH`]).
const FORGOTTEN: Duration = Duration::from_secs(32);

/// Loses so many, one after the other.
pub(crate) fn measure(fleet: &mut Fleet, what: Lost, count: usize) -> Result<ScenarioFigures> {
    eprintln!("loss: with\n{HEALTH}");
    let _traffic = FleetTraffic::begin(fleet)?;
    clock::pass(OBSERVED);
    let times_s = lose(fleet, what, count)?;
    Ok(vec![("replaced_median_s", median(&times_s)), ("replaced_worst_s", worst(&times_s))])
}

fn lose(fleet: &mut Fleet, what: Lost, count: usize) -> Result<Vec<f64>> {
    // A host that is lost has no router, because all routers are waited for.
    let mut numbers: Vec<usize> =
        if what == Lost::Host { (ROUTERS + 1..=SERVERS).collect() } else { (1..=ROUTERS).collect() };
    let mut times = Vec::new();
    for round in 0..count {
        // The one that has had its slot for longest: whoever has a new one is not judged yet.
        let number = fleet.host_with_slot("web", numbers.iter().copied()).context("a member with a slot")?;
        numbers.retain(|other| *other != number);
        numbers.push(number);
        let after_s = time(fleet, number, what).with_context(|| format!("round {}", round + 1))?;
        let status = fleet.status();
        // What was seen when, by the controllers' own words.
        let reason = status.lines().find(|line| line.starts_with("generation ")).unwrap_or_default();
        eprintln!("loss: on host {number}: {after_s:.1} s\n  {reason}");
        times.push(after_s);
    }
    Ok(times)
}

fn time(fleet: &mut Fleet, number: usize, what: Lost) -> Result<f64> {
    let generation = fleet.generation().context("a generation")?;
    let began = clock::now();
    if what == Lost::Host {
        fleet.hosts[number - 1].agent = None;
    }
    fleet.hosts[number - 1].server.kill()?;
    let mut after = None;
    while after.is_none() && began.elapsed().as_secs() < PATIENCE_S {
        after = clock::wait_for(|| {
            let now = fleet.generation().filter(|now| *now > generation)?;
            fleet.has_loaded(now).then(|| began.elapsed().as_secs_f64())
        });
    }
    let after = after.with_context(|| format!("it is not replaced: {}", fleet.status()))?;
    fleet.hosts[number - 1].server.start_again()?;
    fleet.note_pid(number - 1);
    if what == Lost::Host {
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
