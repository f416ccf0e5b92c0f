//! Another program as an act of a change: begun, kept, taken back, and taken back by the host itself when no controller is heard.
//!
//! A note of both programs is on the disk before the first step. How far the host is, its link and its processes say.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fleet::tuning::AnswerDigest;
use os::clock::since_boot_ms;
use serde::{Deserialize, Serialize};
use stdx::log_level::LogLevel;

use super::link::ProgramLink;
use super::own::{self, OwnState};
use super::{HostProgram, HostUpgrade, TwoPrograms};
use crate::agent::changes::actor::{ActPhase, ActState, BegunAct, HostActor};
use crate::agent::state::AgentStore;
use crate::service::turn::{ChangeOrder, HostAct};

/// The name of the file with the notes.
const NAME: &str = "upgrades-of-the-host";
/// Upgrades that can be taken back, the newest first.
const NOTES_MAX: usize = 16;
/// The number of a change without a controller.
const ALONE: u64 = 0;
/// The kernel's name of the start of the host since which it runs.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// One upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UpgradeNote {
    key: NoteKey,
    attempt: u32,
    programs: TwoPrograms,
    /// The agent takes the program, too, once the others keep it.
    #[serde(default)]
    with_agent: bool,
    /// The host does not go back by itself any more.
    is_kept: bool,
    /// Milliseconds since the start of the host at which it goes back by itself.
    until_ms: u64,
    /// Which start that is. After another one the time is over.
    boot: String,
}

/// A change, and what the host was to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NoteKey {
    change: u64,
    pub(super) own: AnswerDigest,
}

/// The notes of a host, the newest last.
pub(super) struct UpgradeNotes {
    store: AgentStore,
}

impl UpgradeNotes {
    pub(super) fn new(store: AgentStore) -> UpgradeNotes {
        UpgradeNotes { store }
    }

    fn all(&self) -> Result<Vec<UpgradeNote>, String> {
        let notes = self.store.load(NAME).map_err(|error| crate::words::in_full(&error))?;
        Ok(notes.unwrap_or_default())
    }

    fn of(&self, key: &NoteKey) -> Result<Option<UpgradeNote>, String> {
        Ok(self.all()?.into_iter().find(|note| note.key == *key))
    }

    /// There is a note of a change.
    pub(super) fn has(&self, key: &NoteKey) -> Result<bool, String> {
        Ok(self.of(key)?.is_some())
    }

    /// Keeps a note; that of an earlier attempt is forgotten. Returns those for which there was no room: the oldest that the host has not kept,
    /// or the oldest of all.
    fn put(&self, note: UpgradeNote) -> Result<Vec<UpgradeNote>, String> {
        let mut notes = self.all()?;
        notes.retain(|other| other.key != note.key);
        let mut forgotten = Vec::new();
        while notes.len() >= NOTES_MAX {
            let place = notes.iter().position(|other| !other.is_kept).unwrap_or(0);
            forgotten.push(notes.remove(place));
        }
        notes.push(note);
        self.keep(&notes)?;
        Ok(forgotten)
    }

    /// Keeps a note in the place of that with the same key.
    fn replace(&self, note: UpgradeNote) -> Result<(), String> {
        let mut notes = self.all()?;
        for other in notes.iter_mut().filter(|other| other.key == note.key) {
            *other = note.clone();
        }
        self.keep(&notes)
    }

    pub(super) fn forget(&self, key: &NoteKey) -> Result<(), String> {
        let mut notes = self.all()?;
        let before = notes.len();
        notes.retain(|note| note.key != *key);
        if notes.len() == before { Ok(()) } else { self.keep(&notes) }
    }

    fn keep(&self, notes: &[UpgradeNote]) -> Result<(), String> {
        self.store.keep(NAME, &notes).map_err(|error| crate::words::in_full(&error))
    }
}

impl UpgradeNote {
    /// Time until the host goes back by itself; none if that is over.
    fn left(&self) -> Option<Duration> {
        let left = self.until_ms.checked_sub(since_boot_ms()).filter(|_| self.boot == boot());
        left.map(Duration::from_millis)
    }
}

fn boot() -> String {
    fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned()
}

