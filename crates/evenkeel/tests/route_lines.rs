//! A router's lines for the operator, where nobody reads them, and where their file is at the limit on file sizes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::full_pipe::full_pipe;
use crate::support::running::Running;
use crate::support::until::until;
use rustix::process::{Pid, Signal, kill_process};

/// A wait that fails a test, where it would not end otherwise.
const AT_MOST: Duration = Duration::from_secs(60);

/// A client of a router whose only server is not there.
struct Routed {
    router: Running,
    client: BufReader<TcpStream>,
}

/// Starts a router with that standard error, after this command of a shell.
fn route(errors: impl Into<Stdio>, before: &str) -> Routed {
    // Free a moment ago, and nobody else's in the namespace of a test machine.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let configuration = r#"{"pools": {"a": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|a"}"#;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_evenkeel"), "route"]);
    command.args(["--listen-addresses", "127.0.0.1", "-p", &port.to_string(), "--asynclog-disable"]);
    command.args(["--config-str", configuration]).stdin(Stdio::null()).stderr(errors);
    let router = Running(command.spawn().expect("a process"));
    until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let client = TcpStream::connect(("127.0.0.1", port)).expect("a client");
    client.set_read_timeout(Some(AT_MOST)).expect("a time limit");
    Routed { router, client: BufReader::new(client) }
}

impl Routed {
    /// Sends a request, and returns the first line of the reply.
    fn ask(&mut self, request: &str) -> String {
        self.client.get_mut().write_all(request.as_bytes()).expect("send");
        let mut line = String::new();
        self.client.read_line(&mut line).expect("a reply");
        line
    }

    /// Has the router say that its server is unavailable, and asks for more.
    fn fail_and_go_on(&mut self) {
        assert_eq!(self.ask("get a\r\n"), "SERVER_ERROR connection error\r\n");
        for _ in 0..3 {
            assert!(self.ask("get a\r\n").starts_with("SERVER_ERROR Server unavailable."));
        }
        assert!(self.ask("version\r\n").starts_with("VERSION "));
    }

    fn end(mut self) {
        let pid = Pid::from_raw(self.router.0.id().cast_signed()).expect("a process");
        kill_process(pid, Signal::TERM).expect("it is there");
        until("it ends", || {
            self.router.0.try_wait().expect("a child").is_some_and(|status| status.success())
        });
    }
}

#[test]
fn requests_are_routed_and_the_router_ends_while_nobody_reads_its_lines() {
    let (_reader, writer) = full_pipe();
    let mut routed = route(writer, ":");
    routed.fail_and_go_on();
    routed.end();
}

#[test]
fn lines_come_once_they_are_read() {
    let (reader, writer) = full_pipe();
    let mut routed = route(writer, ":");
    routed.fail_and_go_on();
    let mut lines =
        BufReader::new(reader).lines().map(|line| line.expect("text")).filter(|line| !line.is_empty());
    // Requests are taken a moment before the first line.
    let said: Vec<String> = lines.by_ref().take(2).collect();
    for expected in [" routes on 127.0.0.1:", "server 127.0.0.1:1 is unavailable"] {
        assert!(said.iter().any(|line| line.contains(expected)), "{said:?}");
    }
    routed.end();
    assert_eq!(lines.next(), None);
}

#[test]
fn a_file_of_lines_at_the_limit_on_file_sizes_does_not_end_the_router() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lines-{}", std::process::id()));
    let mut routed = route(File::create(&path).expect("a file"), "ulimit -f 0");
    routed.fail_and_go_on();
    routed.end();
    assert_eq!(fs::metadata(&path).expect("the file").len(), 0);
    fs::remove_file(path).expect("it is ours");
}
