//! Files of journals: how they are read, and room for them on the disk.

#![allow(clippy::disallowed_methods, reason = "the folder of journals is root's alone; links are refused")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

/// More of a file is not read: a step takes some 700 bytes, and the largest hosts have 10,000 settings.
pub(super) const LEN_MAX: u64 = 64 << 20;

/// A journal is a regular file: the target of a link was not written here, and reading a pipe would block.
pub(super) const NO_LINK: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

/// What is in a file, up to [`LEN_MAX`], and whether there is more.
pub(super) fn text_of(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of ours"));
    }
    let mut text = Vec::new();
    file.take(LEN_MAX).read_to_end(&mut text)?;
    Ok((text, metadata.len() > LEN_MAX))
}

/// Reserves room on the disk up to a length, without changing the file's. Where the file system does not support
/// that, nothing is reserved.
pub(super) fn make_room(file: &File, len: u64) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
            Err(Errno::INTR) => {}
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}
