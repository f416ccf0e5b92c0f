//! A server's lines for the operator, where nobody reads them.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::full_pipe::full_pipe;
use crate::support::running::Running;
use crate::support::until::until;
use rustix::process::{Pid, Signal, kill_process};

/// A wait that fails a test, where it would not end otherwise.
const AT_MOST: Duration = Duration::from_secs(60);

#[test]
fn a_server_serves_reloads_and_ends_while_nobody_reads_its_lines() {
    let (_reader, writer) = full_pipe();
    // Free a moment ago, and nobody else's in the namespace of a test machine.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["serve", "-v", "-l", "127.0.0.1", "-p", &port.to_string()]);
    command.stdin(Stdio::null()).stderr(writer);
    let mut server = Running(command.spawn().expect("a process"));
    until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let pid = Pid::from_raw(server.0.id().cast_signed()).expect("a process");
    let client = TcpStream::connect(("127.0.0.1", port)).expect("a client");
    client.set_read_timeout(Some(AT_MOST)).expect("a time limit");
    let mut client = BufReader::new(client);
    for _ in 0..3 {
        kill_process(pid, Signal::HUP).expect("it is there");
        client.get_mut().write_all(b"version\r\n").expect("send");
        let mut line = String::new();
        client.read_line(&mut line).expect("a reply");
        assert!(line.starts_with("VERSION "), "{line}");
    }
    kill_process(pid, Signal::TERM).expect("it is there");
    until("it ends", || server.0.try_wait().expect("a child").is_some_and(|status| status.success()));
}
