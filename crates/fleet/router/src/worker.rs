//! The worker: connections of clients and to servers, on one of `net`'s threads.

mod adopt;
mod clients;
mod counting;
mod datagrams;
mod delivery;
mod early;
mod flush;
pub(crate) mod held_memory;
mod hot_notes;
mod hot_plans;
mod hot_values;
mod late_failover;
mod memory;
mod multiget;
mod names;
mod pool_counts;
mod reports;
mod requests;
mod servers;
mod spooling;
#[cfg(test)]
mod tests;
mod upkeep;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use net::{CloseReason, Datagram, Handler, Next, Opened, Origin, Progress, SocketId, Turn, Unreachable};
use stdx::clock::Now;
use stdx::gather::Gather;
use stdx::prng::Prng;

use crate::client::state::{ClientState, SpareBodies};
use crate::client::{ClientWindow, HeldOutput, WindowMemory};
use crate::flight::Flights;
use crate::hot::cache::HotCache;
use crate::hot::samples::HotSamples;
use crate::message::key_groups::KeyGroups;
use crate::plan::RoutePlan;
use crate::plan::choices::{Choices, RouteCounts};
use crate::reports::desk::ReportTray;
use crate::servers::destination::Destination;
use crate::servers::spool::Spooling;
use crate::servers::udp::place_of_udp_tag;
use crate::shared::{RouterShared, WorkerShare};
use crate::slab::{Id, IdSlab};
use crate::stats::RouteCells;
use crate::worker::held_memory::HeldMemory;
use names::NameWatch;
use upkeep::Upkeep;

/// Routes the requests of one of `net`'s workers.
pub struct RouteWorker {
    shared: Arc<RouterShared>,
    /// What this worker counts.
    cells: Arc<RouteCells>,
    /// Some pools have statistics of their own.
    counts_pools: bool,
    /// Reports that are ready for its clients.
    tray: Arc<ReportTray>,
    /// Its number among the workers.
    number: usize,
    plan: Arc<RoutePlan>,
    /// The destination of each server of `plan`.
    places: Arc<[u32]>,
    /// Plans that flights may still be on, with their destinations.
    earlier: Vec<(std::sync::Weak<RoutePlan>, Arc<[u32]>)>,
    /// Earlier plans for gets whose routes are still to be asked if they fail, and until when.
    held_plans: VecDeque<(Now, Arc<RoutePlan>)>,
    clients: IdSlab<ClientWindow>,
    /// Memory of their windows.
    memory: WindowMemory,
    /// Clients with answers that wait for later ones, and since which turn.
    gathering: VecDeque<(u32, Id)>,
    turn_number: u32,
    destinations: Vec<Destination>,
    /// Destinations of servers that no plan names: they are forgotten once they are idle.
    retired: Vec<u32>,
    /// When to look at these again.
    look_at: Now,
    /// Places of destinations that were forgotten.
    free: Vec<u32>,
    /// Indices of destinations by the name of their server.
    by_name: HashMap<String, Vec<u32>>,
    flights: Flights,
    /// Deletes that may go to a log; `None` without one.
    spooling: Option<Spooling>,
    /// Until then no request times out: this worker was late, and reads first what has arrived meanwhile.
    reads_until: Now,
    /// When to look at a destination for requests without a reply: at most one entry for each.
    timers: BinaryHeap<Reverse<(Now, u32)>>,
    /// When to probe which destination.
    probes: BinaryHeap<Reverse<(Now, u32)>>,
    now: Now,
    prng: Prng,
    hot: HotSamples,
    /// Values that are asked for again and again; `None` if no pool keeps any.
    hot_cache: Option<Box<HotCache>>,
    /// Memory for an answer from them.
    hot_text: Vec<u8>,
    /// A key that a reply is about.
    hot_key: Vec<u8>,
    choices: Choices,
    /// Memory for a line that is rewritten.
    scratch: Vec<u8>,
    /// The same for the rest of a request's line.
    line_rest: Vec<u8>,
    spare_bodies: SpareBodies,
    held: HeldMemory,
    /// The opaque of the present request.
    opaque_text: Vec<u8>,
    keys: KeyGroups,
    upkeep: Upkeep,
    names: NameWatch,
    /// When to look at a destination for datagrams without a reply: at most one entry for each.
    udp_timers: BinaryHeap<Reverse<(Now, u32)>>,
    /// Destinations by their sockets for datagrams.
    udp_sockets: HashMap<SocketId, u32>,
    /// The place at which replies over UDP are read.
    udp_reader: Option<u32>,
}

