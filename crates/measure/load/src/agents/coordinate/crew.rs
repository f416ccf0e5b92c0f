//! Processes of agents, and the messages that they send.

use super::super::talk::{self, FromAgent, PROTOCOL, ToAgent, WORD_MAX, quoted, say, shown};
use super::complaints::Complaints;
use super::{Clock, END_WITHIN, READINGS};
use crate::types::clock::now_ns;
use crate::types::error::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use std::io::BufReader;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use stdx::escape;

/// All agents. Dropping it ends them.
pub(super) struct Crew {
    agents: Vec<Agent>,
    heard: Receiver<Heard>,
    patience: Duration,
    /// Silence before this time does not count.
    waits_since_ns: u64,
}

struct Agent {
    name: String,
    child: Child,
    /// Closing it ends the agent.
    input: Option<ChildStdin>,
    complaints: Complaints,
    heard_ns: u64,
}

/// A line from an agent, at a time of our clock; `None`: its output has ended.
struct Heard {
    index: usize,
    at_ns: u64,
    line: Option<String>,
}

/// An agent, the time, and its message, or what makes it useless from now on.
type Word = (usize, u64, Result<FromAgent, Error>);

impl Crew {
    pub(super) fn start(names: &[String], command: &str, patience: Duration) -> Result<Crew, Error> {
        let (sender, heard) = sync_channel(HEARD_MAX);
        let mut crew = Crew { agents: Vec::new(), heard, patience, waits_since_ns: 0 };
        for (index, name) in names.iter().enumerate() {
            let failed =
                |error| Error::Agent { name: name.clone(), why: format!("cannot be started: {error}") };
            let mut child = Command::new("sh")
                .args(["-c", &(INTERRUPTS_ARE_OURS.to_owned() + &command.replace("{host}", name))])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(failed)?;
            let (input, output) = (child.stdin.take(), child.stdout.take().expect(PIPED));
            let complaints = Complaints::pass_on(index, child.stderr.take().expect(PIPED)).map_err(failed)?;
            crew.agents.push(Agent { name: name.clone(), child, input, complaints, heard_ns: now_ns() });
            let sender = sender.clone();
            thread::Builder::new()
                .name(format!("hear-{index}"))
                .spawn(move || hear(index, output, &sender))
                .map_err(failed)?;
        }
        Ok(crew)
    }

    /// From now on an agent may be silent for this much longer.
    pub(super) fn be_patient(&mut self, longer: Duration) {
        self.patience += longer;
    }

    /// From now on an agent may be silent for this long at most, whatever it was before.
    pub(super) fn be_impatient(&mut self, patience: Duration) {
        self.patience = self.patience.min(patience);
        self.waits_since_ns = now_ns();
    }

    /// When this agent sent something last.
    pub(super) fn heard_ns(&self, index: usize) -> u64 {
        self.agents[index].heard_ns
    }

