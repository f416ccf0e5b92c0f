//! A run of the small world: moments of clients, agents, controllers and routers, and faults, one after the other.

mod disturbing;
mod loading;
mod moments;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use net::Options;
use net::sim::{HostId, World};
use stdx::prng::Prng;

use super::agents::RouterAgent;
use super::askers::Askers;
use super::bug::SmallBug;
use super::controllers::SmallControllers;
use super::disk::FileText;
use super::faults::{Scheduled, script};
use super::judge::judge;
use super::members::SmallServers;
use super::route_log::RouteLog;
use super::routers::{SmallRouter, address};
use super::shape::{
    CALM_MS, CLIENTS_FROM_MS, CONTROLLERS, CONVERGED_WITHIN_MS, PORT, PROBE_MAX_MS, ROUTERS, SLOTS,
    SLOTS_GROWN,
};
use super::traffic::{Finished, Traffic};
use crate::checker::Violation;
use crate::queue::EventQueue;

/// A run goes on for so long after all is well again.
const ENDS_AFTER_MS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Fault(usize),
    FaultEnds(usize),
    Calm,
    Controller(usize),
    ServerAgent(usize),
    RouterAgent(usize),
    Router(usize),
    Client(usize),
    End,
}

/// A broken invariant of a run.
#[derive(Clone, Debug)]
pub struct SmallViolation {
    /// The seed of the run.
    pub seed: u64,
    /// What was found, and when.
    pub violation: Violation,
    /// The faults, and the history of the key if it is about one.
    pub history: Vec<String>,
}

impl fmt::Display for SmallViolation {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        writeln!(formatter, "seed {}: {}", self.seed, self.violation)?;
        self.history.iter().try_for_each(|line| writeln!(formatter, "  {line}"))
    }
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct SmallRun {
    /// Requests of clients.
    pub requests: u64,
    /// Generations that were published.
    pub generations: u64,
    /// Members that entered a slot after the first generation.
    pub entered: u64,
    /// Until all was well after the last fault, in milliseconds.
    pub converged_ms: Option<u64>,
    /// The hash of all that happened in the network.
    pub fingerprint: u64,
    /// The first broken invariant.
    pub violation: Option<SmallViolation>,
}

struct SmallWorld {
    seed: u64,
    prng: Prng,
    net: World,
    queue: EventQueue<Moment>,
    script: Vec<Scheduled>,
    askers: HostId,
    servers: SmallServers,
    addresses: Vec<SocketAddr>,
    routers: Vec<SmallRouter>,
    agents: Vec<RouterAgent>,
    controllers: SmallControllers,
    routes: RouteLog,
    traffic: Traffic,
    bugs: Vec<SmallBug>,
    /// Routers that a deadly text has ended, by its generation.
    ended: Vec<(u64, usize)>,
    /// Routers that have ended without a reason.
    ended_by_accident: [bool; ROUTERS],
    /// Files before somebody has edited them.
    edited: [Option<FileText>; ROUTERS],
    /// Since when a host reaches nobody.
    lost_since_ms: BTreeMap<usize, u64>,
    /// Since when no controller works.
    without_controllers_ms: Option<u64>,
    run: SmallRun,
}

/// Plays a seed.
pub fn play(seed: u64, bugs: &[SmallBug]) -> SmallRun {
    SmallWorld::new(seed, bugs, None).play()
}

/// Plays faults that a test chooses.
#[cfg(test)]
pub(super) fn play_script(seed: u64, bugs: &[SmallBug], script: Vec<Scheduled>) -> SmallRun {
    SmallWorld::new(seed, bugs, Some(script)).play()
}

impl SmallWorld {
    fn new(seed: u64, bugs: &[SmallBug], chosen: Option<Vec<Scheduled>>) -> SmallWorld {
        let mut prng = Prng::new(seed);
        let mut net = World::new(seed);
        // Two spares, or more often one: then members soon come back into slots.
        let count = SLOTS + 1 + usize::from(prng.below(4) == 0);
        let servers = SmallServers::new(&mut net, count);
        let addresses: Vec<SocketAddr> =
            servers.0.iter().map(|server| address(net.place(server.host, PORT))).collect();
        let mut controllers = SmallControllers::new(count);
        controllers.agents_stay = bugs.contains(&SmallBug::AgentStays);
        if bugs.contains(&SmallBug::ReplacementBringsRoutes) {
            controllers.bring_routes();
        }
        let mut routes = RouteLog::default();
        routes.publish(controllers.generation(1).expect("the first generation"), |_| false);
        let file = FileText { text: routes.generations[&1].text.clone(), generation: 1 };
        let probe_max_ms = if bugs.contains(&SmallBug::ProbesGrow) { 60_000 } else { PROBE_MAX_MS };
        let routers: Vec<SmallRouter> = (0..ROUTERS)
            .map(|at| SmallRouter::start(&mut net, &file, &addresses, probe_max_ms, seed + at as u64))
            .collect();
        let places = routers.iter().chain(&routers).map(|router| router.host);
        let places = places.chain(servers.0.iter().map(|server| server.host));
        let places = places.map(|host| net.place(host, PORT)).collect();
        let askers = net.add(Askers::new(places), &[], &Options { workers: 1, ..Options::default() });
        let first = &routers[0].process.as_ref().expect("it runs");
        let slots: Vec<usize> =
            first.servers_of_keys().iter().map(|server| slot_of(&routes, 1, server)).collect();
        let mut world = SmallWorld {
            script: chosen.unwrap_or_else(|| script(&mut prng, seed, count)),
            agents: (0..ROUTERS).map(|at| RouterAgent::new(at, file.clone(), bugs)).collect(),
            traffic: Traffic::new(slots, grown_slots(), bugs.contains(&SmallBug::DeleteErrorHidden)),
            bugs: bugs.to_vec(),
            ended: Vec::new(),
            ended_by_accident: [false; ROUTERS],
            edited: Default::default(),
            lost_since_ms: BTreeMap::new(),
            without_controllers_ms: None,
            run: SmallRun { generations: 1, ..SmallRun::default() },
            queue: EventQueue::new(),
            seed,
            prng,
            net,
            askers,
            servers,
            addresses,
            routers,
            controllers,
            routes,
        };
        (0..ROUTERS).for_each(|router| world.routes.load(router, 0, 1));
        world.schedule();
        world
    }

