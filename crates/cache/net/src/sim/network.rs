//! The simulated network: ends of connections, and packets between them with delay and loss.
//!
//! TCP as an event loop sees it: bytes arrive in order; a lost packet arrives later, when it is sent again. Unread
//! bytes count against a window. Knows no handler and no event loop.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use stdx::clock::Now;
use stdx::prng::{Prng, mix};

use super::disk::Disks;
use crate::files::file_read::{FileRead, FinishedRead};
use crate::slab::{Slab, Token};

/// The most bytes that are sent and unread: a send buffer and a receive buffer.
pub(super) const WINDOW: usize = 256 * 1024;

/// Time until a lost packet is sent again, doubled after each loss (Linux: at least 200 ms, and 1 s for the first
/// packet of a connection).
const AGAIN_US: u64 = 200_000;
const DIAL_AGAIN_US: u64 = 1_000_000;

/// Repetitions of a connection's first packet before the dial fails (Linux: `tcp_syn_retries`).
const DIALS_AGAIN_MAX: u32 = 6;

/// Conditions of the path between two hosts, in both directions.
#[derive(Clone, Copy, Debug)]
pub struct PathConditions {
    /// Time that each packet takes.
    pub delay_us: u64,
    /// The most that is added to it, at random.
    pub jitter_us: u64,
    /// Lost packets of a million; they arrive when they are sent again.
    pub loss_ppm: u32,
    /// Bytes that arrive together: a random number of them, up to this one.
    pub piece_max: usize,
}

impl Default for PathConditions {
    fn default() -> PathConditions {
        PathConditions { delay_us: 50, jitter_us: 20, loss_ppm: 0, piece_max: usize::MAX }
    }
}

/// A packet to an end of a connection.
#[derive(Debug)]
enum Packet {
    /// The connection was accepted, and this is its other end.
    Accepted(Token),
    Data(Vec<u8>),
    /// The peer has read so many bytes.
    WindowUpdate(usize),
    Finish,
    /// Never sent again when it is lost.
    Reset(Errno),
}

#[derive(Debug)]
enum Event {
    Arrives {
        from: Option<Token>,
        to: Token,
        packet: Packet,
    },
    /// The first packet of a connection arrives.
    Dial {
        from: Token,
    },
    /// The first packet is sent again, for the time `attempt`.
    DialAgain {
        from: Token,
        attempt: u32,
    },
    Datagram {
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// A read of a file ends.
    Read {
        host: usize,
        read: FileRead,
    },
}

/// One end of a connection.
struct End {
    host: usize,
    local: SocketAddr,
    peer: SocketAddr,
    other: Option<Token>,
    /// This end knows the connection as open.
    open: bool,
    input: VecDeque<u8>,
    finished: bool,
    broken: Option<Errno>,
    /// Bytes that the other end has not read.
    unread: usize,
    /// Arrival of the last packet that it sent: the next one does not arrive earlier.
    arrives_us: u64,
    /// Datagrams that have arrived, and the sum of their lengths.
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    datagrams_len: usize,
    watch: Option<(u64, EventFlags)>,
    is_ready: bool,
}

/// A listening address.
pub(super) struct Listening {
    pub(super) host: usize,
    pub(super) listener: u16,
    pub(super) backlog: usize,
    /// Connections that are not accepted yet.
    pub(super) queue: VecDeque<Token>,
}

/// State of the path between two hosts.
#[derive(Default)]
struct PathState {
    conditions: Option<PathConditions>,
    partitioned: bool,
    /// Packets sent during the partition.
    held: Vec<Event>,
}

/// All hosts, connections and packets.
pub(super) struct SimNetwork {
    pub(super) now: Now,
    prng: Prng,
    /// Events by moment and order.
    queue: BTreeMap<(u64, u64), Event>,
    events: u64,
    ends: Slab<End>,
    pub(super) listening: BTreeMap<SocketAddr, Listening>,
    /// Datagram sockets.
    datagram_sockets: BTreeMap<SocketAddr, Token>,
    between: BTreeMap<(usize, usize), PathState>,
    pub(super) conditions: PathConditions,
    /// By host: ends with changes that were not reported.
    ready: Vec<VecDeque<Token>>,
    pub(super) disks: Disks,
    next_port: u16,
    fingerprint: u64,
}

impl SimNetwork {
    pub(super) fn new(seed: u64) -> SimNetwork {
        SimNetwork {
            now: Now::default(),
            prng: Prng::new(seed),
            queue: BTreeMap::new(),
            events: 0,
            ends: Slab::new(),
            listening: BTreeMap::new(),
            datagram_sockets: BTreeMap::new(),
            between: BTreeMap::new(),
            conditions: PathConditions::default(),
            ready: Vec::new(),
            disks: Disks::default(),
            next_port: FIRST_PORT,
            fingerprint: seed,
        }
    }

