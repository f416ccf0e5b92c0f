//! The lock of a directory's writer: `flock` on a file that names the process.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use os::{DirectoryEntry, LockedFile};
use rustix::fs::OFlags;

use super::load::LOCK;
use crate::register::error::RegisterError;

/// Bytes of the file that are read: a process number has ten digits.
const PID_LEN_MAX: u64 = 32;

/// The lock, held.
pub(super) struct Lock {
    file: LockedFile,
    path: PathBuf,
    /// Whether a process has signed it before, so that the directory cannot be a new one.
    pub was_used: bool,
}

/// Takes the lock of a directory. The kernel frees it when the process ends, in whatever way.
///
/// # Errors
/// If another process has it, with its number.
pub(super) fn take(folder: &Path) -> Result<Lock, RegisterError> {
    let path = folder.join(LOCK);
    let failed = |what, source| RegisterError::Disk { what, path: path.clone(), source };
    let file = DirectoryEntry::of(&path).and_then(|entry| entry.open(OFlags::RDWR | OFlags::CREATE, 0o600));
    let file = file.map_err(|source| failed("open", source))?;
    match LockedFile::try_lock(file).map_err(|source| failed("lock", source))? {
        Err(file) => {
            let pid = match signature(&file).unwrap_or_default().trim() {
                "" => "(not named yet)".to_owned(),
                pid => pid.to_owned(),
            };
            Err(RegisterError::Locked { path: folder.to_owned(), pid })
        }
        Ok(file) => {
            let signature = signature(&file).map_err(|source| failed("read", source))?;
            Ok(Lock { file, path, was_used: !signature.is_empty() })
        }
    }
}

fn signature(file: &File) -> io::Result<String> {
    let mut signature = String::new();
    file.take(PID_LEN_MAX).read_to_string(&mut signature)?;
    Ok(signature)
}

impl Lock {
    /// Writes this process's number into it.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(super) fn sign(self) -> Result<LockedFile, RegisterError> {
        let Lock { mut file, path, .. } = self;
        // As long for each process: on a full disk the old bytes are written over.
        let signature = format!("{:<10}\n", std::process::id());
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(signature.as_bytes()));
        written.and_then(|()| file.sync_all()).map_err(|source| RegisterError::Disk {
            what: "write",
            path,
            source,
        })?;
        Ok(file)
    }
}
