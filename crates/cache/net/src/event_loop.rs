//! The event loop of a worker thread: wait, receive, prefetch, handle, send, and round again.
//!
//! ```text
//! wait ─► note events ─► fill lanes ─► receive ─► prefetch ─► handle ─► send ─► settle
//!           │               ▲                                                     │
//!           │ messages,     └── queue: Again, or more to receive ◄────────────────┤
//!           │ ticks, reads                                                        │
//!           └── EPOLLOUT: send what was blocked ◄── armed after a short send ◄────┘
//! ```

mod dials;
mod handing;
mod orders;
mod reads;
mod secure;
mod secure_dials;
mod stamps;
mod ticks;

pub(crate) mod arrival_clock;
pub(crate) mod connection;
pub(crate) mod connection_table;
#[cfg(test)]
mod datagram_tests;
pub mod dial;
#[cfg(test)]
mod dial_tests;
pub(crate) mod dialling;
pub(crate) mod lanes;
pub(crate) mod message_queue;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod secure_tests;
#[cfg(test)]
mod tests;
pub(crate) mod turn;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use stdx::clock::Now;
use stdx::gather::Gather;

use self::secure_dials::Securing;
use self::stamps::StampedConnections;
use crate::INPUT_MAX;
use crate::clock::Clock;
use crate::event_loop::connection::{Connection, Dialogue};
use crate::event_loop::connection_table::{TableWriter, WorkerCounters, code};
use crate::event_loop::dialling::Dials;
use crate::event_loop::lanes::{Lane, Lanes};
use crate::event_loop::message_queue::{MessageQueue, WorkerMessage};
use crate::event_loop::turn::{Link, Order, Turn};
use crate::files::file_read::FinishedRead;
use crate::files::file_reads::{FileReads, READS};
use crate::handler::{Activity, Arrival, CloseReason, Handler, Next};
use crate::kernel::Kernel;
use crate::kernel::driver::{IoDriver, Poll};
use crate::kernel::system::System;
use crate::network::departure::{Departure, LAST_ROUNDS_US};
use crate::network::handed::HandedConnection;
use crate::network::limit::ConnectionLimit;
use crate::network::time_slice::TimeSlice;
use crate::options::Notice;
use crate::secure::handshakes::DialHandshakes;
use crate::secure::session::{PeerEnd, Session};
use crate::slab::{Slab, Token};
use crate::sockets::datagram_sockets::DatagramSockets;

/// Time between two calls of a connection with [`crate::Next::Later`].
const LATER_MS: u64 = 50;

/// The most that is received into a handler's memory at a time, so that one client with a huge body does not delay the
/// others: about 50 µs of copying.
const BODY_RECEIVE_MAX: usize = 256 * 1024;

/// Input of a connection that is alone in its round from which a prefetch hint pays: probably several requests, whose
/// cache misses can overlap.
const PREFETCH_ALONE_MIN: usize = 128;

/// Epoll data of the message queue's eventfd.
pub(crate) const WAKE_UP: u64 = u64::MAX;

const LISTENING: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const GONE: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
const WRITABLE: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);

/// The event loop of a worker thread over its connections.
pub(crate) struct EventLoop<H: Handler, K: Kernel = System> {
    pub(crate) handler: H,
    pub(crate) kernel: K,
    slab: Slab<Connection<H, K>>,
    dials: Dials<K::Socket>,
    securing: Slab<Securing>,
    datagram_sockets: DatagramSockets<K::Socket>,
    /// Results of reads that the handler has not been told.
    finished_reads: Vec<FinishedRead>,
    /// An event says that the kernel has some.
    reads_ready: bool,
    lanes: Lanes<H::Held>,
    turn: Turn<H::Held>,
    /// Connections to visit without an event.
    queue: VecDeque<Token>,
    /// Connections to visit at the next tick.
    waiting: Vec<Token>,
    messages: Arc<MessageQueue<WorkerMessage<K::Socket>>>,
    limit: Arc<ConnectionLimit>,
    table: TableWriter,
    idle_timeout_s: u32,
    notice: Notice,
    next_later_ms: u64,
    next_tick_ms: u64,
    /// The place from which the search for idle connections continues.
    idle_from: Option<u32>,
    stopping: bool,
    /// Its number among the workers.
    number: usize,
    departure: Arc<Departure>,
    /// It says after each round whether all connections are at rest.
    draining: bool,
    /// Connections with TLS.
    secure: usize,
    stamped: StampedConnections,
}

