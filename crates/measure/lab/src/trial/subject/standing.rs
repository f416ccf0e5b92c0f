//! Servers that keep running, side by side: each trial is a window of one of them, and only that one is loaded.
//!
//! They are started together, prepared once, and ended together after the rounds of a start: what one start has by luck
//! (the places of its memory, the seeds of its hashes) is not that of all rounds. One that has died is started again.

use crate::error::Error;
use crate::experiment::matrix::{Cell, TrialTurn};
use crate::experiment::standing::{ServerKey, StartGroup, server};
use crate::record::{GuestRecord, TrialRecord};
use crate::trial::context::Site;
use crate::trial::log::last_lines;
use crate::trial::{Started, Tried, clear, logs};
use std::collections::BTreeMap;

/// The servers of one start.
pub(crate) struct StandingServers<'a> {
    group: StartGroup,
    /// An error: it did not start.
    servers: BTreeMap<ServerKey, Result<StandingServer<'a>, Error>>,
    /// Directories that were given out.
    dirs: usize,
}

/// One that was started.
struct StandingServer<'a> {
    started: Started<'a>,
    version: Option<String>,
    guest: Option<GuestRecord>,
    remarks: Vec<String>,
}

impl<'a> Site<'a> {
    /// Runs a trial as a window of a server that keeps running for so many rounds.
    pub(in crate::trial) fn conduct_window(&mut self, turn: &TrialTurn, rounds: u32) -> Result<Tried, Error> {
        let group = StartGroup::of(self.experiment, &turn.cell, turn.round, rounds);
        if self.standing.as_ref().is_none_or(|standing| standing.group != group) {
            self.end_servers()?;
            // What a run that was killed has left there.
            clear(&self.directory.join("work"))?;
            self.start_all(turn, group)?;
        }
        self.attempt(turn, |site, record| site.window(turn, record))
    }

    /// Ends all servers that keep running, with all that they have left.
    pub(crate) fn end_servers(&mut self) -> Result<(), Error> {
        let Some(standing) = self.standing.take() else { return Ok(()) };
        drop(standing);
        self.trace.clear().and_then(|()| clear(&self.directory.join("work")))
    }

    /// Starts a group. One that does not start is the affair of its own trials.
    fn start_all(&mut self, turn: &TrialTurn, group: StartGroup) -> Result<(), Error> {
        let servers = group.servers(self.experiment);
        self.standing = Some(StandingServers { group, servers: BTreeMap::new(), dirs: 0 });
        for (key, cell) in servers {
            self.start_one(turn, key, cell)?;
        }
        Ok(())
    }

    fn start_one(&mut self, turn: &TrialTurn, key: ServerKey, cell: Cell) -> Result<(), Error> {
        let standing = self.standing.as_mut().expect("a group is there");
        standing.dirs += 1;
        let number = standing.dirs.to_string();
        let dir = self.directory.join("work").join(&number);
        let logs = logs(self.directory, turn).with_extension(format!("server-{number}"));
        let (turn, mut record) = (TrialTurn { cell, ..turn.clone() }, TrialRecord::default());
        let started = match self.start(&turn, &dir, &logs, &mut record) {
            Ok(started) => {
                let TrialRecord { version, guest, remarks, .. } = record;
                Ok(StandingServer { started, version, guest, remarks })
            }
            Err(error @ Error::Place { .. }) => Err(error),
            Err(error) => return Err(error),
        };
        self.standing.as_mut().expect("a group is there").servers.insert(key, started);
        Ok(())
    }

    fn window(&mut self, turn: &TrialTurn, record: &mut TrialRecord) -> Result<Option<Error>, Error> {
        let key = server(self.experiment, &turn.cell);
        // It is not in its place while it is loaded: one that is lost on the way is started again.
        let mut standing = match self.take(&key) {
            Some(Ok(standing)) => standing,
            None => {
                self.start_one(turn, key.clone(), turn.cell.clone())?;
                self.take(&key).expect("it was just started")?
            }
            Some(Err(error)) => return Err(error),
        };
        if let Some(status) = standing.started.server.ended()? {
            let last = last_lines(&standing.started.context.log());
            record.doubts.push(format!("the subject ended before its turn, with {status}{last}"));
            return Ok(None);
        }
        record.version.clone_from(&standing.version);
        record.guest.clone_from(&standing.guest);
        record.remarks.clone_from(&standing.remarks);
        standing.started.context.turn_to(turn, &logs(self.directory, turn))?;
        let broken = self.load(turn, &mut standing.started, record)?;
        if standing.started.server.ended()?.is_none() {
            self.standing.as_mut().expect("a group is there").servers.insert(key, Ok(standing));
        }
        Ok(broken)
    }

    fn take(&mut self, key: &ServerKey) -> Option<Result<StandingServer<'a>, Error>> {
        self.standing.as_mut().expect("a group is there").servers.remove(key)
    }
}
