//! Random histories: clients, servers that keep items or lie, delays, resets, and other plans.

mod items;
mod lies;
mod memory;
mod nested;
mod plans;
mod requests;
mod workers;

use std::collections::HashMap;
use std::ops::Range;

use net::Options;
use net::sim::{HostId, PathConditions, World};
use stdx::prng::Prng;

use super::routes::conversations::configs;
use super::{Conversation, End, PORT};
use crate::servers::health::HealthSettings;
use crate::shared::Settings;
pub(super) use items::Items;
use lies::Liar;
use memory::check_memory;
use plans::{COPIES, DELAYED, DERIVED, FAILOVER, HONEST, LIMITED, POOL, SHADOWED, derived};
use requests::{Client, check};

/// What happens in a history.
#[derive(Clone, Copy)]
struct Events {
    steps: usize,
    /// Connections are reset, paths partitioned, and clients go and come back.
    has_failures: bool,
    /// Servers a and b lie, and client 2 asks only c, which does not.
    has_lies: bool,
    sends_large: bool,
}

/// Failures, and servers that tell the truth.
const FAILURES: Events = Events { steps: 80, has_failures: true, has_lies: false, sends_large: false };

/// In a history with lies, c is the last client, and it alone asks the honest server.
const HONEST_CLIENT: usize = 2;

/// Servers of a history.
const SERVERS: [&str; 3] = ["a", "b", "c"];

struct History {
    seed: u64,
    prng: Prng,
    conversation: Conversation,
    hosts: Vec<HostId>,
    clients: Vec<Client>,
    events: Events,
    /// Clients that read nothing, and until which step.
    asleep: HashMap<usize, usize>,
}

impl History {
    fn new(seed: u64, plan: &str, events: Events) -> History {
        let mut prng = Prng::new(seed);
        let health =
            HealthSettings { probe_initial_ms: 300, probe_max_ms: 2000, ..HealthSettings::default() };
        let settings = Settings { health, ..Settings::default() };
        let add = |world: &mut World, options: &Options| world.add(Items::default(), &[PORT], options);
        let mut conversation = Conversation::with_all(plan, seed, settings, add);
        conversation.options.compares_shadows = true;
        conversation.world.set_default_path(PathConditions {
            delay_us: 20 + prng.next_u64() % 2000,
            jitter_us: prng.next_u64() % 3000,
            loss_ppm: if events.has_failures && seed.is_multiple_of(3) { 3000 } else { 0 },
            piece_max: if seed.is_multiple_of(2) { usize::MAX } else { 1 + prng.next_u64() as usize % 3000 },
        });
        let hosts = conversation.clients.clone();
        let mut clients: Vec<Client> =
            (0..hosts.len()).map(|number| Client::new(&format!("c{number}"), 12)).collect();
        clients.iter_mut().for_each(|client| client.sends_large = events.sends_large);
        if events.has_lies {
            for (name, number) in ["a", "b"].iter().zip(1..) {
                let liar = Liar::new(seed * 10 + number, 1 + prng.below(60));
                conversation.world.handler::<Items>(conversation.host(name)).liar = Some(liar);
            }
            clients.iter_mut().for_each(|client| client.is_lied_to = true);
            clients[HONEST_CLIENT] = Client::new("h", 12);
            clients[HONEST_CLIENT].model = Some(HashMap::new());
        }
        History { seed, prng, conversation, hosts, clients, events, asleep: HashMap::new() }
    }

    /// Lets clients send requests: some, or more than a window takes.
    fn send(&mut self) {
        for (number, host) in self.hosts.iter().enumerate() {
            let count = match self.prng.below(150) {
                0 => 1500,
                _ => self.prng.below(40),
            };
            let mut text = String::new();
            for _ in 0..count {
                self.clients[number].request(&mut self.prng, &mut text);
            }
            self.conversation.world.handler::<End>(*host).to_send.extend_from_slice(text.as_bytes());
            self.conversation.world.nudge(*host);
        }
    }

