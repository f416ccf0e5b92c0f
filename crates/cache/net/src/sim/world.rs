//! A simulated world: several hosts and the network between them, in one thread and with a clock of their own.
//!
//! A host is an event loop, the same code that runs over sockets, over a simulated kernel. Paths between hosts can be
//! slow, lossy, partitioned and reset. All of it follows from one seed.

use std::any::Any;
use std::cell::RefCell;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use stdx::clock::Now;
use stdx::gather::Gather;

use super::disk::DiskConditions;
use super::network::{Listening, PathConditions, SimNetwork, address_of};
use crate::event_loop::dial::{Place, Unreachable};
use crate::event_loop::lanes::{LANES_MAX, Lanes};
use crate::event_loop::{EventLoop, WAKE_UP, WorkerSetup};
use crate::files::file_read::{DiskFile, FileRead, FinishedRead};
use crate::files::file_reads::READS;
use crate::handler::{Arrival, ConnectionId, Handler, Origin};
use crate::kernel::frame_ports::WorkerPorts;
use crate::kernel::{Connect, Kernel};
use crate::network::connection_table::{ConnectionTable, TableWriter};
use crate::network::departure::Departure;
use crate::network::limit::ConnectionLimit;
use crate::network::message_queue::{MessageQueue, WorkerMessage};
use crate::network::view::View;
use crate::options::{AtLimit, Options};
use crate::secure::handshakes::DialledCandidate;
use crate::slab::Token;
use crate::sockets::accept_queue::BACKLOG_DEFAULT;
use crate::sockets::address::{Address, Transport};
use crate::sockets::datagram::DatagramPeer;
use crate::sockets::segments::{DatagramBatch, ReceivedMessage};

/// Length of a round: packets that arrive meanwhile wait for the next one.
const ROUND_US: u64 = 10;

/// Names a host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(usize);

/// A connection between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimConnection(Token);

/// Hosts, each with a handler, and the network between them.
pub struct World {
    network: Rc<RefCell<SimNetwork>>,
    /// `None` once stopped.
    hosts: Vec<Option<Box<dyn Node>>>,
}

impl World {
    /// A world without hosts, at time 0. Worlds of the same seed have the same history.
    pub fn new(seed: u64) -> World {
        World { network: Rc::new(RefCell::new(SimNetwork::new(seed))), hosts: Vec::new() }
    }

