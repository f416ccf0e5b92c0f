//! Clients with non-blocking connects.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// A client that has begun its handshake and does not wait for the end of it.
pub(crate) fn client(address: &SocketAddrV4) -> OwnedFd {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("socket");
    match connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => socket,
        Err(errno) => panic!("connect: {errno}"),
    }
}