    /// Something happens to a server, a client or the plan.
    fn happen(&mut self, plans: &[impl AsRef<str>], step: usize) {
        let server = self.conversation.host(SERVERS[self.prng.below(3) as usize]);
        let client = self.prng.below(self.hosts.len() as u64) as usize;
        let (router, has_failures) = (self.conversation.router, self.events.has_failures);
        match self.prng.below(32) {
            0 | 1 if has_failures => self.conversation.world.cut(server, router),
            2 if has_failures => self.conversation.world.partition(server, router),
            3 | 4 => self.conversation.world.heal(server, router),
            5 => self.conversation.replace(plans[self.prng.below(plans.len() as u64) as usize].as_ref()),
            6 if has_failures && !self.asleep.contains_key(&client) => self.reconnect(client),
            // Nothing passes between it and the router: it reads nothing.
            7 => {
                self.conversation.world.partition(self.hosts[client], router);
                self.asleep.insert(client, step + 1 + self.prng.below(20) as usize);
            }
            _ => {}
        }
        let awake: Vec<usize> =
            self.asleep.iter().filter(|(_, until)| **until <= step).map(|(client, _)| *client).collect();
        for client in awake {
            self.asleep.remove(&client);
            self.conversation.world.heal(self.hosts[client], router);
        }
    }

    /// A client's connection is reset, and it makes another.
    fn reconnect(&mut self, client: usize) {
        self.conversation.world.cut(self.hosts[client], self.conversation.router);
        self.conversation.world.run_for(100_000);
        let end = self.conversation.world.handler::<End>(self.hosts[client]);
        end.received.clear();
        end.to_send.clear();
        self.clients[client].awaited.clear();
        self.conversation.connect(self.hosts[client]);
    }

