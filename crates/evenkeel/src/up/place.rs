//! The folder of a cluster: the router's configuration, and what each process writes.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use os::DirectoryEntry;

use crate::failure::Failure;

/// Names that are tried for a new folder: beyond so many that are left, somebody is to look at them.
const FOLDERS_MAX: usize = 100;

/// A folder, removed with this value unless the user has named it.
pub(super) struct Place {
    folder: PathBuf,
    is_kept: bool,
}

impl Place {
    /// The folder that the user names, or a new one.
    pub(super) fn new(named: Option<&Path>) -> Result<Place, Failure> {
        let is_kept = named.is_some();
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(is_kept);
        let folder = match named {
            Some(folder) => {
                builder.create(folder).map(|()| folder.to_owned()).map_err(|error| (folder.to_owned(), error))
            }
            None => Place::make_new(&builder, &std::env::temp_dir()),
        };
        let folder = folder
            .map_err(|(folder, error)| Failure::system(format!("make folder {}", folder.display()), error))?;
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        Ok(Place { folder, is_kept })
    }

    /// Makes a folder that did not exist: one that somebody else has made could lead files elsewhere. One may be left of a
    /// process that was killed; in a container each start has the same id.
    fn make_new(builder: &DirBuilder, parent: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
        let first = parent.join(format!("evenkeel-up-{}", std::process::id()));
        let others = (2..=FOLDERS_MAX)
            .map(|number| parent.join(format!("evenkeel-up-{}-{number}", std::process::id())));
        for folder in std::iter::once(first.clone()).chain(others) {
            match builder.create(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| folder.clone()).map_err(|error| (folder, error)),
            }
        }
        Err((first, io::ErrorKind::AlreadyExists.into()))
    }

    /// A file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file in one step.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.file(name);
        let written = os::file::replace(&path, text);
        written.map_err(|error| Failure::system(format!("write {}", path.display()), error))?;
        Ok(path)
    }

    /// The same for a file that only this user may read. One that is there already, with other permissions, is replaced.
    pub(super) fn write_secret(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.file(name);
        let written = DirectoryEntry::of(&path).and_then(|entry| entry.replace_with(text.as_bytes(), 0o600));
        written.map_err(|error| Failure::system(format!("write {}", path.display()), error))?;
        Ok(path)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is left is in the folder for temporary files.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_left_does_not_keep_the_next_one_from_being_made() {
        let parent = std::env::temp_dir().join(format!("evenkeel-test-place-{}", std::process::id()));
        fs::create_dir(&parent).expect("a folder");
        let builder = DirBuilder::new();
        let first = Place::make_new(&builder, &parent).expect("a folder");
        let second = Place::make_new(&builder, &parent).expect("another");
        assert!(first != second && first.is_dir() && second.is_dir());
        fs::remove_dir_all(&parent).expect("it is ours");
    }
}
