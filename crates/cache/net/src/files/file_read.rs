//! Reads of files between the order and the result.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::files::block::Block;

/// A file that handlers read from ([`crate::Turn::read`]). Cheap to clone; the file is closed with the last clone, and each read
/// in flight has one.
#[derive(Clone, Debug)]
pub struct DiskFile(Arc<Source>);

#[derive(Debug)]
enum Source {
    System(OwnedFd),
    Simulated(usize),
}

impl From<OwnedFd> for DiskFile {
    fn from(fd: OwnedFd) -> DiskFile {
        DiskFile(Arc::new(Source::System(fd)))
    }
}

impl From<File> for DiskFile {
    fn from(file: File) -> DiskFile {
        OwnedFd::from(file).into()
    }
}

impl DiskFile {
    pub(crate) fn simulated(number: usize) -> DiskFile {
        DiskFile(Arc::new(Source::Simulated(number)))
    }

    /// Its descriptor. A simulated file is not open here.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        match &*self.0 {
            Source::System(fd) => Ok(fd.as_fd()),
            Source::Simulated(_) => Err(Errno::BADF),
        }
    }

    /// Its number among the simulated files, among which a file of the system is not open.
    pub(crate) fn number(&self) -> Result<usize, Errno> {
        match *self.0 {
            Source::System(_) => Err(Errno::BADF),
            Source::Simulated(number) => Ok(number),
        }
    }
}

/// The most reads in flight that a worker may have: the entries of a ring are set up for all of them.
pub(crate) const READS_LIMIT: usize = 4096;

/// A read that was ordered.
#[derive(Debug)]
pub(crate) struct FileRead {
    pub(crate) file: DiskFile,
    /// Where in the file the block begins.
    pub(crate) at: u64,
    pub(crate) block: Block,
    pub(crate) tag: u64,
}

impl FileRead {
    /// Where in the file the rest of the block begins. The kernel takes the highest numbers for something else than a
    /// position.
    pub(crate) fn position(&self) -> Result<u64, Errno> {
        let position = self.at.checked_add(self.block.filled() as u64);
        position.filter(|position| i64::try_from(*position).is_ok()).ok_or(Errno::INVAL)
    }
}

/// A read that the kernel has finished with.
#[derive(Debug)]
pub(crate) enum FinishedRead {
    /// With the number of bytes of this one read, which may be too few.
    Done(FileRead, Result<usize, Errno>),
    /// The block of the read with this tag does not come back.
    Lost(u64, Errno),
}
