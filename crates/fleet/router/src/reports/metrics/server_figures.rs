//! Figures of each server over all workers, and of each pool.

use std::collections::{BTreeMap, HashMap};

use crate::message::outcome::Outcome;
use crate::plan::{DestinationSpec, RoutePlan};
use crate::servers::health::Health;
use crate::shared::RouterShared;
use crate::stats::counted_pools::CountedPool;
use crate::stats::{DestinationCells, LATENCY_BUCKETS};

/// Servers that have series of their own, the first of the configuration; the others are one series, `other`.
pub(crate) const SERVERS_SHOWN_MAX: usize = 500;

/// Pools that have series of their own, the first by name.
pub(crate) const POOLS_SHOWN_MAX: usize = 500;

/// Figures of one server, of the rest of them, or of a pool.
#[derive(Clone, Debug, Default)]
pub(in crate::reports) struct ServerFigures {
    /// By outcome.
    pub(super) results: [u64; Outcome::COUNT],
    pub(in crate::reports) latency: [u64; LATENCY_BUCKETS],
    pub(super) latency_us: u64,
    pub(in crate::reports) outstanding: u64,
    /// Servers, and those of them that are available.
    pub(in crate::reports) servers: u64,
    pub(in crate::reports) available: u64,
}

/// What became of requests, as few words as a dashboard needs.
pub(in crate::reports) const FATES: [&str; 6] =
    ["success", "timeout", "connect_error", "unavailable", "busy", "error"];

/// The place of an outcome in [`FATES`].
fn fate(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Timeout | Outcome::DeadlineExceeded => 1,
        Outcome::ConnectError | Outcome::ConnectTimeout => 2,
        Outcome::Unavailable => 3,
        Outcome::Busy | Outcome::TryAgain | Outcome::Shutdown => 4,
        outcome if outcome.is_error() => 5,
        _ => 0,
    }
}

impl ServerFigures {
    fn of(spec: &DestinationSpec, health: &Health) -> ServerFigures {
        // Further connections to a server are no further servers.
        let servers = u64::from(spec.connection == 0);
        let available = if health.unavailable().is_none() { servers } else { 0 };
        ServerFigures { servers, available, ..ServerFigures::default() }
    }

    fn count(&mut self, cells: &DestinationCells) {
        let add = |sums: &mut [u64], counters: &[stdx::counter::Counter]| {
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.value());
        };
        add(&mut self.results, &cells.results);
        add(&mut self.latency, &cells.latency);
        self.latency_us += cells.latency_us.value();
        self.outstanding += cells.outstanding();
    }

    fn add(&mut self, other: &ServerFigures) {
        let add = |sums: &mut [u64], others: &[u64]| {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        };
        add(&mut self.results, &other.results);
        add(&mut self.latency, &other.latency);
        self.latency_us += other.latency_us;
        self.outstanding += other.outstanding;
        self.servers += other.servers;
        self.available += other.available;
    }

    /// Requests by what became of them, in the order of [`FATES`].
    pub(in crate::reports) fn fates(&self) -> [u64; FATES.len()] {
        let mut counts = [0; FATES.len()];
        for (outcome, _) in Outcome::all() {
            counts[fate(outcome)] += self.results[outcome as usize];
        }
        counts
    }

    /// Requests that were answered.
    pub(in crate::reports) fn successes(&self) -> u64 {
        self.fates()[0]
    }

    /// Requests that were not answered in time.
    pub(in crate::reports) fn timeouts(&self) -> u64 {
        self.fates()[1]
    }
}

/// All servers and pools of the plan in force.
pub(in crate::reports) struct AllServers {
    /// By name, those that are shown.
    pub(in crate::reports) servers: Vec<(String, ServerFigures)>,
    /// All others.
    pub(in crate::reports) others: ServerFigures,
    pub(in crate::reports) pools: Vec<(String, ServerFigures)>,
    pub(super) pools_left_out: usize,
}

/// What makes the connections to a server differ.
type Way = (String, [u32; 3], [bool; 3], Option<CountedPool>);

fn way(spec: &DestinationSpec) -> Way {
    let numbers = [spec.connection, spec.timeout_ms, spec.connect_timeout_ms];
    (spec.name.clone(), numbers, [spec.tls.is_some(), spec.fast_open, spec.udp], spec.counted_as)
}

impl AllServers {
    pub(in crate::reports) fn read(shared: &RouterShared) -> AllServers {
        let plan = shared.plan();
        let mut by_way: HashMap<Way, ServerFigures> = HashMap::new();
        for spec in &plan.servers {
            by_way.insert(way(spec), ServerFigures::of(spec, &shared.health_of_known(&spec.name)));
        }
        let cells = shared.cells();
        for cells in cells.iter().flat_map(|cells| cells.destinations()) {
            // Those of earlier plans have no series any more.
            if let Some(figures) = by_way.get_mut(&way(&cells.spec)).filter(|_| !cells.is_gone()) {
                figures.count(&cells);
            }
        }
        let (servers, others) = shown_servers(&plan, &by_way);
        let (pools, pools_left_out) = shown_pools(&plan, &by_way);
        AllServers { servers, others, pools, pools_left_out }
    }
}

fn shown_servers(
    plan: &RoutePlan,
    by_way: &HashMap<Way, ServerFigures>,
) -> (Vec<(String, ServerFigures)>, ServerFigures) {
    let mut shown: BTreeMap<&str, ServerFigures> = BTreeMap::new();
    let mut others = ServerFigures::default();
    for spec in &plan.servers {
        let figures = &by_way[&way(spec)];
        let has_room = shown.len() < SERVERS_SHOWN_MAX;
        match shown.get_mut(&*spec.name) {
            Some(sum) => sum.add(figures),
            None if has_room => drop(shown.insert(&spec.name, figures.clone())),
            None => others.add(figures),
        }
    }
    (shown.into_iter().map(|(name, figures)| (name.to_owned(), figures)).collect(), others)
}

fn shown_pools(
    plan: &RoutePlan,
    by_way: &HashMap<Way, ServerFigures>,
) -> (Vec<(String, ServerFigures)>, usize) {
    let mut shown = Vec::new();
    for pool in plan.pools.iter().take(POOLS_SHOWN_MAX) {
        let mut sum = ServerFigures::default();
        for child in &pool.children {
            if let Some(server) = plan.nodes[child.0 as usize].server() {
                sum.add(&by_way[&way(&plan.servers[server.0 as usize])]);
            }
        }
        shown.push((pool.name.clone(), sum));
    }
    (shown, plan.pools.iter().count().saturating_sub(POOLS_SHOWN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_fate_that_is_no_success() {
        for (outcome, name) in Outcome::all() {
            assert_eq!(FATES[fate(outcome)] == "success", !outcome.is_error(), "{name}");
        }
    }
}
