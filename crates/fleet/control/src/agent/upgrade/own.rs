//! The agent's own program: taken when the servers and routers of the host have it, proved by a controller that answers, and given back otherwise.
//!
//! ```text
//! change is kept ─► check of the new program ─► note ─► execve ─┬─► a controller answers ─► the note is forgotten
//!                                                               └─► none does, or it has ended too often ─► note ─► execve back
//! ```
//!
//! The process stays the same, so that its unit sees nothing of it. Which program an agent runs is read from `/proc/self/exe`; the note says
//! only why, and an agent that was killed at any point and started again goes on from it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::tuning::AnswerDigest;
use os::clock::{Stopwatch, pause};
use rustix::process::{WaitOptions, wait};
use serde::{Deserialize, Serialize};
use stdx::log_level::LogLevel;

use super::act::{NoteKey, UpgradeNotes};
use super::program::{KnownDigests, Program, shown};
use super::reload::{Ran, run_in};
use super::{ProgramId, TwoPrograms};
use crate::agent::figures::AgentFigures;
use crate::agent::settings::{AgentProgram, UpgradeSettings, UpgradedKind};
use crate::agent::state::AgentStore;
use crate::service::SayLine;
use crate::service::turn::AgentFacts;
use crate::words::in_full;

/// The name of the file with the note.
const NAME: &str = "program-of-the-agent";
/// The agent's program. The kernel keeps it while the agent runs, even if another one is in its place.
const OWN: &str = "/proc/self/exe";
/// Starts of a new program until it is given back: one that ends before it has heard a controller is started again by its unit, and a single
/// end may have another reason.
const STARTS_MAX: u32 = 3;
/// A new program has so many times the time of a server until a controller has to have answered it: an agent whose controllers are away
/// asks again within 15 seconds.
const TRIAL_TIMES: u32 = 3;
/// Time in which a program has to understand the agent's flags and file.
const CHECK_WITHIN: Duration = Duration::from_secs(10);
/// Interval of looks whether a controller has answered.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Pause between attempts to forget a note that a disk keeps.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// Links on the way from the agent's first word: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Another program of the agent that is on its way, or did not stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OwnNote {
    key: NoteKey,
    before: ProgramId,
    after: ProgramId,
    phase: OwnPhase,
}

/// How far it is. One that has stayed has no note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OwnPhase {
    /// It is taken, and no controller has answered it yet.
    Trying {
        /// How often it was started.
        starts: u32,
    },
    /// It was given back; the host follows.
    Failed {
        /// Why.
        why: String,
    },
    /// The host is as before, and the agent takes the program from before.
    Back,
}

/// What an agent has of a change of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnState {
    /// Nothing: its program is not a part of the change, or it is another one by hand.
    Apart,
    /// The program from before. It is about to take the other one.
    Before,
    /// The program from before, because the other one was of no use.
    Refused(String),
    /// The program after the change, which no controller has answered yet.
    Trying,
    /// The program after the change.
    After,
}

impl AgentProgram {
    /// The SHA-256 of the program that this process runs.
    fn digest(&self) -> Result<&AnswerDigest, String> {
        let found = self.digest.get_or_init(|| {
            let file = File::open(OWN).map_err(|error| format!("open {OWN}: {error}"))?;
            KnownDigests::default().of(&file, Path::new(OWN))
        });
        found.as_ref().map_err(Clone::clone)
    }

    /// Whether it is this program.
    pub(super) fn runs(&self, program: &ProgramId) -> Result<bool, String> {
        Ok(*self.digest()? == program.digest)
    }

    /// While this is held, the agent takes no other program: a child would be nobody's.
    pub(crate) fn stay(&self) -> MutexGuard<'_, ()> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the program of this link is none that the agent takes along.
    ///
    /// # Errors
    /// In words.
    pub(super) fn goes_along(&self, link: &Path, in_force: &AnswerDigest) -> Result<(), String> {
        let word = self.arguments.first().map_or(OsStr::new(""), |word| word);
        if !leads_through(Path::new(word), link) {
            let (word, link) = (word.display(), link.display());
            return Err(format!("it was started as {word}, which does not lead through {link}"));
        }
        let is_join = |word: &OsString| word.as_encoded_bytes().starts_with(b"--join");
        if self.arguments.iter().any(is_join) {
            return Err("it was started with --join, whose token is good for one start".to_owned());
        }
        let own = self.digest()?;
        if own != in_force {
            let (own, link, in_force) = (shown(own), link.display(), shown(in_force));
            return Err(format!("it runs another program ({own}) than {link} points to ({in_force})"));
        }
        Ok(())
    }