    /// Adds a host that listens on `ports`. Of the options it uses the limits, the timeouts and the notice.
    ///
    /// # Panics
    /// If the kernel refuses an event descriptor.
    pub fn add<H: Handler + 'static>(&mut self, handler: H, ports: &[u16], options: &Options) -> HostId {
        self.add_with_datagrams(handler, ports, &[], options)
    }

    /// The same with datagram sockets, whose indices follow those of `ports`.
    ///
    /// # Panics
    /// As [`World::add`].
    pub fn add_with_datagrams<H: Handler + 'static>(
        &mut self,
        handler: H,
        ports: &[u16],
        datagram_ports: &[u16],
        options: &Options,
    ) -> HostId {
        let number = self.network.borrow_mut().add_host();
        let node = self.node(number, handler, ports, datagram_ports, options);
        self.hosts.push(Some(node));
        HostId(number)
    }

    /// Starts a host again that was stopped, with the same addresses. Packets to its former connections are lost.
    ///
    /// # Panics
    /// If it was not stopped, or the kernel refuses an event descriptor.
    pub fn start_again<H: Handler + 'static>(
        &mut self,
        host: HostId,
        handler: H,
        ports: &[u16],
        options: &Options,
    ) {
        assert!(self.hosts[host.0].is_none(), "a host that has been stopped");
        self.hosts[host.0] = Some(self.node(host.0, handler, ports, &[], options));
    }

    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "the message queue of a worker, which over sockets other threads share"
    )]
    fn node<H: Handler + 'static>(
        &self,
        number: usize,
        handler: H,
        ports: &[u16],
        datagram_ports: &[u16],
        options: &Options,
    ) -> Box<dyn Node> {
        let mut network = self.network.borrow_mut();
        let tokens =
            datagram_ports.iter().map(|port| network.bind_datagrams(number, address_of(number, *port)));
        let tokens: Vec<Token> = tokens.collect();
        for (port, listener) in ports.iter().zip(0..) {
            let backlog = options.backlog.unwrap_or(BACKLOG_DEFAULT) as usize;
            let listening = Listening { host: number, listener, backlog, queue: Default::default() };
            network.listening.insert(address_of(number, *port), listening);
        }
        let addresses = ports.iter().map(|port| address_of(number, *port)).collect();
        let limit = Arc::new(ConnectionLimit::new(options.connections_max).expect("an event descriptor"));
        let table = Arc::new(ConnectionTable::new());
        let setup = WorkerSetup {
            number: 0,
            departure: Arc::new(Departure::new(1)),
            messages: Arc::new(MessageQueue::new().expect("an event descriptor")),
            limit: Arc::clone(&limit),
            table: TableWriter::new(Arc::clone(&table)),
            datagram_sockets: tokens
                .into_iter()
                .zip(ports.len() as u16..)
                .map(|(token, number)| (number, Socket { token, network: Rc::clone(&self.network) }))
                .collect(),
            ports: WorkerPorts::default(),
            dialled_max: options.dialled_max,
            reads_max: options.reads_max,
            handshakes: None,
            idle_timeout_s: options.idle_timeout_s,
            busy_poll_us: 0,
            notice: options.notice,
        };
        let (messages, busy_until_us) = (Arc::clone(&setup.messages), network.now.us);
        drop(network);
        let kernel = SimKernel { host: number, network: Rc::clone(&self.network), events: Vec::new() };
        Box::new(WorldHost {
            worker: EventLoop::new(handler, kernel, setup).expect("a socket that can be watched"),
            messages,
            at_limit: options.at_limit,
            view: View {
                limit,
                tables: [table].into(),
                handshakes: Arc::default(),
                choice: Arc::default(),
                ports: None,
            },
            addresses,
            nudged: true,
            busy_until_us,
            sleeps_until_us: busy_until_us,
        })
    }

    /// The address of a host's port.
    pub fn place(&self, host: HostId, port: u16) -> Place {
        Place::Tcp(address_of(host.0, port))
    }

    /// The address of a host's port, for datagrams.
    pub fn datagram_place(&self, host: HostId, port: u16) -> Place {
        Place::Udp(address_of(host.0, port))
    }

    /// The peer at a host's port, as the listener with this index of another host names it.
    pub fn peer(&self, listener: u16, to: HostId, port: u16) -> DatagramPeer {
        DatagramPeer::Client { listener, address: address_of(to.0, port) }
    }

    /// A file for the handlers of all hosts.
    pub fn add_file(&mut self, contents: Vec<u8>) -> DiskFile {
        self.network.borrow_mut().disks.add_file(contents)
    }

    /// Changes the disk that a file lies on, for reads that are ordered from now on.
    ///
    /// # Panics
    /// If the file is none of the world's.
    pub fn set_disk(&mut self, file: &DiskFile, conditions: DiskConditions) {
        self.network.borrow_mut().disks.set_conditions(file, conditions);
    }

    /// A host's handler.
    ///
    /// # Panics
    /// If it is of another type, or the host has been stopped.
    pub fn handler<H: Handler + 'static>(&mut self, host: HostId) -> &mut H {
        let node = self.hosts[host.0].as_mut().expect("a host that has not been stopped");
        node.handler().downcast_mut().expect("a handler of this type")
    }

    /// The view of a host.
    ///
    /// # Panics
    /// If the host has been stopped.
    pub fn view(&self, host: HostId) -> View {
        self.hosts[host.0].as_ref().expect("a host that has not been stopped").view()
    }

    /// The time, which is the same for all hosts.
    pub fn now(&self) -> Now {
        self.network.borrow().now
    }

    /// A hash of all events so far: equal histories have equal ones.
    pub fn fingerprint(&self) -> u64 {
        self.network.borrow().fingerprint()
    }

    /// Changes the path between two hosts, or between a host and itself.
    pub fn set_path(&mut self, one: HostId, other: HostId, conditions: PathConditions) {
        self.network.borrow_mut().set_path(one.0, other.0, conditions);
    }

    /// Changes all paths that have no conditions of their own.
    pub fn set_default_path(&mut self, conditions: PathConditions) {
        self.network.borrow_mut().conditions = conditions;
    }

    /// Partitions two hosts: from now on no packet passes between them, and neither is told.
    pub fn partition(&mut self, one: HostId, other: HostId) {
        self.network.borrow_mut().partition(one.0, other.0);
    }

    /// Ends a partition: packets sent meanwhile are sent again, except for resets, which are lost.
    pub fn heal(&mut self, one: HostId, other: HostId) {
        self.network.borrow_mut().heal(one.0, other.0);
    }

    /// Resets all connections between two hosts. New ones can be made.
    pub fn cut(&mut self, one: HostId, other: HostId) {
        self.connections(one, other).into_iter().for_each(|connection| self.reset(connection));
    }

    /// The connections between two hosts, in the order in which they were made.
    pub fn connections(&self, one: HostId, other: HostId) -> Vec<SimConnection> {
        self.network.borrow_mut().ends_between(one.0, other.0).into_iter().map(SimConnection).collect()
    }

    /// Resets a connection: both ends learn of it now. No effect if it has ended.
    pub fn reset(&mut self, connection: SimConnection) {
        self.network.borrow_mut().reset_both(connection.0);
    }

    /// Makes a host begin a turn, as [`crate::Nudge`] does.
    pub fn nudge(&mut self, host: HostId) {
        if let Some(node) = &mut self.hosts[host.0] {
            node.nudge();
        }
    }

    /// Ends a host as [`crate::Stop`] does, and returns its handler. Its listeners are closed.
    ///
    /// # Panics
    /// As [`World::handler`].
    pub fn stop<H: Handler + 'static>(&mut self, host: HostId) -> H {
        self.network.borrow_mut().stop_listening(host.0);
        let node = self.hosts[host.0].take().expect("a host that has not been stopped");
        *node.end().downcast().expect("a handler of this type")
    }

    /// Advances the time, and carries out all that happens meanwhile.
    pub fn run_for(&mut self, us: u64) {
        let until = self.now().us + us;
        while let Some(at) = self.next_us().filter(|at| *at <= until) {
            self.step(at);
        }
        self.network.borrow_mut().now.us = until;
    }

    /// Advances the time until `ready`, at most `us`; returns whether it was.
    pub fn run_until(&mut self, us: u64, mut ready: impl FnMut(&mut World) -> bool) -> bool {
        let until = self.now().us + us;
        loop {
            if ready(self) {
                return true;
            }
            let Some(at) = self.next_us().filter(|at| *at <= until) else { break };
            self.step(at);
        }
        self.network.borrow_mut().now.us = until;
        ready(self)
    }

    /// The time of the next event.
    fn next_us(&self) -> Option<u64> {
        let hosts = self.hosts.iter().flatten().map(|node| node.next_us());
        let now = self.now().us;
        hosts.chain(self.network.borrow().next_us()).min().map(|us| us.max(now))
    }

    /// Goes to a moment and carries out what is due.
    fn step(&mut self, us: u64) {
        {
            let mut network = self.network.borrow_mut();
            network.now.us = us;
            network.deliver();
        }
        for node in self.hosts.iter_mut().flatten() {
            node.accept();
            if node.next_us() <= us {
                node.round(Now { us });
            }
        }
    }
}

