//! The symbolic link that names the program of the units: replaced at once, with a way back that needs no room on the disk.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use os::DirectoryEntry;

use crate::agent::tuning::program::check_way_to_link;

/// The link with this ending points to what the link pointed to before.
const BEFORE: &str = ".before";
/// What an interrupted agent left behind under this ending is replaced.
const NEW: &str = ".new";

/// A symbolic link to a program.
pub(super) struct ProgramLink {
    path: PathBuf,
}

impl ProgramLink {
    /// The link at a path, if nobody but root and the agent's user can replace it.
    pub(super) fn new(path: &Path) -> Result<ProgramLink, String> {
        check_way_to_link(path)?;
        Ok(ProgramLink { path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it points to.
    pub(super) fn target(&self) -> Result<PathBuf, String> {
        read(&self.path).and_then(|found| {
            let shown = self.path.display();
            found.ok_or_else(|| {
                format!("read the link {shown}: there is none; make one to the program in force")
            })
        })
    }

    /// Puts a link to the present program beside it.
    pub(super) fn prepare_way_back(&self) -> Result<(), String> {
        self.replace(&self.sibling(BEFORE), &self.target()?)
    }

    /// Has it point to another program.
    pub(super) fn point_to(&self, program: &Path) -> Result<(), String> {
        self.replace(&self.path, program)
    }

    /// Has it point to the program from before. What was prepared needs no room; without it there may be some.
    pub(super) fn point_back_to(&self, program: &Path) -> Result<(), String> {
        if read(&self.path)?.is_some_and(|target| target == program) {
            return Ok(());
        }
        let prepared = self.sibling(BEFORE);
        if read(&prepared)?.is_none_or(|target| target != program) {
            return self.replace(&self.path, program);
        }
        self.rename(&prepared, &self.path)
    }

    fn replace(&self, path: &Path, program: &Path) -> Result<(), String> {
        let new = self.sibling(NEW);
        let failed = |error| format!("make the link {}: {error}", new.display());
        DirectoryEntry::of(&new).and_then(|entry| entry.remove_if_there()).map_err(failed)?;
        symlink(program, &new).map_err(failed)?;
        self.rename(&new, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), String> {
        let renamed = || {
            let (from, to) = (DirectoryEntry::of(from)?, DirectoryEntry::of(to)?);
            from.rename_to(&to)?;
            to.sync_directory()
        };
        renamed().map_err(|error| format!("replace the link {}: {error}", to.display()))
    }

    fn sibling(&self, ending: &str) -> PathBuf {
        let mut name: OsString = self.path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    }
}

fn read(path: &Path) -> Result<Option<PathBuf>, String> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            Err(format!("{} is no symbolic link", path.display()))
        }
        Err(error) => Err(format!("read the link {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_goes_forth_and_back_and_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("evenkeel-link-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join("current");
        let names = || fs::read_dir(&folder).expect("a folder").count();
        let (one, two) = (Path::new("/opt/one"), Path::new("/opt/two"));
        assert!(ProgramLink::new(&path).is_err(), "there is none");
        symlink(one, &path).expect("a link");
        let link = ProgramLink::new(&path).expect("a link");
        // What an interrupted agent left behind.
        symlink("/nowhere", folder.join("current.new")).expect("a link");
        link.prepare_way_back().expect("a way back");
        link.point_to(two).expect("another program");
        assert_eq!((link.target(), names()), (Ok(two.to_owned()), 2));
        link.point_back_to(one).expect("back");
        assert_eq!((link.target(), names()), (Ok(one.to_owned()), 1));
        link.point_back_to(two).expect("without preparation");
        link.point_back_to(two).expect("twice");
        assert_eq!((link.target(), names()), (Ok(two.to_owned()), 1));
        fs::remove_file(&path).expect("it is ours");
        fs::write(&path, "a file").expect("written");
        assert!(link.target().expect_err("no link").contains("is no symbolic link"));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
