//! Gets over UDP: what a worker knows of a server's datagrams.
//!
//! Each key is one datagram with a number of its own, and its reply one or more. A reply that does not come whole in time is
//! lost: a miss. How many requests may be on their way is the [`window`], which shrinks with losses; what exceeds it goes
//! over TCP.

mod window;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use net::SocketId;
use protocol::udp::{Frame, Parts, Taken};
use stdx::clock::Now;

use crate::hot::cache::Ticket;
use crate::servers::destination::ReplyTarget;
use window::SlidingWindow;

/// The longest reply, with room for its head: more than servers send (1 MiB).
const REPLY_LEN_MAX: usize = (1 << 20) + 4096;

/// Losses in a row, without a reply between them, after which gets go over TCP for a while. That tells whether the server
/// is there at all.
const SILENT_MAX: u32 = 3;

/// How long they do at first; twice as long each time that no reply has come since.
const REST_FIRST_S: u64 = 10;

/// The longest time. A server without UDP then costs three misses in five minutes.
const REST_MAX_S: u64 = 320;

/// In the tag of a dial: it is for datagrams.
const UDP_TAG: u64 = 1 << 32;

/// The tag of a dial for the datagrams of the destination at `place`.
pub(crate) fn udp_tag(place: u32) -> u64 {
    u64::from(place) | UDP_TAG
}

/// The destination that a tag is about, if it is for datagrams.
pub(crate) fn place_of_udp_tag(tag: u64) -> Option<u32> {
    (tag & UDP_TAG != 0).then_some(tag as u32)
}

/// A server's datagrams.
#[derive(Debug)]
pub(crate) struct UdpSide {
    pub(crate) state: UdpState,
    window: SlidingWindow,
    next_id: u16,
    requests: HashMap<u16, UdpRequest>,
    /// Requests in the order of their sending, those with a reply included: when, and which.
    sent: VecDeque<(Now, u16)>,
    /// Losses since the last reply.
    silent: u32,
    /// Until then gets go over TCP.
    rests_until: Now,
    /// How long the next such time is.
    rest_s: u64,
    /// An entry among the worker's timers.
    pub(crate) has_timer: bool,
}

/// The socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UdpState {
    Closed,
    Dialling,
    Open(SocketId),
}

/// A key that was asked for.
#[derive(Debug)]
pub(crate) struct UdpRequest {
    pub(crate) target: ReplyTarget,
    pub(crate) part: u32,
    /// The key as it was sent, and as the client wrote it if that differs.
    pub(crate) key: Box<[u8]>,
    pub(crate) shown: Box<[u8]>,
    /// The reply as far as it has come.
    pub(crate) text: Vec<u8>,
    parts: Parts,
    pub(crate) sent: Now,
    /// Of a get whose value may be kept.
    pub(crate) ticket: Option<Ticket>,
}

impl UdpRequest {
    pub(crate) fn new(
        target: ReplyTarget,
        part: u32,
        (key, shown): (&[u8], &[u8]),
        sent: Now,
        ticket: Option<Ticket>,
    ) -> UdpRequest {
        let (key, shown) = (key.into(), shown.into());
        UdpRequest { target, part, key, shown, text: Vec::new(), parts: Parts::default(), sent, ticket }
    }
}

/// What a datagram leads to.
pub(crate) enum UdpNews {
    /// Nothing: it belongs to no request, or to one whose reply is not whole.
    None,
    /// The reply is whole.
    Whole(UdpRequest),
    /// The reply is longer than any may be.
    TooLong(UdpRequest),
}

impl UdpSide {
    /// `first_id` is any number, so that replies to an earlier process are not taken for ours.
    pub(crate) fn new(first_id: u16) -> UdpSide {
        UdpSide {
            state: UdpState::Closed,
            window: SlidingWindow::default(),
            next_id: first_id,
            requests: HashMap::new(),
            sent: VecDeque::new(),
            silent: 0,
            rests_until: Now::default(),
            rest_s: REST_FIRST_S,
            has_timer: false,
        }
    }

