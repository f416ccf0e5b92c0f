//! File operations of the store, each atomic: after a crash a file is the old one or the new one.

#![allow(
    clippy::disallowed_methods,
    reason = "the folders of settings are root's alone; links out of a captured host are refused"
)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use os::LockedFile;

use super::{DIRECTORY, Error};
use crate::observe::root::Root;

/// A larger file is not a configuration file.
const FILE_LEN_MAX: u64 = 16 << 20;

/// The content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A regular file.
    File {
        /// Its text.
        text: String,
        /// Its permissions.
        mode: u32,
    },
    /// A link, a directory, a file that is no text…
    Other,
}

/// A file system; paths are absolute, as the host sees them.
pub trait PersistentDisk {
    /// The present content. Links are not followed.
    fn find(&self, path: &str) -> io::Result<Found>;
    /// Whether there is a directory, also behind a link.
    fn is_directory(&self, path: &str) -> bool;
    /// Makes a directory if it does not exist.
    fn make_directory(&mut self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_directory(&mut self, path: &str) -> io::Result<()>;
    /// Puts a text on the disk under this name; if it `is_new`, there must be nothing of that name.
    fn replace(&mut self, path: &str, text: &str, mode: u32, is_new: bool) -> io::Result<()>;
    /// Removes a file if it exists.
    fn remove(&mut self, path: &str) -> io::Result<()>;
    /// Removes the remains of an interrupted `replace`.
    fn remove_unfinished(&mut self, path: &str) -> io::Result<()>;
    /// Copies a file, byte for byte, to a path where there is none.
    fn copy(&mut self, path: &str, to: &str) -> io::Result<()>;
}

/// The file system under a root.
#[derive(Clone, Debug)]
pub struct RootDisk(Root);

/// While it exists, no other process writes.
#[derive(Debug)]
pub(super) struct Lock {
    _directory: LockedFile,
}

impl RootDisk {
    /// The one under this root.
    pub fn new(root: Root) -> RootDisk {
        RootDisk(root)
    }

    pub(super) fn lock(&self) -> Result<Lock, Error> {
        let failed = |source| Error::Io { what: "lock", path: DIRECTORY.to_owned(), source };
        let directory = File::open(self.0.path(DIRECTORY)).map_err(failed)?;
        match LockedFile::try_lock(directory).map_err(failed)? {
            Ok(directory) => Ok(Lock { _directory: directory }),
            Err(_) => Err(Error::Locked),
        }
    }

    /// The path here. A link in the directories of another host's tree must not lead to this host's files.
    fn path(&self, path: &str) -> io::Result<PathBuf> {
        let here = self.0.path(path);
        if !self.0.is_live() {
            let root = fs::canonicalize(self.0.path("/"))?;
            let there = here.ancestors().skip(1).find_map(|directory| fs::canonicalize(directory).ok());
            if !there.is_some_and(|there| there.starts_with(&root)) {
                return Err(io::Error::other("a link leads out of the directory given with --root"));
            }
        }
        Ok(here)
    }
}

impl PersistentDisk for RootDisk {
    fn find(&self, path: &str) -> io::Result<Found> {
        let here = self.path(path)?;
        let metadata = match fs::symlink_metadata(&here) {
            Ok(metadata) => metadata,
            Err(error) if is_gone(&error) => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        if !metadata.is_file() || metadata.len() > FILE_LEN_MAX {
            return Ok(Found::Other);
        }
        let mut bytes = Vec::new();
        File::open(&here)?.take(FILE_LEN_MAX).read_to_end(&mut bytes)?;
        let mode = metadata.mode() & 0o7777;
        Ok(String::from_utf8(bytes).map_or(Found::Other, |text| Found::File { text, mode }))
    }

    fn is_directory(&self, path: &str) -> bool {
        self.0.path(path).is_dir()
    }

    fn make_directory(&mut self, path: &str) -> io::Result<()> {
        let here = self.path(path)?;
        match DirBuilder::new().mode(0o755).create(&here) {
            Ok(()) => sync(here.parent()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && here.is_dir() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn remove_directory(&mut self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path)?)
    }

    fn replace(&mut self, path: &str, text: &str, mode: u32, is_new: bool) -> io::Result<()> {
        let here = self.path(path)?;
        let unfinished = unfinished(&here);
        remove_file(&unfinished)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        // The umask may have removed some of it.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        if is_new {
            // A link, unlike renaming, does not replace a file that another program has made meanwhile.
            let linked = fs::hard_link(&unfinished, &here);
            fs::remove_file(&unfinished)?;
            linked?;
        } else {
            fs::rename(&unfinished, &here)?;
        }
        sync(here.parent())
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        let here = self.path(path)?;
        remove_file(&here)?;
        sync(here.parent())
    }

    fn remove_unfinished(&mut self, path: &str) -> io::Result<()> {
        remove_file(&unfinished(&self.path(path)?))
    }

    fn copy(&mut self, path: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path(path)?, self.path(to)?);
        match fs::symlink_metadata(&from)?.is_symlink() {
            true => std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?,
            false => {
                fs::copy(&from, &to)?;
                File::open(&to)?.sync_all()?;
            }
        }
        sync(to.parent())
    }
}

/// A name that neither systemd nor udev reads.
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.unfinished"))
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// It, or a directory on the way to it, is not there.
fn is_gone(error: &io::Error) -> bool {
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind())
}

fn sync(directory: Option<&Path>) -> io::Result<()> {
    match directory.map(File::open) {
        Some(Ok(directory)) => directory.sync_all(),
        Some(Err(error)) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}
