//! Several hosts and the network between them, in one thread and in a time of their own.
//!
//! A host is a worker, the same code that runs over sockets, over a kernel that is simulated. Packets take their time;
//! lines can be slow, lossy, parted and cut. All of it follows from one seed.

use std::any::Any;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use stdx::clock::Now;
use stdx::gather::Gather;

use super::wire::{Line, Listening, Wires, address_of};
use crate::address::{Address, Transport};
use crate::datagram::DatagramPeer;
use crate::dial::{Place, Unreachable};
use crate::handler::{Arrival, ConnectionId, Handler, Origin};
use crate::kernel::{Connect, Kernel};
use crate::lanes::{LANES_MAX, Lanes};
use crate::limit::Limit;
use crate::mailbox::{Letter, Mailbox};
use crate::options::{AtLimit, Options};
use crate::roster::{Keeper, Roster};
use crate::slab::Token;
use crate::view::View;
use crate::worker::{BELL, Surroundings, Worker};

/// How long a round takes: what arrives meanwhile waits for the next one.
const ROUND_US: u64 = 10;

/// One of a world's hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(usize);

/// A connection between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire(Token);

/// Hosts, each with a handler, and what lies between them.
pub struct World {
    wires: Rc<RefCell<Wires>>,
    /// `None` once stopped.
    hosts: Vec<Option<Box<dyn Node>>>,
}

impl World {
    /// A world without hosts, at time 0. The same seed makes the same history.
    pub fn new(seed: u64) -> World {
        World { wires: Rc::new(RefCell::new(Wires::new(seed))), hosts: Vec::new() }
    }

