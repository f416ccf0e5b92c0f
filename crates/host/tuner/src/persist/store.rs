//! Persistent files: written all or none, compared with their written texts, and removed.
//!
//! A manifest in `/etc/evenkeel` holds the texts. It is on the disk before the first file, together with the earlier
//! content, so that after a process was killed at any moment the next one can restore a consistent state. Other
//! programs' files are never overwritten, and edited files are never lost.

mod disk;
mod manifest;

use std::collections::BTreeSet;
use std::io;

use super::boot::DIRECTORY;
use super::{HeldSetting, Persistence, PersistentFile};
use crate::observe::root::Root;
pub use disk::{Found, PersistentDisk, RootDisk};
use manifest::{Manifest, State};

/// The suffix of an edited file when ours replaces it or is removed: programs do not read such names.
const EDITED: &str = ".edited";

/// Errors of writing and removing files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{what} {path}")]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// There is a file of this name from another author.
    #[error("write {path}: there is one already, and it is not ours")]
    Foreign {
        /// The file.
        path: String,
    },
    /// A user has changed it since.
    #[error("write {path}: it was edited since it was written")]
    Edited {
        /// The file.
        path: String,
    },
    /// The manifest is invalid.
    #[error("understand {path}")]
    Manifest {
        /// The file.
        path: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// It is of another version.
    #[error("understand {path}: it is of version {version}")]
    Version {
        /// The file.
        path: &'static str,
        /// The version.
        version: u32,
    },
    /// Another process is writing at the moment.
    #[error("lock {DIRECTORY}: another `evenkeel tune persist` is at work")]
    Locked,
    /// There are no persistent files.
    #[error("take away what persists: nothing does")]
    Nothing,
    /// Writing failed, and restoring the earlier content failed, too.
    #[error("{error}; and not everything could be put back: {undoing}")]
    Halfway {
        /// Why writing failed.
        error: Box<Error>,
        /// Why undoing failed.
        undoing: Box<Error>,
    },
}

/// The state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// As it was written.
    AsWritten,
    /// Its text, its kind or its permissions are not those that were written.
    Edited,
    /// It is gone.
    Missing,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Files that were written or removed.
    pub paths: Vec<String>,
    /// Edited files, and their new paths.
    pub aside: Vec<(String, String)>,
    /// Whether an earlier attempt had been interrupted, and was undone first.
    pub recovered: bool,
}

/// The persistent files of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The files, and their states.
    pub files: Vec<(PersistentFile, FileState)>,
    /// Whether writing or removing was interrupted.
    pub interrupted: bool,
}

/// The persistent settings.
pub fn status(root: &Root) -> Result<Status, Error> {
    let disk = RootDisk::new(root.clone());
    let manifest = manifest::read(&disk)?;
    let interrupted = manifest.state != State::Whole;
    let mut files = Vec::new();
    for file in manifest.files {
        let condition = condition(&disk, &file)?;
        files.push((file, condition));
    }
    Ok(Status { files, interrupted })
}

/// The settings since the last start, because the files existed then.
pub fn held(root: &Root) -> Result<Vec<HeldSetting>, Error> {
    let manifest = manifest::read(&RootDisk::new(root.clone()))?;
    Ok(if manifest.boot_id == boot_id(root) { Vec::new() } else { manifest.held })
}

/// Empty where it cannot be read.
fn boot_id(root: &Root) -> String {
    root.read("/proc/sys/kernel/random/boot_id").ok().flatten().unwrap_or_default()
}

/// Writes the files; earlier ones that are not among them are removed. With `force` edited files are renamed and
/// replaced.
pub fn write(root: &Root, persistence: &Persistence, force: bool) -> Result<Done, Error> {
    let mut disk = RootDisk::new(root.clone());
    disk.make_directory(DIRECTORY).map_err(failed("create", DIRECTORY))?;
    let _lock = disk.lock()?;
    let written = write_to(&mut disk, persistence, &boot_id(root), force);
    if written.is_err() {
        // An empty directory means nothing; one that is not empty stays.
        let _ = disk.remove_directory(DIRECTORY);
    }
    written
}

