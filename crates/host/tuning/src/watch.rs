//! Watching of settings: drift is detected, explained and, if requested, repaired.
//!
//! Sockets, signals, the clock and the journals' lock are here; `tuner::watch` decides what to report and do. Any
//! signal can end it at any moment, and everything stays as it is then.

mod complaint;
mod notify;
mod wake;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use os::clock::{Stopwatch, unix_s};
use os::signals::Signals;
use tuner::Root;
use tuner::apply::host::FileHost;
use tuner::apply::journal::{self, BootAndNamespace, Journal, JournalDoubt, Journals};
use tuner::watch::{
    Act, News, Policy, SettingReading, Watch, WatchSnapshot, desired_states, look, persisting, repair,
};

pub use complaint::Complaint;

use crate::error::Error;
use crate::in_force::in_force;
use crate::persist;
use crate::state::StateDirectory;
use wake::Wake;

/// The host to watch, and what to do about drift.
#[derive(Clone, Debug)]
pub struct Request {
    /// The host: a directory with its /proc and /sys.
    pub root: PathBuf,
    /// Whether to set drifted settings again, unless a user or program chose the present value or keeps changing it.
    pub repair: bool,
    /// The longest time between two checks.
    pub every: Duration,
    /// The directory of the journals.
    pub state: StateDirectory,
    /// Called with obstacles that do not end the watch.
    pub complain: fn(&Complaint),
}

/// A message after a check.
#[derive(Clone, Debug)]
pub enum WatchMessage {
    /// The number of watched settings has changed.
    Watching {
        /// When.
        unix_s: u64,
        /// The number of settings.
        settings: usize,
    },
    /// Something about one setting.
    News {
        /// When.
        unix_s: u64,
        /// The news.
        news: Box<News>,
        /// Why a repair failed, if it did.
        failure: Option<String>,
    },
}

/// Watches until a signal ends this process; calls `looked` after each check.
pub fn watch(
    request: &Request,
    looked: &mut dyn FnMut(&[WatchMessage], &Watch),
) -> Result<Infallible, Error> {
    // Before any thread is started, so that they are blocked in all threads.
    let signals = Signals::block().map_err(|error| Error::system("block signals", error))?;
    let root = Root::new(&request.root);
    let wake = Wake::open(signals, root.is_live(), request.complain)?;
    let policy = Policy { repair: request.repair, every_ms: request.every.as_millis() as u64 };
    let mut watcher = Watcher {
        request,
        looked,
        host: FileHost::new(root.clone()),
        root,
        journals: request.state.journals(),
        clock: Stopwatch::start(),
        watch: Watch::new(policy),
        came: BTreeMap::new(),
        watched: None,
        complaint: None,
        doubts: Vec::new(),
    };
    watcher.round()?;
    if let Err(complaint) = notify::ready() {
        (request.complain)(&complaint);
    }
    loop {
        let left_ms = watcher.watch.next_look_ms().saturating_sub(watcher.clock.ms());
        for event in wake.wait(left_ms)? {
            watcher.watch.event(watcher.clock.ms(), event);
        }
        if watcher.watch.next_look_ms() <= watcher.clock.ms() {
            watcher.round()?;
        }
    }
}

struct Watcher<'a> {
    request: &'a Request,
    looked: &'a mut dyn FnMut(&[WatchMessage], &Watch),
    root: Root,
    host: FileHost,
    journals: Journals,
    clock: Stopwatch,
    watch: Watch,
    /// From the last check: the counts of interrupts since which they must be on their CPUs.
    came: BTreeMap<u32, u64>,
    /// The number of watched settings that was reported last.
    watched: Option<usize>,
    /// The obstacle that was reported, so that it is reported once.
    complaint: Option<Complaint>,
    /// What could not be read, which was said.
    doubts: Vec<JournalDoubt>,
}

