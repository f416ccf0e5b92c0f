//! `evenkeel advise` as a process: answers, refusals and their statuses, and a running server as the workload.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::running::Running;
use crate::support::until::until;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

const WORKLOAD: &str = "name = \"a test\"\n[requests]\nget = 900_000\nset = 100_000\n\
    [items]\ncount = 1_000_000_000\nkey_bytes = 40\nvalue_bytes = 500\n[latency]\np99_ms = 1\n";

/// Shapes of a user's own, so that the answer does not depend on the built-in ones.
const OWN: &str = "[[shape]]\nname = \"rack.small\"\ncloud = \"own\"\nfamily = \"rack\"\nmeasured = \"a test\"\n\
    architecture = \"x86_64\"\nvcpus = 16\nthreads_per_core = 2\nmemory_gib = 128\nclock_ghz = 3\nbaseline_gbit = 10\n\
    disks = { count = 0 }\n\
    prices = [{ region = \"cellar\", date = \"2026-12-01\", usd_per_hour = 0.5 }]\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("evenkeel-advise-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("workload.toml"), WORKLOAD).unwrap();
        fs::write(folder.join("own.toml"), OWN).unwrap();
        Folder(folder)
    }

    fn advise(&self, words: &str) -> Output {
        let mut command = Command::new(EVENKEEL);
        command.current_dir(&self.0).arg("advise").args(words.split(' ')).output().unwrap()
    }

    #[track_caller]
    fn check_refused(&self, words: &str, status: i32, part: &str) {
        let shown = self.advise(words);
        let err = String::from_utf8(shown.stderr).unwrap();
        assert_eq!(shown.status.code(), Some(status), "{err}");
        assert!(err.starts_with("evenkeel: advise: ") && err.contains(part), "{err}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ASKED: &str = "--workload workload.toml --catalogue own.toml --cloud own --region cellar";

#[test]
fn a_file_gets_an_answer_as_text_json_and_picture() {
    let folder = Folder::new("answer");
    let shown = folder.advise(ASKED);
    let (out, err) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
    assert_eq!(shown.status.code(), Some(0), "{err}");
    assert!(out.starts_with("a test\n") && out.contains("rack.small") && out.contains("memory"), "{out}");
    assert!(out.contains("packets per second: the answer holds if each host has"), "{out}");
    assert!(err.contains("own.toml: rack.small is new"), "{err}");
    // Prices of two clouds in regions of their own are compared.
    let both = folder
        .advise("--workload workload.toml --family n2-highmem,r5 --region us-east-1,us-central1 --json");
    let document: serde_json::Value = serde_json::from_slice(&both.stdout).unwrap();
    let families: Vec<_> = (0..2).map(|place| document["best"][place]["shape"].to_string()).collect();
    assert!(families.iter().any(|name| name.contains("n2-")), "{families:?}");
    assert!(families.iter().any(|name| name.contains("r5.")), "{families:?}");
    let shown = folder.advise(&format!("{ASKED} --json --picture picture.svg"));
    let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(document["best"][0]["shape"], "rack.small");
    assert!(fs::read_to_string(folder.0.join("picture.svg")).unwrap().starts_with("<svg "));
}

#[test]
fn wrong_files_and_command_lines_are_refused_with_their_status() {
    let folder = Folder::new("refused");
    let write = |name: &str, text: &str| fs::write(folder.0.join(name), text).unwrap();
    folder.check_refused(
        "--json",
        64,
        "expected --workload FILE, --server ADDR, --control ADDR or --trace FILE",
    );
    folder.check_refused("--workload workload.toml --family r4", 64, "the catalogue has no family `r4`");
    folder.check_refused("--workload missing.toml", 71, "read missing.toml");
    assert!(Command::new("mkfifo").arg(folder.0.join("fifo.toml")).status().unwrap().success());
    folder.check_refused("--workload fifo.toml", 71, "expected a file, found a folder, a fifo or a device");
    fs::write(folder.0.join("bytes.toml"), [0xff]).unwrap();
    folder.check_refused("--workload bytes.toml", 65, "bytes.toml: invalid utf-8");
    write("negative.toml", &WORKLOAD.replace("get = 900_000", "get = -1"));
    folder.check_refused("--workload negative.toml", 65, "negative.toml: `get` is -1: expected 0 to");
    write("class.toml", &WORKLOAD.replace("get = 900_000", "fetch = 1"));
    folder.check_refused("--workload class.toml", 65, "unknown field `fetch`, expected one of `get`");
    write("many.toml", &WORKLOAD.replace("1_000_000_000", "1_000_000_000_000"));
    folder.check_refused("--workload many.toml", 65, "`count` is 1000000000000: expected 1 to 100000000000");
    write("costs.toml", "[figures]\nget = 1\n");
    folder.check_refused(
        "--workload workload.toml --costs costs.toml",
        65,
        "costs.toml: the table of costs has `get`",
    );
    // A port that nobody listens on.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    folder.check_refused(&format!("--server {free}"), 69, "for its statistics");
    folder.check_refused(
        "--workload workload.toml --region nowhere",
        64,
        "it has prices in us-central1, us-east-1",
    );
    folder.check_refused("--workload workload.toml --region us-east-1,x", 64, "in the region `x`");
    folder.check_refused("--workload workload.toml --zones 3", 64, "cannot be used with");
    folder.check_refused("--server 127.0.0.1:1 --survive-zone", 64, "expected --zones of 2 or more");
    // A target that is shorter than a request itself.
    write("short.toml", &WORKLOAD.replace("p99_ms = 1", "p99_ms = 0.002"));
    let shown = folder.advise("--workload short.toml");
    let out = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.status.code(), Some(20), "{out}");
    assert!(out.contains("No shape of the catalogue carries this workload."), "{out}");
}

fn served(command: Command) -> (Running, String) {
    let (server, address, _) = served_until(command, &[" serves on "]);
    (server, address)
}

fn served_with_page(command: Command) -> (Running, String, String) {
    served_until(command, &[" serves on ", "metrics at http://"])
}

/// A server that has said this, its address, and what it has said.
fn served_until(mut command: Command, words: &[&str]) -> (Running, String, String) {
    let mut child: Child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut said, mut stderr) = (String::new(), BufReader::new(child.stderr.take().unwrap()));
    while !words.iter().all(|words| said.contains(words)) {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    let address = said.split(" serves on ").nth(1).unwrap().split(": ").next().unwrap().to_owned();
    (Running(child), address, said)
}

/// Uses a server over TCP.
fn use_server(address: &str, is_enough: &AtomicBool) {
    let client = TcpStream::connect(address).unwrap();
    use_stream(client.try_clone().unwrap(), BufReader::new(client), is_enough);
}

/// 100 items of 200 bytes, and then nine gets to a set until somebody says that it is enough. Keys have 10 bytes.
fn use_stream(mut client: impl Write, mut replies: impl BufRead, is_enough: &AtomicBool) {
    let (value, mut line) = ("v".repeat(200), String::new());
    let mut number = 0;
    while !is_enough.load(Ordering::Relaxed) {
        let key = format!("key-{:06}", number % 100);
        if number < 100 || number % 10 == 0 {
            client.write_all(format!("set {key} 0 0 200\r\n{value}\r\n").as_bytes()).unwrap();
            line.clear();
            replies.read_line(&mut line).unwrap();
            assert_eq!(line, "STORED\r\n");
        } else {
            client.write_all(format!("get {key}\r\n").as_bytes()).unwrap();
            let mut reply = vec![0; format!("VALUE {key} 0 200\r\n").len() + 202 + 5];
            replies.read_exact(&mut reply).unwrap();
        }
        number += 1;
    }
}

#[test]
fn a_running_server_is_the_workload() {
    let folder = Folder::new("server");
    let mut command = Command::new(EVENKEEL);
    command.args(["serve", "-l", "127.0.0.1", "-p", "-1", "-m", "64", "--metrics-listen", "127.0.0.1:0"]);
    let (_server, address, said) = served_with_page(command);
    let page = said.split("metrics at http://").nth(1).unwrap().split("/metrics").next().unwrap();
    let is_enough = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| use_server(&address, &is_enough));
        let words = format!(
            "--server {address} --metrics {page} --seconds 1 --servers 1000 --zones 3 --catalogue own.toml --cloud own --region cellar --json"
        );
        let shown = folder.advise(&words);
        is_enough.store(true, Ordering::Relaxed);
        let err = String::from_utf8(shown.stderr).unwrap();
        assert_eq!(shown.status.code(), Some(0), "{err}");
        let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        let figure = |name: &str| {
            let inputs = document["inputs"].as_array().unwrap();
            let found = inputs.iter().find(|input| input["figure"] == name).unwrap();
            (found["value"].as_f64().unwrap(), found["source"].as_str().unwrap().to_owned())
        };
        let (gets, source) = figure("get");
        assert!(gets > 0.0 && source == "measured", "{gets} {source}");
        // Keys of 10 bytes, of which no statistic knows, and values of 200.
        let bytes = figure("key_bytes").0 + figure("value_bytes").0;
        assert!((205.0..=215.0).contains(&bytes), "{bytes}");
        assert_eq!(figure("hit_ratio").0, 1.0);
        assert_eq!(document["workload"], format!("as 1000 servers like {address}"));
        assert!(document["seen"]["cpu_us_of_a_request"].as_f64().unwrap() > 0.0, "{document}");
        assert!(document["seen"]["service_p99_us"].as_u64().unwrap() > 0, "its page knows it: {document}");
        let hosts = document["best"][0]["hosts"].as_u64().unwrap();
        assert!(hosts > 0 && hosts.is_multiple_of(3), "{hosts}: as many in each zone");
    });
}

