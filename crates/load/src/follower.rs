//! Who follows a run, be it of this machine or of several: a line on a terminal, a whole one (live.rs), a log; and of a
//! machine's part, the coordinator.

use crate::clock::now_ns;
use crate::error::Error;
use crate::seconds::Interval;
use crate::summary::Second;
use hdrhistogram::Histogram;
use std::io::Write;
use std::time::Duration;

/// Is told what happens in a run, and says when it begins.
pub(crate) trait Follower {
    /// So many of the items are stored.
    fn stored(&mut self, items: u64, of: u64) -> Result<(), Error>;

    /// All are.
    fn filled(&mut self, items: u64) -> Result<(), Error>;

    /// All connections are open, and the load can begin in so many nanoseconds: when it is to begin, by the clock.
    fn ready(&mut self, wait_ns: u64) -> Result<u64, Error>;

    /// A second of the window has passed; and the seconds whose latencies have become known meanwhile.
    fn second(&mut self, second: &Second, whole: Vec<Whole>) -> Result<(), Error>;

    /// The window has closed.
    fn closed(&mut self, whole: Vec<Whole>) -> Result<(), Error>;

    /// How often it wants to be asked whether the run is to end.
    fn asks_every(&self) -> Option<Duration> {
        None
    }

    /// Whether the run is to end now.
    fn leaves(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

/// A second that all threads, or all agents, have reported.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) interval: Interval,
    pub(crate) latency_ns: Histogram<u64>,
}

/// Lines that overwrite each other.
pub(crate) struct Line<'a> {
    out: &'a mut dyn Write,
    latest: Option<Interval>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Line<'a> {
        Line { out, latest: None }
    }
}

impl Follower for Line<'_> {
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
        write!(self.out, "\r{}{:20}", second.line(self.latest.as_ref()), "")?;
        Ok(self.out.flush()?)
    }

    fn closed(&mut self, _: Vec<Whole>) -> Result<(), Error> {
        Ok(writeln!(self.out)?)
    }
}
