//! Random histories: clients, servers that keep items, delays, resets, and other plans.

use std::collections::HashMap;
use std::ops::Range;

use net::sim::{PathConditions, World};
use net::{Handler, Next, Opened, Options, Progress, Turn};
use stdx::gather::Gather;
use stdx::prng::Prng;

use super::{Conversation, End, PORT, RouteWorker};
use crate::client::{PARKED_MAX, WINDOW_MAX};

/// A server: a map, and the commands that the clients use. Values say which key they belong to.
#[derive(Default)]
pub(super) struct Items(HashMap<Vec<u8>, StoredItem>);

struct StoredItem {
    /// The client's, as they were written.
    flags: Vec<u8>,
    value: Vec<u8>,
}

impl Items {
    /// Serves one request at the start of `input`. Returns its length; 0 if it is not complete.
    fn serve(&mut self, input: &[u8], out: &mut Gather<Vec<u8>>) -> usize {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return 0 };
        let words: Vec<&[u8]> = input[..end].trim_ascii_end().split(|byte| *byte == b' ').collect();
        match words[..] {
            [b"get", ref keys @ ..] => {
                for key in keys {
                    if let Some(StoredItem { flags, value }) = self.0.get(*key) {
                        let len = format!(" {}\r\n", value.len());
                        out.copy(&[b"VALUE ", *key, b" ", flags, len.as_bytes(), value, b"\r\n"].concat());
                    }
                }
                out.copy(b"END\r\n");
            }
            [verb @ (b"set" | b"add"), key, flags, _, len] => {
                let Some((body, consumed)) = body_of(input, end, len) else { return 0 };
                let is_stored = self.store(key, flags, body, verb == b"add");
                out.copy(if is_stored { b"STORED\r\n" } else { b"NOT_STORED\r\n" });
                return consumed;
            }
            [b"ms", key, len, ref flags @ .., opaque] => {
                let Some((body, consumed)) = body_of(input, end, len) else { return 0 };
                if flags.contains(&&b"T-1"[..]) {
                    self.0.remove(key);
                    out.copy(&[b"HD ", opaque, b"\r\n"].concat());
                    return consumed;
                }
                let client_flags = flags.iter().find_map(|flag| flag.strip_prefix(b"F")).unwrap_or(b"0");
                let is_stored = self.store(key, client_flags, body, flags.contains(&&b"ME"[..]));
                out.copy(&[if is_stored { b"HD " } else { b"NS " }, opaque, b"\r\n"].concat());
                return consumed;
            }
            [b"delete", key] => {
                out.copy(if self.0.remove(key).is_some() { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" })
            }
            [b"version"] => out.copy(b"VERSION 1\r\n"),
            [b"mg", key, ref flags @ .., opaque] => {
                let Some(StoredItem { flags: client_flags, value }) = self.0.get(key) else {
                    out.copy(&[b"EN ", opaque, b"\r\n"].concat());
                    return end + 1;
                };
                let has_value = flags.contains(&&b"v"[..]);
                out.copy(if has_value { format!("VA {}", value.len()) } else { "HD".to_owned() }.as_bytes());
                for flag in flags {
                    match flag {
                        [b'f'] => out.copy(&[b" f", &client_flags[..]].concat()),
                        [b't'] => out.copy(b" t-1"),
                        [b'c'] => out.copy(b" c77"),
                        [b'v' | b'T', ..] => {}
                        other => panic!("{}", other.escape_ascii()),
                    }
                }
                out.copy(&[b" ", opaque, b"\r\n"].concat());
                if has_value {
                    out.copy(&[value, &b"\r\n"[..]].concat());
                }
            }
            _ => panic!("{}", input[..end].escape_ascii()),
        }
        end + 1
    }
}

impl Items {
    pub(super) fn store(&mut self, key: &[u8], flags: &[u8], value: &[u8], only_new: bool) -> bool {
        if only_new && self.0.contains_key(key) {
            return false;
        }
        self.0.insert(key.to_vec(), StoredItem { flags: flags.to_vec(), value: value.to_vec() });
        true
    }
}

/// The body after a line that ends at `end`, and where the next request begins.
fn body_of<'i>(input: &'i [u8], end: usize, len: &[u8]) -> Option<(&'i [u8], usize)> {
    let len: usize = String::from_utf8_lossy(len).parse().expect("a length");
    let body = input.get(end + 1..end + 1 + len + 2)?;
    Some((&body[..len], end + 1 + len + 2))
}