/// State shared with the rest of the network, and options.
pub(crate) struct WorkerSetup<S> {
    pub(crate) messages: Arc<MessageQueue<WorkerMessage<S>>>,
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) table: TableWriter,
    /// The worker's number.
    pub(crate) number: usize,
    pub(crate) departure: Arc<Departure>,
    /// Datagram sockets, with their indices among the network's addresses.
    pub(crate) datagram_sockets: Vec<(u16, S)>,
    pub(crate) dialled_max: usize,
    pub(crate) reads_max: usize,
    /// Where dialled connections get their sessions.
    pub(crate) handshakes: Option<DialHandshakes>,
    pub(crate) idle_timeout_s: u32,
    /// How long waits poll the connections' receive queues; 0 for not at all.
    pub(crate) busy_poll_us: u32,
    pub(crate) notice: Notice,
}

impl<H: Handler> EventLoop<H> {
    /// Prepares the event loop of the calling thread.
    pub(crate) fn on_system(
        handler: H,
        (driver, refused): (IoDriver, Option<Errno>),
        setup: WorkerSetup<OwnedFd>,
        clock: Clock,
    ) -> Result<EventLoop<H>, Errno> {
        let poll = Poll::new()?;
        poll.add(&setup.messages.wake_up, WAKE_UP, EventFlags::IN | EventFlags::ET)?;
        let counters = setup.table.counters();
        counters.driver.set(driver.code());
        counters.refused.set(code(refused));
        if setup.busy_poll_us > 0 {
            counters.busy_poll_refused.set(code(poll.poll_busily(setup.busy_poll_us).err()));
        }
        let (slice, shortened) = TimeSlice::begin();
        counters.slice_refused.set(code(shortened.err()));
        let file_reads = FileReads::new(setup.reads_max);
        let handshakes = setup.handshakes.clone();
        let system = System { poll, driver, file_reads, handshakes, slice, clock, stamping: None };
        EventLoop::new(handler, system, setup)
    }

