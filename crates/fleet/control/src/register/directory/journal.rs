//! Writing a directory register: one file for each commit, and now and then the whole state.
//!
//! A commit exists when its file has its name: written and `fsync`ed as `unfinished`, renamed, the folder `fsync`ed. A
//! crash leaves the state before or the state after. Older files are removed only when a newer state is on the disk.

use std::io;

use super::folder::Folder;
use super::load::{LoadedDirectory, UNFINISHED, damaged, disk, load};
use super::record::{FileKind, commit_file, file_name, state_file};
use crate::register::contents::RegisterContents;
use crate::register::error::RegisterError;
use crate::register::numbers::Revision;
use crate::register::transaction::{Write, WriteBody};

/// Commits after which the state is written anew, and commits that stay for watches: a directory has at most some 500
/// files, and is read in some milliseconds.
pub(crate) const COMMITS_PER_STATE: u64 = 256;
/// Commits after which nothing more is accepted if the state cannot be written.
pub(crate) const COMMITS_MAX: u64 = 4 * COMMITS_PER_STATE;
/// Bytes of all keys and values. All of it is in memory, and is written once in 256 commits.
pub(crate) const CONTENTS_LEN_MAX: usize = 64 << 20;

/// A register's contents and their folder.
pub(crate) struct DirectoryJournal {
    folder: Box<dyn Folder>,
    contents: RegisterContents,
    state: Revision,
    /// A write that failed in such a way that nobody knows what the disk has. Only reading everything again helps.
    broken: bool,
}

impl DirectoryJournal {
    /// Reads a folder, begins it if it is empty, and removes what a crash left. What leases held is deleted: they ended
    /// with the process that granted them.
    ///
    /// # Errors
    /// If a file is damaged or not ours, or the disk does not do it. `was_used`: there must be files.
    pub(crate) fn open(folder: Box<dyn Folder>, was_used: bool) -> Result<DirectoryJournal, RegisterError> {
        let mut journal = match load(&*folder)? {
            Some(LoadedDirectory { contents, state, leftovers }) => {
                let mut journal = DirectoryJournal { folder, contents, state, broken: false };
                for name in leftovers {
                    journal.remove(&name)?;
                }
                journal
            }
            None if was_used => {
                let name = file_name(FileKind::State, Revision::FIRST);
                let why = "it is missing, although the directory was in use\n  hint: restore the directory, or remove \
                           its lock file to begin an empty register";
                return Err(damaged(&*folder, &name, why));
            }
            None => {
                let contents = RegisterContents::default();
                let mut journal =
                    DirectoryJournal { folder, contents, state: Revision::ABSENT, broken: false };
                journal.write_state()?;
                journal
            }
        };
        let deletes = journal.contents.of_all_leases();
        journal.commit(&deletes)?;
        Ok(journal)
    }

    /// The contents.
    ///
    /// # Errors
    /// If a write failed in such a way that they may not be what the disk has.
    pub(crate) fn contents(&self) -> Result<&RegisterContents, RegisterError> {
        match self.broken {
            false => Ok(&self.contents),
            true => {
                let why =
                    "what the disk has of the last write is not known\n  hint: start the controller again";
                Err(damaged(&*self.folder, "", why))
            }
        }
    }

    /// Carries out writes durably. An error has changed nothing, except [`RegisterError::Unsettled`].
    ///
    /// # Errors
    /// If the disk does not do it, or a limit is reached.
    pub(crate) fn commit(&mut self, writes: &[Write]) -> Result<Revision, RegisterError> {
        let contents = self.contents()?;
        if !contents.changes(writes) {
            return Ok(contents.revision());
        }
        self.check_room(writes)?;
        if self.commits_since_state() >= COMMITS_MAX {
            self.write_state()?;
        }
        let is_effective = |write: &&Write| {
            !matches!(write.body, WriteBody::Delete) || self.contents.get(&write.key).is_some()
        };
        let writes: Vec<Write> = writes.iter().filter(is_effective).cloned().collect();
        let revision = self.contents.revision().next();
        let file = commit_file(revision, &writes);
        self.publish(&file_name(FileKind::Commit, revision), &file).map_err(|failure| match failure {
            PublishFailure::Before(error) => error,
            PublishFailure::Unknown(why) => {
                self.broken = true;
                RegisterError::Unsettled { key: writes[0].key.clone(), why: why.to_string() }
            }
        })?;
        self.contents.apply(&writes);
        if self.commits_since_state() >= COMMITS_PER_STATE {
            // The commit is durable. If the state cannot be written now, later commits try again, up to a limit.
            let _ =
                self.write_state().and_then(|()| self.forget(revision.0.saturating_sub(COMMITS_PER_STATE)));
        }
        Ok(revision)
    }

