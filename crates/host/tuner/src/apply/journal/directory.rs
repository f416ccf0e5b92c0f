//! Directory of the journals: its permissions, its lock, and the journals in it.
//!
//! Files that root reads there decide what root writes to the host. So the directory is root's alone (0700).

#![allow(
    clippy::disallowed_methods,
    reason = "the folder of journals is root's alone, which is made sure of here"
)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use os::LockedFile;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::doubt::JournalDoubt;
use super::error::Error;
use super::file::NO_LINK;
use super::holder::{Holder, holder};
use super::record::{BootAndNamespace, JournalRecord, VERSION};
use super::{Journal, PlanState};
use crate::apply::expected_effect::ExpectedEffect;
use crate::apply::label::PlanLabel;

/// The interval of checks whether the lock is free.
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(50);

/// Of plans that are undone, or ended with an earlier boot, this many journals are kept for the user.
const FINISHED_MAX: usize = 100;

/// And for this long: 90 days.
const FINISHED_AGE_MAX_S: u64 = 90 * 24 * 3600;

/// The name of the lock.
const LOCK: &str = "lock";

/// The directory of the journals.
#[derive(Clone, Debug)]
pub struct Journals {
    directory: PathBuf,
    /// The directory for records of undoing that cannot be written there.
    spare: Option<PathBuf>,
}

/// While it exists, no other process changes settings.
#[derive(Debug)]
pub struct Lock {
    _file: LockedFile,
}

/// The files with the names of journals.
#[derive(Debug, Default)]
pub struct Found {
    /// Journals of which something can be read, the oldest first.
    pub journals: Vec<Journal>,
    /// The others.
    unusable: Vec<(PathBuf, Error)>,
}

impl Journals {
    /// The journals in a directory, which need not be there yet.
    pub fn new(directory: impl Into<PathBuf>) -> Journals {
        Journals { directory: directory.into(), spare: None }
    }

    /// The same, with a directory for records of undoing that a journal cannot take. It has to end with the boot, and
    /// to be writable for root alone.
    pub fn with_spare(self, directory: impl Into<PathBuf>) -> Journals {
        Journals { spare: Some(directory.into()), ..self }
    }

    /// Locks out other processes that change settings, unless one of them holds the lock.
    pub fn lock(&self) -> Result<Lock, Error> {
        self.lock_within(Duration::ZERO, &|| false)
    }

