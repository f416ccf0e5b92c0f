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
    folder.check_refused(&format!("{asked} --zones 3"), 64, "cannot be used with");
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

/// A Prometheus with five weeks of packets of one interface, which grow by a hundredth of the first day each day and are fewer at
/// weekends; none where it is not installed.
fn real_prometheus(folder: &Folder, instance: &str) -> Option<(Running, String)> {
    if Command::new("prometheus")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("left out: there is no prometheus (Debian: prometheus)");
        return None;
    }
    let now = os::clock::unix_s();
    let begins = (now / DAY_S - 36) * DAY_S;
    let mut text = "# TYPE evenkeel_host_nic_packets counter\n".to_owned();
    let mut packets = 0.0;
    for unix_s in (begins..now).step_by(300) {
        let day = (unix_s - begins) / DAY_S;
        let weekend = if (unix_s / DAY_S) % 7 < 2 { 0.6 } else { 1.0 };
        // The busiest hours of a day are its last six.
        let hour = if unix_s % DAY_S >= 18 * 3600 { 1.0 } else { 0.3 };
        packets += 300.0 * 100_000.0 * (1.0 + 0.01 * day as f64) * weekend * hour;
        text += &format!(
            "evenkeel_host_nic_packets_total{{instance=\"{instance}\",nic=\"eth0\",direction=\"receive\"}} {packets:.0} {unix_s}\n"
        );
    }
    fs::write(folder.0.join("history"), text + "# EOF\n").unwrap();
    fs::write(folder.0.join("prometheus.yml"), "").unwrap();
    let mut blocks = Command::new("promtool");
    blocks.args(["tsdb", "create-blocks-from", "openmetrics", "history", "data"]).stdout(Stdio::null());
    assert!(blocks.current_dir(&folder.0).status().unwrap().success());
    let mut command = Command::new("prometheus");
    command.args([
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--web.listen-address=127.0.0.1:0",
    ]);
    command.args(["--storage.tsdb.retention.time=1y", "--log.format=logfmt"]);
    let mut child =
        command.current_dir(&folder.0).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let running = Running(child);
    let mut lines = stderr.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("msg=\"Listening on\"")).expect("it says where it listens");
    let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    // Ready is said later: until then it answers with status 503.
    lines.find(|line| line.contains("ready to receive web requests")).expect("it becomes ready");
    thread::spawn(move || lines.for_each(drop));
    Some((running, format!("http://{address}")))
}

#[test]
fn a_real_prometheus_understands_what_it_is_asked() {
    let (folder, server) = (Folder::new("real"), served());
    let Some((_prometheus, url)) = real_prometheus(&folder, &server.page) else { return };
    let asked = format!(
        "--running --server {} --seconds 1 --metrics {} --catalogue own.toml --shape rack.small --weeks 5 --prometheus {url} --json",
        server.address, server.page
    );
    let json: Value = serde_json::from_str(&folder.text(&asked)).unwrap();
    let packets = resource(&json, "packets per second");
    // On the last of 36 days 135,000, and 7,000 more each week, of 200,000.
    let level = packets["trend"]["level"].as_f64().unwrap_or_else(|| panic!("{packets}"));
    assert!((130_000.0..=140_000.0).contains(&level), "the peak of the busiest weekday: {packets}");
    let weeks = packets["weeks"]["middle"].as_f64().unwrap_or_else(|| panic!("{packets}"));
    assert!((8.0..=11.0).contains(&weeks), "{packets}");
}
