//! A router that connects to its servers with TCP Fast Open, in network namespaces of the tests' own, whose kernel counts
//! the connections that brought data with their SYN.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::inner::in_namespaces;
use crate::support::running::Running;
use crate::support::until::until;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../base/tls/tests/certificates");

/// Free: the namespace has no other listeners.
const SERVER_PORT: &str = "11311";
const ROUTER_PORT: &str = "11411";

/// A counter of TCP Fast Open in /proc/net/netstat.
fn count(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").expect("netstat");
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut both = names.split(' ').zip(values.split(' '));
    let found = both.find(|(other, _)| other.strip_prefix("TCPFastOpen") == Some(name));
    found.expect(name).1.parse().expect("a number")
}

/// A process that listens on `port`.
fn start(port: &str, arguments: &[&str]) -> Running {
    let mut command = Command::new(EVENKEEL);
    let process = Running(command.args(arguments).stderr(Stdio::null()).spawn().expect("a process"));
    until("it listens", || TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
    process
}

fn serve(more: &[&str]) -> Running {
    let own = ["serve", "-l", "127.0.0.1", "-p", SERVER_PORT, "-u", "root", "-t", "1", "--fast-open", "64"];
    start(SERVER_PORT, &[&own[..], more].concat())
}

/// A router that closes connections to its server as soon as nobody uses them.
fn route(pool: &str, more: &[&str]) -> Running {
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["127.0.0.1:{SERVER_PORT}"], {pool}}}}}, "route": "PoolRoute|A"}}"#
    );
    let own = ["route", "--listen-addresses", "127.0.0.1", "-p", ROUTER_PORT, "--config-str", &configuration];
    let idle = ["--reset-inactive-connection-interval=1"];
    start(ROUTER_PORT, &[&own[..], &idle, more].concat())
}

/// Asks again and again, until this many connections have brought a request with their SYN.
fn ask_until(request: &str, answer: &str, connections: u64) {
    let before = count("Active");
    let mut client =
        BufReader::new(TcpStream::connect(format!("127.0.0.1:{ROUTER_PORT}")).expect("a client"));
    until("connections bring data with their SYN", || {
        client.get_mut().write_all(request.as_bytes()).expect("send");
        let mut line = String::new();
        client.read_line(&mut line).expect("an answer");
        assert_eq!(line, answer);
        count("Active") >= before + connections
    });
}

#[test]
fn gets_go_with_the_syn_and_sets_do_not() {
    if !in_namespaces("route_fast_open::gets_go_with_the_syn_and_sets_do_not", "true") {
        return;
    }
    fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3").expect("a namespace's own");
    let _server = serve(&[]);
    let _router = route(r#""tcp_fast_open": true"#, &[]);
    ask_until("get k\r\n", "END\r\n", 5);
    let (before, mut asked) = (count("Active"), 0);
    let mut client =
        BufReader::new(TcpStream::connect(format!("127.0.0.1:{ROUTER_PORT}")).expect("a client"));
    until("many connections for sets", || {
        asked += 1;
        client.get_mut().write_all(b"set k 0 0 1\r\nx\r\n").expect("send");
        let mut line = String::new();
        client.read_line(&mut line).expect("an answer");
        assert_eq!(line, "STORED\r\n");
        asked == 50
    });
    assert_eq!(count("Active"), before);
}

#[test]
fn handshakes_of_tls_begin_with_the_syn() {
    if !in_namespaces("route_fast_open::handshakes_of_tls_begin_with_the_syn", "true") {
        return;
    }
    fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3").expect("a namespace's own");
    let files = format!("ssl_chain_cert={CERTIFICATES}/server.pem,ssl_key={CERTIFICATES}/server-key.pem");
    let _server = serve(&["-Z", "-o", &files]);
    let _router = route(r#""security_mech": "ssl""#, &["--enable-ssl-tfo"]);
    ask_until("set k 0 0 1\r\nx\r\n", "STORED\r\n", 3);
}

#[test]
fn a_kernel_that_does_not_allow_it_connects_as_usual() {
    if !in_namespaces("route_fast_open::a_kernel_that_does_not_allow_it_connects_as_usual", "true") {
        return;
    }
    fs::write("/proc/sys/net/ipv4/tcp_fastopen", "0").expect("a namespace's own");
    let _server = serve(&[]);
    let _router = route(r#""tcp_fast_open": true"#, &[]);
    ask_until("get k\r\n", "END\r\n", 0);
    assert_eq!(count("Active"), 0);
}
