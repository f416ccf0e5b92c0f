//! Agent: runs its part of a load for a coordinator.

use super::talk::{End, FromAgent, ORDER_MAX, PROTOCOL, ToAgent, hear, quoted, say, shown};
use crate::measure::packed::Packed;
use crate::measure::seconds::{SecondCounts, SecondStats, Whole};
use crate::report::follower::{AgentNow, Follower, GLANCE};
use crate::report::summary::Second;
use crate::run::carry_out;
use crate::types::clock::now_ns;
use crate::types::error::{Error, told};
use crate::types::part::Part;
use crate::workload::plan::RunPlan;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// Exchanges messages with a coordinator on `input` and `output` until the load is done. When `input` ends before,
/// the coordinator is gone, and `gone` is called: on another thread, at any moment.
pub fn agent(
    mut input: impl BufRead + Send + 'static,
    output: &mut dyn Write,
    gone: impl FnOnce() + Send + 'static,
) -> Result<(), Error> {
    let (sender, orders) = channel();
    thread::Builder::new().name(String::from("orders")).spawn(move || {
        while let Ok(Some(line)) = hear(&mut input, ORDER_MAX) {
            if sender.send(line).is_err() {
                break;
            }
        }
        gone();
    })?;
    let mut agent = Agent { orders, output };
    let ended = agent.converse();
    if let Err(Error::Io(error)) = &ended
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        // A coordinator that reads no more is gone: the end of the input, which reports that, can come a moment
        // later.
        agent.orders.iter().for_each(drop);
    }
    ended
}

struct Agent<'a> {
    orders: Receiver<String>,
    output: &'a mut dyn Write,
}

impl Agent<'_> {
    fn converse(&mut self) -> Result<(), Error> {
        let version = String::from(env!("CARGO_PKG_VERSION"));
        say(self.output, &FromAgent::Hello { protocol: PROTOCOL, version })?;
        match self.carry_out() {
            Ok(end) => say(self.output, &FromAgent::End(Box::new(end))),
            Err(error) => {
                say(self.output, &FromAgent::Failed { why: told(&error) })?;
                Err(error)
            }
        }
    }

    fn carry_out(&mut self) -> Result<End, Error> {
        let ToAgent::Plan { agent, agents, run } = self.order()? else {
            return Err(Error::Talk(String::from("the plan comes first")));
        };
        if agent >= agents {
            return Err(Error::Talk(format!("there is no part {agent} of {agents}")));
        }
        // These options apply to the coordinator, on its machine.
        let plan = RunPlan {
            probes: None,
            server_pid: None,
            ..RunPlan::new(&run, Part { index: agent, of: agents })?
        };
        let (summary, tally) = carry_out(&plan, self)?;
        Ok(End { summary, tally })
    }

    fn order(&self) -> Result<ToAgent, Error> {
        understand(&self.orders.recv().map_err(|_| gone())?)
    }

    fn tell(&mut self, whole: Vec<Whole>) -> Result<(), Error> {
        for Whole { interval: SecondStats { second, .. }, counts } in whole {
            let SecondCounts { latency_ns, slip_ns, failures } = counts;
            let (latency, slip) = (latency_ns.map(Packed), slip_ns.map(Packed));
            say(self.output, &FromAgent::Second { second, latency, slip, failures })?;
        }
        Ok(())
    }
}

impl Follower for Agent<'_> {
    fn stored(&mut self, items: u64, of: u64) -> Result<(), Error> {
        say(self.output, &FromAgent::Busy { stored: items, of })
    }

    fn filled(&mut self, items: u64) -> Result<(), Error> {
        self.stored(items, items)
    }

    /// The coordinator decides when.
    fn ready(&mut self, _: u64) -> Result<u64, Error> {
        say(self.output, &FromAgent::Ready)?;
        loop {
            match self.order()? {
                ToAgent::Clock => say(self.output, &FromAgent::Clock { now_ns: now_ns() })?,
                ToAgent::Start { at_ns } => {
                    let late_ns = now_ns().saturating_sub(at_ns);
                    return if late_ns == 0 {
                        Ok(at_ns)
                    } else {
                        Err(Error::Late { ms: late_ns / 1_000_000 })
                    };
                }
                order => return Err(Error::Talk(format!("{} before the start", quoted(&order)))),
            }
        }
    }

    fn second(&mut self, second: &Second, whole: Vec<Whole>) -> Result<(), Error> {
        say(self.output, &FromAgent::Passed(*second))?;
        self.tell(whole)
    }

    /// An agent has none of its own.
    fn agents(&mut self, _: &[AgentNow]) -> Result<(), Error> {
        Ok(())
    }

    fn closed(&mut self, whole: Vec<Whole>, _: f64) -> Result<(), Error> {
        self.tell(whole)
    }

    fn asks_every(&self) -> Option<Duration> {
        Some(GLANCE)
    }

    /// The user may end the run early.
    fn leaves(&mut self) -> Result<bool, Error> {
        match self.orders.try_recv() {
            Ok(line) => match understand(&line)? {
                ToAgent::Leave => Ok(true),
                order => Err(Error::Talk(format!("{} while the load runs", quoted(&order)))),
            },
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }
}

fn understand(line: &str) -> Result<ToAgent, Error> {
    if line.len() > ORDER_MAX {
        return Err(Error::Talk(format!("more than {ORDER_MAX} bytes in {:?}", shown(line))));
    }
    serde_json::from_str(line).map_err(|error| Error::Talk(format!("{error} in {:?}", shown(line))))
}

fn gone() -> Error {
    Error::Talk(String::from("the coordinator has gone"))
}

#[cfg(test)]
mod tests;
