//! One pass over a file: each line is sent, kept or refused.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use os::clock::Stopwatch;
use router::{SpooledDelete, read_record};
use stdx::log_level::LogLevel;

use super::courier::{CourierReport, SpooledLine};
use super::fleet::{Fleet, Room};
use super::folder::LoggedFile;
use super::lines::PieceEnd;
use super::options::ReplayNotice;
use super::pace::Pace;
use super::taken::TakenFile;

/// What is done is recorded at this interval: a replayer that is killed sends again what it has sent in the last one.
const RECORD_EVERY: Duration = Duration::from_secs(5);

/// Interval at which signals are looked at while something is awaited, and lines after which they are.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_LINES: u64 = 1024;

/// Lines of one file that a message is written for.
const TOLD_MAX: u64 = 10;

/// Servers of a file that are remembered; with more it is tried again whichever of them answers.
const BLOCKED_BY_MAX: usize = 64;

/// What a pass needs.
pub(super) struct PassTools<'a> {
    pub(super) fleet: &'a mut Fleet,
    pub(super) pace: &'a mut Pace,
    pub(super) router: Option<&'a str>,
    pub(super) timeout: Duration,
    pub(super) notice: ReplayNotice,
    pub(super) is_asked_to_end: &'a dyn Fn() -> bool,
    /// Is told how many bytes of the file are read, and how many deletes sent.
    pub(super) progress: &'a mut dyn FnMut(u64, u64),
}

/// What became of a file.
#[derive(Debug, Default)]
pub(super) struct PassOutcome {
    pub(super) sent: u64,
    /// Lines that stay.
    pub(super) kept: u64,
    /// Lines that were moved out of the way.
    pub(super) refused: u64,
    /// The servers of what stays; empty if there are too many, or a server has answered with an error.
    pub(super) blocked_by: HashSet<String>,
    pub(super) was_refused_by_server: bool,
    /// The last error with which a server has answered.
    pub(super) refusal: Option<String>,
    /// It was not read to its end.
    pub(super) was_interrupted: bool,
}

struct Pass<'a, 'b> {
    tools: &'a mut PassTools<'b>,
    file: &'a mut TakenFile,
    outcome: PassOutcome,
    has_many_servers: bool,
}

/// Sends what a file has. After an error it is still there, with all that is not recorded as done.
pub(super) fn pass(
    tools: &mut PassTools<'_>,
    mut file: Box<TakenFile>,
    root: &Path,
    logged: &LoggedFile,
) -> io::Result<PassOutcome> {
    let mut pass = Pass { tools, file: &mut file, outcome: PassOutcome::default(), has_many_servers: false };
    let sent = pass.read();
    // Reports of what is on its way belong to this file, whatever happened to it.
    let settled = pass.settle_all();
    let mut outcome = pass.outcome;
    if let Err(error) = sent.and(settled) {
        file.abandon();
        return Err(error);
    }
    if outcome.was_interrupted {
        let offset = file.offset();
        file.done_until(offset)?;
        return Ok(outcome);
    }
    let is_left = file.finish(root, logged, os::clock::unix_s())?;
    // An earlier replayer that was killed may have left some.
    outcome.kept += u64::from(is_left && outcome.kept == 0);
    Ok(outcome)
}

impl Pass<'_, '_> {
    fn read(&mut self) -> io::Result<()> {
        let (mut piece, mut since, mut is_long) = (Vec::new(), Stopwatch::start(), false);
        while let Some(end) = self.file.next(&mut piece)? {
            let was_long = std::mem::replace(&mut is_long, end == PieceEnd::Long);
            if is_long || was_long {
                if !was_long {
                    self.tell_refused("the line is too long for a record");
                }
                self.file.refuse(&piece, end)?;
                continue;
            }
            self.line(&piece, end)?;
            (self.tools.progress)(self.file.offset(), self.outcome.sent);
            let is_time_to_look = self.file.lines_read().is_multiple_of(LOOK_LINES);
            if self.outcome.was_interrupted || is_time_to_look && (self.tools.is_asked_to_end)() {
                self.outcome.was_interrupted = true;
                return Ok(());
            }
            if since.passed() >= RECORD_EVERY {
                self.settle_all()?;
                self.file.done_until(self.file.offset())?;
                since = Stopwatch::start();
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], end: PieceEnd) -> io::Result<()> {
        let delete = match read_record(line) {
            Ok(delete) => delete,
            Err(error) => {
                self.tell_refused(&error.to_string());
                return self.file.refuse(line, end);
            }
        };
        let SpooledDelete { server, key, pool } = delete;
        let server = match (pool, self.tools.router) {
            (Some(_), Some(router)) => router.to_owned(),
            _ => server,
        };
        self.wait_for_pace()?;
        let waiting = Stopwatch::start();
        loop {
            match self.tools.fleet.room(&server) {
                Room::Free => {
                    self.tools.pace.take();
                    return self.tools.fleet.send(&server, SpooledLine { line: line.to_vec(), key });
                }
                // It has time to connect, and to answer what is on its way.
                Room::Full if waiting.passed() <= 2 * self.tools.timeout + LOOK_EVERY => {
                    self.settle(LOOK_EVERY)?;
                }
                Room::Full | Room::Away | Room::TooMany => return self.keep(&server, line),
            }
        }
    }

    /// Waits until another delete may be sent. If the replay is to end meanwhile, it may: it is the last one.
    fn wait_for_pace(&mut self) -> io::Result<()> {
        while let Some(wait) = self.tools.pace.wait() {
            if (self.tools.is_asked_to_end)() {
                self.outcome.was_interrupted = true;
                return Ok(());
            }
            match self.tools.fleet.is_idle() {
                true => os::clock::pause(wait.min(LOOK_EVERY)),
                false => self.settle(wait.min(LOOK_EVERY))?,
            }
        }
        Ok(())
    }

    /// Takes a report, if one comes in time.
    fn settle(&mut self, within: Duration) -> io::Result<()> {
        let Some(report) = self.tools.fleet.report(within) else { return Ok(()) };
        let CourierReport { server, done, undone, refusal, .. } = report;
        self.outcome.sent += done;
        self.outcome.was_refused_by_server |= refusal.is_some();
        self.outcome.refusal = refusal.or(self.outcome.refusal.take());
        undone.iter().try_for_each(|undone| self.keep(&server, &undone.line))
    }

    /// Waits until nothing is on its way. Servers have time limits, so this has an end; after an error, too.
    fn settle_all(&mut self) -> io::Result<()> {
        let mut settled = Ok(());
        while !self.tools.fleet.is_idle() {
            // A second signal ends the process.
            (self.tools.is_asked_to_end)();
            settled = settled.and(self.settle(LOOK_EVERY));
        }
        settled
    }

    fn keep(&mut self, server: &str, line: &[u8]) -> io::Result<()> {
        self.outcome.kept += 1;
        let blocked_by = &mut self.outcome.blocked_by;
        if !self.has_many_servers && !blocked_by.contains(server) {
            blocked_by.insert(server.to_owned());
            self.has_many_servers = blocked_by.len() > BLOCKED_BY_MAX;
        }
        if self.has_many_servers {
            blocked_by.clear();
        }
        self.file.keep(line)
    }

    fn tell_refused(&mut self, why: &str) {
        self.outcome.refused += 1;
        if self.outcome.refused <= TOLD_MAX {
            let (place, path) = (self.file.place(), self.file.path.display());
            let line = format!("{place} is no delete, and is moved to {path}.refused: {why}");
            (self.tools.notice)(LogLevel::Warning, &line);
        }
    }
}
