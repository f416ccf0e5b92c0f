//! What was changed, on disk before it is changed.
//!
//! One file per plan that is carried out, one JSON object per line, only ever appended to. A line is on the disk
//! (fsync of the file, and of the directory for a new file) before what it announces is done. So a crash leaves at most
//! one step of which it is not known whether it was done, and its old value is there. A last line that is cut off was
//! never acted upon.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::change::Setting;
use crate::root::Root;

/// The version of the notation; another one is not understood.
const VERSION: u32 = 1;

/// Where the settings of a journal are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Live settings end with the boot.
    pub boot_id: String,
    /// `net:[4026531840]`: the same path is another interface in another network namespace.
    pub network: Option<String>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The first.
    Begin {
        /// Of the notation.
        version: u32,
        /// Where.
        place: Place,
        /// When, in seconds since 1970.
        at_unix_s: u64,
        /// To be undone unless confirmed until then, in milliseconds since boot.
        confirm_by_ms: Option<u64>,
    },
    /// About to be written.
    Step {
        /// Counts from 0.
        step: usize,
        /// What.
        setting: Setting,
        /// Its text before, byte for byte.
        before: String,
        /// What is written.
        wanted: String,
        /// Why.
        #[serde(default)]
        why: String,
        /// Who asked for it.
        #[serde(default)]
        asked_by: String,
    },
    /// Is not written, but may be set anew by the kernel or a driver when the next step is: to be as before again when
    /// that is undone.
    Kept {
        /// Counts from 0, together with the steps.
        step: usize,
        /// What.
        setting: Setting,
        /// Its text, byte for byte.
        before: String,
    },
    /// Whose interrupt, or which thread, the next step is about: numbers are given to others.
    Identity {
        /// Which step.
        step: usize,
        /// As [`crate::host::Host::identity`] has it.
        identity: String,
    },
    /// About to be written again, because it has drifted. Its text before the plan stays the one to restore.
    Repair {
        /// Which step.
        step: usize,
        /// What it read.
        found: String,
    },
    /// Written and read back.
    Done {
        /// Which step.
        step: usize,
    },
    /// Could not be written, for a reason that leaves the others sensible.
    Left {
        /// Which step.
        step: usize,
        /// Why.
        why: String,
    },
    /// Every step is done or left.
    Applied,
    /// It is to stay.
    Confirmed,
    /// As before again.
    Undone {
        /// Which step.
        step: usize,
    },
    /// Every step is undone.
    RolledBack {
        /// Why.
        why: String,
    },
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{what} {path}", path = path.display())]
    Io {
        /// To do what.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line in the middle, or the first one, is not ours.
    #[error("understand line {line} of {path}", path = path.display())]
    Line {
        /// Which, from 1.
        line: usize,
        /// Of which file.
        path: PathBuf,
    },
    /// Somebody is changing settings just now.
    #[error("lock {path}: another `evenkeel tune` is at work", path = path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
}

/// How far a plan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was interrupted, or is at work.
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
pub struct Step {
    /// Counts from 0.
    pub number: usize,
    /// What.
    pub setting: Setting,
    /// Its text before.
    pub before: String,
    /// What was to be written.
    pub wanted: String,
    /// Why.
    pub why: String,
    /// Who asked for it.
    pub asked_by: String,
    /// Whose interrupt, or which thread, it was.
    pub identity: Option<String>,
    /// Whether it was left as it was: refused, or only noted because the next step may set it anew.
    pub left: bool,
    /// Whether it is as before again.
    pub undone: bool,
}

/// The journal of one plan.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    records: Vec<Record>,
    /// Where the last whole line ends, if something that was cut off follows.
    cut: Option<u64>,
}

/// The directory of the journals.
#[derive(Clone, Debug)]
pub struct Journals(PathBuf);

/// While it is there, nobody else changes settings.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Place {
    /// Where a root is.
    pub fn of(root: &Root) -> Result<Place, crate::root::Error> {
        let boot_id = root.read("/proc/sys/kernel/random/boot_id")?.unwrap_or_default();
        Ok(Place { boot_id, network: root.link("/proc/self/ns/net") })
    }
}

impl Journals {
    /// The journals in a directory, which need not be there yet.
    pub fn new(directory: impl Into<PathBuf>) -> Journals {
        Journals(directory.into())
    }

