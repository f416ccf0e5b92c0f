//! Errors of opening the files and devices of a flash tier.

use std::io;
use std::path::PathBuf;

/// Why a file or device cannot be part of the flash tier, worded to follow "failed to".
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The share is too small to be divided into pages of the tier.
    #[error(
        "use {bytes} bytes of {}: at least {} are needed, which are two pages of {page_bytes}\n  hint: give it more, or \
         make the pages smaller", path.display(), 2 * u128::from(*page_bytes)
    )]
    TooSmall {
        /// The file or device.
        path: PathBuf,
        /// How much of it may be used.
        bytes: u64,
        /// The size of the tier's pages.
        page_bytes: u64,
    },
    /// It is neither a file nor a block device.
    #[error(
        "use {} for the flash tier: it is {found}, and a regular file or a block device is accepted", path.display()
    )]
    Kind {
        /// What was named.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A name below `/dev` that is no device.
    #[error(
        "use {} for the flash tier: there is no such device, and no file is created in /dev\n  hint: `lsblk` lists the \
         block devices", path.display()
    )]
    NoSuchDevice {
        /// What was named.
        path: PathBuf,
    },
    /// The operating system does not open it.
    #[error("open {} to read and write", path.display())]
    Open {
        /// The file or device.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file that another user owns: that one could read the items, and change them.
    #[error(
        "use {} for the flash tier: it belongs to user {owner}, and a file of user {user} is expected\n  hint: name a file \
         that is not there, and it is created, or give it to that user: `chown {user} {}`", path.display(), path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Whose it has to be.
        user: u32,
    },
    /// A file that others may write.
    #[error(
        "use {} for the flash tier: its mode is {mode:04o}, so others than its owner can write it\n  hint: `chmod go-w {}`",
        path.display(), path.display()
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file that has another name, too.
    #[error(
        "use {}: it has another name, too (a hard link), so it may be a file that something else needs\n  hint: \
         `find / -xdev -samefile {}` shows its names; remove this one, or name another file", path.display(), path.display()
    )]
    HardLink {
        /// The file.
        path: PathBuf,
    },
    /// A file with some content that would have to grow.
    #[error(
        "use {bytes} bytes of {}: it has {file_bytes}, and a file that is not empty is not made longer\n  hint: remove it if \
         nothing needs what it holds, and it is created with this size, or name a smaller one", path.display()
    )]
    Shorter {
        /// The file.
        path: PathBuf,
        /// How much of it should be used.
        bytes: u64,
        /// How much it has.
        file_bytes: u64,
    },
    /// It is open already, and nothing tells by whom.
    #[error(
        "use {} alone: a process has it open already, which may be this one\n  hint: each server needs files of its own; \
         `fuser -v {}` shows who has it", path.display(), path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A block device that has another purpose.
    #[error(
        "use {} alone: it is mounted, part of a RAID, of LVM or of swap, or a program uses it\n  hint: `lsblk {}` and \
         `fuser -v {}` show what has it", path.display(), path.display(), path.display()
    )]
    DeviceInUse {
        /// The block device.
        path: PathBuf,
    },
    /// Two names of one file or device.
    #[error(
        "use {} and {} for the flash tier: they are the same file or device\n  hint: name each of them once",
        first.display(), path.display()
    )]
    Twice {
        /// The first name.
        first: PathBuf,
        /// The second name.
        path: PathBuf,
    },
    /// The other process has opened another file, or this name has got another meaning since.
    #[error("take {} over: the other process has another file or device open in this place", path.display())]
    NotTheSame {
        /// The name.
        path: PathBuf,
    },
    /// A block device that is smaller than its share.
    #[error(
        "use {bytes} bytes of {}: the device has {device_bytes}\n  hint: `{}m` is the most", path.display(),
        device_bytes >> 20
    )]
    DeviceTooSmall {
        /// The block device.
        path: PathBuf,
        /// How much of it should be used.
        bytes: u64,
        /// How much it has.
        device_bytes: u64,
    },
    /// A block device that takes no writes.
    #[error(
        "write to {}: the device is read-only\n  hint: `blockdev --setrw {}`, if it is not meant to be", path.display(),
        path.display()
    )]
    ReadOnly {
        /// The block device.
        path: PathBuf,
    },
    /// The file's blocks do not fit its file system.
    #[error(
        "reserve {bytes} bytes for {}: {missing_bytes} are missing, and its file system has {free_bytes} free\n  hint: \
         name a smaller size, as the file system needs some room for itself, or make room", path.display()
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// How large it should be.
        bytes: u64,
        /// How much of it has no blocks yet.
        missing_bytes: u64,
        /// What the file system can give.
        free_bytes: u64,
    },
    /// The file's blocks cannot be reserved for another reason.
    #[error("reserve {bytes} bytes for {}", path.display())]
    Reserve {
        /// The file.
        path: PathBuf,
        /// How large it should be.
        bytes: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// Its direct reads and writes are in larger units than ours.
    #[error(
        "read and write {} directly: it asks for memory aligned to {memory_bytes} bytes and positions aligned to \
         {position_bytes}, and up to 4096 are accepted\n  hint: use a device with sectors of 512 or 4096 bytes, or a file \
         system on it", path.display()
    )]
    Alignment {
        /// The file or device.
        path: PathBuf,
        /// Of the memory.
        memory_bytes: u32,
        /// Of positions and lengths.
        position_bytes: u32,
    },
    /// It cannot be examined.
    #[error("examine {}", path.display())]
    Examine {
        /// The file or device.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Its first bytes cannot be read.
    #[error("read the first bytes of {}", path.display())]
    Read {
        /// The file or device.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_found_and_what_is_accepted() {
        let path = || PathBuf::from("/dev/nvme0n1");
        let check = |error: OpenError, expected: &str| assert_eq!(error.to_string(), expected);
        check(
            OpenError::TooSmall { path: path(), bytes: 1 << 20, page_bytes: 64 << 20 },
            "use 1048576 bytes of /dev/nvme0n1: at least 134217728 are needed, which are two pages of 67108864\n  hint: \
             give it more, or make the pages smaller",
        );
        check(
            OpenError::DeviceTooSmall { path: path(), bytes: 8 << 20, device_bytes: (7 << 20) + 512 },
            "use 8388608 bytes of /dev/nvme0n1: the device has 7340544\n  hint: `7m` is the most",
        );
        check(
            OpenError::NoRoom { path: path(), bytes: 9, missing_bytes: 5, free_bytes: 3 },
            "reserve 9 bytes for /dev/nvme0n1: 5 are missing, and its file system has 3 free\n  hint: name a smaller size, \
             as the file system needs some room for itself, or make room",
        );
        check(
            OpenError::Kind { path: path(), found: "a directory" },
            "use /dev/nvme0n1 for the flash tier: it is a directory, and a regular file or a block device is accepted",
        );
    }
}
