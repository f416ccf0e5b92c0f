//! Runs in the binary protocol against a server that answers with whatever packets a test says.

use crate::support::run;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

const HEADER_LEN: usize = 24;

/// A reply to the request with this header: opcode, status and number are the request's, or what the test changes.
fn reply(header: &[u8; HEADER_LEN], status: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut reply = vec![0; HEADER_LEN];
    reply[0] = 0x81;
    reply[1] = header[1];
    reply[3] = key.len() as u8;
    reply[7] = status;
    reply[8..12].copy_from_slice(&((key.len() + value.len()) as u32).to_be_bytes());
    reply[12..16].copy_from_slice(&header[12..16]);
    [&reply, key, value].concat()
}

/// The reply to a request, by its header and its body.
type Script = fn(&[u8; HEADER_LEN], &[u8]) -> Vec<u8>;

/// Starts a server that sends at most `piece` bytes at a time; returns `--server` and its address.
fn server(piece: usize, script: Script) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A run ends by closing its connections: then reading or writing fails, and that ends the thread.
            thread::spawn(move || -> std::io::Result<()> {
                stream.set_nodelay(true)?;
                loop {
                    let mut header = [0; HEADER_LEN];
                    stream.read_exact(&mut header)?;
                    let len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
                    let mut body = vec![0; len as usize];
                    stream.read_exact(&mut body)?;
                    for part in script(&header, &body).chunks(piece) {
                        stream.write_all(part)?;
                    }
                }
            });
        }
    });
    format!("--server {address} --protocol binary --keys 9 --key-size 1 --warm-up 0")
}

/// Every get finds a value of five bytes, and every `noop` is answered.
const FINDS: Script = |header, key| match header[1] {
    0x0a => reply(header, 0, b"", b""),
    // getk, getkq
    0x0c | 0x0d => reply(header, 0, key, b"value"),
    _ => reply(header, 0, b"", b"value"),
};

#[test]
fn replies_in_pieces_are_understood() {
    for piece in [1, 7, 25, usize::MAX] {
        for line in ["", "--depth 5", "--multiget 3 --depth 2", "--multiget 3 --backfill"] {
            let line = format!("{} --connections 2 --requests 100 {line}", server(piece, FINDS));
            let summary = run(&line).expect(&line);
            assert_eq!((summary.misses, summary.errors), (0, 0), "{line}\n{summary}");
            assert_eq!(summary.hits, summary.keys_asked, "{line}\n{summary}");
        }
    }
}

#[test]
fn values_without_bytes_are_values() {
    let empty: Script = |header, _| reply(header, 0, b"", b"");
    let line = format!("{} --connections 2 --depth 3 --requests 100", server(usize::MAX, empty));
    let summary = run(&line).expect(&line);
    assert_eq!((summary.hits, summary.misses), (summary.keys_asked, 0), "{line}\n{summary}");
}

#[test]
fn misses_and_errors_are_counted() {
    let none: Script = |header, key| reply(header, 1, key, b"");
    let line = format!("{} --requests 100", server(usize::MAX, none));
    let summary = run(&line).expect(&line);
    assert_eq!((summary.misses, summary.errors), (summary.keys_asked, 0), "{summary}");
    // No memory; and a status that memcached does not have.
    for (status, shown) in [(0x82, "Out of memory"), (0x99, "unknown status")] {
        let full: Script = match status {
            0x82 => |header, _| reply(header, 0x82, b"", b"Out of memory"),
            _ => |header, _| reply(header, 0x99, b"", b"?"),
        };
        let line = format!("{} --gets 0.5 --requests 100", server(usize::MAX, full));
        let summary = run(&line).expect(&line);
        assert_eq!((summary.errors, summary.hits), (summary.requests, 0), "{summary}");
        assert_eq!(summary.error_lines[0].line, shown, "{summary}");
    }
}

#[test]
fn replies_to_other_requests_end_the_run() {
    #[track_caller]
    fn ends(script: Script, line: &str, expected: &str) {
        let line = format!("{} --duration 5m --fail-fast {line}", server(usize::MAX, script));
        // A run that has had replies has a result, which says why it ended.
        let error = match run(&line) {
            Err(error) => error,
            Ok(summary) => summary.failure.unwrap_or_else(|| panic!("{line}: it did not fail")),
        };
        assert!(error.starts_with("understand the reply ") && error.contains(expected), "{line}\n{error}");
    }
    let one_too_high: Script = |header, _| {
        let mut reply = reply(header, 0, b"", b"value");
        reply[15] += 1;
        reply
    };
    ends(one_too_high, "", "number 1\": expected a value or Not found, to a get in a packet");
    let other_opcode: Script = |header, _| {
        let mut reply = reply(header, 0, b"", b"");
        reply[1] ^= 1;
        reply
    };
    ends(other_opcode, "", "opcode 0x01, status 0x00");
    ends(other_opcode, "--gets 0", "expected a packet with the opcode and the number of the request");
    let twice: Script = |header, _| reply(header, 0, b"", b"value").repeat(2);
    ends(twice, "--connections 1", "expected ");
    let text: Script = |_, _| b"ERROR Too many open connections\r\n".to_vec();
    ends(text, "", "expected a packet, which begins with the byte 0x81");
    let lies: Script = |header, _| {
        let mut reply = reply(header, 0, b"", b"");
        reply[4] = 4;
        reply
    };
    ends(lies, "", "expected a packet whose extras and key are within its body");
}
