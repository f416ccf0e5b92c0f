//! Capacity advice from a fleet of real processes: the workload of a cluster, what is left on its hosts, and when it binds.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use serde_json::Value;

const POLICY: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 2\n[[view]]\nname = \"main\"\n\
                      routes = '{\"route\": \"PoolRoute|web\"}'\n";
const OWN: &str = "[[shape]]\nname = \"rack.small\"\ncloud = \"own\"\nfamily = \"rack\"\nmeasured = \"a test\"\n\
    architecture = \"x86_64\"\nvcpus = 16\nthreads_per_core = 2\nmemory_gib = 128\nclock_ghz = 3\nbaseline_gbit = 10\n\
    packets_per_s = 200_000\ndisks = { count = 0 }\n\
    prices = [{ region = \"cellar\", date = \"2026-12-01\", usd_per_hour = 0.5 }]\n";
const KEYS: usize = 100;
const DAY_S: u64 = 86_400;
/// Rates need two turns of each agent, which are 20 s apart at most.
const TURNS_WITHIN: Duration = Duration::from_secs(180);

fn figures(fleet: &Fleet) -> Value {
    serde_json::from_str(&fleet.control(&["top", "--json"])).expect("JSON")
}

fn advised(fleet: &Fleet, words: &[&str]) -> Value {
    let text = fleet.advise(&[words, &["--json"]].concat()).unwrap_or_else(|error| panic!("{error}"));
    serde_json::from_str(&text).expect("JSON")
}

/// Asks for all keys until all servers have figures.
fn use_until_known(fleet: &Fleet) {
    let names: String = (0..KEYS).map(|key| format!(" k{key}")).collect();
    let begun = clock::now();
    loop {
        let answer = fleet.ask_router(1, &format!("get{names}\r\n"), "END");
        assert!(answer.ends_with("END"), "{answer}");
        let found = figures(fleet);
        let is_known = |name: &str| {
            let rows = found["servers"].as_array().expect("rows");
            let point = rows.iter().find(|row| row["id"] == name).map(|row| row["points"][0].clone());
            point.is_some_and(|point| {
                ["hits_per_s", "requests_per_s"].iter().all(|figure| point[figure].as_f64() > Some(0.0))
                    && point["cpus"].as_f64().is_some()
            })
        };
        if is_known("m1") && is_known("m2") {
            return;
        }
        assert!(begun.elapsed() < TURNS_WITHIN, "{found:#}");
        clock::pass(Duration::from_millis(200));
    }
}

/// A Prometheus that knows of packets of one instance: 100,000 a second, and 1,000 more each day.
fn prometheus(instance: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &instance);
        }
    });
    url
}

