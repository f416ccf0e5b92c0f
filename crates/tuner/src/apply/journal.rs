//! Journal of a plan: every change, on disk before it is made.
//!
//! One file per plan that is carried out, one JSON object per line, only ever appended to. A line is on the disk
//! (fsync of the file, and of the directory for a new file) before the announced step is done. So after a crash at
//! most one step may or may not have been done, and its old value is there. A last line that is cut off was never
//! acted upon.
//!
//! Before a step is announced, the file has room on the disk for all records that undoing the plan will need, so that
//! a disk that is full by then does not matter. Records that a journal cannot take even so are kept by [`spare`]. The
//! directory of all journals, and its lock, are in [`directory`].

mod directory;
mod holder;
mod spare;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::apply::expected_effect::ExpectedEffect;
use crate::observe::network_namespace;
use crate::observe::root::Root;
use crate::plan::change::Setting;

pub use directory::{Damaged, Journals, Lock};
pub use holder::Holder;

/// The version of the format; other versions are refused.
const VERSION: u32 = 1;

/// A file that is longer is no journal: a step takes some 500 bytes, and the largest hosts have 10,000 settings.
const LEN_MAX: u64 = 64 << 20;

/// Room for later records of a step: that it is done or left out, and that it is undone.
const STEP_ROOM: u64 = 512;

/// Room for records of the whole plan, once each: applied, confirmed, being undone, undone.
const END_ROOM: u64 = 8 << 10;

/// A reason is cut to this many characters, so that it fits into [`END_ROOM`], even if JSON takes six bytes for each.
const WHY_CHARS_MAX: usize = 500;

/// Room is made in pieces of this size, to save calls.
const ROOM_PIECE: u64 = 32 << 10;

/// The boot and network namespace in which a journal's settings are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootAndNamespace {
    /// Live settings end with the boot.
    pub boot_id: String,
    /// `net:[4026531840] 1`, see [`network_namespace`]: the same path is another interface in another one.
    pub network: Option<String>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum JournalRecord {
    /// The first.
    Begin {
        /// The version of the format.
        version: u32,
        /// Boot and namespace.
        place: BootAndNamespace,
        /// When, in seconds since 1970.
        at_unix_s: u64,
        /// To be undone unless confirmed until then, in milliseconds since boot.
        confirm_by_ms: Option<u64>,
    },
    /// About to be written.
    Step {
        /// Counts from 0.
        step: usize,
        /// The setting.
        setting: Setting,
        /// Its text before, byte for byte.
        before: String,
        /// The new value.
        wanted: String,
        /// The reason.
        #[serde(default)]
        why: String,
        /// The requester.
        #[serde(default)]
        asked_by: String,
        /// The kernel's number for the interface that it belongs to: its name may become another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<u32>,
    },
    /// Not written, but may be reset by the kernel or a driver with the next step: to be restored when that is
    /// undone.
    Kept {
        /// Counts from 0, together with the steps.
        step: usize,
        /// The setting.
        setting: Setting,
        /// Its text, byte for byte.
        before: String,
    },
    /// Identity of the next step's interrupt or thread: numbers are used again.
    Identity {
        /// The step's number.
        step: usize,
        /// As [`crate::apply::host::HostAccess::identity`] has it.
        identity: String,
    },
    /// About to be written again, because it has drifted. Its text before the plan stays the one to restore.
    Repair {
        /// The step's number.
        step: usize,
        /// The value read.
        found: String,
    },
    /// Written and read back.
    Done {
        /// The step's number.
        step: usize,
    },
    /// Could not be written, for a reason that does not affect the others.
    Left {
        /// The step's number.
        step: usize,
        /// The reason.
        why: String,
    },
    /// Every step is done or left out.
    Applied,
    /// The plan was confirmed.
    Confirmed,
    /// Undoing begins: until it is over, the plan is neither in force nor undone.
    RollingBack {
        /// The reason.
        why: String,
    },
    /// A step was undone.
    Undone {
        /// The step's number.
        step: usize,
    },
    /// Every step is undone.
    RolledBack {
        /// The reason.
        why: String,
    },
}

