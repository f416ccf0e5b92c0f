//! The fleet world: agents' turns, passes of the controllers, fluid steps and faults, one after the other.

use std::collections::BTreeMap;

use stdx::prng::{Prng, mix};

use crate::checker::{ChangeFacts, InvariantChecker, SlotChange, Violation};
use crate::controllers::{ControllerGroup, PlantedBug};
use crate::fault::FleetFault;
use crate::hosts::{SimulatedHost, hosts};
use crate::load::FluidLoad;
use crate::queue::EventQueue;
use crate::shape::{FleetShape, ZONES};

/// A turn without news takes 15 s ± 5.
const TURN_MS: u64 = 10_000;
const TURN_JITTER_MS: u64 = 10_000;
/// Turns that a controller begins in a second; others hear "retry after". 25,000 agents come within 10 s with that.
const ADMITTED_MAX: u32 = 1_000;
/// A refused agent comes again after this, and as much at random.
const RETRY_MS: u64 = 2_000;
/// Without a controller agents wait twice as long after each attempt, up to this.
const BACKOFF_MAX_MS: u64 = 30_000;
/// A canary of one router in a hundred has a slot change for this long before the others.
const CANARY_MS: u64 = 2_000;
/// Microseconds in which a controller answers one poll with a new configuration.
const ANSWER_US: u64 = 100;
/// The part of a change that is as far as its figures say, once in this many seconds.
const SAMPLE_EVERY_S: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Fault(usize),
    /// An agent, and the number of its turn: one that was given up is not taken.
    Turn(usize, u32),
    Load(usize),
    Second,
}

