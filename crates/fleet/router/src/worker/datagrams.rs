//! Gets over UDP: sending, replies, losses.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::sync::Arc;

use net::{Datagram, DatagramPeer, Dial, Place, SocketId, Turn};
use protocol::udp::Frame;

use super::RouteWorker;
use crate::flight::FlightReply;
use crate::message::key_groups::KeySpan;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::plan::ServerPlace;
use crate::servers::destination::{
    Destination, Exchange, HotNote, HotSide, ReplyKind, ReplyTarget, ReplyToken,
};
use crate::servers::udp::{UdpCounts, UdpNews, UdpRequest, UdpState, udp_tag};
use crate::shared::notices::NoticeKind;
use crate::stats::DestinationCells;

impl RouteWorker {
    /// Asks for a key with a datagram. Whether it was sent; if not, it goes over TCP.
    pub(super) fn send_datagram(
        &mut self,
        place: u32,
        (key, shown, part): (&[u8], &[u8], u32),
        target: ReplyTarget,
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
        self.scratch.clear();
        self.scratch.extend_from_slice(&Frame::request(id).to_bytes());
        self.scratch.extend_from_slice(b"get ");
        self.scratch.extend_from_slice(key);
        self.scratch.extend_from_slice(b"\r\n");
        if !turn.send_datagram(DatagramPeer::Dialled(socket), &self.scratch) {
            return false;
        }
        UdpCounts::count(&self.shared.udp.asked);
        self.count_sent(place, Operation::Get, 1, target);
        if let (Some(pool), ReplyTarget::Values(client, slot)) =
            (self.destinations[place as usize].cells.pool, target)
        {
            self.note_pool(place, pool, ReplyTarget::Part(client, slot, part));
        }
        let ticket = self.hot_ticket(place, key);
        let destination = &mut self.destinations[place as usize];
        let Some(udp) = &mut destination.udp else { return false };
        udp.add(id, UdpRequest::new(target, part, (key, shown), now, ticket));
        if !udp.has_timer
            && let Some(at) = udp.next_timeout(destination.spec.timeout_ms)
        {
            udp.has_timer = true;
            self.udp_timers.push(Reverse((at, place)));
        }
        true
    }

    /// Asks for keys of a line with datagrams, as many as there is room for. Returns how many.
    pub(super) fn send_key_datagrams(
        &mut self,
        place: u32,
        line: &[u8],
        keys: &[KeySpan],
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> usize {
        let refused = keys.iter().position(|key| {
            !self.send_datagram(place, (key.sent(line), key.shown(line), key.part), target, turn)
        });
        refused.unwrap_or(keys.len())
    }

    fn dial_datagrams(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        let destination = &mut self.destinations[place as usize];
        let address = match (&destination.spec.place, destination.address) {
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
    pub(super) fn datagrams_dialled(
        &mut self,
        place: u32,
        socket: Option<SocketId>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        match (&mut self.destinations[place as usize].udp, socket) {
            (Some(udp), Some(socket)) => {
                udp.state = UdpState::Open(socket);
                self.udp_sockets.insert(socket, place);
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
            self.udp_sockets.remove(&socket);
            turn.close_socket(socket);
        }
    }

    /// A datagram has come. The kernel takes none for the socket from another address than the server's.
    pub(super) fn take_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let DatagramPeer::Dialled(socket) = datagram.from else { return };
        let Some(&place) = self.udp_sockets.get(&socket) else { return };
        let Some(udp) = &mut self.destinations[place as usize].udp else { return };
        match udp.take(datagram.bytes) {
            UdpNews::None => {}
            UdpNews::Whole(request) => self.read_datagrams(place, request, turn),
            UdpNews::TooLong(request) => self.miss(place, &request, Outcome::RemoteError, turn),
        }
    }

    /// Reads a reply as if it had come over a connection with this one request.
    fn read_datagrams(&mut self, place: u32, mut request: UdpRequest, turn: &mut Turn<Arc<[u8]>>) {
        let text = std::mem::take(&mut request.text);
        let Destination { spec, health, cells, hot, .. } = &self.destinations[place as usize];
        let mut reader = Destination::new(Arc::clone(spec), Arc::clone(health));
        if let (Some(ticket), Some(hot)) = (request.ticket, hot) {
            let mut side = HotSide::new(hot.server, hot.pool);
            side.notes.push_back(HotNote::Get(ticket));
            reader.hot = Some(Box::new(side));
        }
        // What is read counts for the server.
        reader.cells = Arc::clone(cells);
        reader.tokens.push(ReplyToken { sent: &request.key, shown: &request.shown, part: request.part });
        let (target, sent_us) = (request.target, request.sent.us);
        reader.exchanges.push_back(Exchange {
            is_noted: request.ticket.is_some(),
            ..Exchange::new(target, sent_us, Some(Operation::Get), ReplyKind::Values, 1)
        });
        let reader_place = match self.udp_reader {
            Some(place) => {
                self.destinations[place as usize] = reader;
                place
            }
            None => {
                let hidden = DestinationCells::new(Arc::clone(&reader.spec), Arc::clone(&reader.health));
                hidden.set_gone();
                let place = self.insert_unnamed(reader);
                self.cells.show(place, &Arc::new(hidden));
                self.udp_reader = Some(place);
                place
            }
        };
        let mut consumed = 0;
        if let Err(malformed) = self.read_replies(reader_place, &text, &mut consumed, turn) {
            self.note_malformed(reader_place, &malformed, "the key is a miss");
        }
        // Without an answer the key is lost.
        let unanswered = self.destinations[reader_place as usize].fail_all();
        if unanswered.iter().any(|failed| !failed.parts.is_empty()) {
            self.miss(place, &request, Outcome::RemoteError, turn);
        }
    }

    /// Ends requests whose replies have not come in time.
    pub(super) fn expire_datagrams(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        while let Some(&Reverse((at, place))) = self.udp_timers.peek() {
            if at > self.now || self.reads_until > self.now {
                return;
            }
            self.udp_timers.pop();
            let timeout_ms = self.destinations[place as usize].spec.timeout_ms;
            while let Some(udp) = &mut self.destinations[place as usize].udp
                && let Some((request, rest_s)) = udp.expire(self.now, timeout_ms)
            {
                if let Some(rest_s) = rest_s {
                    self.say_resting(place, rest_s);
                }
                self.miss(place, &request, Outcome::Timeout, turn);
            }
            if let Some(udp) = &mut self.destinations[place as usize].udp {
                match udp.next_timeout(timeout_ms) {
                    Some(next) => self.udp_timers.push(Reverse((next, place))),
                    None => udp.has_timer = false,
                }
            }
        }
    }

    fn say_resting(&mut self, place: u32, rest_s: u64) {
        let spec = Arc::clone(&self.destinations[place as usize].spec);
        self.say(NoticeKind::Other, || {
            format!("server {} does not answer over UDP: gets go over TCP for {rest_s} s", spec.name)
        });
    }

    /// A key is lost: as if there were no item. For statistics it has failed.
    fn miss(&mut self, place: u32, request: &UdpRequest, outcome: Outcome, turn: &mut Turn<Arc<[u8]>>) {
        UdpCounts::count(&self.shared.udp.lost);
        self.count_lost(place, outcome, request.target, request.sent.us);
        let target = match request.target {
            ReplyTarget::Values(client, slot) => ReplyTarget::Part(client, slot, request.part),
            target => target,
        };
        let reply = FlightReply::without_server(None, Operation::Get, ReplyKind::Values);
        self.deliver_whole(target, Operation::Get, reply, turn);
    }
}
