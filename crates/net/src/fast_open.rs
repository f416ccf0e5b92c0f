//! TCP Fast Open on listeners: connections that bring data with their SYN (RFC 7413).

#![expect(unsafe_code, reason = "an option of sockets that has no safe wrapper")]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Lets up to `pending` connections with data in the SYN wait for the end of their handshake; beyond them, and with 0,
/// the kernel completes the handshake first. Before or after listen(2).
pub(crate) fn set_fast_open(fd: impl AsFd, pending: i32) -> Result<(), Errno> {
    let fd = fd.as_fd();
    // SAFETY: the kernel reads `size_of::<i32>()` bytes at the pointer, which is to an i32 that outlives the call. The
    // descriptor is borrowed, so it is open.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_FASTOPEN,
            (&raw const pending).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_tcp_listener_takes_it_and_other_sockets_do_not() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
        assert_eq!([0, 1, i32::MAX].map(|pending| set_fast_open(&tcp, pending)), [Ok(()); 3]);
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert!(set_fast_open(&udp, 1).is_err());
        let path = std::env::temp_dir().join(format!("net-{}-fast-open", std::process::id()));
        let unix = UnixListener::bind(&path).expect("a listener");
        assert!(set_fast_open(&unix, 1).is_err());
        std::fs::remove_file(path).expect("it is there");
    }
}
