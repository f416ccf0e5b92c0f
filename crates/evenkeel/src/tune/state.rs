//! The directory of the journals as the verbs enter it: what is damaged is set aside, and what should have been undone by
//! now is undone, whatever has become of the process that was to do it.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tuner::Root;
use tuner::apply::host::FileHost;
use tuner::apply::journal::{self, Damaged, Journal, Journals, Lock, Place};
use tuner::apply::rollback::{NOT_CONFIRMED, RolledBack, is_overdue, undo_all};

use super::apply::time;
use super::load::ignored;
use crate::failure::{Failure, say};
use os::signals::{Held, Signals};

/// How long a verb waits for another one: longer than most plans take, and short enough to be there still when it is over.
pub(super) const LOCK_TIME_MAX: Duration = Duration::from_secs(30);

/// How long to wait for others.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Patience {
    /// Wait at most so long for another `evenkeel tune` that is changing settings: 0s, 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(super) wait: Duration,
}

/// What undoing has come to, where a journal cannot take it: in a file system that ends with the boot, as the settings do.
const SPARE: &str = "/run/evenkeel-tune";

/// Where the journals are.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StateDirectory {
    /// Where the journals are: what was changed, and what it was before. A directory of its own, for root alone
    #[arg(long = "state", value_name = "DIR", default_value = "/var/lib/evenkeel/tune")]
    pub(super) path: PathBuf,
}

/// The journals, which nobody else changes meanwhile.
pub(super) struct State {
    pub(super) journals: Journals,
    pub(super) here: Place,
    _lock: Lock,
}

impl StateDirectory {
    pub(super) fn journals(&self) -> Journals {
        Journals::new(&self.path).with_spare(SPARE)
    }

    /// For verbs that change something. Waits so long for others that do, or until a signal comes. What is undone on
    /// entering is undone to its end, whatever signal comes.
    pub(super) fn enter(&self, root: &Root, wait: Duration) -> Result<State, Failure> {
        let here = Place::of(root).map_err(Failure::other)?;
        let journals = self.journals();
        let held = Signals::hold().map_err(|error| Failure::system("block signals", error))?;
        let lock = locked(&journals, wait, &held)?;
        let (mut found, damaged) = journals.read().map_err(Failure::other)?;
        found.iter_mut().for_each(Journal::save);
        for damaged in &damaged {
            set_aside(&journals, damaged);
        }
        let now_ms = milliseconds_since_boot();
        let late = found.into_iter().rev().filter(|journal| is_overdue(journal, &here, now_ms));
        let mut late: Vec<Journal> = late.collect();
        undo_all(&mut FileHost::new(root.clone()), &mut late, NOT_CONFIRMED, |journal, undone| {
            say(format_args!("evenkeel: tune: {}", undone_late(journal, undone)));
        });
        Ok(State { journals, here, _lock: lock })
    }

    /// For verbs that only look: the journals, the oldest first, and where they are looked at.
    pub(super) fn look(&self, root: &Root) -> Result<(Vec<Journal>, Place), Failure> {
        let here = Place::of(root).map_err(Failure::other)?;
        let (found, damaged) = self.journals().read().map_err(Failure::other)?;
        let is_late = found.iter().any(|journal| is_overdue(journal, &here, milliseconds_since_boot()));
        if damaged.is_empty() && !is_late {
            return Ok((found, here));
        }
        match self.enter(root, Duration::ZERO) {
            Ok(state) => Ok((state.journals.all().map_err(Failure::other)?, here)),
            Err(failure) => {
                for Damaged { error, .. } in &damaged {
                    say(format_args!("evenkeel: tune: left out a damaged journal: {}", error.with_causes()));
                }
                if is_late {
                    say(format_args!(
                        "evenkeel: tune: a plan that nobody confirmed is still in force: {failure}"
                    ));
                }
                Ok((found, here))
            }
        }
    }
}