impl Handler for Items {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) {}

    fn on_bytes(
        &mut self,
        (): &mut (),
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        let mut consumed = 0;
        loop {
            match self.serve(&input[consumed..], output) {
                0 => return Progress { consumed, next: Next::Read },
                more => consumed += more,
            }
        }
    }
}

/// What a client expects of the reply to a request.
enum Awaited {
    Line(&'static [&'static str]),
    Values(Vec<String>),
    Meta(String),
}

/// A value that names its key; at times a large one.
fn value_of(key: &str, prng: &mut Prng) -> String {
    let filler = [0, 0, 0, 10, 5_000, 11_000, 12_280, 13_000, 60_000][prng.next_u64() as usize % 9];
    format!("{key}={}", "v".repeat(filler))
}

fn request(prng: &mut Prng, client: usize, out: &mut String) -> Option<Awaited> {
    let key = |prng: &mut Prng| format!("c{client}:{}", prng.next_u64() % 12);
    let first = key(prng);
    Some(match prng.next_u64() % 12 {
        0..3 => {
            let value = value_of(&first, prng);
            out.push_str(&format!("set {first} 0 0 {}\r\n{value}\r\n", value.len()));
            Awaited::Line(&["STORED"])
        }
        3 => {
            out.push_str(&format!("set {first} 0 0 {} noreply\r\n{first}=\r\n", first.len() + 1));
            return None;
        }
        4 => {
            out.push_str(&format!("delete {first}\r\n"));
            Awaited::Line(&["DELETED", "NOT_FOUND"])
        }
        kind @ (5 | 6) => {
            out.push_str(&format!("mg {first} v{}\r\n", if kind == 5 { "" } else { " c T30" }));
            Awaited::Meta(first)
        }
        7 | 8 => {
            let keys: Vec<String> = (0..2 + prng.next_u64() % 30).map(|_| key(prng)).collect();
            out.push_str(&format!("get {}\r\n", keys.join(" ")));
            Awaited::Values(keys)
        }
        _ => {
            out.push_str(&format!("get {first}\r\n"));
            Awaited::Values(vec![first])
        }
    })
}

/// Takes one line, or panics.
fn line<'r>(rest: &mut &'r [u8]) -> &'r str {
    let end = rest.iter().position(|byte| *byte == b'\n').expect("a whole line") + 1;
    let (line, after) = rest.split_at(end);
    *rest = after;
    std::str::from_utf8(line).expect("ASCII").trim_end()
}

fn body(rest: &mut &[u8], len: &str, key: &str) {
    let len: usize = len.parse().expect("a length");
    let (body, after) = rest.split_at(len + 2);
    let is_its_value = body.starts_with(format!("{key}=").as_bytes()) && body.ends_with(b"\r\n");
    assert!(is_its_value, "the value of {key}: {}", super::shortened(body));
    *rest = after;
}

/// Checks one reply at the front of `rest`.
fn check(awaited: &Awaited, rest: &mut &[u8]) {
    let mut keys = match awaited {
        Awaited::Values(keys) => keys.iter(),
        _ => [].iter(),
    };
    loop {
        let found = line(rest);
        if found.starts_with("SERVER_ERROR ") {
            return;
        }
        let words: Vec<&str> = found.split(' ').collect();
        match (awaited, &words[..]) {
            (Awaited::Line(lines), _) => return assert!(lines.contains(&found), "{found}"),
            (Awaited::Meta(_), ["EN"]) | (Awaited::Values(_), ["END"]) => return,
            (Awaited::Meta(key), ["VA", len] | ["VA", len, "c77"]) => return body(rest, len, key),
            (Awaited::Values(_), ["VALUE", key, "0", len]) => {
                assert!(keys.any(|other| other == key), "{key} is the next of the keys, or after it");
                body(rest, len, key);
            }
            _ => panic!("{found}"),
        }
    }
}

const POOL: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}}, "route": "PoolRoute|A"}"#;
const FAILOVER: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}, "B": {"servers": ["c:1", "a:1"]}},
    "route": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
const COPIES: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "B": {"servers": ["c:1", "a:1"]}},
    "route": {"type": "AllSyncRoute", "children": ["PoolRoute|A", {"type": "AllFastestRoute", "children": "Pool|B"}]}}"#;

