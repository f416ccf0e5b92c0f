//! Random histories: clients that wait for their answers, some of them writers, over several connections to one server, with
//! lost connections and other plans; and somebody who changes items at the server itself.

use std::collections::HashMap;

use net::Options;
use net::sim::{PathConditions, World};
use stdx::prng::Prng;

use super::super::random::{Items, seeds};
use super::*;

/// The longest time of a plan below.
const TTL_MS: u64 = 60;

/// Keys that each client writes; all read them.
const KEYS: usize = 2;

/// What somebody changes at the server. The last key.
const FOREIGN: usize = CLIENTS * KEYS;

/// Plans whose requests all go to server a: over one connection, over another for updates, over several for different keys.
const PLANS: [&str; 5] = [
    r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {"ttl_ms": 60}}}, "route": "PoolRoute|A"}"#,
    r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {"ttl_ms": 40}}, "B": {"servers": ["a:1"]}},
        "route": {"type": "OperationSelectorRoute", "default_policy": "PoolRoute|B",
            "operation_policies": {"get": "PoolRoute|A"}}}"#,
    r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {"ttl_ms": 60}, "additional_fanout": 3},
                  "B": {"servers": ["a:1"], "hot_cache": {"ttl_ms": 50}}},
        "route": {"type": "OperationSelectorRoute", "default_policy": "PoolRoute|B",
            "operation_policies": {"get": {"type": "RandomRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#,
    r#"{"pools": {"A": {"servers": ["a:1"]}}, "route": "PoolRoute|A"}"#,
    r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {"ttl_ms": 60}}, "B": {"servers": ["a:1"]}},
        "route": {"type": "RandomRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#,
];

/// What is known of a key.
#[derive(Default)]
struct KnownKey {
    /// Its name has a number, which changes when an update has failed: that one may still be done at any time.
    generation: u64,
    /// Of its updates.
    version: u64,
    /// The last that was answered.
    answered: u64,
    /// Those that were deletes.
    deletes: Vec<u64>,
    /// When versions were replaced at the server, for the foreign key.
    replaced: Vec<u64>,
}

/// A request of which a client awaits the answer.
enum Sent {
    Update {
        key: usize,
        version: u64,
    },
    /// With each key's generation, and the least version that may be read; and when.
    Get {
        keys: Vec<(usize, u64, u64)>,
        at_us: u64,
    },
}

struct Writers {
    keys: Vec<KnownKey>,
    awaited: Vec<Option<Sent>>,
    prng: Prng,
    reads: u64,
}

impl Writers {
    fn name(&self, key: usize) -> String {
        format!("key{key}.{}", self.keys[key].generation)
    }

    fn request(&mut self, client: usize, at_us: u64) -> String {
        let key = client * KEYS + self.prng.below(KEYS as u64) as usize;
        let name = self.name(key);
        let kind = self.prng.below(10);
        if kind < 2 {
            let known = &mut self.keys[key];
            known.version += 1;
            let version = known.version;
            self.awaited[client] = Some(Sent::Update { key, version });
            if kind == 0 && self.prng.below(2) == 0 {
                self.keys[key].deletes.push(version);
                return format!("delete {name}\r\n");
            }
            let value = format!("{version}={}", "v".repeat(self.prng.below(3) as usize * 13_000));
            return format!("set {name} 0 0 {}\r\n{value}\r\n", value.len());
        }
        let (count, is_meta) = (if kind < 8 { 1 } else { 3 }, kind == 7 || kind == 6);
        let mut keys: Vec<usize> = (0..count).map(|_| self.prng.below(FOREIGN as u64 + 1) as usize).collect();
        keys.dedup();
        let names: Vec<String> = keys.iter().map(|key| self.name(*key)).collect();
        let known = |key: &usize| (*key, self.keys[*key].generation, self.keys[*key].answered);
        let keys = keys.iter().map(known).collect();
        self.awaited[client] = Some(Sent::Get { keys, at_us });
        match is_meta {
            true => format!("mg {} v f\r\n", names[0]),
            false => format!("get {}\r\n", names.join(" ")),
        }
    }

    /// Takes the answer of a client, if it is whole, and says what is wrong with it.
    fn answer(&mut self, client: usize, received: &mut Vec<u8>) -> Result<(), String> {
        let text = String::from_utf8(received.clone()).expect("ASCII");
        let is_failed = text.starts_with("SERVER_ERROR ") && text.ends_with("\r\n");
        match &self.awaited[client] {
            None => return Err(format!("an answer without a request: {text:?}")),
            Some(Sent::Update { key, version }) if text.ends_with("\r\n") => {
                let known = &mut self.keys[*key];
                if is_failed {
                    *known = KnownKey { generation: known.generation + 1, ..KnownKey::default() };
                    known.deletes.push(0);
                } else {
                    known.answered = *version;
                }
            }
            Some(Sent::Get { .. }) if is_failed => {}
            Some(Sent::Get { keys, at_us }) if is_whole(&text) => {
                self.reads += 1;
                // A meta reply has no key: the request had one.
                let text = text.replace("VA ", &format!("VALUE key{}. ", keys[0].0));
                check(&self.keys, keys, *at_us, &text)?;
            }
            Some(_) => return Ok(()),
        }
        received.clear();
        self.awaited[client] = None;
        Ok(())
    }
}

/// Whether a reply with values has all its bytes.
fn is_whole(text: &str) -> bool {
    let Some(meta) = text.strip_prefix("VA ") else { return text.ends_with("END\r\n") || text == "EN\r\n" };
    let Some((head, value)) = meta.split_once("\r\n") else { return false };
    let len: usize = head.split(' ').next().and_then(|len| len.parse().ok()).expect("a length");
    value.len() == len + 2
}

/// Whether each value may be read.
fn check(known: &[KnownKey], asked: &[(usize, u64, u64)], at_us: u64, text: &str) -> Result<(), String> {
    let mut found: HashMap<usize, u64> = HashMap::new();
    let mut lines = text.split("\r\n");
    while let Some(head) = lines.next().and_then(|line| line.strip_prefix("VALUE key")) {
        let key = head.split('.').next().expect("a key");
        let (version, _) = lines.next().and_then(|value| value.split_once('=')).expect("a version");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        found.insert(number(key) as usize, number(version));
    }
    for (key, generation, least) in asked {
        let known = &known[*key];
        match found.get(key) {
            // An update has failed meanwhile: it may have been done or not.
            _ if *generation != known.generation => {}
            Some(version) if *key == FOREIGN => {
                let replaced = known.replaced.get(*version as usize).copied();
                if replaced.is_some_and(|at| at + TTL_MS * 1000 <= at_us) {
                    return Err(format!(
                        "version {version} was replaced at {replaced:?}, and read at {at_us}"
                    ));
                }
            }
            Some(version) if version < least => {
                return Err(format!("version {version} of key {key} after the answer to {least}"));
            }
            None if *least > 0 && !known.deletes.iter().any(|delete| delete >= least) => {
                return Err(format!("a miss of key {key} after the answer to {least}"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn history(seed: u64, plans: &[&str]) -> (u64, u64) {
    let mut prng = Prng::new(seed);
    let mut conversation = Conversation::with_all(
        plans[0],
        seed,
        Settings::default(),
        |world: &mut World, options: &Options| world.add(Items::default(), &[PORT], options),
    );
    conversation.world.set_default_path(PathConditions {
        delay_us: 20 + prng.below(1000),
        jitter_us: prng.below(2000),
        loss_ppm: if seed.is_multiple_of(4) { 1000 } else { 0 },
        piece_max: if seed.is_multiple_of(2) { usize::MAX } else { 1 + prng.below(3000) as usize },
    });
    let keys = (0..=FOREIGN).map(|_| KnownKey { deletes: vec![0], ..KnownKey::default() }).collect();
    let awaited = (0..CLIENTS).map(|_| None).collect();
    let mut writers = Writers { keys, awaited, prng: Prng::new(!seed), reads: 0 };
    let clients = conversation.clients.clone();
    let server = conversation.host("a");
    for step in 0..6000 {
        let at_us = conversation.world.now().us;
        for (client, host) in clients.iter().enumerate() {
            if writers.awaited[client].is_none() && prng.below(4) > 0 {
                let text = writers.request(client, at_us);
                conversation.world.handler::<End>(*host).to_send.extend_from_slice(text.as_bytes());
                conversation.world.nudge(*host);
            }
        }
        conversation.world.run_for(prng.below(1500));
        for (client, host) in clients.iter().enumerate() {
            let received = &mut conversation.world.handler::<End>(*host).received;
            if !received.is_empty() {
                let result = writers.answer(client, received);
                result.unwrap_or_else(|wrong| panic!("seed {seed}, step {step}: {wrong}"));
            }
        }
        match prng.below(400) {
            0 => conversation.world.cut(server, conversation.router),
            1 | 2 => conversation.replace(plans[prng.below(plans.len() as u64) as usize]),
            3..23 => {
                let at_us = conversation.world.now().us;
                let known = &mut writers.keys[FOREIGN];
                known.version += 1;
                known.replaced.push(at_us);
                let (version, name) = (known.version, format!("key{FOREIGN}.0"));
                let value = format!("{version}=");
                conversation.world.handler::<Items>(server).store(
                    name.as_bytes(),
                    b"0",
                    value.as_bytes(),
                    false,
                );
            }
            _ => {}
        }
    }
    let hits = conversation.sample("evenkeel_route_hot_cache_hits_total{}") as u64;
    let bytes = conversation.sample("evenkeel_route_hot_cache_bytes{}");
    assert!(bytes <= 8e6, "seed {seed}: {bytes} bytes");
    conversation.world.run_for(5_000_000);
    for destination in conversation.worker().servers.destinations() {
        let left = destination.queue.hot().map(|side| side.left());
        assert!(
            matches!(left, None | Some((0, false))),
            "seed {seed}: {left:?} left for {}",
            destination.spec.name
        );
    }
    if let Some(cache) = conversation.worker().hot.cache() {
        assert_eq!(cache.on_their_way(), 0, "seed {seed}: updates without an end");
    }
    (hits, writers.reads)
}

#[test]
fn a_client_that_waits_for_its_answers_reads_what_it_has_written() {
    let (mut hits, mut reads) = (0, 0);
    for seed in seeds(0..12) {
        let (more_hits, more_reads) = history(seed, &PLANS);
        (hits, reads) = (hits + more_hits, reads + more_reads);
    }
    assert!(hits * 20 > reads, "{hits} hits, {reads} reads: too few hits to test anything");
}