    /// Whether nothing is on its way, and no dial.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.state != UdpState::Dialling
    }

    /// Whether datagrams are tried at all.
    pub(crate) fn is_resting(&self, now: Now) -> bool {
        now < self.rests_until
    }

    /// The socket for another request; `None` where it goes over TCP.
    pub(crate) fn room(&self, now: Now) -> Option<SocketId> {
        let UdpState::Open(socket) = self.state else { return None };
        (!self.is_resting(now) && self.window.has_room(self.requests.len())).then_some(socket)
    }

    /// The number of the next request. There are fewer requests than numbers.
    pub(crate) fn next_id(&mut self) -> u16 {
        while self.requests.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        self.next_id
    }

    /// Notes a request that was sent.
    pub(crate) fn add(&mut self, id: u16, request: UdpRequest) {
        // Without those that have been answered, there are no more than the window has.
        self.forget_answered();
        self.sent.push_back((request.sent, id));
        self.requests.insert(id, request);
        self.next_id = id.wrapping_add(1);
    }

    /// Takes a datagram.
    pub(crate) fn take(&mut self, datagram: &[u8]) -> UdpNews {
        let Some((frame, payload)) = Frame::read(datagram) else { return UdpNews::None };
        let Some(request) = self.requests.get_mut(&frame.id) else { return UdpNews::None };
        let UdpRequest { text, parts, .. } = request;
        let taken = parts.take(frame, payload, |bytes| {
            text.extend_from_slice(bytes);
            if text.len() > REPLY_LEN_MAX { Err(()) } else { Ok(()) }
        });
        let request = match taken {
            Ok(Taken::Stray | Taken::Dropped) => return UdpNews::None,
            Ok(Taken::Yes) if !parts.is_whole() => return UdpNews::None,
            Ok(Taken::Yes) | Err(()) => self.requests.remove(&frame.id).expect("it was just there"),
        };
        if taken.is_err() {
            return UdpNews::TooLong(request);
        }
        (self.silent, self.rest_s) = (0, REST_FIRST_S);
        self.window.grow();
        UdpNews::Whole(request)
    }

    /// When the oldest request is lost.
    pub(crate) fn next_timeout(&mut self, timeout_ms: u32) -> Option<Now> {
        self.forget_answered();
        self.sent.front().map(|(sent, _)| Now { us: sent.us + u64::from(timeout_ms) * 1000 })
    }

    /// Forgets when the oldest requests were sent, if they have been answered.
    fn forget_answered(&mut self) {
        // A number may belong to a later request by now.
        while let Some((sent, id)) = self.sent.front()
            && self.requests.get(id).is_none_or(|request| request.sent != *sent)
        {
            self.sent.pop_front();
        }
    }

    /// Gets go over TCP for a while. Returns for how many seconds.
    pub(crate) fn rest(&mut self, now: Now) -> u64 {
        let rest_s = self.rest_s;
        self.rests_until = Now { us: now.us + rest_s * 1_000_000 };
        (self.silent, self.rest_s) = (0, (rest_s * 2).min(REST_MAX_S));
        rest_s
    }

    /// Takes the oldest request that is lost by `now`; and for how many seconds datagrams rest because of it.
    pub(crate) fn expire(&mut self, now: Now, timeout_ms: u32) -> Option<(UdpRequest, Option<u64>)> {
        if self.next_timeout(timeout_ms)? > now {
            return None;
        }
        let (sent, id) = self.sent.pop_front()?;
        let request = self.requests.remove(&id)?;
        self.window.shrink(sent, now);
        self.silent += 1;
        let rests = self.silent >= SILENT_MAX && !self.is_resting(now);
        Some((request, rests.then(|| self.rest(now))))
    }
}

/// Counts of gets over UDP, of all workers.
#[derive(Debug, Default)]
pub struct UdpCounts {
    /// Keys that were asked for.
    pub asked: AtomicU64,
    /// Keys whose reply did not come whole in time: misses.
    pub lost: AtomicU64,
}

impl UdpCounts {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }
}
