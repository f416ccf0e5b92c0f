//! `evenkeel advise` as a process: answers, refusals and their statuses, and a running server as the workload.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::running::Running;

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
    let shown = folder.advise(&format!("{ASKED} --json --picture picture.svg"));
    let document: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(document["best"][0]["shape"], "rack.small");
    assert!(fs::read_to_string(folder.0.join("picture.svg")).unwrap().starts_with("<svg "));
}

#[test]
fn wrong_files_and_command_lines_are_refused_with_their_status() {
    let folder = Folder::new("refused");
    let write = |name: &str, text: &str| fs::write(folder.0.join(name), text).unwrap();
    folder.check_refused("--json", 64, "expected --workload FILE, --server ADDR or --control ADDR");
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
    folder.check_refused("--workload many.toml", 65, "`items` is 1000000000000: expected 1 to 100000000000");
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

/// 100 items of 200 bytes, and then gets until somebody says that it is enough.
fn use_server(address: &str, is_enough: &AtomicBool) {
    let mut client = TcpStream::connect(address).unwrap();
    let mut replies = BufReader::new(client.try_clone().unwrap());
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

#[test]
fn a_server_without_requests_or_items_is_no_workload() {
    let folder = Folder::new("idle");
    let mut command = Command::new(EVENKEEL);
    command.args(["serve", "-l", "127.0.0.1", "-p", "-1", "-m", "64"]);
    let (_server, address) = served(command);
    folder.check_refused(&format!("--server {address} --seconds 1"), 65, "has had no requests in 1 s");
}
