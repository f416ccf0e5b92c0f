//! The file that names the process (`-P`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file that holds the process id, removed with this value.
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes it under another name first: a script that waits for the file never finds it empty.
    pub(crate) fn write(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::system(format!("write {} (-P)", path.display()), error);
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".tmp");
        fs::write(&unfinished, format!("{}\n", std::process::id())).map_err(failed)?;
        fs::rename(&unfinished, path).map_err(|error| {
            let _ = fs::remove_file(&unfinished);
            failed(error)
        })?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for PidFile {
    /// It may be gone already, or its directory may not be writable for the user that the server has become: then it
    /// stays.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
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
    fn a_file_that_cannot_be_written_is_an_error_with_its_name() {
        let failure = PidFile::write(Path::new("/no such directory/pid")).err().expect("refused");
        assert!(failure.to_string().starts_with("write /no such directory/pid (-P): "), "{failure}");
    }
}
