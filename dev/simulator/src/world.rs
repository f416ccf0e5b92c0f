//! The fleet world: agents' turns, passes of the controllers, fluid steps and faults, one after the other.

mod faults;
mod routers;
mod second;

use std::collections::BTreeMap;

use fleet::drain::DrainPhase;
use stdx::prng::{Prng, mix};

use crate::bug::PlantedBug;
use crate::checker::{Convergence, InvariantChecker, KeyOwners, Violation};
use crate::controllers::ControllerGroup;
use crate::fault::FleetFault;
use crate::hosts::{SimulatedHost, hosts};
use crate::load::FluidLoad;
use crate::queue::EventQueue;
use crate::shape::{FleetShape, ZONES};

/// A turn without news takes 15 s ± 5.
const TURN_MS: u64 = 10_000;
const TURN_JITTER_MS: u64 = 10_000;
/// A refused agent comes again after this, and as much at random.
const RETRY_MS: u64 = 2_000;
/// Without a controller agents wait twice as long after each attempt, up to this.
const BACKOFF_MAX_MS: u64 = 30_000;
/// A canary of one router in a hundred has a slot change for this long before the others.
const CANARY_MS: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Fault(usize),
    /// An agent, and the number of its turn: one that was given up is not taken.
    Turn(usize, u32),
    /// A host that flaps falls or works again: how long it is away and works, and until when this goes on.
    Flap {
        host: usize,
        down_ms: u64,
        up_ms: u64,
        until_ms: u64,
    },
    Load(usize),
    /// A router ends because of the text of this generation.
    Crash(usize, u64),
    Second,
}

#[derive(Clone, Copy, Debug)]
struct SimulatedAgent {
    has_event: bool,
    turn: u32,
    has_poll: bool,
    backoff_ms: u64,
    /// It reaches no controller until then.
    cut_off_until_ms: u64,
    /// Of a router: the generation that it has loaded, the one before, and since when.
    generation: u64,
    before: u64,
    loaded_ms: u64,
    is_pushed: bool,
    /// The generation whose text crashed it.
    crashed: Option<u64>,
    /// What it does with the keys of the drained member.
    phase: Option<DrainPhase>,
}

/// Figures of a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorldSample {
    /// When, in seconds.
    pub at_s: f64,
    /// Requests at databases, in multiples of the usual: the worst of the interval.
    pub database: f64,
    /// The same of the worst cluster.
    pub worst_database: f64,
    /// Hits of all requests, the lowest of the interval.
    pub hit_ratio: f64,
    /// Requests without any answer, the worst of the interval.
    pub errors: f64,
    /// Replacements so far.
    pub replacements: usize,
    /// Members that are suspect.
    pub suspects: usize,
    /// Frozen scopes.
    pub frozen: usize,
}

/// What happened in a fleet.
#[derive(Debug, Default)]
pub struct FleetRun {
    /// Figures over time.
    pub samples: Vec<WorldSample>,
    /// Replacements because of health.
    pub replaced: usize,
    /// Replacements that an operator asked for.
    pub voluntary: usize,
    /// Slots that got their former members back from a backup of the register.
    pub restored: usize,
    /// Events.
    pub events: u64,
    /// Most events that waited at a time.
    pub queue_max: usize,
    /// Turns that were refused for a moment.
    pub refused: u64,
    /// Between a commit and its loading by 99 % of the routers, beyond the canary's time, in milliseconds.
    pub loaded_p99_ms: Option<u64>,
    /// Until all agents had a turn after the last fault, in milliseconds.
    pub all_heard_ms: Option<u64>,
    /// Between a fault and the first replacement, in milliseconds.
    pub first_replaced_ms: Option<u64>,
    /// The newest generation.
    pub generation: u64,
    /// Routers that had a generation which crashed them.
    pub crashed: usize,
    /// Generations that routers have loaded, all together.
    pub loads: u64,
    /// Routers that have another generation than the newest at the end.
    pub behind: usize,
    /// How long a drain took, in milliseconds.
    pub drained_ms: Option<u64>,
    /// The first broken invariant.
    pub violation: Option<Violation>,
}

impl FleetRun {
    /// The highest load of all databases together.
    pub fn database_max(&self) -> f64 {
        self.samples.iter().map(|sample| sample.database).fold(0.0, f64::max)
    }

