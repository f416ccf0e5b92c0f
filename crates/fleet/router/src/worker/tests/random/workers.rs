//! Two workers that share plans, and plans that remove and add servers while requests are on their way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use net::Options;
use net::sim::{PathConditions, World};
use stdx::prng::Prng;

use super::super::{Conversation, End, PORT, RouteWorker};
use super::items::Items;
use super::requests::{Awaited, check, value_of};
use super::seeds;
use crate::shared::Settings;

/// Servers of all plans.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A plan, and the servers that it names.
struct SentPlan {
    config: String,
    servers: HashSet<&'static str>,
}

/// A plan of some servers: with failovers, copies, or neither.
fn plan(prng: &mut Prng) -> SentPlan {
    let mut names = NAMES.to_vec();
    for _ in 0..prng.below(4) {
        names.swap_remove(prng.below(names.len() as u64) as usize);
    }
    let servers: HashSet<&str> = names.iter().copied().collect();
    let list =
        |names: &[&str]| names.iter().map(|name| format!(r#""{name}:1""#)).collect::<Vec<_>>().join(", ");
    let (first, rest) = names.split_at(1 + prng.below(names.len() as u64) as usize);
    let rest = if rest.is_empty() { first } else { rest };
    let route = match prng.below(6) {
        0 => r#""PoolRoute|A""#.to_owned(),
        1 => r#"{"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}"#.to_owned(),
        2 => r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B"}"#.to_owned(),
        3 => r#"{"type": "AllInitialRoute", "children": ["PoolRoute|A", {"type": "LatencyInjectionRoute",
            "before_latency_ms": 9, "child": "PoolRoute|B"}]}"#
            .to_owned(),
        _ => r#"{"type": "MissFailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", {"type": "LatencyInjectionRoute",
            "before_latency_ms": 5, "child": "PoolRoute|A"}]}"#
            .to_owned(),
    };
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": [{}]}}, "B": {{"servers": [{}]}}}}, "route": {route}}}"#,
        list(first),
        list(rest)
    );
    SentPlan { config, servers }
}

