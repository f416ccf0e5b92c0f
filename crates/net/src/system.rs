//! The machine's kernel: sockets, epoll, and the driver of batches.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, getsockname, send, sendto, sockopt};

use crate::address::Address;
use crate::dial::{Place, Unreachable};
use crate::driver::{IoDriver, Poll, SEND_FLAGS, receive_body};
use crate::file_read::{FileRead, FinishedRead};
use crate::file_reads::FileReads;
use crate::kernel::{Connect, Kernel};
use crate::lanes::Lanes;
use crate::listener::{datagram_socket, stream_socket};
use crate::segments::{self, Received};
use crate::uring::BrokenRing;

/// A worker thread's epoll set, driver and file reads.
pub(crate) struct System {
    pub(crate) poll: Poll,
    pub(crate) driver: IoDriver,
    pub(crate) file_reads: FileReads,
}

impl System {
    /// Continues without io_uring.
    #[cold]
    fn fall_back(&mut self, broken: &BrokenRing) -> Errno {
        self.driver = IoDriver::Epoll;
        broken.error
    }
}

impl Kernel for System {
    type Socket = OwnedFd;

    fn number(socket: &OwnedFd) -> i32 {
        socket.as_raw_fd()
    }

    fn local(&self, socket: &OwnedFd) -> Address {
        let local = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
        local.map_or(Address::Unix(None), Address::Tcp)
    }

    fn watch(&self, socket: &OwnedFd, data: u64, flags: EventFlags) -> Result<(), Errno> {
        self.poll.add(socket, data, flags)
    }

    fn watch_anew(&self, socket: &OwnedFd, data: u64, flags: EventFlags) -> Result<(), Errno> {
        self.poll.modify(socket, data, flags)
    }

    #[inline]
    fn event(&self, position: usize) -> (u64, EventFlags) {
        self.poll.event(position)
    }

    #[inline]
    fn receive<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s OwnedFd,
    ) -> Result<(), Errno> {
        let received = self.driver.receive(lanes, |index| socket(index).as_fd());
        received.map_err(|broken| self.fall_back(&broken))
    }

    #[inline]
    fn send<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s OwnedFd,
    ) -> Result<(), Errno> {
        let sent = self.driver.send(lanes, |index| socket(index).as_fd());
        sent.map_err(|broken| self.fall_back(&broken))
    }

    fn receive_body(&mut self, socket: &OwnedFd, body: &mut [u8], beyond: &mut [u8]) -> Result<usize, Errno> {
        receive_body(socket.as_fd(), body, beyond)
    }

    fn receive_datagrams(&mut self, socket: &OwnedFd, buffer: &mut [u8]) -> Result<Received, Errno> {
        segments::receive(socket.as_fd(), buffer)
    }

    fn send_datagrams(
        &mut self,
        socket: &OwnedFd,
        to: Option<SocketAddr>,
        datagrams: &[IoSlice<'_>],
    ) -> usize {
        let mut rest = datagrams;
        let mut taken = 0;
        while let Some(first) = rest.first() {
            let (batch, after) = rest.split_at(segments::count_alike(rest));
            rest = after;
            let outcome = match batch.len() {
                1 => Err(Errno::INVAL),
                _ => segments::send(socket.as_fd(), to, batch, first.len() as u16),
            };
            taken += match outcome {
                Ok(()) => batch.len(),
                // The socket's buffer is full.
                Err(Errno::AGAIN | Errno::NOBUFS) => 0,
                // One datagram, or a route on which the kernel does not cut them.
                Err(_) => batch.iter().filter(|one| send_datagram(socket, to, one).is_ok()).count(),
            };
        }
        taken
    }

    fn begin_reads(&mut self, reads: Vec<FileRead>, finished: &mut Vec<FinishedRead>) {
        self.file_reads.begin(&self.poll, reads, finished);
    }

    fn take_finished_reads(&mut self, finished: &mut Vec<FinishedRead>) {
        self.file_reads.take_finished(finished);
    }

    fn end_reads(&mut self, finished: &mut Vec<FinishedRead>) {
        self.file_reads.end(finished);
    }

    fn connect(&mut self, place: &Place) -> Connect<OwnedFd> {
        match begin(place) {
            Ok((socket, Ok(()))) => match self.connected(&socket, place) {
                Ok(()) => Connect::Done(socket),
                Err(why) => Connect::Failed(why),
            },
            Ok((socket, Err(Errno::INPROGRESS | Errno::INTR))) => Connect::UnderWay(socket),
            Ok((_, Err(Errno::AGAIN))) if matches!(place, Place::Unix(_)) => Connect::Busy,
            // For TCP this is a lack of ports (ip(7)).
            Ok((_, Err(Errno::AGAIN))) => Connect::Failed(Unreachable::Exhausted),
            Ok((_, Err(error))) | Err(error) => Connect::Failed(Unreachable::from_errno(error)),
        }
    }

    fn connected(&mut self, socket: &OwnedFd, place: &Place) -> Result<(), Unreachable> {
        match sockopt::socket_error(socket) {
            Ok(Ok(())) if is_connected_to_itself(socket, place) => Err(Unreachable::Refused),
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => Err(Unreachable::from_errno(error)),
        }
    }
}

fn send_datagram(socket: &OwnedFd, to: Option<SocketAddr>, bytes: &[u8]) -> Result<usize, Errno> {
    let send = || match to {
        Some(to) => sendto(socket, bytes, SEND_FLAGS, &to),
        None => send(socket, bytes, SEND_FLAGS),
    };
    match send() {
        // An error of an earlier datagram (ICMP), which the kernel reports now.
        Err(Errno::CONNREFUSED) => send(),
        outcome => outcome,
    }
}

/// The kernel may choose a port without a listener on this machine as the local one: then it connects the socket to
/// itself.
fn is_connected_to_itself(socket: &OwnedFd, place: &Place) -> bool {
    let (Place::Tcp(address) | Place::Udp(address)) = place else { return false };
    getsockname(socket).is_ok_and(|local| SocketAddr::try_from(local).is_ok_and(|local| local == *address))
}

/// A socket for a connection to `place`, and what came of beginning it.
fn begin(place: &Place) -> Result<(OwnedFd, Result<(), Errno>), Errno> {
    match place {
        Place::Tcp(address) => {
            let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
            let socket = stream_socket(family)?;
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            let begun = connect(&socket, address);
            Ok((socket, begun))
        }
        Place::Udp(address) => {
            let socket = datagram_socket(*address)?;
            let begun = connect(&socket, address);
            Ok((socket, begun))
        }
        Place::Unix(path) => {
            let name = SocketAddrUnix::new(Arc::as_ref(path))?;
            let socket = stream_socket(AddressFamily::UNIX)?;
            let begun = connect(&socket, &name);
            Ok((socket, begun))
        }
    }
}