    /// The most frozen scopes at a time.
    pub fn frozen_max(&self) -> usize {
        self.samples.iter().map(|sample| sample.frozen).max().unwrap_or(0)
    }

    /// The highest part of requests without an answer.
    pub fn errors_max(&self) -> f64 {
        self.samples.iter().map(|sample| sample.errors).fold(0.0, f64::max)
    }
}

/// A fleet under a script of faults.
#[derive(Debug)]
pub struct FleetWorld {
    shape: FleetShape,
    prng: Prng,
    queue: EventQueue<Event>,
    script: Vec<(u64, FleetFault)>,
    hosts: Vec<SimulatedHost>,
    /// The slot of a host.
    slot_of: Vec<Option<usize>>,
    agents: Vec<SimulatedAgent>,
    zone_works: [bool; ZONES],
    load: FluidLoad,
    controllers: ControllerGroup,
    bugs: Vec<PlantedBug>,
    checker: InvariantChecker,
    convergence: Convergence,
    /// Who has the keys of the member that is drained, and since when it is.
    owners: Option<(KeyOwners, u64)>,
    /// The end of the last fault.
    calm_since_ms: u64,
    stops_at_violation: bool,
    /// Routers by the generation that they have: all with equal ones are a cohort.
    cohorts: BTreeMap<u64, usize>,
    committed_ms: u64,
    delays: Vec<u64>,
    admitted: [u32; ZONES],
    fault_ms: u64,
    silent: usize,
    heard_since: Vec<bool>,
    interval: WorldSample,
    run: FleetRun,
}

impl FleetWorld {
    /// A healthy fleet, and what will happen to it: times in milliseconds.
    pub fn new(
        seed: u64,
        shape: FleetShape,
        script: Vec<(u64, FleetFault)>,
        bugs: &[PlantedBug],
    ) -> FleetWorld {
        let hosts = hosts(&shape);
        let agent = SimulatedAgent {
            has_event: false,
            turn: 0,
            has_poll: false,
            backoff_ms: 0,
            cut_off_until_ms: 0,
            generation: 1,
            before: 1,
            loaded_ms: 0,
            is_pushed: false,
            crashed: None,
            phase: None,
        };
        let count = hosts.len() + shape.routers;
        let mut world = FleetWorld {
            prng: Prng::new(seed),
            queue: EventQueue::new(),
            slot_of: (0..hosts.len()).map(|at| (at < shape.servers()).then_some(at)).collect(),
            agents: vec![agent; count],
            zone_works: [true; ZONES],
            load: FluidLoad::new(&shape),
            controllers: ControllerGroup::new(&shape, &hosts, bugs),
            bugs: bugs.to_vec(),
            checker: InvariantChecker::default(),
            convergence: Convergence::default(),
            owners: None,
            calm_since_ms: 0,
            stops_at_violation: false,
            cohorts: BTreeMap::from([(1, shape.routers)]),
            committed_ms: 0,
            delays: Vec::new(),
            admitted: [0; ZONES],
            fault_ms: 0,
            silent: count,
            heard_since: vec![false; count],
            interval: WorldSample { hit_ratio: 1.0, ..WorldSample::default() },
            run: FleetRun::default(),
            hosts,
            script,
            shape,
        };
        for at in 0..world.script.len() {
            world.queue.push(world.script[at].0, Event::Fault(at));
        }
        (0..count).for_each(|agent| world.schedule(0, agent, TURN_MS, TURN_MS));
        world.checker.begins_with(1);
        world.queue.push(1000, Event::Second);
        world
    }

    /// Ends the run where an invariant breaks.
    pub fn stopping_at_a_violation(mut self) -> FleetWorld {
        self.stops_at_violation = true;
        self
    }

