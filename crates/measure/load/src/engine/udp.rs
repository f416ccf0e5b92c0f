//! Requests and replies as datagrams: memcached's UDP protocol, many in one system call.
//!
//! Replies overtake each other and get lost, so each request on its way is a *lane* of its own: what is a connection to
//! the worker is a lane here, `depth` of them share a socket, and a lane has one request at a time. The lower bits of
//! a request's id are the lane's number, the others count its requests, so that a late reply is recognised.

use super::{ConnectionEvent, Engine, Wait, datagrams, failed, precise};
use crate::engine::outbox::Outbox;
use crate::types::clock;
use crate::types::error::Error;
use net::segments::{self, DatagramBatch, MESSAGES_MAX};
use protocol::udp::{Frame, HEAD_LEN, Parts, Taken};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Sockets behind one epoll instance.
pub(crate) struct Udp {
    epoll: OwnedFd,
    sockets: Vec<OwnedFd>,
    lanes: Lanes,
    /// Numbers of the parcels that a socket sends in this turn, and the sockets that have any.
    queues: Vec<Vec<usize>>,
    queued: Vec<usize>,
    arrivals: DatagramBatch,
    events: Vec<epoll::Event>,
    patience: Patience,
    /// When lanes are next looked over for replies that are missing.
    look_at_ns: u64,
    strays: u64,
    /// The server's host has answered that nothing takes datagrams there.
    unreachable: Vec<Error>,
    /// Lanes that were closed.
    reopened: Vec<usize>,
}

/// How long to wait for a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) timeout: Duration,
    /// A request without a reply is sent again this many times before it counts as lost. Only where a repeated
    /// request has the same effect as a single one, and its latency is of no interest.
    pub(crate) repeats: u32,
}

impl Patience {
    /// How often lanes are looked over: a loss is noticed at most an eighth of the timeout late.
    fn look_every_ns(&self) -> u64 {
        (self.timeout.as_nanos() as u64 / 8).max(1)
    }
}

/// Requests on their way on all sockets of a thread.
struct Lanes {
    all: Vec<Lane>,
    /// Lanes of each socket.
    depth: usize,
    /// Bits of an id that hold the lane's number.
    bits: u32,
    /// Whether to keep requests, to send them again.
    keep: bool,
}

#[derive(Debug, Default)]
struct Lane {
    id: u16,
    /// When the request was last sent; `None`: none is on its way.
    sent_ns: Option<u64>,
    parts: Parts,
    /// All datagrams of the reply have come. If they held no whole reply, the request is lost all the same.
    is_answered: bool,
    /// The request, if it may have to be sent again, and how often it was.
    request: Vec<u8>,
    repeated: u32,
}

/// With more, too few bits of an id are left to tell a late reply from a present one.
pub(crate) const DEPTH_MAX: usize = 1024;
/// Bytes of a request: what IPv4 leaves of 64 KiB.
pub(crate) const REQUEST_MAX: usize = 65_507 - HEAD_LEN;

impl Udp {
    /// `sockets` are connected and block: a send waits until the network device has room, which is soon.
    pub(crate) fn new(sockets: Vec<OwnedFd>, depth: usize, patience: Patience) -> Result<Udp, Error> {
        let start = || -> rustix::io::Result<OwnedFd> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            for (number, socket) in sockets.iter().enumerate() {
                // Older kernels do not.
                let _coalesced = segments::coalesce(socket.as_fd());
                let flags = EventFlags::IN | EventFlags::ET;
                epoll::add(&epoll, socket, EventData::new_u64(number as u64), flags)?;
            }
            Ok(epoll)
        };
        let epoll = start().map_err(|error| super::failed_to_start(Udp::NAME, error.into()))?;
        Ok(Udp {
            epoll,
            lanes: Lanes::new(sockets.len(), depth, patience.repeats > 0),
            queues: vec![Vec::new(); sockets.len()],
            queued: Vec::new(),
            arrivals: DatagramBatch::default(),
            events: Vec::with_capacity(sockets.len()),
            sockets,
            patience,
            look_at_ns: 0,
            strays: 0,
            unreachable: Vec::new(),
            reopened: Vec::new(),
        })
    }

    /// Sends everything that is queued, socket by socket.
    fn send_queued(&mut self, outbox: &Outbox) -> Result<(), Error> {
        let Udp { sockets, lanes, queues, queued, unreachable, .. } = self;
        for socket in queued.drain(..) {
            let queue = &mut queues[socket];
            let mut rest = &queue[..];
            while !rest.is_empty() {
                let requests = rest.iter().map(|&number| {
                    let (lane, bytes) = outbox.parcel(number);
                    (Frame::request(lanes.all[lane].id).to_bytes(), bytes)
                });
                let sent = datagrams::send(sockets[socket].as_fd(), requests);
                rest = &rest[sent.count..];
                match sent.error {
                    None | Some(Errno::INTR) => {}
                    // The device has no room for it: lost like one that the network loses.
                    Some(Errno::NOBUFS) => rest = &rest[1..],
                    // The answer to an earlier one. This one was not sent, and is lost like that.
                    Some(error) if is_unreachable(error) => {
                        rest = &rest[1..];
                        unreachable.push(failed(socket, Some(error.into())));
                    }
                    Some(error) => return Err(failed(socket, Some(error.into()))),
                }
            }
            queue.clear();
        }
        Ok(())
    }
}

impl Engine for Udp {
    const NAME: &'static str = "mmsg";

