//! The course of a load by agents, from its beginning until all have ended.

use super::super::talk::{End, FromAgent};
use super::super::unite::{Seconds, unite};
use super::crew::Crew;
use super::meter::Meter;
use super::rounds::Rounds;
use crate::error::Error;
use crate::follower::Follower;
use crate::run::Prober;
use crate::summary::{Second, Summary};

/// What agents have said so far, and who is told.
pub(super) struct Course<'a, 's> {
    follower: &'a mut dyn Follower,
    rounds: Rounds,
    seconds: Seconds,
    ends: Vec<Option<End>>,
    beside: Beside<'s>,
}

/// Who measures on this machine meanwhile.
pub(super) struct Beside<'s> {
    pub(super) prober: Option<Prober<'s>>,
    pub(super) meter: Option<Meter>,
}

impl<'a, 's> Course<'a, 's> {
    /// Of a load whose window opens at this time.
    pub(super) fn new(
        agents: usize,
        open_ns: u64,
        follower: &'a mut dyn Follower,
        beside: Beside<'s>,
    ) -> Course<'a, 's> {
        let (rounds, seconds) = (Rounds::new(agents, open_ns), Seconds::new(agents));
        Course { follower, rounds, seconds, ends: (0..agents).map(|_| None).collect(), beside }
    }

    /// What an agent has said; `true` if that was its last word.
    pub(super) fn hear(&mut self, crew: &Crew, agent: usize, said: FromAgent) -> Result<bool, Error> {
        if let Some(prober) = &mut self.beside.prober {
            prober.check()?;
        }
        match said {
            FromAgent::Second { second, latency } => {
                self.seconds.add(agent, second, &latency);
                Ok(false)
            }
            FromAgent::Passed(second) => {
                let round = self.rounds.pass(agent, second);
                self.tell(round)?;
                Ok(false)
            }
            FromAgent::End(end) => {
                // From now on the load is not what was asked for.
                self.beside.prober.iter().for_each(Prober::end);
                self.ends[agent] = Some(*end);
                self.seconds.end(agent);
                let round = self.rounds.end(agent);
                self.tell(round)?;
                Ok(true)
            }
            other => Err(crew.unexpected(agent, &other)),
        }
    }

    fn tell(&mut self, round: Option<Second>) -> Result<(), Error> {
        match round {
            Some(second) => self.follower.second(&second, self.seconds.take()),
            None => Ok(()),
        }
    }

    /// All have ended: the whole, from the name of each and the error of its clock.
    pub(super) fn end(mut self, who: Vec<(String, u64)>) -> Result<Summary, Error> {
        self.follower.closed(self.seconds.take())?;
        let parts = who.into_iter().zip(self.ends);
        let parts = parts.filter_map(|((name, clock_error_ns), end)| Some((name, clock_error_ns, end?)));
        let mut summary = unite(parts.collect(), &self.seconds);
        if let Some(prober) = self.beside.prober {
            summary = summary.with_probing(prober.finish()?);
        }
        match self.beside.meter {
            Some(meter) => Ok(summary.with_server(meter.stop()?)),
            None => Ok(summary),
        }
    }
}
