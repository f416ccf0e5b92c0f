//! Notes of the kernel (inotify) about the files of a configuration, and about every link on the way to them.
//!
//! What is watched are folders: of each file, and of each symbolic link on the way to it. Kubernetes swaps a link in the
//! middle (`..data`), editors rename. Without inotify, and on file systems that send no notes, the look every second remains.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::read;

/// Links on the way to a file, as the kernel limits them.
const LINKS_MAX: usize = 40;

/// Folders that are watched: a configuration may import thousands of files, each from a folder of its own.
const FOLDERS_MAX: usize = 1000;

/// Watched folders.
#[derive(Default)]
pub(crate) struct FileWatch {
    /// `None` if the system has no inotify left: there is a limit for each user.
    inotify: Option<OwnedFd>,
}

impl FileWatch {
    /// Watches the ways to these files.
    pub(crate) fn new<'p>(files: impl Iterator<Item = &'p Path>) -> FileWatch {
        let Ok(inotify) = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) else {
            return FileWatch::default();
        };
        let mut folders = BTreeSet::new();
        files.for_each(|file| add_folders(file, &mut folders));
        let notes = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::ATTRIB;
        for folder in folders.into_iter().take(FOLDERS_MAX) {
            // One that is not there, or not allowed, is looked at every second.
            let _ = add_watch(&inotify, folder, notes);
        }
        FileWatch { inotify: Some(inotify) }
    }

    /// Becomes readable with the first note.
    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        self.inotify.as_ref()
    }

    /// Drops all notes: what has changed is looked up.
    pub(crate) fn drain(&self) {
        let mut notes = [0; 4096];
        while let Some(inotify) = &self.inotify
            && read(inotify, &mut notes[..]).is_ok_and(|count| count > 0)
        {}
    }
}

/// The folders of a file and of all links on the way to it.
fn add_folders(file: &Path, folders: &mut BTreeSet<PathBuf>) {
    let Ok(file) = std::path::absolute(file) else { return };
    let mut ahead: Vec<PathBuf> = parts(&file);
    let (mut folder, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = ahead.pop() {
        if part.as_os_str() == ".." {
            folder.pop();
            continue;
        }
        let path = folder.join(&part);
        if ahead.is_empty() {
            folders.insert(folder.clone());
        }
        match fs::read_link(&path) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                folders.insert(folder.clone());
                if target.is_absolute() {
                    folder = PathBuf::from("/");
                }
                ahead.extend(parts(&target));
            }
            _ => folder = path,
        }
    }
}

/// The names of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| PathBuf::from(part.as_os_str())).rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_watched() {
        let root = std::env::temp_dir().join(format!("evenkeel-watch-{}", std::process::id()));
        let root = root.as_path();
        fs::create_dir_all(root.join("mount/..2026")).expect("folders");
        let root = &fs::canonicalize(root).expect("a path");
        fs::write(root.join("mount/..2026/route.json"), "{}").expect("a file");
        symlink("..2026", root.join("mount/..data")).expect("a link");
        symlink("..data/route.json", root.join("mount/route.json")).expect("a link");
        symlink(root.join("mount/route.json"), root.join("outer.json")).expect("a link");
        let mut folders = BTreeSet::new();
        add_folders(&root.join("outer.json"), &mut folders);
        let ours: Vec<_> = folders.iter().filter_map(|folder| folder.strip_prefix(root).ok()).collect();
        assert_eq!(ours, ["", "mount", "mount/..2026"].map(Path::new));

        let watch = FileWatch::new([root.join("outer.json").as_path()].into_iter());
        let has_notes = |watch: &FileWatch| {
            let mut notes = [0; 4096];
            watch.descriptor().is_some_and(|inotify| read(inotify, &mut notes[..]).is_ok())
        };
        assert!(!has_notes(&watch));
        symlink("..2027", root.join("mount/..data_tmp")).expect("a link");
        fs::rename(root.join("mount/..data_tmp"), root.join("mount/..data")).expect("rename");
        assert!(has_notes(&watch));

        symlink("b", root.join("a")).expect("a link");
        symlink("a", root.join("b")).expect("a link");
        // A circle ends.
        add_folders(&root.join("a"), &mut folders);
        fs::remove_dir_all(root).expect("it is ours");
    }
}