/// Routes that change requests or copy items. Where items stand for misses, and where keys get an end, no other plan finds
/// them.
const DERIVED: [&str; 8] = [
    r#"{"type": "ModifyKeyRoute", "target": {"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|B"},
        "set_key_suffix": "@1"}"#,
    r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B", "enable_metaget": true}"#,
    r#"{"type": "L1L2CacheRoute", "l1": {"type": "ModifyKeyRoute", "target": "PoolRoute|A", "set_key_suffix": "@2"},
        "l2": "PoolRoute|B", "upgradingL1Exptime": 9, "ncacheExptime": 9, "ncacheUpdatePeriod": 3}"#,
    r#"{"type": "StagingRoute", "warm": "PoolRoute|A", "staging": "PoolRoute|B"}"#,
    r#"{"type": "KeySplitRoute", "destination": "PoolRoute|A", "replicas": 3, "all_sync": true, "first_hit": true}"#,
    r#"{"type": "MigrateRoute", "from": "PoolRoute|A", "to": {"type": "WarmUpRoute", "cold": "PoolRoute|B",
        "warm": "PoolRoute|A"}, "start_time": -1000, "interval": 1000}"#,
    r#"{"type": "ModifyKeyRoute", "target": {"type": "BigValueRoute", "target": "PoolRoute|A", "split_threshold": 4000,
        "batch_size": 2, "hide_reply_flag": true}, "set_key_suffix": "@3"}"#,
    r#"{"type": "ModifyKeyRoute", "target": {"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|A", "l2": {"type": "ModifyKeyRoute",
        "target": "PoolRoute|B", "set_key_suffix": "@5"}, "threshold": 5000}, "set_key_suffix": "@4"}"#,
];

const LIMITED: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}}, "route": {"type": "RateLimitRoute",
    "rates": {"gets_rate": 500, "sets_rate": 300}, "fallback": "PoolRoute|A", "target": {"type": "FailoverRoute",
        "children": [{"type": "PoolRoute", "pool": "A", "max_outstanding": 2}, "Pool|A"], "failover_limit": {"rate": 0.2},
        "failover_policy": {"type": "DeterministicOrderPolicy", "max_tries": 3, "max_error_tries": 2}}}}"#;
const SHADOWED: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "C": {"servers": ["c:1", "a:1"]}}, "route": {
    "type": "PoolRoute", "pool": "A", "shadows": [
        {"target": "PoolRoute|C", "index_range": [0, 2], "key_fraction_range": [0, 1], "compare_fraction": 0.5},
        {"target": {"type": "PoolRoute", "pool": "C", "max_outstanding": 1}, "index_range": [0, 1],
         "key_fraction_range": [0.2, 0.9], "requests_fraction": 0.5}]}}"#;
const DELAYED: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}}, "route": {"type": "FailoverRoute",
    "failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 3}, "children": ["PoolRoute|A", {"type": "PoolRoute",
        "pool": "A", "hash": {"salt": "x"}, "max_outstanding": 3}, {"type": "LatencyInjectionRoute", "before_latency_ms": 3,
        "total_latency_percentile_ms": [[50, 5], [100, 40]], "child": "PoolRoute|A"}]}}"#;

/// A plan with one of these routes.
fn derived(route: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1", "b:1"]}}, "B": {{"servers": ["c:1", "b:1"]}}}}, "route": {route}}}"#
    )
}