    /// Runs until it is told to stop, and returns the handler, and the connections that it hands over.
    pub(crate) fn run(mut self) -> Result<(H, Vec<HandedConnection>), Errno> {
        let clock = self.kernel.clock;
        let mut now = clock.now();
        let mut left_us = LAST_ROUNDS_US;
        while !self.stopping || self.goes_on_to_rest(left_us) {
            let wait_ms = if self.stopping { self.wait_ms(now).min(1) } else { self.wait_ms(now) };
            let events = self.kernel.poll.wait(wait_ms)?;
            let before = std::mem::replace(&mut now, clock.now());
            if self.stopping {
                left_us = left_us.saturating_sub(now.us - before.us);
            }
            self.round(events, now);
            self.handler.on_sent(|| clock.now());
            self.kernel.slice.end_if_over(events, now);
            if self.draining {
                self.departure.note(self.number, self.is_at_rest());
            }
        }
        let handed = if self.departure.is_decided() { self.hand_over() } else { Vec::new() };
        Ok((self.end(), handed))
    }
}

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    pub(crate) fn new(
        handler: H,
        kernel: K,
        setup: WorkerSetup<K::Socket>,
    ) -> Result<EventLoop<H, K>, Errno> {
        let datagram_sockets = DatagramSockets::new(&kernel, setup.datagram_sockets)?;
        Ok(EventLoop {
            handler,
            kernel,
            slab: Slab::new(),
            dials: Dials::new(),
            securing: Slab::new(),
            datagram_sockets,
            finished_reads: Vec::new(),
            reads_ready: false,
            lanes: Lanes::new(),
            turn: Turn::new(setup.dialled_max, setup.reads_max),
            queue: VecDeque::new(),
            waiting: Vec::new(),
            messages: setup.messages,
            limit: setup.limit,
            table: setup.table,
            idle_timeout_s: setup.idle_timeout_s,
            notice: setup.notice,
            next_later_ms: 0,
            next_tick_ms: 0,
            idle_from: None,
            stopping: false,
            number: setup.number,
            departure: setup.departure,
            draining: false,
            secure: 0,
            stamped: StampedConnections::default(),
        })
    }

    /// Closes everything, reports that to the handler, and returns it.
    pub(crate) fn end(mut self) -> H {
        self.turn.stop();
        for order in self.turn.take_orders() {
            if let Order::Dial(dial, tag) = order {
                self.dials.enqueue(dial, tag, self.turn.now());
            }
        }
        while let Some(outcome) = self.dials.cancel_first() {
            self.dialled(outcome, self.turn.now());
        }
        self.cancel_securing();
        self.end_reads();
        for index in self.slab.indices().collect::<Vec<_>>() {
            self.close(index, CloseReason::Shutdown);
        }
        self.handler
    }

    /// Time to wait for events.
    #[inline]
    pub(crate) fn wait_ms(&self, now: Now) -> u64 {
        let is_busy = !self.queue.is_empty() || !self.turn.is_idle() || self.datagram_sockets.any_readable();
        if is_busy || self.idle_from.is_some() || !self.finished_reads.is_empty() {
            return 0;
        }
        let later_ms = if self.waiting.is_empty() { u64::MAX } else { self.next_later_ms };
        let known_ms = later_ms.min(self.next_tick_ms).saturating_sub(now.ms());
        let deadline = self.handler.deadline().into_iter().chain(self.dials.next()).min();
        let left_us = deadline.map_or(u64::MAX, |deadline| deadline.us.saturating_sub(now.us));
        // Rounded up: before the deadline there would be nothing to do.
        known_ms.min(left_us.div_ceil(1000))
    }

    /// One round, after a wait that brought `events`.
    pub(crate) fn round(&mut self, events: usize, now: Now) {
        self.turn.begin(now);
        self.handler.begin_turn(now);
        self.tick(now);
        self.note_events(events, now);
        if !self.dials.is_empty() {
            self.dial(now);
        }
        if self.datagram_sockets.any_readable() {
            self.receive_datagrams();
        }
        if self.reads_ready || !self.finished_reads.is_empty() {
            self.finish_reads();
            self.wake_now();
        }
        self.fill_lanes();
        if !self.lanes.list.is_empty() {
            self.receive(now);
            self.prefetch();
            self.handle(now);
        }
        if self.handler.deadline().is_some_and(|deadline| deadline <= now) {
            self.handler.on_deadline(&mut self.turn);
        }
        self.handler.end_turn(&mut self.turn);
        if !self.turn.is_idle() {
            self.deliver_outputs();
        }
        if !self.lanes.list.is_empty() {
            self.send();
            self.settle(now);
        }
        if !self.turn.outgoing.is_empty() {
            self.send_datagrams();
        }
        if !self.turn.is_idle() {
            self.execute_orders();
        }
        if self.turn.has_reads() {
            self.begin_reads();
        }
    }

    fn send(&mut self) {
        if self.secure > 0 {
            self.seal();
        }
        let slab = &self.slab;
        if let Err(error) = self.kernel.send(&mut self.lanes, |index| &slab.at(index).socket) {
            self.note_fall_back(error);
        }
        if self.secure > 0 {
            self.unseal();
        }
    }

    /// Queues every connection for which an event leaves something to do.
    fn note_events(&mut self, events: usize, now: Now) {
        for position in 0..events {
            let (data, flags) = self.kernel.event(position);
            if data == WAKE_UP {
                self.receive_messages(now);
                continue;
            }
            if data == READS {
                self.reads_ready = true;
                continue;
            }
            let token = Token::from_u64(data);
            let Some(connection) = self.slab.get_mut(token) else {
                self.note_other(token, flags, now);
                continue;
            };
            connection.readable = true;
            connection.hangup |= flags.intersects(GONE);
            // While output is blocked, input is not read, unless the connection was dialled; the flags remember it.
            let is_of_use =
                connection.blocked.is_none() || flags.intersects(WRITABLE) || connection.wants_input();
            if !connection.queued && is_of_use {
                connection.queued = true;
                self.queue.push_back(token);
            }
        }
    }

    /// An event of something that is no connection, or has been closed.
    #[cold]
    fn note_other(&mut self, token: Token, flags: EventFlags, now: Now) {
        self.datagram_sockets.event(token);
        if let Some(outcome) = self.dials.event(&mut self.kernel, token, flags) {
            self.dialled(outcome, now);
        }
    }

    /// Gives lanes to the connections at the front of the queue.
    fn fill_lanes(&mut self) {
        while self.lanes.room() > 0 {
            let Some(token) = self.queue.pop_front() else { break };
            let Some(connection) = self.slab.get_mut(token) else { continue };
            connection.queued = false;
            if let Some(output) = connection.blocked.take() {
                let (receive, handle) = match connection.dialled {
                    true => (connection.wants_input(), connection.due),
                    false => (false, false),
                };
                let lane = self.lanes.push(token.index, receive, handle);
                self.lanes.outputs[lane] = *output;
            } else if connection.due || connection.wants_input() {
                self.lanes.push(token.index, connection.wants_input(), connection.due);
            }
        }
    }

    fn receive(&mut self, now: Now) {
        for position in 0..self.lanes.list.len() {
            let (lane, buffer, _) = self.lanes.parts(position);
            let connection = self.slab.at_mut(lane.index);
            lane.filled = connection.dialogue.unpack(buffer);
            if connection.apart {
                self.receive_apart(position, now);
            } else if lane.receive {
                let counters = self.table.counters();
                receive_body(&mut self.handler, &mut self.kernel, lane, connection, buffer, counters);
            }
        }
        let slab = &self.slab;
        if let Err(error) = self.kernel.receive(&mut self.lanes, |index| &slab.at(index).socket) {
            self.note_fall_back(error);
        }
        for lane in self.lanes.list.iter_mut().filter(|lane| lane.receive && lane.sealed.is_none()) {
            let connection = self.slab.at_mut(lane.index);
            let room = INPUT_MAX - lane.filled;
            note_received(lane, connection, lane.received, room, self.table.counters());
        }
        if self.secure > 0 {
            self.open_sealed();
        }
        if self.stamped.has_news {
            self.note_stamped(now);
        }
    }

    /// Reports that the kernel continues without io_uring.
    #[cold]
    fn note_fall_back(&mut self, error: Errno) {
        self.table.counters().driver.set(IoDriver::Epoll.code());
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a worker");
        (self.notice)(&format!("{name}: io_uring has stopped working ({error}); epoll from now on"));
    }

    fn prefetch(&mut self) {
        let alone = self.lanes.list.len() == 1;
        for position in 0..self.lanes.list.len() {
            let (lane, buffer, _) = self.lanes.parts(position);
            // For one short input alone, the hint would come just before the call itself.
            let worth_it = lane.filled > if alone { PREFETCH_ALONE_MIN } else { 0 };
            if lane.handle && worth_it {
                self.handler.prefetch(&self.slab.at(lane.index).dialogue.state, &buffer[..lane.filled]);
            }
        }
    }

    fn handle(&mut self, now: Now) {
        for position in 0..self.lanes.list.len() {
            let (lane, buffer, output) = self.lanes.parts(position);
            let connection = self.slab.at_mut(lane.index);
            if !lane.handle {
                connection.note_end(&mut self.handler);
                continue;
            }
            let input = &buffer[..lane.filled];
            connection.dialogue.handle(&mut self.handler, lane.body, input, output, &mut self.turn);
            connection.due = connection.dialogue.next == Next::Again;
            connection.note_end(&mut self.handler);
            // A call caused by time alone is no activity.
            if lane.arrived || !output.is_empty() {
                let activity = self.handler.activity(&connection.dialogue.state);
                self.table.record_activity(lane.index, now.second(), activity);
            }
        }
    }

    /// Decides the next step of each connection that had a lane.
    fn settle(&mut self, now: Now) {
        for position in 0..self.lanes.list.len() {
            let (lane, _, output) = self.lanes.parts(position);
            let index = lane.index;
            let failed = lane.sent.is_err();
            let sent = lane.sent.unwrap_or(0);
            let connection = self.slab.at_mut(index);
            self.table.counters().bytes_written.add(sent as u64);
            if failed {
                connection.dialogue.next = Next::Close(CloseReason::Error);
            } else if !output.is_empty() || connection.wire_len() > 0 {
                let output = std::mem::take(output);
                self.block(index, output, sent > 0, now);
                continue;
            }
            self.lanes.recycle_output(position);
            self.resume(index, now);
        }
        self.lanes.list.clear();
    }

    /// The socket does not take all output now: waits for room. A dialled connection is read meanwhile.
    fn block(&mut self, index: u32, output: Gather<H::Held>, some_went: bool, now: Now) {
        let token = self.slab.token(index);
        let connection = self.slab.at_mut(index);
        let wire = connection.wire_len();
        self.turn.set_blocked(Link(token), output.len() + wire, output.memory(H::share) + wire);
        connection.blocked = Some(Box::new(output));
        connection.armed = true;
        if some_went {
            self.table.record_activity(index, now.second(), Activity::Sending);
        } else {
            self.table.set_activity(index, Activity::Sending);
        }
        // Even if it is armed already: this reports room that has appeared since the send.
        let armed =
            self.kernel.watch_anew(&connection.socket, token.to_u64(), LISTENING | EventFlags::OUT).is_ok();
        if !armed {
            self.close(index, CloseReason::Error);
        } else if connection.dialled {
            match connection.dialogue.next {
                // A peer that has finished answers nothing more, and may not be reading either.
                Next::Read | Next::Later if connection.ended => self.close(index, CloseReason::Normal),
                _ => self.enqueue(index, now),
            }
        }
    }

    /// All output has been sent.
    fn resume(&mut self, index: u32, now: Now) {
        let token = self.slab.token(index);
        let connection = self.slab.at_mut(index);
        if let Some(reason) = connection.finished() {
            return self.close(index, reason);
        }
        if connection.armed {
            connection.armed = false;
            self.turn.set_blocked(Link(token), 0, 0);
            self.handler.on_drained(&mut connection.dialogue.state, &mut self.turn);
            let activity = self.handler.activity(&connection.dialogue.state);
            self.table.set_activity(index, activity);
            if self.kernel.watch_anew(&connection.socket, token.to_u64(), LISTENING).is_err() {
                return self.close(index, CloseReason::Error);
            }
        }
        self.enqueue(index, now);
    }

    /// Queues a connection for its next turn.
    #[inline]
    fn enqueue(&mut self, index: u32, now: Now) {
        let token = self.slab.token(index);
        let connection = self.slab.at_mut(index);
        if connection.dialogue.next == Next::Later && !connection.waiting {
            connection.waiting = true;
            if self.waiting.is_empty() {
                self.next_later_ms = now.ms() + LATER_MS;
            }
            self.waiting.push(token);
        }
        if connection.dialogue.next == Next::Again {
            self.table.counters().yields.add(1);
        }
        if !connection.queued && (connection.due || connection.wants_input()) {
            connection.queued = true;
            self.queue.push_back(token);
        }
    }

    fn receive_messages(&mut self, now: Now) {
        for message in self.messages.take() {
            match message {
                WorkerMessage::Accepted(socket, arrival) => self.open(socket, arrival, None, false, now),
                WorkerMessage::Secured(socket, arrival, session) => {
                    self.open(socket, arrival, Some(session), false, now);
                }
                WorkerMessage::Dialled(token, result) => self.secured(token, result, now),
                WorkerMessage::Handed(handed, arrival) => self.open_handed(handed, arrival, now),
                WorkerMessage::Drain => self.draining = true,
                WorkerMessage::Stop => self.stopping = true,
            }
        }
    }

    /// Starts to serve a connection, which has been counted.
    pub(crate) fn open(
        &mut self,
        socket: K::Socket,
        arrival: Arrival,
        session: Option<Box<Session>>,
        watched: bool,
        now: Now,
    ) {
        let link = Link(self.slab.next_token());
        let (origin, stampable) = (arrival.origin, stamps::is_stampable(&arrival));
        let opened = arrival.opened(K::number(&socket), link);
        self.turn.opened(link);
        let in_kernel = opened.security.as_ref().is_some_and(|security| security.in_kernel);
        let dialogue = Dialogue::open(&mut self.handler, &opened, &mut self.turn);
        let has_input = session.as_ref().is_some_and(|session| session.has_input());
        if session.is_some() {
            self.secure += 1;
            self.lanes.prepare_sealed();
        }
        let connection =
            Connection { in_kernel, stampable, ..Connection::new(socket, origin, session, dialogue) };
        let token = self.slab.insert(connection);
        if self.stamped.missing > 0 {
            self.begin_stamps(token.index, now);
        }
        self.table.insert(token.index, opened, now);
        self.table.counters().places.set(self.slab.places() as u64);
        let socket = &self.slab.at(token.index).socket;
        let listening = match watched {
            true => self.kernel.watch_anew(socket, token.to_u64(), LISTENING),
            false => self.kernel.watch(socket, token.to_u64(), LISTENING),
        };
        if listening.is_err() {
            self.close(token.index, CloseReason::Error);
        } else if has_input {
            self.slab.at_mut(token.index).readable = true;
            self.enqueue(token.index, now);
        }
    }

    fn close(&mut self, index: u32, reason: CloseReason) {
        if self.slab.at(index).is_encrypted() && reason != CloseReason::Error {
            self.tell_end(index);
        }
        let dialled = self.slab.at(index).dialled;
        // In this order: a peer that sees the end can rely on the handler having freed the connection, and the next
        // connection finds its memory and descriptor free.
        drop(self.take_out(index, reason));
        if dialled {
            self.limit.descriptor_freed();
        } else {
            self.limit.connection_closed();
        }
    }

    /// Removes a connection, and tells the handler. Its socket is still open.
    fn take_out(&mut self, index: u32, reason: CloseReason) -> K::Socket {
        self.turn.closed(Link(self.slab.token(index)));
        if self.slab.at(index).stamped {
            self.end_stamps(index);
        }
        let Connection { dialogue, blocked, secure, socket, dialled, .. } = self.slab.remove(index);
        self.table.remove(index);
        drop(blocked);
        if let Some(secure) = secure {
            self.secure -= 1;
            if secure.session.end() == Some(PeerEnd::Failed) {
                self.table.counters().sessions_failed.add(1);
            }
        }
        if dialled {
            self.turn.dial_ended();
            self.table.counters().dialled.sub(1);
        }
        self.handler.on_close(dialogue.state, reason, &mut self.turn);
        socket
    }
}