    /// Lets so many milliseconds pass.
    pub fn run(mut self, length_ms: u64) -> FleetRun {
        while let Some((now_ms, event)) = self.queue.pop().filter(|(at_ms, _)| *at_ms <= length_ms) {
            self.run.events += 1;
            match event {
                Event::Fault(at) => self.fault(now_ms, at),
                Event::Turn(agent, turn) if turn == self.agents[agent].turn => self.turn(now_ms, agent),
                Event::Turn(..) => {}
                Event::Load(agent) => self.push(now_ms, agent),
                Event::Flap { host, down_ms, up_ms, until_ms } => {
                    self.flap(now_ms, host, down_ms, up_ms, until_ms);
                }
                Event::Crash(agent, generation) => self.crash(now_ms, agent, generation),
                Event::Second => self.second(now_ms),
            }
            self.run.queue_max = self.run.queue_max.max(self.queue.len());
            // Each agent waits for one turn and one that it gave up, a router for one push and one crash besides.
            let limit = 2 * (self.agents.len() + self.shape.routers) + self.script.len() + 1;
            self.checker
                .require(self.queue.len() <= limit, now_ms, "I13", || format!("{limit} events are exceeded"));
            if self.stops_at_violation && self.checker.has_found() {
                break;
            }
        }
        self.delays.sort_unstable();
        self.run.loaded_p99_ms = self.delays.get(self.delays.len() * 99 / 100).copied();
        self.run.generation = self.controllers.newest;
        let newest = self.controllers.newest;
        self.run.behind =
            self.cohorts.iter().filter(|(has, _)| **has != newest).map(|(_, count)| count).sum();
        self.run.violation = self.checker.into_first();
        self.run
    }

    fn schedule(&mut self, now_ms: u64, agent: usize, least_ms: u64, jitter_ms: u64) {
        if !std::mem::replace(&mut self.agents[agent].has_event, true) {
            let at_ms = now_ms + least_ms + self.prng.below(jitter_ms + 1);
            self.queue.push(at_ms, Event::Turn(agent, self.agents[agent].turn));
        }
    }

    fn works(&self, now_ms: u64, agent: usize) -> bool {
        match agent.checked_sub(self.hosts.len()) {
            None => self.hosts[agent].has_agent(now_ms),
            Some(router) => self.zone_works[router % ZONES] && now_ms >= self.agents[agent].cut_off_until_ms,
        }
    }

    /// An agent asks a controller: its own, or the next that works.
    fn turn(&mut self, now_ms: u64, agent: usize) {
        self.agents[agent].has_event = false;
        self.agents[agent].has_poll = false;
        if !self.works(now_ms, agent) {
            // A router that was restarted meanwhile reaches nobody yet. What is dead comes back with its zone.
            if let Some(left_ms) = self.agents[agent].cut_off_until_ms.checked_sub(now_ms) {
                self.schedule(now_ms, agent, left_ms, RETRY_MS);
            }
            return;
        }
        let first = (mix(agent as u64) % ZONES as u64) as usize;
        let mut all = (first..first + ZONES).map(|at| at % ZONES);
        let Some(controller) = all.find(|at| self.controllers.works[*at]) else {
            let backoff_ms = (self.agents[agent].backoff_ms * 2).clamp(1_000, BACKOFF_MAX_MS);
            self.agents[agent].backoff_ms = backoff_ms;
            self.schedule(now_ms, agent, backoff_ms / 2, backoff_ms / 2);
            return;
        };
        if self.admitted[controller] >= self.shape.admitted {
            self.run.refused += 1;
            self.schedule(now_ms, agent, RETRY_MS, RETRY_MS);
            if self.has(PlantedBug::RetryBesideTurn) {
                self.queue.push(now_ms + TURN_MS, Event::Turn(agent, self.agents[agent].turn));
            }
            return;
        }
        self.admitted[controller] += 1;
        (self.agents[agent].backoff_ms, self.agents[agent].has_poll) = (0, true);
        if agent < self.hosts.len() {
            self.host_turn(agent);
        } else {
            self.router_turn(now_ms, agent);
        }
        if !std::mem::replace(&mut self.heard_since[agent], true) {
            self.silent -= 1;
            if self.silent == 0 {
                self.run.all_heard_ms = Some(now_ms - self.fault_ms);
            }
        }
        self.schedule(now_ms, agent, TURN_MS, TURN_JITTER_MS);
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.bugs.contains(&bug)
    }

    fn host_turn(&mut self, host: usize) {
        self.controllers.heard(host);
        if self.controllers.closes_old(host, &self.hosts)
            && let Some((owners, _)) = self.owners.as_mut().filter(|(owners, _)| owners.host == host)
        {
            owners.is_open = false;
        }
    }
}