    /// Waits for other processes, at most this long. Meanwhile `stop` decides whether to give up, the last time when
    /// they have ended.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing tells when a lock is free but waiting for it without a bound"
    )]
    pub fn lock_within(&self, wait: Duration, stop: &dyn Fn() -> bool) -> Result<Lock, Error> {
        create_directory(&self.directory, 0o700)?;
        self.make_private()?;
        let path = self.directory.join(LOCK);
        let failed = |source| Error::Io { what: "lock", path: path.clone(), source };
        let mut file = self.lock_file(&path).map_err(failed)?;
        let mut looks = 1 + wait.as_millis() / LOCK_LOOK_EVERY.as_millis();
        loop {
            let locked = LockedFile::try_lock(file);
            if stop() {
                return Err(Error::Stopped { path });
            }
            match locked {
                Ok(Ok(file)) => return Ok(Lock { _file: file }),
                Ok(Err(same)) if looks > 1 => {
                    looks -= 1;
                    std::thread::sleep(LOCK_LOOK_EVERY);
                    file = same;
                }
                Ok(Err(file)) => {
                    return Err(Error::Locked { path, holder: holder(&file), waited: wait });
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The process that changes settings at the moment, if this process can see it.
    pub fn holder(&self) -> Option<Holder> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(NO_LINK);
        // Where no file can be made, the directory is locked.
        let opened = options.open(self.directory.join(LOCK)).or_else(|_| File::open(&self.directory));
        holder(&opened.ok()?)
    }

    /// The file to lock, which is root's alone, too. Rollback needs the lock also on a read-only file system: then it
    /// is a file opened for reading, or the directory itself.
    fn lock_file(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.custom_flags(NO_LINK);
        let file = match options.clone().create(true).append(true).mode(0o600).open(path) {
            Ok(file) => file,
            Err(error) if is_without_room(&error) => match options.read(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return File::open(&self.directory),
                opened => return opened,
            },
            Err(error) => return Err(error),
        };
        if file.metadata()?.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }

    /// Checks that no other user can write there, or hold the lock. Directories with other content are not checked
    /// here.
    fn make_private(&self) -> Result<(), Error> {
        let failed = |what| move |source| Error::Io { what, path: self.directory.clone(), source };
        let untrusted = |why: String| Err(Error::Untrusted { path: self.directory.clone(), why });
        let metadata = fs::metadata(&self.directory).map_err(failed("look at"))?;
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        if owner != geteuid().as_raw() {
            return untrusted(format!("it belongs to user {owner}; name another one with --state"));
        }
        if mode & 0o022 != 0 {
            return untrusted(format!(
                "others may write there (mode {mode:o}); look at what is in it, and run `chmod 700 {}`, or name another \
                 one with --state",
                self.directory.display()
            ));
        }
        if mode & 0o077 == 0 {
            return Ok(());
        }
        if let Some(other) = self.names()?.into_iter().find(|name| !is_ours(name)) {
            return untrusted(format!(
                "others may read there (mode {mode:o}), and it is not for journals alone ({other}); name another one \
                 with --state"
            ));
        }
        match fs::set_permissions(&self.directory, Permissions::from_mode(0o700)) {
            // Nor can any other user write there.
            Err(error) if is_without_room(&error) => Ok(()),
            set => set.map_err(failed("set the mode of")),
        }
    }

    /// A new journal.
    pub fn begin(
        &self,
        place: &BootAndNamespace,
        at_unix_s: u64,
        confirm_by_ms: Option<u64>,
    ) -> Result<Journal, Error> {
        self.begin_labelled(place, at_unix_s, confirm_by_ms, None)
    }

    /// The same with a label.
    pub fn begin_labelled(
        &self,
        place: &BootAndNamespace,
        at_unix_s: u64,
        confirm_by_ms: Option<u64>,
        label: Option<PlanLabel>,
    ) -> Result<Journal, Error> {
        create_directory(&self.directory, 0o700)?;
        // Its number is also above those of other files that belong to a journal, to avoid a reused name.
        let last = self.names()?.iter().filter_map(|name| number(name)).max().unwrap_or(0);
        let path = self.directory.join(format!("{:06}.jsonl", last + 1));
        let begin =
            JournalRecord::Begin { version: VERSION, place: place.clone(), at_unix_s, confirm_by_ms, label };
        let journal = Journal::create(path.clone(), self.spare.as_deref(), begin)
            .and_then(|journal| sync_directory(&self.directory).map(|()| journal));
        if journal.is_err() {
            // Nothing was done yet, and an empty file has no meaning.
            let _ = fs::remove_file(path);
        }
        journal
    }

    /// Those of which something can be read, the oldest first.
    pub fn all(&self) -> Result<Vec<Journal>, Error> {
        Ok(self.read()?.journals)
    }

    /// All of them. One that is empty is left out: its process was killed before anything was done.
    pub fn read(&self) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut paths: Vec<_> = self
            .names()?
            .into_iter()
            .filter(|name| name.ends_with(".jsonl"))
            .filter_map(|name| Some((number(&name)?, self.directory.join(name))))
            .collect();
        paths.sort();
        for (_, path) in paths {
            match Journal::open_with(&path, self.spare.as_deref()) {
                // What is expected of a plan is kept after its journal was begun.
                Ok(None) if ExpectedEffect::path(&path).exists() => {
                    let source = io::Error::new(io::ErrorKind::InvalidData, "it is empty");
                    found.unusable.push((path.clone(), Error::Io { what: "read", path, source }));
                }
                Ok(journal) => found.journals.extend(journal),
                Err(error) if error.is_not_found() => {}
                Err(error) if is_passing(&error) => return Err(error),
                Err(error) => found.unusable.push((path, error)),
            }
        }
        Ok(found)
    }

    /// Removes the oldest journals that are not needed for undoing: of plans that are undone, or ended with an
    /// earlier boot. The caller has the lock. Files that cannot be removed stay, and so do those that cannot be read in
    /// full: people may want to look at them.
    pub fn prune(&self, here: &BootAndNamespace, now_unix_s: u64) -> Result<(), Error> {
        let mut finished = self.all()?;
        finished.retain(|journal| {
            let boot_id = journal.place().map(|place| place.boot_id.as_str());
            let is_finished = journal.state() == PlanState::RolledBack || is_over(boot_id, here);
            is_finished && !journal.is_damaged() && !journal.is_in_doubt()
        });
        let too_many = finished.len().saturating_sub(FINISHED_MAX);
        for (index, journal) in finished.iter().enumerate() {
            let age_s = now_unix_s.saturating_sub(journal.begun_unix_s());
            if index < too_many || age_s > FINISHED_AGE_MAX_S {
                let _ = fs::remove_file(journal.path());
                let _ = ExpectedEffect::forget(journal.path());
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { what: "read", path: self.directory.clone(), source }),
        };
        Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }
}

impl Found {
    /// The journals, for a job that changes something: unless another version of this program has changed something,
    /// too.
    pub fn of_this_version(self, here: &BootAndNamespace) -> Result<Vec<Journal>, Error> {
        let is_other = |error: &Error| match error {
            Error::Version { boot_id, .. } => !is_over(boot_id.as_deref(), here),
            _ => false,
        };
        match self.unusable.into_iter().map(|(_, error)| error).find(is_other) {
            Some(error) => Err(error),
            None => Ok(self.journals),
        }
    }

    /// What cannot be read and may be about settings that are changed, as far as that has not ended with an earlier
    /// boot.
    pub fn doubts(&self, here: &BootAndNamespace) -> Vec<JournalDoubt> {
        let planned = |path: &Path| Some(ExpectedEffect::path(path)).filter(|path| path.exists());
        let of_file = |(path, error): &(PathBuf, Error)| match error {
            Error::Version { boot_id, .. } if is_over(boot_id.as_deref(), here) => None,
            Error::Version { .. } => Some(JournalDoubt::OtherVersion { error: error.to_string() }),
            _ => {
                let (path, planned) = (path.clone(), planned(path));
                Some(JournalDoubt::File { path, error: error.with_causes(), planned })
            }
        };
        let of_journal = |journal: &Journal| {
            let boot_id = journal.place().map(|place| place.boot_id.as_str());
            (journal.is_in_doubt() && !is_over(boot_id, here)).then(|| JournalDoubt::Lines {
                path: journal.path().to_owned(),
                unread: journal.unread().to_vec(),
                is_of_any_boot: boot_id.is_none(),
                planned: planned(journal.path()),
            })
        };
        let of_journals = self.journals.iter().filter_map(of_journal);
        of_journals.chain(self.unusable.iter().filter_map(of_file)).collect()
    }
}

/// Whether settings of this boot have ended with it.
fn is_over(boot_id: Option<&str>, here: &BootAndNamespace) -> bool {
    !here.boot_id.is_empty() && boot_id.is_some_and(|boot_id| boot_id != here.boot_id)
}

/// The number at the beginning of `000001.jsonl`, and of the files beside it.
fn number(name: &str) -> Option<u32> {
    name.split_once('.')?.0.parse().ok()
}

fn is_ours(name: &String) -> bool {
    name == LOCK || number(name).is_some()
}

/// The disk is full, or read-only.
fn is_without_room(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ROFS | Errno::NOSPC | Errno::DQUOT))
}

/// The error does not concern the file.
fn is_passing(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    matches!(Errno::from_io_error(source), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR))
}

/// With its parent directories, all of it on the disk.
fn create_directory(path: &Path, mode: u32) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(parent, 0o755)?;
    match DirBuilder::new().mode(mode).create(path) {
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
mod tests;
