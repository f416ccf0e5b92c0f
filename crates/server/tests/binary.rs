//! Clients of the binary protocol: their request is refused, and the connection closed.

use std::sync::Mutex;

use net::CloseReason;
use net::sim::{at_every_cut, converse};
use server::options::Options;

/// A `get` of `key`: opcode 0, opaque 0xdeadbeef.
const GET: &[u8] = b"\x80\0\0\x03\0\0\0\0\0\0\0\x03\xde\xad\xbe\xef\0\0\0\0\0\0\0\0key";

const REFUSAL: &[u8] = b"\x81\0\0\0\0\0\0\x81\0\0\0\x0f\xde\xad\xbe\xef\0\0\0\0\0\0\0\0Unknown command";

fn worker() -> server::Worker {
    server::sim::worker(&Options::default(), 1_800_000_000_000, 1)
}

#[test]
fn a_request_of_the_binary_protocol_is_refused_wherever_it_is_cut() {
    let heard = at_every_cut(worker, GET);
    assert_eq!(heard.output.escape_ascii().to_string(), REFUSAL.escape_ascii().to_string());
    assert_eq!(heard.closed, Some(CloseReason::Error));
}

#[test]
fn a_client_of_the_binary_protocol_is_closed_when_its_first_request_has_come() {
    let (header, body) = GET.split_at(24);
    let heard = converse(worker(), &[header]);
    assert_eq!((heard.output.as_slice(), heard.closed), (REFUSAL, None));
    let heard = converse(worker(), &[header, &body[..2]]);
    assert_eq!(heard.closed, None);
    // Input after the refused request is ignored, text included.
    let heard = converse(worker(), &[GET, GET, b"version\r\n"]);
    assert_eq!((heard.output.as_slice(), heard.closed), (REFUSAL, Some(CloseReason::Error)));
}

#[test]
fn an_incomplete_header_gets_no_reply() {
    let heard = converse(worker(), &[&GET[..23]]);
    assert_eq!((heard.output.as_slice(), heard.closed), (&b""[..], None));
}

#[test]
fn after_a_text_command_the_byte_0x80_is_text() {
    let heard = converse(worker(), &[b"mn\r\n", GET, b"\r\n"]);
    assert_eq!((heard.output.as_slice(), heard.closed), (&b"MN\r\nERROR\r\n"[..], None));
}

#[test]
fn the_operator_gets_one_notice_and_a_count() {
    static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let notice = |line: &str| NOTICES.lock().expect("no panic").push(line.to_owned());
    let mut host = server::sim::host_with(&Options::default(), 1_800_000_000_000, 1, notice);
    for _ in 0..3 {
        let peer = host.connect();
        host.send(peer, GET);
        assert!(host.closed(peer).is_some());
    }
    let notices = NOTICES.lock().expect("no panic").clone();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("binary protocol"), "{notices:?}");
    let peer = host.connect();
    host.send(peer, b"stats\r\n");
    let statistics = String::from_utf8(host.take_output(peer)).expect("text");
    assert!(statistics.contains("STAT evenkeel_binary_refused 3\r\n"), "{statistics}");
}