/// Errors of a journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{what} {path}", path = path.display())]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line in the middle, or the first one, is not ours.
    #[error("understand line {line} of {path}", path = path.display())]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// The file.
        path: PathBuf,
    },
    /// Another version of this program has written it.
    #[error("understand {path}: it is of version {version}, this program supports {VERSION}", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Another process is changing settings at the moment.
    #[error("lock {path}: another `evenkeel tune` is at work{who}", path = path.display(), who = by(.holder, .waited))]
    Locked {
        /// The lock.
        path: PathBuf,
        /// The holder of the lock, if this process can see it.
        holder: Option<Holder>,
        /// The time that this process waited.
        waited: Duration,
    },
    /// The waiting process was ended.
    #[error("lock {path}: it was ended by a signal while it waited; nothing was changed", path = path.display())]
    Stopped {
        /// The lock.
        path: PathBuf,
    },
    /// Users other than root could write files that root trusts.
    #[error("trust {path}: {why}", path = path.display())]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// The reason, and the remedy.
        why: String,
    },
}

impl Error {
    /// Whether the journal does not exist any more: a tournament removes those of its trials.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// With the system's error.
    pub fn with_causes(&self) -> String {
        match self {
            Error::Io { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }
}

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
    /// The end of the last whole line.
    len: u64,
    /// Whether an incomplete line follows there.
    is_torn: bool,
    /// The end of the room on the disk.
    room: u64,
    /// The directory for records that the file cannot take, if there is one.
    spare: Option<PathBuf>,
    /// The number of last records that are only there.
    unsaved: usize,
}

fn by(holder: &Option<Holder>, waited: &Duration) -> String {
    let who = holder.as_ref().map_or(String::new(), |holder| format!(" ({holder})"));
    match waited.as_secs() {
        0 => who,
        s => format!("{who}, and has not ended within {s} s"),
    }
}

impl BootAndNamespace {
    /// Boot and namespace of a root.
    pub fn of(root: &Root) -> Result<BootAndNamespace, crate::observe::root::Error> {
        let boot_id = root.read("/proc/sys/kernel/random/boot_id")?.unwrap_or_default();
        Ok(BootAndNamespace { boot_id, network: network_namespace::of(root) })
    }
}

impl JournalRecord {
    /// Whether it leads to later records; room for the others is reserved already.
    fn needs_room(&self) -> bool {
        use JournalRecord::{Begin, Identity, Kept, Repair, Step};
        matches!(self, Begin { .. } | Step { .. } | Kept { .. } | Identity { .. } | Repair { .. })
    }

    fn has_step(&self) -> bool {
        matches!(self, JournalRecord::Step { .. } | JournalRecord::Kept { .. })
    }
}

impl Journal {
    /// A new one, as a file that is not there yet.
    fn create(path: PathBuf, spare: Option<&Path>, begin: JournalRecord) -> Result<Journal, Error> {
        let created = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path);
        let file =
            Some(created.map_err(|source| Error::Io { what: "create", path: path.clone(), source })?);
        let spare = spare.map(Path::to_owned);
        let records = Vec::new();
        let mut journal = Journal { path, records, file, len: 0, is_torn: false, room: 0, spare, unsaved: 0 };
        journal.append(begin)?;
        Ok(journal)
    }

    /// Reads one; none if it holds no whole line.
    pub fn open(path: &Path) -> Result<Option<Journal>, Error> {
        Journal::open_with(path, None)
    }

    /// Reads one, and its spare records in this directory.
    fn open_with(path: &Path, spare: Option<&Path>) -> Result<Option<Journal>, Error> {
        let failed = |source| Error::Io { what: "read", path: path.to_owned(), source };
        let text = text_of(path).map_err(failed)?;
        let mut whole = text.rfind('\n').map_or(0, |end| end + 1);
        let kept = spare.and_then(|spare| spare::read(spare, path, text.len() as u64)).unwrap_or_default();
        if !kept.records.is_empty() {
            whole = whole.min(kept.whole_len as usize);
        }
        let mut records = Vec::new();
        for (index, line) in text[..whole].lines().enumerate() {
            let wrong = || Error::Line { line: index + 1, path: path.to_owned() };
            let record = serde_json::from_str(line).map_err(|_| wrong())?;
            match record {
                JournalRecord::Begin { version, .. } if index == 0 && version != VERSION => {
                    return Err(Error::Version { path: path.to_owned(), version });
                }
                JournalRecord::Begin { .. } if index == 0 => {}
                JournalRecord::Begin { .. } => return Err(wrong()),
                _ if index == 0 => return Err(wrong()),
                _ => {}
            }
            records.push(record);
        }
        if records.is_empty() {
            return Ok(None);
        }
        // It is cut when something is appended, which takes the lock; now another process may be writing it.
        let is_torn = whole < text.len();
        let unsaved = kept.records.len();
        records.extend(kept.records);
        let (path, spare, len) = (path.to_owned(), spare.map(Path::to_owned), whole as u64);
        Ok(Some(Journal { path, records, file: None, len, is_torn, room: 0, spare, unsaved }))
    }