/// Receives into the handler's own memory if it gives some, and takes the lane out of the batch then.
#[inline]
fn receive_body<H: Handler, K: Kernel>(
    handler: &mut H,
    kernel: &mut K,
    lane: &mut Lane,
    connection: &mut Connection<H, K>,
    buffer: &mut [u8],
    counters: &WorkerCounters,
) {
    let Some(body) = handler.body(&mut connection.dialogue.state) else { return };
    debug_assert!(!body.is_empty(), "memory for a body is never empty");
    debug_assert_eq!(lane.filled, 0, "a handler that gives memory has consumed its input");
    lane.receive = false;
    let body_len = body.len().min(BODY_RECEIVE_MAX);
    // Bytes behind the body may be received only if the body's end is in reach.
    let beyond = if body_len == body.len() { &mut buffer[lane.filled..] } else { &mut [][..] };
    let room = body_len + beyond.len();
    let received = kernel.receive_body(&connection.socket, &mut body[..body_len], beyond);
    lane.body = received.map_or(0, |received| received.min(body_len));
    note_received(lane, connection, received, room, counters);
    lane.filled -= lane.body;
}

/// Updates the state after a receive that had `room`.
#[inline]
fn note_received<H: Handler, K: Kernel>(
    lane: &mut Lane,
    connection: &mut Connection<H, K>,
    received: Result<usize, Errno>,
    room: usize,
    counters: &WorkerCounters,
) {
    match received {
        // EIO: a TLS record that is no content, where the kernel decrypts. Most often it says that nothing more comes.
        Ok(0) | Err(Errno::IO) => {
            connection.ended = true;
            connection.readable = false;
        }
        Ok(received) => {
            // A short receive has emptied the socket, and later input causes an event; except that the end of the input
            // may have been reported already.
            connection.readable = received == room || connection.hangup;
            lane.filled += received;
            (lane.handle, lane.arrived) = (true, true);
            counters.bytes_read.add(received as u64);
        }
        Err(Errno::AGAIN) => connection.readable = false,
        Err(Errno::INTR) => {}
        Err(_) => {
            connection.dialogue.next = Next::Close(CloseReason::Error);
            lane.handle = false;
        }
    }
}
