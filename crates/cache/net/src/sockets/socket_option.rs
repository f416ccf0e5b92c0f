//! Options of sockets that have no safe wrapper.

#![expect(unsafe_code, reason = "both calls take addresses, of values that outlive them")]

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

/// Datagrams that a socket's receive buffer has had no room for (`SO_MEMINFO`, Linux 4.12).
pub(crate) fn overflowed(socket: impl AsFd) -> Result<u32, Errno> {
    // Of linux/sock_diag.h: nine numbers (`SK_MEMINFO_VARS`), of which the last is the count (`SK_MEMINFO_DROPS`).
    let mut values = [0_u32; 9];
    let mut len = size_of_val(&values) as libc::socklen_t;
    let socket = socket.as_fd();
    // SAFETY: the kernel writes at most `len` bytes at the first address, which is that of as many bytes of an array, and the length at
    // the second; both outlive the call, and the kernel keeps neither. The descriptor is borrowed, so it is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match result {
        0 if len as usize == size_of_val(&values) => Ok(values[8]),
        0 => Err(Errno::NOTSUP),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

/// getsockopt(2) of an option that is a number.
pub(crate) fn number(socket: impl AsFd, level: i32, option: i32) -> Result<u32, Errno> {
    let (mut value, mut len) = (0_u32, size_of::<u32>() as libc::socklen_t);
    let socket = socket.as_fd();
    // SAFETY: the kernel writes at most `len` bytes at the first address, which is a u32's, and the length at the second; both
    // outlive the call, and the kernel keeps neither. The descriptor is borrowed, so it is open.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len) };
    match result {
        0 => Ok(value),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}
