//! `evenkeel load --agents`: several machines, as processes here and in network namespaces of the test's own; and what
//! happens when one of them fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::support::namespaces::{apart, can_be_made, is_possible};
use serde_json::{Value, json};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// A server that stores nothing, but counts requests and connections.
struct Server {
    address: SocketAddr,
    counts: Arc<Counts>,
    connected: Receiver<()>,
}

#[derive(Default)]
struct Counts {
    sets: AtomicU64,
    gets: AtomicU64,
}

impl Server {
    fn start() -> Server {
        Server::serving(usize::MAX)
    }

    /// Waits until it has answered so many gets.
    #[track_caller]
    fn has_answered(&self, gets: u64) {
        let has = |_: &usize| {
            thread::park_timeout(Duration::from_millis(10));
            self.counts.gets.load(Ordering::Relaxed) >= gets
        };
        (0..6000).find(has).expect("it is loaded within a minute");
    }

    /// It closes every connection except the first `connections`.
    fn serving(connections: usize) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (counts, (sender, connected)) = (Arc::new(Counts::default()), channel());
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let (counts, _) = (Arc::clone(&shared), sender.send(()));
                if number < connections {
                    // A client that disconnects ends the thread.
                    thread::spawn(move || serve(&stream, &counts));
                }
            }
        });
        Server { address, counts, connected }
    }

    fn sets(&self) -> u64 {
        self.counts.sets.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: &TcpStream, counts: &Counts) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        if let Some(len) = line.strip_prefix("set ").and_then(|words| words.split_whitespace().nth(3)) {
            let len: u64 = len.parse().unwrap();
            std::io::copy(&mut reader.by_ref().take(len + 2), &mut std::io::sink())?;
            counts.sets.fetch_add(1, Ordering::Relaxed);
            stream.write_all(b"STORED\r\n")?;
        } else {
            counts.gets.fetch_add(1, Ordering::Relaxed);
            stream.write_all(b"END\r\n")?;
        }
        line.clear();
    }
    Ok(())
}