    /// A new host; returns its number.
    pub(super) fn add_host(&mut self) -> usize {
        self.disks.add_host();
        self.ready.push(VecDeque::new());
        self.ready.len() - 1
    }

    /// A hash of all events so far.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn record(&mut self, what: u64) {
        self.fingerprint = mix(self.fingerprint ^ mix(what));
    }

    // ── faults that the test causes ──

    fn between(&mut self, one: usize, other: usize) -> &mut PathState {
        self.between.entry((one.min(other), one.max(other))).or_default()
    }

    pub(super) fn set_path(&mut self, one: usize, other: usize, conditions: PathConditions) {
        self.between(one, other).conditions = Some(conditions);
    }

    pub(super) fn partition(&mut self, one: usize, other: usize) {
        self.between(one, other).partitioned = true;
    }

    pub(super) fn heal(&mut self, one: usize, other: usize) {
        let between = self.between(one, other);
        between.partitioned = false;
        let at = self.now.us + AGAIN_US;
        for event in std::mem::take(&mut self.between(one, other).held) {
            // Later packets of the same end do not overtake these.
            if let Event::Arrives { from: Some(from), .. } = event
                && let Some(end) = self.ends.get_mut(from)
            {
                end.arrives_us = end.arrives_us.max(at);
            }
            self.schedule(at, event);
        }
    }

    /// Closes the listeners of `host`, and the connections that are not accepted yet.
    pub(super) fn stop_listening(&mut self, host: usize) {
        let all = std::mem::take(&mut self.listening);
        let (gone, left) = all.into_iter().partition(|(_, listening)| listening.host == host);
        self.listening = left;
        let gone: BTreeMap<SocketAddr, Listening> = gone;
        gone.into_values().flat_map(|listening| listening.queue).for_each(|token| self.close(token));
    }

    /// The ends at `host` of its connections with `other`, in the order in which they were made.
    pub(super) fn ends_between(&mut self, host: usize, other: usize) -> Vec<Token> {
        let tokens: Vec<Token> = self.ends.indices().map(|index| self.ends.token(index)).collect();
        let mut ends: Vec<(u16, Token)> = Vec::new();
        for token in tokens {
            let Some(End { host: at, other: Some(there), local, peer, .. }) = self.ends.get_mut(token) else {
                continue;
            };
            let (at, there, port) = (*at, *there, local.port().max(peer.port()));
            if at == host && self.ends.get_mut(there).is_some_and(|end| end.host == other) {
                ends.push((port, token));
            }
        }
        ends.sort_by_key(|(port, _)| *port);
        ends.into_iter().map(|(_, token)| token).collect()
    }

    /// Resets a connection at both ends at once.
    pub(super) fn reset_both(&mut self, token: Token) {
        let other = self.ends.get_mut(token).and_then(|end| end.other);
        [Some(token), other].into_iter().flatten().for_each(|token| self.fail_end(token, Errno::CONNRESET));
    }

    fn fail_end(&mut self, token: Token, error: Errno) {
        if let Some(end) = self.ends.get_mut(token) {
            end.broken.get_or_insert(error);
            self.changed(token);
        }
    }

    // ── time ──