/// A host with a handler of any type.
trait Node {
    /// The time of its next action.
    fn next_us(&self) -> u64;
    /// Accepts waiting clients, as the acceptor does.
    fn accept(&mut self);
    fn round(&mut self, now: Now);
    fn nudge(&mut self);
    fn view(&self) -> View;
    fn handler(&mut self) -> &mut dyn Any;
    fn end(self: Box<Self>) -> Box<dyn Any>;
}

struct WorldHost<H: Handler> {
    worker: EventLoop<H, SimKernel>,
    messages: Arc<MessageQueue<WorkerMessage<Socket>>>,
    at_limit: AtLimit,
    view: View,
    /// The addresses of its listeners.
    addresses: Vec<SocketAddr>,
    /// The eventfd of its message queue has been written.
    nudged: bool,
    busy_until_us: u64,
    sleeps_until_us: u64,
}

impl<H: Handler + 'static> Node for WorldHost<H> {
    fn next_us(&self) -> u64 {
        let called = self.nudged || self.worker.kernel.network.borrow().is_ready(self.worker.kernel.host);
        self.busy_until_us.max(if called { 0 } else { self.sleeps_until_us })
    }

    fn accept(&mut self) {
        let limit = &self.view.limit;
        for address in &self.addresses {
            while self.at_limit != AtLimit::Wait || !limit.is_reached() {
                let mut network = self.worker.kernel.network.borrow_mut();
                let Some(listening) = network.listening.get_mut(address) else { break };
                let (Some(token), listener) = (listening.queue.pop_front(), listening.listener) else {
                    break;
                };
                let (local, peer) = (network.local(token), network.peer(token));
                if let AtLimit::Refuse(line) = self.at_limit
                    && limit.is_reached()
                {
                    limit.rejected.fetch_add(1, Ordering::Relaxed);
                    // Best effort, as with sockets.
                    let _sent = network.send(token, line);
                    network.close(token);
                    continue;
                }
                let arrival = Arrival {
                    id: ConnectionId(limit.connection_opened()),
                    origin: Origin::Accepted { listener },
                    transport: Transport::Tcp,
                    peer: Address::Tcp(peer),
                    local: Address::Tcp(local),
                    security: None,
                };
                let socket = Socket { token, network: Rc::clone(&self.worker.kernel.network) };
                self.messages.post(&mut vec![WorkerMessage::Accepted(socket, arrival)]);
                self.nudged = true;
            }
        }
    }

    fn round(&mut self, now: Now) {
        let wake_up = std::mem::take(&mut self.nudged);
        let events = self.worker.kernel.wait(wake_up);
        self.worker.round(events, now);
        self.busy_until_us = now.us + ROUND_US;
        // In whole milliseconds, as with epoll.
        self.sleeps_until_us = now.us.saturating_add(self.worker.wait_ms(now).saturating_mul(1000));
    }

    fn nudge(&mut self) {
        self.nudged = true;
    }

    fn view(&self) -> View {
        self.view.clone()
    }

    fn handler(&mut self) -> &mut dyn Any {
        &mut self.worker.handler
    }

    fn end(self: Box<Self>) -> Box<dyn Any> {
        Box::new(self.worker.end())
    }
}

