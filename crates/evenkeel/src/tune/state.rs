//! The directory of the journals as the verbs enter it: what is damaged is set aside, and what should have been undone by
//! now is undone, whatever has become of the process that was to do it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tuner::Root;
use tuner::host::FileHost;
use tuner::journal::{self, Damaged, Journal, Journals, Lock, Place};
use tuner::rollback::{NOT_CONFIRMED, RolledBack, is_overdue, undo_all};

use crate::failure::{Failure, say};

/// How long a verb waits for another one: longer than most plans take, and short enough to be there still when it is over.
pub(super) const LOCK_TIME_MAX: Duration = Duration::from_secs(30);

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

    /// For verbs that change something. Waits so long for others that do.
    pub(super) fn enter(&self, root: &Root, wait: Duration) -> Result<State, Failure> {
        let here = Place::of(root).map_err(Failure::other)?;
        let journals = self.journals();
        let lock = journals.lock(wait).map_err(not_entered)?;
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
    journal.spare_path().map(|path| format!("its journal cannot take that now, so it is in {}", path.display()))
}

fn not_entered(error: journal::Error) -> Failure {
    let is_locked = matches!(error, journal::Error::Locked { .. });
    let failure = Failure::other(error);
    match is_locked {
        true => failure.hint("wait for its end, or end it with SIGINT: what it is changing then goes back"),
        false => failure,
    }
}

/// Of the clock that goes on while the host sleeps, and that nobody sets.
pub(super) fn milliseconds_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[expect(clippy::disallowed_methods, reason = "the command line reads the clock")]
pub(super) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
