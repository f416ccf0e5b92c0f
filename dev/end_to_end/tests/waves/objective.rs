//! An objective that a real Prometheus is asked for: met, missed, and not answered at all.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use end_to_end::server::reserve_port;
use serde_json::Value;

use crate::fleet::changing::{BEGIN, ChangingFleet};

const OBJECTIVE: &str = "service_p99_seconds < 0.005";
/// The first host keeps the change alone for longer than it takes to miss an objective three times.
const WAVES: [&str; 14] = [
    "--accept",
    "all",
    "--set",
    "baseline_ms=1000",
    "--set",
    "look_ms=1000",
    "--set",
    "zone_ms=300000",
    "--set",
    "shares=[50]",
    "--set",
    "silence_ms=20000",
    "--objective",
    OBJECTIVE,
];

/// A Prometheus, which ends with this value.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A page with one figure, which is bad while the flag says so.
fn page(is_bad: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (mut reader, mut line) = (BufReader::new(&stream), String::new());
            while reader.read_line(&mut line).is_ok_and(|len| len > 2) {
                line.clear();
            }
            let seconds = if is_bad.load(Ordering::Acquire) { 0.02 } else { 0.001 };
            let text = format!("# TYPE service_p99_seconds gauge\nservice_p99_seconds {seconds}\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\ncontent-length:";
            // Whatever is wrong with a connection, Prometheus makes another one.
            let _ = write!(&stream, "{head} {}\r\n\r\n{text}", text.len());
        }
    });
    address
}

#[test]
fn a_change_follows_an_objective_of_a_real_prometheus() {
    if Command::new("prometheus")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        let is_thorough = std::env::var_os("EVENKEEL_TEST_ALL").is_some_and(|value| value == "1");
        assert!(!is_thorough, "left out: there is no prometheus (Debian: prometheus)");
        return eprintln!("left out: there is no prometheus (Debian: prometheus)");
    }
    let is_bad = Arc::new(AtomicBool::new(false));
    let page = page(Arc::clone(&is_bad));
    let mut fleet = Fleet::new(DecisionStore::Directory);
    let (_kept, address) = reserve_port().expect("a port");
    fleet.write(
        "prometheus.yml",
        &format!("global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: service\n    static_configs:\n      - targets: [\"{page}\"]\n"),
    );
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", fleet.path("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", fleet.path("prometheus").display()));
    command.arg(format!("--web.listen-address={address}")).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let prometheus = Prometheus(command.spawn().expect("a process"));
    fleet.controller_flags = vec!["--prometheus".to_owned(), format!("http://{address}")];
    fleet.controller(1, 1);
    let zone = |number| Some(if number % 2 == 0 { "a" } else { "b" });
    let kind = |number| HostKind { zone: zone(number), has_no_router: true, ..HostKind::default() };
    let changing = ChangingFleet::new(fleet, 4, kind);
    let begin = || changing.apply("all", &[&WAVES[..], &BEGIN].concat());

    // Met: half of the first zone gets it.
    let begun = begin();
    assert!(begun.as_ref().is_ok_and(|said| said.contains("change 1 has begun")), "{begun:?}");
    let first = clock::wait_for(|| (changing.changed().len() == 1).then_some(()));
    assert!(first.is_some(), "{}", changing.status(1));
    // Missed three times in a row.
    is_bad.store(true, Ordering::Release);
    let missed = clock::now();
    changing.until(1, &["undoing", "undone"]);
    println!("halted {:.1?} after the figure was bad", missed.elapsed());
    let took = changing.until_as_before(clock::now(), 1);
    println!("as before {took:.1?} after the halt");
    let status = changing.status(1);
    let expected = "the objective is missed: 3 times in a row, the last time: the query has no sample";
    assert_eq!(status["state_why"], expected, "{status}");

    // No Prometheus: nobody gets it.
    drop(prometheus);
    let begun = begin();
    assert!(begun.as_ref().is_ok_and(|said| said.contains("change 2 has begun")), "{begun:?}");
    let waits = || {
        let status = changing.status(2);
        status["waits_for"]
            .as_str()
            .is_some_and(|why| why.starts_with("waits for the objective: it was missed"))
            .then_some(())
    };
    assert!(clock::wait_for(waits).is_some(), "{}", changing.status(2));
    let undone = changing.until(2, &["undone", "done"]);
    assert_eq!((&undone["state"], changing.changed().len()), (&Value::from("undone"), 0), "{undone}");
    assert!(undone["counts"]["changed"] == 0 || undone["counts"].is_null(), "{undone}");
}