/// A host's kernel.
pub(crate) struct SimKernel {
    host: usize,
    network: Rc<RefCell<SimNetwork>>,
    events: Vec<(u64, EventFlags)>,
}

/// One end of a connection.
pub(crate) struct Socket {
    token: Token,
    network: Rc<RefCell<SimNetwork>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.network.borrow_mut().close(self.token);
    }
}

impl SimKernel {
    /// Takes the changes, and a message event if `wake_up`; at most as many as a wait returns.
    fn wait(&mut self, wake_up: bool) -> usize {
        let mut network = self.network.borrow_mut();
        self.events = network.take_events(self.host, LANES_MAX - 2);
        self.events.extend(wake_up.then_some((WAKE_UP, EventFlags::IN)));
        self.events.extend(network.disks.has_finished(self.host).then_some((READS, EventFlags::IN)));
        self.events.len()
    }
}

impl Kernel for SimKernel {
    type Socket = Socket;

    fn number(socket: &Socket) -> i32 {
        socket.token.index as i32
    }

    fn local(&self, socket: &Socket) -> Address {
        Address::Tcp(self.network.borrow_mut().local(socket.token))
    }

    fn watch(&self, socket: &Socket, data: u64, flags: EventFlags) -> Result<(), Errno> {
        self.network.borrow_mut().watch(socket.token, data, flags);
        Ok(())
    }

    fn watch_anew(&self, socket: &Socket, data: u64, flags: EventFlags) -> Result<(), Errno> {
        self.watch(socket, data, flags)
    }

    fn unwatch(&self, socket: &Socket) {
        self.network.borrow_mut().unwatch(socket.token);
    }

    fn event(&self, position: usize) -> (u64, EventFlags) {
        self.events[position]
    }

