//! Files that a ring knows, so that the kernel does not look up their descriptors for each read.

use std::os::fd::AsRawFd;

use io_uring::Submitter;

use crate::file_read::DiskFile;

/// Files that a ring knows: the first ones that are read from, until the ring ends. A server has as many devices at most.
const FILES_MAX: usize = 16;

/// The registered files of a ring.
pub(crate) struct RegisteredFiles {
    known: Vec<DiskFile>,
    /// The most of them; 0 where the kernel registers none.
    most: usize,
}

impl RegisteredFiles {
    /// Without files. Linux before 5.19 has no table for them.
    pub(crate) fn new(ring: &Submitter<'_>) -> RegisteredFiles {
        let has_table = ring.register_files_sparse(FILES_MAX as u32).is_ok();
        RegisteredFiles { known: Vec::new(), most: if has_table { FILES_MAX } else { 0 } }
    }

    /// The number of a file, if it has one now.
    pub(crate) fn number(&mut self, ring: &Submitter<'_>, file: &DiskFile) -> Option<u32> {
        if let Some(number) = self.known.iter().position(|known| known.is(file)) {
            return Some(number as u32);
        }
        let number = self.known.len();
        if number >= self.most {
            return None;
        }
        let fd = file.fd().ok()?.as_raw_fd();
        if ring.register_files_update(number as u32, &[fd]).is_err() {
            self.most = number;
            return None;
        }
        self.known.push(file.clone());
        Some(number as u32)
    }
}
