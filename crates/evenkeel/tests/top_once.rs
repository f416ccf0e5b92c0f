//! `evenkeel top --once`: it ends, and its status says whether figures are missing.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel")).arg("top").args(arguments).output().expect("evenkeel")
}

/// A program that gives everybody the same answer.
fn repeating(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a client");
            let mut lines = BufReader::new(client.try_clone().expect("a descriptor")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let len = answer.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
            // A client that has gone is no failure of this one.
            let _ = client.write_all(format!("{head}{answer}").as_bytes());
        }
    });
    address
}

#[test]
fn a_server_that_cannot_be_reached_is_no_success() {
    for arguments in [&["--once", "127.0.0.1:1"][..], &["--once", "--json", "127.0.0.1:1"]] {
        let output = top(arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("unreachable"), "{said}");
    }
}

#[test]
fn it_ends_although_a_servers_uptime_stands_still() {
    let address = repeating("{\"uptime_us\": 5000000}");
    let output = top(&["--once", &address]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("its uptime stands still"), "{said}");
}
