//! Twenty-four hosts, each in a network of its own, that are changed by the real tuner under load through routers. The test plays what the
//! setting does to a server: it stops the process for moments.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind, etcd_program};
use end_to_end::network::{FleetNetwork, in_namespaces};
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fleet::changing::{BEGIN, ChangingFleet, has_setting};

/// Eight pairs and some more.
const HOSTS: usize = 24;
const ROUTERS: usize = 3;
const CLIENTS: usize = 12;
const KEYS: usize = 2000;
const PAUSE: Duration = Duration::from_millis(10);
/// A slow server is stopped for so long, and then runs for so long.
const STOPPED: Duration = Duration::from_millis(60);
/// All hosts are as before after a halt.
const BACK_WITHIN: Duration = Duration::from_secs(60);
const POLICY: &str = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 27\n[[view]]\nname = \"main\"\n\
                      routes = '{\"route\": \"PoolRoute|web\"}'\n";
/// Dozens of processes share this machine, and an agent that is late is not silent.
const WAVES: [&str; 12] = [
    "--set",
    "silence_ms=120000",
    "--set",
    "margins={\"p99\":10}",
    "--set",
    "baseline_ms=20000",
    "--set",
    "look_ms=20000",
    "--set",
    "zone_ms=2000",
    "--set",
    "shares=[]",
];

/// Threads that end with this value.
struct Threads(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The hosts, and what plays on them.
struct Apart {
    changing: ChangingFleet,
    answered: Arc<AtomicUsize>,
    threads: Threads,
}

impl Apart {
    /// Servers whose hosts have the setting are slow, or those whose hosts do not have it.
    fn begin(slow: impl Fn(bool) -> bool + Send + 'static) -> Apart {
        let network = FleetNetwork::of_hosts(3, HOSTS + ROUTERS);
        let servers = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let mut fleet = Fleet::of(network, DecisionStore::Etcd(3), servers);
        (1..=3).for_each(|number| fleet.controller(number, 3));
        let kind = |number| HostKind {
            zone: Some(if number % 2 == 0 { "a" } else { "b" }),
            has_no_router: true,
            has_pages: true,
            ..HostKind::default()
        };
        let mut changing = ChangingFleet::new(fleet, HOSTS, kind);
        for number in HOSTS + 1..=HOSTS + ROUTERS {
            let kind = HostKind { certificate_days: Some(0), ..HostKind::default() };
            changing.fleet.host_with(number, kind);
        }
        changing.fleet.begin(POLICY);
        let answered = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for client in 0..CLIENTS {
            let router = changing.fleet.router_address(HOSTS + 1 + client % ROUTERS);
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            threads.push(std::thread::spawn(move || ask(router, client, &stop, &answered)));
        }
        let host = |number: usize| {
            let pid = changing.fleet.hosts[number - 1].server.pid();
            let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
            (pid, changing.fleet.path(&format!("tuner{number}")))
        };
        let (hosts, seen) = (changing.hosts().map(host).collect::<Vec<_>>(), Arc::clone(&stop));
        threads.push(std::thread::spawn(move || stop_for_moments(&hosts, &slow, &seen)));
        Apart { changing, answered, threads: Threads(stop, threads) }
    }

    /// The load goes on.
    fn check_load(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        let goes_on = || (self.answered.load(Ordering::Relaxed) > before + CLIENTS).then_some(());
        assert!(clock::wait_for(goes_on).is_some() && !self.threads.1.is_empty(), "no request is answered");
    }

    fn apply(&self, more: &[&str]) {
        let words = [&WAVES[..], more, &BEGIN].concat();
        let begun = self.changing.apply("zone=a,b", &words);
        assert!(begun.as_ref().is_ok_and(|said| said.contains("change 1 has begun")), "{begun:?}");
        self.check_load();
    }
}

/// Gets keys through a router until it has to stop; what is not there is set.
fn ask(router: SocketAddr, client: usize, stop: &AtomicBool, answered: &AtomicUsize) {
    let mut connection: Option<BufReader<TcpStream>> = None;
    for number in (client..).step_by(CLIENTS) {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let key = number % KEYS;
        let is_answered = (|| {
            let mut reader = match connection.take() {
                Some(reader) => reader,
                None => {
                    let stream = TcpStream::connect(router).ok()?;
                    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
                    BufReader::new(stream)
                }
            };
            let (request, last) = match number / KEYS {
                0 => (format!("set key{key} 0 0 5\r\nvalue\r\n"), "STORED\r\n"),
                _ => (format!("get key{key}\r\n"), "END\r\n"),
            };
            reader.get_mut().write_all(request.as_bytes()).ok()?;
            let mut line = String::new();
            while line != last {
                line.clear();
                reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
                if line.contains("ERROR") {
                    return None;
                }
            }
            connection = Some(reader);
            Some(())
        })();
        answered.fetch_add(usize::from(is_answered.is_some()), Ordering::Relaxed);
        clock::pass(PAUSE);
    }
}

/// Stops servers for moments: as many requests wait for them as come meanwhile.
fn stop_for_moments(hosts: &[(Pid, PathBuf)], slow: &impl Fn(bool) -> bool, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let meant: Vec<Pid> =
            hosts.iter().filter(|(_, tuner)| slow(has_setting(tuner))).map(|(pid, _)| *pid).collect();
        for signal in [Signal::STOP, Signal::CONT] {
            // A server that has ended shows in the fleet.
            for pid in &meant {
                let _ = kill_process(*pid, signal);
            }
            clock::pass(STOPPED);
        }
    }
}

#[test]
fn a_change_that_harms_a_fleet_of_hosts_apart_goes_back_everywhere() {
    if etcd_program().is_none() {
        return eprintln!("left out: there is no etcd (Debian: etcd-server)");
    }
    if !in_namespaces("waves::apart::a_change_that_harms_a_fleet_of_hosts_apart_goes_back_everywhere") {
        return;
    }
    let apart = Apart::begin(|has_setting| has_setting);
    apart.apply(&[]);
    apart.changing.until(1, &["undoing", "undone", "done", "halted"]);
    let halted = clock::now();
    let took = apart.changing.until_as_before(halted, 1);
    let status = apart.changing.status(1);
    println!(
        "{HOSTS} hosts were as before, byte for byte, {took:.1?} after the halt: {}",
        status["state_why"]
    );
    assert!(took < BACK_WITHIN, "{took:?}");
    assert!(status["state_why"].as_str().is_some_and(|why| why.starts_with("p99 of plan")), "{status}");
    apart.check_load();
}

#[test]
fn a_change_that_helps_a_fleet_of_hosts_apart_reaches_all_and_goes_back_when_told() {
    if etcd_program().is_none() {
        return eprintln!("left out: there is no etcd (Debian: etcd-server)");
    }
    if !in_namespaces(
        "waves::apart::a_change_that_helps_a_fleet_of_hosts_apart_reaches_all_and_goes_back_when_told",
    ) {
        return;
    }
    let apart = Apart::begin(|has_setting| !has_setting);
    apart.apply(&["--promise", "p99"]);
    let done = apart.changing.until(1, &["undoing", "undone", "done", "halted"]);
    assert_eq!((&done["state"], apart.changing.changed().len()), (&Value::from("done"), HOSTS), "{done}");
    assert!(done["looks"][0]["looks"][0]["verdict"] == "better", "{done}");
    let took = apart.changing.undo(1);
    println!("{HOSTS} hosts were as before, byte for byte, {took:.1?} after the command to take it back");
    assert!(took < BACK_WITHIN, "{took:?}");
    apart.check_load();
}
