//! The worker: connections of clients and to servers, on one of `net`'s threads.

mod delivery;
mod flights;
mod hot;
mod plans;
mod replies;
mod requests;
mod sends;
mod servers;
#[cfg(test)]
mod tests;
mod upkeep;

use std::sync::Arc;

use net::{CloseReason, Datagram, Handler, Next, Opened, Origin, Progress, SocketId, Turn, Unreachable};
use stdx::clock::Now;
use stdx::gather::Gather;

use crate::client::clients::Clients;
use crate::client::state::ClientState;
use crate::client::{HeldOutput, share_of};
use crate::flight::Flights;
use crate::hot::samples::HotSamples;
use crate::message::key_groups::KeyGroups;
use crate::plan::choices::{Choices, RouteCounts};
use crate::reports::desk::ReportTray;
use crate::servers::spool::Spooling;
use crate::servers::udp::place_of_udp_tag;
use crate::shared::{RouterShared, WorkerShare};
use crate::stats::RouteCells;
use hot::HotValues;
use plans::WorkerPlans;
use servers::{Servers, earliest};

/// Routes the requests of one of `net`'s workers.
///
/// Its parts own their state and know nothing of each other, unless one is passed to another's method. What follows from what
/// a part returns is decided here: a reply is handed over, a route asks further servers.
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
    plans: WorkerPlans,
    choices: Choices,
    flights: Flights,
    clients: Clients,
    servers: Servers,
    hot: HotValues,
    samples: HotSamples,
    /// Deletes that may go to a log; `None` without one.
    spooling: Option<Spooling>,
    /// The keys of the present request.
    keys: KeyGroups,
    now: Now,
    /// Memory for a line of a reply that is rewritten.
    scratch: Vec<u8>,
    /// The same for the rest of a request's line.
    line_rest: Vec<u8>,
}

/// A connection.
pub enum RouterPeer {
    /// A client.
    Client(ClientState),
    /// To a destination, by its index.
    Server(u32),
}

/// The version of a client's state on its way to another router.
const CLIENT_VERSION: u8 = 1;

/// A turn that begins so long after it was due, or lasts so long, is this host's fault: its CPUs were busy. Replies have arrived
/// meanwhile, and are read for as long before any request times out.
const LATE_US: u64 = 100_000;

impl RouteWorker {
    /// Whether the turn that begins now is late.
    #[cold]
    fn note_late(&mut self, now: Now) {
        if self.deadline().is_some_and(|due| now.us.saturating_sub(due.us) > LATE_US) {
            self.servers.read_until(Now { us: now.us + LATE_US });
        }
    }

    /// A worker. `seed` is for choices at random. It takes the plan in force with its first turn.
    pub fn new(shared: Arc<RouterShared>, seed: u64) -> RouteWorker {
        let (number, WorkerShare { cells, tray, hot_table, hot_marks }) = shared.add_worker();
        RouteWorker {
            counts_pools: !cells.pools.is_empty(),
            plans: WorkerPlans::default(),
            choices: Choices::new(!seed, number),
            flights: Flights::default(),
            clients: Clients::new(&shared.settings),
            servers: Servers::new(Arc::clone(&shared), Arc::clone(&cells), seed),
            hot: HotValues::default(),
            samples: HotSamples::new(hot_table, hot_marks, shared.key_hasher.clone(), seed),
            spooling: shared.settings.spool.clone().map(|queue| Spooling::new(queue, number)),
            keys: KeyGroups::default(),
            now: Now::default(),
            scratch: Vec::new(),
            line_rest: Vec::new(),
            cells,
            tray,
            number,
            shared,
        }
    }
}

impl Handler for RouteWorker {
    type Connection = RouterPeer;
    type Held = Arc<[u8]>;

    fn share(held: &Arc<[u8]>) -> usize {
        share_of(held)
    }

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Arc<[u8]>>) -> RouterPeer {
        match opened.origin {
            Origin::Accepted { .. } => {
                self.cells.clients_opened.add(1);
                RouterPeer::Client(ClientState::new(self.clients.open(opened.link)))
            }
            Origin::Dialled { tag } => {
                self.servers.connected(tag as u32, opened.link, turn);
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
            RouterPeer::Client(state) => self.clients.close_when_answered(state.id),
            RouterPeer::Server(_) => false,
        }
    }

    /// Between two requests, a client is like one that has just connected.
    fn pack(&self, peer: &RouterPeer) -> Option<Vec<u8>> {
        match peer {
            RouterPeer::Client(state) if state.is_between() && self.clients.is_answered(state.id) => {
                Some(vec![CLIENT_VERSION])
            }
            RouterPeer::Client(_) | RouterPeer::Server(_) => None,
        }
    }

    fn unpack(&mut self, peer: &mut RouterPeer, state: &[u8]) -> bool {
        matches!(peer, RouterPeer::Client(_)) && state == [CLIENT_VERSION]
    }

    fn leave(&mut self, leaving: bool, turn: &mut Turn<Arc<[u8]>>) {
        self.clients.leave(leaving, turn);
    }

    fn on_drained(&mut self, peer: &mut RouterPeer, turn: &mut Turn<Arc<[u8]>>) {
        if let RouterPeer::Client(state) = peer {
            self.clients.wake_if_room(state.id, turn);
        }
    }

    fn on_close(&mut self, peer: RouterPeer, _reason: CloseReason, turn: &mut Turn<Arc<[u8]>>) {
        match peer {
            // Replies to its requests are dropped when they come.
            RouterPeer::Client(state) => {
                self.cells.clients_closed.add(1);
                self.clients.close(state.id);
                self.flights.leave(state.id, &mut self.choices);
                self.send_flights(turn);
            }
            RouterPeer::Server(destination) => self.disconnected(destination, turn),
        }
    }

    fn on_unreachable(&mut self, tag: u64, why: Unreachable, turn: &mut Turn<Arc<[u8]>>) {
        match place_of_udp_tag(tag) {
            Some(place) => self.servers.datagrams_dialled(place, None, turn),
            None => self.unreachable(tag as u32, why, turn),
        }
    }

    fn on_socket(&mut self, tag: u64, socket: SocketId, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(place) = place_of_udp_tag(tag) {
            self.servers.datagrams_dialled(place, Some(socket), turn);
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
        self.servers.begin_turn(now);
        self.clients.begin_turn();
        if self.shared.generation() != self.plans.current().generation {
            self.adopt();
        }
    }

    fn end_turn(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.take_reports(turn);
        self.end_spooled(turn);
        self.clients.send_gathered(turn);
        self.hot.count(&self.cells);
        if self.choices.counted != RouteCounts::default() {
            self.count_routes();
        }
        self.clients.note_held(self.servers.take_arrived());
        if self.clients.is_look_due() {
            self.free_memory(turn);
        }
        if self.next_look().is_some_and(|at| at <= self.now) {
            self.forget_retired(turn);
        }
        if self.servers.has_names_to_follow() {
            self.follow_names(turn);
        }
        self.servers.keep_up(turn);
    }

    fn deadline(&self) -> Option<Now> {
        earliest([
            self.servers.deadline(),
            self.next_look(),
            self.flights.next_delay(),
            self.spooling.as_ref().and_then(Spooling::deadline),
            self.clients.gathers().then_some(self.now),
        ])
    }

    fn on_deadline(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.expire(turn);
        self.servers.send_probes(turn);
        if self.flights.end_delays(self.now) {
            self.send_flights(turn);
        }
    }
}