fn set_aside(journals: &Journals, damaged: &Damaged) {
    let error = damaged.error.with_causes();
    let line = match journals.set_aside(damaged) {
        Ok(aside) => format!(
            "evenkeel: tune: set aside a damaged journal: {error}; what it says of old values is in {}, and is not undone",
            aside.display()
        ),
        Err(refused) => format!(
            "evenkeel: tune: left out a damaged journal: {error}; and failed to {}",
            refused.with_causes()
        ),
    };
    say(format_args!("{line}"));
}

fn undone_late(journal: &Journal, undone: &RolledBack) -> String {
    let path = journal.path().display();
    let failures = undone.failures();
    let values = match failures.is_empty() {
        true => format!("{path} was not confirmed in time: everything is as it was before"),
        false => format!(
            "{path} was not confirmed in time; not everything could be undone: {}",
            failures.join("; ")
        ),
    };
    match (&undone.unrecorded, kept_aside(journal)) {
        (None, None) => values,
        (None, Some(aside)) => format!("{values}; {aside}"),
        (Some(error), _) => format!("{values}; failed to record it: {}", error.with_causes()),
    }
}

/// What to say of a record that the journal could not take.
pub(super) fn kept_aside(journal: &Journal) -> Option<String> {
    journal
        .spare_path()
        .map(|path| format!("its journal cannot take that now, so it is in {}", path.display()))
}

/// The lock, after waiting for it.
fn locked(journals: &Journals, wait: Duration, held: &Held) -> Result<Lock, Failure> {
    let holder = match journals.lock() {
        Err(journal::Error::Locked { holder, .. }) if !wait.is_zero() => holder,
        // Nobody waits, so signals are for others, which may be waiting for them.
        locked => return locked.map_err(not_entered),
    };
    let holder = holder.map_or("another `evenkeel tune`".to_owned(), |holder| holder.to_string());
    say(format_args!("evenkeel: tune: waiting up to {} s for {holder}", wait.as_secs()));
    let (told, ignored) = (Cell::new(None), ignored());
    let stop = || {
        // One that this process was told to ignore (nohup) comes all the same once it is blocked.
        told.set(held.take().filter(|signal| ignored >> (signal.number() - 1) & 1 == 0));
        told.get().is_some()
    };
    journals.lock_within(wait, &stop).map_err(|error| match told.get() {
        Some(signal) => Failure::other(error).with_status(signal.status()),
        None => not_entered(error),
    })
}

fn not_entered(error: journal::Error) -> Failure {
    let hint = match &error {
        journal::Error::Locked { holder: Some(holder), .. } if holder.is_stopped => {
            format!("it is stopped: `kill -CONT {}` lets it go on", holder.pid)
        }
        journal::Error::Locked { holder: Some(holder), .. } => format!(
            "wait for its end (--wait), or end it with `kill -INT {}`: what it is changing then goes back",
            holder.pid
        ),
        journal::Error::Locked { holder: None, .. } => {
            "its process cannot be seen from here; wait for its end (--wait)".to_owned()
        }
        _ => return Failure::other(error),
    };
    Failure::other(error).hint(hint)
}

/// Of the clock that goes on while the host sleeps, and that nobody sets: as the host has it, also in a time namespace
/// (some containers), or a deadline would be another time there.
pub(super) fn milliseconds_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = now.tv_sec - seconds_ahead_of_host();
    u64::try_from(seconds).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// How far this time namespace's clock is ahead of the host's (time_namespaces(7)), in whole seconds.
fn seconds_ahead_of_host() -> i64 {
    let read = |path| std::fs::read_link(path).ok();
    // The offsets are those of processes that this one would start.
    let is_own = read("/proc/self/ns/time") == read("/proc/self/ns/time_for_children");
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let of_boottime = offsets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("boottime")).then(|| words.next()?.parse().ok()).flatten()
    });
    of_boottime.filter(|_| is_own).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "the command line reads the clock")]
pub(super) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
