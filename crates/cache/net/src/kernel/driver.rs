//! System calls of a worker: one way to wait, and two ways to carry out a batch of receives or sends.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::{Errno, readv};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use stdx::gather::Gather;

use crate::event_loop::lanes::{LANES_MAX, Lane, Lanes};
use crate::kernel::busy_poll::set_busy_poll;
use crate::kernel::uring::{BrokenRing, Uring};
use crate::options::DriverChoice;

/// Pieces of one gathered send.
const PIECES_MAX: usize = 64;

/// Gathered sends for one connection in a round. The rest waits for the next round, so that a peer that empties its
/// socket as fast as it is filled does not delay the others.
const GATHERED_SENDS_MAX: usize = 16;

/// Waits for sockets: epoll, edge-triggered.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    pub(crate) fn new() -> Result<Poll, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, events: Vec::with_capacity(LANES_MAX) })
    }

    /// Lets waits poll the receive queue of the connections for so long before they sleep.
    pub(crate) fn poll_busily(&self, busy_poll_us: u32) -> Result<(), Errno> {
        set_busy_poll(&self.epoll, busy_poll_us)
    }

    /// Reports changes of `fd` with `data`.
    pub(crate) fn add(&self, fd: impl AsFd, data: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(data), flags)
    }

    /// Changes the reported events of `fd`; those that are true already are reported once more.
    pub(crate) fn modify(&self, fd: impl AsFd, data: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::modify(&self.epoll, fd, EventData::new_u64(data), flags)
    }

    /// No longer reports events of `fd`.
    pub(crate) fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, fd)
    }

    /// Waits until something has changed, or for `timeout_ms`, and returns the number of events.
    #[inline]
    pub(crate) fn wait(&mut self, timeout_ms: u64) -> Result<usize, Errno> {
        let timeout =
            Timespec { tv_sec: (timeout_ms / 1000) as i64, tv_nsec: (timeout_ms % 1000 * 1_000_000) as i64 };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            // Interrupted by a signal: the round goes on without events.
            Err(Errno::INTR) => Ok(0),
            outcome => outcome,
        }
    }

    /// The event at `position` of the last wait.
    #[inline]
    pub(crate) fn event(&self, position: usize) -> (u64, EventFlags) {
        let event = self.events[position];
        (event.data.u64(), event.flags)
    }
}

/// The way in which a batch reaches the kernel.
pub(crate) enum IoDriver {
    /// One system call for each.
    Epoll,
    /// One system call for all.
    Uring(Box<Uring>),
}

impl IoDriver {
    /// The best driver that was asked for and that the kernel allows to this thread; and the error, if io_uring was
    /// refused.
    pub(crate) fn choose(choice: DriverChoice) -> (IoDriver, Option<Errno>) {
        match choice {
            DriverChoice::Epoll => (IoDriver::Epoll, None),
            DriverChoice::Auto | DriverChoice::Uring => match Uring::new() {
                Ok(uring) => (IoDriver::Uring(Box::new(uring)), None),
                Err(error) => (IoDriver::Epoll, Some(Errno::from_io_error(&error).unwrap_or(Errno::IO))),
            },
        }
    }

    /// Its number in [`crate::network::connection_table::WorkerCounters::driver`].
    pub(crate) fn code(&self) -> u64 {
        match self {
            IoDriver::Epoll => 1,
            IoDriver::Uring(_) => 2,
        }
    }

    /// Carries out the receives of all lanes that want one. After an error each lane has an outcome, too, and the
    /// driver must be replaced.
    #[inline]
    pub(crate) fn receive<'a, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        fd: impl Fn(u32) -> BorrowedFd<'a>,
    ) -> Result<(), BrokenRing> {
        match self {
            IoDriver::Epoll => {
                receive_each(lanes, |lane| lane.receive, fd);
                Ok(())
            }
            IoDriver::Uring(uring) => uring.receive(lanes, fd),
        }
    }

    /// Sends what lies in the outputs of all lanes. Errors are as of [`IoDriver::receive`].
    #[inline]
    pub(crate) fn send<'a, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        fd: impl Fn(u32) -> BorrowedFd<'a>,
    ) -> Result<(), BrokenRing> {
        match self {
            IoDriver::Epoll => {
                send_each(lanes, |_| true, fd);
                Ok(())
            }
            IoDriver::Uring(uring) => uring.send(lanes, fd),
        }
    }
}

/// Carries out the receives of all lanes that `wants` selects, one by one.
pub(crate) fn receive_each<'a, Held: AsRef<[u8]>>(
    lanes: &mut Lanes<Held>,
    mut wants: impl FnMut(&Lane) -> bool,
    fd: impl Fn(u32) -> BorrowedFd<'a>,
) {
    for position in 0..lanes.list.len() {
        let (lane, room) = lanes.target(position);
        if wants(lane) {
            lane.received = recv(fd(lane.index), room, RecvFlags::DONTWAIT).map(|(_, received)| received);
        }
    }
}

/// Receives into `body`, and what follows the body into `beyond`.
pub(crate) fn receive_body(fd: BorrowedFd<'_>, body: &mut [u8], beyond: &mut [u8]) -> Result<usize, Errno> {
    readv(fd, &mut [IoSliceMut::new(body), IoSliceMut::new(beyond)])
}

/// Sends the outputs of all lanes at positions that `wants` selects, one by one.
pub(crate) fn send_each<'a, Held: AsRef<[u8]>>(
    lanes: &mut Lanes<Held>,
    wants: impl Fn(usize) -> bool,
    fd: impl Fn(u32) -> BorrowedFd<'a>,
) {
    for position in (0..lanes.list.len()).filter(|position| wants(*position)) {
        let (lane, _, output) = lanes.parts(position);
        if !output.is_empty() {
            lane.sent = send_output(fd(lane.index), output);
        }
    }
}

pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// Sends as much of `output` as the socket takes, and removes it from `output`.
#[inline]
pub(crate) fn send_output<Held: AsRef<[u8]>>(
    fd: BorrowedFd<'_>,
    output: &mut Gather<Held>,
) -> Result<usize, Errno> {
    let Some(bytes) = output.single() else { return send_pieces(fd, output) };
    match send(fd, bytes, SEND_FLAGS) {
        Ok(sent) => {
            output.advance(sent);
            Ok(sent)
        }
        Err(error) => blocked_or(error),
    }
}

fn send_pieces<Held: AsRef<[u8]>>(fd: BorrowedFd<'_>, output: &mut Gather<Held>) -> Result<usize, Errno> {
    let mut total = 0;
    for _ in 0..GATHERED_SENDS_MAX {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let filled = output.slices(&mut slices);
        let offered: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
        match sendmsg(fd, &slices[..filled], &mut SendAncillaryBuffer::default(), SEND_FLAGS) {
            Ok(sent) => {
                output.advance(sent);
                total += sent;
                if sent < offered || output.is_empty() {
                    break;
                }
            }
            Err(error) => return blocked_or(error).map(|_| total),
        }
    }
    Ok(total)
}

/// A full socket is no failure.
pub(crate) fn blocked_or(error: Errno) -> Result<usize, Errno> {
    if error == Errno::AGAIN || error == Errno::INTR { Ok(0) } else { Err(error) }
}
