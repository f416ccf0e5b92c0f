//! `evenkeel advise --running` against a real server and a Prometheus that is made up: what is left, when it binds, and refusals.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;

use crate::support::running::Running;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
const DAY_S: u64 = 86_400;

/// A shape of which every limit is known.
const OWN: &str = "[[shape]]\nname = \"rack.small\"\ncloud = \"own\"\nfamily = \"rack\"\nmeasured = \"a test\"\n\
    architecture = \"x86_64\"\nvcpus = 16\nthreads_per_core = 2\nmemory_gib = 128\nclock_ghz = 3\nbaseline_gbit = 10\n\
    packets_per_s = 200_000\nconnections = 100\ndisks = { count = 0 }\n";

/// A server with its page, which ends with this value.
struct Served {
    _child: Running,
    address: String,
    page: String,
}

fn served() -> Served {
    let mut command = Command::new(EVENKEEL);
    command.args(["serve", "-l", "127.0.0.1", "-p", "-1", "-m", "64", "--metrics-listen", "127.0.0.1:0"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut said, mut stderr) = (String::new(), BufReader::new(child.stderr.take().unwrap()));
    while !said.contains(" serves on ") || !said.contains("metrics at http://") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    let between =
        |from: &str, to: &str| said.split(from).nth(1).unwrap().split(to).next().unwrap().to_owned();
    Served {
        address: between(" serves on ", ": "),
        page: between("metrics at http://", "/metrics"),
        _child: Running(child),
    }
}

/// Answers range queries with a point for each day: of packets 100,000 and 1,000 more each day, of what was held back what is given here;
/// of all else nothing.
fn prometheus(instance: &str, held_back: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let instance = instance.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &instance, held_back);
        }
    });
    url
}