/// A connection.
pub enum RouterPeer {
    /// A client.
    Client(ClientState),
    /// To a destination, by its index.
    Server(u32),
}

/// A turn that begins so long after it was due, or lasts so long, is this host's fault: its CPUs were busy. Replies have arrived
/// meanwhile, and are read for as long before any request times out.
const LATE_US: u64 = 100_000;

impl RouteWorker {
    /// Whether the turn that begins now is late.
    #[cold]
    fn note_late(&mut self, now: Now) {
        if self.deadline().is_some_and(|due| now.us.saturating_sub(due.us) > LATE_US) {
            self.reads_until = Now { us: now.us + LATE_US };
        }
    }

    /// A worker. `seed` is for choices at random. It takes the plan in force with its first turn.
    pub fn new(shared: Arc<RouterShared>, seed: u64) -> RouteWorker {
        let (number, WorkerShare { cells, tray, hot_table, hot_marks }) = shared.add_worker();
        RouteWorker {
            counts_pools: !cells.pools.is_empty(),
            cells,
            tray,
            number,
            plan: Arc::default(),
            places: Arc::new([]),
            earlier: Vec::new(),
            held_plans: VecDeque::new(),
            clients: IdSlab::default(),
            memory: WindowMemory::default(),
            gathering: VecDeque::new(),
            turn_number: 0,
            destinations: Vec::new(),
            retired: Vec::new(),
            look_at: Now::default(),
            free: Vec::new(),
            by_name: HashMap::new(),
            flights: Flights::default(),
            spooling: shared.settings.spool.clone().map(|queue| Spooling::new(queue, number)),
            reads_until: Now::default(),
            timers: BinaryHeap::new(),
            probes: BinaryHeap::new(),
            now: Now::default(),
            hot: HotSamples::new(hot_table, hot_marks, shared.key_hasher.clone(), seed),
            hot_cache: None,
            hot_text: Vec::new(),
            hot_key: Vec::new(),
            prng: Prng::new(seed),
            choices: Choices::new(!seed, number),
            scratch: Vec::new(),
            line_rest: Vec::new(),
            spare_bodies: SpareBodies::default(),
            held: HeldMemory::new(shared.settings.held_max),
            opaque_text: Vec::new(),
            keys: KeyGroups::default(),
            upkeep: Upkeep::default(),
            names: NameWatch::default(),
            udp_timers: BinaryHeap::new(),
            udp_sockets: HashMap::new(),
            udp_reader: None,
            shared,
        }
    }
}

impl Handler for RouteWorker {
    type Connection = RouterPeer;
    type Held = Arc<[u8]>;

