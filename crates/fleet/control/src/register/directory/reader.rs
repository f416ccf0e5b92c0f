//! Readers of a directory register in other processes than its writer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use os::clock::Stopwatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use super::folder::HostFolder;
use super::load::{Listing, apply_next, list, load};
use super::step;
use crate::register::contents::RegisterContents;
use crate::register::contract::{RangeAnswer, RegisterWatch, WatchStep};
use crate::register::error::RegisterError;
use crate::register::keys::KeyPrefix;
use crate::register::numbers::Revision;

/// The longest wait between two looks: where the kernel tells nothing (a network file system), changes are seen then.
const LOOK: Duration = Duration::from_secs(1);

/// Reads a directory whose writer may be another process. It writes nothing and takes no lock.
pub struct DirectoryReader {
    folder: HostFolder,
    contents: RegisterContents,
}

impl DirectoryReader {
    /// Reads a directory.
    ///
    /// # Errors
    /// If there is none, or no register in it, or a file is damaged or not ours.
    pub fn open(path: &Path) -> Result<DirectoryReader, RegisterError> {
        let folder = HostFolder(path.to_owned());
        let contents = read(&folder)?;
        Ok(DirectoryReader { folder, contents })
    }

    /// All keys below a prefix, as they are now.
    ///
    /// # Errors
    /// As [`DirectoryReader::open`], and if the register went back.
    pub fn range(&mut self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
        self.refresh()?;
        Ok(RangeAnswer { entries: self.contents.range(prefix), revision: self.contents.revision() })
    }

    /// Changes below a prefix after a revision.
    ///
    /// # Errors
    /// If the kernel does not watch the directory.
    pub fn watch(self, prefix: &KeyPrefix, after: Revision) -> Result<Box<dyn RegisterWatch>, RegisterError> {
        let failed = |path: &PathBuf, error: Errno| RegisterError::Disk {
            what: "watch",
            path: path.clone(),
            source: error.into(),
        };
        let path = &self.folder.0;
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let changes = changes.map_err(|error| failed(path, error))?;
        inotify::add_watch(&changes, path, WatchFlags::MOVED_TO).map_err(|error| failed(path, error))?;
        Ok(Box::new(ReaderWatch { reader: self, changes, prefix: prefix.clone(), after }))
    }

    fn refresh(&mut self) -> Result<(), RegisterError> {
        let Listing { states, commits, .. } = list(&self.folder)?;
        let had = self.contents.revision();
        let found = states.last().max(commits.last()).copied().unwrap_or(Revision::ABSENT);
        if found < had {
            return Err(RegisterError::WentBack { had, found });
        }
        let new = &commits[commits.partition_point(|commit| *commit <= had)..];
        for commit in new {
            if apply_next(&self.folder, &mut self.contents, *commit).is_err() {
                break;
            }
        }
        if self.contents.revision() < found {
            // The writer has removed some of them already, or one is damaged: reading everything tells.
            self.contents = read(&self.folder)?;
        }
        Ok(())
    }
}

fn read(folder: &HostFolder) -> Result<RegisterContents, RegisterError> {
    match load(folder)? {
        Some(loaded) => Ok(loaded.contents),
        None => Err(RegisterError::Unavailable(format!(
            "there is no register in {} yet\n  hint: its controller creates it",
            folder.0.display()
        ))),
    }
}

struct ReaderWatch {
    reader: DirectoryReader,
    changes: OwnedFd,
    prefix: KeyPrefix,
    after: Revision,
}

impl RegisterWatch for ReaderWatch {
    fn next(&mut self, wait: Duration) -> Result<WatchStep, RegisterError> {
        let waited = Stopwatch::start();
        loop {
            // What is renamed from here on wakes the wait below.
            self.drain();
            self.reader.refresh()?;
            let step = step(&self.reader.contents, &self.prefix, &mut self.after)?;
            let left = wait.saturating_sub(waited.passed());
            if step != WatchStep::Quiet || left.is_zero() {
                return Ok(step);
            }
            let left = left.min(LOOK);
            let time = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            // Interrupted or not: the next look tells.
            let _ = poll(&mut [PollFd::new(&self.changes, PollFlags::IN)], Some(&time));
        }
    }
}

impl ReaderWatch {
    fn drain(&self) {
        let mut buffer = [0_u8; 4096];
        while rustix::io::read(&self.changes, &mut buffer).is_ok_and(|len| len > 0) {}
    }
}
