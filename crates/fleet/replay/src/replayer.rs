//! Passes over all files of a log, until all are done, or for ever.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use os::clock::{Stopwatch, pause, unix_s};
use stdx::log_level::LogLevel;

use super::Error;
use super::fleet::Fleet;
use super::folder::{LoggedFile, list};
use super::options::{ReplayOptions, ReplayStep};
use super::pace::Pace;
use super::pass::{PassOutcome, PassTools, pass};
use super::taken::{Take, TakenFile};
use super::tally::ReplayTally;

/// Interval at which files are looked for.
const LIST_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A file of which nothing could be sent is tried again after this time, then after twice as long, up to the longest.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// Receives the steps.
type Progress<'p> = &'p mut dyn FnMut(ReplayStep);

/// Replays a log until all that was there at the start is done or given up; with `follow` until it is to end.
///
/// # Errors
/// If the folder cannot be read, or the system has no thread.
pub fn replay(
    options: &ReplayOptions,
    is_asked_to_end: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(ReplayStep),
) -> Result<ReplayTally, Error> {
    let mut replayer = Replayer::new(options);
    replayer.run(is_asked_to_end, progress)?;
    replayer.tally.servers = replayer.fleet.tallies();
    Ok(replayer.tally)
}

struct Replayer<'a> {
    options: &'a ReplayOptions,
    fleet: Fleet,
    pace: Pace,
    /// Files that were tried, and of which something is left.
    tried: HashMap<PathBuf, Tried>,
    clock: Stopwatch,
    /// When something was sent last, or could have been.
    moved: Duration,
    tally: ReplayTally,
}

/// What is known of a file.
#[derive(Default)]
struct Tried {
    /// By the replayer's clock.
    not_before: Duration,
    delay: Duration,
    blocked_by: HashSet<String>,
    left: u64,
    trouble: Option<String>,
}

