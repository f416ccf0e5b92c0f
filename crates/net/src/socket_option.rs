//! Options of sockets that have no safe wrapper.

#![expect(unsafe_code, reason = "setsockopt takes an address; it is that of a slice, with its length")]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// setsockopt(2).
pub(crate) fn set(socket: impl AsFd, level: i32, option: i32, value: &[u8]) -> Result<(), Errno> {
    let (socket, len) = (socket.as_fd(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads `len` bytes at the address of a slice that has them, and keeps no address. The descriptor
    // is borrowed, so it is open.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), len) };
    match result {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}