/// Requests with keys of their own, which say which plan was in force when they were sent.
fn requests(
    prng: &mut Prng,
    client: usize,
    generation: usize,
    number: &mut u64,
    awaited: &mut Vec<Awaited>,
) -> String {
    let mut text = String::new();
    for _ in 0..prng.below(25) {
        *number += 1;
        let key = || format!("c{client}:{generation}:{number}");
        awaited.push(match prng.below(4) {
            0 => {
                let key = key();
                let value = value_of(&key, if prng.below(10) == 0 { 14_000 } else { 3 });
                text.push_str(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
                Awaited::Line(&["STORED"])
            }
            1 => {
                let keys: Vec<String> = (0..30).map(|part| format!("{}:{part}", key())).collect();
                text.push_str(&format!("get {}\r\n", keys.join(" ")));
                Awaited::Values { keys, with_cas: false }
            }
            2 => {
                text.push_str(&format!("delete {}\r\n", key()));
                Awaited::Line(&["DELETED", "NOT_FOUND"])
            }
            _ => {
                let key = key();
                text.push_str(&format!("get {key}\r\n"));
                Awaited::Values { keys: vec![key], with_cas: false }
            }
        });
    }
    text
}

fn history(seed: u64) {
    let mut prng = Prng::new(seed);
    let mut plans = vec![plan(&mut prng)];
    let add = |world: &mut World, options: &Options| world.add(Items::that_notes_keys(), &[PORT], options);
    let mut conversation = Conversation::with_all(&plans[0].config, seed, Settings::default(), add);
    let second = RouteWorker::new(Arc::clone(&conversation.shared), 8);
    let second = conversation.world.add(second, &[PORT], &Options { workers: 1, ..Options::default() });
    let workers = [conversation.router, second];
    conversation.world.set_default_path(PathConditions {
        delay_us: 20 + prng.below(2000),
        jitter_us: prng.below(3000),
        loss_ppm: 0,
        piece_max: if prng.below(2) == 0 { usize::MAX } else { 1 + prng.below(3000) as usize },
    });
    // The first client stays with the first worker.
    let hosts = conversation.clients.clone();
    for host in &hosts[1..] {
        conversation.world.cut(*host, workers[0]);
        conversation.world.run_for(100_000);
        let place = conversation.world.place(second, PORT);
        let end = conversation.world.handler::<End>(*host);
        (end.dial, end.closed) = (Some(place), false);
        conversation.settle(*host);
    }
    let mut awaited: Vec<Vec<Awaited>> = hosts.iter().map(|_| Vec::new()).collect();
    let mut number = 0;
    for _ in 0..100 {
        for (client, host) in hosts.iter().enumerate() {
            let text = requests(&mut prng, client, plans.len() - 1, &mut number, &mut awaited[client]);
            conversation.world.handler::<End>(*host).to_send.extend_from_slice(text.as_bytes());
            conversation.world.nudge(*host);
        }
        conversation.world.run_for(prng.below(10_000));
        match prng.below(6) {
            0 | 1 => {
                plans.push(plan(&mut prng));
                let config = &plans.last().expect("the new one").config;
                let generation = conversation.shared.generation() + 1;
                let plan =
                    super::super::compiled(config, generation, &conversation.places, &conversation.options);
                conversation.shared.replace(plan);
                // A worker that is not nudged sees it with the next bytes.
                workers
                    .iter()
                    .filter(|_| prng.below(2) == 0)
                    .for_each(|worker| conversation.world.nudge(*worker));
            }
            2 => {
                let server = conversation.host(NAMES[prng.below(4) as usize]);
                conversation.world.cut(server, workers[prng.below(2) as usize]);
            }
            _ => {}
        }
    }
    hosts.iter().chain(&workers).for_each(|host| conversation.settle(*host));
    conversation.world.run_for(10_000_000);
    for (client, host) in hosts.iter().enumerate() {
        let end = conversation.world.handler::<End>(*host);
        assert!(!end.closed, "seed {seed}: client {client} is connected");
        check(&awaited[client], &end.received)
            .unwrap_or_else(|error| panic!("seed {seed}: {client}: {error}"));
    }
    check_routes(&mut conversation, &plans, seed);
    let last = &plans.last().expect("a plan").servers;
    for worker in workers {
        check_destinations(conversation.world.handler::<RouteWorker>(worker), last, seed);
    }
    for name in NAMES {
        let host = conversation.host(name);
        for worker in workers {
            let connections = conversation.world.connections(host, worker).len();
            let max = usize::from(last.contains(name));
            assert!(connections <= max, "seed {seed}: {connections} connections to {name}");
        }
    }
}

/// Each request went to the servers of one plan only, which was in force when the request was sent, or later.
fn check_routes(conversation: &mut Conversation, plans: &[SentPlan], seed: u64) {
    let mut heard: HashMap<String, HashSet<&str>> = HashMap::new();
    for name in NAMES {
        let server = conversation.world.handler::<Items>(conversation.host(name));
        for key in server.heard.take().expect("keys") {
            heard.entry(String::from_utf8(key).expect("ASCII")).or_default().insert(name);
        }
    }
    assert!(heard.len() > 100, "seed {seed}: requests reach servers");
    for (key, servers) in heard {
        let generation: usize = key.split(':').nth(1).expect("a generation").parse().expect("a number");
        let is_one_plans = plans[generation..].iter().any(|plan| servers.is_subset(&plan.servers));
        assert!(is_one_plans, "seed {seed}: {key} was sent to {servers:?}");
    }
}

/// Nothing is left of servers that the plan in force does not name.
fn check_destinations(worker: &mut RouteWorker, servers: &HashSet<&str>, seed: u64) {
    assert_eq!(worker.flights.len(), 0, "seed {seed}");
    let known: HashSet<&str> =
        worker.servers.known().1.keys().map(|name| name.split(':').next().expect("a host")).collect();
    assert!(known.is_subset(servers), "seed {seed}: {known:?} of {servers:?}");
    assert_eq!(worker.servers.known().0, known.len(), "seed {seed}");
    for server in worker.servers.destinations() {
        let left = (server.queue.len(), server.queue.has_tokens(), server.connection.waiting());
        assert_eq!(left, (0, false, 0), "seed {seed}: left for {}", server.spec.name);
    }
    for client in worker.clients.windows().values() {
        assert_eq!((client.len(), client.parked()), (0, 0), "seed {seed}");
    }
}

#[test]
fn no_request_takes_the_route_of_a_plan_that_was_replaced_before_it_was_sent() {
    for seed in seeds(500..508) {
        history(seed);
    }
}
