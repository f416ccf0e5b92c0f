//! Reading a directory register: the newest state, and the commits before and behind it.

use std::io;

use super::folder::Folder;
use super::record::{FileKind, file_name, parse_name, read_commit, read_state};
use crate::register::contents::{RegisterContents, RegisterEvent};
use crate::register::error::RegisterError;
use crate::register::numbers::Revision;
use crate::register::transaction::{Write, WriteBody};

/// The file that the writer locks.
pub(crate) const LOCK: &str = "lock";
/// A file that is being written. After a crash it means nothing.
pub(crate) const UNFINISHED: &str = "unfinished";
/// What the root of a file system of its own has.
const LOST_FOUND: &str = "lost+found";

/// How often a reader begins again because the writer has removed a file that was still listed. The writer removes at
/// most once in 256 commits.
const ATTEMPTS_MAX: usize = 8;

/// What the files say.
pub(crate) struct LoadedDirectory {
    /// Keys, and the changes that are remembered.
    pub contents: RegisterContents,
    /// The newest state.
    pub state: Revision,
    /// Files that a crash left behind, which nothing needs.
    pub leftovers: Vec<String>,
}

/// Reads everything; none if there is neither a state nor a commit.
///
/// # Errors
/// If a file is torn, missing or not ours.
pub(crate) fn load(folder: &dyn Folder) -> Result<Option<LoadedDirectory>, RegisterError> {
    for _ in 1..ATTEMPTS_MAX {
        match load_once(folder) {
            Err(RegisterError::Disk { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
    }
    load_once(folder)
}

fn load_once(folder: &dyn Folder) -> Result<Option<LoadedDirectory>, RegisterError> {
    let Listing { mut states, commits, mut leftovers } = list(folder)?;
    let Some(state) = states.pop() else {
        return match commits.first() {
            None => Ok(None),
            Some(_) => Err(missing(folder, FileKind::State, Revision::FIRST)),
        };
    };
    leftovers.extend(states.into_iter().map(|older| file_name(FileKind::State, older)));
    let entries = read(folder, FileKind::State, state, read_state)?;
    let mut contents = RegisterContents::restored(state, entries);
    let (earlier, later) = commits.split_at(commits.partition_point(|commit| *commit <= state));
    let known = unbroken_end(earlier, state);
    leftovers.extend(earlier[..earlier.len() - known].iter().map(|old| file_name(FileKind::Commit, *old)));
    let mut remembered: Vec<RegisterEvent> = Vec::new();
    for commit in &earlier[earlier.len() - known..] {
        let writes = read(folder, FileKind::Commit, *commit, read_commit)?;
        remembered.extend(writes.into_iter().map(|write| event(*commit, write)));
    }
    contents.remember(Revision(state.0 - known as u64), remembered);
    for commit in later {
        apply_next(folder, &mut contents, *commit)?;
    }
    Ok(Some(LoadedDirectory { contents, state, leftovers }))
}

/// Adds the commit that follows the contents.
///
/// # Errors
/// If it is another one, or its file cannot be believed.
pub(crate) fn apply_next(
    folder: &dyn Folder,
    contents: &mut RegisterContents,
    commit: Revision,
) -> Result<(), RegisterError> {
    if commit != contents.revision().next() {
        return Err(missing(folder, FileKind::Commit, contents.revision().next()));
    }
    let writes = read(folder, FileKind::Commit, commit, read_commit)?;
    if contents.apply(&writes) != commit {
        return Err(damaged(folder, &file_name(FileKind::Commit, commit), "it changes nothing"));
    }
    Ok(())
}

/// The revisions that a folder has files of, in order.
pub(crate) struct Listing {
    pub states: Vec<Revision>,
    pub commits: Vec<Revision>,
    pub leftovers: Vec<String>,
}

/// Lists the files.
///
/// # Errors
/// If one of them is not ours.
pub(crate) fn list(folder: &dyn Folder) -> Result<Listing, RegisterError> {
    let mut listing = Listing { states: Vec::new(), commits: Vec::new(), leftovers: Vec::new() };
    let mut names = folder.names().map_err(|source| disk("list", folder, "", source))?;
    names.sort_unstable();
    for name in names {
        match parse_name(&name) {
            Some((FileKind::State, revision)) => listing.states.push(revision),
            Some((FileKind::Commit, revision)) => listing.commits.push(revision),
            None if name == UNFINISHED => listing.leftovers.push(name),
            None if [LOCK, LOST_FOUND].contains(&&*name) => {}
            None => {
                let why = "it is not a file of a register\n  hint: a register needs a directory of its own";
                return Err(damaged(folder, &name, why));
            }
        }
    }
    Ok(listing)
}

/// How many of the last revisions follow each other up to `last`.
fn unbroken_end(revisions: &[Revision], last: Revision) -> usize {
    let expected = (0..).map(|back| last.0 - back);
    revisions.iter().rev().zip(expected).take_while(|(found, expected)| found.0 == *expected).count()
}

fn event(revision: Revision, write: Write) -> RegisterEvent {
    let value = match write.body {
        WriteBody::Put(value, _) => Some(value.into()),
        WriteBody::Delete => None,
    };
    RegisterEvent { key: write.key, revision, value }
}

fn read<T>(
    folder: &dyn Folder,
    kind: FileKind,
    revision: Revision,
    parse: impl Fn(Revision, &[u8]) -> Result<T, String>,
) -> Result<T, RegisterError> {
    let name = file_name(kind, revision);
    let bytes = folder.read(&name).map_err(|source| disk("read", folder, &name, source))?;
    parse(revision, &bytes).map_err(|why| damaged(folder, &name, &why))
}

fn missing(folder: &dyn Folder, kind: FileKind, revision: Revision) -> RegisterError {
    damaged(folder, &file_name(kind, revision), "it is missing, although later ones are there")
}

/// An error about one file.
pub(crate) fn damaged(folder: &dyn Folder, name: &str, why: &str) -> RegisterError {
    RegisterError::Damaged { path: folder.path().join(name), why: why.to_owned() }
}

/// An error of the disk about one file, or about the folder if the name is empty.
pub(crate) fn disk(what: &'static str, folder: &dyn Folder, name: &str, source: io::Error) -> RegisterError {
    let path = if name.is_empty() { folder.path().to_owned() } else { folder.path().join(name) };
    RegisterError::Disk { what, path, source }
}
