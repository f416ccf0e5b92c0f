//! Directory of the journals: its permissions, its lock, and the journals in it.
//!
//! Files that root reads there decide what root writes to the host. So the directory is root's alone (0700).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation::NonBlockingLockExclusive;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::holder::{Holder, holder};
use super::{BootAndNamespace, Error, Journal, JournalRecord, NO_LINK, PlanState, VERSION};
use crate::apply::expected_effect::ExpectedEffect;

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
    _file: File,
}

/// A file with the name of a journal that cannot be used.
#[derive(Debug)]
pub struct Damaged {
    /// Its name.
    pub path: PathBuf,
    /// The error.
    pub error: Error,
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
        let file = self.lock_file(&path).map_err(failed)?;
        let mut looks = 1 + wait.as_millis() / LOCK_LOOK_EVERY.as_millis();
        loop {
            let locked = rustix::fs::flock(&file, NonBlockingLockExclusive);
            if stop() {
                return Err(Error::Stopped { path });
            }
            match locked {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if looks > 1 => {
                    looks -= 1;
                    std::thread::sleep(LOCK_LOOK_EVERY);
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::Locked { path, holder: holder(&file), waited: wait });
                }
                Err(errno) => return Err(failed(errno.into())),
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
        create_directory(&self.directory, 0o700)?;
        // Its number is also above those of journals that were set aside, to avoid a reused name.
        let last = self.names()?.iter().filter_map(|name| number(name)).max().unwrap_or(0);
        let path = self.directory.join(format!("{:06}.jsonl", last + 1));
        let begin = JournalRecord::Begin { version: VERSION, place: place.clone(), at_unix_s, confirm_by_ms };
        let journal = Journal::create(path.clone(), self.spare.as_deref(), begin)
            .and_then(|journal| sync_directory(&self.directory).map(|()| journal));
        if journal.is_err() {
            // Nothing was done yet, and an empty file has no meaning.
            let _ = fs::remove_file(path);
        }
        journal
    }

    /// All of them, the oldest first. One without a whole first line is left out, and so is one that
    /// [`Journals::read`] finds damaged.
    pub fn all(&self) -> Result<Vec<Journal>, Error> {
        Ok(self.read()?.0)
    }

    /// All of them, the oldest first, and the files with a journal's name that cannot be used.
    pub fn read(&self) -> Result<(Vec<Journal>, Vec<Damaged>), Error> {
        let (mut journals, mut damaged) = (Vec::new(), Vec::new());
        let mut paths: Vec<_> = self
            .names()?
            .into_iter()
            .filter(|name| name.ends_with(".jsonl"))
            .filter_map(|name| Some((number(&name)?, self.directory.join(name))))
            .collect();
        paths.sort();
        for (_, path) in paths {
            match Journal::open_with(&path, self.spare.as_deref()) {
                Ok(journal) => journals.extend(journal),
                Err(error) if error.is_not_found() => {}
                Err(error) if is_passing(&error) => return Err(error),
                Err(error) => damaged.push(Damaged { path, error }),
            }
        }
        Ok((journals, damaged))
    }

    /// Renames a damaged file, so that it is not reported again; returns its new path. The caller has the lock.
    pub fn set_aside(&self, damaged: &Damaged) -> Result<PathBuf, Error> {
        let mut aside = damaged.path.with_extension("jsonl.damaged");
        let mut again = 1;
        while aside.symlink_metadata().is_ok() {
            again += 1;
            aside = damaged.path.with_extension(format!("jsonl.damaged-{again}"));
        }
        let renamed = fs::rename(&damaged.path, &aside);
        renamed.map_err(|source| Error::Io { what: "set aside", path: damaged.path.clone(), source })?;
        Ok(aside)
    }

    /// Removes the oldest journals that are not needed for undoing: of plans that are undone, or ended with an
    /// earlier boot. The caller has the lock. Files that cannot be removed stay.
    pub fn prune(&self, here: &BootAndNamespace, now_unix_s: u64) -> Result<(), Error> {
        let mut finished = self.all()?;
        finished.retain(|journal| {
            let is_over = !here.boot_id.is_empty() && journal.place().boot_id != here.boot_id;
            journal.state() == PlanState::RolledBack || is_over
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
