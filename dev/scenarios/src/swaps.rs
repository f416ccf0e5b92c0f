//! Generations under load, one of which ends every router that reads it.
//!
//! The program plays the flaw that a router might have: from the moment a router's file has the poisonous text, its process is
//! ended with a signal, and started again as a supervisor does it. Everything else is real: the agent finds the ends, puts
//! the old file back and reports; the controllers halt, and give the slot to another member.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use serde_json::{Value, json};
use stdx::statistics::median;

use crate::clients::operator::Operator;
use crate::clients::traffic::FleetTraffic;
use crate::figures::ScenarioFigures;
use crate::fleet::{ROUTERS, SLOTS};

/// Between two looks at a router's file.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A supervisor starts a process again after this: systemd's `RestartSec`.
const RESTART_AFTER: Duration = Duration::from_millis(100);

/// Publishes generations one after the other, the middle one with the poison.
pub(crate) fn measure(fleet: &mut Fleet, count: usize) -> Result<ScenarioFigures> {
    let operator = Operator::of(fleet)?;
    let traffic = FleetTraffic::begin(fleet)?;
    let mut poisoned = None;
    let mut times = Vec::new();
    for number in 1..=count {
        let member = fleet.member_of(&format!("web/s{}", number % SLOTS));
        let change = json!({"requests": [{"replace": {"member": member}}]});
        // Whoever has left its slot is emptied before it can take one again.
        let body = clock::wait_for(|| operator.planned(&change).ok()).context("a spare")?;
        let began = clock::now();
        if number == count.div_ceil(2) {
            poisoned = Some(poison(fleet, &operator, &body)?);
            continue;
        }
        operator.post("/v1/apply", &body)?;
        let target = fleet.generation().context("a generation")?;
        fleet.until(|fleet| fleet.has_loaded(target) && fleet.status().contains("all routers have it"));
        times.push(began.elapsed().as_secs_f64());
        if number % 10 == 0 {
            eprintln!("swaps: {number} generations, {:?} answered, errors, lost", traffic.sum(0..ROUTERS));
        }
    }
    let Poisoned { ended, back_s } = poisoned.context("a generation")?;
    let others = (0..ROUTERS).filter(|at| !ended.contains(at));
    let [answered, errors, lost] = traffic.sum(others).map(|count| count as f64);
    let [_, canary_errors, canary_lost] = traffic.sum(ended.iter().copied()).map(|count| count as f64);
    Ok(vec![
        ("loaded_median_s", median(&times)),
        // Of routers that the poison has not reached.
        ("answered_requests", answered),
        ("failed_requests", errors + lost),
        ("poisoned_routers", ended.len() as f64),
        // From the end of the poisoned router until its file has the old routes again.
        ("back_s", back_s),
        ("failed_requests_of_poisoned", canary_errors + canary_lost),
    ])
}

/// What the poison has done.
struct Poisoned {
    /// Routers that have ended.
    ended: Vec<usize>,
    /// From the first end until the file of that router has the old routes.
    back_s: f64,
}

/// Applies a change, and ends each router that gets its text.
fn poison(fleet: &mut Fleet, operator: &Operator, body: &Value) -> Result<Poisoned> {
    let before = fleet.generation().context("a generation")?;
    let files: Vec<_> = (1..=ROUTERS).map(|number| fleet.path(&format!("route{number}"))).collect();
    let good = std::fs::read(&files[0])?;
    // The first other text: what comes after it has another member in the slot, and is none.
    let mut poison: Option<Vec<u8>> = None;
    let (mut ended, mut first, mut back_s): (Vec<usize>, Option<Instant>, _) = (Vec::new(), None, None);
    std::thread::scope(|scope| -> Result<()> {
        let applying = scope.spawn(|| operator.post("/v1/apply", body));
        let began = clock::now();
        // Until the fleet has gone back, and for some seconds more: nobody else may get the text.
        let mut calm_since = None;
        while calm_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(5)) {
            ensure!(
                began.elapsed() < Duration::from_secs(60),
                "it is not gone back from: {}",
                fleet.status()
            );
            let texts: Vec<_> = files.iter().map(std::fs::read).collect();
            if poison.is_none() {
                poison = texts.iter().flatten().find(|text| **text != good).cloned();
            }
            let is_poisoned = |at: usize| texts[at].as_ref().is_ok_and(|text| poison.as_ref() == Some(text));
            for at in (0..ROUTERS).filter(|at| is_poisoned(*at)) {
                fleet.hosts[at].router.as_mut().context("a router")?.kill()?;
                first.get_or_insert_with(clock::now);
                if !ended.contains(&at) {
                    ended.push(at);
                }
                clock::pass(RESTART_AFTER);
                fleet.hosts[at].router.as_mut().context("a router")?.start_again()?;
                fleet.note_router_pid(at);
            }
            let canary_is_back = ended.first().is_some_and(|at| !is_poisoned(*at));
            if back_s.is_none() && canary_is_back {
                back_s = first.map(|first| first.elapsed().as_secs_f64());
            }
            if calm_since.is_none() && back_s.is_some() && fleet.generation() == Some(before + 2) {
                calm_since = Some(clock::now());
            }
            clock::pass(LOOK_EVERY);
        }
        applying.join().map_err(|_| anyhow::anyhow!("the operator's thread ended"))??;
        Ok(())
    })?;
    fleet.until(|fleet| fleet.has_loaded(before + 2));
    Ok(Poisoned { ended, back_s: back_s.context("it came back")? })
}
