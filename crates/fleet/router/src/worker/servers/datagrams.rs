//! Gets over UDP: sending, replies, losses.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use net::{Datagram, DatagramPeer, Dial, Place, SocketId, Turn};
use protocol::udp::Frame;
use stdx::clock::Now;

use super::place_timers::PlaceTimers;
use super::{Asker, Servers};
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::plan::ServerPlace;
use crate::servers::destination::{Destination, Exchange, HotNote, HotSide, ReplyKind, ReplyToken};
use crate::servers::udp::{UdpCounts, UdpNews, UdpRequest, UdpState, udp_tag};
use crate::shared::notices::NoticeKind;
use crate::stats::DestinationCells;
use crate::worker::hot::HotValues;

/// Sockets and timers for datagrams.
#[derive(Default)]
pub(super) struct Datagrams {
    /// When to look at a destination for datagrams without a reply.
    timers: PlaceTimers,
    /// Destinations by their sockets.
    sockets: HashMap<SocketId, u32>,
    /// The place at which replies are read.
    reader: Option<u32>,
    /// Memory for a datagram.
    text: Vec<u8>,
}

impl Datagrams {
    /// When the first request is lost.
    pub(super) fn next_timeout(&self) -> Option<Now> {
        self.timers.next()
    }

    /// The destination at which replies are read. No plan names it.
    pub(super) fn reader(&self) -> Option<u32> {
        self.reader
    }
}