    /// Forgets changes up to a revision.
    ///
    /// # Errors
    /// If the register does not have it, or the disk does not do it.
    pub(crate) fn compact(&mut self, up_to: Revision) -> Result<(), RegisterError> {
        self.contents()?.check_compaction(up_to)?;
        self.write_state()?;
        self.forget(up_to.0)
    }

    fn check_room(&self, writes: &[Write]) -> Result<(), RegisterError> {
        let len = |write: &Write| match &write.body {
            WriteBody::Put(value, _) => write.key.as_str().len() + value.len(),
            WriteBody::Delete => 0,
        };
        let more: usize = writes.iter().map(len).sum();
        if more > 0 && self.contents.len() + more > CONTENTS_LEN_MAX {
            let what = "the directory".to_owned();
            return Err(RegisterError::TooLarge {
                what,
                max: CONTENTS_LEN_MAX,
                unit: "bytes of keys and values",
            });
        }
        Ok(())
    }

    fn commits_since_state(&self) -> u64 {
        self.contents.revision().0 - self.state.0
    }

    fn write_state(&mut self) -> Result<(), RegisterError> {
        let revision = self.contents.revision();
        if revision == self.state {
            return Ok(());
        }
        let name = file_name(FileKind::State, revision);
        let file = state_file(revision, self.contents.entries());
        // A state that may be there or not changes nothing: it says the same as the commits before it.
        self.publish(&name, &file).map_err(|failure| match failure {
            PublishFailure::Before(error) => error,
            PublishFailure::Unknown(source) => disk("write", &*self.folder, &name, source),
        })?;
        let older = std::mem::replace(&mut self.state, revision);
        match older {
            Revision::ABSENT => Ok(()),
            older => self.remove(&file_name(FileKind::State, older)),
        }
    }

    /// Removes commits up to a revision, the oldest first, so that what is left has no gap.
    fn forget(&mut self, up_to: u64) -> Result<(), RegisterError> {
        for revision in self.contents.compacted().0 + 1..=up_to {
            self.remove(&file_name(FileKind::Commit, Revision(revision)))?;
            self.contents.compact(Revision(revision));
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), RegisterError> {
        match self.folder.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|source| disk("remove", &*self.folder, name, source)),
        }
    }

    /// Gives the folder a file, whole or not at all.
    fn publish(&mut self, name: &str, bytes: &[u8]) -> Result<(), PublishFailure> {
        let written = self.folder.write(UNFINISHED, bytes);
        let written = written.map_err(|source| ("write", source));
        let named = written
            .and_then(|()| self.folder.rename(UNFINISHED, name).map_err(|source| ("rename to", source)));
        if let Err((what, source)) = named {
            let before = disk(what, &*self.folder, name, source);
            return match (what, self.folder.remove(UNFINISHED)) {
                // The rename was reported as failed, but has happened.
                ("rename to", Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                    Err(PublishFailure::Unknown(error))
                }
                _ => Err(PublishFailure::Before(before)),
            };
        }
        self.folder.sync().map_err(PublishFailure::Unknown)
    }
}

enum PublishFailure {
    /// Nothing was changed.
    Before(RegisterError),
    /// The file may be there after a crash or not.
    Unknown(io::Error),
}

#[cfg(test)]
mod tests;
