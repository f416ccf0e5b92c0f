//! The backing of a store's memory: anonymous pages, which end with the process, or a file, which another process can map.
//!
//! A file holds all mappings of a store, one behind the other, each from a multiple of [`HUGE_PAGE`], the first one behind a head that
//! says what it is. It is sparse: only pages that have been touched exist. Their order is that of [`Store::reserve`](crate::Store), so a process that makes the same mappings finds
//! the same bytes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

use crate::memory::system::HUGE_PAGE;

/// Bytes of tables that no limit counts: of segments that a lower limit has given up, and numbers of segments.
const BESIDE_LIMIT: u64 = 4 << 20;

/// The first bytes of a file with items: so it can be told from one that somebody else needs, whatever has become of the items.
const HEAD: &[u8] = b"evenkeel: the items of a server\n";

/// Whether a store has made this file.
pub fn is_items_file(file: &File) -> io::Result<bool> {
    let mut found = [0; HEAD.len()];
    match file.read_exact_at(&mut found, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| found == *HEAD),
    }
}

/// What is behind mappings.
#[derive(Clone, Debug, Default)]
pub(crate) enum Backing {
    #[default]
    Anonymous,
    File(Arc<BackingFile>),
}

/// A file that holds mappings.
#[derive(Debug)]
pub(crate) struct BackingFile {
    file: Arc<File>,
    /// Bytes that mappings have, from the start.
    taken: AtomicU64,
    /// The contents stay as they are: they are another process's now.
    frozen: AtomicBool,
}

/// A mapping's part of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    pub(crate) of: Arc<BackingFile>,
    pub(crate) offset: u64,
}

impl Backing {
    /// Nothing of the file is taken yet but its head.
    pub(crate) fn file(file: Arc<File>) -> Backing {
        Backing::File(Arc::new(BackingFile {
            file,
            taken: AtomicU64::new(HUGE_PAGE as u64),
            frozen: AtomicBool::new(false),
        }))
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self, Backing::Anonymous)
    }

    /// An empty file that becomes a store's.
    pub(crate) fn new_file(file: Arc<File>) -> io::Result<Backing> {
        // Before it is anything else: a server that is killed now leaves a file that the next one knows.
        file.write_all_at(HEAD, 0)?;
        Ok(Backing::file(file))
    }

    /// The part for a mapping of `len` bytes; `None` for anonymous memory.
    pub(crate) fn part(&self, len: usize) -> io::Result<Option<FilePart>> {
        let Backing::File(of) = self else { return Ok(None) };
        let len = (len as u64).next_multiple_of(HUGE_PAGE as u64);
        let offset = of.taken.fetch_add(len, Relaxed);
        let end = offset.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        if of.file.metadata()?.len() < end {
            of.file.set_len(end)?;
        }
        Ok(Some(FilePart { of: Arc::clone(of), offset }))
    }

    /// Bytes of items that the file system has room for; `None` if it has no limit. Beyond it, the process would end (SIGBUS).
    pub(crate) fn room(&self) -> io::Result<Option<u64>> {
        let Backing::File(of) = self else { return Ok(None) };
        let system = fstatvfs(&of.file)?;
        // A file of memfd_create, or a tmpfs without `size=`.
        if system.f_blocks == 0 {
            return Ok(None);
        }
        let own = of.file.metadata()?.blocks() * 512;
        Ok(Some((own + system.f_bavail * system.f_frsize).saturating_sub(BESIDE_LIMIT)))
    }

    /// While the file is frozen, nothing is added to its pages or taken from them, whatever is given back. False for anonymous memory,
    /// which has no such state.
    pub(crate) fn set_frozen(&self, frozen: bool) -> bool {
        if let Backing::File(of) = self {
            of.frozen.store(frozen, SeqCst);
        }
        matches!(self, Backing::File(_))
    }
}

impl FilePart {
    pub(crate) fn file(&self) -> &File {
        &self.of.file
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.of.frozen.load(SeqCst)
    }

    /// Removes pages; they read as zeros then. False if the file system cannot.
    pub(crate) fn punch(&self, range: Range<usize>) -> bool {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = (range.end - range.start) as u64;
        fallocate(self.file(), flags, self.offset + range.start as u64, len).is_ok()
    }
}