impl HostUpgrade {
    /// Changes the host to a version if that is what it planned, under this number of a change.
    pub(super) fn begin_version(
        &mut self,
        change: u64,
        attempt: u32,
        (version, own): (&str, &AnswerDigest),
        confirm: Duration,
    ) -> Result<BegunAct, String> {
        let planned = self.plan(version)?;
        if planned.own != *own {
            let key = NoteKey { change, own: own.clone() };
            if let Some(why) = self.unnoted(version, &key)? {
                return Err(why);
            }
            return Err("the host would change something else now than when it was planned".to_owned());
        }
        if planned.plan.is_empty() {
            return Ok(BegunAct::Nothing);
        }
        let until_ms = || since_boot_ms().saturating_add(confirm.as_millis() as u64);
        let (key, programs) = (NoteKey { change, own: own.clone() }, planned.programs);
        // What became of an earlier attempt.
        own::forget(&self.store, &key)?;
        let (with_agent, is_kept, boot) = (planned.with_agent, false, boot());
        let note = UpgradeNote { key, attempt, programs, with_agent, is_kept, until_ms: until_ms(), boot };
        for UpgradeNote { key: NoteKey { change, .. }, programs, .. } in self.notes.put(note.clone())? {
            let path = programs.before.path.display();
            let why = format!(
                "the upgrade of change {change} cannot be taken back any more: its note of {path} is forgotten, since there are {NOTES_MAX} newer ones"
            );
            (self.say)(LogLevel::Warning, &why);
        }
        if let Err(why) = self.go(&note.programs) {
            if why.is_back {
                self.forget(&note.key);
            }
            return Err(why.text);
        }
        // The time for a controller begins when all is done. If the disk does not take it, it is shorter.
        if let Err(why) = self.notes.replace(UpgradeNote { until_ms: until_ms(), ..note }) {
            (self.say)(LogLevel::Warning, &format!("keep the note of an upgrade: {why}"));
        }
        Ok(BegunAct::Done)
    }

    /// What the agent's own program has of an upgrade.
    fn own_state(&self, note: &UpgradeNote) -> Result<OwnState, String> {
        match &self.settings.agent {
            Some(own) if note.with_agent => own.state(&self.store, &note.key, &note.programs),
            _ => Ok(OwnState::Apart),
        }
    }

    /// The agent runs the program after an upgrade that it takes part in.
    fn agent_has(&self, note: &UpgradeNote) -> Result<bool, String> {
        match &self.settings.agent {
            Some(own) if note.with_agent => own.runs(&note.programs.after),
            _ => Ok(false),
        }
    }

    /// Has the agent take the program that all others of the host have by a change, if it is time. It does not return then.
    pub(crate) fn renew_agent(&mut self) {
        let due = self.notes.all().and_then(|notes| {
            let Some(note) = notes.into_iter().rfind(|note| note.is_kept && note.with_agent) else {
                return Ok(None);
            };
            let is_due = self.own_state(&note)? == OwnState::Before
                && self.program(&note.programs)? == HostProgram::After;
            Ok(is_due.then_some(note))
        });
        match (due, &self.settings.agent) {
            (Ok(Some(note)), Some(own)) => own.take(&self.store, &note.key, &note.programs, &self.say),
            (Err(why), Some(_)) => (self.say)(LogLevel::Warning, &format!("the agent's own program: {why}")),
            _ => {}
        }
    }

    /// Forgets the note of what is not there. One that stays takes a place and does no harm.
    fn forget(&mut self, key: &NoteKey) {
        if let Err(why) = self.notes.forget(key).and_then(|()| own::forget(&self.store, key)) {
            (self.say)(LogLevel::Warning, &format!("forget the note of an upgrade: {why}"));
        }
    }

    /// Why the host cannot be said to be as before a change of which there is no note: its link points to this version, and it did not do so when
    /// it was planned.
    pub(super) fn unnoted(&mut self, version: &str, key: &NoteKey) -> Result<Option<String>, String> {
        let notes = self.notes.all()?;
        if notes.iter().any(|note| note.key == *key) {
            return Ok(None);
        }
        let link = ProgramLink::new(&self.settings.link)?;
        let (target, program) = (link.target()?, self.path_of(version)?);
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_version = real(&target) == real(&program);
        // Another change has put it there, and takes it back; or it was there before.
        let is_other = notes.iter().any(|note| note.programs.after.path == target);
        if !is_version || is_other || self.plan(version).is_ok_and(|planned| planned.own == key.own) {
            return Ok(None);
        }
        let link = link.path().display();
        Ok(Some(format!(
            "the host has the version {version}, and no note of the one before; point {link} to that and reload"
        )))
    }

