//! The machine's kernel: sockets, epoll, and the driver of batches.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, getsockname, sockopt};
use stdx::clock::Now;

use crate::clock::Clock;
use crate::event_loop::dial::{Place, Unreachable};
use crate::event_loop::lanes::Lanes;
use crate::files::file_read::{FileRead, FinishedRead};
use crate::files::file_reads::FileReads;
use crate::kernel::arrival_clock::ArrivalClock;
use crate::kernel::driver::{IoDriver, Poll, SEND_FLAGS, receive_body};
use crate::kernel::frame_ports::WorkerPorts;
use crate::kernel::uring::BrokenRing;
use crate::kernel::{Connect, Kernel};
use crate::network::time_slice::TimeSlice;
use crate::secure::handshakes::{DialHandshakes, DialledCandidate};
use crate::secure::kernel_tls;
use crate::sockets::address::Address;
use crate::sockets::fast_open::connect_fast;
use crate::sockets::listener::{datagram_socket, stream_socket};
use crate::sockets::receive_stamp::{self, keep_stamping, set_stamps};
use crate::sockets::segments::{self, DatagramBatch, MESSAGES_MAX, Message};
use crate::sockets::socket_option;

/// A worker thread's epoll set, driver, file reads and time slices.
pub(crate) struct System {
    pub(crate) poll: Poll,
    pub(crate) driver: IoDriver,
    pub(crate) file_reads: FileReads,
    pub(crate) handshakes: Option<DialHandshakes>,
    pub(crate) slice: TimeSlice,
    pub(crate) clock: Clock,
    pub(crate) stamping: Option<Stamping>,
    pub(crate) ports: WorkerPorts,
}

/// What conversions of receive stamps need; there is one from the first stamped connection on.
pub(crate) struct Stamping {
    arrivals: ArrivalClock,
    /// See [`keep_stamping`].
    _keeper: Option<OwnedFd>,
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