    /// A new host that listens on `ports`. Of the options it has the limits, the timeouts and the notice.
    ///
    /// # Panics
    /// If the kernel refuses an event descriptor.
    pub fn add<H: Handler + 'static>(&mut self, handler: H, ports: &[u16], options: &Options) -> HostId {
        self.add_with_datagrams(handler, ports, &[], options)
    }

    /// The same with addresses for datagrams, whose indices follow those of `ports`.
    ///
    /// # Panics
    /// As [`World::add`].
    #[expect(clippy::arc_with_non_send_sync, reason = "a worker's mailbox, which over sockets others share")]
    pub fn add_with_datagrams<H: Handler + 'static>(
        &mut self,
        handler: H,
        ports: &[u16],
        datagram_ports: &[u16],
        options: &Options,
    ) -> HostId {
        let mut wires = self.wires.borrow_mut();
        let number = wires.add_host();
        let tokens = datagram_ports.iter().map(|port| wires.hear_at(number, address_of(number, *port)));
        let tokens: Vec<Token> = tokens.collect();
        for (port, listener) in ports.iter().zip(0..) {
            let backlog = options.backlog as usize;
            let listening = Listening { host: number, listener, backlog, queue: Default::default() };
            wires.listening.insert(address_of(number, *port), listening);
        }
        let addresses = ports.iter().map(|port| address_of(number, *port)).collect();
        let limit = Arc::new(Limit::new(options.connections_max).expect("an event descriptor"));
        let roster = Arc::new(Roster::new());
        let around = Surroundings {
            mailbox: Arc::new(Mailbox::new().expect("an event descriptor")),
            limit: Arc::clone(&limit),
            keeper: Keeper::new(Arc::clone(&roster)),
            datagram_sockets: tokens
                .into_iter()
                .zip(ports.len() as u16..)
                .map(|(token, number)| (number, Socket { token, wires: Rc::clone(&self.wires) }))
                .collect(),
            dialled_max: options.dialled_max,
            idle_timeout_s: options.idle_timeout_s,
            notice: options.notice,
        };
        let (mailbox, busy_until_us) = (Arc::clone(&around.mailbox), wires.now.us);
        drop(wires);
        let kernel = SimKernel { host: number, wires: Rc::clone(&self.wires), events: Vec::new() };
        self.hosts.push(Some(Box::new(Station {
            worker: Worker::new(handler, kernel, around).expect("a socket that can be watched"),
            mailbox,
            at_limit: options.at_limit,
            view: View { limit, rosters: [roster].into() },
            addresses,
            nudged: true,
            busy_until_us,
            sleeps_until_us: busy_until_us,
        })));
        HostId(number)
    }

    /// Where a host listens, or could.
    pub fn place(&self, host: HostId, port: u16) -> Place {
        Place::Tcp(address_of(host.0, port))
    }

    /// The same for datagrams.
    pub fn datagram_place(&self, host: HostId, port: u16) -> Place {
        Place::Udp(address_of(host.0, port))
    }

    /// The same, as the listener of this index of another host sends to it.
    pub fn peer(&self, listener: u16, to: HostId, port: u16) -> DatagramPeer {
        DatagramPeer::Client { listener, address: address_of(to.0, port) }
    }

    /// A host's handler.
    ///
    /// # Panics
    /// If it is of another type, or the host has been stopped.
    pub fn handler<H: Handler + 'static>(&mut self, host: HostId) -> &mut H {
        let node = self.hosts[host.0].as_mut().expect("a host that has not been stopped");
        node.handler().downcast_mut().expect("a handler of this type")
    }

    /// What others see of a host.
    ///
    /// # Panics
    /// If the host has been stopped.
    pub fn view(&self, host: HostId) -> View {
        self.hosts[host.0].as_ref().expect("a host that has not been stopped").view()
    }

    /// The time, which is the same everywhere.
    pub fn now(&self) -> Now {
        self.wires.borrow().now
    }

    /// A number that depends on all that has happened so far: two histories that are the same have the same.
    pub fn fingerprint(&self) -> u64 {
        self.wires.borrow().fingerprint()
    }

    /// Changes what lies between two hosts, and between a host and itself.
    pub fn set_line(&mut self, one: HostId, other: HostId, line: Line) {
        self.wires.borrow_mut().set_line(one.0, other.0, line);
    }

    /// Changes what lies between all for which nothing else has been said.
    pub fn set_default_line(&mut self, line: Line) {
        self.wires.borrow_mut().line = line;
    }

    /// From now on nothing that one sends reaches the other. Neither is told.
    pub fn part(&mut self, one: HostId, other: HostId) {
        self.wires.borrow_mut().part(one.0, other.0);
    }

    /// Ends that: what was sent meanwhile is sent again, except that a reset is lost for good.
    pub fn heal(&mut self, one: HostId, other: HostId) {
        self.wires.borrow_mut().heal(one.0, other.0);
    }

    /// Breaks all connections between two hosts. New ones can be made.
    pub fn cut(&mut self, one: HostId, other: HostId) {
        self.wires(one, other).into_iter().for_each(|wire| self.reset(wire));
    }

    /// The connections between two hosts, in the order of their making.
    pub fn wires(&self, one: HostId, other: HostId) -> Vec<Wire> {
        self.wires.borrow_mut().ends_between(one.0, other.0).into_iter().map(Wire).collect()
    }

    /// Breaks a connection: both ends learn of it now. No effect if it has ended.
    pub fn reset(&mut self, wire: Wire) {
        self.wires.borrow_mut().break_off(wire.0);
    }

    /// Has a host begin a turn, as [`crate::Nudge`] does.
    pub fn nudge(&mut self, host: HostId) {
        if let Some(node) = &mut self.hosts[host.0] {
            node.nudge();
        }
    }

    /// Ends a host as [`crate::Stop`] does, and gives its handler back. Nobody listens there any more.
    ///
    /// # Panics
    /// As [`World::handler`].
    pub fn stop<H: Handler + 'static>(&mut self, host: HostId) -> H {
        self.wires.borrow_mut().stop_listening(host.0);
        let node = self.hosts[host.0].take().expect("a host that has not been stopped");
        *node.end().downcast().expect("a handler of this type")
    }

    /// Lets time pass, and everything happen that happens in it.
    pub fn run_for(&mut self, us: u64) {
        let until = self.now().us + us;
        while let Some(at) = self.next_us().filter(|at| *at <= until) {
            self.step(at);
        }
        self.wires.borrow_mut().now.us = until;
    }

    /// Lets time pass until `ready`, at most `us`; whether it was.
    pub fn run_until(&mut self, us: u64, mut ready: impl FnMut(&mut World) -> bool) -> bool {
        let until = self.now().us + us;
        loop {
            if ready(self) {
                return true;
            }
            let Some(at) = self.next_us().filter(|at| *at <= until) else { break };
            self.step(at);
        }
        self.wires.borrow_mut().now.us = until;
        ready(self)
    }

    /// When something happens next.
    fn next_us(&self) -> Option<u64> {
        let hosts = self.hosts.iter().flatten().map(|node| node.next_us());
        let now = self.now().us;
        hosts.chain(self.wires.borrow().next_us()).min().map(|us| us.max(now))
    }

    /// Goes to a moment and does what is due then.
    fn step(&mut self, us: u64) {
        {
            let mut wires = self.wires.borrow_mut();
            wires.now.us = us;
            wires.deliver();
        }
        for node in self.hosts.iter_mut().flatten() {
            node.accept();
            if node.next_us() <= us {
                node.round(Now { us });
            }
        }
    }
}