/// Removes all files; edited ones are renamed.
pub fn remove(root: &Root) -> Result<Done, Error> {
    let mut disk = RootDisk::new(root.clone());
    if !root.exists(DIRECTORY) {
        return Err(Error::Nothing);
    }
    let _lock = disk.lock()?;
    let removed = remove_from(&mut disk);
    // Other files there keep the directory.
    let _ = disk.remove_directory(DIRECTORY);
    removed
}

fn write_to(
    disk: &mut dyn PersistentDisk,
    persistence: &Persistence,
    boot_id: &str,
    force: bool,
) -> Result<Done, Error> {
    let files = &persistence.files;
    let recovered = recover(disk)?;
    let before = manifest::read(disk)?;
    let mut done = Done { recovered, ..Done::default() };
    let mut edited = Vec::new();
    for file in files {
        let Some(known) = before.files.iter().find(|known| known.path == file.path) else {
            match find(disk, &file.path)? {
                Found::Nothing => continue,
                _ => return Err(Error::Foreign { path: file.path.clone() }),
            }
        };
        if condition(disk, known)? == FileState::Edited {
            edited.push(known.path.clone());
        }
    }
    let gone = before.files.iter().filter(|known| !files.iter().any(|file| file.path == known.path));
    let gone: Vec<PersistentFile> = gone.cloned().collect();
    for known in &gone {
        if condition(disk, known)? == FileState::Edited {
            edited.push(known.path.clone());
        }
    }
    if let (Some(path), false) = (edited.first(), force) {
        return Err(Error::Edited { path: path.clone() });
    }
    for path in edited {
        let aside = copy_aside(disk, &path)?;
        done.aside.push((path, aside));
    }
    let mut previous = Vec::new();
    for known in &before.files {
        if let Found::File { text, mode } = find(disk, &known.path)? {
            previous.push(PersistentFile { text, mode, ..known.clone() });
        }
    }
    let mut directories: BTreeSet<String> = before.directories.clone();
    directories.extend(files.iter().flat_map(|file| missing_directories(disk, &file.path)));
    let known = before.files.clone();
    let manifest = Manifest { state: State::Writing, files: files.clone(), previous, directories, ..before };
    manifest::write(disk, &manifest)?;
    let whole = Manifest { held: persistence.held.clone(), boot_id: boot_id.to_owned(), ..manifest.clone() };
    let outcome = carry_out(disk, whole, &known, &gone);
    match outcome {
        Ok(()) => {
            done.paths = files.iter().map(|file| file.path.clone()).collect();
            Ok(done)
        }
        Err(error) => match recover(disk) {
            Ok(_) => Err(error),
            Err(undoing) => Err(Error::Halfway { error: Box::new(error), undoing: Box::new(undoing) }),
        },
    }
}

fn carry_out(
    disk: &mut dyn PersistentDisk,
    manifest: Manifest,
    known: &[PersistentFile],
    gone: &[PersistentFile],
) -> Result<(), Error> {
    for directory in &manifest.directories {
        disk.make_directory(directory).map_err(failed("create", directory))?;
    }
    for file in &manifest.files {
        // A link or the like in the place of one of ours was renamed.
        let is_new = !known.iter().any(|known| known.path == file.path);
        disk.replace(&file.path, &file.text, file.mode, is_new).map_err(failed("write", &file.path))?;
    }
    for file in gone {
        disk.remove(&file.path).map_err(failed("remove", &file.path))?;
    }
    let left = remove_directories(disk, &manifest);
    let whole = Manifest { state: State::Whole, previous: Vec::new(), directories: left, ..manifest };
    manifest::write(disk, &whole)
}

pub(crate) fn remove_from(disk: &mut dyn PersistentDisk) -> Result<Done, Error> {
    let recovered = recover(disk)?;
    let manifest = manifest::read(disk)?;
    if manifest.files.is_empty() {
        return Err(Error::Nothing);
    }
    let mut done = Done { recovered, ..Done::default() };
    for file in &manifest.files {
        match condition(disk, file)? {
            FileState::Missing => continue,
            FileState::AsWritten => {}
            FileState::Edited => {
                let aside = copy_aside(disk, &file.path)?;
                done.aside.push((file.path.clone(), aside));
            }
        }
        disk.remove(&file.path).map_err(failed("remove", &file.path))?;
        done.paths.push(file.path.clone());
    }
    remove_directories(disk, &manifest);
    manifest::remove(disk)?;
    Ok(done)
}

