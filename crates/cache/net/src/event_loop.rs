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
mod opening;
mod orders;
mod reads;
mod receiving;
mod secure;
mod stamps;
mod ticks;
mod visits;

pub(crate) mod connection;
pub mod dial;
pub(crate) mod dialling;
pub(crate) mod lanes;
#[cfg(test)]
mod tests;
pub(crate) mod turn;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use stdx::clock::Now;
use stdx::gather::Gather;

use self::reads::Reads;
use self::receiving::{note_received, receive_body};
use self::secure::SecureConnections;
use self::stamps::StampedConnections;
use self::ticks::Ticks;
use self::visits::Visits;
use crate::INPUT_MAX;
use crate::clock::Clock;
use crate::event_loop::connection::Connection;
use crate::event_loop::dialling::Dials;
use crate::event_loop::handing::Giving;
use crate::event_loop::lanes::Lanes;
use crate::event_loop::turn::{Link, Order, Turn};
use crate::files::file_reads::{FileReads, READS};
use crate::handler::{Activity, CloseReason, Handler, Next};
use crate::kernel::Kernel;
use crate::kernel::driver::{IoDriver, Poll};
use crate::kernel::frame_ports::WorkerPorts;
use crate::kernel::system::System;
use crate::network::connection_table::{TableWriter, code};
use crate::network::departure::{Departure, LAST_ROUNDS_US, WorkerDeparture};
use crate::network::handed::HandedConnection;
use crate::network::limit::ConnectionLimit;
use crate::network::message_queue::{MessageQueue, WorkerMessage};
use crate::network::time_slice::TimeSlice;
use crate::options::Notice;
use crate::secure::handshakes::DialHandshakes;
use crate::slab::{Slab, Token};
use crate::sockets::datagram_sockets::DatagramSockets;

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
    visits: Visits,
    lanes: Lanes<H::Held>,
    turn: Turn<H::Held>,
    table: TableWriter,
    limit: Arc<ConnectionLimit>,
    messages: Arc<MessageQueue<WorkerMessage<K::Socket>>>,
    dials: Dials<K::Socket>,
    datagram_sockets: DatagramSockets<K::Socket>,
    reads: Reads,
    secure: SecureConnections,
    stamped: StampedConnections,
    ticks: Ticks,
    departure: WorkerDeparture,
    giving: Giving<K::Socket>,
    notice: Notice,
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
    /// Ports below them; each has a descriptor among them.
    pub(crate) ports: WorkerPorts,
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
        mut setup: WorkerSetup<OwnedFd>,
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
        let ports = std::mem::take(&mut setup.ports);
        let system = System { poll, driver, file_reads, handshakes, slice, clock, stamping: None, ports };
        EventLoop::new(handler, system, setup)
    }

    /// Runs until it is told to stop, and returns the handler, and the connections that it hands over.
    pub(crate) fn run(mut self) -> Result<(H, Vec<HandedConnection>), Errno> {
        let clock = self.kernel.clock;
        let mut now = clock.now();
        let mut left_us = LAST_ROUNDS_US;
        while !self.departure.is_stopping() || self.goes_on_to_rest(left_us) {
            let wait_ms =
                if self.departure.is_stopping() { self.wait_ms(now).min(1) } else { self.wait_ms(now) };
            let events = self.kernel.poll.wait(wait_ms)?;
            let before = std::mem::replace(&mut now, clock.now());
            if self.departure.is_stopping() {
                left_us = left_us.saturating_sub(now.us - before.us);
            }
            self.round(events, now);
            self.handler.on_sent(|| clock.now());
            self.kernel.slice.end_if_over(events, now);
            self.departure.note(|| self.is_at_rest());
            self.give();
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
            visits: Visits::default(),
            lanes: Lanes::new(),
            turn: Turn::new(setup.dialled_max, setup.reads_max),
            table: setup.table,
            limit: setup.limit,
            messages: setup.messages,
            dials: Dials::new(),
            datagram_sockets,
            reads: Reads::default(),
            secure: SecureConnections::default(),
            stamped: StampedConnections::default(),
            ticks: Ticks::new(setup.idle_timeout_s),
            departure: WorkerDeparture::new(setup.departure, setup.number),
            giving: Giving::default(),
            notice: setup.notice,
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
        self.cancel_dials(self.turn.now());
        self.reads.end(&mut self.kernel, &mut self.handler, &mut self.turn);
        for index in self.slab.indices().collect::<Vec<_>>() {
            self.close(index, CloseReason::Shutdown);
        }
        self.handler
    }

    /// Time to wait for events.
    #[inline]
    pub(crate) fn wait_ms(&self, now: Now) -> u64 {
        let is_busy = !self.visits.is_empty() || !self.turn.is_idle() || self.datagram_sockets.any_readable();
        if is_busy || self.giving.has_more() || self.ticks.is_searching() || self.reads.have_results() {
            return 0;
        }
        let known_ms = self.visits.later_ms().min(self.ticks.next_ms()).saturating_sub(now.ms());
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
        if self.reads.have_results() {
            self.reads.report(&mut self.kernel, &mut self.handler, &mut self.turn);
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
            self.reads.begin(&mut self.kernel, &mut self.turn);
        }
    }

    /// Does the timed work that is due.
    fn tick(&mut self, now: Now) {
        self.visits.add_delayed(&mut self.slab, now);
        if self.ticks.begin(now) {
            self.handler.on_tick(now);
            self.stamped.choose_anew(&mut self.slab, &mut self.kernel);
        }
        if self.ticks.is_searching() {
            for index in self.ticks.search(&self.slab, &self.table, now) {
                self.table.counters().idle_kicks.add(1);
                self.close(index, CloseReason::IdleTimeout);
            }
        }
    }

    fn send(&mut self) {
        if !self.secure.is_empty() {
            self.secure.seal(&mut self.lanes, &mut self.slab);
        }
        let slab = &self.slab;
        if let Err(error) = self.kernel.send(&mut self.lanes, |index| &slab.at(index).socket) {
            self.note_fall_back(error);
        }
        if !self.secure.is_empty() {
            self.secure.unseal(&mut self.lanes, &mut self.slab);
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
                self.reads.note_event();
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
            if is_of_use {
                self.visits.add(token, connection);
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
            let Some(token) = self.visits.take() else { break };
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
        if !self.secure.is_empty() {
            let counters = self.table.counters();
            self.secure.open(&mut self.lanes, &mut self.slab, &mut self.handler, counters);
        }
        if self.stamped.have_news() {
            let (round, slab) = (&self.lanes.list, &mut self.slab);
            self.stamped.report(round, slab, &mut self.handler, &mut self.kernel, now);
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

    fn receive_messages(&mut self, now: Now) {
        for message in self.messages.take() {
            match message {
                WorkerMessage::Accepted(socket, arrival) => self.open(socket, arrival, None, false, now),
                WorkerMessage::Secured(socket, arrival, session) => {
                    self.open(socket, arrival, Some(session), false, now);
                }
                WorkerMessage::Dialled(token, result) => self.secured(token, result, now),
                WorkerMessage::Handed(handed, arrival) => self.open_handed(handed, arrival, now),
                WorkerMessage::Give(to) => self.begin_giving(to),
                WorkerMessage::Drain => self.departure.drain(),
                WorkerMessage::Stop => self.departure.stop(),
            }
        }
    }
}
