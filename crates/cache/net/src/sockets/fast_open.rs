//! TCP Fast Open: connections whose SYN has data (RFC 7413), accepted by listeners or asked for by clients.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::sockets::socket_option;

/// Lets up to `pending` connections with data in the SYN wait for the end of their handshake; beyond them, and with 0,
/// the kernel completes the handshake first. Before or after listen(2).
pub(crate) fn set_fast_open(fd: impl AsFd, pending: i32) -> Result<(), Errno> {
    socket_option::set(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, &pending.to_ne_bytes())
}

/// Lets a socket that is not connected yet send its first data with the SYN: connect(2) then only waits for that data if
/// the kernel has a cookie of the server, and asks for one otherwise.
///
/// # Errors
///
/// `EOPNOTSUPP`: `net.ipv4.tcp_fastopen` does not allow it to clients (bit 1). `EINVAL`: the socket is connected.
pub fn connect_fast(fd: impl AsFd) -> Result<(), Errno> {
    socket_option::set(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, &1_i32.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    use rustix::net::{AddressFamily, SocketType, socket};

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

    #[test]
    fn a_tcp_socket_that_is_not_connected_may_send_with_its_syn() {
        let new = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        // The system may not allow it to clients.
        assert!(matches!(connect_fast(&new), Ok(()) | Err(Errno::OPNOTSUPP)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let connected = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        assert!(connect_fast(&connected).is_err());
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert!(connect_fast(&udp).is_err());
    }
}