    /// Takes a change back, if something of it is there.
    pub(super) fn go_back_from(&mut self, key: &NoteKey) -> Result<(), String> {
        let notes = self.notes.all()?;
        let Some(place) = notes.iter().position(|note| note.key == *key) else { return Ok(()) };
        for newer in &notes[place + 1..] {
            if self.program(&newer.programs)? != HostProgram::Before {
                let number = newer.key.change;
                return Err(format!("the host has a newer program by change {number}; take that back first"));
            }
        }
        self.go_back(&notes[place].programs)?;
        if self.agent_has(&notes[place])?
            && let Some(own) = &self.settings.agent
        {
            own.give_back(&self.store, key, &notes[place].programs)?;
        }
        // The host is back, whether the disk takes that or not: its link and its processes say so.
        self.forget(key);
        Ok(())
    }

    /// How the host is with a change. One whose time is over is taken back.
    pub(super) fn look_at(&mut self, key: &NoteKey) -> Result<ActState, String> {
        let Some(note) = self.notes.of(key)? else { return Ok(ActState::AsBefore) };
        let there = |phase| Ok(ActState::There { attempt: note.attempt, phase });
        let program = self.program(&note.programs)?;
        let own = self.own_state(&note)?;
        match program {
            // The agent is the last that goes back.
            HostProgram::Before if self.agent_has(&note)? => there(ActPhase::Interrupted),
            HostProgram::Before => Ok(ActState::AsBefore),
            _ if note.is_kept && matches!(own, OwnState::Refused(_)) => there(ActPhase::Interrupted),
            HostProgram::After if note.is_kept && matches!(own, OwnState::Before | OwnState::Trying) => {
                there(ActPhase::AtWork)
            }
            // What a person has done to one of the servers since is not taken back.
            HostProgram::After | HostProgram::Between(_) if note.is_kept => there(ActPhase::Kept),
            HostProgram::Between(why) => {
                (self.say)(LogLevel::Warning, &format!("the upgrade is not whole: {why}"));
                there(ActPhase::Interrupted)
            }
            HostProgram::After => match (note.left(), self.ended()) {
                (Some(left), None) => there(ActPhase::Waiting(left)),
                // What starts it next would start the new program, which nothing has proved to stay.
                (_, Some(why)) => {
                    (self.say)(LogLevel::Warning, &format!("after the upgrade {why}"));
                    there(ActPhase::Interrupted)
                }
                (None, None) => {
                    (self.say)(LogLevel::Warning, "no controller was heard after the upgrade: going back");
                    match self.go_back_from(key) {
                        Ok(()) => Ok(ActState::AsBefore),
                        Err(why) => {
                            (self.say)(LogLevel::Error, &format!("going back: {why}"));
                            there(ActPhase::Interrupted)
                        }
                    }
                }
            },
        }
    }

    /// Keeps a change of which all servers and routers still have the program. Otherwise the host goes back.
    pub(super) fn keep_it(&mut self, key: &NoteKey) -> Result<(), String> {
        let note = self.notes.of(key)?.ok_or("there is no note of it")?;
        if note.is_kept {
            return Ok(());
        }
        if let Some(why) = self.lacks(&note.programs.after)? {
            (self.say)(LogLevel::Error, &format!("{why}, after the upgrade: going back"));
            return match self.go_back_from(key) {
                Ok(()) => Err(why),
                Err(stuck) => Err(format!("{why}; and going back: {stuck}")),
            };
        }
        self.notes.replace(UpgradeNote { is_kept: true, ..note })
    }
}

#[cfg(test)]
impl UpgradeNotes {
    pub(super) fn put_for_test(&self, key: &NoteKey, programs: &TwoPrograms) {
        let (key, programs, boot) = (key.clone(), programs.clone(), boot());
        let (attempt, with_agent, is_kept, until_ms) = (1, true, true, 0);
        let note = UpgradeNote { key, attempt, programs, with_agent, is_kept, until_ms, boot };
        self.put(note).expect("kept");
    }
}

#[cfg(test)]
impl NoteKey {
    pub(super) fn for_test(change: u64) -> NoteKey {
        NoteKey { change, own: crate::service::turn::answer_digest(b"own") }
    }
}

#[cfg(test)]
impl HostUpgrade {
    /// The agent takes part in an upgrade, which is kept.
    pub(super) fn keep_with_agent_for_test(&mut self, key: &NoteKey) {
        let note = self.notes.of(key).expect("read").expect("it is there");
        self.notes.replace(UpgradeNote { with_agent: true, is_kept: true, ..note }).expect("kept");
    }

    /// Has a note of an upgrade that waits for a controller.
    pub(super) fn note_for_test(&mut self, programs: TwoPrograms) -> NoteKey {
        let key = NoteKey { change: 1, own: programs.after.digest.clone() };
        let until_ms = since_boot_ms() + 3_600_000;
        let (attempt, with_agent, is_kept, boot) = (1, false, false, boot());
        let note = UpgradeNote { key: key.clone(), attempt, programs, with_agent, is_kept, until_ms, boot };
        self.notes.put(note).expect("kept");
        key
    }
}

