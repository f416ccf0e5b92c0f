//! A router's file on a disk, written so that a reader finds the old text or the new one, never a part.
//!
//! A temporary file in the same directory, fsync, rename, fsync of the directory. Whatever fails, the old file is intact.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use os::DirectoryEntry;

/// A router's configuration file.
#[derive(Clone, Debug)]
pub(crate) struct RouterFile {
    path: PathBuf,
}

/// Why a router's file was not written.
#[derive(Debug, thiserror::Error)]
pub enum RouterFileError {
    /// The path has no directory or no name.
    #[error("write {path}: it names no file; give the path of the router's configuration")]
    NoName {
        /// As it was given.
        path: PathBuf,
    },
    /// A mounted configuration, such as a ConfigMap, belongs to another writer.
    #[error(
        "write {path}: it is a symbolic link to {target}; give the path of a file that only the agent writes"
    )]
    Link {
        /// The link.
        path: PathBuf,
        /// What it points to.
        target: PathBuf,
    },
    /// A directory or a device.
    #[error("write {path}: it is not a regular file")]
    NotAFile {
        /// What was found.
        path: PathBuf,
    },
    /// The system refused a step. The old file is intact.
    #[error("{step} {path} (the file in force is unchanged): {source}")]
    Io {
        /// What was attempted.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The mode of a file that did not exist: routers run as other users, and the text has no secret.
const NEW_FILE_MODE: u32 = 0o644;

impl RouterFile {
    /// The file at this path, which need not exist.
    pub(crate) fn new(path: impl Into<PathBuf>) -> RouterFile {
        RouterFile { path: path.into() }
    }

    /// Its text; `None` if there is no file.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, RouterFileError> {
        match fs::read(&self.path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &self.path)(error)),
        }
    }

    /// Replaces the text. When this returns, the new one is on the disk; owner and mode are those of the old file.
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), RouterFileError> {
        let no_name = || RouterFileError::NoName { path: self.path.clone() };
        let name = self.path.file_name().ok_or_else(no_name)?;
        let directory = match self.path.parent().ok_or_else(no_name)? {
            parent if parent.as_os_str().is_empty() => Path::new("."),
            parent => parent,
        };
        let old = self.old()?;
        // One name, so that what an interrupted agent left behind is overwritten and does not pile up. The router's
        // name is not in it: with a suffix a name of full length would be too long.
        let temporary = directory.join(format!(".evenkeel-{:08x}.tmp", lot(name.as_encoded_bytes())));
        let entry = DirectoryEntry::of(&temporary).map_err(failed("create", &temporary))?;
        let written = write_new(&entry, &temporary, text, old.as_ref()).and_then(|()| {
            let renamed = entry.sibling(name).and_then(|file| entry.rename_to(&file));
            renamed.map_err(failed("rename a new file to", &self.path))
        });
        if written.is_err() {
            // If this fails as well, the next write removes it.
            let _ = entry.remove();
        }
        written?;
        entry.sync_directory().map_err(failed("sync the directory", directory))
    }

    fn old(&self) -> Result<Option<fs::Metadata>, RouterFileError> {
        let path = self.path.clone();
        match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&self.path).unwrap_or_default();
                Err(RouterFileError::Link { path, target })
            }
            Ok(found) if !found.is_file() => Err(RouterFileError::NotAFile { path }),
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("look at", &self.path)(error)),
        }
    }
}

fn write_new(
    entry: &DirectoryEntry,
    path: &Path,
    text: &[u8],
    old: Option<&fs::Metadata>,
) -> Result<(), RouterFileError> {
    let failed = |step| failed(step, path);
    entry.remove_if_there().map_err(failed("remove"))?;
    // It follows no link that somebody has put there.
    let mut file = entry.create_new(0o600).map_err(failed("create"))?;
    file.write_all(text).map_err(failed("write"))?;
    if let Some(old) = old {
        let new = file.metadata().map_err(failed("look at"))?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))
                .map_err(failed("give the old file's owner to"))?;
        }
    }
    let mode = old.map_or(NEW_FILE_MODE, |old| old.mode() & 0o7777);
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed("set the mode of"))?;
    file.sync_all().map_err(failed("sync"))
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RouterFileError {
    let path = path.to_owned();
    move |source| RouterFileError::Io { step, path, source }
}

/// FNV-1a: two routers' files in one directory have temporary files of their own.
fn lot(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |state, byte| (state ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("evenkeel-router-file-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory");
        path
    }

    /// Writing fails with these words, and neither the file nor the directory changes.
    #[track_caller]
    fn check_refused(path: &Path, expected: &str) {
        let names = |path: &Path| path.parent().and_then(|parent| Some(fs::read_dir(parent).ok()?.count()));
        let before = (fs::read(path).ok(), names(path));
        let error = RouterFile::new(path).write(b"new").expect_err("it must fail").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!((fs::read(path).ok(), names(path)), before);
    }

    #[test]
    fn a_text_replaces_another_and_keeps_the_mode() {
        let path = directory("mode").join("route.json");
        let file = RouterFile::new(&path);
        assert_eq!(file.read().expect("no file is no error"), None);
        file.write(b"one").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("mode");
        file.write(b"two").expect("written");
        assert_eq!(file.read().expect("readable"), Some(b"two".to_vec()));
        assert_eq!(fs::metadata(&path).expect("file").mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(path.parent().expect("a parent")).expect("a directory").count(), 1);
    }

    #[test]
    fn a_mounted_configuration_is_not_replaced() {
        let directory = directory("link");
        fs::write(directory.join("data"), "old").expect("written");
        symlink("data", directory.join("route.json")).expect("link");
        check_refused(&directory.join("route.json"), "symbolic link to data");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let directory = directory("none");
        fs::create_dir(directory.join("sub")).expect("a directory");
        check_refused(&directory.join("sub"), "not a regular file");
        check_refused(&directory.join("x".repeat(300)), "File name too long");
        check_refused(&directory.join("absent/route.json"), "create");
        check_refused(Path::new("/"), "names no file");
    }

    #[test]
    fn a_name_of_full_length_can_be_written() {
        let path = directory("long").join("x".repeat(255));
        RouterFile::new(&path).write(b"text").expect("written");
    }

    #[test]
    fn a_disk_that_takes_nothing_leaves_the_old_file() {
        // sysfs refuses new files even to root.
        check_refused(Path::new("/sys/kernel/route.json"), "the file in force is unchanged");
    }

    #[test]
    fn a_link_at_the_temporary_name_is_not_followed() {
        let directory = directory("trap");
        let victim = directory.join("victim");
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, directory.join(format!(".evenkeel-{:08x}.tmp", lot(b"route.json")))).expect("link");
        RouterFile::new(directory.join("route.json")).write(b"text").expect("written");
        assert_eq!(fs::read(&victim).expect("readable"), b"precious");
    }
}