/// The memcached of this machine on a socket of its own; `None` where it is not installed.
fn memcached(folder: &Folder) -> Option<(Running, PathBuf)> {
    let socket = folder.0.join("socket");
    let mut command = Command::new("/usr/bin/memcached");
    command.args(["-u", "root", "-t", "1", "-m", "64", "-s"]).arg(&socket).stderr(Stdio::null());
    let server = Running(command.spawn().ok()?);
    until("memcached listens", || UnixStream::connect(&socket).is_ok());
    Some((server, socket))
}

/// Nine gets to a set of 100 items with keys of 10 bytes and values of 200, all of them hits: a memcached of today says as much.
#[test]
fn a_memcached_of_today_is_the_workload() {
    let folder = Folder::new("memcached");
    let Some((_server, socket)) = memcached(&folder) else { return };
    let is_enough = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let client = UnixStream::connect(&socket).unwrap();
            use_stream(client.try_clone().unwrap(), BufReader::new(client), &is_enough);
        });
        let words = format!(
            "--server unix:{} --seconds 2 --peak 2 --catalogue own.toml --cloud own --region cellar --json",
            socket.display()
        );
        let shown = folder.advise(&words);
        is_enough.store(true, Ordering::Relaxed);
        let err = String::from_utf8(shown.stderr).unwrap();
        assert_eq!(shown.status.code(), Some(0), "{err}");
        let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        let figure = |name: &str| {
            let inputs = document["inputs"].as_array().unwrap();
            let found = inputs.iter().find(|input| input["figure"] == name).unwrap();
            found["value"].as_f64().unwrap()
        };
        // The first 100 requests are sets, and so is each tenth afterwards.
        let ratio = figure("get") / figure("set");
        assert!(figure("get") > 0.0 && ratio > 0.5 && ratio < 9.5, "{ratio}");
        assert_eq!((figure("count"), figure("hit_ratio"), figure("delete")), (100.0, 1.0, 0.0));
        let bytes = figure("key_bytes") + figure("value_bytes");
        // What memcached counts for an item besides differs by a few bytes between its versions.
        assert!((200.0..=220.0).contains(&bytes), "{bytes}");
    });
}

