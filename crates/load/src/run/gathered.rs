//! What the threads of a run have reported, put together.

use super::workers::Report;
use crate::clock::now_ns;
use crate::error::Error;
use crate::seconds::Seconds;
use crate::tally::Tally;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// What the workers have reported so far.
pub(super) struct All {
    pub(super) ready: usize,
    pub(super) running: usize,
    pub(super) engine: &'static str,
    pub(super) tally: Tally,
    pub(super) seconds: Seconds,
}

impl All {
    pub(super) fn new(workers: usize) -> All {
        All { ready: 0, running: workers, engine: "", tally: Tally::new(), seconds: Seconds::new(workers) }
    }

    /// Waits until all workers have their connections.
    pub(super) fn wait_ready(&mut self, reports: &Receiver<Report>) -> Result<(), Error> {
        while self.ready < self.running {
            self.take(reports.recv().map_err(|_| Error::Panic)?)?;
        }
        Ok(())
    }

    /// Waits for workers until the given time; `true` once none is left.
    pub(super) fn wait(&mut self, reports: &Receiver<Report>, until_ns: u64) -> Result<bool, Error> {
        while self.running > 0 {
            let patience = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            match reports.recv_timeout(patience) {
                Ok(report) => self.take(report)?,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Panic),
            }
        }
        Ok(true)
    }

    fn take(&mut self, report: Report) -> Result<(), Error> {
        match report {
            Report::Ready => self.ready += 1,
            Report::Second(second, total) => self.seconds.add(second, &total),
            Report::End(end) => {
                let (engine, tally) = (*end)?;
                self.engine = engine;
                self.tally.add(&tally);
                self.running -= 1;
            }
        }
        Ok(())
    }
}