fn answer(mut stream: TcpStream, instance: &str) {
    let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let number = |name: &str| -> u64 {
        let value = path.split(['?', '&']).find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let days = (number("start")..=number("end")).step_by(DAY_S as usize).enumerate();
    let points: Vec<String> =
        days.map(|(day, unix_s)| format!("[{unix_s}, \"{}\"]", 100_000 + 1_000 * day)).collect();
    let series =
        format!("{{\"metric\": {{\"instance\": \"{instance}\"}}, \"values\": [{}]}}", points.join(", "));
    let result = if path.contains("nic_packets") { &series } else { "" };
    let body = format!(
        "{{\"status\": \"success\", \"data\": {{\"resultType\": \"matrix\", \"result\": [{result}]}}}}"
    );
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all([head, body].concat().as_bytes());
}

#[test]
fn a_fleet_is_a_workload_and_says_what_is_left() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    fleet.host_with(1, HostKind { has_pages: true, ..HostKind::default() });
    fleet.host(2);
    fleet.begin(POLICY);
    fleet.write("own.toml", OWN);
    let none = fleet.advise(&["--cluster", "ads"]).expect_err("there is no such cluster");
    assert!(
        none.contains("expected one of web") || none.contains("has a slot, or none has figures"),
        "{none}"
    );
    for key in 0..KEYS {
        let value = "v".repeat(200);
        let set = format!("set k{key} 0 0 200\r\n{value}\r\n");
        assert_eq!(fleet.ask_router(1, &set, "STORED"), "STORED");
    }
    use_until_known(&fleet);

    // The workload of the cluster, with an answer from a shape of one's own.
    let own = ["--catalogue", "own.toml", "--cloud", "own", "--region", "cellar"];
    let answers = advised(&fleet, &own);
    assert_eq!(
        (answers.as_array().map(Vec::len), &answers[0]["workload"]),
        (Some(1), &"web, 2 servers".into())
    );
    let figure = |name: &str| {
        let inputs = answers[0]["inputs"].as_array().expect("inputs");
        inputs.iter().find(|input| input["figure"] == name).expect("a figure").clone()
    };
    assert!(figure("get")["value"].as_f64() > Some(0.0) && figure("get")["source"] == "measured");
    assert_eq!(figure("tls_share")["source"], "assumed", "no figure has it");
    assert_eq!(answers[0]["best"][0]["shape"], "rack.small");
    let wrong = fleet.advise(&["--cluster", "ads"]).expect_err("there is no such cluster");
    assert!(wrong.contains("no server of the cluster `ads` has figures: expected one of web"), "{wrong}");

    // What is left. No host says what it is, so limits of hosts are not known, and nothing of them is zero.
    let left = advised(&fleet, &["--running"]);
    let resource = |left: &Value, host: &str, name: &str| {
        let hosts = left["groups"][0]["hosts"].as_array().expect("hosts").clone();
        let host = hosts.into_iter().find(|found| found["host"] == host).expect("the host");
        let resources = host["resources"].as_array().expect("resources").clone();
        resources.into_iter().find(|found| found["resource"] == name).expect("the resource")
    };
    assert_eq!(left["groups"][0]["cluster"], "web");
    let cpu = resource(&left, "h1", "CPU");
    assert!(cpu["used"].as_f64().is_some() && cpu["limit"].is_null(), "{cpu}");
    assert!(resource(&left, "h2", "packets per second")["used"].is_null(), "no server tells it");
    assert!(resource(&left, "h2", "memory for items")["share"].as_f64() > Some(0.0));

    // With a shape and history.
    let page = figures(&fleet)["servers"]
        .as_array()
        .expect("rows")
        .iter()
        .find_map(|row| row["page"].as_str().map(str::to_owned));
    let url = prometheus(page.expect("the page of the first server"));
    let words = ["--running", "--catalogue", "own.toml", "--shape", "rack.small", "--prometheus", &url];
    let text = fleet.advise(&words).unwrap_or_else(|error| panic!("{error}"));
    let first = "web: 2 hosts; binds in ";
    assert!(text.starts_with(first) && text.contains(": packets per second on h1\n"), "{text}");
    let left = advised(&fleet, &words);
    assert_eq!(resource(&left, "h1", "packets per second")["outlook"], "binds", "{left}");
    assert_eq!(resource(&left, "h2", "packets per second")["text"], "the use is not known", "{left}");
    let reader = fleet.advise_as("reader", &["--running"]);
    assert!(reader.is_ok(), "who may see the status may ask: {reader:?}");

    // A host that says what it is: its own CPUs are the limit.
    let file = "agent.toml1";
    fleet.write(file, &(fleet.read(file) + "[tune]\ncheck = true\nseconds = 2\n"));
    fleet.hosts[0].agent = None;
    fleet.restart_agent(0);
    let check = ["tune", "check", "--hosts", "host=h1"];
    // The agent with these rights is heard.
    let is_allowed =
        |text: String| text.contains("it has not looked yet") || text.contains("1 have answered");
    fleet.until(|fleet| fleet.try_control(&check).is_ok_and(is_allowed));
    let looked = fleet.control(&[&check[..], &["--now"]].concat());
    assert!(looked.starts_with("1 host of host=h1: 1 have answered"), "{looked}");
    let left = advised(&fleet, &["--running"]);
    let source = resource(&left, "h1", "CPU")["limit_source"].as_str().map(str::to_owned);
    assert!(source.is_some_and(|source| source.ends_with(" CPUs of the host")), "{left}");
}