    /// Writes a line to the disk. Takes the [`Lock`] if other processes may be at work.
    pub fn append(&mut self, record: JournalRecord) -> Result<(), Error> {
        self.append_all(vec![record])
    }

    /// Writes lines to the disk, with one wait. Afterwards there is room for the records of undoing them.
    pub fn append_all(&mut self, records: Vec<JournalRecord>) -> Result<(), Error> {
        let text = lines(self.unsaved()) + &lines(&records);
        let written = self.write(&records, text.as_bytes());
        written.map_err(|source| Error::Io { what: "append to", path: self.path.clone(), source })?;
        if let Some(spare) = self.spare.as_ref().filter(|_| self.unsaved > 0) {
            spare::forget(spare, &self.path);
        }
        self.unsaved = 0;
        self.records.extend(records);
        Ok(())
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
            // A remaining file does no harm.
            let _ = ExpectedEffect::forget(&self.path);
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
        let end = whole.map(|why| JournalRecord::RolledBack { why: cut(why) });
        let records: Vec<JournalRecord> = undone.chain(end).collect();
        if records.is_empty() {
            return Ok(());
        }
        self.append_or_spare(records)?;
        if whole.is_some() && self.unsaved == 0 {
            self.give_back_room();
        }
        Ok(())
    }

    /// The number of the next step.
    pub(crate) fn next_step(&self) -> usize {
        let number = |record: &JournalRecord| match record {
            JournalRecord::Step { step, .. } | JournalRecord::Kept { step, .. } => Some(step + 1),
            _ => None,
        };
        self.records.iter().filter_map(number).max().unwrap_or(0)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of its file, without an incomplete line.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The boot and namespace of its settings.
    pub fn place(&self) -> &BootAndNamespace {
        let JournalRecord::Begin { place, .. } = &self.records[0] else {
            unreachable!("`open` and `begin` see to it")
        };
        place
    }

    /// The time until which it has to be confirmed, in milliseconds since boot.
    pub fn confirm_by_ms(&self) -> Option<u64> {
        let JournalRecord::Begin { confirm_by_ms, .. } = &self.records[0] else { return None };
        *confirm_by_ms
    }

    /// When it was started, in seconds since 1970.
    pub fn begun_unix_s(&self) -> u64 {
        let JournalRecord::Begin { at_unix_s, .. } = &self.records[0] else { return 0 };
        *at_unix_s
    }

    /// The reason why it was undone, if it was.
    pub fn undone_because(&self) -> Option<&str> {
        self.records.iter().rev().find_map(|record| match record {
            JournalRecord::RolledBack { why } => Some(why.as_str()),
            _ => None,
        })
    }

    /// Its state.
    pub fn state(&self) -> PlanState {
        self.records.iter().fold(PlanState::Unfinished, |state, record| match record {
            JournalRecord::Applied => PlanState::Applied,
            JournalRecord::Confirmed => PlanState::Confirmed,
            JournalRecord::RollingBack { .. } | JournalRecord::Undone { .. } => PlanState::Unfinished,
            JournalRecord::RolledBack { .. } => PlanState::RolledBack,
            JournalRecord::Begin { .. } | JournalRecord::Identity { .. } | JournalRecord::Step { .. } => {
                state
            }
            JournalRecord::Kept { .. } | JournalRecord::Repair { .. } => state,
            JournalRecord::Done { .. } | JournalRecord::Left { .. } => state,
        })
    }

    /// Its steps, the first one first.
    pub fn steps(&self) -> Vec<JournalStep> {
        let mut steps: Vec<JournalStep> = Vec::new();
        let mut identities = BTreeMap::new();
        for record in &self.records {
            match record {
                JournalRecord::Step { step, setting, before, wanted, why, asked_by, interface } => steps
                    .push(JournalStep {
                        number: *step,
                        setting: setting.clone(),
                        before: before.clone(),
                        wanted: wanted.clone(),
                        why: why.clone(),
                        asked_by: asked_by.clone(),
                        identity: identities.remove(step),
                        interface: *interface,
                        left: false,
                        undone: false,
                    }),
                JournalRecord::Kept { step, setting, before } => steps.push(JournalStep {
                    number: *step,
                    setting: setting.clone(),
                    before: before.clone(),
                    wanted: before.clone(),
                    why: String::new(),
                    asked_by: String::new(),
                    identity: None,
                    interface: None,
                    left: true,
                    undone: false,
                }),
                JournalRecord::Identity { step, identity } => {
                    identities.insert(*step, identity.clone());
                }
                JournalRecord::Left { step: number, .. } => {
                    steps.iter_mut().filter(|step| step.number == *number).for_each(|step| step.left = true);
                }
                JournalRecord::Undone { step: number } => {
                    steps
                        .iter_mut()
                        .filter(|step| step.number == *number)
                        .for_each(|step| step.undone = true);
                }
                _ => {}
            }
        }
        steps
    }
}

/// A journal is a regular file: the target of a link was not written here, and reading a pipe would block.
const NO_LINK: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

fn text_of(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of ours"));
    }
    let mut text = String::new();
    file.take(LEN_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn lines(records: &[JournalRecord]) -> String {
    let line = |record| serde_json::to_string(record).expect("records are plain data") + "\n";
    records.iter().map(line).collect()
}

/// Reserves room on the disk up to a length, without changing the file's. Where the file system does not support
/// that, nothing is reserved.
fn make_room(file: &File, len: u64) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
            Err(Errno::INTR) => {}
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn cut(why: &str) -> String {
    why.chars().take(WHY_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::shapes::Scratch;

    fn place() -> BootAndNamespace {
        BootAndNamespace { boot_id: "b".into(), network: None }
    }

    fn step(step: usize) -> JournalRecord {
        JournalRecord::Step {
            step,
            setting: Setting::number("/sys/x"),
            before: "1\n".into(),
            wanted: "2".into(),
            why: "because".into(),
            asked_by: "xps".into(),
            interface: None,
        }
    }

    #[test]
    fn what_was_appended_is_read_again() {
        let scratch = Scratch::new("journal-again");
        let journals = Journals::new(scratch.path().join("a/b"));
        let mut journal = journals.begin(&place(), 7, Some(9)).unwrap();
        journal.append(step(0)).unwrap();
        journal.append(JournalRecord::Done { step: 0 }).unwrap();
        assert_eq!(journal.state(), PlanState::Unfinished);
        journal.append(JournalRecord::Applied).unwrap();
        let again = &journals.all().unwrap()[0];
        assert_eq!(
            (again.state(), again.confirm_by_ms(), again.place()),
            (PlanState::Applied, Some(9), &place())
        );
        assert_eq!(again.steps(), journal.steps());
        assert_eq!(again.steps()[0].before, "1\n");
        journals.begin(&place(), 8, None).unwrap();
        assert!(journals.all().unwrap()[1].path().ends_with("000002.jsonl"));
    }

    #[test]
    fn a_journal_may_end_anywhere() {
        let scratch = Scratch::new("journal-torn");
        let journals = Journals::new(scratch.path());
        let mut journal = journals.begin(&place(), 7, None).unwrap();
        journal.append(step(0)).unwrap();
        let whole = std::fs::read(journal.path()).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for len in 0..=whole.len() {
            std::fs::write(journal.path(), &whole[..len]).unwrap();
            let read = Journal::open(journal.path()).unwrap();
            assert_eq!(read.is_some(), len >= first, "{len}");
            let Some(mut read) = read else { continue };
            assert_eq!(read.steps().len(), usize::from(len == whole.len()), "{len}");
            read.append(JournalRecord::Applied).unwrap();
            assert_eq!(Journal::open(journal.path()).unwrap().unwrap().state(), PlanState::Applied, "{len}");
        }
    }

    #[test]
    fn what_a_failed_write_has_left_is_cut_before_the_next_one() {
        let scratch = Scratch::new("journal-failed");
        let journals = Journals::new(scratch.path());
        let mut journal = journals.begin(&place(), 7, None).unwrap();
        journal.append(step(0)).unwrap();
        // As if the disk had been full in the middle of the second of two lines.
        journal.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let error = journal.append(JournalRecord::Done { step: 0 }).unwrap_err().with_causes();
        assert!(error.starts_with("append to ") && error.contains("No space left"), "{error}");
        let mut file = OpenOptions::new().append(true).open(journal.path()).unwrap();
        file.write_all(b"{\"record\":\"done\",\"step\":0}\n{\"reco").unwrap();
        journal.file = None;
        journal.append(JournalRecord::Applied).unwrap();
        let again = Journal::open(journal.path()).unwrap().unwrap();
        assert_eq!((again.state(), &again.records), (PlanState::Applied, &journal.records));
        assert_eq!(again.records.len(), 3);
    }

    /// A journal of a plan in force, and where it may keep what it cannot take.
    fn with_spare(scratch: &Scratch) -> (Journals, Journal) {
        let spare = scratch.path().join("spare");
        let journals = Journals::new(scratch.path().join("state")).with_spare(spare);
        let mut journal = journals.begin(&place(), 7, None).unwrap();
        journal.append_all(vec![step(0), JournalRecord::Applied]).unwrap();
        (journals, journal)
    }

    /// As if the disk had been full: nothing, or something, of what is written is there.
    fn fill(journal: &mut Journal, left_behind: &str) {
        journal.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let mut file = OpenOptions::new().append(true).open(journal.path()).unwrap();
        file.write_all(left_behind.as_bytes()).unwrap();
    }

    #[test]
    fn what_a_journal_cannot_take_is_kept_until_it_can() {
        for left_behind in ["", "{\"reco", "{\"record\":\"applied\"}\n{\"reco"] {
            let scratch = Scratch::new("journal-spare");
            let (journals, mut journal) = with_spare(&scratch);
            fill(&mut journal, left_behind);
            journal.rolling_back("asked").unwrap();
            let mut again = journals.all().unwrap().remove(0);
            assert_eq!((again.state(), again.steps()[0].undone), (PlanState::Unfinished, false));
            assert!(again.spare_path().is_some_and(|path| path.exists()));
            // The way back goes on in another process, and can be recorded no more than before.
            again.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
            again.undone(&[0], Some("asked")).unwrap();
            let mut again = journals.all().unwrap().remove(0);
            assert_eq!((again.state(), again.steps()[0].undone), (PlanState::RolledBack, true));
            let spare = again.spare_path().unwrap();
            again.save();
            assert!(!spare.exists() && again.spare_path().is_none());
            let saved = Journal::open(journal.path()).unwrap().unwrap();
            assert_eq!((saved.state(), saved.is_torn), (PlanState::RolledBack, false), "{left_behind}");
            assert_eq!(saved.records, again.records);
        }
    }

    #[test]
    fn spare_records_of_a_journal_that_has_become_another_one_count_no_longer() {
        let scratch = Scratch::new("journal-spare-old");
        let (journals, mut journal) = with_spare(&scratch);
        fill(&mut journal, "");
        journal.undone(&[0], Some("asked")).unwrap();
        let spare = journal.spare_path().unwrap();
        assert_eq!(journals.all().unwrap()[0].state(), PlanState::RolledBack);
        let text = std::fs::read(journal.path()).unwrap();
        let mut without = Journal::open(journal.path()).unwrap().unwrap();
        without.append(JournalRecord::Confirmed).unwrap();
        assert_eq!(journals.all().unwrap()[0].state(), PlanState::Confirmed);
        // Nor do those that others could have written.
        std::fs::write(journal.path(), text).unwrap();
        assert_eq!(journals.all().unwrap()[0].state(), PlanState::RolledBack);
        let directory = spare.parent().unwrap();
        std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(journals.all().unwrap()[0].state(), PlanState::Applied);
    }

    #[test]
    fn a_reason_is_cut_to_what_there_is_room_for() {
        let scratch = Scratch::new("journal-reason");
        let mut journal = Journals::new(scratch.path()).begin(&place(), 7, None).unwrap();
        journal.append_all(vec![step(0), JournalRecord::Applied]).unwrap();
        let why = "\u{1}".repeat(2 * WHY_CHARS_MAX);
        let len = journal.len;
        journal.rolling_back(&why).unwrap();
        journal.undone(&[0], Some(&why)).unwrap();
        assert!(journal.len - len < END_ROOM && journal.state() == PlanState::RolledBack);
        assert_eq!(journal.undone_because().map(str::len), Some(WHY_CHARS_MAX));
    }
}