    fn receive<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Socket,
    ) -> Result<(), Errno> {
        let mut network = self.network.borrow_mut();
        for position in 0..lanes.list.len() {
            let (lane, room) = lanes.target(position);
            if lane.receive {
                lane.received = network.receive(socket(lane.index).token, room);
            }
        }
        Ok(())
    }

    fn send<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Socket,
    ) -> Result<(), Errno> {
        let mut network = self.network.borrow_mut();
        for position in 0..lanes.list.len() {
            let (lane, _, output) = lanes.parts(position);
            if !output.is_empty() {
                lane.sent = send_output(&mut network, socket(lane.index).token, output);
            }
        }
        Ok(())
    }

    fn send_last(&mut self, socket: &Socket, bytes: &[u8]) {
        let _unsent = self.network.borrow_mut().send(socket.token, bytes);
    }

    fn end_kernel_session(&mut self, _: &Socket) {
        unreachable!("the simulated kernel takes no keys");
    }

    fn receive_body(&mut self, socket: &Socket, body: &mut [u8], beyond: &mut [u8]) -> Result<usize, Errno> {
        let mut network = self.network.borrow_mut();
        let received = network.receive(socket.token, body)?;
        if received < body.len() || beyond.is_empty() {
            return Ok(received);
        }
        Ok(received + network.receive(socket.token, beyond).unwrap_or(0))
    }

    fn receive_datagrams(&mut self, socket: &Socket, arrivals: &mut DatagramBatch) -> Result<(), Errno> {
        let mut network = self.network.borrow_mut();
        arrivals.fill(|buffer| {
            let (len, from) = network.receive_datagram(socket.token, buffer)?;
            Ok(ReceivedMessage { len, from, segment_len: len })
        })
    }

    fn send_datagrams(
        &mut self,
        socket: &Socket,
        to: &[Option<SocketAddr>],
        datagrams: &[IoSlice<'_>],
    ) -> usize {
        let mut network = self.network.borrow_mut();
        for (to, datagram) in to.iter().zip(datagrams) {
            let to = to.unwrap_or_else(|| network.peer(socket.token));
            network.send_datagram(socket.token, to, datagram);
        }
        datagrams.len()
    }

    fn begin_reads(&mut self, reads: Vec<FileRead>, finished: &mut Vec<FinishedRead>) {
        let mut network = self.network.borrow_mut();
        finished.extend(reads.into_iter().filter_map(|read| network.begin_read(self.host, read).err()));
    }

    fn take_finished_reads(&mut self, finished: &mut Vec<FinishedRead>) {
        finished.extend(self.network.borrow_mut().disks.take_finished(self.host));
    }

    fn end_reads(&mut self, finished: &mut Vec<FinishedRead>) {
        finished.extend(self.network.borrow_mut().end_reads(self.host));
    }

    fn connect(&mut self, place: &Place) -> Connect<Socket> {
        let socket = |token| Socket { token, network: Rc::clone(&self.network) };
        match place {
            Place::Tcp(peer) | Place::FastTcp(peer) => {
                Connect::UnderWay(socket(self.network.borrow_mut().dial(self.host, *peer)))
            }
            Place::Udp(peer) => {
                Connect::Done(socket(self.network.borrow_mut().dial_datagrams(self.host, *peer)))
            }
            // There is no file system.
            Place::Unix(_) => Connect::Failed(Unreachable::Refused),
        }
    }

    fn secure(&mut self, _: DialledCandidate<Socket>) -> Result<(), Unreachable> {
        // A handshake takes time on a thread, and so could not be repeated.
        Err(Unreachable::Failed(Errno::OPNOTSUPP.raw_os_error()))
    }

    fn connected(&mut self, socket: &Socket, _place: &Place) -> Result<(), Unreachable> {
        self.network.borrow_mut().connected(socket.token).map_err(Unreachable::from_errno)
    }
}

/// Sends as much of `output` as finds room, and removes it from `output`.
fn send_output<Held: AsRef<[u8]>>(
    network: &mut SimNetwork,
    token: Token,
    output: &mut Gather<Held>,
) -> Result<usize, Errno> {
    let mut total = 0;
    while !output.is_empty() {
        let mut slices = [IoSlice::new(&[])];
        output.slices(&mut slices);
        let sent = network.send(token, &slices[0])?;
        output.advance(sent);
        total += sent;
        if sent == 0 {
            break;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod tests;
