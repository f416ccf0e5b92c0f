//! The course of a load by agents, from its beginning until all have ended.

use super::super::talk::{End, FromAgent, ToAgent};
use super::super::unite::unite;
use super::crew::Crew;
use super::meter::Meter;
use super::rounds::Rounds;
use crate::measure::seconds::{SecondCounts, Seconds};
use crate::report::follower::{AgentNow, AgentState, Follower, GLANCE};
use crate::report::summary::{Second, Summary};
use crate::run::Prober;
use crate::types::clock::now_ns;
use crate::types::error::Error;
use crate::workload::plan::RunPlan;
use std::time::Duration;

/// What agents have reported so far, and the follower that shows it.
pub(super) struct Course<'a, 's> {
    /// Names, and the possible error of their clocks.
    names_and_errors: Vec<(String, u64)>,
    follower: &'a mut dyn Follower,
    beside: Beside<'s>,
    open_ns: u64,
    rounds: Rounds,
    seconds: Seconds,
    /// The latest second that each has reported.
    rates: Vec<Option<f64>>,
    /// What each has measured, or why it was lost.
    outcomes: Vec<Option<Result<End, Error>>>,
    /// An agent that is lost ends the others (`--fail-fast`).
    fail_fast: bool,
    /// When the follower was last updated about the agents.
    told_ns: u64,
    has_left: bool,
}

/// Measurements on this machine meanwhile: probes, the server's CPU time.
pub(super) struct Beside<'s> {
    pub(super) prober: Option<Prober<'s>>,
    pub(super) meter: Option<Meter>,
}

/// An agent reports once a second, or when its window has closed and the last replies are there, after 2 s at most.
const SILENT_AFTER: Duration = Duration::from_secs(3);
/// While one is silent, its seconds are counted.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Agents that are ordered to end have 2 s for the last replies, and some more for a busy machine.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);

impl<'a, 's> Course<'a, 's> {
    /// For a load whose window opens at this time.
    pub(super) fn new(
        names_and_errors: Vec<(String, u64)>,
        open_ns: u64,
        plan: &RunPlan,
        follower: &'a mut dyn Follower,
        beside: Beside<'s>,
    ) -> Course<'a, 's> {
        let agents = names_and_errors.len();
        Course {
            names_and_errors,
            follower,
            beside,
            open_ns,
            rounds: Rounds::new(agents, open_ns, plan.server_pid.clone()),
            seconds: Seconds::new(agents),
            rates: vec![None; agents],
            outcomes: (0..agents).map(|_| None).collect(),
            fail_fast: plan.run.fail_fast,
            told_ns: open_ns,
            has_left: false,
        }
    }

    /// Handles an agent's message, if there is one; `true` if it was its last.
    pub(super) fn go_on(
        &mut self,
        crew: &mut Crew,
        said: Option<(usize, Result<FromAgent, Error>)>,
    ) -> Result<bool, Error> {
        let is_last = match said {
            Some((agent, Ok(said))) => self.hear(crew, agent, said)?,
            Some((agent, Err(error))) => self.lose(crew, agent, error)?,
            None => false,
        };
        if let Some(prober) = &mut self.beside.prober {
            prober.check()?;
        }
        if !self.has_left && self.follower.leaves()? {
            self.leave(crew)?;
        }
        if now_ns() >= self.told_ns + TELL_EVERY.as_nanos() as u64 {
            let agents = self.agents(crew);
            self.told_ns = now_ns();
            if agents.iter().any(|agent| matches!(agent.state, AgentState::Silent { .. })) {
                self.follower.agents(&agents)?;
            }
        }
        Ok(is_last)
    }

    fn hear(&mut self, crew: &mut Crew, agent: usize, said: FromAgent) -> Result<bool, Error> {
        match said {
            FromAgent::Second { second, latency, slip, failures } => {
                let [latency_ns, slip_ns] = [latency, slip].map(|packed| packed.map(|packed| packed.0));
                self.seconds.add(agent, second, SecondCounts { latency_ns, slip_ns, failures });
                Ok(false)
            }
            FromAgent::Passed(second) => {
                self.rates[agent] = Some(second.requests_per_second);
                let round = self.rounds.pass(agent, second);
                self.tell(crew, round)?;
                Ok(false)
            }
            FromAgent::End(end) => self.end_of(crew, agent, Ok(*end)),
            other => {
                let error = crew.unexpected(agent, &other);
                self.lose(crew, agent, error)
            }
        }
    }

