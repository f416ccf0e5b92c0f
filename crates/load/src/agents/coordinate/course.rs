//! The course of a load by agents, from its beginning until all have ended.

use super::super::talk::{End, FromAgent};
use super::super::unite::Seconds;
use super::crew::Crew;
use super::rounds::Rounds;
use crate::error::Error;
use crate::follower::Follower;
use crate::summary::Second;

/// What agents have said so far, and who is told.
pub(super) struct Course<'a> {
    follower: &'a mut dyn Follower,
    rounds: Rounds,
    seconds: Seconds,
    ends: Vec<Option<End>>,
}

impl<'a> Course<'a> {
    /// Of a load whose window opens at this time.
    pub(super) fn new(agents: usize, open_ns: u64, follower: &'a mut dyn Follower) -> Course<'a> {
        let (rounds, seconds) = (Rounds::new(agents, open_ns), Seconds::new(agents));
        Course { follower, rounds, seconds, ends: (0..agents).map(|_| None).collect() }
    }

    /// What an agent has said; `true` if that was its last word.
    pub(super) fn hear(&mut self, crew: &Crew, agent: usize, said: FromAgent) -> Result<bool, Error> {
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

    /// All have ended: how each of them has, and the latencies of all by second.
    pub(super) fn end(mut self) -> Result<(Vec<Option<End>>, Seconds), Error> {
        self.follower.closed(self.seconds.take())?;
        Ok((self.ends, self.seconds))
    }
}
