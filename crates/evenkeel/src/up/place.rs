//! The folder of a cluster: the router's configuration, and what each process writes.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A folder, removed with this value unless the user has named it.
pub(super) struct Place {
    folder: PathBuf,
    is_kept: bool,
}

impl Place {
    /// The folder that the user names, or a new one.
    pub(super) fn new(named: Option<&Path>) -> Result<Place, Failure> {
        let (folder, is_kept) = match named {
            Some(folder) => (folder.to_owned(), true),
            None => (std::env::temp_dir().join(format!("evenkeel-up-{}", std::process::id())), false),
        };
        let mut builder = DirBuilder::new();
        // A new one must not exist: a folder that somebody else has made there could lead files elsewhere.
        let made = builder.mode(0o700).recursive(is_kept).create(&folder);
        made.map_err(|error| Failure::system(format!("make folder {}", folder.display()), error))?;
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        Ok(Place { folder, is_kept })
    }

    /// A file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file in one step.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let (path, unfinished) = (self.file(name), self.file(&format!("{name}.tmp")));
        let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, &path));
        written.map_err(|error: io::Error| Failure::system(format!("write {}", path.display()), error))?;
        Ok(path)
    }

    /// The same for a file that only this user may read. One that is there already, with other permissions, is replaced.
    pub(super) fn write_secret(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let (path, unfinished) = (self.file(name), self.file(&format!("{name}.tmp")));
        let write = || {
            match fs::remove_file(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|error| Failure::system(format!("write {}", path.display()), error))?;
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
