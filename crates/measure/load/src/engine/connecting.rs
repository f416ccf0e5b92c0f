//! TCP connections, opened several at once, so that a distant server costs one round trip for many of them.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Connections of one thread that are on their way at the same time: fewer than 128, the shortest queue that servers
/// commonly listen with. What finds no room there is tried again by the kernel, a whole second later.
const AT_ONCE: usize = 64;
/// A connection that is not established after this time will not be.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// A server over TCP, and how connections to it are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpServer {
    pub(crate) address: SocketAddr,
    /// The first bytes go with the SYN if the kernel has a cookie of the server. The connection is open at once then, and
    /// learns of a refusal when it has sent something.
    pub(crate) fast_open: bool,
}

/// A connection that could not be opened: its number from 1, and why.
pub(crate) type FailedConnection = (usize, io::Error);

/// Opens `count` connections, which block.
pub(crate) fn open(server: TcpServer, count: usize) -> Result<Vec<OwnedFd>, FailedConnection> {
    let first = |error: Errno| (1, error.into());
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(first)?;
    let mut sockets: Vec<OwnedFd> = Vec::with_capacity(count);
    let mut events: Vec<Event> = Vec::with_capacity(AT_ONCE);
    let mut done = 0;
    while done < count {
        while sockets.len() < count && sockets.len() - done < AT_ONCE {
            let number = sockets.len();
            let failed = |error: Errno| (number + 1, error.into());
            let socket = begin(server).map_err(failed)?;
            let data = EventData::new_u64(number as u64);
            epoll::add(&epoll, &socket, data, EventFlags::OUT | EventFlags::ONESHOT).map_err(failed)?;
            sockets.push(socket);
        }
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&PATIENCE)) {
            Ok(0) => return Err((done + 1, io::ErrorKind::TimedOut.into())),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err((done + 1, error.into())),
        }
        for event in &events {
            let number = event.data.u64() as usize;
            finish(&sockets[number]).map_err(|error| (number + 1, error.into()))?;
        }
        done += events.len();
    }
    Ok(sockets)
}

/// Sends the first packet; that the socket can be written to reports the result. It does not block.
pub(crate) fn begin(server: TcpServer) -> rustix::io::Result<OwnedFd> {
    let TcpServer { address, fast_open } = server;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if fast_open {
        net::connect_fast(&socket)?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn finish(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::socket_error(socket)??;
    rustix::io::ioctl_fionbio(socket, false)
}

/// Begins to connect to a unix socket, which does not block. One whose queue is full refuses.
pub(crate) fn begin_unix(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvFlags, recv};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    #[test]
    fn thousands_are_opened_in_one_go_and_block() {
        const COUNT: usize = 3000;
        crate::engine::files::allow(2 * COUNT).expect("a limit that can be raised");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let server = thread::spawn(move || -> Vec<TcpStream> {
            listener.incoming().take(COUNT).map(|stream| stream.expect("a connection")).collect()
        });
        let sockets = open(TcpServer { address, fast_open: false }, COUNT).expect("room for all");
        let accepted = server.join().expect("no panic");
        assert_eq!((sockets.len(), accepted.len()), (COUNT, COUNT));
        drop(accepted);
        for socket in &sockets {
            assert_eq!(recv(socket, &mut [0; 1][..], RecvFlags::empty()), Ok((0, 0)), "waits for the end");
        }
    }

    #[test]
    fn a_refusal_says_which_and_why() {
        let server = TcpServer { address: ([127, 0, 0, 1], 1).into(), fast_open: false };
        let (number, error) = open(server, 3).expect_err("nobody listens there");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!((1..=3).contains(&number));
    }
}