    /// Keeps others from changing settings; `wait` for them, or say that there are some.
    pub fn lock(&self, wait: bool) -> Result<Lock, Error> {
        use rustix::fs::FlockOperation::{LockExclusive, NonBlockingLockExclusive};
        create_directory(&self.0)?;
        let path = self.0.join("lock");
        let failed = |source| Error::Io { what: "lock", path: path.clone(), source };
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        match rustix::fs::flock(&file, if wait { LockExclusive } else { NonBlockingLockExclusive }) {
            Ok(()) => Ok(Lock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { path }),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// A new one, begun.
    pub fn begin(&self, place: &Place, at_unix_s: u64, confirm_by_ms: Option<u64>) -> Result<Journal, Error> {
        create_directory(&self.0)?;
        let last = self.paths()?.last().and_then(|path| number(path)).unwrap_or(0);
        let path = self.0.join(format!("{:06}.jsonl", last + 1));
        let failed = |source| Error::Io { what: "create", path: path.clone(), source };
        let file = OpenOptions::new().create_new(true).append(true).open(&path).map_err(failed)?;
        sync_directory(&self.0)?;
        let mut journal = Journal { file, path, records: Vec::new(), cut: None };
        journal.append(Record::Begin { version: VERSION, place: place.clone(), at_unix_s, confirm_by_ms })?;
        Ok(journal)
    }

    /// All of them, the oldest first. One that was never begun in full says nothing and is left out.
    pub fn all(&self) -> Result<Vec<Journal>, Error> {
        let opened = self.paths()?.into_iter().map(|path| Journal::open(&path));
        opened.filter_map(Result::transpose).collect()
    }

    fn paths(&self) -> Result<Vec<PathBuf>, Error> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { what: "read", path: self.0.clone(), source }),
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let mut paths: Vec<_> = paths.filter(|path| number(path).is_some()).collect();
        paths.sort();
        Ok(paths)
    }
}

impl Journal {
    /// Reads one, to append to it; none if it holds no whole line.
    pub fn open(path: &Path) -> Result<Option<Journal>, Error> {
        let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(failed("read"))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut records = Vec::new();
        for (index, line) in text[..whole].lines().enumerate() {
            let wrong = || Error::Line { line: index + 1, path: path.to_owned() };
            let record = serde_json::from_str(line).map_err(|_| wrong())?;
            if (index == 0) != matches!(record, Record::Begin { version: VERSION, .. }) {
                return Err(wrong());
            }
            records.push(record);
        }
        if records.is_empty() {
            return Ok(None);
        }
        let file = OpenOptions::new().append(true).open(path).map_err(failed("open"))?;
        // It is cut when something is appended, which takes the lock; now another process may be writing it.
        let cut = (whole < text.len()).then_some(whole as u64);
        Ok(Some(Journal { file, path: path.to_owned(), records, cut }))
    }

    /// Puts a line on the disk. Takes the [`Lock`] if others may be at work.
    pub fn append(&mut self, record: Record) -> Result<(), Error> {
        self.append_all(vec![record])
    }

    /// Puts lines on the disk, with one wait for it.
    pub fn append_all(&mut self, records: Vec<Record>) -> Result<(), Error> {
        let line = |record| serde_json::to_string(record).expect("records are plain data") + "\n";
        let lines: String = records.iter().map(line).collect();
        let cut = self.cut.take().map_or(Ok(()), |len| self.file.set_len(len));
        let written =
            cut.and_then(|()| self.file.write_all(lines.as_bytes())).and_then(|()| self.file.sync_all());
        written.map_err(|source| Error::Io { what: "append to", path: self.path.clone(), source })?;
        self.records.extend(records);
        Ok(())
    }

