//! Figures on their way from servers and routers to people: agents that read them, a controller that keeps them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use serde_json::Value;

const POLICY: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 3\n[[view]]\nname = \"main\"\n\
                      routes = '{\"route\": \"PoolRoute|web\"}'\n";

/// Keys of one request: some of them are at each server.
const KEYS: usize = 100;
/// Rates need two turns of each agent, which are 20 s apart at most, and one more after a server was started again.
const TURNS_WITHIN: Duration = Duration::from_secs(180);

/// A page that takes every request, and answers these bytes; without any, nothing.
fn page(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&answer);
            if answer.is_empty() {
                held.push(stream);
            }
        }
    });
    address
}

/// Larger than any page, and no JSON.
fn lie() -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
    answer.resize(6 * 1024 * 1024, b'[');
    answer
}

fn figures(fleet: &Fleet, words: &[&str]) -> Value {
    let text = fleet.control(&[&["top", "--json"], words].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// The last point of a server or router; `Null` before the first.
fn point(document: &Value, kind: &str, name: &str) -> Value {
    let rows = document[kind].as_array().expect("rows");
    let row = rows.iter().find(|row| row["id"] == name);
    row.and_then(|row| row["points"].as_array()?.last().cloned()).unwrap_or(Value::Null)
}

fn is_known(point: &Value, figure: &str) -> bool {
    point[figure].as_f64().is_some()
}

struct Load<'f> {
    fleet: &'f Fleet,
    begun: std::time::Instant,
    keys: usize,
}

impl Load<'_> {
    /// Asks all routers for all keys until it is so. What it returns is what was found then.
    fn until(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let (begun, names) =
            (clock::now(), (0..KEYS).map(|key| format!("k{key}")).collect::<Vec<_>>().join(" "));
        loop {
            for router in 1..=3 {
                let answer = self.fleet.ask_router(router, &format!("get {names}\r\n"), "END");
                assert!(answer.ends_with("END"), "{answer}");
                self.keys += KEYS;
            }
            let found = figures(self.fleet, &[]);
            if is_so(&found) {
                return found;
            }
            assert!(begun.elapsed() < TURNS_WITHIN, "{what}: {found:#}");
            clock::pass(Duration::from_millis(200));
        }
    }

    fn keys_per_s(&self) -> f64 {
        self.keys as f64 / self.begun.elapsed().as_secs_f64()
    }
}

#[test]
fn figures_of_servers_and_routers_reach_people() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    fleet.host_with(1, HostKind { has_pages: true, ..HostKind::default() });
    // Two memcached, which have no page: what their agents are told to read instead hangs, and lies.
    for (host, answer) in [(2, Vec::new()), (3, lie())] {
        fleet.host_with(host, HostKind { server_page: Some(page(answer)), ..HostKind::default() });
    }
    fleet.begin(POLICY);
    for key in 0..KEYS {
        assert_eq!(fleet.ask_router(1, &format!("set k{key} 0 0 1\r\nx\r\n"), "STORED"), "STORED");
    }
    let mut load = Load { fleet: &fleet, begun: clock::now(), keys: 0 };
    let servers = ["m1", "m2", "m3"];
    let found = load.until("all servers and a router have rates", |found| {
        let has_rates = |name: &&str| point(found, "servers", name)["requests_per_s"].as_f64() > Some(0.0);
        let router = point(found, "routers", "r1");
        servers.iter().all(has_rates)
            && is_known(&point(found, "servers", "m1"), "scheduling_wait_share")
            && router["requests_per_s"].as_f64() > Some(0.0)
            && is_known(&router, "cpus")
            && found["levels"]
                .as_array()
                .is_some_and(|levels| levels.iter().any(|level| level["pool"] == "web"))
    });

    // All servers together answer what is asked, give or take what a busy host does to a rate.
    let rate = |name: &&str| point(&found, "servers", name)["requests_per_s"].as_f64().expect("a rate");
    let (all, asked) = (servers.iter().map(rate).sum::<f64>(), load.keys_per_s());
    assert!(all > asked / 10.0 && all < asked * 10.0, "{all} of {asked} a second");
    for name in servers {
        let point = point(&found, "servers", name);
        assert_eq!(point["hit_ratio"], 1.0, "{name}: {point}");
        assert!(
            point["memory_limit_bytes"].as_f64() > Some(1e6) && point["items"].as_f64() > Some(0.0),
            "{point}"
        );
        assert!(is_known(&point, "cpus"), "{name}: {point}");
        // What only a page of ours has is not known of the others.
        assert_eq!(is_known(&point, "scheduling_wait_share"), name == "m1", "{name}: {point}");
    }
    let router = point(&found, "routers", "r1");
    assert_eq!(
        (&router["availability"], &router["unavailable_servers"]),
        (&1.0.into(), &0.0.into()),
        "{router}"
    );
    assert!(!is_known(&point(&found, "routers", "r2"), "cpus"), "its page is not named");
    for host in [2, 3] {
        let log = fleet.read(&format!("agent{host}.log"));
        assert_eq!(log.matches(&format!("m{host}: no figures from http://127.0.0.1:")).count(), 1, "{log}");
    }

    // Whoever may see the status may see figures.
    let text = fleet.control_as("reader", &["top", "--once"]).expect("a reader may");
    for words in ["view/pool", "main/web", "router", "server", "m3 "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let one = figures(&fleet, &["--host", "h2"]);
    assert_eq!(
        (one["servers"].as_array().map(Vec::len), one["routers"].as_array().map(Vec::len)),
        (Some(1), Some(1))
    );

    // A server that is started again counts from zero: nothing of that is a rate.
    fleet.hosts[2].server.kill().expect("it ran");
    fleet.hosts[2].server.start_again().expect("it starts");
    fleet.note_pid(2);
    let before = point(&figures(&fleet, &[]), "servers", "m3")["at_unix"].as_i64().expect("a time");
    let mut load = Load { fleet: &fleet, begun: clock::now(), keys: 0 };
    let found = load.until("the server that was started again has rates", |found| {
        let point = point(found, "servers", "m3");
        point["at_unix"].as_i64().is_some_and(|at| at > before + 5)
            && point["misses_per_s"].as_f64() > Some(0.0)
    });
    let point = point(&found, "servers", "m3");
    assert!(point["requests_per_s"].as_f64() < Some(load.keys_per_s() * 10.0), "{point}");
    assert_eq!(point["hit_ratio"], 0.0, "it is empty: {point}");
}
