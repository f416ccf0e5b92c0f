//! Servers of a worker: their destinations, with connections, requests and datagrams on their way, and timers.
//!
//! Nothing here hands a reply over: what was read, or has failed, is returned. Whether a request is a failover, and for which
//! client it is, is told by who sends it.

mod counting;
mod datagrams;
mod dialling;
mod failures;
mod memory;
mod names;
mod place_timers;
mod reading;
mod retired;
mod sending;
mod timers;
mod unused;
mod upkeep;

use std::collections::HashMap;
use std::sync::Arc;

use stdx::clock::Now;
use stdx::prng::Prng;

use crate::plan::DestinationSpec;
use crate::servers::destination::{Destination, ReplyTarget};
use crate::servers::udp::UdpSide;
use crate::shared::RouterShared;
use crate::shared::notices::NoticeKind;
use crate::stats::RouteCells;
use crate::stats::counted_pools::CountedPool;
use crate::worker::hot::HotValues;
use counting::ServerCounts;
use datagrams::Datagrams;
use names::NameWatch;
use place_timers::PlaceTimers;
use upkeep::Upkeep;

pub(super) use place_timers::earliest;
pub(super) use reading::ReadStep;
pub(super) use sending::{KeyLine, KeysNotSent, NotSent};

/// The servers of a worker. Destinations are named by their places.
pub(super) struct Servers {
    shared: Arc<RouterShared>,
    counts: ServerCounts,
    destinations: Vec<Destination>,
    /// Places of destinations that were forgotten.
    free: Vec<u32>,
    /// Places of destinations by the name of their server.
    by_name: HashMap<String, Vec<u32>>,
    /// Destinations of servers that no plan names: they are forgotten once they are idle.
    retired: Vec<u32>,
    /// When to look at these again.
    look_at: Now,
    /// When to look at a destination for requests without a reply.
    timers: PlaceTimers,
    /// When to probe which destination.
    probes: PlaceTimers,
    /// Until then no request times out: this worker was late, and reads first what has arrived meanwhile.
    reads_until: Now,
    now: Now,
    prng: Prng,
    names: NameWatch,
    datagrams: Datagrams,
    upkeep: Upkeep,
    /// The opaque of the present request.
    opaque_text: Vec<u8>,
    /// Bytes of large values that have arrived since [`Servers::take_arrived`].
    arrived: usize,
}

/// For whom a request is sent.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    /// For whom its reply is.
    pub(super) target: ReplyTarget,
    /// It is sent because another child of a FailoverRoute has failed.
    pub(super) is_failover: bool,
}

impl Servers {
    /// Without destinations. `seed` is for choices at random.
    pub(super) fn new(shared: Arc<RouterShared>, cells: Arc<RouteCells>, seed: u64) -> Servers {
        Servers {
            shared,
            counts: ServerCounts::new(cells),
            destinations: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            retired: Vec::new(),
            look_at: Now::default(),
            timers: PlaceTimers::default(),
            probes: PlaceTimers::default(),
            reads_until: Now::default(),
            now: Now::default(),
            prng: Prng::new(seed),
            names: NameWatch::default(),
            datagrams: Datagrams::default(),
            upkeep: Upkeep::default(),
            opaque_text: Vec::new(),
            arrived: 0,
        }
    }

    pub(super) fn begin_turn(&mut self, now: Now) {
        self.now = now;
    }

    /// Any number.
    pub(super) fn random(&mut self) -> u64 {
        self.prng.next_u64()
    }

    /// A destination, if its server has hot values.
    #[inline]
    pub(super) fn with_hot(&self, place: u32) -> Option<&Destination> {
        Some(&self.destinations[place as usize]).filter(|destination| destination.queue.hot().is_some())
    }

    /// Whether gets go there over UDP.
    #[inline]
    pub(super) fn has_datagrams(&self, place: u32) -> bool {
        self.destinations[place as usize].udp.is_some()
    }

    /// The server of a destination.
    pub(super) fn spec(&self, place: u32) -> &Arc<DestinationSpec> {
        &self.destinations[place as usize].spec
    }

    /// The pool of a destination, if its requests are counted.
    pub(super) fn counted_pool(&self, place: u32) -> Option<CountedPool> {
        self.destinations[place as usize].cells.pool
    }

    /// The destination of a server: one that exists, with its connection, or a new one.
    pub(super) fn place_of(&mut self, spec: &Arc<DestinationSpec>, hot: &mut HotValues) -> u32 {
        let known = self.by_name.get(&spec.name).into_iter().flatten().copied();
        let known = known.into_iter().find(|place| self.destinations[*place as usize].spec.is_same(spec));
        known.unwrap_or_else(|| {
            self.insert(Destination::new(Arc::clone(spec), self.shared.health_of(&spec.name)), hot)
        })
    }

    /// Adds a destination of a server.
    fn insert(&mut self, mut destination: Destination, hot: &mut HotValues) -> u32 {
        let name = destination.spec.name.clone();
        if destination.spec.udp {
            destination.udp = Some(Box::new(UdpSide::new(self.prng.next_u64() as u16)));
        }
        hot.attach(&mut destination);
        let place = self.insert_unnamed(destination);
        self.counts.cells().show(place, &self.destinations[place as usize].cells);
        self.by_name.entry(name).or_default().push(place);
        place
    }

    /// Adds a destination that no plan names.
    fn insert_unnamed(&mut self, destination: Destination) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.destinations[place as usize] = destination;
                place
            }
            None => {
                self.destinations.push(destination);
                u32::try_from(self.destinations.len() - 1).expect("servers are bounded by the plan")
            }
        }
    }

    /// Other pools have hot values: begins or ends to note the requests to destinations.
    pub(super) fn attach_hot(&mut self, hot: &mut HotValues) {
        self.destinations.iter_mut().for_each(|destination| hot.attach(destination));
    }

    /// The longest time limit of the gets without a flight that may still fail over; `None` without any.
    pub(super) fn late_failover_timeout_ms(&self) -> Option<u32> {
        let has_some = |server: &&Destination| server.queue.has_late_failover();
        self.destinations.iter().filter(has_some).map(|server| server.spec.timeout_ms).max()
    }

    /// A line for the operator.
    #[cold]
    pub(super) fn say(&mut self, kind: NoticeKind, line: impl FnOnce() -> String) {
        if let Some(at) = self.shared.notices.say(kind, self.now, line) {
            self.upkeep.sum_up_at(at);
        }
    }
}

#[cfg(test)]
impl Servers {
    pub(super) fn destinations(&self) -> &[Destination] {
        &self.destinations
    }

    /// Destinations that are not forgotten, and the names of their servers.
    pub(super) fn known(&self) -> (usize, &HashMap<String, Vec<u32>>) {
        (self.destinations.len() - self.free.len(), &self.by_name)
    }
}
