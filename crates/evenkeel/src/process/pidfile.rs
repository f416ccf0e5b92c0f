//! The file that names the process (`-P`). Two processes write it when one takes over from the other.

use std::io::Write;
use std::path::{Path, PathBuf};

use os::DirectoryEntry;
use rustix::fs::{Mode, fchmod};

use crate::failure::Failure;

/// For everyone to read, and for nobody else to write, whatever the umask: who may write it could make a script end another process.
const MODE: u32 = 0o644;

fn content() -> String {
    format!("{}\n", std::process::id())
}

/// A file that holds the process id, removed with this value.
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes it under another name first: a script that waits for the file never finds it empty.
    pub(crate) fn write(path: &Path) -> Result<Self, Failure> {
        let write = || {
            DirectoryEntry::of(path)?.replace(MODE, |file| {
                fchmod(&*file, Mode::from_raw_mode(MODE))?;
                file.write_all(content().as_bytes())
            })
        };
        write().map_err(|error| Failure::system(format!("write {} (-P)", path.display()), error))?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for PidFile {
    /// It may be gone already, or its directory may not be writable for the user that the server has become: then it
    /// stays. So does that of another process which has taken over.
    fn drop(&mut self) {
        let is_own = std::fs::read_to_string(&self.path).is_ok_and(|text| text == content());
        if is_own {
            let _ = DirectoryEntry::of(&self.path).and_then(|entry| entry.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        fs::write(&path, "1\n").expect("written");
        drop(file);
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "1\n");
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_with_its_name() {
        let failure = PidFile::write(Path::new("/no such directory/pid")).err().expect("refused");
        assert!(failure.to_string().starts_with("write /no such directory/pid (-P): "), "{failure}");
    }
}
