//! Atomic replacement of files, and reading without waiting.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::retry_on_intr;

use crate::entry::DirectoryEntry;

/// For everyone to read.
const PUBLIC: u32 = 0o644;

/// Replaces a file atomically: a reader gets the old or the new content. Everyone may read it, less what the umask takes away.
///
/// # Errors
/// Then the old content is there.
pub fn replace(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    DirectoryEntry::of(path)?.replace_with(text.as_ref(), PUBLIC)
}

/// Opens a file to read, wherever links lead. A pipe without a writer keeps nobody waiting.
///
/// # Errors
/// Those of open(2).
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| openat(CWD, path, flags, Mode::empty()))?.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn no_temporary_file_is_left() {
        let directory = std::env::temp_dir().join(format!("os-file-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory of our own");
        let path = directory.join("a.prom");
        for text in ["old", "new"] {
            replace(&path, text).expect("it can be written");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
        }
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 1);
        fs::remove_dir_all(&directory).expect("it is ours");
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_replaced() {
        let directory = std::env::temp_dir().join(format!("os-file-link-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory of our own");
        let (path, other) = (directory.join("a"), directory.join("other"));
        fs::write(&other, "other").expect("written");
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        replace(&path, "new").expect("it can be written");
        assert_eq!(fs::read_to_string(&other).expect("it is there"), "other");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "new");
        assert!(!path.is_symlink());
        fs::remove_dir_all(&directory).expect("it is ours");
    }
}
