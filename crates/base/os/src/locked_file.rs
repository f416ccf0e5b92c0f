//! Locked file: flock(2), given back when it is dropped.
//!
//! Closing the file is not enough: a child that another thread starts at that moment has a copy of every descriptor until
//! it runs its program, and the lock lasts until the last copy is closed. Unlocking ends it at once, for all copies.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// A file that this process has locked.
#[derive(Debug)]
pub struct LockedFile(File);

impl LockedFile {
    /// Locks a file without waiting; gives it back if somebody else has locked it. The kernel unlocks it when the process
    /// ends, in whatever way.
    ///
    /// # Errors
    /// Those of flock(2), such as `ENOLCK`.
    pub fn try_lock(file: File) -> io::Result<Result<LockedFile, File>> {
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(Ok(LockedFile(file))),
            Err(Errno::WOULDBLOCK) => Ok(Err(file)),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing it, which comes next, unlocks it, too, unless there are copies.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let path = std::env::temp_dir().join(format!("evenkeel-locked-file-{}", std::process::id()));
        File::create(&path).expect("a file");
        let try_lock = || LockedFile::try_lock(File::open(&path).expect("the file")).expect("an answer");
        let locked = try_lock().expect("nobody has locked it");
        // What a child has between fork(2) and execve(2).
        let _copy = locked.try_clone().expect("a copy");
        assert!(try_lock().is_err());
        drop(locked);
        assert!(try_lock().is_ok());
        std::fs::remove_file(&path).expect("remove");
    }
}