    fn exchange(&mut self, outbox: &Outbox, wait: Wait) -> Result<(), Error> {
        let now_ns = self.now_ns();
        for (number, (lane, bytes)) in outbox.parcels().enumerate() {
            let socket = self.lanes.begin(lane, bytes, now_ns);
            if self.queues[socket].is_empty() {
                self.queued.push(socket);
            }
            self.queues[socket].push(number);
        }
        self.send_queued(outbox)?;
        let at_most = wait.at_most.min(Duration::from_nanos(self.patience.look_every_ns()));
        precise::wait(&self.epoll, &mut self.events, at_most)
    }

    fn arrivals(
        &mut self,
        mut each: impl FnMut(usize, &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Udp { sockets, lanes, arrivals, events, strays, unreachable, .. } = self;
        let mut is_later = false;
        for event in &*events {
            let socket = event.data.u64() as usize;
            loop {
                match arrivals.receive(sockets[socket].as_fd()) {
                    Ok(()) => {}
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => continue,
                    Err(error) if is_unreachable(error) => {
                        unreachable.push(failed(socket, Some(error.into())));
                        continue;
                    }
                    Err(error) => return Err(failed(socket, Some(error.into()))),
                }
                let at_ns = is_later.then(clock::now_ns);
                is_later = true;
                for number in 0..arrivals.count() {
                    let mut each = |lane: usize, bytes: &[u8]| each(lane, bytes, at_ns);
                    let (message, bytes) = arrivals.message(number);
                    for datagram in bytes.chunks(message.segment_len.max(1)) {
                        let is_answer = lanes.arrive(socket, datagram, &mut each)?;
                        *strays += u64::from(!is_answer);
                    }
                }
                // A short batch emptied the socket; what comes later makes a new edge.
                if arrivals.count() < MESSAGES_MAX {
                    break;
                }
            }
        }
        Ok(())
    }

    fn events(&mut self, mut each: impl FnMut(ConnectionEvent)) -> Result<(), Error> {
        if self.strays > 0 {
            each(ConnectionEvent::Stray(std::mem::take(&mut self.strays)));
        }
        self.unreachable.drain(..).for_each(|error| each(ConnectionEvent::Unreachable(error)));
        for connection in self.reopened.drain(..) {
            each(ConnectionEvent::Opened { connection, took_ns: 0 });
        }
        let now_ns = self.now_ns();
        if now_ns < self.look_at_ns {
            return Ok(());
        }
        self.look_at_ns = now_ns + self.patience.look_every_ns();
        let timeout_ns = self.patience.timeout.as_nanos() as u64;
        for number in 0..self.lanes.all.len() {
            let lane = &mut self.lanes.all[number];
            if lane.sent_ns.is_none_or(|sent_ns| now_ns - sent_ns < timeout_ns) {
                continue;
            }
            if lane.is_answered || lane.repeated == self.patience.repeats {
                lane.sent_ns = None;
                each(ConnectionEvent::Lost(number));
                continue;
            }
            lane.repeated += 1;
            lane.sent_ns = Some(now_ns);
            let socket = number / self.lanes.depth;
            let datagram = (Frame::request(lane.id).to_bytes(), &lane.request[..]);
            // What cannot be sent now is repeated once more, or lost in the end.
            datagrams::send(self.sockets[socket].as_fd(), std::iter::once(datagram));
        }
        Ok(())
    }

    /// There is nothing to open: a lane can be used as soon as it is closed.
    fn reopen(&mut self, lane: usize) -> Result<(), Error> {
        self.close(lane);
        self.reopened.push(lane);
        Ok(())
    }

    fn close(&mut self, lane: usize) {
        self.lanes.all[lane].sent_ns = None;
    }
}

/// Errors that an answer of a host or router on the way brings about.
fn is_unreachable(error: Errno) -> bool {
    matches!(error, Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH)
}

impl Lanes {
    fn new(sockets: usize, depth: usize, keep: bool) -> Lanes {
        let bits = depth.next_power_of_two().trailing_zeros();
        let mut all = Vec::new();
        all.resize_with(sockets * depth, Lane::default);
        for (number, lane) in all.iter_mut().enumerate() {
            lane.id = (number % depth) as u16;
        }
        Lanes { all, depth, bits, keep }
    }

    /// Sends a request in a lane; returns its socket.
    fn begin(&mut self, number: usize, request: &[u8], now_ns: u64) -> usize {
        let lane = &mut self.all[number];
        lane.id = lane.id.wrapping_add(1 << self.bits);
        lane.sent_ns = Some(now_ns);
        lane.parts.clear();
        lane.is_answered = false;
        lane.repeated = 0;
        if self.keep {
            lane.request.clear();
            lane.request.extend_from_slice(request);
        }
        number / self.depth
    }

    /// Passes on the content of a datagram; `false` if it answers no pending request.
    fn arrive(
        &mut self,
        socket: usize,
        datagram: &[u8],
        each: &mut impl FnMut(usize, &[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Some((frame, payload)) = Frame::read(datagram) else { return Ok(false) };
        let index = usize::from(frame.id) & ((1 << self.bits) - 1);
        if index >= self.depth {
            return Ok(false);
        }
        let number = socket * self.depth + index;
        let lane = &mut self.all[number];
        if lane.sent_ns.is_none() || lane.id != frame.id {
            return Ok(false);
        }
        let taken = lane.parts.take(frame, payload, |bytes| each(number, bytes))?;
        lane.is_answered |= lane.parts.is_whole();
        Ok(taken != Taken::Stray)
    }
}

#[cfg(test)]
mod tests;