    /// The new program understands the flags and the file of this agent.
    ///
    /// # Errors
    /// What it says.
    pub(super) fn check(&self, program: &Path) -> Result<(), String> {
        let own = self.arguments.iter().skip(1).map(OsString::as_os_str);
        let words: Vec<&OsStr> =
            [program.as_os_str()].into_iter().chain(own).chain(["--check".as_ref()]).collect();
        let folder = std::env::current_dir().map_err(|error| format!("find the agent's folder: {error}"))?;
        let ran = run_in(&folder, &words, None, CHECK_WITHIN).and_then(Ran::succeeded);
        ran.map(drop).map_err(|why| format!("the agent of {}: {why}", program.display()))
    }

    /// What the agent has of a change with these programs.
    pub(super) fn state(
        &self,
        store: &AgentStore,
        key: &NoteKey,
        programs: &TwoPrograms,
    ) -> Result<OwnState, String> {
        let own = self.digest()?;
        let phase = OwnNote::load(store)?.filter(|note| note.key == *key).map(|note| note.phase);
        Ok(match phase {
            _ if *own == programs.after.digest => match phase {
                Some(OwnPhase::Failed { why }) => OwnState::Refused(why),
                Some(OwnPhase::Trying { .. }) if self.is_on_trial.load(Ordering::Acquire) => OwnState::Trying,
                _ => OwnState::After,
            },
            _ if *own != programs.before.digest => OwnState::Apart,
            Some(OwnPhase::Failed { why }) => OwnState::Refused(why),
            // The disk did not take why.
            Some(OwnPhase::Trying { .. }) => {
                OwnState::Refused("the agent's new program did not stay".to_owned())
            }
            Some(OwnPhase::Back) | None => OwnState::Before,
        })
    }

    /// Takes the program after a change. It does not return if all is well; what keeps the agent from it is noted, and the host goes back.
    pub(super) fn take(&self, store: &AgentStore, key: &NoteKey, programs: &TwoPrograms, say: &SayLine) {
        // A child of another thread ends first.
        let _quiet = match self.busy.try_lock() {
            Ok(quiet) => quiet,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return,
        };
        let TwoPrograms { before, after, .. } = programs;
        let note = |phase| OwnNote { key: key.clone(), before: before.clone(), after: after.clone(), phase };
        let why = checked(after)
            .and_then(|()| self.check(&after.path))
            .and_then(|()| note(OwnPhase::Trying { starts: 0 }).keep(store))
            .map(|()| {
                say(LogLevel::Info, &format!("the agent takes the program {}", after.path.display()));
                self.exec(&after.path)
            });
        let why = why.unwrap_or_else(|why| why);
        say(LogLevel::Error, &format!("the agent keeps its program: {why}"));
        if let Err(error) = note(OwnPhase::Failed { why }).keep(store) {
            say(LogLevel::Warning, &error);
        }
    }

    /// Takes the program from before a change, which all others of the host have already.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn give_back(
        &self,
        store: &AgentStore,
        key: &NoteKey,
        programs: &TwoPrograms,
    ) -> Result<(), String> {
        let _quiet = self.stay();
        let TwoPrograms { before, after, .. } = programs.clone();
        checked(&before)?;
        let path = before.path.clone();
        // Without room on the disk it is enough that the link points to it.
        let _ = OwnNote { key: key.clone(), before, after, phase: OwnPhase::Back }.keep(store);
        Err(self.exec(&path))
    }

    /// Has this process run another program, with the same arguments. Returns why it does not.
    fn exec(&self, program: &Path) -> String {
        let (name, rest) = self.arguments.split_first().expect("goes_along has seen the first word");
        let error = Command::new(program).arg0(name).args(rest).exec();
        format!("start {}: {error}", program.display())
    }
}

