//! The course of a run: prefill, warm-up, the measured window, the sum.
//!
//! Here is what is asked for from outside; [`prefill`] and [`window`] are what a run consists of, with [`probes`] beside
//! the load, carried out by the threads of [`workers`], whose reports [`gathered`] puts together. [`probing`] is probes
//! alone.

mod gathered;
mod prefill;
mod probes;
mod probing;
mod window;
mod workers;

pub(crate) use probing::{Prober, Probing};

use crate::agents::Part;
use crate::arguments::Arguments;
use crate::error::Error;
use crate::files;
use crate::follower::{Follower, Line};
use crate::hdr_log::HdrLog;
use crate::json::{check_json, write_json};
use crate::live::Live;
use crate::plan::{Pace, Plan, Timing};
use crate::search::{Knee, Objective, Search};
use crate::summary::{Measured, Summary};
use crate::tally::Tally;
use std::io::Write;
use std::time::Duration;
use stdx::prng::Prng;

/// Carries out the run and returns what was measured. `progress` receives lines that overwrite each other with
/// `\r`: a terminal's standard error, or `io::sink()` where nobody watches.
pub fn run(arguments: &Arguments, progress: &mut dyn Write) -> Result<Summary, Error> {
    check_json(arguments.json.as_ref())?;
    let (summary, _) = followed(arguments, progress, |follower| run_part(arguments, Part::WHOLE, follower))?;
    if let Some(path) = &arguments.json {
        write_json(&summary, path)?;
    }
    Ok(summary)
}

/// What `run` returns, followed as the arguments say.
pub(crate) fn followed<T>(
    arguments: &Arguments,
    progress: &mut dyn Write,
    run: impl FnOnce(&mut dyn Follower) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut follower: Box<dyn Follower> = match arguments.live {
        true => Box::new(Live::new(arguments)?),
        false => Box::new(Line::new(progress)),
    };
    match &arguments.hdr_log {
        None => run(&mut *follower),
        Some(path) => run(&mut HdrLog::new(&mut *follower, path, arguments.warm_up.0)?),
    }
}

/// Carries out a part of a load, and returns the histograms as well.
pub(crate) fn run_part(
    arguments: &Arguments,
    part: Part,
    follower: &mut dyn Follower,
) -> Result<(Summary, Tally), Error> {
    let plan = Plan { part, ..Plan::new(arguments)? };
    files::allow(plan.connections + plan.probes.map_or(0, |probes| probes.connections))?;
    let runner = Runner { arguments, plan: &plan };
    if arguments.prefill {
        runner.prefill(follower)?;
    }
    let measured = runner.measure(follower)?;
    let tally = measured.tally.clone();
    Ok((Summary::new(arguments, &plan, measured), tally))
}

/// Warm-up and window of a run, for those who make something else than a summary of it.
pub(crate) fn measure(
    arguments: &Arguments,
    plan: &Plan,
    progress: &mut dyn Write,
) -> Result<Measured, Error> {
    Runner { arguments, plan }.measure(&mut Line::new(progress))
}

/// Looks for the highest rate at which `objective` holds: one run after the other, each with the arguments' warm-up and
/// duration.
pub fn search(arguments: &Arguments, objective: &Objective, progress: &mut dyn Write) -> Result<Knee, Error> {
    let mut plan = Plan::new(arguments)?;
    let first = first_pace(&plan)?;
    files::allow(plan.connections)?;
    if arguments.prefill {
        Runner { arguments, plan: &plan }.prefill(&mut Line::new(progress))?;
    }
    search_by(arguments, objective, first, progress, &mut |pace, seed, progress| {
        (plan.pace, plan.seed) = (Some(pace), seed);
        let measured = measure(arguments, &plan, progress)?;
        Ok(Summary::new(arguments, &plan, measured))
    })
}

/// Where a search begins, if what is asked for can be searched.
pub(crate) fn first_pace(plan: &Plan) -> Result<Pace, Error> {
    if plan.requests.is_some() {
        return Err(Error::Arguments(String::from("a search takes --duration, not --requests")));
    }
    let first = Timing::Law(SEARCH_RATE, plan.asked.arrivals);
    Ok(plan.pace.unwrap_or(Pace { timing: first, sleep: plan.sleep }))
}

/// What carries out one run of a search, with this pace and seed.
pub(crate) type TryPace<'a> = &'a mut dyn FnMut(Pace, u64, &mut dyn Write) -> Result<Summary, Error>;

/// A search, whoever makes its runs.
pub(crate) fn search_by(
    arguments: &Arguments,
    objective: &Objective,
    first: Pace,
    progress: &mut dyn Write,
    try_pace: TryPace<'_>,
) -> Result<Knee, Error> {
    let Timing::Law(start, arrivals) = first.timing else {
        return Err(Error::Arguments(String::from("a trace has its rate, which no search can change")));
    };
    check_json(arguments.json.as_ref())?;
    let mut search = Search::new(start, arguments.seed);
    // With the same arrivals, runs at the same rate would agree more than chance allows.
    let mut seeds = Prng::new(arguments.seed ^ SEARCH_SALT);
    while let Some(rate) = search.next() {
        writeln!(progress, "trying {rate:.0} requests/s")?;
        let pace = Pace { timing: Timing::Law(rate, arrivals), ..first };
        let summary = try_pace(pace, seeds.next_u64(), progress)?;
        search.tried(objective.judge(rate, &summary));
    }
    let knee = search.knee(objective);
    if let Some(path) = &arguments.json {
        write_json(&knee, path)?;
    }
    Ok(knee)
}

/// Where a search begins: so few that any server manages them.
const SEARCH_RATE: f64 = 1000.0;
/// Keeps what the runs ask independent of the rates that are gone back to.
const SEARCH_SALT: u64 = 0x7365_6172_6368_0000;

struct Runner<'a> {
    arguments: &'a Arguments,
    plan: &'a Plan,
}

const PROGRESS_EVERY: Duration = Duration::from_secs(1);
