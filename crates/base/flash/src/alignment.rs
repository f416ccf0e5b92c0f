//! Direct reads and writes (`O_DIRECT`): whether a file or device has them, and what they ask of memory and positions.

use crate::aligned_bytes::AlignedBytes;
use crate::disk::PAGE_BYTES;
use crate::error::OpenError;
use rustix::fs::{AtFlags, FsWord, OFlags, StatxFlags, fcntl_setfl, fstatfs, statx};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// File systems that lie in memory (linux/magic.h): tmpfs, ramfs.
const IN_MEMORY: [FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// Makes the reads and writes of `file` direct. Where that is refused they stay buffered. Returns whether they are direct,
/// and a warning if the file takes memory.
pub(crate) fn make_direct(file: &File, path: &Path) -> Result<(bool, Option<String>), OpenError> {
    let is_direct = told_alignment(file, path)? && set_direct(file, path)?;
    let path = path.display();
    let warning = match (is_in_memory(file), is_direct) {
        (true, _) => {
            Some(format!("{path} is in a file system in memory: it takes memory, and no disk is used"))
        }
        (false, true) => None,
        (false, false) => Some(format!(
            "{path} cannot be read and written directly (O_DIRECT): what is read and written takes memory in the page cache"
        )),
    };
    Ok((is_direct, warning))
}

/// Whether direct reads and writes are possible for all that the kernel says of it (since Linux 6.1). An alignment beyond
/// ours is an error: it would have to be read and written through the page cache in larger units.
fn told_alignment(file: &File, path: &Path) -> Result<bool, OpenError> {
    let told = match statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(told) if StatxFlags::from_bits_retain(told.stx_mask).contains(StatxFlags::DIOALIGN) => told,
        // Not told: an attempt will show it.
        Ok(_) | Err(Errno::NOSYS | Errno::INVAL | Errno::PERM) => return Ok(true),
        Err(errno) => return Err(OpenError::Examine { path: path.to_owned(), source: errno.into() }),
    };
    accepted(told.stx_dio_mem_align, told.stx_dio_offset_align, path)
}

fn accepted(memory_bytes: u32, position_bytes: u32, path: &Path) -> Result<bool, OpenError> {
    // Both are 0 where there are no direct reads and writes (statx(2)).
    if memory_bytes == 0 || position_bytes == 0 {
        return Ok(false);
    }
    if memory_bytes.max(position_bytes) as usize > PAGE_BYTES {
        return Err(OpenError::Alignment { path: path.to_owned(), memory_bytes, position_bytes });
    }
    Ok(true)
}

/// Sets the flag of the open file, and reads a page to see whether it is meant: there are file systems that take the flag
/// and refuse the read.
fn set_direct(file: &File, path: &Path) -> Result<bool, OpenError> {
    match fcntl_setfl(file, OFlags::DIRECT) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(false),
        Err(errno) => return Err(OpenError::Open { path: path.to_owned(), source: errno.into() }),
    }
    let mut page = AlignedBytes::zeroed(PAGE_BYTES);
    let read = retry_on_intr(|| file.read_at(&mut page, 0).map_err(|error| errno_of(&error)));
    match read {
        Ok(_) => Ok(true),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {
            fcntl_setfl(file, OFlags::empty())
                .map_err(|errno| OpenError::Open { path: path.to_owned(), source: errno.into() })?;
            Ok(false)
        }
        Err(errno) => Err(OpenError::Read { path: path.to_owned(), source: errno.into() }),
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn is_in_memory(file: &File) -> bool {
    // A block device is a file of devtmpfs, which is a tmpfs.
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file && fstatfs(file).is_ok_and(|system| IN_MEMORY.contains(&system.f_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_up_to_a_page_are_accepted() {
        let accepted = |memory, position| accepted(memory, position, Path::new("/dev/x"));
        for (memory, position) in [(1, 1), (4, 512), (512, 512), (512, 4096), (4096, 4096)] {
            assert!(matches!(accepted(memory, position), Ok(true)), "{memory} {position}");
        }
        assert!(matches!(accepted(0, 0), Ok(false)));
        for (memory, position) in [(512, 8192), (8192, 512), (16384, 16384)] {
            let error = accepted(memory, position).expect_err("too large");
            assert!(
                error
                    .to_string()
                    .contains(&format!("to {memory} bytes and positions aligned to {position}, and"))
            );
        }
    }
}
