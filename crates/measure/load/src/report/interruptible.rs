//! Runs that a signal ends: what was measured until then is the result.

use crate::measure::seconds::Whole;
use crate::report::follower::{AgentNow, Follower, GLANCE};
use crate::report::summary::Second;
use crate::types::error::Error;
use os::signals::{HeldSignals, Signals};
use std::time::Duration;

/// A follower that also leaves when SIGINT or SIGTERM arrives.
pub(crate) struct Interruptible<'a> {
    inner: &'a mut dyn Follower,
    signals: HeldSignals,
    has_left: bool,
}

impl<'a> Interruptible<'a> {
    /// Threads that are started from now on leave signals to it.
    pub(crate) fn new(inner: &'a mut dyn Follower) -> Result<Interruptible<'a>, Error> {
        Ok(Interruptible { inner, signals: Signals::hold()?, has_left: false })
    }
}

impl Drop for Interruptible<'_> {
    /// The run is over, so a signal that has arrived has done what it was for: it must not end the process before the result is
    /// written.
    fn drop(&mut self) {
        while self.signals.take().is_some() {}
    }
}

impl Follower for Interruptible<'_> {
    fn stored(&mut self, items: u64, of: u64) -> Result<(), Error> {
        if self.leaves()? {
            return Err(Error::Left);
        }
        self.inner.stored(items, of)
    }

    fn filled(&mut self, items: u64) -> Result<(), Error> {
        self.inner.filled(items)
    }

    fn ready(&mut self, wait_ns: u64) -> Result<u64, Error> {
        self.inner.ready(wait_ns)
    }

    fn second(&mut self, second: &Second, whole: Vec<Whole>) -> Result<(), Error> {
        self.inner.second(second, whole)
    }

    fn agents(&mut self, agents: &[AgentNow]) -> Result<(), Error> {
        self.inner.agents(agents)
    }

    fn closed(&mut self, whole: Vec<Whole>, seconds: f64) -> Result<(), Error> {
        self.inner.closed(whole, seconds)
    }

    fn asks_every(&self) -> Option<Duration> {
        self.inner.asks_every().or(Some(GLANCE))
    }

    fn leaves(&mut self) -> Result<bool, Error> {
        self.has_left |= self.signals.take().is_some() || self.inner.leaves()?;
        Ok(self.has_left)
    }
}
