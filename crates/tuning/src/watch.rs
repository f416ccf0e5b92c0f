//! Settings watched: what is no longer as it was set, why, and put right if told to.
//!
//! Sockets, signals, the clock and the journals' lock are here; what is to be said and done is decided in
//! `tuner::watch`. It can be ended at any moment, by any signal, and leaves everything as it is then.

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

/// What to watch, and what to do about it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The host: a directory with its /proc and /sys.
    pub root: PathBuf,
    /// Whether to set again what has drifted, unless somebody chose the value it has now or goes on changing it.
    pub repair: bool,
    /// WatchSnapshot at least this often.
    pub every: Duration,
    /// Where the journals are.
    pub state: StateDirectory,
    /// Hears what is in the way of watching, and does not end it.
    pub complain: fn(&Complaint),
}

/// Something to be said after a look.
#[derive(Clone, Debug)]
pub enum Said {
    /// How many settings are watched from now on.
    Watching {
        /// When.
        unix_s: u64,
        /// How many.
        settings: usize,
    },
    /// Something about one setting.
    News {
        /// When.
        unix_s: u64,
        /// What.
        news: Box<News>,
        /// Why a repair failed, if it did.
        failure: Option<String>,
    },
}

/// Watches until a signal ends this process; `looked` hears of each look.
pub fn watch(request: &Request, looked: &mut dyn FnMut(&[Said], &Watch)) -> Result<Infallible, Error> {
    // Before any thread is started, so that no thread takes them.
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
    looked: &'a mut dyn FnMut(&[Said], &Watch),
    root: Root,
    host: FileHost,
    journals: Journals,
    clock: Stopwatch,
    watch: Watch,
    /// Of the last look: since when interrupts have to be where they should be.
    came: BTreeMap<u32, u64>,
    /// How many settings it was said to watch.
    watched: Option<usize>,
    /// What was said to be in the way, once.
    complaint: Option<Complaint>,
    /// What could not be read, which was said.
    doubts: Vec<JournalDoubt>,
}

impl Watcher<'_> {
    /// Looks, and does what there is to do.
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
        // It may be a plan that is being applied or undone just now: only what is so under the lock has drifted.
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
        // A reader that takes nothing holds up nobody's way back.
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
        // A manifest that is damaged is no reason to stop watching plans.
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

    /// Does what there is to do about a look, and gives what there is to say.
    fn judge(&mut self, look: &WatchSnapshot, journals: &mut [Journal]) -> Vec<Said> {
        let mut said = Vec::new();
        self.came.clone_from(&look.came);
        if self.watched != Some(look.seen.len()) {
            self.watched = Some(look.seen.len());
            said.push(Said::Watching { unix_s: unix_s(), settings: look.seen.len() });
        }
        for news in self.watch.look(self.clock.ms(), look) {
            let failure = if news.act == Act::Repair { self.repair(&news, journals) } else { None };
            said.push(Said::News { unix_s: unix_s(), news: Box::new(news), failure });
        }
        said
    }

    /// Why it did not work, if it did not.
    fn repair(&mut self, news: &News, journals: &mut [Journal]) -> Option<String> {
        // A line that cannot be read may be the one that says that the plan is undone, or what a later plan has set.
        if !self.doubts.is_empty() {
            self.watch.repaired(self.clock.ms(), &news.desired.setting, false);
            return Some("set it again: not everything that is in force can be read".to_owned());
        }
        let journal =
            journals.iter_mut().find(|journal| Some(journal.path()) == news.desired.journal.as_deref());
        let journal = journal.expect("what should be is read from the journals of the same look");
        let repaired = repair(&mut self.host, journal, &news.desired, &news.found);
        // It moves when it comes the next time.
        news.desired.setting.irq().map(|irq| self.came.remove(&irq));
        self.watch.repaired(self.clock.ms(), &news.desired.setting, repaired.is_ok());
        repaired.err().map(|error| error.to_string())
    }
}