impl AgentProgram {
    /// Goes on with what an agent with this folder has noted of its own program: before anything else, since a new one may not come far.
    /// It does not return if the program from before is to be taken.
    pub fn begin(&self, folder: &Path, say: &SayLine) {
        // Children of the program before, which this one does not know.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let went_on = AgentStore::open(folder)
            .map_err(|error| in_full(&error))
            .and_then(|store| self.go_on(&store, say));
        if let Err(why) = went_on {
            say(LogLevel::Warning, &format!("the agent's own program: {why}"));
        }
    }

    /// The process ends with this failure. While it is on trial, the program from before is taken instead, and this does not return.
    pub fn end_trial(&self, folder: &Path, failure: &dyn std::fmt::Display, say: &SayLine) {
        if !self.is_on_trial.load(Ordering::Acquire) {
            return;
        }
        let _quiet = self.stay();
        let failed = AgentStore::open(folder).map_err(|error| in_full(&error)).and_then(|store| {
            let note = OwnNote::load(&store)?.ok_or_else(|| format!("{NAME} is not there"))?;
            // Its hint is for who has started it.
            let why = failure.to_string().lines().next().unwrap_or_default().to_owned();
            self.fail(&store, note, format!("it has ended: {why}"), say)
        });
        if let Err(why) = failed {
            say(LogLevel::Error, &format!("the agent's own program: {why}"));
        }
    }

    fn go_on(&self, store: &AgentStore, say: &SayLine) -> Result<(), String> {
        let Some(note) = OwnNote::load(store)? else { return Ok(()) };
        // The host has gone back from that change, and the disk did not take that it is over.
        if !UpgradeNotes::new(store.clone()).has(&note.key)? {
            return OwnNote::forget(store);
        }
        let own = self.digest()?;
        let (is_before, is_after) = (*own == note.before.digest, *own == note.after.digest);
        match note.phase.clone() {
            OwnPhase::Trying { starts } if is_after && starts < STARTS_MAX => {
                self.is_on_trial.store(true, Ordering::Release);
                let next = OwnNote { phase: OwnPhase::Trying { starts: starts + 1 }, ..note };
                // Starts that nobody counts would have no end.
                next.keep(store).or_else(|why| self.fail(store, next, why, say))
            }
            OwnPhase::Trying { starts } if is_after => {
                let why = format!("it was started {starts} times, and no controller has answered it");
                self.fail(store, note, why, say)
            }
            OwnPhase::Trying { .. } if is_before => {
                let why = "the agent was started again with the program from before".to_owned();
                OwnNote { phase: OwnPhase::Failed { why }, ..note }.keep(store)
            }
            // Its unit has started what the link points to, while the host goes back.
            OwnPhase::Failed { .. } if is_after => {
                checked(&note.before)?;
                Err(self.exec(&note.before.path))
            }
            OwnPhase::Failed { .. } if is_before => Ok(()),
            OwnPhase::Back if is_before => {
                UpgradeNotes::new(store.clone()).forget(&note.key)?;
                OwnNote::forget(store)
            }
            // Another program by hand.
            _ => OwnNote::forget(store),
        }
    }

    /// The program from before is taken again. Returns if that cannot be done: the agent is better off with this one than without any.
    fn fail(&self, store: &AgentStore, note: OwnNote, why: String, say: &SayLine) -> Result<(), String> {
        let (before, after) = (note.before.clone(), note.after.path.display().to_string());
        let why = format!("the agent went back from {after}: {why}");
        say(LogLevel::Error, &why);
        if let Err(error) = (OwnNote { phase: OwnPhase::Failed { why }, ..note }).keep(store) {
            say(LogLevel::Warning, &error);
        }
        checked(&before)?;
        Err(self.exec(&before.path))
    }

