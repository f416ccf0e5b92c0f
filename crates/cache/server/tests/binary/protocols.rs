//! The choice of the protocol, and logging in.

use net::CloseReason;
use net::sim::{at_every_cut, converse};
use server::options::{Auth, Options, Protocol};

use crate::binary::{check, check_with, worker, worker_with};
use crate::packets::*;

#[test]
fn after_a_text_command_the_first_byte_of_a_packet_is_text() {
    let heard = converse(worker(), &[b"mn\r\n", &get("key"), b"\r\n"]);
    assert_eq!((heard.output.as_slice(), heard.closed), (&b"MN\r\nERROR\r\n"[..], None));
}

#[test]
fn with_ascii_every_connection_speaks_text() {
    let ascii = || Options { protocol: Protocol::Ascii, ..Options::default() };
    let heard = at_every_cut(|| worker_with(ascii()), &[&get("key")[..], b"\r\n"].concat());
    assert_eq!((heard.output.as_slice(), heard.closed), (&b"ERROR\r\n"[..], None));
}

#[test]
fn with_binary_text_closes_the_connection() {
    let binary = || Options { protocol: Protocol::Binary, ..Options::default() };
    check_with(binary, &[b"get key\r\n".to_vec()], "", Some(CloseReason::Error));
    check_with(binary, &[get("key")], "00 01 Not found", None);
}

fn with_users(sasl: bool) -> Options {
    let users = vec![("me".to_owned(), "secret".to_owned()), ("you".to_owned(), "other".to_owned())];
    let auth = Some(Auth { file: "users".into(), users });
    let protocol = if sasl { Protocol::Binary } else { Protocol::Auto };
    Options { auth, sasl, protocol, ..Options::default() }
}

#[test]
fn with_users_of_the_text_protocol_a_packet_is_refused() {
    check_with(
        || with_users(false),
        &[get("key"), get("key")],
        "00 20 Auth failure.",
        Some(CloseReason::Error),
    );
}

/// What the operator is told, from a server with these options and three clients that send `bytes`.
fn notices(bytes: &[u8]) -> (Vec<String>, String) {
    static NOTICES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let notice = |line: &str| NOTICES.lock().expect("no panic").push(line.to_owned());
    let mut host = server::sim::host_with(&with_users(false), 1_800_000_000_000, 1, notice);
    for _ in 0..3 {
        let peer = host.connect();
        host.send(peer, bytes);
        assert!(host.closed(peer).is_some());
    }
    let peer = host.connect();
    host.send(peer, b"set a 0 0 9\r\nme secret\r\nstats\r\n");
    let statistics = String::from_utf8(host.take_output(peer)).expect("text");
    (NOTICES.lock().expect("no panic").clone(), statistics)
}

#[test]
fn the_operator_gets_one_notice_and_a_count() {
    let (notices, statistics) = notices(&get("key"));
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("log in only with -S"), "{notices:?}");
    assert!(statistics.contains("STAT evenkeel_binary_refused 3\r\n"), "{statistics}");
}

#[test]
fn sasl_comes_before_everything_but_version() {
    let auth = |credentials: &[u8]| packet(SASL_AUTH, b"", b"PLAIN", credentials);
    let mechanisms = packet(SASL_LIST, b"", b"", b"");
    check_with(
        || with_users(true),
        &[
            mechanisms.clone(),
            auth(b"\0me\0wrong"),
            auth(b"\0me\0other"),
            packet(SASL_AUTH, b"", b"CRAM-MD5", b"\0me\0secret"),
            packet(SASL_STEP, b"", b"PLAIN", b"\0me\0secret"),
            packet(SASL_AUTH, b"", &[b'M'; 33], b"x"),
            auth(b"\0me\0secret"),
            get("key"),
            auth(b""),
            packet(SASL_STEP, b"", b"PLAIN", b"you\0you\0other"),
            set("key", b"v"),
            auth(b"garbage"),
            get("key"),
            get("key"),
        ],
        "20 00 PLAIN
         21 20 Auth failure.
         21 20 Auth failure.
         21 20 Auth failure.
         22 20 Auth failure.
         21 04 Invalid arguments
         21 00 Authenticated
         00 01 Not found
         21 21
         22 00 Authenticated
         01 00 cas
         21 20 Auth failure.
         00 20 Auth failure.",
        Some(CloseReason::Error),
    );
    for refused in [
        set("key", b"value"),
        packet(NOOP, b"", b"", b""),
        packet(0xff, b"", b"", b""),
        header(NOOP, 0, 0, 1, 0),
    ] {
        let expected = format!("{:02x} 20 Auth failure.", refused[1]);
        check_with(
            || with_users(true),
            &[refused, auth(b"\0me\0secret")],
            &expected,
            Some(CloseReason::Error),
        );
    }
}

#[test]
fn without_sasl_its_opcodes_are_unknown() {
    check(
        &[packet(SASL_LIST, b"", b"", b""), packet(SASL_AUTH, b"", b"PLAIN", b"\0me\0secret"), get("none")],
        "20 81 Unknown command
         21 81 Unknown command
         00 01 Not found",
    );
}

#[test]
fn credentials_are_bounded() {
    let long = packet(SASL_AUTH, b"", b"PLAIN", &vec![0; 100_000]);
    let requests = [&long[..], &packet(VERSION, b"", b"", b"")].concat();
    for piece in [requests.len(), 3000] {
        let heard = converse(worker_with(with_users(true)), &requests.chunks(piece).collect::<Vec<_>>());
        let shown = show(&heard.output);
        assert!(shown.starts_with("21 03 Too large.\n0b 00 1.6.45") && heard.closed.is_none(), "{shown}");
    }
}
