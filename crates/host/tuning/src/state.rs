//! The directory of the journals as jobs enter it: what should have been undone by now is undone, whatever has become of the
//! process that was to do it, what cannot be read is told, and journals of another version are refused.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use os::clock::since_boot_ms;
use os::signals::{HeldSignals, Ignored, Signals};
use tuner::Root;
use tuner::apply::host::FileHost;
use tuner::apply::journal::{
    self, BootAndNamespace, Found, Journal, JournalDoubt, Journals, Lock, OTHER_VERSION_REMEDY,
};
use tuner::apply::obstacle::Obstacle;
use tuner::apply::rollback::{LaterValues, NOT_CONFIRMED, RolledBack, is_overdue, undo_all};

use crate::error::Error;
use crate::progress::{JobNotice, LateUndoing};

/// How long a job waits for another one: longer than most plans take, and short enough for a user who waits.
pub(crate) const LOCK_TIME_MAX: Duration = Duration::from_secs(30);

/// The directory for results of undoing that a journal cannot hold: in a file system that is lost at a restart, like
/// the settings.
const SPARE: &str = "/run/evenkeel-tune";

/// The directory of the journals.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    /// Its path. It is for root alone.
    pub path: PathBuf,
    /// Called with messages for the user about its content.
    pub notice: fn(&JobNotice),
}

/// The journals, locked against other processes.
pub(crate) struct State {
    pub(crate) journals: Journals,
    pub(crate) here: BootAndNamespace,
    _lock: Lock,
}

/// The journals as they are at one moment.
pub(crate) struct Seen {
    pub(crate) found: Found,
    pub(crate) here: BootAndNamespace,
}

impl StateDirectory {
    pub(crate) fn journals(&self) -> Journals {
        Journals::new(&self.path).with_spare(SPARE)
    }

    /// For jobs that change something. Waits this long for others that do, or until a signal arrives. Overdue plans are
    /// undone completely, also if a signal arrives meanwhile.
    pub(crate) fn enter(&self, root: &Root, wait: Duration) -> Result<State, Error> {
        let state = self.enter_for_deadlines(root, wait)?;
        let found = state.journals.read().map_err(Error::other)?;
        self.tell(&found.doubts(&state.here));
        found.of_this_version(&state.here).map_err(other_version)?;
        Ok(state)
    }

    /// For what is overdue alone: another version's journal, or one that cannot be read, keeps nobody from undoing that.
    pub(crate) fn enter_for_deadlines(&self, root: &Root, wait: Duration) -> Result<State, Error> {
        let here = BootAndNamespace::of(root).map_err(Error::other)?;
        let journals = self.journals();
        let held = Signals::hold().map_err(|error| Error::system("block signals", error))?;
        let lock = self.locked(&journals, wait, &held)?;
        let mut found = journals.all().map_err(Error::other)?;
        found.iter_mut().for_each(Journal::save);
        let now_ms = since_boot_ms();
        let late = found.into_iter().rev().filter(|journal| is_overdue(journal, &here, now_ms));
        let mut late: Vec<Journal> = late.collect();
        undo_all(
            &mut FileHost::new(root.clone()),
            &mut late,
            NOT_CONFIRMED,
            LaterValues::Keep,
            |journal, undone| {
                (self.notice)(&JobNotice::UndoneLate(late_undoing(journal, undone)));
            },
        );
        Ok(State { journals, here, _lock: lock })
    }

    /// For jobs that only look, and say themselves what cannot be read.
    pub(crate) fn look(&self, root: &Root) -> Result<Seen, Error> {
        let here = BootAndNamespace::of(root).map_err(Error::other)?;
        let found = self.journals().read().map_err(Error::other)?;
        if !found.journals.iter().any(|journal| is_overdue(journal, &here, since_boot_ms())) {
            return Ok(Seen { found, here });
        }
        match self.enter_for_deadlines(root, Duration::ZERO) {
            Ok(state) => Ok(Seen { found: state.journals.read().map_err(Error::other)?, here }),
            Err(failure) => {
                (self.notice)(&JobNotice::StillInForce { error: failure.with_causes() });
                Ok(Seen { found, here })
            }
        }
    }

    /// Says what cannot be read.
    pub(crate) fn tell(&self, doubts: &[JournalDoubt]) {
        doubts.iter().for_each(|doubt| (self.notice)(&JobNotice::Unread(doubt.clone())));
    }

    /// The lock, after waiting for it.
    fn locked(&self, journals: &Journals, wait: Duration, held: &HeldSignals) -> Result<Lock, Error> {
        let holder = match journals.lock() {
            Err(journal::Error::Locked { holder, .. }) if !wait.is_zero() => holder,
            // There is no wait, so signals are left to other threads, which may be waiting for them.
            locked => return locked.map_err(not_entered),
        };
        let holder = holder.map_or("another `evenkeel tune`".to_owned(), |holder| holder.to_string());
        (self.notice)(&JobNotice::Waits { at_most: wait, holder });
        let (told, ignored) = (Cell::new(None), Ignored::now());
        let stop = || {
            told.set(held.take().filter(|signal| !ignored.has(*signal)));
            told.get().is_some()
        };
        journals.lock_within(wait, &stop).map_err(|error| match told.get() {
            Some(signal) => Error::other(error).by_signal(signal),
            None => not_entered(error),
        })
    }
}

impl Seen {
    /// What cannot be read, and may be in force.
    pub(crate) fn doubts(&self) -> Vec<JournalDoubt> {
        self.found.doubts(&self.here)
    }

    /// The journals and their place, for a job that acts upon what they say is in force.
    pub(crate) fn of_this_version(self) -> Result<(Vec<Journal>, BootAndNamespace), Error> {
        let journals = self.found.of_this_version(&self.here).map_err(other_version)?;
        Ok((journals, self.here))
    }
}

/// A refusal to change anything beside a journal that this version does not understand.
fn other_version(error: journal::Error) -> Error {
    Error::other(error).with_hint(OTHER_VERSION_REMEDY)
}

impl State {
    /// Otherwise values of an unfinished plan would be recorded as old values.
    pub(crate) fn refuse_over_unfinished(&self) -> Result<(), Error> {
        let all = self.journals.all().map_err(Error::other)?;
        match Obstacle::find(&all, &self.here) {
            None => Ok(()),
            Some(obstacle) => {
                Err(Error::refused(format_args!("apply a plan: {obstacle}")).with_hint(obstacle.remedy()))
            }
        }
    }
}

fn late_undoing(journal: &Journal, undone: &RolledBack) -> LateUndoing {
    LateUndoing {
        journal: journal.path().to_owned(),
        failures: undone.failures(),
        unrecorded: undone.unrecorded.as_ref().map(journal::Error::with_causes),
        spare: journal.spare_path(),
    }
}

fn not_entered(error: journal::Error) -> Error {
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
        _ => return Error::other(error),
    };
    Error::other(error).with_hint(hint)
}