    fn schedule(&mut self) {
        for at in 0..self.script.len() {
            self.queue.push(self.script[at].from_ms, Moment::Fault(at));
            self.queue.push(self.script[at].until_ms, Moment::FaultEnds(at));
        }
        self.queue.push(CALM_MS, Moment::Calm);
        self.queue.push(CALM_MS + CONVERGED_WITHIN_MS, Moment::End);
        let servers = (0..self.servers.0.len()).map(Moment::ServerAgent);
        let routers = (0..ROUTERS).flat_map(|at| [Moment::RouterAgent(at), Moment::Router(at)]);
        let controllers = (0..CONTROLLERS).map(Moment::Controller);
        let moments: Vec<Moment> = servers.chain(routers).chain(controllers).collect();
        for moment in moments {
            let at_ms = self.prng.below(1000);
            self.queue.push(at_ms, moment);
        }
        for client in 0..ROUTERS {
            self.queue.push(CLIENTS_FROM_MS + client as u64, Moment::Client(client));
        }
    }

    fn play(mut self) -> SmallRun {
        while let Some((now_ms, moment)) = self.queue.pop() {
            self.net.run_for((now_ms * 1000).saturating_sub(self.net.now().us));
            match moment {
                Moment::Fault(at) => self.begin_fault(now_ms, at),
                Moment::FaultEnds(at) => self.end_fault(now_ms, at),
                Moment::Calm => self.calm_down(now_ms),
                Moment::Controller(at) => self.controller_moment(now_ms, at),
                Moment::ServerAgent(at) => self.server_agent_moment(now_ms, at),
                Moment::RouterAgent(at) => self.router_agent_moment(now_ms, at),
                Moment::Router(at) => self.router_moment(now_ms, at),
                Moment::Client(at) => self.client_moment(now_ms, at),
                Moment::End => self.demand_convergence(now_ms),
            }
            let is_over = self.run.converged_ms.is_some_and(|at| now_ms > CALM_MS + at + ENDS_AFTER_MS);
            if is_over || moment == Moment::End || self.run.violation.is_some() {
                break;
            }
        }
        self.run.requests = self.traffic.requests;
        self.run.fingerprint = self.net.fingerprint();
        self.run
    }

    /// Notes a broken invariant, if it is the first.
    fn violate(&mut self, now_ms: u64, invariant: &'static str, found: String, key: Option<usize>) {
        if self.run.violation.is_some() {
            return;
        }
        let mut history: Vec<String> = self.script.iter().map(ToString::to_string).collect();
        history.sort_unstable();
        history.extend(self.routes.lines());
        if let Some(key) = key {
            let requests = &self.traffic.histories[key].requests;
            history.push(format!("key {}, slots {:?}:", super::traffic::key(key), self.traffic.places(key)));
            history.extend(requests.iter().map(ToString::to_string));
        }
        let violation = Violation { at_ms: now_ms, invariant, found };
        self.run.violation = Some(SmallViolation { seed: self.seed, violation, history });
    }

    /// Holds an answer against the history of its key.
    fn check_answer(&mut self, now_ms: u64, finished: Finished) {
        let Finished { key, request } = finished;
        let (history, places) = (&self.traffic.histories[key], self.traffic.places(key));
        if let Some((invariant, found)) = judge(history, &places, &request, &self.routes, &self.servers) {
            self.violate(now_ms, invariant, found, Some(key));
        }
    }
}

/// The slot of each key when the cluster has grown.
fn grown_slots() -> Vec<usize> {
    let servers: Vec<String> = (0..SLOTS_GROWN).map(|slot| format!("s{slot}:1")).collect();
    let text =
        serde_json::json!({"pools": {"web": {"servers": servers}}, "route": "PoolRoute|web"}).to_string();
    let routes = control::CheckedRoutes::compile("grown", &text).expect("a configuration");
    let slot = |number: usize| {
        let key = super::traffic::key(number);
        let found = routes.servers_of(router::Operation::Get, key.as_bytes(), 1);
        servers.iter().position(|server| found.first() == Some(server)).expect("one of the servers")
    };
    (0..super::shape::KEYS).map(slot).collect()
}

/// The slot of a generation whose member is this server.
fn slot_of(routes: &RouteLog, generation: u64, server: &str) -> usize {
    let slots = &routes.generations[&generation].content.clusters[0].slots;
    slots.iter().position(|slot| slot.address == server).expect("a server of the generation")
}