    /// The time of the next event.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((us, _), _)| *us)
    }

    /// Carries out all events that are due.
    pub(super) fn deliver(&mut self) {
        while let Some(entry) = self.queue.first_entry() {
            let (us, number) = *entry.key();
            if us > self.now.us {
                break;
            }
            let event = entry.remove();
            self.record(us ^ number.rotate_left(32));
            self.handle_event(event);
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Arrives { from, to, packet } => self.arrive(from, to, packet),
            Event::Dial { from } => self.first_packet(from),
            Event::DialAgain { from, attempt } => self.send_dial(from, attempt),
            Event::Datagram { from, to, bytes } => self.deliver_datagram(from, to, bytes),
            Event::Read { host, read } => self.disks.finish(host, read, &mut self.prng),
        }
    }

    fn schedule(&mut self, us: u64, event: Event) {
        self.events += 1;
        self.queue.insert((us, self.events), event);
    }

    /// The delay of a packet between two hosts, and how often it is lost first.
    fn travel(&mut self, one: usize, other: usize) -> (u64, u32) {
        let conditions = self.between(one, other).conditions.unwrap_or(self.conditions);
        let us = conditions.delay_us + self.prng.below(conditions.jitter_us + 1);
        let mut lost = 0;
        while lost < DIALS_AGAIN_MAX && self.prng.below(1_000_000) < u64::from(conditions.loss_ppm) {
            lost += 1;
        }
        (us, lost)
    }

    /// Sends a packet from one end to the other.
    fn send_packet(&mut self, from: Token, packet: Packet) {
        let Some(end) = self.ends.get_mut(from) else { return };
        let Some(to) = end.other else { return };
        let (host, arrives_us, peer) = (end.host, end.arrives_us, end.peer);
        let Some(there) = self.host_of(peer).or_else(|| self.ends.get_mut(to).map(|end| end.host)) else {
            return;
        };
        self.send_between(host, there, arrives_us, Some(from), to, packet);
    }

    fn send_between(
        &mut self,
        host: usize,
        there: usize,
        not_before_us: u64,
        from: Option<Token>,
        to: Token,
        packet: Packet,
    ) {
        let (us, lost) = self.travel(host, there);
        let late_us = AGAIN_US * ((1 << lost) - 1);
        let at = (self.now.us + us + late_us).max(not_before_us);
        if let Some(end) = from.and_then(|from| self.ends.get_mut(from)) {
            end.arrives_us = at;
        }
        let is_reset = matches!(packet, Packet::Reset(_));
        let event = Event::Arrives { from, to, packet };
        let between = self.between(host, there);
        match between.partitioned {
            false => self.schedule(at, event),
            true if is_reset => {}
            true => between.held.push(event),
        }
    }

    /// The host that has an address.
    fn host_of(&self, address: SocketAddr) -> Option<usize> {
        (0..self.ready.len()).find(|host| address_of(*host, 0).ip() == address.ip())
    }

    // ── connecting ──

    /// Begins to connect from `host`.
    pub(super) fn dial(&mut self, host: usize, peer: SocketAddr) -> Token {
        let local = self.next_local(host);
        let end = End::new(host, local, peer);
        let token = self.ends.insert(end);
        self.send_dial(token, 0);
        token
    }

    fn next_local(&mut self, host: usize) -> SocketAddr {
        self.next_port = if self.next_port == u16::MAX { FIRST_PORT } else { self.next_port + 1 };
        address_of(host, self.next_port)
    }

    fn send_dial(&mut self, from: Token, attempt: u32) {
        let is_asked = |end: &&mut End| !end.open && end.broken.is_none();
        let Some(end) = self.ends.get_mut(from).filter(is_asked) else { return };
        let (host, peer) = (end.host, end.peer);
        if attempt > DIALS_AGAIN_MAX {
            return self.fail_end(from, Errno::TIMEDOUT);
        }
        self.schedule(
            self.now.us + (DIAL_AGAIN_US << attempt),
            Event::DialAgain { from, attempt: attempt + 1 },
        );
        // An address without a host never answers.
        let Some(there) = self.host_of(peer) else { return };
        let (us, lost) = self.travel(host, there);
        if lost == 0 && !self.between(host, there).partitioned {
            self.schedule(self.now.us + us, Event::Dial { from });
        }
    }

    /// The first packet of a connection has arrived.
    fn first_packet(&mut self, from: Token) {
        let Some(end) = self.ends.get_mut(from).filter(|end| !end.open && end.other.is_none()) else {
            return;
        };
        let (local, peer, host) = (end.local, end.peer, end.host);
        let Some(listening) = self.listening.get_mut(&peer) else {
            let there = self.host_of(peer).expect("it has arrived");
            let refused = Packet::Reset(Errno::CONNREFUSED);
            return self.send_between(there, host, 0, None, from, refused);
        };
        if listening.queue.len() >= listening.backlog {
            return;
        }
        let there = listening.host;
        let mut accepted = End::new(there, peer, local);
        (accepted.other, accepted.open) = (Some(from), true);
        let token = self.ends.insert(accepted);
        let listening = self.listening.get_mut(&peer).expect("it listens");
        listening.queue.push_back(token);
        self.ends.at_mut(from.index).other = Some(token);
        self.send_packet(token, Packet::Accepted(token));
    }

    fn arrive(&mut self, from: Option<Token>, to: Token, packet: Packet) {
        let Some(end) = self.ends.get_mut(to) else {
            // A packet to an end that is gone is answered with a reset.
            let is_answered = !matches!(packet, Packet::WindowUpdate(_) | Packet::Reset(_));
            let Some(from) = from.filter(|_| is_answered) else { return };
            let Some(End { host, peer, .. }) = self.ends.get_mut(from) else { return };
            let (host, peer) = (*host, *peer);
            let there = self.host_of(peer).expect("it has arrived");
            return self.send_between(there, host, 0, None, from, Packet::Reset(Errno::CONNRESET));
        };
        if end.broken.is_some() {
            return;
        }
        let mut seen = u64::from(to.index);
        match packet {
            Packet::Accepted(other) => (end.open, end.other) = (true, Some(other)),
            Packet::Data(bytes) => {
                seen ^= bytes.iter().fold(1, |sum, &byte| mix(sum ^ u64::from(byte)));
                end.input.extend(bytes);
            }
            Packet::WindowUpdate(read) => {
                end.unread -= read;
                // As with sockets: room is reported only to an end that had none.
                if end.unread + read < WINDOW {
                    return self.record(seen);
                }
            }
            Packet::Finish => end.finished = true,
            Packet::Reset(error) => end.broken = Some(error),
        }
        self.record(seen);
        self.changed(to);
    }

    // ── datagrams ──

    /// Opens a datagram socket at `address` of `host`.
    pub(super) fn bind_datagrams(&mut self, host: usize, address: SocketAddr) -> Token {
        let token = self.ends.insert(End::new(host, address, address));
        self.datagram_sockets.insert(address, token);
        token
    }

    /// Opens a datagram socket of `host` for one peer.
    pub(super) fn dial_datagrams(&mut self, host: usize, peer: SocketAddr) -> Token {
        let local = self.next_local(host);
        let token = self.ends.insert(End::new(host, local, peer));
        self.datagram_sockets.insert(local, token);
        token
    }

    /// Sends a datagram, which may be lost for good or overtaken.
    pub(super) fn send_datagram(&mut self, token: Token, to: SocketAddr, bytes: &[u8]) {
        let End { host, local, .. } = *self.end(token);
        let Some(there) = self.host_of(to) else { return };
        let (us, lost) = self.travel(host, there);
        if lost == 0 && !self.between(host, there).partitioned {
            let event = Event::Datagram { from: local, to, bytes: bytes.to_vec() };
            self.schedule(self.now.us + us, event);
        }
    }

    fn deliver_datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let Some(&token) = self.datagram_sockets.get(&to) else { return };
        self.record(bytes.iter().fold(2, |sum, &byte| mix(sum ^ u64::from(byte))));
        let end = self.end(token);
        // A socket that takes datagrams of all senders has its own address as its peer.
        let is_taken = end.peer == end.local || end.peer == from;
        if is_taken && end.datagrams_len + bytes.len() <= WINDOW {
            end.datagrams_len += bytes.len();
            end.datagrams.push_back((from, bytes));
            self.changed(token);
        }
    }

    pub(super) fn receive_datagram(
        &mut self,
        token: Token,
        buffer: &mut [u8],
    ) -> Result<(usize, SocketAddr), Errno> {
        let end = self.end(token);
        let (from, bytes) = end.datagrams.pop_front().ok_or(Errno::AGAIN)?;
        end.datagrams_len -= bytes.len();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok((bytes.len(), from))
    }

    // ── files ──

    /// Begins a read, or returns it with an error.
    pub(super) fn begin_read(&mut self, host: usize, read: FileRead) -> Result<(), FinishedRead> {
        match self.disks.delay_us(&read, &mut self.prng) {
            Ok(us) => {
                self.schedule(self.now.us + us, Event::Read { host, read });
                Ok(())
            }
            Err(error) => Err(FinishedRead::Done(read, Err(error))),
        }
    }

    /// Ends all reads of a host: they are cancelled, except for those that have finished.
    pub(super) fn end_reads(&mut self, host: usize) -> Vec<FinishedRead> {
        let mut finished = self.disks.take_finished(host);
        let (reads, others): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|(_, event)| matches!(event, Event::Read { host: at, .. } if *at == host));
        self.queue = others;
        for event in reads.into_values() {
            if let Event::Read { read, .. } = event {
                finished.push(FinishedRead::Done(read, Err(Errno::CANCELED)));
            }
        }
        finished
    }

    // ── system calls ──

    pub(super) fn local(&mut self, token: Token) -> SocketAddr {
        self.end(token).local
    }

    pub(super) fn peer(&mut self, token: Token) -> SocketAddr {
        self.end(token).peer
    }

    /// The error of a connection that failed.
    pub(super) fn connected(&mut self, token: Token) -> Result<(), Errno> {
        self.end(token).broken.map_or(Ok(()), Err)
    }

    pub(super) fn watch(&mut self, token: Token, data: u64, flags: EventFlags) {
        self.end(token).watch = Some((data, flags));
        self.changed(token);
    }

    pub(super) fn unwatch(&mut self, token: Token) {
        self.end(token).watch = None;
    }

    /// Changes at a host since the last call: at most `count` events.
    pub(super) fn take_events(&mut self, host: usize, count: usize) -> Vec<(u64, EventFlags)> {
        let mut events = Vec::new();
        while events.len() < count
            && let Some(token) = self.ready[host].pop_front()
        {
            let Some(end) = self.ends.get_mut(token) else { continue };
            end.is_ready = false;
            let Some((data, wanted)) = end.watch else { continue };
            let flags = end.readiness() & (wanted | EventFlags::HUP | EventFlags::ERR);
            if !flags.is_empty() {
                events.push((data, flags));
            }
        }
        events
    }

    pub(super) fn is_ready(&self, host: usize) -> bool {
        !self.ready[host].is_empty() || self.disks.has_finished(host)
    }

    /// Receives into `room`.
    pub(super) fn receive(&mut self, token: Token, room: &mut [u8]) -> Result<usize, Errno> {
        let end = self.end(token);
        if end.input.is_empty() {
            return match end.broken {
                Some(error) => Err(error),
                None if end.finished => Ok(0),
                None => Err(Errno::AGAIN),
            };
        }
        let len = room.len().min(end.input.len());
        end.input.drain(..len).zip(&mut *room).for_each(|(byte, place)| *place = byte);
        self.send_packet(token, Packet::WindowUpdate(len));
        Ok(len)
    }

    /// Takes as much of `bytes` as there is room for.
    pub(super) fn send(&mut self, token: Token, bytes: &[u8]) -> Result<usize, Errno> {
        let end = self.end(token);
        if let Some(error) = end.broken {
            return Err(error);
        }
        let len = bytes.len().min(WINDOW - end.unread);
        end.unread += len;
        let (host, peer) = (end.host, end.peer);
        let there = self.host_of(peer).unwrap_or(host);
        let piece_max = self.between(host, there).conditions.unwrap_or(self.conditions).piece_max;
        let mut left = &bytes[..len];
        while !left.is_empty() {
            let piece = match piece_max {
                usize::MAX => left.len(),
                most => left.len().min(1 + self.prng.below(most as u64) as usize),
            };
            let (first, rest) = left.split_at(piece);
            self.send_packet(token, Packet::Data(first.to_vec()));
            left = rest;
        }
        Ok(len)
    }

    /// Closes an end.
    pub(super) fn close(&mut self, token: Token) {
        let end = self.end(token);
        if end.broken.is_none() {
            // As in TCP: closing with unread input resets the connection.
            let lost = !end.input.is_empty();
            self.send_packet(token, if lost { Packet::Reset(Errno::CONNRESET) } else { Packet::Finish });
        }
        let End { local, .. } = self.ends.remove(token.index);
        if self.datagram_sockets.get(&local) == Some(&token) {
            self.datagram_sockets.remove(&local);
        }
    }

    fn end(&mut self, token: Token) -> &mut End {
        self.ends.get_mut(token).expect("a socket that is open")
    }

    fn changed(&mut self, token: Token) {
        let end = self.ends.at_mut(token.index);
        if end.watch.is_some() && !end.is_ready {
            end.is_ready = true;
            self.ready[end.host].push_back(token);
        }
    }
}

impl End {
    fn new(host: usize, local: SocketAddr, peer: SocketAddr) -> End {
        End {
            host,
            local,
            peer,
            other: None,
            open: false,
            input: VecDeque::new(),
            finished: false,
            broken: None,
            unread: 0,
            arrives_us: 0,
            datagrams: VecDeque::new(),
            datagrams_len: 0,
            watch: None,
            is_ready: false,
        }
    }

    fn readiness(&self) -> EventFlags {
        let mut flags = EventFlags::empty();
        let has_input = !self.input.is_empty() || !self.datagrams.is_empty();
        flags.set(EventFlags::IN, has_input || self.finished || self.broken.is_some());
        flags.set(EventFlags::RDHUP, self.finished || self.broken.is_some());
        flags.set(EventFlags::HUP | EventFlags::ERR, self.broken.is_some());
        flags.set(EventFlags::OUT, self.open && self.unread < WINDOW);
        flags
    }
}

/// The first local port of dialled connections.
const FIRST_PORT: u16 = 32_768;

/// A host's address.
pub(super) fn address_of(host: usize, port: u16) -> SocketAddr {
    let [.., high, low] = (host as u32 + 1).to_be_bytes();
    SocketAddr::from(([10, 0, high, low], port))
}
