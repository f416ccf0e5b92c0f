//! The coordinator: starts agents (crew.rs), lets them begin at one moment, follows them until they have ended (course.rs),
//! and ends all when one fails.

mod course;
mod crew;
mod meter;
mod rounds;

use super::Part;
use super::talk::{FromAgent, ToAgent};
use crate::arguments::Arguments;
use crate::churn::{ChurnPlan, Storm};
use crate::cpu_time;
use crate::error::Error;
use crate::follower::{Follower, Line};
use crate::json::{check_json, write_json};
use crate::plan::{Pace, Plan, Timing};
use crate::run::{Prober, first_pace, followed, search_by};
use crate::search::{Knee, Objective};
use crate::shared::Start;
use crate::summary::Summary;
use clap::ArgMatches;
use clap::parser::ValueSource;
use course::{Beside, Course};
use crew::Crew;
use meter::Meter;
use std::io::Write;
use std::thread::{self, Scope};
use std::time::Duration;

/// Lets the agents of the arguments load the server, and puts together what they measured. `matches` are what the
/// arguments were read from: agents are given the same words, with their part of the numbers.
pub fn run_on_agents(
    arguments: &Arguments,
    matches: &ArgMatches,
    progress: &mut dyn Write,
) -> Result<Summary, Error> {
    let coordinator = Coordinator::new(arguments, matches)?;
    check_json(arguments.json.as_ref())?;
    let summary = followed(arguments, progress, |follower| coordinator.run(follower))?;
    if let Some(path) = &arguments.json {
        write_json(&summary, path)?;
    }
    Ok(summary)
}

/// Looks for the highest rate, over all agents, at which `objective` holds. Each run starts the agents anew; the first
/// one stores the items.
pub fn search_on_agents(
    arguments: &Arguments,
    objective: &Objective,
    matches: &ArgMatches,
    progress: &mut dyn Write,
) -> Result<Knee, Error> {
    let mut coordinator = Coordinator::new(arguments, matches)?;
    let first = first_pace(&coordinator.plan)?;
    search_by(arguments, objective, first, progress, &mut |pace, seed, progress| {
        coordinator.plan.pace = Some(pace);
        coordinator.words.retain(|word| !word.starts_with("--seed="));
        coordinator.words.push(format!("--seed={seed}"));
        let summary = coordinator.run(&mut Line::new(progress))?;
        coordinator.words.retain(|word| word != "--prefill");
        Ok(summary)
    })
}

pub(super) struct Coordinator<'a> {
    arguments: &'a Arguments,
    pub(super) plan: Plan,
    /// What was typed, as far as agents have to know it.
    words: Vec<String>,
}

impl Coordinator<'_> {
    pub(super) fn new<'a>(arguments: &'a Arguments, matches: &ArgMatches) -> Result<Coordinator<'a>, Error> {
        if arguments.record.is_some() {
            return Err(Error::Arguments(String::from(RECORDED_ALONE)));
        }
        // Whatever is wrong with the arguments is said here, once; but where the server is, and whom to trust, only
        // those have to know who ask it.
        let asks_itself = arguments.probes.is_some() && arguments.kubernetes_job.is_none();
        let plan = match asks_itself {
            true => Plan::new(arguments)?,
            false => {
                let host = String::from("127.0.0.1");
                Plan::new(&Arguments { server: None, host, tls: false, ..arguments.clone() })?
            }
        };
        let agents = arguments.agents.len();
        if plan.connections < plan.threads * agents {
            let threads = plan.threads * agents;
            return Err(Error::Arguments(format!(
                "{threads} threads of all agents need as many connections"
            )));
        }
        if plan.requests.is_some_and(|requests| requests < agents as u64) {
            return Err(Error::Arguments(String::from("--requests must be at least 1 for each agent")));
        }
        // That there is such a process is said before any load is made.
        arguments.server_pid.map(cpu_time::of_process).transpose()?;
        Ok(Coordinator { arguments, plan, words: words(matches, &OURS) })
    }

    fn run(&self, follower: &mut dyn Follower) -> Result<Summary, Error> {
        thread::scope(|scope| self.conduct(scope, follower))
    }

    fn conduct<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        follower: &mut dyn Follower,
    ) -> Result<Summary, Error> {
        let (plan, names) = (&self.plan, &self.arguments.agents);
        let mut crew = Crew::start(names, &self.arguments.agent_command, self.arguments.agent_patience.0)?;
        self.muster(&mut crew, follower)?;
        let prober = plan.probes.map(|asked| Prober::start(scope, self.arguments, plan, asked));
        let prober = prober.transpose()?;
        let clocks = crew.clocks()?;
        let slowest_ns = clocks.iter().map(|clock| clock.error_ns).max().unwrap_or_default();
        let at_ns = follower.ready(START_AFTER_NS + 4 * slowest_ns)?;
        for (index, clock) in clocks.iter().enumerate() {
            crew.tell(index, &ToAgent::Start { at_ns: at_ns.saturating_add_signed(clock.ahead_ns) })?;
        }
        let window_ns = plan.window_ns(at_ns);
        if let Some(prober) = &prober {
            prober.begin(Start { at_ns, window_ns: window_ns.clone() });
        }
        let open_ns = window_ns.start;
        let meter = self.arguments.server_pid.map(|pid| Meter::start(pid, window_ns)).transpose()?;
        // Nothing is said while it warms up.
        crew.be_patient(plan.warm_up);
        let who = names.iter().zip(clocks).map(|(name, clock)| (name.clone(), clock.error_ns));
        let (glance, beside) = (follower.asks_every(), Beside { prober, meter });
        let mut course = Course::new(who.collect(), open_ns, self.arguments.server_pid, follower, beside);
        crew.until_all(glance, |crew, said| course.go_on(crew, said))?;
        course.end()
    }

    /// Tells every agent its part, and waits until all have stored theirs of the items and have their connections.
    fn muster(&self, crew: &mut Crew, follower: &mut dyn Follower) -> Result<(), Error> {
        let (plan, names) = (&self.plan, &self.arguments.agents);
        let items = plan.fills();
        let mut stored_by = vec![0; names.len()];
        crew.until_all(follower.asks_every(), |crew, said| match said {
            Some((index, FromAgent::Hello { protocol, version })) => {
                crew.check_version(index, protocol, &version)?;
                let part = Part { index, of: names.len() };
                let words = with_share(&self.words, plan, part);
                crew.tell(index, &ToAgent::Plan { agent: index, agents: names.len(), words })?;
                Ok(false)
            }
            Some((index, FromAgent::Busy { stored, .. })) => {
                stored_by[index] = stored;
                follower.stored(stored_by.iter().sum(), items)?;
                Ok(false)
            }
            Some((_, FromAgent::Ready)) => Ok(true),
            Some((index, other)) => Err(crew.unexpected(index, &other)),
            None if follower.leaves()? => Err(Error::Left),
            None => Ok(false),
        })?;
        if stored_by.iter().any(|stored| *stored > 0) { follower.filled(items) } else { Ok(()) }
    }
}

