//! `evenkeel load --fast-open` against `evenkeel serve --fast-open`, in network namespaces of the tests' own, whose kernel
//! counts the connections that brought data with their SYN.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::inner::{INNER, in_namespaces};
use crate::support::running::Running;
use crate::support::until::until;
use serde_json::Value;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../base/tls/tests/certificates");

/// Free: the namespace has no other listener.
const PORT: &str = "11311";

/// A counter of TCP Fast Open in /proc/net/netstat.
fn count(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").expect("netstat");
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut both = names.split(' ').zip(values.split(' '));
    let found = both.find(|(other, _)| other.strip_prefix("TCPFastOpen") == Some(name));
    found.expect(name).1.parse().expect("a number")
}

fn set_sysctl(value: u32) {
    fs::write("/proc/sys/net/ipv4/tcp_fastopen", value.to_string()).expect("a namespace's own");
}

/// A server that is ready to accept.
fn serve(arguments: &[&str]) -> Running {
    let mut command = Command::new(EVENKEEL);
    command.args(["serve", "-l", "127.0.0.1", "-p", PORT, "-u", "root", "-t", "1"]).args(arguments);
    let server = Running(command.stderr(Stdio::null()).spawn().expect("a process"));
    let port = format!(":{:04X} ", PORT.parse::<u16>().expect("a port"));
    // 0A: it listens.
    let listens = |line: &str| line.contains(&port) && line.contains(" 0A ");
    until("it listens", || fs::read_to_string("/proc/net/tcp").expect("tcp").lines().any(listens));
    server
}

fn load(arguments: &str) -> Command {
    let mut command = Command::new(EVENKEEL);
    command.args(["load", "--port", PORT, "--warm-up", "0", "--keys", "20", "--json"]).arg(json());
    command.args(arguments.split_ascii_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The file for the results of this test.
fn json() -> PathBuf {
    let outer = std::env::var(INNER).unwrap_or_default();
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    std::env::temp_dir().join(format!("evenkeel-fast-open-{outer}-{test}.json"))
}

/// The result of a run that has ended.
#[track_caller]
fn ended(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    result()
}

fn result() -> Value {
    let text = fs::read(json()).expect("a result");
    fs::remove_file(json()).expect("it was read");
    serde_json::from_slice(&text).expect("JSON")
}

/// A run loses and spoils nothing, and so many of its connections at least brought a request with their SYN.
#[track_caller]
fn check(arguments: &str, expected: u64) {
    let before = [count("Active"), count("Passive")];
    let result = ended(&load(arguments).output().expect("a process"));
    for zero in ["errors", "lost", "misses", "wrong_values"] {
        assert_eq!(result[zero], 0, "{arguments}: {zero}: {result}");
    }
    let after = [count("Active"), count("Passive")];
    assert_eq!(after[0] - before[0], after[1] - before[1], "{arguments}");
    assert!(after[0] - before[0] >= expected, "{arguments}: {before:?}, {after:?}");
    assert!(expected > 0 || after == before, "{arguments}: {before:?}, {after:?}");
}

#[test]
fn requests_go_with_the_syn_once_there_is_a_cookie() {
    if !in_namespaces("load_fast_open::requests_go_with_the_syn_once_there_is_a_cookie", "true") {
        return;
    }
    set_sysctl(3);
    let server = serve(&["--fast-open", "64"]);
    check("--connections 1 --requests 1 --gets 0", 0);
    check("--connections 1 --requests 1 --gets 0 --fast-open", 0);
    assert_eq!(count("CookieReqd"), 1, "the first connection asks for the cookie");
    check("--connections 1 --requests 1 --gets 0 --fast-open", 1);
    let all = "--fast-open --prefill --verify --requests 200 --connections 4";
    check(&format!("{all} --reconnect-after 1"), 180);
    check(&format!("{all} --reconnect-after 5 --protocol meta --rate 2000"), 30);
    for engine in ["auto", "epoll"] {
        check(&format!("{all} --engine {engine}"), 4);
        // More than fits a SYN.
        check(&format!("{all} --engine {engine} --value-size 200k --gets 0.5"), 4);
    }
    check(&format!("{all} --reconnect-after 2 --value-size 200k --gets 0.5"), 80);
    drop(server);

    let [chain, key] = ["cert", "key"].map(|name| format!("ssl_{name}={CERTIFICATES}/{name}.pem"));
    let files = format!("{},{key}", chain.replace("ssl_cert", "ssl_chain_cert"));
    let _server = serve(&["--fast-open", "64", "-Z", "-o", &files]);
    check(&format!("{all} --reconnect-after 5 --tls --tls-insecure"), 30);
}

#[test]
fn a_server_without_fast_open_is_loaded_as_usual() {
    if !in_namespaces("load_fast_open::a_server_without_fast_open_is_loaded_as_usual", "true") {
        return;
    }
    set_sysctl(3);
    let server = serve(&[]);
    let all = "--fast-open --prefill --verify --requests 100 --connections 4 --reconnect-after 5";
    check(all, 0);
    drop(server);
    // One that gave a cookie and does not know it any more: the kernel sends the request again, after the handshake.
    let server = serve(&["--fast-open", "64"]);
    check(all, 10);
    drop(server);
    let _server = serve(&[]);
    ended(&load(all).output().expect("a process"));
}

#[test]
fn a_kernel_that_does_not_allow_it_to_clients_ends_the_run_with_one_line() {
    let test = "load_fast_open::a_kernel_that_does_not_allow_it_to_clients_ends_the_run_with_one_line";
    if !in_namespaces(test, "true") {
        return;
    }
    set_sysctl(2);
    let _server = serve(&["--fast-open", "64"]);
    for more in ["", "--reconnect-after 1", "--engine epoll"] {
        let output = load(&format!("--fast-open --requests 10 {more}")).output().expect("a process");
        assert_eq!(output.status.code(), Some(71));
        // It is opened before the run.
        let _ = fs::remove_file(json());
        let expected = "evenkeel: load: use TCP Fast Open: net.ipv4.tcp_fastopen must allow it to clients \
                        (`sysctl -w net.ipv4.tcp_fastopen=3`: to clients and servers): Operation not supported \
                        (os error 95)\n";
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    }
}

#[test]
fn a_server_that_is_gone_is_not_flooded() {
    if !in_namespaces("load_fast_open::a_server_that_is_gone_is_not_flooded", "true") {
        return;
    }
    set_sysctl(3);
    let server = serve(&["--fast-open", "64"]);
    check("--connections 1 --requests 1 --gets 0 --fast-open", 0);
    let opened = count("Passive");
    let load = load("--connections 4 --fast-open --churn 1 --duration 5s").spawn().expect("a process");
    until("it is loaded", || count("Passive") >= opened + 4);
    drop(server);
    let output = load.wait_with_output().expect("a process");
    assert_eq!(output.status.code(), Some(1), "it failed: {}", String::from_utf8_lossy(&output.stderr));
    let result = result();
    // Each connection is refused at once when its request has gone with the SYN, and tried again after 0.1 s.
    let refused = result["connects"]["refused"].as_u64().expect("a number");
    assert!((1..=4 * 51).contains(&refused), "{result}");
    // The last of each may have been sent and not refused yet.
    let count = |how: &str| result["connects"][how].as_u64().expect("a number");
    let closed = count("closed_by_server") + count("broken");
    assert!((4..=4 * 52).contains(&closed), "{result}");
}