#[derive(Clone, Copy, Debug)]
struct SimulatedAgent {
    has_event: bool,
    turn: u32,
    has_poll: bool,
    backoff_ms: u64,
    /// Of a router: the generation that it has loaded.
    generation: u64,
    is_pushed: bool,
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
    checker: InvariantChecker,
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
            generation: 1,
            is_pushed: false,
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
            checker: InvariantChecker::default(),
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
        world.queue.push(1000, Event::Second);
        world
    }

    /// Lets so many milliseconds pass.
    pub fn run(mut self, length_ms: u64) -> FleetRun {
        while let Some((now_ms, event)) = self.queue.pop().filter(|(at_ms, _)| *at_ms <= length_ms) {
            self.run.events += 1;
            match event {
                Event::Fault(at) => self.fault(now_ms, at),
                Event::Turn(agent, turn) if turn == self.agents[agent].turn => self.turn(now_ms, agent),
                Event::Turn(..) => {}
                Event::Load(agent) => self.load_newest(now_ms, agent),
                Event::Second => self.second(now_ms),
            }
            self.run.queue_max = self.run.queue_max.max(self.queue.len());
            // Each agent waits for one turn, one that it gave up, and one push, besides the script and the next second.
            let limit = 2 * self.agents.len() + self.shape.routers + self.script.len() + 1;
            self.checker
                .require(self.queue.len() <= limit, now_ms, "I13", || format!("{limit} events are exceeded"));
        }
        self.delays.sort_unstable();
        self.run.loaded_p99_ms = self.delays.get(self.delays.len() * 99 / 100).copied();
        self.run.generation = self.controllers.generation;
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
            Some(router) => self.zone_works[router % ZONES],
        }
    }

    /// An agent asks a controller: its own, or the next that works.
    fn turn(&mut self, now_ms: u64, agent: usize) {
        self.agents[agent].has_event = false;
        self.agents[agent].has_poll = false;
        if !self.works(now_ms, agent) {
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
        if self.admitted[controller] >= ADMITTED_MAX {
            self.run.refused += 1;
            self.schedule(now_ms, agent, RETRY_MS, RETRY_MS);
            return;
        }
        self.admitted[controller] += 1;
        (self.agents[agent].backoff_ms, self.agents[agent].has_poll) = (0, true);
        if agent < self.hosts.len() {
            self.controllers.heard(agent);
        } else if !self.agents[agent].is_pushed {
            self.load_newest(now_ms, agent);
        }
        if !std::mem::replace(&mut self.heard_since[agent], true) {
            self.silent -= 1;
            if self.silent == 0 {
                self.run.all_heard_ms = Some(now_ms - self.fault_ms);
            }
        }
        self.schedule(now_ms, agent, TURN_MS, TURN_JITTER_MS);
    }

    /// A router loads the newest generation, which a controller has sent.
    fn load_newest(&mut self, now_ms: u64, agent: usize) {
        self.agents[agent].is_pushed = false;
        let (newest, has_controller) = (self.controllers.generation, self.controllers.works.contains(&true));
        let before = self.agents[agent].generation;
        if before == newest || !has_controller || !self.works(now_ms, agent) {
            return;
        }
        self.checker
            .require(newest > before, now_ms, "I1", || format!("generation {newest} follows {before}"));
        self.agents[agent].generation = newest;
        self.leave_cohort(before);
        *self.cohorts.entry(newest).or_default() += 1;
        // Memory for a million is enough for a percentile.
        if self.delays.len() < 1_000_000 {
            self.delays.push((now_ms - self.committed_ms).saturating_sub(CANARY_MS));
        }
    }

    fn leave_cohort(&mut self, generation: u64) {
        let count = self.cohorts.get_mut(&generation).expect("a router's cohort");
        *count -= 1;
        if *count == 0 {
            self.cohorts.remove(&generation);
        }
    }

    fn second(&mut self, now_ms: u64) {
        self.queue.push(now_ms + 1000, Event::Second);
        self.admitted = [0; ZONES];
        let before = self.controllers.generation;
        let order = now_ms.is_multiple_of(60_000).then(|| self.controllers.places().to_vec());
        let cold: Vec<f64> = self.cold_loads();
        let result = self.controllers.pass(now_ms, &mut self.hosts, &mut self.load);
        if let Some(order) = order {
            let is_kept = self.controllers.has_order_of(&order);
            self.checker.require(is_kept, now_ms, "I4", || "slots have another order".to_owned());
        }
        for change in &result.changes {
            self.changed(now_ms, change, &cold);
        }
        if self.controllers.generation != before {
            self.checker.require(self.controllers.register_works, now_ms, "I10", || {
                "a generation without a register".to_owned()
            });
            self.publish(now_ms);
        }
        self.step(now_ms, result.frozen);
    }

    /// Per cluster the additional misses of slots that warm up.
    fn cold_loads(&self) -> Vec<f64> {
        let mut cold = vec![0.0; self.shape.clusters];
        let h = self.shape.hit_ratio;
        for (at, _) in self.load.slots.iter().enumerate().filter(|(_, slot)| slot.warms_up) {
            let warmth = (self.load.own_hit_ratio(at) / h).min(1.0);
            cold[at / self.shape.slots] += (1.0 - warmth) * h / (1.0 - h) / self.shape.slots as f64;
        }
        cold
    }

    fn changed(&mut self, now_ms: u64, change: &SlotChange, cold: &[f64]) {
        let h = self.shape.hit_ratio;
        let from = &self.hosts[change.from];
        let facts = ChangeFacts {
            accusing_kinds: u32::from(!from.has_agent(now_ms))
                + u32::from(!from.works || now_ms < from.probes_lie_until_ms)
                + u32::from(!from.works),
            cold_load: cold[change.slot / self.shape.slots] + h / (1.0 - h) / self.shape.slots as f64,
            zone: from.zone,
        };
        self.checker.changes(now_ms, &self.shape, change, &facts);
        self.run.first_replaced_ms.get_or_insert(now_ms - self.fault_ms);
        self.slot_of[change.from] = None;
        self.slot_of[change.to] = Some(change.slot);
        *if change.is_voluntary { &mut self.run.voluntary } else { &mut self.run.replaced } += 1;
    }

    /// All routers with an open poll get the new generation: a canary first, then one after the other.
    fn publish(&mut self, now_ms: u64) {
        self.committed_ms = now_ms;
        for router in 0..self.shape.routers {
            let agent = self.hosts.len() + router;
            if self.agents[agent].has_poll && !std::mem::replace(&mut self.agents[agent].is_pushed, true) {
                let wait_ms = if router % 100 == 0 { 0 } else { CANARY_MS };
                let turn_ms = router as u64 / ZONES as u64 * ANSWER_US / 1000;
                self.queue.push(now_ms + wait_ms + turn_ms, Event::Load(agent));
            }
        }
    }

    fn step(&mut self, now_ms: u64, frozen: usize) {
        let all: usize = self.cohorts.values().sum();
        let cohorts = &self.cohorts;
        let loaded =
            |generation: u64| match cohorts.range(..generation).map(|(_, count)| count).sum::<usize>() {
                0 => 1.0,
                behind => 1.0 - behind as f64 / all as f64,
            };
        let step = self.load.step(&self.hosts, loaded);
        let worst = &mut self.interval;
        worst.database = worst.database.max(step.database);
        worst.worst_database = worst.worst_database.max(step.worst_database);
        worst.hit_ratio = worst.hit_ratio.min(step.hit_ratio);
        worst.errors = worst.errors.max(step.errors);
        worst.frozen = worst.frozen.max(frozen);
        if (now_ms / 1000).is_multiple_of(SAMPLE_EVERY_S) {
            worst.at_s = now_ms as f64 / 1000.0;
            worst.suspects = self.controllers.suspects();
            worst.replacements = self.run.replaced + self.run.voluntary;
            self.run.samples.push(*worst);
            self.interval = WorldSample { hit_ratio: 1.0, ..WorldSample::default() };
        }
    }

    fn fault(&mut self, now_ms: u64, at: usize) {
        self.fault_ms = now_ms;
        match self.script[at].1.clone() {
            FleetFault::AgentsRestart { percent, for_ms } => {
                for host in self.some_hosts(self.hosts.len() as u64 * percent / 100, false) {
                    self.hosts[host].agent_away_until_ms = now_ms + for_ms;
                    self.reschedule(now_ms, host, for_ms);
                }
            }
            FleetFault::HostsDie(dead) => dead.into_iter().for_each(|host| self.die(host)),
            FleetFault::AnyHostsDie(count) => {
                self.some_hosts(count as u64, true).into_iter().for_each(|host| self.die(host));
            }
            FleetFault::HostsReturn(back) => back.into_iter().for_each(|host| self.come_back(now_ms, host)),
            FleetFault::ZoneDies(zone) => self.zone(now_ms, zone, false),
            FleetFault::ZoneReturns(zone) => self.zone(now_ms, zone, true),
            FleetFault::ControllersStop => self.controllers.works = [false; ZONES],
            FleetFault::ControllersStart => self.controllers.works = self.zone_works,
            FleetFault::RegisterStops => self.controllers.register_works = false,
            FleetFault::RegisterStarts => self.controllers.register_works = true,
            FleetFault::RoutersRestart => self.restart_routers(now_ms),
            FleetFault::ServersSlow(count) => {
                for host in self.some_hosts(count as u64, true) {
                    self.hosts[host].slowness = 10.0;
                    self.disturb(host);
                }
            }
            FleetFault::ProbesLie { percent, for_ms } => {
                for host in self.some_hosts(self.hosts.len() as u64 * percent / 100, false) {
                    self.hosts[host].probes_lie_until_ms = now_ms + for_ms;
                }
            }
            FleetFault::OperatorReplaces(count) => {
                (0..count.min(self.shape.slots)).for_each(|slot| self.controllers.wants(slot));
            }
        }
        self.expect_all(now_ms);
    }

    /// From now on it is measured until every agent that works has had a turn.
    fn expect_all(&mut self, now_ms: u64) {
        self.heard_since = (0..self.agents.len()).map(|agent| !self.works(now_ms, agent)).collect();
        self.silent = self.heard_since.iter().filter(|heard| !**heard).count();
        self.run.all_heard_ms = None;
    }

    /// Different hosts, chosen at random.
    fn some_hosts(&mut self, count: u64, with_slot: bool) -> Vec<usize> {
        let mut all: Vec<usize> =
            (0..self.hosts.len()).filter(|host| !with_slot || self.slot_of[*host].is_some()).collect();
        let count = (count as usize).min(all.len());
        for at in 0..count {
            let other = at + self.prng.below((all.len() - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }

    fn disturb(&mut self, host: usize) {
        if let Some(slot) = self.slot_of[host] {
            self.load.disturb(slot / self.shape.slots);
        }
    }

    fn die(&mut self, host: usize) {
        self.hosts[host].works = false;
        self.disturb(host);
    }

    fn come_back(&mut self, now_ms: u64, host: usize) {
        if std::mem::replace(&mut self.hosts[host].works, true) {
            return;
        }
        match self.slot_of[host] {
            Some(slot) => self.load.empty(slot),
            None => self.controllers.returned(host),
        }
        self.schedule(now_ms, host, 0, RETRY_MS);
    }

    fn zone(&mut self, now_ms: u64, zone: usize, works: bool) {
        if std::mem::replace(&mut self.zone_works[zone], works) == works {
            return;
        }
        self.controllers.works[zone] = works;
        for host in (0..self.hosts.len()).filter(|host| self.hosts[*host].zone == zone).collect::<Vec<_>>() {
            if works { self.come_back(now_ms, host) } else { self.die(host) }
        }
        for router in (zone..self.shape.routers).step_by(ZONES) {
            let agent = self.hosts.len() + router;
            // Clients of a lost zone are clients of the others now.
            let generation = self.agents[agent].generation;
            if works {
                *self.cohorts.entry(generation).or_default() += 1;
                self.schedule(now_ms, agent, 0, RETRY_MS);
            } else {
                self.leave_cohort(generation);
            }
        }
    }

    /// Each has its file on its disk, and asks at once.
    fn restart_routers(&mut self, now_ms: u64) {
        for agent in self.hosts.len()..self.agents.len() {
            self.agents[agent].has_poll = false;
            self.reschedule(now_ms, agent, 0);
        }
    }

    /// The agent's process was restarted: it gives up its turn, and comes after this time.
    fn reschedule(&mut self, now_ms: u64, agent: usize, least_ms: u64) {
        self.agents[agent].has_event = false;
        self.agents[agent].turn += 1;
        self.schedule(now_ms, agent, least_ms, RETRY_MS);
    }
}