    /// The number that the next step has.
    pub(crate) fn next_step(&self) -> usize {
        let number = |record: &Record| match record {
            Record::Step { step, .. } | Record::Kept { step, .. } => Some(step + 1),
            _ => None,
        };
        self.records.iter().filter_map(number).max().unwrap_or(0)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its settings are in force.
    pub fn place(&self) -> &Place {
        let Record::Begin { place, .. } = &self.records[0] else {
            unreachable!("`open` and `begin` see to it")
        };
        place
    }

    /// When it has to be confirmed, in milliseconds since boot.
    pub fn confirm_by_ms(&self) -> Option<u64> {
        let Record::Begin { confirm_by_ms, .. } = &self.records[0] else { return None };
        *confirm_by_ms
    }

    /// How far it has come.
    pub fn state(&self) -> State {
        self.records.iter().fold(State::Unfinished, |state, record| match record {
            Record::Applied => State::Applied,
            Record::Confirmed => State::Confirmed,
            // Undoing has begun: until it is over, the plan is neither in force nor undone.
            Record::Undone { .. } => State::Unfinished,
            Record::RolledBack { .. } => State::RolledBack,
            Record::Begin { .. } | Record::Identity { .. } | Record::Step { .. } => state,
            Record::Kept { .. } | Record::Repair { .. } => state,
            Record::Done { .. } | Record::Left { .. } => state,
        })
    }

    /// Its steps, the first one first.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut identities = BTreeMap::new();
        for record in &self.records {
            match record {
                Record::Step { step, setting, before, wanted, why, asked_by } => steps.push(Step {
                    number: *step,
                    setting: setting.clone(),
                    before: before.clone(),
                    wanted: wanted.clone(),
                    why: why.clone(),
                    asked_by: asked_by.clone(),
                    identity: identities.remove(step),
                    left: false,
                    undone: false,
                }),
                Record::Kept { step, setting, before } => steps.push(Step {
                    number: *step,
                    setting: setting.clone(),
                    before: before.clone(),
                    wanted: before.clone(),
                    why: String::new(),
                    asked_by: String::new(),
                    identity: None,
                    left: true,
                    undone: false,
                }),
                Record::Identity { step, identity } => {
                    identities.insert(*step, identity.clone());
                }
                Record::Left { step: number, .. } => {
                    steps.iter_mut().filter(|step| step.number == *number).for_each(|step| step.left = true);
                }
                Record::Undone { step: number } => {
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

fn number(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_suffix(".jsonl")?.parse().ok()
}

/// With what leads to it, all of it on the disk.
fn create_directory(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(parent)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Error::Io { what: "create", path: path.to_owned(), source }),
        Ok(()) => sync_directory(parent),
    }
}

fn sync_directory(path: &Path) -> Result<(), Error> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|source| Error::Io { what: "sync", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::Scratch;

    fn place() -> Place {
        Place { boot_id: "b".into(), network: None }
    }

    fn step(step: usize) -> Record {
        Record::Step {
            step,
            setting: Setting::number("/sys/x"),
            before: "1\n".into(),
            wanted: "2".into(),
            why: "because".into(),
            asked_by: "xps".into(),
        }
    }

    #[test]
    fn what_was_appended_is_read_again() {
        let scratch = Scratch::new("journal-again");
        let journals = Journals::new(scratch.path().join("a/b"));
        let mut journal = journals.begin(&place(), 7, Some(9)).unwrap();
        journal.append(step(0)).unwrap();
        journal.append(Record::Done { step: 0 }).unwrap();
        assert_eq!(journal.state(), State::Unfinished);
        journal.append(Record::Applied).unwrap();
        let again = &journals.all().unwrap()[0];
        assert_eq!(
            (again.state(), again.confirm_by_ms(), again.place()),
            (State::Applied, Some(9), &place())
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
            read.append(Record::Applied).unwrap();
            assert_eq!(Journal::open(journal.path()).unwrap().unwrap().state(), State::Applied, "{len}");
        }
    }

    #[test]
    fn a_line_that_is_not_ours_is_refused() {
        let scratch = Scratch::new("journal-wrong");
        let journals = Journals::new(scratch.path());
        let mut journal = journals.begin(&place(), 7, None).unwrap();
        journal.file.write_all(b"{}\n").unwrap();
        let error = journals.all().unwrap_err().to_string();
        assert!(error.starts_with("understand line 2 of "), "{error}");
    }

    #[test]
    fn two_do_not_work_at_once() {
        let scratch = Scratch::new("journal-lock");
        let journals = Journals::new(scratch.path());
        let lock = journals.lock(false).unwrap();
        assert!(matches!(journals.lock(false), Err(Error::Locked { .. })));
        drop(lock);
        journals.lock(false).unwrap();
    }
}
