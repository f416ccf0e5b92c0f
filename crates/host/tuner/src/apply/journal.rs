//! Journal of a plan: every change, on disk before it is made.
//!
//! One file per plan that is carried out, one JSON object per line, only ever appended to. A line is on the disk
//! (fsync of the file, and of the directory for a new file) before the announced step is done. So after a crash at
//! most one step may or may not have been done, and its old value is there. A last line that is cut off was never
//! acted upon.
//!
//! Each line is a fact of its own, with a checksum ([`record`], [`line`]). One that cannot be read is skipped and
//! counted, and everything else is undone all the same. The file then stays for people to look at.
//!
//! Before a step is announced, the file has room on the disk for all records that undoing the plan will need, so that
//! a disk that is full by then does not matter. Records that a journal cannot take even so are kept by [`spare`]. The
//! directory of all journals, and its lock, are in [`directory`].

#![allow(
    clippy::disallowed_methods,
    reason = "the folder of journals is root's alone, which is made sure of before anything is written"
)]

mod directory;
mod doubt;
mod error;
mod file;
mod holder;
mod line;
mod record;
mod spare;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::apply::expected_effect::ExpectedEffect;
use crate::apply::label::PlanLabel;
use crate::plan::change::Setting;
use file::{LEN_MAX, NO_LINK, make_room, text_of};
use line::{Lines, lines, other_version};

pub use directory::{Found, Journals, Lock};
pub use doubt::{JournalDoubt, OTHER_VERSION_REMEDY};
pub use error::Error;
pub use holder::Holder;
pub use record::{BootAndNamespace, JournalRecord};

/// Room for later records of a step: that it is done or left out, and that it is undone.
const STEP_ROOM: u64 = 512;

/// Room for records of the whole plan: applied, confirmed (twice), being undone, undone.
const END_ROOM: u64 = 8 << 10;

/// A reason is cut to this many characters, so that it fits into [`END_ROOM`], even if JSON takes six bytes for each.
const WHY_CHARS_MAX: usize = 500;

/// Room is made in pieces of this size, to save calls.
const ROOM_PIECE: u64 = 32 << 10;

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// Interrupted, or in progress.
    Unfinished,
    /// In force until confirmed or undone.
    Applied,
    /// In force.
    Confirmed,
    /// Undone.
    RolledBack,
}

/// A step as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalStep {
    /// Counts from 0.
    pub number: usize,
    /// The setting.
    pub setting: Setting,
    /// Its text before.
    pub before: String,
    /// The value to be written.
    pub wanted: String,
    /// The reason.
    pub why: String,
    /// The requester.
    pub asked_by: String,
    /// Identity of its interrupt or thread.
    pub identity: Option<String>,
    /// The kernel's number for the interface that it belongs to.
    pub interface: Option<u32>,
    /// Whether it was left unchanged: refused, or only noted because the next step may reset it.
    pub left: bool,
    /// Whether it is recorded as done: its planned value was written, and read back.
    pub done: bool,
    /// Whether it is undone.
    pub undone: bool,
}

/// The journal of one plan.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    records: Vec<JournalRecord>,
    /// For appending, opened with the first record: reading works on a read-only file system.
    file: Option<File>,
    /// The numbers of lines that cannot be read, when it was opened.
    unread: Vec<usize>,
    /// Whether steps are known to be cut off its end.
    is_cut: bool,
    /// The length of its file, without an incomplete line.
    len: u64,
    /// Whether an incomplete line follows there.
    is_torn: bool,
    /// Whether the last line has its end.
    is_ended: bool,
    /// The end of the room on the disk.
    room: u64,
    /// The directory for records that the file cannot take, if there is one.
    spare: Option<PathBuf>,
    /// The number of last records that are only there.
    unsaved: usize,
}

