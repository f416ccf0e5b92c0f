//! The interface of a disk: blocking reads and writes of whole pages of numbered devices.

use rustix::io::Errno;
use std::fmt::Debug;
use std::io;

/// The unit of positions, lengths and addresses of memory. Hardly a device asks for more, and those are refused when they
/// are opened.
pub const PAGE_BYTES: usize = 4096;

/// Blocking reads and writes of the devices of a tier, by number. Positions and lengths are multiples of 4096 and the memory
/// is aligned to 4096.
///
/// # Panics
/// Both calls may panic if they are not.
pub trait Disk: Send + Sync + Debug {
    /// Fills `bytes` with what the device has from `position` on: all of it, or it is an error (at the end of the device
    /// `UnexpectedEof`). After an error, `bytes` may hold anything.
    fn read(&self, device: usize, position: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes`, or it is an error, after which any part of them may have been written.
    fn write(&self, device: usize, position: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Checks a call's alignment, which is the caller's duty.
#[track_caller]
pub(crate) fn assert_aligned(position: u64, bytes: &[u8]) {
    let page = PAGE_BYTES as u64;
    assert!(position.is_multiple_of(page), "the position {position} is not a multiple of {PAGE_BYTES}");
    assert!(
        bytes.len().is_multiple_of(PAGE_BYTES),
        "the length {} is not a multiple of {PAGE_BYTES}",
        bytes.len()
    );
    let address = bytes.as_ptr().addr();
    assert!(address.is_multiple_of(PAGE_BYTES), "the memory is not aligned to {PAGE_BYTES}");
}

/// Whether a range lies within a device of this size.
pub(crate) fn is_within(position: u64, len: usize, device_bytes: u64) -> bool {
    position.checked_add(len as u64).is_some_and(|end| end <= device_bytes)
}

/// For a number that no device has.
pub(crate) fn no_such_device() -> io::Error {
    Errno::NXIO.into()
}

/// For a read beyond the end.
pub(crate) fn beyond_the_end() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// For a write beyond the end: what a block device says then. A file would grow instead.
pub(crate) fn no_space_beyond_the_end() -> io::Error {
    Errno::NOSPC.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_at_the_end_of_the_device() {
        assert!(is_within(0, 4096, 4096) && is_within(4096, 0, 4096));
        assert!(!is_within(4096, 4096, 4096) && !is_within(0, 8192, 4096));
        assert!(!is_within(u64::MAX - 4095, 8192, u64::MAX), "the sum has no room in 64 bits");
    }
}