impl<'a> Replayer<'a> {
    fn new(options: &'a ReplayOptions) -> Replayer<'a> {
        Replayer {
            options,
            fleet: Fleet::new(options),
            pace: Pace::new(options.rate),
            tried: HashMap::new(),
            clock: Stopwatch::start(),
            moved: Duration::ZERO,
            tally: ReplayTally::default(),
        }
    }

    fn run(&mut self, is_asked_to_end: &dyn Fn() -> bool, progress: Progress<'_>) -> Result<(), Error> {
        let (root, follows) = (&self.options.async_dir, self.options.follow);
        let listed = || list(root).map_err(|source| Error::Read { path: root.clone(), source });
        let first = listed()?;
        let wanted: HashSet<PathBuf> = first.iter().map(|file| file.path(root)).collect();
        progress(ReplayStep::Listed { len: first.iter().map(|file| file.len).sum() });
        loop {
            let files: Vec<_> =
                listed()?.into_iter().filter(|file| follows || wanted.contains(&file.path(root))).collect();
            let is_ended = self.pass_all(&files, progress, is_asked_to_end);
            self.count_left(&files);
            let is_given_up = || {
                let patience = self.options.give_up_after;
                self.tally.files_left == 0 || self.clock.passed().saturating_sub(self.moved) >= patience
            };
            if is_ended || !follows && is_given_up() {
                return Ok(());
            }
            self.fleet.rest();
            let watch = Stopwatch::start();
            while watch.passed() < LIST_EVERY {
                pause(LOOK_EVERY);
                if is_asked_to_end() {
                    return Ok(());
                }
            }
            self.ask_again(is_asked_to_end)?;
        }
    }

    /// Asks servers that are away, all at once, and waits for their answers.
    fn ask_again(&mut self, is_asked_to_end: &dyn Fn() -> bool) -> Result<(), Error> {
        self.fleet.ask_again().map_err(Error::Thread)?;
        while !self.fleet.is_idle() && !is_asked_to_end() {
            // There are no deletes in these.
            let _ = self.fleet.report(LOOK_EVERY);
        }
        Ok(())
    }

    /// One pass over each file that can make progress; whether the replay is to end.
    fn pass_all(
        &mut self,
        files: &[LoggedFile],
        progress: Progress<'_>,
        is_asked_to_end: &dyn Fn() -> bool,
    ) -> bool {
        self.tally.files_in_use = 0;
        for logged in files {
            if is_asked_to_end() {
                return true;
            }
            let path = logged.path(&self.options.async_dir);
            if logged.may_grow(unix_s()) {
                self.tally.files_in_use += 1;
                continue;
            }
            if !self.is_ready(&path) {
                continue;
            }
            let outcome = match TakenFile::take(&self.options.async_dir, logged, false) {
                Ok(Take::InUse) => {
                    self.tally.files_in_use += 1;
                    self.tried.remove(&path);
                    continue;
                }
                Ok(Take::Gone) => {
                    self.tried.remove(&path);
                    continue;
                }
                Ok(Take::Taken(taken)) => self.pass(taken, logged, progress, is_asked_to_end),
                Err(error) => Err(error),
            };
            let sent = outcome.as_ref().map_or(0, |outcome| outcome.sent);
            progress(ReplayStep::Read { len: logged.len, sent });
            if self.note(&path, outcome) {
                return true;
            }
        }
        false
    }

    fn pass(
        &mut self,
        taken: Box<TakenFile>,
        logged: &LoggedFile,
        progress: Progress<'_>,
        is_asked_to_end: &dyn Fn() -> bool,
    ) -> io::Result<PassOutcome> {
        let mut tools = PassTools {
            fleet: &mut self.fleet,
            pace: &mut self.pace,
            router: self.options.router.as_deref(),
            timeout: self.options.timeout,
            notice: self.options.notice,
            is_asked_to_end,
            progress: &mut |offset, sent| progress(ReplayStep::Reading { offset, sent }),
        };
        pass(&mut tools, taken, &self.options.async_dir, logged)
    }

    /// Remembers what became of a file; whether the replay is to end.
    fn note(&mut self, path: &Path, outcome: io::Result<PassOutcome>) -> bool {
        let now = self.clock.passed();
        let known = self.tried.remove(path);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                let trouble = format!("{}: {error}", path.display());
                if known.as_ref().is_none_or(|known| known.trouble.as_ref() != Some(&trouble)) {
                    (self.options.notice)(LogLevel::Warning, &format!("{trouble}; it stays as it is"));
                }
                let tried = Tried { trouble: Some(trouble), ..Tried::after(known, now) };
                self.tried.insert(path.to_owned(), tried);
                return false;
            }
        };
        self.tally.sent += outcome.sent;
        self.tally.note_refused(outcome.refused, path);
        self.tally.refusal = outcome.refusal.or(self.tally.refusal.take());
        let is_done = outcome.kept == 0 && !outcome.was_interrupted;
        if outcome.sent > 0 || is_done {
            self.moved = now;
        }
        if is_done {
            self.tally.files_done += 1;
            if self.options.follow {
                let (path, sent) = (path.display(), outcome.sent);
                let line = format!("{path} is done, {sent} of its deletes were sent now");
                (self.options.notice)(LogLevel::Info, &line);
            }
            return false;
        }
        let is_free = outcome.sent > 0 && !outcome.was_refused_by_server;
        let mut tried = Tried::after(known.filter(|_| outcome.sent == 0), now);
        if is_free {
            tried.not_before = now;
        }
        let blocked_by = if outcome.was_refused_by_server { HashSet::new() } else { outcome.blocked_by };
        self.tried.insert(path.to_owned(), Tried { blocked_by, left: outcome.kept, ..tried });
        outcome.was_interrupted
    }

    /// Whether a pass over a file may send something.
    fn is_ready(&self, path: &Path) -> bool {
        let Some(tried) = self.tried.get(path) else { return true };
        let is_blocked =
            !tried.blocked_by.is_empty() && tried.blocked_by.iter().all(|server| self.fleet.is_away(server));
        !is_blocked && tried.not_before <= self.clock.passed()
    }

    /// Counts what is left of these files, and forgets others.
    fn count_left(&mut self, files: &[LoggedFile]) {
        let there: HashSet<PathBuf> = files.iter().map(|file| file.path(&self.options.async_dir)).collect();
        self.tried.retain(|path, _| there.contains(path));
        self.tally.files_left = self.tried.len() as u64;
        self.tally.left = self.tried.values().map(|tried| tried.left).sum();
        self.tally.trouble = self.tried.values().find_map(|tried| tried.trouble.clone());
        if self.tried.is_empty() {
            self.tally.refusal = None;
        }
    }
}

impl Tried {
    /// Again, after a time that grows.
    fn after(known: Option<Tried>, now: Duration) -> Tried {
        let delay = known.map_or(AGAIN, |known| (known.delay * 2).clamp(AGAIN, AGAIN_MAX));
        Tried { not_before: now + delay, delay, ..Tried::default() }
    }
}