/// A hundred keys in turn, twice a millisecond for three seconds: each is read again after a hundred others.
#[test]
fn a_trace_is_the_workload() {
    let folder = Folder::new("trace");
    let line = |number: u32| {
        let operation = if number.is_multiple_of(10) { "set" } else { "get" };
        format!("{:.4},key-{:06},10,200,1,{operation},0\n", f64::from(number) / 2_000.0, number / 10 % 100)
    };
    fs::write(folder.0.join("trace.csv"), (0..6_001).map(line).collect::<String>()).unwrap();
    let asked = "--trace trace.csv --peak 1000 --catalogue own.toml --cloud own --region cellar --json";
    let shown = folder.advise(asked);
    let err = String::from_utf8(shown.stderr).unwrap();
    assert_eq!(shown.status.code(), Some(0), "{err}");
    let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let figure = |name: &str| {
        let inputs = document["inputs"].as_array().unwrap();
        let found = inputs.iter().find(|input| input["figure"] == name).unwrap();
        (found["value"].as_f64().unwrap(), found["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(figure("get"), (1_800_000.0, "measured".to_owned()));
    assert_eq!((figure("set").0, figure("count").0, figure("hit_ratio").0), (200_000.0, 100.0, 1.0));
    assert_eq!((figure("key_bytes").0, figure("value_bytes").0, figure("spike").0), (10.0, 200.0, 1.0));
    // Each key is read nine times in a row.
    assert_eq!(figure("hot_hits").0, 1.0);
    folder.check_refused("--trace missing.csv", 71, "read missing.csv");
    fs::write(folder.0.join("no.csv"), "100,a,1,0,7,get,0\nno line\n").unwrap();
    folder.check_refused("--trace no.csv", 65, "line 2");
    folder.check_refused("--trace trace.csv --rate 5", 64, "has times of its own");
    folder.check_refused("--trace trace.csv --workload workload.toml", 64, "cannot be used with");
}

#[test]
fn the_rate_of_one_worker_is_predicted() {
    let folder = Folder::new("rate");
    let shown = folder.advise("rate --workload workload.toml --stops 0.001,0 --json");
    let err = String::from_utf8(shown.stderr).unwrap();
    assert_eq!(shown.status.code(), Some(0), "{err}");
    let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let figure = |name: &str| document[name].as_f64().unwrap();
    let expected = figure("used") * 1e6 / figure("request_us");
    assert!((figure("requests_per_s") / expected - 1.0).abs() < 1e-9, "{document}");
    assert!((0.85..0.95).contains(&figure("used")), "{document}");
    // A CPU is watched; how much it stops is the machine's.
    let shown = folder.advise("rate --workload workload.toml --cpus 0 --seconds 3");
    let out = String::from_utf8(shown.stdout).unwrap();
    assert!(matches!(shown.status.code(), Some(0 | 20)) && out.contains("watched for 3 s"), "{out}");
    folder.check_refused("rate --workload workload.toml", 64, "--cpus <LIST>");
    folder.check_refused("rate --workload workload.toml --cpus 1023", 71, "watch the CPUs of --cpus");
    folder.check_refused("rate --workload workload.toml --stops 2,0", 64, "expected a share from 0 to 1");
    let shown = folder.advise("rate --workload workload.toml --stops 0.01,0");
    assert_eq!(shown.status.code(), Some(20));
    folder.check_refused("costs missing.run", 65, "missing.run");
}

#[test]
fn a_server_without_requests_or_items_is_no_workload() {
    let folder = Folder::new("idle");
    let mut command = Command::new(EVENKEEL);
    command.args(["serve", "-l", "127.0.0.1", "-p", "-1", "-m", "64"]);
    let (_server, address) = served(command);
    folder.check_refused(&format!("--server {address} --seconds 1"), 65, "has had no requests in 1 s");
}
