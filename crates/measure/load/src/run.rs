//! Course of a run: prefill, warm-up, the measured window, the result.
//!
//! The entry points are here; [`prefill`] and [`window`] are the parts of a run, with [`probes`] beside the load,
//! carried out by the threads of [`workers`], whose reports [`gathered`] combines. [`probing`] is for probes alone.

pub(crate) mod affinity;
mod gathered;
pub(crate) mod knee;
mod prefill;
mod probes;
mod probing;
pub(crate) mod self_test;
pub(crate) mod shared;
mod silence;
mod window;
mod worker;
mod workers;

pub(crate) use probing::Prober;

use crate::engine::files;
use crate::measure::tally::Tally;
use crate::report::follower::{Follower, ProgressLine};
use crate::report::hdr_log::HdrLog;
use crate::report::interruptible::Interruptible;
use crate::report::json::{check_json, write_json};
use crate::report::live::Live;
use crate::report::summary::{RunMeasurements, Summary};
use crate::run::knee::{Knee, Search};
use crate::types::arguments::Arguments;
use crate::types::arrivals::pace::{OpenLoopPace, Timing};
use crate::types::description::Description;
use crate::types::error::Error;
use crate::types::objective::Objective;
use crate::types::part::Part;
use crate::workload::plan::RunPlan;
use std::io::Write;
use std::time::Duration;
use stdx::prng::Prng;

/// Carries out the run and returns what was measured. `progress` receives lines that overwrite each other with
/// `\r`: a terminal's standard error, or `io::sink()` without a viewer.
pub fn run(arguments: &Arguments, progress: &mut dyn Write) -> Result<Summary, Error> {
    reported(arguments, || {
        followed(arguments, progress, |follower| {
            let plan = RunPlan::new(&arguments.run, Part::WHOLE)?;
            carry_out(&plan, &mut Interruptible::new(follower)?).map(|(summary, _)| summary)
        })
    })
}

/// Writes the result to a file, if the arguments ask for it: also that of a run that has failed, with the reason.
pub(crate) fn reported(
    arguments: &Arguments,
    run: impl FnOnce() -> Result<Summary, Error>,
) -> Result<Summary, Error> {
    check_json(arguments)?;
    let outcome = run();
    if let Some(path) = &arguments.json {
        match &outcome {
            Ok(summary) => write_json(summary, path)?,
            // The error of the run is the one to report.
            Err(error) => drop(write_json(&Summary::failed(&arguments.run, error), path)),
        }
    }
    outcome
}

/// The result of `run`, followed as the arguments specify.
pub(crate) fn followed<T>(
    arguments: &Arguments,
    progress: &mut dyn Write,
    run: impl FnOnce(&mut dyn Follower) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut follower: Box<dyn Follower> = match arguments.run.live {
        true => Box::new(Live::new(&arguments.run)?),
        false => Box::new(ProgressLine::new(progress)),
    };
    match &arguments.hdr_log {
        None => run(&mut *follower),
        Some(path) => run(&mut HdrLog::new(&mut *follower, path, arguments.run.warm_up.0)?),
    }
}

/// Carries out a machine's part of a load, and returns the histograms as well.
pub(crate) fn carry_out(plan: &RunPlan, follower: &mut dyn Follower) -> Result<(Summary, Tally), Error> {
    files::allow(plan.connections.saturating_add(plan.probes.map_or(0, |probes| probes.connections)))?;
    let runner = Runner { plan };
    if plan.run.prefill {
        runner.prefill(follower)?;
    }
    let measured = runner.measure(follower)?;
    let tally = measured.tally.clone();
    Ok((Summary::new(plan, measured), tally))
}

/// Warm-up and window of a run, for callers that make something other than a summary of it.
pub(crate) fn measure(plan: &RunPlan, progress: &mut dyn Write) -> Result<RunMeasurements, Error> {
    let measured = Runner { plan }.measure(&mut ProgressLine::new(progress))?;
    // A part of a run shows nothing about the rate that was tried.
    measured.failure.map_or(Ok(RunMeasurements { failure: None, ..measured }), Err)
}

/// Looks for the highest rate at which `objective` holds: one run after the other, each with the arguments' warm-up and
/// duration.
pub fn search(arguments: &Arguments, objective: &Objective, progress: &mut dyn Write) -> Result<Knee, Error> {
    let mut plan = RunPlan::new(&first(&arguments.run)?, Part::WHOLE)?;
    files::allow(plan.connections)?;
    if plan.run.prefill {
        Runner { plan: &plan }.prefill(&mut ProgressLine::new(progress))?;
    }
    let sleep = plan.sleep;
    search_by(arguments, objective, progress, &mut |rate, seed, progress| {
        plan.pace = Some(OpenLoopPace { timing: Timing::Law(rate, plan.asked.arrivals), sleep });
        (plan.run.rate, plan.run.seed) = (Some(rate), seed);
        Ok(Summary::new(&plan, measure(&plan, progress)?))
    })
}

/// The first run of a search, if the arguments can be searched.
pub(crate) fn first(run: &Description) -> Result<Description, Error> {
    let refuse = |why: &str| Err(Error::Arguments(String::from(why)));
    match (run.requests, &run.trace) {
        (Some(_), _) => refuse("a search takes --duration, not --requests"),
        (None, Some(_)) => refuse("a trace has its rate, which no search can change"),
        (None, None) => Ok(Description { rate: run.rate.or(Some(SEARCH_RATE)), ..run.clone() }),
    }
}

/// Carries out one run of a search, with this rate and seed.
pub(crate) type TryRate<'a> = &'a mut dyn FnMut(f64, u64, &mut dyn Write) -> Result<Summary, Error>;

/// A search, whether on one machine or on several.
pub(crate) fn search_by(
    arguments: &Arguments,
    objective: &Objective,
    progress: &mut dyn Write,
    try_rate: TryRate<'_>,
) -> Result<Knee, Error> {
    check_json(arguments)?;
    let mut search = Search::new(arguments.run.rate.unwrap_or(SEARCH_RATE), arguments.run.seed);
    // With the same arrivals, runs at the same rate would agree more than chance allows.
    let mut seeds = Prng::new(arguments.run.seed ^ SEARCH_SALT);
    let mut run = None;
    while let Some(rate) = search.next() {
        writeln!(progress, "trying {rate:.0} requests/s")?;
        let summary = try_rate(rate, seeds.next_u64(), progress)?;
        search.tried(objective.judge(rate, &summary));
        run.get_or_insert(summary.run);
    }
    // The seed of the first run follows from this one.
    let run = Description { seed: arguments.run.seed, ..run.unwrap_or_default() };
    let knee = search.knee(objective, run);
    if let Some(path) = &arguments.json {
        write_json(&knee, path)?;
    }
    Ok(knee)
}

/// Where a search begins: so low that any server sustains it.
const SEARCH_RATE: f64 = 1000.0;
/// A seed of its own keeps the requests of the runs independent of the rates that are tried again.
const SEARCH_SALT: u64 = 0x7365_6172_6368_0000;

struct Runner<'a> {
    plan: &'a RunPlan,
}

const PROGRESS_EVERY: Duration = Duration::from_secs(1);
