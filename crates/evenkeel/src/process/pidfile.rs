//! The file that names the process (`-P`). Two processes write it when one takes over from the other.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use os::DirectoryEntry;
use rustix::fs::{Mode, fchmod, fstat};

use crate::failure::Failure;

/// For everyone to read, and for nobody else to write, whatever the umask: who may write it could make a script end another process.
const MODE: u32 = 0o644;

/// A file that holds the process id, removed with this value.
pub(crate) struct PidFile {
    path: PathBuf,
    /// Open, so that no other file gets its number.
    file: File,
}

impl PidFile {
    /// Writes it under another name first: a script that waits for the file never finds it empty.
    pub(crate) fn write(path: &Path) -> Result<Self, Failure> {
        let write = || -> io::Result<File> {
            let mut written = None;
            DirectoryEntry::of(path)?.replace(MODE, |file| {
                fchmod(&*file, Mode::from_raw_mode(MODE))?;
                writeln!(file, "{}", std::process::id())?;
                written = Some(file.try_clone()?);
                Ok(())
            })?;
            Ok(written.expect("it was written"))
        };
        let file =
            write().map_err(|error| Failure::system(format!("write {} (-P)", path.display()), error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn remove(&self) -> io::Result<()> {
        let entry = DirectoryEntry::of(&self.path)?;
        let (found, own) = (entry.status()?, fstat(&self.file)?);
        if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino) { entry.remove() } else { Ok(()) }
    }
}

impl Drop for PidFile {
    /// It may be gone already, or its directory may not be writable for the user that the server has become: then it
    /// stays. So does that of another process which has taken over.
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn the_file_holds_the_process_id_and_is_removed_at_the_end() {
        let path = std::env::temp_dir().join(format!("evenkeel-pidfile-{}", std::process::id()));
        let file = PidFile::write(&path).expect("the directory for temporary files can be written to");
        let text = fs::read_to_string(&path).expect("the file is there");
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_in_its_place_is_replaced_and_only_its_owner_writes_it() {
        let path = std::env::temp_dir().join(format!("evenkeel-pidfile-link-{}", std::process::id()));
        symlink("/nowhere/else", &path).expect("a link");
        let file = PidFile::write(&path).expect("the directory for temporary files can be written to");
        let found = fs::symlink_metadata(&path).expect("the file is there");
        assert!(found.is_file());
        assert_eq!(found.permissions().mode() & 0o777, 0o644);
        drop(file);
    }

    #[test]
    fn a_file_that_names_another_process_stays() {
        let path = std::env::temp_dir().join(format!("evenkeel-pidfile-other-{}", std::process::id()));
        let file = PidFile::write(&path).expect("the directory for temporary files can be written to");
        // As a process does that takes over.
        DirectoryEntry::of(&path).and_then(|entry| entry.replace_with(b"1\n", MODE)).expect("written");
        drop(file);
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "1\n");
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_file_that_was_written_again_stays_until_the_later_value_ends() {
        let path = std::env::temp_dir().join(format!("evenkeel-pidfile-again-{}", std::process::id()));
        let first = PidFile::write(&path).expect("the directory for temporary files can be written to");
        let second = PidFile::write(&path).expect("the same");
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    /// Whoever opens a pipe to read waits for somebody who writes.
    #[test]
    fn a_pipe_in_its_place_stays_and_keeps_nobody_waiting() {
        let path = std::env::temp_dir().join(format!("evenkeel-pidfile-pipe-{}", std::process::id()));
        let file = PidFile::write(&path).expect("the directory for temporary files can be written to");
        fs::remove_file(&path).expect("it is ours");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
        drop(file);
        assert!(fs::symlink_metadata(&path).is_ok());
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_with_its_name() {
        let failure = PidFile::write(Path::new("/no such directory/pid")).err().expect("refused");
        assert!(failure.to_string().starts_with("write /no such directory/pid (-P): "), "{failure}");
    }
}
