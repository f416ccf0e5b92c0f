//! Identities of files and devices: the same under each of their names.

use crate::error::OpenError;
use std::fs::{FileType, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A file, by its file system and inode, or a block device, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// A regular file.
    File {
        /// The file system's device.
        device: u64,
        /// Its number there.
        inode: u64,
    },
    /// A block device, whose name may be in any file system.
    Block {
        /// Its number.
        number: u64,
    },
}

impl FileIdentity {
    /// Of what `path` leads to. Anything else than a file or a block device is refused.
    pub(crate) fn of(metadata: &Metadata, path: &Path) -> Result<FileIdentity, OpenError> {
        let kind = metadata.file_type();
        if kind.is_file() {
            return Ok(FileIdentity::File { device: metadata.dev(), inode: metadata.ino() });
        }
        if kind.is_block_device() {
            return Ok(FileIdentity::Block { number: metadata.rdev() });
        }
        Err(OpenError::Kind { path: path.to_owned(), found: name(kind) })
    }

    pub(crate) fn is_block_device(self) -> bool {
        matches!(self, FileIdentity::Block { .. })
    }
}

/// Of what is refused.
fn name(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_char_device() => "a character device",
        _ if kind.is_socket() => "a socket",
        _ => "of an unknown kind",
    }
}