impl Servers {
    /// Asks for a key with a datagram. Whether it was sent; if not, it goes over TCP.
    pub(super) fn send_datagram(
        &mut self,
        place: u32,
        (key, shown, part): (&[u8], &[u8], u32),
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> bool {
        let now = self.now;
        let destination = &mut self.destinations[place as usize];
        let Some(udp) = &mut destination.udp else { return false };
        if destination.health.unavailable().is_some() {
            return false;
        }
        if udp.state == UdpState::Closed && !udp.is_resting(now) {
            self.dial_datagrams(place, turn);
            return false;
        }
        let Some(socket) = udp.room(now) else { return false };
        let id = udp.next_id();
        self.datagrams.text.clear();
        self.datagrams.text.extend_from_slice(&Frame::request(id).to_bytes());
        self.datagrams.text.extend_from_slice(b"get ");
        self.datagrams.text.extend_from_slice(key);
        self.datagrams.text.extend_from_slice(b"\r\n");
        if !turn.send_datagram(DatagramPeer::Dialled(socket), &self.datagrams.text) {
            return false;
        }
        UdpCounts::count(&self.shared.udp.asked);
        let destination = &mut self.destinations[place as usize];
        self.counts.sent(destination, Operation::Get, 1, asker.is_failover);
        let ticket = hot.ticket(destination, key);
        let Some(udp) = &mut destination.udp else { return false };
        udp.add(id, UdpRequest::new(asker.target, part, (key, shown), now, ticket));
        if !udp.has_timer
            && let Some(at) = udp.next_timeout(destination.spec.timeout_ms)
        {
            udp.has_timer = true;
            self.datagrams.timers.add(place, at);
        }
        true
    }

    fn dial_datagrams(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        let destination = &mut self.destinations[place as usize];
        let address = match (&destination.spec.place, destination.connection.address()) {
            (ServerPlace::Fixed(Place::Tcp(address)), _) => *address,
            // The address that TCP has found.
            (ServerPlace::Named { port, .. }, Some(address)) => SocketAddr::new(address, *port),
            _ => return,
        };
        let timeout_ms = destination.spec.connect_timeout_ms;
        let dial = Dial { place: Place::Udp(address), timeout_ms, tls: None };
        if turn.dial(dial, udp_tag(place)).is_ok()
            && let Some(udp) = &mut destination.udp
        {
            udp.state = UdpState::Dialling;
        }
    }

    /// A socket for datagrams is there, or cannot be had.
    pub(crate) fn datagrams_dialled(
        &mut self,
        place: u32,
        socket: Option<SocketId>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        match (&mut self.destinations[place as usize].udp, socket) {
            (Some(udp), Some(socket)) => {
                udp.state = UdpState::Open(socket);
                self.datagrams.sockets.insert(socket, place);
            }
            (Some(udp), None) => {
                udp.state = UdpState::Closed;
                udp.rest(self.now);
            }
            (None, Some(socket)) => turn.close_socket(socket),
            (None, None) => {}
        }
    }

    /// The destination is forgotten.
    pub(super) fn close_datagrams(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(udp) = self.destinations[place as usize].udp.take()
            && let UdpState::Open(socket) = udp.state
        {
            self.datagrams.sockets.remove(&socket);
            turn.close_socket(socket);
        }
    }

    /// A datagram has come: for which destination, and what it leads to. The kernel takes none for the socket from another
    /// address than the server's.
    pub(crate) fn take_datagram(&mut self, datagram: &Datagram<'_>) -> Option<(u32, UdpNews)> {
        let DatagramPeer::Dialled(socket) = datagram.from else { return None };
        let &place = self.datagrams.sockets.get(&socket)?;
        let udp = self.destinations[place as usize].udp.as_mut()?;
        Some((place, udp.take(datagram.bytes)))
    }

    /// The place at which the reply to a datagram is read as if it had come over a connection with this one request.
    pub(crate) fn reader_for(&mut self, place: u32, request: &UdpRequest) -> u32 {
        let Destination { spec, health, cells, queue, .. } = &self.destinations[place as usize];
        let mut reader = Destination::new(Arc::clone(spec), Arc::clone(health));
        if let (Some(ticket), Some(hot)) = (request.ticket, queue.hot()) {
            let mut side = HotSide::new(hot.server(), hot.pool());
            side.push(HotNote::Get(ticket));
            reader.queue.begin_notes(side);
        }
        // What is read counts for the server.
        reader.cells = Arc::clone(cells);
        reader.queue.push_token(ReplyToken { sent: &request.key, shown: &request.shown, part: request.part });
        let (target, sent_us) = (request.target, request.sent.us);
        reader.queue.push(Exchange {
            is_noted: request.ticket.is_some(),
            ..Exchange::new(target, sent_us, Some(Operation::Get), ReplyKind::Values, 1)
        });
        match self.datagrams.reader {
            Some(place) => {
                self.destinations[place as usize] = reader;
                place
            }
            None => {
                let hidden = DestinationCells::new(Arc::clone(&reader.spec), Arc::clone(&reader.health));
                hidden.set_gone();
                let place = self.insert_unnamed(reader);
                self.counts.cells().show(place, &Arc::new(hidden));
                self.datagrams.reader = Some(place);
                place
            }
        }
    }

    /// A reply to a datagram has been read. Whether it was none, and the key is lost.
    pub(crate) fn end_reading(&mut self, reader: u32) -> bool {
        let unanswered = self.destinations[reader as usize].fail_all();
        unanswered.iter().any(|failed| !failed.parts.is_empty())
    }

    /// Takes a datagram whose reply has not come in time, and its destination.
    pub(crate) fn take_lost(&mut self) -> Option<(u32, UdpRequest)> {
        while let Some(place) = self.datagrams.timers.due(self.now)
            && self.reads_until <= self.now
        {
            let destination = &mut self.destinations[place as usize];
            let timeout_ms = destination.spec.timeout_ms;
            let lost = destination.udp.as_mut().and_then(|udp| udp.expire(self.now, timeout_ms));
            if let Some((request, rest_s)) = lost {
                if let Some(rest_s) = rest_s {
                    self.say_resting(place, rest_s);
                }
                return Some((place, request));
            }
            self.datagrams.timers.remove_first();
            if let Some(udp) = &mut destination.udp {
                match udp.next_timeout(timeout_ms) {
                    Some(next) => self.datagrams.timers.add(place, next),
                    None => udp.has_timer = false,
                }
            }
        }
        None
    }

    /// Counts a get that is lost.
    pub(crate) fn count_lost(&self, place: u32, request: &UdpRequest, outcome: Outcome, is_failover: bool) {
        UdpCounts::count(&self.shared.udp.lost);
        let destination = &self.destinations[place as usize];
        self.counts.lost(destination, outcome, is_failover, request.sent.us, self.now);
    }

    fn say_resting(&mut self, place: u32, rest_s: u64) {
        let spec = Arc::clone(&self.destinations[place as usize].spec);
        self.say(NoticeKind::Other, || {
            format!("server {} does not answer over UDP: gets go over TCP for {rest_s} s", spec.name)
        });
    }
}

#[cfg(test)]
impl Servers {
    pub(crate) fn datagram_sockets(&self) -> usize {
        self.datagrams.sockets.len()
    }
}