    /// Passes the agents' messages to `each`, until `each` has returned for every agent that it is done: what comes from it after
    /// that is not listened to. An agent that is of no more use is passed as an error. `None`: so much time has passed without a
    /// message.
    pub(super) fn until_all(
        &mut self,
        glance: Option<Duration>,
        mut each: impl FnMut(&mut Crew, Option<(usize, Result<FromAgent, Error>)>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let now = now_ns();
        self.agents.iter_mut().for_each(|agent| agent.heard_ns = now);
        let mut done = vec![false; self.agents.len()];
        while !done.iter().all(|done| *done) {
            match self.hear(&done, glance) {
                Some((index, ..)) if done[index] => {}
                Some((index, _, said)) => done[index] |= each(self, Some((index, said)))?,
                None => drop(each(self, None)?),
            }
        }
        Ok(())
    }

    /// Asks every agent for the reading of its clock.
    pub(super) fn clocks(&mut self) -> Result<Vec<Clock>, Error> {
        let mut clocks = Vec::new();
        for index in 0..self.agents.len() {
            let mut readings = Vec::new();
            while readings.len() < READINGS {
                let before = now_ns();
                self.agents[index].heard_ns = before;
                self.tell(index, &ToAgent::Clock)?;
                let others: Vec<bool> = (0..self.agents.len()).map(|other| other != index).collect();
                match self.hear(&others, None) {
                    Some((from, at_ns, Ok(FromAgent::Clock { now_ns }))) if from == index => {
                        readings.push((before, now_ns, at_ns));
                    }
                    Some((from, _, said)) => return Err(self.unexpected(from, &said?)),
                    None => {}
                }
            }
            clocks.extend(Clock::of(&readings));
        }
        Ok(clocks)
    }

    /// The next message, if one comes within the time of a glance; an agent that is not done may not be silent for
    /// too long.
    fn hear(&mut self, done: &[bool], glance: Option<Duration>) -> Option<Word> {
        loop {
            let waited_for = self.agents.iter().enumerate().filter(|(index, _)| !done[*index]);
            let (oldest, oldest_ns) = waited_for
                .map(|(index, agent)| (index, agent.heard_ns))
                .min_by_key(|(_, heard_ns)| *heard_ns)
                .expect("an agent is not done");
            let since_ns = oldest_ns.max(self.waits_since_ns);
            let left = self.patience.saturating_sub(Duration::from_nanos(now_ns().saturating_sub(since_ns)));
            let wait = glance.map_or(left, |glance| glance.min(left));
            match self.heard.recv_timeout(wait) {
                Ok(Heard { index, at_ns, line }) => {
                    let said = line.as_deref().map(serde_json::from_str);
                    if !matches!(said, Some(Err(_))) {
                        self.agents[index].heard_ns = at_ns;
                    }
                    let (Some(line), Some(said)) = (line.as_deref(), said) else {
                        let error = if done[index] { Error::Left } else { self.ended(index) };
                        return Some((index, at_ns, Err(error)));
                    };
                    match said {
                        Ok(FromAgent::Failed { why }) => {
                            return Some((index, at_ns, Err(self.blame(index, &format!("failed to {why}")))));
                        }
                        Ok(said) => return Some((index, at_ns, Ok(said))),
                        // Perhaps a shell's greeting, which is no sign that the agent runs.
                        Err(_) if !line.starts_with(['{', '"']) && !left.is_zero() => {}
                        Err(_) if !line.starts_with(['{', '"']) => return Some(self.silent(oldest)),
                        Err(error) => {
                            let line = shown(line.trim_end());
                            let why = format!("speaks another language: {error} in {line}");
                            return Some((index, at_ns, Err(self.blame(index, &why))));
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) if wait < left => return None,
                Err(RecvTimeoutError::Timeout) => return Some(self.silent(oldest)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Some((oldest, now_ns(), Err(self.ended(oldest))));
                }
            }
        }
    }

    pub(super) fn tell(&mut self, index: usize, message: &ToAgent) -> Result<(), Error> {
        let told = match &mut self.agents[index].input {
            Some(input) => say(input, message).is_ok(),
            None => false,
        };
        if told { Ok(()) } else { Err(self.ended(index)) }
    }

    /// Results of different versions of the program are not combined.
    pub(super) fn check_version(&self, index: usize, protocol: u32, version: &str) -> Result<(), Error> {
        let ours = env!("CARGO_PKG_VERSION");
        if protocol == PROTOCOL && version == ours {
            return Ok(());
        }
        let why = format!("is version {version} (protocol {protocol}), this is {ours} (protocol {PROTOCOL})");
        Err(self.blame(index, &why))
    }

    pub(super) fn unexpected(&self, index: usize, said: &FromAgent) -> Error {
        self.blame(index, &format!("sent a message at the wrong time: {}", quoted(said)))
    }

    /// `why` may quote the agent, which can say anything.
    pub(super) fn blame(&self, index: usize, why: &str) -> Error {
        Error::Agent { name: self.agents[index].name.clone(), why: escape::line(why).into_owned() }
    }

    fn silent(&self, index: usize) -> Word {
        let why = format!("sent no message for {:.1?}", self.patience);
        (index, now_ns(), Err(self.blame(index, &why)))
    }

    /// The agent is not used any more: it ends when its input does.
    pub(super) fn give_up(&mut self, index: usize) {
        self.agents[index].input = None;
    }

    fn ended(&mut self, index: usize) -> Error {
        let agent = &mut self.agents[index];
        agent.input = None;
        let how = if agent.has_ended_within(END_WITHIN) {
            agent.child.wait().map_or(String::new(), |status| format!(" ({status})"))
        } else {
            String::new()
        };
        self.blame(index, &format!("ended too early{how}"))
    }
}

/// A terminal sends the signal of Ctrl-C to all of its processes, and what ends a group of processes sends SIGTERM. The
/// coordinator answers both, and lets agents end in order.
const INTERRUPTS_ARE_OURS: &str = "trap '' INT TERM; ";

const PIPED: &str = "it is piped";

/// Lines that wait to be parsed: an agent that sends more has to wait.
const HEARD_MAX: usize = 16;

fn hear(index: usize, output: ChildStdout, sender: &SyncSender<Heard>) {
    let mut output = BufReader::new(output);
    loop {
        let line = talk::hear(&mut output, WORD_MAX).ok().flatten();
        let is_last = line.is_none();
        // The receiver is gone when another agent failed first.
        if sender.send(Heard { index, at_ns: now_ns(), line }).is_err() || is_last {
            break;
        }
    }
}

impl Agent {
    fn has_ended_within(&mut self, time: Duration) -> bool {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return true;
        }
        let ended = || -> rustix::io::Result<bool> {
            let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
            let time = Timespec::try_from(time).expect("seconds");
            Ok(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time))? > 0)
        };
        ended().unwrap_or(false)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.agents.iter_mut().for_each(|agent| agent.input = None);
        for agent in &mut self.agents {
            if !agent.has_ended_within(END_WITHIN) {
                // The process that a killed ssh leaves on the other machine has no input any more, either.
                let _ = agent.child.kill();
            }
            let _ = agent.child.wait();
            agent.complaints.wait();
        }
    }
}