/// Returns how many gets hot values have answered.
fn history<S: AsRef<str>>(seed: u64, plans: &[S]) -> u64 {
    let mut prng = Prng::new(seed);
    let mut conversation = Conversation::with_servers(POOL, seed, |world: &mut World, options: &Options| {
        world.add(Items::default(), &[PORT], options)
    });
    conversation.options.compares_shadows = true;
    conversation.world.set_default_path(PathConditions {
        delay_us: 20 + prng.next_u64() % 2000,
        jitter_us: prng.next_u64() % 3000,
        loss_ppm: if seed.is_multiple_of(3) { 3000 } else { 0 },
        piece_max: if seed.is_multiple_of(2) { usize::MAX } else { 1 + prng.next_u64() as usize % 3000 },
    });
    let clients = conversation.clients.clone();
    let mut awaited: Vec<Vec<Awaited>> = clients.iter().map(|_| Vec::new()).collect();
    for step in 0..120 {
        for (client, host) in clients.iter().enumerate() {
            let mut text = String::new();
            for _ in 0..prng.next_u64() % 40 {
                awaited[client].extend(request(&mut prng, client, &mut text));
            }
            conversation.world.handler::<End>(*host).to_send.extend_from_slice(text.as_bytes());
            conversation.world.nudge(*host);
        }
        conversation.world.run_for(prng.next_u64() % 20_000);
        let server = conversation.host(["a", "b", "c"][prng.next_u64() as usize % 3]);
        match prng.next_u64() % 30 {
            0 | 1 => conversation.world.cut(server, conversation.router),
            2 => conversation.world.partition(server, conversation.router),
            3 | 4 => conversation.world.heal(server, conversation.router),
            5 => conversation.replace(plans[prng.next_u64() as usize % plans.len()].as_ref()),
            6 => {
                let client = prng.next_u64() as usize % clients.len();
                let worker_link = conversation.router;
                conversation.world.cut(clients[client], worker_link);
                conversation.world.run_for(100_000);
                let end = conversation.world.handler::<End>(clients[client]);
                end.received.clear();
                end.to_send.clear();
                awaited[client].clear();
                conversation.connect(clients[client]);
            }
            _ => {}
        }
        check_bounds(conversation.worker(), step);
    }
    for name in ["a", "b", "c"] {
        conversation.world.heal(conversation.host(name), conversation.router);
    }
    clients.iter().for_each(|host| conversation.settle(*host));
    conversation.world.run_for(20_000_000);
    for (client, host) in clients.iter().enumerate() {
        let received = std::mem::take(&mut conversation.world.handler::<End>(*host).received);
        let mut rest = &received[..];
        let end = conversation.world.handler::<End>(*host);
        if end.links.is_empty() && !end.closed {
            // Its dial did not succeed in time.
            continue;
        }
        assert!(!end.closed && end.to_send.is_empty(), "seed {seed}: client {client} is connected");
        awaited[client].iter().for_each(|awaited| check(awaited, &mut rest));
        assert!(rest.is_empty(), "seed {seed}: replies without a request: {}", rest.escape_ascii());
    }
    assert_eq!(conversation.worker().flights.len(), 0, "seed {seed}");
    let counted: usize = conversation.worker().destinations.iter().map(|server| server.shadows).sum();
    assert_eq!(counted, 0, "seed {seed}: requests of shadows");
    for server in &conversation.worker().destinations {
        let left =
            (server.exchanges.len(), server.tokens.at(0).is_some(), server.unsent.len() + server.later.len());
        assert_eq!(
            left,
            (0, false, 0),
            "seed {seed}: requests, tokens and bytes left for {}",
            server.spec.name
        );
        assert!(server.large.is_none(), "seed {seed}: half a value of {}", server.spec.name);
    }
    for client in conversation.worker().clients.values() {
        assert_eq!((client.len(), client.parked()), (0, 0), "seed {seed}: requests and bytes of clients");
    }
    conversation.worker().cells.hot_hits.value()
}

/// Windows and parked answers are bounded.
fn check_bounds(worker: &mut RouteWorker, step: usize) {
    for client in worker.clients.values() {
        assert!(client.len() <= WINDOW_MAX, "step {step}: {} requests", client.len());
        // Those that were on their way when the limit was reached come on top.
        assert!(client.parked() <= PARKED_MAX + (64 << 20), "step {step}: {} bytes", client.parked());
    }
}

/// Seeds of an ordinary run; `EVENKEEL_TEST_SEEDS` sets others, as `first..last`.
pub(super) fn seeds(ordinary: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_TEST_SEEDS") else { return ordinary };
    let (first, last) = text.split_once("..").expect("first..last");
    first.parse().expect("a number")..last.parse().expect("a number")
}

#[test]
fn every_reply_belongs_to_its_request_whatever_happens() {
    for seed in seeds(0..12) {
        history(seed, &[POOL, FAILOVER, COPIES]);
    }
}

#[test]
fn routes_that_change_requests_lose_no_request() {
    let plans: Vec<String> = DERIVED.iter().map(|route| derived(route)).chain([POOL.to_owned()]).collect();
    for seed in seeds(200..214) {
        history(seed, &plans);
    }
}

#[test]
fn limits_delays_and_shadows_lose_no_request() {
    for seed in seeds(100..112) {
        history(seed, &[POOL, LIMITED, SHADOWED, DELAYED]);
    }
}

#[test]
fn hot_values_lose_no_request_below_any_route() {
    let plain = [POOL, FAILOVER, COPIES, LIMITED, SHADOWED, DELAYED].map(str::to_owned);
    let plans = plain.into_iter().chain(DERIVED.iter().map(|route| derived(route)));
    let hot = |plan: String| plan.replace("\"]}", "\"], \"hot_cache\": {\"ttl_ms\": 50}}");
    let plans: Vec<String> = plans.map(hot).chain([POOL.to_owned()]).collect();
    let hits: u64 = seeds(300..314).map(|seed| history(seed, &plans)).sum();
    assert!(hits > 0, "no hit");
}
