//! Changes of hosts through a fleet of real processes: one that harms goes back by itself, one that helps reaches every host, also if the
//! controller is killed in the middle. The tuner of each host is played by a script, its server's page by this program.

mod apart;
mod faults;
mod objective;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use serde_json::{Value, json};

const TUNER: &str = include_str!("../../../crates/fleet/control/src/agent/changes/tests/fake_tuner.sh");
/// Eight pairs, the least that can be judged.
const HOSTS_PER_ZONE: usize = 16;
/// Ends of the buckets in which replies are counted, in microseconds.
const USUAL_US: u64 = 256;
const SLOW_US: u64 = 1024;
const FAST_US: u64 = 64;

/// The page of a server whose replies take another time while its host has a change.
fn page(tuner: PathBuf, changed_us: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let begun = clock::now();
        let mut counts = [(FAST_US, 0_u64), (USUAL_US, 0), (SLOW_US, 0)];
        for stream in listener.incoming().flatten() {
            let took = if is_changed(&tuner) { changed_us } else { USUAL_US };
            counts.iter_mut().filter(|(end, _)| *end == took).for_each(|(_, count)| *count += 1000);
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|len| len > 2) {
                line.clear();
            }
            let times = json!({"buckets": counts});
            let uptime_us = begun.elapsed().as_micros() as u64;
            let page = json!({"uptime_us": uptime_us, "wait": times, "service": {"get": times}}).to_string();
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
            // Whatever is wrong with a connection, the agent makes another one.
            let _ = write!(&stream, "{head} {}\r\n\r\n{page}", page.len());
        }
    });
    address
}

/// What the script has set, of all changes together.
fn settings(tuner: &Path) -> Vec<String> {
    let files = fs::read_dir(tuner).into_iter().flatten().flatten();
    let names = files.filter(|file| file.file_name().to_string_lossy().starts_with("setting-"));
    names.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
}

fn is_changed(tuner: &Path) -> bool {
    settings(tuner).iter().any(|value| value.trim() == "new")
}

/// A fleet with two zones: what a change does to hosts of the first is harm, and gain in the second.
struct Waves {
    fleet: Fleet,
    tuners: Vec<PathBuf>,
}

impl Waves {
    fn new() -> Waves {
        let mut fleet = Fleet::new(DecisionStore::Directory);
        fleet.controller(1, 1);
        let change = json!({
            "stage": "sysctl", "setting": {"file": {"path": "/proc/sys/net/core/somaxconn", "holds": "number"}},
            "now": "128", "wanted": "4096", "why": "a test", "asked_by": "profile memcached", "risk": "low",
        });
        let plan = json!({"changes": [change], "host": {"kernel": "6.1", "cpus": "0-3"}}).to_string();
        let mut tuners = Vec::new();
        for number in 1..=2 * HOSTS_PER_ZONE {
            let tuner = fleet.path(&format!("tuner{number}"));
            fs::create_dir(&tuner).expect("a folder");
            fs::write(tuner.join("plan.json"), &plan).expect("a file");
            fs::write(tuner.join("tuner"), TUNER).expect("a file");
            fs::set_permissions(tuner.join("tuner"), Permissions::from_mode(0o755)).expect("permissions");
            let (zone, changed_us) = if number <= HOSTS_PER_ZONE { ("a", SLOW_US) } else { ("b", FAST_US) };
            let server_page = Some(page(tuner.clone(), changed_us));
            let kind = HostKind { zone: Some(zone), has_no_router: true, server_page, ..HostKind::default() };
            fleet.host_with(number, kind);
            let file = format!("agent.toml{number}");
            let allowed =
                format!("[tune]\nplan = true\napply = true\nbinary = \"{}/tuner\"\n", tuner.display());
            fleet.write(&file, &(fleet.read(&file) + &allowed));
            // It has joined.
            fleet.until(|fleet| fleet.path(&format!("h{number}.pem")).exists());
            fleet.hosts[number - 1].agent = None;
            fleet.restart_agent(number - 1);
            tuners.push(tuner);
        }
        fleet.until(|fleet| {
            let check = fleet.try_control(&["tune", "check", "--json"]).unwrap_or_default();
            let check: Value = serde_json::from_str(&check).unwrap_or_default();
            // They are heard: looks of their own were not allowed.
            check["missing"][0]["cause"] == "not_allowed"
                && check["missing"][0]["hosts"].as_array().map(Vec::len) == Some(2 * HOSTS_PER_ZONE)
        });
        Waves { fleet, tuners }
    }