    /// An agent has failed. Before the window is open, there is nothing that the others could save.
    fn lose(&mut self, crew: &mut Crew, agent: usize, error: Error) -> Result<bool, Error> {
        if self.fail_fast || now_ns() < self.open_ns {
            return Err(error);
        }
        crew.give_up(agent);
        self.end_of(crew, agent, Err(error))
    }

    fn end_of(&mut self, crew: &Crew, agent: usize, outcome: Result<End, Error>) -> Result<bool, Error> {
        // From here on the load is not the one that was asked for.
        self.beside.prober.iter().for_each(Prober::end);
        self.outcomes[agent] = Some(outcome);
        self.seconds.end(agent);
        let round = self.rounds.end(agent);
        self.tell(crew, round)?;
        Ok(true)
    }

    fn tell(&mut self, crew: &Crew, round: Option<Second>) -> Result<(), Error> {
        let Some(second) = round else { return Ok(()) };
        let agents = self.agents(crew);
        self.told_ns = now_ns();
        self.follower.agents(&agents)?;
        self.follower.second(&second, self.seconds.take())
    }

    /// What each agent does now.
    fn agents(&self, crew: &Crew) -> Vec<AgentNow> {
        let now_ns = now_ns();
        let state = |index: usize| {
            let silent_ns = now_ns.saturating_sub(crew.heard_ns(index).max(self.open_ns));
            match self.rates[index] {
                _ if matches!(self.outcomes[index], Some(Err(_))) => AgentState::Lost,
                _ if self.outcomes[index].is_some() => AgentState::Ended,
                _ if silent_ns > SILENT_AFTER.as_nanos() as u64 => {
                    AgentState::Silent { seconds: silent_ns / 1_000_000_000 }
                }
                rate => AgentState::Loads { requests_per_second: rate.unwrap_or_default() },
            }
        };
        let names_and_errors = self.names_and_errors.iter().enumerate();
        names_and_errors
            .map(|(index, (name, _))| AgentNow { name: name.clone(), state: state(index) })
            .collect()
    }

    /// Lets all agents close their windows now.
    fn leave(&mut self, crew: &mut Crew) -> Result<(), Error> {
        // An agent whose clock is a little behind has to have seen the window open, too.
        if now_ns() < self.open_ns + GLANCE.as_nanos() as u64 {
            return Err(Error::Left);
        }
        self.has_left = true;
        self.beside.prober.iter().for_each(Prober::end);
        self.beside.meter.iter_mut().for_each(Meter::end);
        crew.be_impatient(LEAVE_WITHIN);
        for (index, outcome) in self.outcomes.iter().enumerate() {
            if outcome.is_none() {
                // One that has just ended reads no more; if it has failed, that is noticed as its missing result.
                let _ = crew.tell(index, &ToAgent::Leave);
            }
        }
        Ok(())
    }

    /// All have ended: the result of the whole, or why one was lost if all were.
    pub(super) fn end(mut self) -> Result<Summary, Error> {
        let (mut parts, mut lost) = (Vec::new(), Vec::new());
        for ((name, clock_error_ns), outcome) in self.names_and_errors.into_iter().zip(self.outcomes) {
            match outcome {
                Some(Ok(end)) => parts.push((name, clock_error_ns, end)),
                Some(Err(error)) => lost.push(error),
                None => {}
            }
        }
        let longest = parts.iter().map(|(.., end)| end.summary.seconds).fold(0.0, f64::max);
        self.follower.closed(self.seconds.take(), longest)?;
        if parts.is_empty() && !lost.is_empty() {
            return Err(lost.swap_remove(0));
        }
        let mut summary = unite(parts, &lost, &self.seconds);
        if let Some(prober) = self.beside.prober {
            summary = summary.with_probing(prober.finish()?);
        }
        match self.beside.meter {
            Some(meter) => Ok(summary.with_server(meter.stop()?)),
            None => Ok(summary),
        }
    }
}