/// A host, whatever its handler is.
trait Node {
    /// When it has something to do next.
    fn next_us(&self) -> u64;
    /// Lets clients in that wait, as the acceptor does.
    fn accept(&mut self);
    fn round(&mut self, now: Now);
    fn nudge(&mut self);
    fn view(&self) -> View;
    fn handler(&mut self) -> &mut dyn Any;
    fn end(self: Box<Self>) -> Box<dyn Any>;
}

struct Station<H: Handler> {
    worker: Worker<H, SimKernel>,
    mailbox: Arc<Mailbox<Socket>>,
    at_limit: AtLimit,
    view: View,
    /// Where it listens.
    addresses: Vec<SocketAddr>,
    /// The bell of its mailbox has been rung.
    nudged: bool,
    busy_until_us: u64,
    sleeps_until_us: u64,
}

impl<H: Handler + 'static> Node for Station<H> {
    fn next_us(&self) -> u64 {
        let called = self.nudged || self.worker.kernel.wires.borrow().is_ready(self.worker.kernel.host);
        self.busy_until_us.max(if called { 0 } else { self.sleeps_until_us })
    }

    fn accept(&mut self) {
        let limit = &self.view.limit;
        for address in &self.addresses {
            while self.at_limit != AtLimit::Wait || !limit.is_reached() {
                let mut wires = self.worker.kernel.wires.borrow_mut();
                let Some(listening) = wires.listening.get_mut(address) else { break };
                let (Some(token), listener) = (listening.queue.pop_front(), listening.listener) else {
                    break;
                };
                let (local, peer) = (wires.local(token), wires.peer(token));
                if let AtLimit::Refuse(line) = self.at_limit
                    && limit.is_reached()
                {
                    limit.rejected.fetch_add(1, Ordering::Relaxed);
                    // A courtesy, as with sockets.
                    let _sent = wires.send(token, line);
                    wires.close(token);
                    continue;
                }
                let arrival = Arrival {
                    id: ConnectionId(limit.enter()),
                    origin: Origin::Accepted { listener },
                    transport: Transport::Tcp,
                    peer: Address::Tcp(peer),
                    local: Address::Tcp(local),
                };
                let socket = Socket { token, wires: Rc::clone(&self.worker.kernel.wires) };
                self.mailbox.post(&mut vec![Letter::Accepted(socket, arrival)]);
                self.nudged = true;
            }
        }
    }

    fn round(&mut self, now: Now) {
        let bell = std::mem::take(&mut self.nudged);
        let events = self.worker.kernel.wait(bell);
        self.worker.round(events, now);
        self.busy_until_us = now.us + ROUND_US;
        // As epoll does, in whole milliseconds.
        self.sleeps_until_us = now.us.saturating_add(self.worker.patience_ms(now).saturating_mul(1000));
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
    wires: Rc<RefCell<Wires>>,
    events: Vec<(u64, EventFlags)>,
}

/// One end of a connection.
pub(crate) struct Socket {
    token: Token,
    wires: Rc<RefCell<Wires>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.wires.borrow_mut().close(self.token);
    }
}