    fn apply(&self, zone: &str, more: &[&str]) -> String {
        let scope = format!("zone={zone}");
        let words =
            ["tune", "apply", "--hosts", &scope, "--profile", "memcached", "--set", "margins={\"p99\":10}"];
        let times = ["baseline_ms=1000", "look_ms=1000", "zone_ms=1000", "shares=[]"];
        let times = times.iter().flat_map(|setting| ["--set", setting]);
        let words: Vec<&str> = words.into_iter().chain(times).chain(more.iter().copied()).collect();
        self.fleet.control(&words)
    }

    fn status(&self, number: u64) -> Value {
        let number = number.to_string();
        let text = self.fleet.try_control(&["tune", "status", &number, "--json"]);
        text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("JSON"))
    }

    /// Hosts of the first or second zone that have a change now.
    fn changed(&self, zone: usize) -> usize {
        self.tuners[zone * HOSTS_PER_ZONE..][..HOSTS_PER_ZONE]
            .iter()
            .filter(|tuner| is_changed(tuner))
            .count()
    }

    /// Waits until a change is in one of these states; it may take some minutes.
    #[track_caller]
    fn until(&self, number: u64, states: &[&str]) -> Value {
        let begun = clock::now();
        loop {
            let status = self.status(number);
            if status["state"].as_str().is_some_and(|state| states.contains(&state)) {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(600), "{status}\n{}", self.fleet.read("c1.log"));
            clock::pass(Duration::from_millis(250));
        }
    }
}

#[test]
fn a_change_that_harms_goes_back_and_one_that_helps_reaches_every_host() {
    let mut waves = Waves::new();
    let shown = waves.apply("a", &[]);
    assert!(shown.contains("16 hosts, judged by 8 pairs") && waves.changed(0) == 0, "{shown}");
    let begun = waves.apply("a", &["--apply", "--why", "it shall be faster"]);
    assert!(begun.contains("change 1 has begun"), "{begun}");
    let begun = waves.apply("b", &["--promise", "p99", "--apply", "--why", "it shall be faster"]);
    assert!(begun.contains("change 2 has begun"), "{begun}");
    let refused = waves.fleet.try_control(&["tune", "apply", "--hosts", "zone=a", "--profile", "memcached"]);
    assert!(refused.expect_err("it is on its way").contains("the change 1 is on its way there"));

    waves.until(1, &["undoing", "undone"]);
    let halted = clock::now();
    let undone = waves.until(1, &["undone"]);
    assert!(halted.elapsed() < Duration::from_secs(60), "{undone}");
    assert_eq!(waves.changed(0), 0, "{undone}");
    assert!(undone["state_why"].as_str().is_some_and(|why| why.starts_with("p99 of plan")), "{undone}");

    waves.fleet.kill_controller(1);
    waves.fleet.controller(1, 1);
    let done = waves.until(2, &["done", "halted", "undoing", "undone"]);
    assert_eq!((&done["state"], waves.changed(1)), (&json!("done"), HOSTS_PER_ZONE), "{done}");
    assert!(done["looks"][0]["looks"][0]["verdict"] == "better", "{done}");
    let history = waves.fleet.control(&["tune", "history"]);
    assert!(history.starts_with("change 2: done: ") && history.contains("\nchange 1: undone: "), "{history}");

    waves.fleet.control(&["tune", "undo", "2", "--why", "a test"]);
    waves.until(2, &["undone"]);
    assert_eq!(waves.changed(1), 0);
    let audit = waves.fleet.read("audit1.log");
    assert!(["change-apply", "change-undo"].iter().all(|verb| audit.contains(verb)), "{audit}");
}