/// A change of a host without a controller, for tests.
impl HostUpgrade {
    /// What a version would change, by its digest.
    ///
    /// # Errors
    /// What keeps the host from having it.
    pub fn planned(&mut self, version: &str) -> Result<AnswerDigest, String> {
        self.plan(version).map(|plan| plan.own)
    }

    /// Changes the host to a version, if that is what was planned.
    ///
    /// # Errors
    /// Why the host does not have it.
    pub fn apply(&mut self, version: &str, own: &AnswerDigest, confirm: Duration) -> Result<(), String> {
        self.begin_version(ALONE, 1, (version, own), confirm).map(drop)
    }

    /// Takes it back.
    ///
    /// # Errors
    /// Why not.
    pub fn back(&mut self, own: &AnswerDigest) -> Result<(), String> {
        self.go_back_from(&NoteKey { change: ALONE, own: own.clone() })
    }

    /// Which program the host has.
    ///
    /// # Errors
    /// If that is not known.
    pub fn seen(&mut self, own: &AnswerDigest) -> Result<HostProgram, String> {
        match self.notes.of(&NoteKey { change: ALONE, own: own.clone() })? {
            Some(note) => self.program(&note.programs),
            None => Ok(HostProgram::Before),
        }
    }
}

/// The version of an order, and the key of its note.
fn parts(order: &ChangeOrder) -> Result<(&str, NoteKey), String> {
    match &order.act {
        HostAct::Upgrade { version, own } => {
            Ok((version, NoteKey { change: order.order.change.0, own: own.clone() }))
        }
        HostAct::Tune { .. } | HostAct::Standard { .. } => Err("it is no upgrade".to_owned()),
    }
}

impl HostActor for HostUpgrade {
    fn look(&mut self, change: &ChangeOrder) -> Result<ActState, String> {
        self.look_at(&parts(change)?.1)
    }

    fn is_there_unnoted(&mut self, change: &ChangeOrder) -> Result<bool, String> {
        let (version, key) = parts(change)?;
        Ok(self.unnoted(version, &key)?.is_some())
    }

    fn begin(&mut self, change: &ChangeOrder, attempt: u32) -> Result<BegunAct, String> {
        let (version, key) = parts(change)?;
        let confirm = Duration::from_millis(change.confirm_ms);
        self.begin_version(key.change, attempt, (version, &key.own), confirm)
    }

    fn keep(&mut self, change: &ChangeOrder, _attempt: u32) -> Result<(), String> {
        self.keep_it(&parts(change)?.1)
    }

    fn why_back(&mut self, change: &ChangeOrder) -> Option<String> {
        let note = self.notes.of(&parts(change).ok()?.1).ok()??;
        match self.own_state(&note) {
            Ok(OwnState::Refused(why)) => Some(format!("its agent: {why}")),
            _ => None,
        }
    }

    fn go_back(&mut self, change: &ChangeOrder, _attempt: u32) -> Result<(), String> {
        let (version, key) = parts(change)?;
        match self.unnoted(version, &key)? {
            Some(why) => Err(why),
            None => self.go_back_from(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProgramId;
    use super::*;
    use crate::service::turn::answer_digest;

    #[test]
    fn a_kept_upgrade_is_the_last_whose_note_gives_room() {
        let folder = std::env::temp_dir().join(format!("evenkeel-notes-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let notes = UpgradeNotes::new(AgentStore::open(&folder).expect("a folder"));
        let program = ProgramId { path: "/opt/one".into(), digest: answer_digest(b"one") };
        let programs = TwoPrograms { before: program.clone(), after: program, since: 0 };
        let put = |change: usize, is_kept: bool| {
            let key = NoteKey { change: change as u64, own: answer_digest(b"own") };
            let programs = programs.clone();
            let with_agent = false;
            let note =
                UpgradeNote { key, attempt: 1, programs, with_agent, is_kept, until_ms: 0, boot: boot() };
            let forgotten = notes.put(note).expect("kept");
            forgotten.iter().map(|note| note.key.change).collect::<Vec<_>>()
        };
        for change in 0..NOTES_MAX {
            assert!(put(change, change != 2).is_empty());
        }
        assert!(put(5, true).is_empty(), "it takes its own place");
        assert_eq!(put(100, true), [2], "one that was never kept");
        assert_eq!(put(101, true), [0], "then the oldest");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