    fn unwatch(&self, socket: &OwnedFd) {
        // It fails only for one that is not watched.
        let _ = self.poll.remove(socket);
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

    fn send_last(&mut self, socket: &OwnedFd, bytes: &[u8]) {
        // The peer may be gone, or read nothing.
        let _unsent = rustix::net::send(socket, bytes, SEND_FLAGS);
    }

    fn end_kernel_session(&mut self, socket: &OwnedFd) {
        let _unsent = kernel_tls::send_close_notify(socket);
    }

    fn receive_body(&mut self, socket: &OwnedFd, body: &mut [u8], beyond: &mut [u8]) -> Result<usize, Errno> {
        receive_body(socket.as_fd(), body, beyond)
    }

    fn stamp(&mut self, socket: &OwnedFd, on: bool) -> bool {
        if self.stamping.is_none() {
            let arrivals = ArrivalClock::new(self.clock.read_both());
            self.stamping = Some(Stamping { arrivals, _keeper: keep_stamping().ok() });
        }
        set_stamps(socket, on).is_ok()
    }

    fn receive_stamped(&mut self, socket: &OwnedFd, room: &mut [u8]) -> Result<(usize, Option<Now>), Errno> {
        let (received, stamp_ns) = receive_stamp::receive(socket.as_fd(), room)?;
        let arrival = self.stamping.as_mut().zip(stamp_ns).and_then(|(stamping, stamp_ns)| {
            stamping.arrivals.arrival(stamp_ns / 1000, self.clock.read_both())
        });
        Ok((received, arrival))
    }

    fn receive_datagrams(&mut self, socket: &OwnedFd, arrivals: &mut DatagramBatch) -> Result<(), Errno> {
        if !self.ports.is_empty()
            && let Some(received) = self.ports.receive(socket, arrivals)
        {
            return received;
        }
        arrivals.receive(socket.as_fd())
    }

    fn overflowed(&self, socket: &OwnedFd) -> u32 {
        if let Some(overflowed) = self.ports.overflowed(socket) {
            return overflowed;
        }
        // A kernel before 4.12 does not tell.
        socket_option::overflowed(socket).unwrap_or(0)
    }

    fn send_datagrams(
        &mut self,
        socket: &OwnedFd,
        to: &[Option<SocketAddr>],
        datagrams: &[IoSlice<'_>],
    ) -> usize {
        // A dialled socket's have no peer here, and no port.
        if self.ports.is_empty() || to.first().is_none_or(Option::is_none) {
            return send_by_socket(socket, to, datagrams);
        }
        let others = self.ports.send(to, datagrams);
        let sent = datagrams.len() - others.len();
        let to: Vec<_> = others.iter().map(|at| to[*at]).collect();
        let datagrams: Vec<_> = others.iter().map(|at| IoSlice::new(&datagrams[*at])).collect();
        sent + send_by_socket(socket, &to, &datagrams)
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

    fn secure(&mut self, dialled: DialledCandidate<OwnedFd>) -> Result<(), Unreachable> {
        let none = Unreachable::Failed(Errno::OPNOTSUPP.raw_os_error());
        self.handshakes.as_mut().ok_or(none).map(|handshakes| handshakes.begin(dialled))
    }
}

/// Sends datagrams by a socket, several in a system call. Returns how many the kernel took.
fn send_by_socket(socket: &OwnedFd, to: &[Option<SocketAddr>], datagrams: &[IoSlice<'_>]) -> usize {
    let (mut at, mut taken) = (0, 0);
    while at < datagrams.len() {
        let mut messages = [Message { to: None, parts: &[], segment_len: None }; MESSAGES_MAX];
        let (mut count, mut next) = (0, at);
        while count < MESSAGES_MAX && next < datagrams.len() {
            let lens = datagrams[next..].iter().map(|datagram| datagram.len());
            let alike = segments::count_alike(to[next..].iter().copied().zip(lens));
            let parts = &datagrams[next..next + alike];
            let segment_len = (alike > 1).then(|| parts[0].len() as u16);
            messages[count] = Message { to: to[next], parts, segment_len };
            (count, next) = (count + 1, next + alike);
        }
        let messages = &messages[..count];
        let (passed, sent) = send_messages(socket, messages);
        at += passed;
        taken += sent;
        if passed == 0 {
            break;
        }
    }
    taken
}

/// Sends messages. Returns how many datagrams are done with, and how many of these the kernel took; none are done with
/// while the socket's buffer is full.
fn send_messages(socket: &OwnedFd, messages: &[Message<'_>]) -> (usize, usize) {
    let first = messages[0];
    match segments::send(socket.as_fd(), messages) {
        Ok(sent) => {
            let datagrams = messages[..sent].iter().map(|message| message.parts.len()).sum();
            (datagrams, datagrams)
        }
        Err(Errno::AGAIN | Errno::NOBUFS) => (0, 0),
        // An error of an earlier datagram (ICMP), which the kernel reports now; or a route on which it does not cut.
        Err(_) => {
            let alone = |datagram: &IoSlice<'_>| {
                let parts = std::slice::from_ref(datagram);
                let message = Message { to: first.to, parts, segment_len: None };
                segments::send(socket.as_fd(), &[message]).is_ok()
            };
            (first.parts.len(), first.parts.iter().filter(|datagram| alone(datagram)).count())
        }
    }
}

/// The kernel may choose a port without a listener on this machine as the local one: then it connects the socket to
/// itself.
fn is_connected_to_itself(socket: &OwnedFd, place: &Place) -> bool {
    let (Place::Tcp(address) | Place::FastTcp(address) | Place::Udp(address)) = place else { return false };
    getsockname(socket).is_ok_and(|local| SocketAddr::try_from(local).is_ok_and(|local| local == *address))
}

/// A socket for a connection to `place`, and what came of beginning it.
fn begin(place: &Place) -> Result<(OwnedFd, Result<(), Errno>), Errno> {
    match place {
        Place::Tcp(address) | Place::FastTcp(address) => {
            let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
            let socket = stream_socket(family)?;
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            if matches!(place, Place::FastTcp(_)) {
                // A system that does not allow it to clients connects as usual.
                let _refused = connect_fast(&socket);
            }
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