    /// Everybody can be reached, nobody lies, and all that was sent is answered.
    fn settle(&mut self) {
        for name in SERVERS {
            self.conversation.world.heal(self.conversation.host(name), self.conversation.router);
            self.conversation.world.handler::<Items>(self.conversation.host(name)).liar = None;
        }
        for host in self.hosts.clone() {
            self.conversation.world.heal(host, self.conversation.router);
            self.conversation.settle(host);
        }
        // Later replies show what was wrong with earlier ones.
        for _ in 0..if self.events.has_lies { 6 } else { 0 } {
            self.conversation.world.run_for(1_500_000);
            let keys: Vec<String> = (0..40).map(|number| format!("last:{number}")).collect();
            let end = self.conversation.world.handler::<End>(self.hosts[0]);
            end.to_send.extend_from_slice(format!("get {}\r\n", keys.join(" ")).as_bytes());
            self.clients[0].awaited.push(requests::Awaited::Values { keys, with_cas: false });
            self.conversation.settle(self.hosts[0]);
        }
        // Limits of outstanding requests make it long.
        let mut before = (0, 0);
        loop {
            self.conversation.world.run_for(20_000_000);
            let world = &mut self.conversation.world;
            let answered: usize =
                self.hosts.iter().map(|host| world.handler::<End>(*host).received.len()).sum();
            let now = (answered, self.conversation.worker().flights.len());
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// Nothing is missing, and nothing is left.
    fn check(&mut self) {
        let seed = self.seed;
        for (number, host) in self.hosts.iter().enumerate() {
            let end = self.conversation.world.handler::<End>(*host);
            if end.links.is_empty() && !end.closed {
                // Its dial did not succeed in time.
                continue;
            }
            assert!(!end.closed && end.to_send.is_empty(), "seed {seed}: client {number} is connected");
            if let Err(error) = check(&self.clients[number].awaited, &end.received) {
                let said = super::SAID.take();
                let first: Vec<&String> = said.iter().take(5).collect();
                panic!("seed {seed}: client {number}: {error}; the router said: {first:#?}");
            }
        }
        self.check_nothing_left();
        for name in SERVERS {
            let server = self.conversation.world.handler::<Items>(self.conversation.host(name));
            for (_, lie) in &server.connections {
                assert_eq!(*lie, None, "seed {seed}: {name} has a connection over which it has lied");
            }
        }
    }

    fn check_nothing_left(&mut self) {
        let (seed, worker) = (self.seed, self.conversation.worker());
        assert_eq!(worker.flights.len(), 0, "seed {seed}");
        for server in worker.servers.destinations() {
            let left = (server.queue.len(), server.queue.has_tokens(), server.connection.waiting());
            let name = &server.spec.name;
            assert_eq!(left, (0, false, 0), "seed {seed}: requests, tokens and bytes left for {name}");
            assert_eq!(server.queue.shadows(), 0, "seed {seed}: requests of shadows for {name}");
            assert!(!server.queue.is_receiving(), "seed {seed}: half a value of {name}");
        }
        for client in worker.clients.windows().values() {
            let left = (client.len(), client.parked());
            assert_eq!(left, (0, 0), "seed {seed}: requests and bytes of clients");
        }
    }
}

/// Plays a history that begins with the first plan. Returns how many gets hot values have answered.
fn play_history<S: AsRef<str>>(seed: u64, plans: &[S], events: Events) -> u64 {
    let mut history = History::new(seed, plans[0].as_ref(), events);
    for step in 0..events.steps {
        history.send();
        let us = history.prng.below(20_000);
        history.conversation.world.run_for(us);
        history.happen(plans, step);
        check_memory(history.conversation.worker(), seed);
    }
    history.settle();
    history.check();
    history.conversation.worker().cells.hot_hits.value()
}

/// Seeds of an ordinary run; `EVENKEEL_TEST_SEEDS` sets others, as `first..last`.
pub(super) fn seeds(ordinary: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_TEST_SEEDS") else { return ordinary };
    let (first, last) = text.split_once("..").expect("first..last");
    first.parse().expect("a number")..last.parse().expect("a number")
}

#[test]
fn every_reply_belongs_to_its_request_whatever_happens() {
    for seed in seeds(0..3) {
        play_history(seed, &[POOL, FAILOVER, COPIES], FAILURES);
    }
}

#[test]
fn routes_that_change_requests_lose_no_request() {
    let plans: Vec<String> = [POOL.to_owned()].into_iter().chain(DERIVED.map(derived)).collect();
    for seed in seeds(200..203) {
        play_history(seed, &plans, FAILURES);
    }
}

#[test]
fn no_type_of_route_loses_a_request() {
    // A fourth server is none of a history.
    let mut plans: Vec<String> = configs().iter().map(|config| config.replace("d:1", "b:1")).collect();
    // In its conversation, clients see its mark among the flags: it is in other plans.
    plans.retain(|plan| !plan.contains("BigValueRoute"));
    for (seed, plan) in (800..).zip(&plans) {
        let events = Events { steps: 15, has_failures: seed % 2 == 0, ..FAILURES };
        play_history(seed, &[plan], events);
    }
}

#[test]
fn limits_delays_and_shadows_lose_no_request() {
    for seed in seeds(100..103) {
        play_history(seed, &[POOL, LIMITED, SHADOWED, DELAYED], FAILURES);
    }
}

#[test]
fn large_values_belong_to_their_requests() {
    for seed in seeds(300..301) {
        play_history(seed, &[POOL, FAILOVER, COPIES], Events { steps: 60, sends_large: true, ..FAILURES });
    }
}

#[test]
fn a_server_that_lies_harms_nobody_but_those_who_ask_it() {
    let events = Events { has_failures: false, has_lies: true, ..FAILURES };
    for seed in seeds(400..406) {
        play_history(seed, &HONEST, events);
    }
}

#[test]
fn hot_values_lose_no_request_below_any_route() {
    let plain = [POOL, FAILOVER, COPIES, LIMITED, SHADOWED, DELAYED].map(str::to_owned);
    let plans = plain.into_iter().chain(DERIVED.map(derived));
    let hot = |plan: String| {
        let pools = plan.split_inclusive("\"servers\": [").map(|part| match part.split_once(']') {
            Some((servers, rest)) if rest.starts_with('}') => {
                format!("{servers}], \"hot_cache\": {{\"ttl_ms\": 50}}{rest}")
            }
            _ => part.to_owned(),
        });
        pools.collect::<String>()
    };
    let plans: Vec<String> = plans.map(hot).chain([POOL.to_owned()]).collect();
    let hits: u64 = seeds(500..504).map(|seed| play_history(seed, &plans, FAILURES)).sum();
    assert!(hits > 0, "no hit");
}
