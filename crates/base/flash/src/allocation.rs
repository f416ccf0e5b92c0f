//! Allocation of a file's blocks, so that a disk that fills up later takes none from the tier.

use crate::error::OpenError;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit of `st_blocks`, whatever the file system's blocks are (stat(3type)).
const STAT_BLOCK_BYTES: u64 = 512;

/// Gives the first `bytes` bytes of a file their blocks. A file that is longer stays so, and what lies in it stays there.
/// Returns a warning where the file system cannot reserve blocks.
///
/// Without room, the file has its former length again.
pub(crate) fn allocate(file: &File, path: &Path, bytes: u64) -> Result<Option<String>, OpenError> {
    let examine = |source: io::Error| OpenError::Examine { path: path.to_owned(), source };
    let metadata = file.metadata().map_err(examine)?;
    let missing_bytes = bytes - (metadata.blocks().saturating_mul(STAT_BLOCK_BYTES)).min(bytes);
    let free_bytes = free_bytes(file).map_err(|errno| examine(errno.into()))?;
    let no_room = |free_bytes| OpenError::NoRoom { path: path.to_owned(), bytes, missing_bytes, free_bytes };
    // Asked before, because an attempt fills the file system for others, too, until it fails.
    if let Some(free_bytes) = free_bytes.filter(|free_bytes| missing_bytes > *free_bytes) {
        return Err(no_room(free_bytes));
    }
    let failed = |source| OpenError::Reserve { path: path.to_owned(), bytes, source };
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
        Ok(()) => Ok(None),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            if metadata.len() < bytes {
                file.set_len(bytes).map_err(failed)?;
            }
            Ok(Some(format!(
                "the file system of {} cannot reserve blocks: writes fail when it is full",
                path.display()
            )))
        }
        Err(errno) => {
            // What had been added before the room was used up. If that fails, too, the error is the first.
            let _ = file.set_len(metadata.len());
            match errno {
                Errno::NOSPC => Err(no_room(free_bytes.unwrap_or(0))),
                errno => Err(failed(errno.into())),
            }
        }
    }
}

/// What the file system gives to users without privileges; the rest is left to root for repairs. `None` if it has no limit
/// of its own, or does not say.
fn free_bytes(file: &File) -> rustix::io::Result<Option<u64>> {
    let room = fstatvfs(file)?;
    Ok((room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize)))
}