/// Moved while the load runs, what was asked would compete with it; afterwards, gigabytes would go over a connection that is
/// there for talking.
const RECORDED_ALONE: &str = "--record is for one machine: what agents ask would be on their own disks, too much to be sent here; \
                              record without --agents, and let these replay that with --trace and --speed";
/// From the order to begin until the beginning: enough for the order to arrive at a machine that is busy.
const START_AFTER_NS: u64 = 200_000_000;
/// What only the coordinator needs to know.
const OURS: [&str; 10] = [
    "agents",
    "agent_command",
    "agent_patience",
    "hdr_log",
    "json",
    "probes",
    "probe_rate",
    "search",
    "server_pid",
    "strict",
];

/// What was typed, as words of one flag each, without some of the flags.
pub(super) fn words(matches: &ArgMatches, without: &[&str]) -> Vec<String> {
    let command = <Arguments as clap::Args>::augment_args(clap::Command::new("load"));
    let typed = |flag: &&clap::Arg| {
        matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
            && !without.contains(&flag.get_id().as_str())
    };
    let mut words = Vec::new();
    for flag in command.get_arguments().filter(typed) {
        let long = flag.get_long().unwrap_or_default();
        if !flag.get_action().takes_values() {
            words.push(format!("--{long}"));
            continue;
        }
        let values = matches.get_raw(flag.get_id().as_str()).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        let between = flag.get_value_delimiter().map_or(String::new(), String::from);
        words.push(format!("--{long}={}", values.join(&between)));
    }
    words
}

/// The words of one agent: of what is counted over all, its part. The last word of a flag counts.
fn with_share(words: &[String], plan: &Plan, part: Part) -> Vec<String> {
    let mut words = words.to_vec();
    if plan.pace.is_none() {
        // Only the probes have times to be awake at.
        words.retain(|word| !word.starts_with("--spin"));
    }
    words.push(format!("--connections={}", part.share(plan.connections as u64)));
    if let Some(Pace { timing: Timing::Law(rate, _), .. }) = plan.pace {
        words.push(format!("--rate={}", rate / part.of as f64));
    }
    if let Some(requests) = plan.requests {
        words.push(format!("--requests={}", part.share(requests)));
    }
    if let Some(ChurnPlan { rate: Some(rate), .. }) = plan.churn {
        words.push(format!("--churn={}", rate / part.of as f64));
    }
    if let Some(ChurnPlan { storm: Some(storm), .. }) = plan.churn {
        words.retain(|word| !word.starts_with("--storm="));
        match part.share(storm.connections as u64) as usize {
            // There is no storm of none.
            0 => {}
            connections => words.push(format!("--storm={}", Storm { connections, ..storm })),
        }
    }
    words
}

/// An agent's clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// How far it is ahead of ours.
    ahead_ns: i64,
    /// By how much that may be wrong: half of the shortest way there and back.
    error_ns: u64,
}

impl Clock {
    /// From readings of its clock, each with our own before and after it: the shortest way there and back knows best.
    fn of(readings: &[(u64, u64, u64)]) -> Option<Clock> {
        let &(before, theirs, after) = readings.iter().min_by_key(|(before, _, after)| after - before)?;
        let middle = before + (after - before) / 2;
        Some(Clock { ahead_ns: theirs.wrapping_sub(middle) as i64, error_ns: (after - before).div_ceil(2) })
    }
}

/// Readings of each clock.
const READINGS: usize = 8;
/// An agent that is told to end has this long for it.
const END_WITHIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