/// A file for one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("evenkeel-agents-{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The command that loads `server` with agents that `command` starts.
fn coordinator(server: &Server, agents: &str, command: &str, more: &str) -> Command {
    let mut coordinator = Command::new(EVENKEEL);
    coordinator
        .args(["load", "--server", &server.address.to_string(), "--agents", agents])
        .args(["--agent-command", &command.replace("AGENT", &format!("{EVENKEEL} load --agent"))])
        .args(more.split_ascii_whitespace());
    coordinator
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON and the text of a load by two agents.
#[track_caller]
fn by_two(server: &Server, name: &str, more: &str) -> (Value, String) {
    let json = Scratch::new(name);
    let more = format!("{more} --json {}", json.0.display());
    let Output { status, stdout, stderr } = coordinator(server, "a,b", "exec AGENT", &more).output().unwrap();
    assert!(status.success(), "{}{}", text(&stdout), text(&stderr));
    (serde_json::from_slice(&std::fs::read(&json.0).unwrap()).unwrap(), text(&stdout))
}

#[test]
fn agents_share_the_requested_load() {
    let server = Server::start();
    let more = "--rate 1000 --requests 401 --connections 5 --keys 101 --prefill --warm-up 100ms";
    let (summary, said) = by_two(&server, "share", more);
    assert_eq!(server.sets(), 101, "each key once");
    assert_eq!(summary["requests"], 401);
    // The description is that of all agents together, with every flag.
    let wanted = load::Description::of(more.split_ascii_whitespace()).unwrap();
    let Value::Object(wanted) = serde_json::to_value(wanted).unwrap() else { panic!("a description") };
    for (flag, value) in wanted {
        let is_open = value.is_null() || ["host", "port"].contains(&flag.as_str());
        assert!(is_open || summary["run"][&flag] == value, "{flag} is {value}\n{summary}");
    }
    let filled = ["key_size", "value_size", "mix", "arrivals", "server"].map(|flag| &summary["run"][flag]);
    assert_eq!(filled, ["14", "100", "get=1", "poisson", &server.address.to_string()]);
    let names: Vec<_> = summary["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(said.contains("agent     b: "), "{said}");
}

#[test]
fn agents_let_connections_come_and_go() {
    let server = Server::start();
    let more = "--requests 400 --connections 4 --warm-up 0 --reconnect-after 10 --storm 3@0s";
    let (summary, _) = by_two(&server, "churn", more);
    let opened = summary["connects"]["opened"].as_u64().unwrap();
    // Every tenth of the 400 requests closes its connection; the last ones are not opened again in time.
    assert!((30..=43).contains(&opened), "{summary}");
    assert!(server.connected.try_iter().count() as u64 >= 4 + opened, "{summary}");
}

#[test]
fn agents_replay_one_trace() {
    let server = Server::start();
    let trace = Scratch::new("trace");
    let lines: String =
        (0..100).map(|n| format!("{}.{:02},key{},4,10,7,set,0\n", n / 50, n % 50, n % 10)).collect();
    std::fs::write(&trace.0, lines).unwrap();
    let more = format!("--trace {} --speed 10 --warm-up 0 --connections 4", trace.0.display());
    let (summary, _) = by_two(&server, "replay", &more);
    assert_eq!((&summary["requests"], &summary["sets"]), (&Value::from(100), &Value::from(100)));
    assert_eq!(server.sets(), 100);
    let parts = summary["agents"].as_array().unwrap().iter().map(|agent| &agent["requests_per_second"]);
    assert!(
        parts.clone().all(|part| part.as_f64().unwrap() > 0.0),
        "each agent has some of the keys: {summary}"
    );
}

#[test]
fn agents_write_one_log() {
    let server = Server::start();
    let log = Scratch::new("log");
    let more = format!("--rate 40 --duration 2s --connections 4 --warm-up 0 --hdr-log {}", log.0.display());
    let (summary, _) = by_two(&server, "logged", &more);
    let text = std::fs::read_to_string(&log.0).unwrap();
    let starts: Vec<_> = text.lines().skip(4).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(starts, ["0.000", "1.000"], "{text}");
    // The same values are in the result.
    let longest = text.lines().skip(4).filter_map(|line| line.split(',').nth(2)?.parse::<f64>().ok());
    for (second, longest_ms) in summary["series"].as_array().unwrap().iter().zip(longest) {
        let max_us = second["latency"]["max_us"].as_f64().unwrap();
        assert!((max_us / 1000.0 - longest_ms).abs() < 0.001, "{summary}\n{text}");
    }
}

#[test]
fn the_coordinator_probes_while_agents_load() {
    // Only the requests of the load end the first run: the probes must end with it.
    for more in ["--rate 300 --requests 201", "--rate 300 --duration 60s --requests 101"] {
        let server = Server::start();
        let more = format!("{more} --connections 4 --warm-up 0 --probes 2 --probe-rate 200");
        let (summary, said) = by_two(&server, "probes", &more);
        let probes = &summary["probes"];
        let [asked, probed] = [&summary, probes].map(|of| of["requests"].as_u64().unwrap());
        assert!(probed > 0 && said.contains("  probes    200 requests/s asked of 2 connections, "), "{said}");
        assert_eq!(server.counts.gets.load(Ordering::Relaxed), asked + probed, "{said}");
        assert_eq!(summary["run"]["connections"], 4, "{said}");
        assert_eq!(summary["run"]["probes"], 2, "{said}");
        assert_eq!(
            (&probes["connections"], &probes["waits"]["unanswered"]),
            (&2.into(), &0.into()),
            "{said}"
        );
        let window_s = summary["seconds"].as_f64().unwrap();
        assert!(
            probed as f64 / probes["requests_per_second"].as_f64().unwrap() < window_s + 30.0,
            "{summary}"
        );
        assert!(probes["verdict"]["valid"].is_boolean(), "{summary}");
    }
}

#[test]
fn probes_that_fail_end_the_agents() {
    // The probes connect after the agents.
    let server = Server::serving(2);
    let more = "--connections 2 --duration 10m --warm-up 0 --probes 1 --probe-rate 100 --fail-fast";
    let Output { status, stderr, .. } = coordinator(&server, "a,b", "exec AGENT", more).output().unwrap();
    assert_eq!(status.code(), Some(1), "{}", text(&stderr));
    let words = "load: probe the server from this machine: keep connection 0";
    assert!(text(&stderr).contains(words), "{}", text(&stderr));
}

#[test]
fn agents_search_together() {
    let server = Server::start();
    // No server meets this objective, so two runs are enough: with three requests a second, and with half as many.
    let more = "--search p50<0.001us --rate 3 --arrivals constant --duration 3s --warm-up 0 --connections 2 \
                --keys 101 --prefill";
    let (knee, said) = by_two(&server, "search", more);
    assert_eq!(server.sets(), 101, "only the first run stores them");
    let run = &knee["run"];
    assert_eq!(
        (&run["rate"], &run["seed"], &run["prefill"]),
        (&3.0.into(), &1.into(), &true.into()),
        "{knee}"
    );
    let tries = knee["tries"].as_array().unwrap().iter();
    let tries: Vec<_> = tries.map(|one| (one["rate"].as_f64().unwrap(), &one["outcome"])).collect();
    // Other guests of the machine may have spoilt some runs, which were repeated, or three in a row, which ended the
    // search.
    let missed: Vec<f64> = tries.iter().filter(|one| one.1 == "missed").map(|one| one.0).collect();
    assert!(tries.iter().all(|one| one.1 == "missed" || one.1 == "invalid"), "{said}");
    if said.contains("3 runs in a row") {
        assert!([3.0, 1.5].starts_with(&missed), "{said}");
    } else {
        assert_eq!(missed, [3.0, 1.5], "{said}");
        assert!(said.contains("p50<0.001us never held"), "{said}");
    }
}

/// Checks that the coordinator ends with this message.
#[track_caller]
fn check(agents: &str, command: &str, more: &str, words: &str) {
    let server = Server::start();
    // The agents that were started are ended, too: otherwise they would keep standard error open.
    let Output { status, stderr, .. } = coordinator(&server, agents, command, more).output().unwrap();
    assert_eq!(status.code(), Some(1), "{}", text(&stderr));
    assert!(text(&stderr).contains(words), "{}", text(&stderr));
}

#[test]
fn all_end_when_one_fails() {
    check(
        "a,b",
        "[ {host} = a ] || exit 3; exec AGENT",
        "",
        "use the agent b: it ended too early (exit status: 3)",
    );
    check(
        "a,b",
        "[ {host} = a ] || exec timeout -s KILL 2 AGENT; exec AGENT",
        "--duration 10m --fail-fast",
        "use the agent b: it ended too early",
    );
    check(
        "a,b",
        "[ {host} = a ] || { echo '{\"hello\":{\"protocol\":3,\"version\":\"0.0.1\"}}'; exec cat; }; exec AGENT",
        "",
        "use the agent b: it is version 0.0.1 (protocol 3), this is ",
    );
    check(
        "b",
        &format!(
            "echo '{{\"hello\":{{\"protocol\":4,\"version\":\"{0}\"}}}}'; exec cat",
            env!("CARGO_PKG_VERSION")
        ),
        "",
        "(protocol 4), this is ",
    );
    check("b", "exec cat", "--agent-patience 200ms", "use the agent b: it sent no message for 200");
    check("b", "exec yes", "--agent-patience 200ms", "use the agent b: it sent no message for 200");
    check("b", "exec yes '{{'", "", "use the agent b: it speaks another language: ");
    check("a", "echo Welcome!; exec AGENT", "--cpu 1000", "use the agent a: it failed to run on CPU 1000: ");
}

#[test]
fn the_others_go_on_when_one_is_lost_during_the_load() {
    let (server, json, kills) = (Server::start(), Scratch::new("lost"), Scratch::new("kills"));
    let command = format!(
        "[ {{host}} = a ] || {{ exec 3<&0; AGENT <&3 & until [ -e {} ]; do sleep 0.1; done; kill -KILL $!; exit 3; }}; exec AGENT",
        kills.0.display()
    );
    let more = format!("--rate 200 --duration 8s --warm-up 0 --connections 2 --json {}", json.0.display());
    let child = coordinator(&server, "a,b", &command, &more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.has_answered(100);
    std::fs::write(&kills.0, "").unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let (said, errors) = (text(&stdout), text(&stderr));
    assert_eq!(status.code(), Some(1), "{said}{errors}");
    assert!(errors.contains("load: use the agent b: it ended too early"), "{errors}");
    assert!(said.contains("INVALID (failed): the load was smaller than asked for: "), "{said}");
    let summary: Value = serde_json::from_slice(&std::fs::read(&json.0).unwrap()).unwrap();
    let names: Vec<_> = summary["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, ["a"], "{said}");
    // Half of the rate, for the whole time.
    let [requests, seconds] = ["requests", "seconds"].map(|name| summary[name].as_f64().unwrap());
    assert!((70.0..150.0).contains(&(requests / seconds)) && seconds > 7.9, "{said}");
    assert!(summary["failure"].as_str().unwrap().starts_with("use the agent b: "), "{summary}");
}

#[test]
fn an_interrupt_ends_a_load_of_agents_with_a_result() {
    let server = Server::start();
    // Agents in the same group of processes get the signal, too, as from a terminal.
    let child = coordinator(&server, "a,b", "AGENT", "--rate 200 --connections 2 --duration 10m --warm-up 0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    server.has_answered(100);
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-s", "INT", "--", &group]).status().unwrap().success());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let said = text(&stdout) + &text(&stderr);
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("agent     a: ") && said.contains("agent     b: "), "{said}");
}

#[test]
fn words_of_an_agent_give_no_orders_to_a_terminal() {
    check(
        "b",
        r#"printf '%s\n' '{"failed":{"why":"\u001b[2Jdie\nVALID"}}'; exec cat"#,
        "",
        "use the agent b: it failed to \\u001b[2Jdie\\u000aVALID\n",
    );
    let words = "it speaks another language: key must be a string at line 1 column 2 in {\\u001b[2J\n";
    check("b", r"printf '{\033[2J\n'; exec cat", "", words);
    check(
        "b",
        r#"printf '%s\n' '{"hello":{"protocol":3,"version":"\u009b2J"}}'; exec cat"#,
        "",
        "use the agent b: it is version \\u009b2J (protocol 3), this is ",
    );
    // Its standard error is passed on before it is said how it ended.
    check(
        "b",
        r"printf 'one\ttwo \033]0;x\007\nthree' >&2; exit 3",
        "",
        "one\ttwo \\u001b]0;x\\u0007\nthree\nevenkeel: load: use the agent b: it ended too early (exit status: 3)",
    );
}

#[test]
fn agents_end_with_their_coordinator() {
    let server = Server::start();
    // A pipe that every agent has open: it ends with the last of them.
    let pipe = Scratch::new("alive");
    assert!(Command::new("mkfifo").arg(&pipe.0).status().unwrap().success());
    let command = format!("exec AGENT 9>{}", pipe.0.display());
    let reader = thread::spawn({
        let path = pipe.0.clone();
        move || std::fs::read(path).unwrap()
    });
    let mut coordinator = coordinator(&server, "a,b", &command, "--connections 2 --duration 10m")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (0..2).for_each(|_| server.connected.recv().unwrap());
    assert!(!reader.is_finished(), "both run");
    coordinator.kill().unwrap();
    coordinator.wait().unwrap();
    assert_eq!(reader.join().unwrap(), b"");
    let mut said = String::new();
    coordinator.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn an_agent_that_gets_the_start_too_late_does_not_begin() {
    let server = Server::start();
    let mut agent = Command::new(EVENKEEL)
        .args(["load", "--agent"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = agent.stdin.take().unwrap();
    let run = load::Description {
        server: Some(server.address.to_string()),
        connections: 1,
        ..load::Description::default()
    };
    let plan = json!({"plan": {"agent": 0, "agents": 1, "run": run}});
    writeln!(input, "{plan}").unwrap();
    writeln!(input, r#"{{"start":{{"at_ns":1}}}}"#).unwrap();
    let said: Vec<String> =
        BufReader::new(agent.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    assert!(said[0].starts_with(r#"{"hello":{"protocol":7,"#) && said[1] == r#""ready""#, "{said:?}");
    assert!(said[2].starts_with(r#"{"failed":{"why":"begin in time: the start was "#), "{said:?}");
    assert_eq!(agent.wait().unwrap().code(), Some(1));
}

/// A bridge with the server, and two namespaces connected to it, one for each agent.
const LAB: &str = r#"
set -e
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add br0 type bridge
ip addr add 10.97.0.1/24 dev br0
ip link set br0 up
for n in 1 2; do
    ip netns add h$n
    ip link add v$n type veth peer name eth0 netns h$n
    ip link set v$n master br0 up
    ip -n h$n addr add 10.97.0.1$n/24 dev eth0
    ip -n h$n link set eth0 up
done
"$EVENKEEL" serve -l 10.97.0.1 -p 11211 -u root -m 64 &
server=$!
until "$EVENKEEL" load --server 10.97.0.1:11211 --requests 1 --warm-up 0 >/dev/null 2>&1; do :; done
"$EVENKEEL" load --server 10.97.0.1:11211 --agents h1,h2 --rate 2000 --duration 2s --warm-up 100ms \
    --connections 8 --keys 1000 --prefill --verify --gets 0.9 --churn 50 --storm 4@1s --server-pid $server \
    --probes 2 --probe-rate 100 \
    --agent-command "ip netns exec {host} $EVENKEEL load --agent" --json /run/summary
cat /run/summary
"#;

#[test]
fn agents_in_other_networks_load_one_server() {
    let can = "mount -t tmpfs tmpfs /run && ip link add br0 type bridge && ip netns add h1 \
               && ip link add v1 type veth peer name eth0 netns h1";
    if !can_be_made() || !is_possible(can) {
        return eprintln!("no network namespaces can be made here");
    }
    let Output { status, stdout, stderr } = apart(Path::new("/"), LAB).output().unwrap();
    let said = text(&stdout);
    assert!(status.success(), "{said}{}", text(&stderr));
    // The status tells that there was no error; the figures depend on the machine.
    for words in [
        "of 2,000 requests/s",
        "against 10.97.0.1:11211",
        "connect   ",
        "server    ",
        "probes    100 requests/s asked of 2 connections, ",
        "agent     h1: ",
        "agent     h2: ",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    let summary: Value = serde_json::from_str(&said[said.find("\n{").unwrap()..]).unwrap();
    assert!(summary["server"]["requests_per_cpu_second"].as_f64().unwrap() > 0.0, "{said}");
    assert!(summary["connects"]["opened"].as_u64().unwrap() >= 4, "{said}");
}