impl SimKernel {
    /// What has changed, and whether the bell has been rung; as many events as a wait has.
    fn wait(&mut self, bell: bool) -> usize {
        self.events = self.wires.borrow_mut().take_events(self.host, LANES_MAX - 1);
        self.events.extend(bell.then_some((BELL, EventFlags::IN)));
        self.events.len()
    }
}

impl Kernel for SimKernel {
    type Socket = Socket;

    fn number(socket: &Socket) -> i32 {
        socket.token.index as i32
    }

    fn local(&self, socket: &Socket) -> Address {
        Address::Tcp(self.wires.borrow_mut().local(socket.token))
    }

    fn watch(&self, socket: &Socket, data: u64, flags: EventFlags) -> Result<(), Errno> {
        self.wires.borrow_mut().watch(socket.token, data, flags);
        Ok(())
    }

    fn watch_anew(&self, socket: &Socket, data: u64, flags: EventFlags) -> Result<(), Errno> {
        self.watch(socket, data, flags)
    }

    fn event(&self, position: usize) -> (u64, EventFlags) {
        self.events[position]
    }

    fn receive<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Socket,
    ) -> Result<(), Errno> {
        let mut wires = self.wires.borrow_mut();
        for position in 0..lanes.list.len() {
            let (lane, buffer, _) = lanes.parts(position);
            if lane.receive {
                lane.received = wires.receive(socket(lane.index).token, &mut buffer[lane.filled..]);
            }
        }
        Ok(())
    }

    fn send<'s, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        socket: impl Fn(u32) -> &'s Socket,
    ) -> Result<(), Errno> {
        let mut wires = self.wires.borrow_mut();
        for position in 0..lanes.list.len() {
            let (lane, _, output) = lanes.parts(position);
            if !output.is_empty() {
                lane.sent = send_output(&mut wires, socket(lane.index).token, output);
            }
        }
        Ok(())
    }

    fn receive_body(&mut self, socket: &Socket, body: &mut [u8], beyond: &mut [u8]) -> Result<usize, Errno> {
        let mut wires = self.wires.borrow_mut();
        let received = wires.receive(socket.token, body)?;
        if received < body.len() || beyond.is_empty() {
            return Ok(received);
        }
        Ok(received + wires.receive(socket.token, beyond).unwrap_or(0))
    }

    fn receive_datagram(&mut self, socket: &Socket, buffer: &mut [u8]) -> Result<(usize, SocketAddr), Errno> {
        self.wires.borrow_mut().receive_datagram(socket.token, buffer)
    }

    fn send_datagram(&mut self, socket: &Socket, to: Option<SocketAddr>, bytes: &[u8]) -> Result<(), Errno> {
        let mut wires = self.wires.borrow_mut();
        let to = to.unwrap_or_else(|| wires.peer(socket.token));
        wires.send_datagram(socket.token, to, bytes);
        Ok(())
    }

    fn connect(&mut self, place: &Place) -> Connect<Socket> {
        let socket = |token| Socket { token, wires: Rc::clone(&self.wires) };
        match place {
            Place::Tcp(peer) => Connect::UnderWay(socket(self.wires.borrow_mut().dial(self.host, *peer))),
            Place::Udp(peer) => {
                Connect::Done(socket(self.wires.borrow_mut().dial_datagrams(self.host, *peer)))
            }
            // There are no files.
            Place::Unix(_) => Connect::Failed(Unreachable::Refused),
        }
    }

    fn connected(&mut self, socket: &Socket, _place: &Place) -> Result<(), Unreachable> {
        self.wires.borrow_mut().connected(socket.token).map_err(Unreachable::from_errno)
    }
}

/// Sends as much of `output` as finds room, and takes it off `output`.
fn send_output<Held: AsRef<[u8]>>(
    wires: &mut Wires,
    token: Token,
    output: &mut Gather<Held>,
) -> Result<usize, Errno> {
    let mut total = 0;
    while !output.is_empty() {
        let mut slices = [std::io::IoSlice::new(&[])];
        output.slices(&mut slices);
        let sent = wires.send(token, &slices[0])?;
        output.advance(sent);
        total += sent;
        if sent == 0 {
            break;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests;