    /// Reports may be on their way to many clients, and values to several servers.
    fn share(held: &Arc<[u8]>) -> usize {
        held.len() / Arc::strong_count(held).max(1)
    }

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Arc<[u8]>>) -> RouterPeer {
        match opened.origin {
            Origin::Accepted { .. } => {
                self.cells.clients_opened.add(1);
                RouterPeer::Client(ClientState::new(self.clients.insert(ClientWindow::new(opened.link))))
            }
            Origin::Dialled { tag } => {
                self.connected(tag as u32, opened.link, turn);
                RouterPeer::Server(tag as u32)
            }
        }
    }

    fn on_bytes(
        &mut self,
        peer: &mut RouterPeer,
        input: &[u8],
        _output: &mut HeldOutput,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Progress {
        match peer {
            RouterPeer::Client(state) => self.serve(state, input, turn),
            RouterPeer::Server(destination) => self.on_replies(*destination, input, turn),
        }
    }

    fn body<'c>(&mut self, peer: &'c mut RouterPeer) -> Option<&'c mut [u8]> {
        match peer {
            RouterPeer::Client(state) => state.room(),
            RouterPeer::Server(_) => None,
        }
    }

    fn on_body(
        &mut self,
        peer: &mut RouterPeer,
        received: usize,
        _output: &mut Gather<Arc<[u8]>>,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Next {
        match peer {
            RouterPeer::Client(state) => self.on_upload(state, received, turn),
            RouterPeer::Server(_) => Next::Read,
        }
    }

    fn on_finished(&mut self, peer: &mut RouterPeer) -> bool {
        match peer {
            RouterPeer::Client(state) => self.close_when_answered(state.id),
            RouterPeer::Server(_) => false,
        }
    }

    fn on_drained(&mut self, peer: &mut RouterPeer, turn: &mut Turn<Arc<[u8]>>) {
        if let RouterPeer::Client(state) = peer {
            self.wake_if_room(state.id, turn);
        }
    }

    fn on_close(&mut self, peer: RouterPeer, _reason: CloseReason, turn: &mut Turn<Arc<[u8]>>) {
        match peer {
            // Replies to its requests are dropped when they come.
            RouterPeer::Client(state) => {
                self.cells.clients_closed.add(1);
                self.clients.remove(state.id);
                self.flights.leave(state.id, &mut self.choices);
                self.send_flights(turn);
            }
            RouterPeer::Server(destination) => self.disconnected(destination, turn),
        }
    }

    fn on_unreachable(&mut self, tag: u64, why: Unreachable, turn: &mut Turn<Arc<[u8]>>) {
        match place_of_udp_tag(tag) {
            Some(place) => self.datagrams_dialled(place, None, turn),
            None => self.unreachable(tag as u32, why, turn),
        }
    }

    fn on_socket(&mut self, tag: u64, socket: SocketId, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(place) = place_of_udp_tag(tag) {
            self.datagrams_dialled(place, Some(socket), turn);
        }
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Arc<[u8]>>) {
        self.take_datagram(datagram, turn);
    }

    fn begin_turn(&mut self, now: Now) {
        if now.us.saturating_sub(self.now.us) > LATE_US {
            self.note_late(now);
        }
        (self.now, self.choices.now, self.flights.now) = (now, now, now);
        self.choices.unix_s = self.shared.unix_s();
        self.turn_number = self.turn_number.wrapping_add(1);
        if self.shared.generation() != self.plan.generation {
            self.adopt();
        }
    }

    fn end_turn(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.take_reports(turn);
        self.end_spooled(turn);
        self.send_gathered(turn);
        self.count_hot();
        if self.choices.counted != RouteCounts::default() {
            self.count_routes();
        }
        if self.held.is_due() {
            self.free_memory(turn);
        }
        if self.next_look().is_some_and(|at| at <= self.now) {
            self.forget_retired(turn);
        }
        self.follow_names(turn);
        if self.upkeep.next().is_some_and(|at| at <= self.now) {
            self.keep_up(turn);
        }
    }

    fn deadline(&self) -> Option<Now> {
        let first = |heap: &BinaryHeap<Reverse<(Now, u32)>>| heap.peek().map(|Reverse((at, _))| *at);
        let timeouts = [first(&self.timers), first(&self.udp_timers)].into_iter().flatten().min();
        [
            timeouts.map(|at| at.max(self.reads_until)),
            first(&self.probes),
            self.upkeep.next(),
            self.names.next(),
            self.next_look(),
            self.flights.next_delay(),
            self.spooling.as_ref().and_then(Spooling::deadline),
            (!self.gathering.is_empty()).then_some(self.now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn on_deadline(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.expire(turn);
        self.expire_datagrams(turn);
        self.send_probes(turn);
        if self.flights.end_delays(self.now) {
            self.send_flights(turn);
        }
    }
}
