//! From the loss of a process, or of a whole host, until a spare has its slot in every router. All routers have traffic.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;

use super::figure::{ControlFigure, HEALTH, ROUTERS, SERVERS, quantile};
use super::traffic::Traffic;

/// What the issue of a loss is measured against.
const MOST_S: f64 = 15.0;

/// Loses processes and hosts by turns. Hosts of routers stay: who is lost are the last ones.
pub(super) fn measure(fleet: &mut Fleet, count: usize) -> Result<Vec<ControlFigure>> {
    eprintln!("loss: with\n{HEALTH}");
    let _traffic = Traffic::begin(fleet)?;
    // Until controllers judge: they have begun to observe, and the guard has forgotten what was lost before.
    clock::pass(std::time::Duration::from_secs(65));
    let (mut processes, mut hosts) = (Vec::new(), Vec::new());
    let mut lost = BTreeSet::new();
    for round in 0..count {
        for is_host in [false, true] {
            let after_s = time(fleet, is_host, &mut lost).with_context(|| format!("round {}", round + 1))?;
            eprintln!("loss: {} lost: {after_s:.1} s", if is_host { "host" } else { "process" });
            if is_host { hosts.push(after_s) } else { processes.push(after_s) }
        }
    }
    let worst = |times: &mut [f64]| quantile(times, 1.0);
    Ok(vec![
        ControlFigure::new(
            "loss",
            format!("process lost → spare in its slot everywhere, worst of {count}"),
            worst(&mut processes),
            "s",
        ),
        ControlFigure::new("loss", format!("host lost → the same, worst of {count}"), worst(&mut hosts), "s")
            .at_most(MOST_S),
    ])
}

fn time(fleet: &mut Fleet, is_host: bool, lost: &mut BTreeSet<usize>) -> Result<f64> {
    // A host that is lost has no router, because all routers are waited for. Whoever is lost twice goes to quarantine.
    let status = fleet.status();
    let has_slot = |number: usize| {
        let name = format!("m{number} ");
        status.lines().any(|line| line.starts_with(&name) && line.contains("web/s"))
    };
    let mut numbers = if is_host { ROUTERS + 1..=SERVERS } else { 1..=ROUTERS };
    let number = numbers.find(|number| has_slot(*number) && !lost.contains(number));
    let number =
        number.context("a member with a slot that was not lost yet: at most 3 losses of each kind")?;
    lost.insert(number);
    let generation = fleet.generation().context("a generation")?;
    let began = clock::now();
    if is_host {
        fleet.hosts[number - 1].agent = None;
    }
    fleet.hosts[number - 1].server.kill()?;
    // Longer than tests are patient.
    let mut after = None;
    while after.is_none() && began.elapsed().as_secs() < 180 {
        after = clock::wait_for(|| fleet.has_loaded(generation + 1).then(|| began.elapsed().as_secs_f64()));
    }
    let after = after.with_context(|| format!("it is not replaced: {}", fleet.status()))?;
    fleet.hosts[number - 1].server.start_again()?;
    fleet.note_pid(number - 1);
    if is_host {
        fleet.restart_agent(number - 1);
    }
    // It is the next spare, and the guard forgets this loss.
    fleet.until(|fleet| fleet.status().contains(" spare "));
    clock::pass(std::time::Duration::from_secs(65));
    Ok(after)
}