impl Watcher<'_> {
    /// One check, with its repairs.
    fn round(&mut self) -> Result<(), Error> {
        let seen = self.request.state.look(&self.root)?;
        self.complain_of(seen.doubts());
        let (all, here) = match self.request.repair {
            true => seen.of_this_version()?,
            false => (seen.found.journals, seen.here),
        };
        let (_, seen) = self.look(all, &here);
        if seen.seen.iter().all(SettingReading::holds) {
            let said = self.judge(&seen, &mut []);
            (self.looked)(&said, &self.watch);
            return Ok(());
        }
        // A plan may be being applied or undone just now: only a difference under the lock is drift.
        let lock = match self.journals.lock() {
            Ok(lock) => lock,
            Err(journal::Error::Locked { .. }) => {
                self.watch.postpone(self.clock.ms());
                return Ok(());
            }
            Err(error) => return Err(Error::other(error)),
        };
        let all = self.journals.all().map_err(Error::other)?;
        let here = BootAndNamespace::of(&self.root).map_err(Error::other)?;
        let (mut journals, seen) = self.look(all, &here);
        let said = self.judge(&seen, &mut journals);
        // Release the lock before printing: a reader that does not read must not delay a rollback.
        drop(lock);
        (self.looked)(&said, &self.watch);
        Ok(())
    }

    /// Says what cannot be read, once.
    fn complain_of(&mut self, doubts: Vec<JournalDoubt>) {
        for doubt in doubts.iter().filter(|doubt| !self.doubts.contains(doubt)) {
            (self.request.complain)(&Complaint::Unread(doubt.clone()));
        }
        self.doubts = doubts;
    }

    fn look(&mut self, all: Vec<Journal>, here: &BootAndNamespace) -> (Vec<Journal>, WatchSnapshot) {
        let mut journals = in_force(all, here);
        journals.reverse();
        // A damaged manifest must not end the watch of plans.
        let held = persist::held(&self.root).unwrap_or_else(|error| {
            let complaint = Complaint::PersistenceUnknown(error.with_causes());
            if self.complaint.as_ref() != Some(&complaint) {
                (self.request.complain)(&complaint);
                self.complaint = Some(complaint);
            }
            Vec::new()
        });
        let desired = persisting(desired_states(&journals), held);
        let look = look(&self.root, &self.host, &desired, &self.came);
        (journals, look)
    }

    /// Acts on a check, and returns the messages.
    fn judge(&mut self, look: &WatchSnapshot, journals: &mut [Journal]) -> Vec<WatchMessage> {
        let mut said = Vec::new();
        self.came.clone_from(&look.came);
        if self.watched != Some(look.seen.len()) {
            self.watched = Some(look.seen.len());
            said.push(WatchMessage::Watching { unix_s: unix_s(), settings: look.seen.len() });
        }
        for news in self.watch.look(self.clock.ms(), look) {
            let failure = if news.act == Act::Repair { self.repair(&news, journals) } else { None };
            said.push(WatchMessage::News { unix_s: unix_s(), news: Box::new(news), failure });
        }
        said
    }

    /// Repairs a setting; the reason if that failed.
    fn repair(&mut self, news: &News, journals: &mut [Journal]) -> Option<String> {
        // A line that cannot be read may be the one that says that the plan is undone, or what a later plan has set.
        if !self.doubts.is_empty() {
            self.watch.repaired(self.clock.ms(), &news.desired.setting, false);
            return Some("set it again: not everything that is in force can be read".to_owned());
        }
        let journal =
            journals.iter_mut().find(|journal| Some(journal.path()) == news.desired.journal.as_deref());
        let journal = journal.expect("desired states are from the journals of the same check");
        let repaired = repair(&mut self.host, journal, &news.desired, &news.found);
        // It moves when it occurs the next time.
        news.desired.setting.irq().map(|irq| self.came.remove(&irq));
        self.watch.repaired(self.clock.ms(), &news.desired.setting, repaired.is_ok());
        repaired.err().map(|error| error.to_string())
    }
}
