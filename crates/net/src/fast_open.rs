//! TCP Fast Open on listeners: connections that bring data with their SYN (RFC 7413).

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::socket_option;

/// Lets up to `pending` connections with data in the SYN wait for the end of their handshake; beyond them, and with 0,
/// the kernel completes the handshake first. Before or after listen(2).
pub(crate) fn set_fast_open(fd: impl AsFd, pending: i32) -> Result<(), Errno> {
    socket_option::set(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, &pending.to_ne_bytes())
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
