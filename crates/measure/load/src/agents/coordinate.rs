//! Coordinator: starts agents (crew.rs), begins the load on all at one moment, follows them until they have ended
//! (course.rs). If one fails before the load has begun, all end; later, the others go on. Complaints of agents go to standard error (complaints.rs).

mod complaints;
mod course;
mod crew;
mod meter;
mod rounds;

use super::talk::{DESCRIPTION_MAX, FromAgent, ToAgent};
use crate::report::follower::{Follower, ProgressLine};
use crate::report::interruptible::Interruptible;
use crate::report::summary::Summary;
use crate::run::knee::Knee;
use crate::run::shared::Start;
use crate::run::{Prober, first, followed, reported, search_by};
use crate::types::arguments::Arguments;
use crate::types::description::Description;
use crate::types::description::server_processes::ServerProcesses;
use crate::types::error::Error;
use crate::types::objective::Objective;
use crate::types::part::Part;
use crate::workload::plan::RunPlan;
use course::{Beside, Course};
use crew::Crew;
use meter::Meter;
use std::io::Write;
use std::thread::{self, Scope};
use std::time::Duration;

/// Lets the agents of the arguments load the server, and combines what they measured.
pub fn run_on_agents(arguments: &Arguments, progress: &mut dyn Write) -> Result<Summary, Error> {
    let coordinator = Coordinator::new(arguments)?;
    reported(arguments, || followed(arguments, progress, |follower| coordinator.run(follower)))
}

/// Looks for the highest rate, over all agents, at which `objective` holds. Each run starts the agents anew; the first
/// one stores the items.
pub fn search_on_agents(
    arguments: &Arguments,
    objective: &Objective,
    progress: &mut dyn Write,
) -> Result<Knee, Error> {
    let mut coordinator = Coordinator::new(arguments)?;
    search_by(arguments, objective, progress, &mut |rate, seed, progress| {
        (coordinator.run.rate, coordinator.run.seed) = (Some(rate), seed);
        let summary = coordinator.run(&mut ProgressLine::new(progress))?;
        coordinator.run.prefill = false;
        Ok(summary)
    })
}

pub(super) struct Coordinator<'a> {
    arguments: &'a Arguments,
    /// The description that agents get.
    run: Description,
    pub(super) plan: RunPlan,
}

impl Coordinator<'_> {
    pub(super) fn new(arguments: &Arguments) -> Result<Coordinator<'_>, Error> {
        let refuse = |why: String| Err(Error::Arguments(why));
        if arguments.run.record.is_some() {
            return refuse(String::from(RECORDED_ALONE));
        }
        let run = match arguments.search {
            Some(_) => first(&arguments.run)?,
            None => arguments.run.clone(),
        };
        let len = run.json()?.len();
        if len > DESCRIPTION_MAX {
            return refuse(format!(
                "the description for agents has at most {DESCRIPTION_MAX} bytes of JSON, this one has {len}"
            ));
        }
        // Errors in the arguments are reported here, once. The server's address and the trusted certificates are
        // resolved only on the machines that connect to it.
        let all = Part { index: 0, of: arguments.agents.len().max(1) };
        let asks_itself = run.probes.is_some() && arguments.kubernetes_job.is_none();
        let plan = match asks_itself {
            true => RunPlan::new(&run, all)?,
            false => {
                let host = String::from("127.0.0.1");
                RunPlan::new(&Description { server: None, host, tls: false, ..run.clone() }, all)?
            }
        };
        // A missing process is reported before any load is made.
        run.server_pid.as_ref().map(ServerProcesses::cpu_ns).transpose()?;
        Ok(Coordinator { arguments, run, plan })
    }

    /// What is measured until a signal comes is the result, as on one machine.
    fn run(&self, follower: &mut dyn Follower) -> Result<Summary, Error> {
        let mut follower = Interruptible::new(follower)?;
        thread::scope(|scope| self.conduct(scope, &mut follower))
    }

    fn conduct<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        follower: &mut dyn Follower,
    ) -> Result<Summary, Error> {
        let (plan, names) = (&self.plan, &self.arguments.agents);
        let mut crew = Crew::start(names, &self.arguments.agent_command, self.arguments.agent_patience.0)?;
        self.muster(&mut crew, follower)?;
        let prober = plan.probes.map(|asked| Prober::start(scope, plan, asked));
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
        let meter = plan.server_pid.clone().map(|server| Meter::start(server, window_ns)).transpose()?;
        // No seconds are reported during the warm-up.
        crew.be_patient(plan.run.warm_up.0);
        let who = names.iter().zip(clocks).map(|(name, clock)| (name.clone(), clock.error_ns));
        let (glance, beside) = (follower.asks_every(), Beside { prober, meter });
        let mut course = Course::new(who.collect(), open_ns, plan, follower, beside);
        crew.until_all(glance, |crew, said| course.go_on(crew, said))?;
        course.end()
    }

    /// Sends every agent its part, and waits until all have stored their items and opened their connections.
    fn muster(&self, crew: &mut Crew, follower: &mut dyn Follower) -> Result<(), Error> {
        let (plan, names) = (&self.plan, &self.arguments.agents);
        let items = plan.fills();
        let mut stored_by = vec![0; names.len()];
        crew.until_all(follower.asks_every(), |crew, said| match said {
            Some((_, Err(error))) => Err(error),
            Some((index, Ok(FromAgent::Hello { protocol, version }))) => {
                crew.check_version(index, protocol, &version)?;
                let run = Box::new(self.run.clone());
                crew.tell(index, &ToAgent::Plan { agent: index, agents: names.len(), run })?;
                Ok(false)
            }
            Some((index, Ok(FromAgent::Busy { stored, .. }))) => {
                stored_by[index] = stored;
                follower.stored(stored_by.iter().sum(), items)?;
                Ok(false)
            }
            Some((_, Ok(FromAgent::Ready))) => Ok(true),
            Some((index, Ok(other))) => Err(crew.unexpected(index, &other)),
            None if follower.leaves()? => Err(Error::Left),
            None => Ok(false),
        })?;
        if stored_by.iter().any(|stored| *stored > 0) { follower.filled(items) } else { Ok(()) }
    }
}

/// Recording is refused: moving the notes while the load runs would compete with it; afterwards, gigabytes would go
/// over a connection that is there for messages.
const RECORDED_ALONE: &str = "--record is for one machine: the agents' requests would be on their own disks, too many to be sent here; \
                              record without --agents, and let these replay that with --trace and --speed";
/// From the order to begin until the beginning: enough for the order to reach a busy machine.
const START_AFTER_NS: u64 = 200_000_000;
/// The offset of an agent's clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// How far it is ahead of this machine's.
    ahead_ns: i64,
    /// By how much that may be wrong: half of the shortest round trip.
    error_ns: u64,
}

impl Clock {
    /// From readings of its clock, each with ours before and after it: the shortest round trip is the most exact.
    fn of(readings: &[(u64, u64, u64)]) -> Option<Clock> {
        let &(before, theirs, after) = readings.iter().min_by_key(|(before, _, after)| after - before)?;
        let middle = before + (after - before) / 2;
        Some(Clock { ahead_ns: theirs.wrapping_sub(middle) as i64, error_ns: (after - before).div_ceil(2) })
    }
}

/// Readings of each clock.
const READINGS: usize = 8;
/// An agent that is ordered to end has this long for it.
const END_WITHIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