fn answer(mut stream: TcpStream, instance: &str, held_back: u64) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let number = |name: &str| -> u64 {
        let value = path.split(['?', '&']).find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let (start, end, step) = (number("start"), number("end"), number("step"));
    assert!(step == DAY_S && start.is_multiple_of(DAY_S), "a point for each day: {path}");
    let series = |labels: &str, value: &dyn Fn(u64) -> u64| {
        let point = |(day, unix_s): (usize, u64)| format!("[{unix_s}, \"{}\"]", value(day as u64));
        let points: Vec<String> = (start..=end).step_by(DAY_S as usize).enumerate().map(point).collect();
        format!("{{\"metric\": {{{labels}}}, \"values\": [{}]}}", points.join(", "))
    };
    let whose = format!("\"instance\": \"{instance}\"");
    let result = match &path {
        path if path.contains("nic_packets") => series(&whose, &|day| 100_000 + 1_000 * day),
        path if path.contains("allowance") => {
            series(&format!("{whose}, \"allowance\": \"pps\""), &|_| held_back)
        }
        _ => String::new(),
    };
    let (status, body) = match path.contains("refused") {
        true => (
            "400 Bad Request",
            "{\"status\": \"error\", \"error\": \"parse error: unexpected end\"}".to_owned(),
        ),
        false => (
            "200 OK",
            format!(
                "{{\"status\": \"success\", \"data\": {{\"resultType\": \"matrix\", \"result\": [{result}]}}}}"
            ),
        ),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all([head, body].concat().as_bytes());
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("evenkeel-running-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("own.toml"), OWN).unwrap();
        Folder(folder)
    }

    fn advise(&self, words: &str) -> Output {
        let mut command = Command::new(EVENKEEL);
        command.current_dir(&self.0).arg("advise").args(words.split(' ')).output().unwrap()
    }

    #[track_caller]
    fn text(&self, words: &str) -> String {
        let shown = self.advise(words);
        let err = String::from_utf8(shown.stderr).unwrap();
        assert_eq!(shown.status.code(), Some(0), "{err}");
        String::from_utf8(shown.stdout).unwrap()
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

fn resource<'j>(json: &'j Value, name: &str) -> &'j Value {
    let resources = json["groups"][0]["hosts"][0]["resources"].as_array().unwrap();
    resources.iter().find(|resource| resource["resource"] == name).unwrap()
}

#[test]
fn a_server_says_what_is_left_as_far_as_it_knows() {
    let (folder, server) = (Folder::new("server"), served());
    let asked = format!("--running --server {} --seconds 1", server.address);
    let json: Value = serde_json::from_str(&folder.text(&format!("{asked} --json"))).unwrap();
    let cpu = resource(&json, "CPU");
    assert!(
        cpu["used"].as_f64().is_some() && cpu["limit_source"] == "80 % of 4 workers of the server",
        "{cpu}"
    );
    let packets = resource(&json, "packets per second");
    assert_eq!((&packets["used"], &packets["outlook"]), (&Value::Null, &"use_unknown".into()), "{packets}");
    assert_eq!(resource(&json, "memory for items")["limit"], 67_108_864.0);
    // Its page knows the packets, and the catalogue the limits.
    let asked = format!("{asked} --metrics {} --catalogue own.toml --shape rack.small", server.page);
    let json: Value = serde_json::from_str(&folder.text(&format!("{asked} --json"))).unwrap();
    let packets = resource(&json, "packets per second");
    assert!(packets["used"].as_f64().is_some(), "{packets}");
    assert_eq!(
        (&packets["limit"], &packets["outlook"]),
        (&200_000.0.into(), &"no_trend".into()),
        "{packets}"
    );
    assert_eq!(resource(&json, "connections")["limit"], 100.0, "the smaller of both");
    let text = folder.text(&asked);
    assert!(text.starts_with(&format!("{} (rack.small)\n", server.address)), "{text}");
    assert!(text.contains("no trend: no history (--prometheus)"), "{text}");
}

#[test]
fn history_says_when_it_binds_and_what_was_held_back_is_proof() {
    let (folder, server) = (Folder::new("history"), served());
    let asked = format!(
        "--running --server {} --seconds 1 --metrics {} --catalogue own.toml --shape rack.small --weeks 4 --prometheus ",
        server.address, server.page
    );
    let url = prometheus(&server.page, 0);
    // 28 days from 100,000 on, 1,000 more each day: 127,000 of 200,000, and 7,000 more each week.
    let text = folder.text(&format!("{asked}{url}"));
    assert!(text.contains("200 k   64 %  +5.5 %  binds in 10 weeks"), "{text}");
    let json: Value = serde_json::from_str(&folder.text(&format!("{asked}{url} --json"))).unwrap();
    let packets = resource(&json, "packets per second");
    let weeks = packets["weeks"]["middle"].as_f64().unwrap();
    assert!((weeks - 73.0 / 7.0).abs() < 0.01 && packets["trend"]["days"] == 28, "{packets}");
    let cpu = resource(&json, "CPU");
    assert_eq!(cpu["text"], "no trend: there is no history of it", "{cpu}");
    let text = folder.text(&format!("{asked}{}", prometheus(&server.page, 7)));
    assert!(text.contains("binds now: the cloud has held packets back"), "{text}");
    assert!(text.contains("because the allowance pps was used up"), "{text}");
    // Another name of the server, and one that Prometheus does not have.
    let url = prometheus("cache-7:9150", 0);
    let text = folder.text(&format!("{asked}{url} --instance cache-7:9150"));
    assert!(text.contains("binds in 10 weeks"), "{text}");
    let text = folder.text(&format!("{asked}{url}"));
    assert!(!text.contains("binds in"), "{text}");
}

#[test]
fn what_cannot_be_asked_is_refused_with_its_status() {
    let (folder, server) = (Folder::new("refused"), served());
    let asked = format!("--running --server {} --seconds 1", server.address);
    folder.check_refused("--running", 64, "--server <ADDR>|--control <ADDR,ADDR>");
    folder.check_refused(&format!("{asked} --shape r4.huge"), 64, "the catalogue has no shape `r4.huge`");
    folder.check_refused(&format!("{asked} --picture p.svg"), 64, "cannot be used with");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    folder.check_refused(&format!("--running --server {free}"), 69, "for its statistics");
    folder.check_refused(&format!("{asked} --metrics {free}"), 69, "for /metrics: ");
    folder.check_refused(&format!("{asked} --prometheus http://{free}"), 69, "ask http://127.0.0.1:");
    let url = prometheus("x", 0);
    folder.check_refused(
        &format!("{asked} --prometheus {url} --select refused=\"x\""),
        65,
        "for CPU: parse error: unexpected end",
    );
    // What answers there is no page of a server.
    let page = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = page.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in page.incoming().flatten() {
            let _ = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map_while(Result::ok)
                .find(String::is_empty);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
        }
    });
    folder.check_refused(&format!("{asked} --metrics {address}"), 65, "the last line does not end");
    folder.check_refused("--control unix:/nowhere/socket", 69, "");
}
