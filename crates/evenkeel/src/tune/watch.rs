//! `evenkeel tune watch`: notice when something no longer is as it was set, say why, and put it right if told to.
//!
//! Sockets, signals, the clock and the journals' lock are here; what is to be said and done is decided in
//! `tuner::watch`. It can be ended at any moment, by any signal, and leaves everything as it is then.

mod notify;
mod wake;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tuner::Root;
use tuner::apply::host::FileHost;
use tuner::apply::journal::{self, Journal, Journals, Place};
use tuner::watch::{
    Act, Line, Look, News, Policy, Seen, Watch, desired_states, look, persisting, prometheus, repair,
    watching,
};

use super::apply::duration;
use super::check::replace;
use super::observe::Clock;
use super::persist;
use super::rollback::{self, here, in_force};
use super::state::seconds_since_1970;
use crate::failure::{Failure, say};
use crate::output::tell;
use os::signals::Signals;
use wake::Wake;

/// What `watch` ends with.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "It was told to end."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a journal cannot be read."),
    ("1", "Anything else."),
];

/// Notice when something no longer is as it was set, and say why
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "SIGHUP makes it look at once; SIGTERM and SIGINT end it with status 0. Nothing is undone \
                        when it ends."
)]
pub(super) struct WatchArguments {
    /// What to do about it
    #[arg(long, value_name = "POLICY", default_value = "never")]
    repair: Repair,
    /// Look at least this often: 1s, 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    every: Duration,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
    /// Write metrics for node_exporter's textfile collector after each look (a name that ends in .prom)
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    #[command(flatten)]
    place: rollback::Arguments,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Repair {
    /// Only say it
    Never,
    /// Set it again, unless somebody chose the value it has now or goes on changing it
    Auto,
}

pub(super) fn run(arguments: &WatchArguments) -> Result<ExitCode, Failure> {
    // Before any thread is started, so that no thread takes them.
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    let root = Root::new(&arguments.place.root);
    let wake = Wake::open(signals, root.is_live())?;
    let journals = arguments.place.state.journals();
    let policy =
        Policy { repair: arguments.repair == Repair::Auto, every_ms: arguments.every.as_millis() as u64 };
    let host = FileHost::new(root.clone());
    let clock = Clock::start();
    let mut watcher = Watcher {
        arguments,
        root,
        host,
        journals,
        clock,
        watch: Watch::new(policy),
        came: BTreeMap::new(),
        watched: None,
        complaint: None,
    };
    watcher.round()?;
    notify::ready();
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
    arguments: &'a WatchArguments,
    root: Root,
    host: FileHost,
    journals: Journals,
    clock: Clock,
    watch: Watch,
    /// Of the last look: since when interrupts have to be where they should be.
    came: BTreeMap<u32, u64>,
    /// How many settings it was said to watch.
    watched: Option<usize>,
    /// What was said to be in the way, once.
    complaint: Option<String>,
}

impl Watcher<'_> {
    /// Looks, and does what there is to do.
    fn round(&mut self) -> Result<(), Failure> {
        let found = self.arguments.place.state.look(&self.root)?;
        let (_, seen) = self.look(found);
        if seen.seen.iter().all(Seen::holds) {
            let text = self.judge(&seen, &mut []);
            self.say(&text);
            return Ok(());
        }
        // It may be a plan that is being applied or undone just now: only what is so under the lock has drifted.
        let lock = match self.journals.lock() {
            Ok(lock) => lock,
            Err(journal::Error::Locked { .. }) => {
                self.watch.postpone(self.clock.ms());
                return Ok(());
            }
            Err(error) => return Err(Failure::other(error)),
        };
        let all = self.journals.all().map_err(Failure::other)?;
        let (mut journals, seen) = self.look((all, here(&self.arguments.place)?));
        let text = self.judge(&seen, &mut journals);
        // A reader that takes nothing holds up nobody's way back.
        drop(lock);
        self.say(&text);
        Ok(())
    }

    fn look(&mut self, found: (Vec<Journal>, Place)) -> (Vec<Journal>, Look) {
        let mut journals = in_force(found);
        journals.reverse();
        // A manifest that is damaged is no reason to stop watching plans.
        let held = persist::held(&self.root).unwrap_or_else(|failure| {
            let line = format!("evenkeel: tune watch: what persists is not watched: failed to {failure}");
            if self.complaint.as_ref() != Some(&line) {
                say(format_args!("{line}"));
                self.complaint = Some(line);
            }
            Vec::new()
        });
        let desired = persisting(desired_states(&journals), held);
        let look = look(&self.root, &self.host, &desired, &self.came);
        (journals, look)
    }

    /// Does what there is to do about a look, and gives what there is to say.
    fn judge(&mut self, look: &Look, journals: &mut [Journal]) -> String {
        let (json, mut text) = (self.arguments.json, String::new());
        self.came.clone_from(&look.came);
        if self.watched != Some(look.seen.len()) {
            self.watched = Some(look.seen.len());
            text += &watching(seconds_since_1970(), look.seen.len(), json);
        }
        for news in self.watch.look(self.clock.ms(), look) {
            let failure = if news.act == Act::Repair { self.repair(&news, journals) } else { None };
            let line = Line { unix_s: seconds_since_1970(), news: &news, failure: failure.as_deref() };
            text += &if json { line.json() } else { line.text() };
            text.push('\n');
        }
        text
    }

    /// Says it, to people and to metrics. A full disk is no reason to stop watching.
    fn say(&self, text: &str) {
        tell(text.as_bytes());
        if let Some(path) = &self.arguments.prometheus
            && let Err(failure) = replace(path, &prometheus(&self.watch, seconds_since_1970()))
        {
            say(format_args!("evenkeel: tune watch: {failure}"));
        }
    }

    /// Why it did not work, if it did not.
    fn repair(&mut self, news: &News, journals: &mut [Journal]) -> Option<String> {
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
