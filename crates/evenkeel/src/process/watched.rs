//! Files that are looked at for changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files, and how they looked before they were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedFiles(Vec<(PathBuf, Option<Look>)>);

/// What changes when a file is written, replaced, or when a link to it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    len: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl WatchedFiles {
    /// The paths of all files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(path, _)| path.as_path())
    }

    /// Whether a file has changed since.
    pub(crate) fn has_changed(&self) -> bool {
        self.0.iter().any(|(path, look)| Look::of(path) != *look)
    }

    /// These files, as they look now.
    pub(crate) fn of<'p>(paths: impl Iterator<Item = &'p Path>) -> WatchedFiles {
        let mut files = WatchedFiles::default();
        paths.for_each(|path| files.add(path));
        files
    }

    /// The same files, as they look now.
    pub(crate) fn again(&self) -> WatchedFiles {
        WatchedFiles::of(self.paths())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks at a file, which is then read: a change in between is seen later.
    pub(crate) fn add(&mut self, path: &Path) {
        self.0.push((path.to_owned(), Look::of(path)));
    }
}

impl Look {
    /// `None` if there is no such file.
    fn of(path: &Path) -> Option<Look> {
        let data = fs::metadata(path).ok()?;
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Some(Look {
            device: data.dev(),
            inode: data.ino(),
            len: data.len(),
            modified_ns: ns(data.mtime(), data.mtime_nsec()),
            changed_ns: ns(data.ctime(), data.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_removed_or_made_has_changed() {
        let path = std::env::temp_dir().join(format!("evenkeel-look-{}", std::process::id()));
        let look = || {
            let mut files = WatchedFiles::default();
            files.add(&path);
            files
        };
        let none = look();
        fs::write(&path, "one").expect("write");
        assert!(none.has_changed(), "made");
        let one = look();
        assert!(!one.has_changed());
        fs::write(path.with_extension("new"), "two").expect("write");
        fs::rename(path.with_extension("new"), &path).expect("rename");
        assert!(one.has_changed(), "replaced by one of the same length");
        let two = look();
        fs::remove_file(&path).expect("remove");
        assert!(two.has_changed(), "removed");
        assert!(!look().has_changed());
    }
}