impl Journal {
    /// A new one, as a file that is not there yet.
    fn create(path: PathBuf, spare: Option<&Path>, begin: JournalRecord) -> Result<Journal, Error> {
        let created = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path);
        let file =
            Some(created.map_err(|source| Error::Io { what: "create", path: path.clone(), source })?);
        let mut journal = Journal {
            path,
            records: Vec::new(),
            file,
            unread: Vec::new(),
            is_cut: false,
            len: 0,
            is_torn: false,
            is_ended: true,
            room: 0,
            spare: spare.map(Path::to_owned),
            unsaved: 0,
        };
        journal.append(begin)?;
        Ok(journal)
    }

    /// Reads one; none if nothing is in it, because its process was killed before anything was done.
    pub fn open(path: &Path) -> Result<Option<Journal>, Error> {
        Journal::open_with(path, None)
    }

    /// Reads one, and its spare records in this directory.
    fn open_with(path: &Path, spare: Option<&Path>) -> Result<Option<Journal>, Error> {
        let failed = |source| Error::Io { what: "read", path: path.to_owned(), source };
        let (text, is_too_long) = text_of(path).map_err(failed)?;
        if let Some(other) = other_version(&text) {
            let (path, version, boot_id) = (path.to_owned(), other.version, other.boot_id);
            return Err(Error::Version { path, version, boot_id });
        }
        let kept = spare.and_then(|spare| spare::read(spare, path)).unwrap_or_default();
        let counts = kept.whole_len.map_or(text.len(), |len| text.len().min(len as usize));
        let Lines { mut records, mut unread, whole, is_ended } = Lines::read(&text[..counts]);
        if is_too_long {
            unread.push(text.split(|byte| *byte == b'\n').count());
        }
        if records.is_empty() && unread.is_empty() {
            return Ok(None);
        }
        let unsaved = kept.records.len();
        records.extend(kept.records);
        Ok(Some(Journal {
            path: path.to_owned(),
            records,
            file: None,
            unread,
            is_cut: false,
            len: if is_too_long { LEN_MAX } else { whole as u64 },
            // It is cut when something is appended, which takes the lock; now another process may be writing it.
            is_torn: whole < text.len() && !is_too_long,
            is_ended,
            room: 0,
            spare: spare.map(Path::to_owned),
            unsaved,
        }))
    }

    /// Writes a line to the disk. Takes the [`Lock`] if other processes may be at work.
    pub fn append(&mut self, record: JournalRecord) -> Result<(), Error> {
        self.append_all(vec![record])
    }

    /// Writes lines to the disk, with one wait. Afterwards there is room for the records of undoing them.
    pub fn append_all(&mut self, records: Vec<JournalRecord>) -> Result<(), Error> {
        let mut text = if self.is_ended { String::new() } else { "\n".to_owned() };
        text += &lines(self.unsaved());
        if records.iter().any(JournalRecord::has_step) {
            text += &lines(self.begin().map(std::slice::from_ref).unwrap_or_default());
        }
        text += &lines(&records);
        let written = self.write(&records, text.as_bytes());
        written.map_err(|source| Error::Io { what: "append to", path: self.path.clone(), source })?;
        if let Some(spare) = self.spare.as_ref().filter(|_| self.unsaved > 0) {
            spare::forget(spare, &self.path);
        }
        (self.unsaved, self.is_ended) = (0, true);
        self.records.extend(records);
        Ok(())
    }

    /// Records that the plan stays.
    pub fn confirm(&mut self) -> Result<(), Error> {
        self.append_all(vec![JournalRecord::Confirmed, JournalRecord::Confirmed])
    }

    /// Writes lines to the disk or, if the journal cannot take them, to the spare records.
    fn append_or_spare(&mut self, records: Vec<JournalRecord>) -> Result<(), Error> {
        let Err(error) = self.append_all(records.clone()) else { return Ok(()) };
        let Some(spare) = &self.spare else { return Err(error) };
        let unsaved = [self.unsaved(), &records].concat();
        if spare::keep(spare, &self.path, self.len, &unsaved).is_err() {
            return Err(error);
        }
        self.unsaved = unsaved.len();
        self.records.extend(records);
        Ok(())
    }

    fn unsaved(&self) -> &[JournalRecord] {
        &self.records[self.records.len() - self.unsaved..]
    }

    /// Moves spare records into the journal, if that can take them by now. Takes the [`Lock`].
    pub fn save(&mut self) {
        if self.unsaved > 0 && self.append_all(Vec::new()).is_ok() && self.state() == PlanState::RolledBack {
            self.give_back_room();
            self.forget_effects();
        }
    }

    /// The path of the spare records, if there are any.
    pub fn spare_path(&self) -> Option<PathBuf> {
        spare::place(self.spare.as_deref().filter(|_| self.unsaved > 0)?, &self.path)
    }

    fn write(&mut self, records: &[JournalRecord], lines: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new().append(true).custom_flags(NO_LINK).open(&self.path)?,
        };
        let end = self.len + lines.len() as u64;
        if end > LEN_MAX {
            return Err(Errno::FBIG.into());
        }
        let mut put = || {
            if self.is_torn {
                file.set_len(self.len)?;
                (self.is_torn, self.room) = (false, 0);
            }
            if records.iter().any(JournalRecord::needs_room) {
                let steps = self.records.iter().chain(records).filter(|record| record.has_step()).count();
                let room = end + END_ROOM + steps as u64 * STEP_ROOM;
                if self.room < room {
                    self.room = room.next_multiple_of(ROOM_PIECE);
                    make_room(&file, self.room).inspect_err(|_| self.room = 0)?;
                }
            }
            // If this fails, a part of it may be there.
            self.is_torn = true;
            file.write_all(lines)?;
            file.sync_all()?;
            self.is_torn = false;
            Ok(())
        };
        let put = put();
        self.file = Some(file);
        if put.is_ok() {
            self.len = end;
        }
        put
    }

    /// Releases the reserved room that is not needed any more, when the plan is undone.
    fn give_back_room(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| !self.is_torn) {
            // Some kilobytes too many do no harm.
            let _ = file.set_len(self.len);
            self.room = 0;
        }
    }

    /// Records that undoing begins, unless it has begun before.
    pub(crate) fn rolling_back(&mut self, why: &str) -> Result<(), Error> {
        match self.state() {
            PlanState::Applied | PlanState::Confirmed => {
                self.append_or_spare(vec![JournalRecord::RollingBack { why: cut(why) }])
            }
            PlanState::Unfinished | PlanState::RolledBack => Ok(()),
        }
    }

    /// Records the undone steps, and perhaps that these are all.
    pub(crate) fn undone(&mut self, steps: &[usize], whole: Option<&str>) -> Result<(), Error> {
        let undone = steps.iter().map(|step| JournalRecord::Undone { step: *step });
        let unread = self.is_damaged().then_some(self.unread.len());
        let end = whole.map(|why| JournalRecord::RolledBack { why: cut(why), unread });
        let records: Vec<JournalRecord> = undone.chain(end).collect();
        if records.is_empty() {
            return Ok(());
        }
        self.append_or_spare(records)?;
        if whole.is_some() && self.unsaved == 0 {
            self.give_back_room();
            self.forget_effects();
        }
        Ok(())
    }

    /// Removes what is kept beside it, when the plan is undone. Where a line cannot be read, people may find the old
    /// value there. A remaining file does no harm.
    fn forget_effects(&self) {
        if !self.is_damaged() {
            let _ = ExpectedEffect::forget(&self.path);
        }
    }

    /// The number of the next step.
    pub(crate) fn next_step(&self) -> usize {
        self.records.iter().filter_map(JournalRecord::step).max().map_or(0, |last| last.saturating_add(1))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of its file, without an incomplete line.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The numbers of lines that cannot be read.
    pub fn unread(&self) -> &[usize] {
        &self.unread
    }

    /// Whether lines cannot be read, or are missing.
    pub fn is_damaged(&self) -> bool {
        let steps: BTreeSet<usize> = self.steps().iter().map(|step| step.number).collect();
        let named = self.records.iter().filter_map(JournalRecord::step).max();
        let has_gap = steps.len() < named.map_or(0, |last| last.saturating_add(1));
        !self.unread.is_empty() || self.is_cut || self.begin().is_none() || has_gap
    }

    /// Whether lines that cannot be read may be about settings that are still changed.
    pub fn is_in_doubt(&self) -> bool {
        let undone = self.records.iter().filter_map(|record| match record {
            JournalRecord::RolledBack { unread, .. } => Some(unread.is_some()),
            _ => None,
        });
        // A process that could read everything knows better than one that could not.
        undone.min().unwrap_or_else(|| self.is_damaged())
    }

    /// Whether steps may have been cut off its end: its plan was never finished, and another process has written it.
    pub(crate) fn may_be_cut(&self) -> bool {
        let is_end =
            |record: &JournalRecord| matches!(record, JournalRecord::Applied | JournalRecord::Confirmed);
        self.file.is_none() && !self.records.iter().any(is_end)
    }

    /// Notes that steps were cut off its end.
    pub(crate) fn note_cut(&mut self) {
        self.is_cut = true;
    }

    fn begin(&self) -> Option<&JournalRecord> {
        self.records.iter().find(|record| matches!(record, JournalRecord::Begin { .. }))
    }

    /// The boot and namespace of its settings, if that can be read.
    pub fn place(&self) -> Option<&BootAndNamespace> {
        let JournalRecord::Begin { place, .. } = self.begin()? else { return None };
        Some(place)
    }

    /// The time until which it has to be confirmed, in milliseconds since boot.
    pub fn confirm_by_ms(&self) -> Option<u64> {
        let JournalRecord::Begin { confirm_by_ms, .. } = self.begin()? else { return None };
        *confirm_by_ms
    }

    /// The label of its plan, if it has one.
    pub fn label(&self) -> Option<&PlanLabel> {
        let JournalRecord::Begin { label, .. } = self.begin()? else { return None };
        label.as_ref()
    }

    /// When it was started, in seconds since 1970.
    pub fn begun_unix_s(&self) -> u64 {
        let Some(JournalRecord::Begin { at_unix_s, .. }) = self.begin() else { return 0 };
        *at_unix_s
    }

    /// The reason why it was undone, if it was.
    pub fn undone_because(&self) -> Option<&str> {
        self.records.iter().rev().find_map(|record| match record {
            JournalRecord::RolledBack { why, .. } => Some(why.as_str()),
            _ => None,
        })
    }

    /// Its state: the furthest that its records tell of, in whatever order they are.
    pub fn state(&self) -> PlanState {
        let stage = |record: &JournalRecord| match record {
            JournalRecord::Applied => (1, PlanState::Applied),
            JournalRecord::Confirmed => (2, PlanState::Confirmed),
            JournalRecord::RollingBack { .. } | JournalRecord::Undone { .. } => (3, PlanState::Unfinished),
            JournalRecord::RolledBack { .. } => (4, PlanState::RolledBack),
            _ => (0, PlanState::Unfinished),
        };
        let furthest = self.records.iter().map(stage).max_by_key(|(stage, _)| *stage);
        furthest.map_or(PlanState::Unfinished, |(_, state)| state)
    }

    /// Its steps, the first one first, in whatever order the records are.
    pub fn steps(&self) -> Vec<JournalStep> {
        let numbers = |number: fn(&JournalRecord) -> Option<usize>| -> BTreeSet<usize> {
            self.records.iter().filter_map(number).collect()
        };
        let left = numbers(|record| match record {
            JournalRecord::Left { step, .. } => Some(*step),
            _ => None,
        });
        let done = numbers(|record| match record {
            JournalRecord::Done { step } => Some(*step),
            _ => None,
        });
        let undone = numbers(|record| match record {
            JournalRecord::Undone { step } => Some(*step),
            _ => None,
        });
        let mut steps: Vec<JournalStep> = self.records.iter().filter_map(JournalStep::of).collect();
        steps.sort_by_key(|step| step.number);
        steps.dedup();
        for step in &mut steps {
            step.left |= left.contains(&step.number);
            step.done = done.contains(&step.number);
            step.undone = undone.contains(&step.number);
        }
        steps
    }
}

impl JournalStep {
    /// The step that a record is about to make, or the setting that it keeps.
    fn of(record: &JournalRecord) -> Option<JournalStep> {
        match record {
            JournalRecord::Step { step, setting, before, wanted, why, asked_by, interface, identity } => {
                Some(JournalStep {
                    number: *step,
                    setting: setting.clone(),
                    before: before.clone(),
                    wanted: wanted.clone(),
                    why: why.clone(),
                    asked_by: asked_by.clone(),
                    identity: identity.clone(),
                    interface: *interface,
                    left: false,
                    done: false,
                    undone: false,
                })
            }
            JournalRecord::Kept { step, setting, before, interface } => Some(JournalStep {
                number: *step,
                setting: setting.clone(),
                before: before.clone(),
                wanted: before.clone(),
                why: String::new(),
                asked_by: String::new(),
                identity: None,
                interface: *interface,
                left: true,
                done: false,
                undone: false,
            }),
            _ => None,
        }
    }
}

fn cut(why: &str) -> String {
    why.chars().take(WHY_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
