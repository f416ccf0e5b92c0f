//! Seconds as the agents report them, combined into seconds of all agents.

use super::super::unite::both;
use crate::report::summary::{CpuCost, Second};
use crate::types::clock::now_ns;
use crate::types::description::server_processes::ServerProcesses;

/// A round ends when all agents have reported, or when one reports for the second time: the others are late, and the
/// round does not wait for them.
pub(super) struct Rounds {
    /// When the last round ended, at first when the window opened.
    since_ns: u64,
    said: Vec<Said>,
    server: Option<Server>,
}

/// Processes here, the server.
struct Server {
    processes: ServerProcesses,
    /// What they had used when the last round ended.
    cpu_ns: Option<u64>,
}

/// Reported by one agent in this round.
#[derive(Clone, Debug)]
enum Said {
    Nothing,
    Passed(Box<Second>),
    /// It has ended, and reports no more.
    All,
}

impl Rounds {
    pub(super) fn new(agents: usize, open_ns: u64, server: Option<ServerProcesses>) -> Rounds {
        let server = server.map(|processes| Server { processes, cpu_ns: None });
        Rounds { since_ns: open_ns, said: vec![Said::Nothing; agents], server }
    }

    /// An agent reports its second; returns the round that this ends, if any.
    pub(super) fn pass(&mut self, agent: usize, second: Second) -> Option<Second> {
        let is_late = matches!(self.said[agent], Said::Passed(_));
        let round = if is_late { self.close() } else { None };
        self.said[agent] = Said::Passed(Box::new(second));
        round.or_else(|| self.close_if_whole())
    }

    /// An agent has ended.
    pub(super) fn end(&mut self, agent: usize) -> Option<Second> {
        self.said[agent] = Said::All;
        self.close_if_whole()
    }

    fn close_if_whole(&mut self) -> Option<Second> {
        let is_whole = !self.said.iter().any(|said| matches!(said, Said::Nothing));
        if is_whole { self.close() } else { None }
    }

    /// The sum of what was reported.
    fn close(&mut self) -> Option<Second> {
        let mut sum: Option<Second> = None;
        for said in &mut self.said {
            if let Said::Passed(second) = said {
                sum = Some(sum.map_or(**second, |sum| both(&sum, second)));
                *said = Said::Nothing;
            }
        }
        let now_ns = now_ns();
        let since_ns = std::mem::replace(&mut self.since_ns, now_ns);
        // An agent that was delayed reports several seconds as one: this clock knows how much time has passed.
        let seconds = now_ns.saturating_sub(since_ns) as f64 / 1e9;
        let server = self.server.as_mut().and_then(Server::used);
        sum.map(|sum| Second { seconds, server, ..sum })
    }
}

impl Server {
    /// Their CPU time since the last call. The live view does not show requests per CPU-second; a process that has
    /// ended is reported elsewhere.
    fn used(&mut self) -> Option<CpuCost> {
        let before_ns = std::mem::replace(&mut self.cpu_ns, self.processes.cpu_ns().ok());
        let used_ns = self.cpu_ns?.saturating_sub(before_ns?);
        Some(CpuCost { cpu_seconds: used_ns as f64 / 1e9, ..CpuCost::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(requests_per_second: f64, busiest_thread: f64) -> Second {
        Second {
            seconds: 1.0,
            requests_per_second,
            client: CpuCost::default(),
            server: None,
            busiest_thread,
            cpu_wait: 0.0,
            latency: None,
            failures: Default::default(),
            availability: None,
            probes: None,
        }
    }

    #[test]
    fn nobody_waits_for_an_agent_that_is_late() {
        let mut rounds = Rounds::new(3, 0, None);
        let mut pass = |agent, rate| {
            rounds
                .pass(agent, second(rate, rate / 100.0))
                .map(|round| (round.requests_per_second, round.busiest_thread))
        };
        assert_eq!((pass(0, 1.0), pass(2, 3.0)), (None, None));
        assert_eq!(pass(1, 2.0), Some((6.0, 0.03)), "all have spoken");
        assert_eq!((pass(0, 10.0), pass(1, 20.0)), (None, None));
        assert_eq!(pass(0, 11.0), Some((30.0, 0.2)), "without the third");
        assert_eq!((pass(1, 21.0), pass(2, 31.0)), (None, Some((63.0, 0.31))));
    }

    #[test]
    fn who_has_ended_is_not_waited_for() {
        let mut rounds = Rounds::new(2, 0, None);
        assert!(rounds.pass(0, second(1.0, 0.0)).is_none());
        assert_eq!(rounds.end(1).map(|round| round.requests_per_second), Some(1.0));
        assert_eq!(rounds.pass(0, second(2.0, 0.0)).map(|round| round.requests_per_second), Some(2.0));
        assert!(rounds.end(0).is_none());
    }
}