    /// Waits in a thread of its own until a controller has answered this program, if that is still to be proved; otherwise takes the program from
    /// before.
    pub(crate) fn prove(
        self: &Arc<Self>,
        within: Duration,
        (store, figures): (AgentStore, Arc<AgentFigures>),
        say: SayLine,
    ) -> std::io::Result<()> {
        if !self.is_on_trial.load(Ordering::Acquire) {
            return Ok(());
        }
        let own = Arc::clone(self);
        let watch = move || {
            let (clock, within) = (Stopwatch::start(), within.saturating_mul(TRIAL_TIMES));
            while figures.turns().0 == 0 {
                if clock.passed() > within {
                    let why = format!("no controller has answered it within {} s", within.as_secs());
                    let _quiet = own.stay();
                    let failed = OwnNote::load(&store)
                        .and_then(|note| note.ok_or_else(|| format!("{NAME} is not there")))
                        .and_then(|note| own.fail(&store, note, why, &say));
                    if let Err(why) = failed {
                        say(LogLevel::Error, &format!("the agent's own program: {why}"));
                    }
                    return;
                }
                pause(LOOK_EVERY);
            }
            own.is_on_trial.store(false, Ordering::Release);
            say(LogLevel::Info, "a controller has answered the agent's new program, which stays");
            // A note that stays would take back a program that has proved itself, at a start without controllers.
            while let Err(why) = OwnNote::forget(&store) {
                say(LogLevel::Warning, &format!("the agent's own program: {why}"));
                pause(FORGET_EVERY);
            }
        };
        std::thread::Builder::new().name("proof".to_owned()).spawn(watch).map(drop)
    }

    /// What controllers are told of it.
    pub(crate) fn report(upgrade: Option<&UpgradeSettings>) -> AgentFacts {
        let own = upgrade.and_then(|upgrade| upgrade.agent.as_ref());
        let program = own.and_then(|own| own.digest().ok().cloned());
        let members = upgrade.map_or(&[][..], |upgrade| &upgrade.members);
        let controllers = members.iter().filter(|member| member.kind == UpgradedKind::Controller).count();
        let by_hand = upgrade.map_or(Vec::new(), |upgrade| upgrade.by_hand.clone());
        AgentFacts { version: env!("CARGO_PKG_VERSION").to_owned(), program, controllers, by_hand }
    }
}

impl OwnNote {
    fn load(store: &AgentStore) -> Result<Option<OwnNote>, String> {
        Ok(store.load::<Option<OwnNote>>(NAME).map_err(|error| in_full(&error))?.flatten())
    }

    /// When this returns, it is on the disk.
    fn keep(&self, store: &AgentStore) -> Result<(), String> {
        store.keep(NAME, &Some(self)).map_err(|error| in_full(&error))
    }

    fn forget(store: &AgentStore) -> Result<(), String> {
        match OwnNote::load(store)? {
            Some(_) => store.keep(NAME, &None::<OwnNote>).map_err(|error| in_full(&error)),
            None => Ok(()),
        }
    }
}

/// Forgets why the agent did not stay with the program of a change which is not there any more.
pub(super) fn forget(store: &AgentStore, key: &NoteKey) -> Result<(), String> {
    match OwnNote::load(store)? {
        Some(note) if note.key == *key => OwnNote::forget(store),
        _ => Ok(()),
    }
}

/// A program is where it was, nobody else could have put another one there, and it has the bytes that were planned.
fn checked(program: &ProgramId) -> Result<(), String> {
    let found = Program::open(&program.path)?;
    let digest = KnownDigests::default().of(&found.file, &found.path)?;
    if digest == program.digest {
        return Ok(());
    }
    let (path, found, expected) = (program.path.display(), shown(&digest), shown(&program.digest));
    Err(format!("{path} is another one now ({found}, and {expected} is expected)"))
}

/// Whether what is started by this word is what the link points to, whatever that is: the word is the link, or links lead from it to the link.
fn leads_through(word: &Path, link: &Path) -> bool {
    // Folders may be reached by other links; the last part is what counts.
    let place = |path: &Path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let (Some(wanted), Some(mut at)) = (place(link), place(word)) else { return false };
    for _ in 0..LINKS_MAX {
        if at == wanted {
            return true;
        }
        let target = fs::read_link(&at).ok();
        match target.and_then(|target| place(&at.parent()?.join(target))) {
            Some(next) => at = next,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
impl AgentProgram {
    /// That of a process with this command line.
    pub(super) fn with_for_test(words: &[&Path], digest: AnswerDigest) -> AgentProgram {
        let own = AgentProgram::new(words.iter().map(|word| word.as_os_str().to_owned()).collect());
        own.digest.set(Ok(digest)).expect("it is new");
        own
    }

    /// That of a process that runs a program with this digest, and was started by this word.
    pub(super) fn for_test(word: &Path, digest: AnswerDigest) -> AgentProgram {
        AgentProgram::with_for_test(&[word], digest)
    }
}

#[cfg(test)]
mod tests;
