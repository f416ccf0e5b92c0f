//! Followers of a run on this machine or on several: a progress line, a full-screen view (live.rs), a log; and the
//! coordinator, for its agents.

use crate::measure::seconds::SecondStats;
use crate::measure::seconds::Whole;
use crate::report::summary::Second;
use crate::types::clock::now_ns;
use crate::types::error::Error;
use std::io::Write;
use std::time::Duration;

/// Gets the events of a run, and decides when it begins.
pub(crate) trait Follower {
    /// This many of the items are stored.
    fn stored(&mut self, items: u64, of: u64) -> Result<(), Error>;

    /// All are.
    fn filled(&mut self, items: u64) -> Result<(), Error>;

    /// All connections are open, and the load can begin in this many nanoseconds: returns when it begins, by the
    /// clock.
    fn ready(&mut self, wait_ns: u64) -> Result<u64, Error>;

    /// A second of the window has passed; and the seconds whose latencies have become known meanwhile.
    fn second(&mut self, second: &Second, whole: Vec<Whole>) -> Result<(), Error>;

    /// For a load by several machines: what each does. Called before each second, and while one is silent.
    fn agents(&mut self, agents: &[AgentNow]) -> Result<(), Error>;

    /// The window has closed, after so many seconds: the last ones, of which the very last may be shorter.
    fn closed(&mut self, whole: Vec<Whole>, seconds: f64) -> Result<(), Error>;

    /// The interval at which to ask whether the run is to end.
    fn asks_every(&self) -> Option<Duration> {
        None
    }

    /// Whether the run is to end now.
    fn leaves(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

/// One of several machines, in the middle of a load.
#[derive(Clone, Debug)]
pub(crate) struct AgentNow {
    pub(crate) name: String,
    pub(crate) state: AgentState,
}

/// Its progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AgentState {
    Loads {
        requests_per_second: f64,
    },
    /// It has sent nothing for this many seconds, which is not normal.
    Silent {
        seconds: u64,
    },
    Ended,
    /// It has failed, and the others go on.
    Lost,
}

impl AgentNow {
    /// Those that are silent, and for how long, and those that are lost; empty without.
    pub(crate) fn silent(agents: &[AgentNow]) -> String {
        let silent = agents.iter().filter_map(|AgentNow { name, state }| match state {
            AgentState::Silent { seconds } => Some(format!("{name} for {seconds} s")),
            AgentState::Lost => Some(format!("{name}, which is lost")),
            AgentState::Loads { .. } | AgentState::Ended => None,
        });
        silent.collect::<Vec<_>>().join(", ")
    }
}

/// A follower that can end the run is asked at this interval: a key takes effect that quickly.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);

/// Lines that overwrite each other.
pub(crate) struct ProgressLine<'a> {
    out: &'a mut dyn Write,
    latest: Option<SecondStats>,
    /// Agents that are silent or lost.
    silent: String,
}

impl<'a> ProgressLine<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> ProgressLine<'a> {
        ProgressLine { out, latest: None, silent: String::new() }
    }
}

impl Follower for ProgressLine<'_> {
    fn stored(&mut self, items: u64, of: u64) -> Result<(), Error> {
        write!(self.out, "\rprefill: {items} of {of} keys")?;
        Ok(self.out.flush()?)
    }

    fn filled(&mut self, items: u64) -> Result<(), Error> {
        Ok(writeln!(self.out, "\rprefill: {items} keys stored{:20}", "")?)
    }

    fn ready(&mut self, wait_ns: u64) -> Result<u64, Error> {
        Ok(now_ns() + wait_ns)
    }

    fn second(&mut self, second: &Second, mut whole: Vec<Whole>) -> Result<(), Error> {
        self.latest = whole.pop().map(|whole| whole.interval).or(self.latest);
        let silent = if self.silent.is_empty() { "" } else { ", silent: " };
        write!(self.out, "\r{}{silent}{}{:20}", second.line(self.latest.as_ref()), self.silent, "")?;
        Ok(self.out.flush()?)
    }

    fn agents(&mut self, agents: &[AgentNow]) -> Result<(), Error> {
        self.silent = AgentNow::silent(agents);
        Ok(())
    }

    fn closed(&mut self, _: Vec<Whole>, _: f64) -> Result<(), Error> {
        Ok(writeln!(self.out)?)
    }
}