/// Undoes an interrupted write: the earlier content is restored. Returns whether there was one.
fn recover(disk: &mut dyn PersistentDisk) -> Result<bool, Error> {
    let manifest = manifest::read(disk)?;
    if manifest.state == State::Whole {
        return Ok(false);
    }
    for file in &manifest.files {
        let found = find(disk, &file.path)?;
        disk.remove_unfinished(&file.path).map_err(failed("remove what is unfinished of", &file.path))?;
        // Another program's by now, or never written.
        let is_new = matches!(&found, Found::File { text, .. } if *text == file.text);
        if is_new && !manifest.previous.iter().any(|previous| previous.path == file.path) {
            disk.remove(&file.path).map_err(failed("remove", &file.path))?;
        }
    }
    // Those that have become empty may be gone already.
    let needs = |directory: &&String| {
        manifest.previous.iter().any(|previous| previous.path.starts_with(&format!("{directory}/")))
    };
    for directory in manifest.directories.iter().filter(needs) {
        disk.make_directory(directory).map_err(failed("create", directory))?;
    }
    for previous in &manifest.previous {
        let new = manifest.files.iter().find(|file| file.path == previous.path).map(|file| &file.text);
        match find(disk, &previous.path)? {
            Found::File { text, .. } if Some(&text) == new => {
                disk.replace(&previous.path, &previous.text, previous.mode, false)
            }
            Found::Nothing => disk.replace(&previous.path, &previous.text, previous.mode, true),
            _ => Ok(()),
        }
        .map_err(failed("put back", &previous.path))?;
    }
    let directories = remove_directories(disk, &manifest);
    if manifest.previous.is_empty() {
        manifest::remove(disk)?;
    } else {
        let files = manifest.previous.clone();
        let whole = Manifest { state: State::Whole, files, previous: Vec::new(), directories, ..manifest };
        manifest::write(disk, &whole)?;
    }
    Ok(true)
}

/// Removes those of our directories that are empty, the innermost first, and returns those that are left.
fn remove_directories(disk: &mut dyn PersistentDisk, manifest: &Manifest) -> BTreeSet<String> {
    let mut left = manifest.directories.clone();
    for directory in manifest.directories.iter().rev() {
        // Not empty, or not there: both is fine.
        if disk.remove_directory(directory).is_ok() {
            left.remove(directory);
        }
    }
    left
}

/// Directories that have to be made for a file, the outermost first.
fn missing_directories(disk: &dyn PersistentDisk, path: &str) -> Vec<String> {
    let ancestors = std::path::Path::new(path).ancestors().skip(1);
    let missing = ancestors.filter_map(|path| path.to_str()).take_while(|path| !disk.is_directory(path));
    let mut missing: Vec<String> = missing.map(str::to_owned).collect();
    missing.reverse();
    missing
}

fn condition(disk: &dyn PersistentDisk, file: &PersistentFile) -> Result<FileState, Error> {
    Ok(match find(disk, &file.path)? {
        Found::Nothing => FileState::Missing,
        Found::File { text, mode } if text == file.text && mode == file.mode => FileState::AsWritten,
        _ => FileState::Edited,
    })
}

fn copy_aside(disk: &mut dyn PersistentDisk, path: &str) -> Result<String, Error> {
    let mut aside = format!("{path}{EDITED}");
    // An earlier copy is a user's work, too.
    for number in 2.. {
        if find(disk, &aside)? == Found::Nothing {
            break;
        }
        aside = format!("{path}{EDITED}.{number}");
    }
    disk.copy(path, &aside).map_err(failed("keep a copy of", path))?;
    Ok(aside)
}

fn find(disk: &dyn PersistentDisk, path: &str) -> Result<Found, Error> {
    disk.find(path).map_err(failed("read", path))
}

fn failed<'p>(what: &'static str, path: &'p str) -> impl FnOnce(io::Error) -> Error + 'p {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
