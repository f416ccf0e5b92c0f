//! Reports of the threads of a run, combined.

use super::workers::{Report, Worked};
use crate::measure::seconds::Seconds;
use crate::measure::tally::Tally;
use crate::types::clock::now_ns;
use crate::types::error::Error;
use crate::types::probes::Traffic;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// What all threads have reported so far.
pub(super) struct All {
    ready: usize,
    pub(super) load: Group,
    pub(super) probes: Group,
    /// Why a worker has ended before its time: the first that has. The others go on until they are stopped.
    pub(super) failure: Option<Error>,
}

/// What threads of one kind have reported so far.
pub(super) struct Group {
    running: usize,
    pub(super) engine: &'static str,
    pub(super) tally: Tally,
    pub(super) seconds: Seconds,
}

impl Group {
    fn new(threads: usize) -> Group {
        Group { running: threads, engine: "", tally: Tally::new(), seconds: Seconds::new(threads) }
    }
}

impl All {
    pub(super) fn new(workers: usize, probes: usize) -> All {
        All { ready: 0, load: Group::new(workers), probes: Group::new(probes), failure: None }
    }

    /// Waits until all have their connections.
    pub(super) fn wait_ready(&mut self, reports: &Receiver<Report>) -> Result<(), Error> {
        while self.ready < self.running() {
            self.take(reports.recv().map_err(|_| Error::Panic)?)?;
        }
        Ok(())
    }

    /// Waits for workers of the load until the given time; `true` once none is left.
    pub(super) fn wait(&mut self, reports: &Receiver<Report>, until_ns: u64) -> Result<bool, Error> {
        self.wait_while(reports, until_ns, |all| all.load.running > 0)
    }

    /// Waits as [`All::wait`] does, but not after a worker has failed, which ends the run.
    pub(super) fn wait_or_fail(&mut self, reports: &Receiver<Report>, until_ns: u64) -> Result<bool, Error> {
        self.wait_while(reports, until_ns, |all| all.load.running > 0 && all.failure.is_none())
    }

    /// The error of a worker, if one has failed.
    pub(super) fn checked(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Waits for all threads until the given time.
    pub(super) fn wait_all(&mut self, reports: &Receiver<Report>, until_ns: u64) -> Result<bool, Error> {
        self.wait_while(reports, until_ns, |all| all.running() > 0)
    }

    fn wait_while(
        &mut self,
        reports: &Receiver<Report>,
        until_ns: u64,
        waits: impl Fn(&All) -> bool,
    ) -> Result<bool, Error> {
        while waits(self) {
            let patience = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            match reports.recv_timeout(patience) {
                Ok(report) => self.take(report)?,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Panic),
            }
        }
        Ok(true)
    }

    fn running(&self) -> usize {
        self.load.running + self.probes.running
    }

    fn take(&mut self, report: Report) -> Result<(), Error> {
        match report {
            Report::Ready => self.ready += 1,
            Report::Second(traffic, worker, second, counts) => {
                self.group(traffic).seconds.add(worker, second, *counts);
            }
            Report::End(traffic, worker, end) => {
                let Worked { engine, tally, error } = (*end)?;
                self.failure = self.failure.take().or(error);
                let group = self.group(traffic);
                group.engine = engine;
                group.tally.add(&tally);
                group.seconds.end(worker);
                group.running -= 1;
            }
        }
        Ok(())
    }

    fn group(&mut self, traffic: Traffic) -> &mut Group {
        match traffic {
            Traffic::Load => &mut self.load,
            Traffic::Probes => &mut self.probes,
        }
    }
}
