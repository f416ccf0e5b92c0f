//! Replies, wherever the requests are cut.

use net::CloseReason;
use net::sim::converse;
use server::options::Options;

use crate::binary::{check, check_with, take, worker};
use crate::packets::*;
use crate::simulated::Server;

const MIB: usize = 1 << 20;

#[test]
fn values_are_stored_and_found() {
    let key = b"k\r\n \x80";
    check(
        &[
            packet(SET, &stored(0xabcd, 0), key, b"v\r\n"),
            packet(GET, b"", key, b""),
            packet(GETK, b"", key, b""),
            get("none"),
            packet(GETK, b"", b"none", b""),
            packet(GETQ, b"", b"none", b""),
            packet(GETKQ, b"", b"none", b""),
            packet(GETKQ, b"", key, b""),
            packet(DELETE, b"", key, b""),
            packet(DELETE, b"", key, b""),
            packet(GETQ, b"", key, b""),
            packet(NOOP, b"", b"", b""),
        ],
        r"01 00 cas
          00 00 0000abcd v\r\n cas
          0c 00 0000abcd key=k\r\n \x80 v\r\n cas
          00 01 Not found
          0c 01 key=none
          0d 00 0000abcd key=k\r\n \x80 v\r\n cas
          04 00
          04 01 Not found
          0a 00",
    );
}

#[test]
fn stores_have_their_conditions() {
    check(
        &[
            packet(REPLACE, &stored(0, 0), b"k", b"1"),
            packet(ADD, &stored(0, 0), b"k", b"2"),
            packet(ADD, &stored(0, 0), b"k", b"3"),
            packet(REPLACE, &stored(0, 0), b"k", b""),
            packet(APPEND, b"", b"k", b"4"),
            packet(PREPEND, b"", b"k", b"5"),
            packet(APPEND, b"", b"none", b"6"),
            get("k"),
            with_cas(SET, &stored(0, 0), b"k", b"7", 1),
            with_cas(SET, &stored(0, 0), b"none", b"8", 1),
            with_cas(ADD, &stored(0, 0), b"k", b"9", 1),
            with_cas(APPEND, b"", b"k", b"9", 1),
            with_cas(DELETE, b"", b"k", b"", 1),
            get("k"),
        ],
        "03 01 Not found
         02 00 cas
         02 02 Data exists for key.
         03 00 cas
         0e 00 cas
         0f 00 cas
         0e 05 Not stored.
         00 00 00000000 54 cas
         01 02 Data exists for key.
         01 01 Not found
         02 02 Data exists for key.
         0e 02 Data exists for key.
         04 02 Data exists for key.
         00 00 00000000 54 cas",
    );
}

#[test]
fn without_cas_uniques_stores_ignore_them() {
    check_with(
        || Options { cas: false, ..Options::default() },
        &[
            with_cas(SET, &stored(0, 0), b"k", b"1", 5),
            with_cas(REPLACE, &stored(0, 0), b"k", b"2", 5),
            with_cas(INCREMENT, &counted(1, 0, 0), b"k", b"", 5),
            with_cas(DELETE, b"", b"k", b"", 5),
            get("k"),
        ],
        "01 00
         03 00
         05 02 Data exists for key.
         04 02 Data exists for key.
         00 00 00000000 2",
        None,
    );
}

#[test]
fn a_cas_unique_from_a_reply_stores_once() {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    server.host.send(peer, &set("k", b"1"));
    let output = server.host.take_output(peer);
    let cas = read(&output).expect("a reply").0.cas;
    let again = with_cas(SET, &stored(0, 0), b"k", b"2", cas);
    server.host.send(peer, &[&again[..], &again, &get("k")].concat());
    let replies = show(&server.host.take_output(peer));
    assert_eq!(replies, "01 00 cas\n01 02 Data exists for key.\n00 00 00000000 2 cas");
}

#[test]
fn quiet_requests_are_answered_in_case_of_an_error_only() {
    check(
        &[
            packet(SETQ, &stored(0, 0), b"k", b"1"),
            packet(0x12, &stored(0, 0), b"k", b"2"),
            packet(0x13, &stored(0, 0), b"k", b"3"),
            packet(0x13, &stored(0, 0), b"none", b"3"),
            packet(0x19, b"", b"k", b"4"),
            packet(0x1a, b"", b"none", b"4"),
            packet(0x15, &counted(1, 0, 0), b"k", b""),
            packet(0x16, &counted(1, 0, u32::MAX), b"none", b""),
            packet(0x16, &counted(5, 0, 0), b"k", b""),
            packet(GETQ, b"", b"k", b""),
            packet(0x1e, &[0, 0, 0, 9], b"k", b""),
            packet(GATKQ, &[0, 0, 0, 9], b"none", b""),
            packet(DELETEQ, b"", b"k", b""),
            packet(DELETEQ, b"", b"k", b""),
            packet(0x18, b"", b"", b""),
            packet(0x18, &[0, 0, 0, 9], b"", b""),
        ],
        "12 02 Data exists for key.
         13 01 Not found
         1a 05 Not stored.
         16 01 Not found
         09 00 00000000 30 cas
         1e 00 00000000 30 cas
         14 01 Not found",
    );
}

#[test]
fn numbers_are_created_unless_the_expiry_forbids_it() {
    check(
        &[
            packet(INCREMENT, &counted(1, 5, u32::MAX), b"n", b""),
            packet(INCREMENT, &counted(1, 258, 0), b"n", b""),
            packet(INCREMENT, &counted(1, 5, 0), b"n", b""),
            packet(DECREMENT, &counted(1000, 5, u32::MAX), b"n", b""),
            get("n"),
            with_cas(INCREMENT, &counted(1, 5, 0), b"n", b"", 1),
            set("text", b"text"),
            packet(INCREMENT, &counted(1, 5, 0), b"text", b""),
        ],
        r"05 01 Not found
          05 00 \x00\x00\x00\x00\x00\x00\x01\x02 cas
          05 00 \x00\x00\x00\x00\x00\x00\x01\x03 cas
          06 00 \x00\x00\x00\x00\x00\x00\x00\x00 cas
          00 00 00000000 0   cas
          05 02 Data exists for key.
          01 00 cas
          05 06 Non-numeric server-side value for incr or decr",
    );
}

#[test]
fn touch_and_gat_return_the_flags() {
    check(
        &[
            packet(SET, &stored(7, 0), b"k", b"v"),
            packet(TOUCH, &[0, 0, 0, 9], b"k", b""),
            packet(TOUCH, &[0, 0, 0, 9], b"none", b""),
            packet(GAT, &[0, 0, 0, 9], b"k", b""),
            packet(0x23, &[0, 0, 0, 9], b"none", b""),
            packet(GAT, &[0, 0, 0, 9], b"none", b""),
        ],
        "01 00 cas
         1c 00 00000007 cas
         1c 01 Not found
         1d 00 00000007 v cas
         23 01 key=none
         1d 01 Not found",
    );
}

#[test]
fn times_of_items_pass() {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    let short = packet(SET, &stored(0, 2), b"short", b"v");
    // To memcached, no time is negative here: this is the year 2106.
    let long = packet(SET, &stored(0, u32::MAX), b"long", b"v");
    let flush = packet(FLUSH, &[0, 0, 0, 9], b"", b"");
    server.host.send(peer, &[&short[..], &long, &flush].concat());
    assert_eq!(show(&server.host.take_output(peer)), "01 00 cas\n01 00 cas\n08 00");
    let gets = [get("short"), get("long")].concat();
    server.host.advance(3000);
    server.host.send(peer, &gets);
    assert_eq!(show(&server.host.take_output(peer)), "00 01 Not found\n00 00 00000000 v cas");
    server.host.advance(8000);
    server.host.send(peer, &gets);
    assert_eq!(show(&server.host.take_output(peer)), "00 01 Not found\n00 01 Not found");
}

#[test]
fn an_unknown_request_is_dropped_whole() {
    check(
        &[packet(0x1b, b"ex", b"key", b"and a value"), packet(0xff, b"", b"", b""), get("none")],
        "1b 81 Unknown command
         ff 81 Unknown command
         00 01 Not found",
    );
}

#[test]
fn lengths_that_lie_close_the_connection() {
    let closed = Some(CloseReason::Error);
    let lies = [
        (header(GET, 3, 0, 2, 0), "key", "00 81 Unknown command"),
        (header(SET, 0, 8, 8, 0), "12345678", "01 04 Invalid arguments"),
        (header(GET, 251, 0, 251, 0), &"k".repeat(251), "00 04 Invalid arguments"),
        (header(NOOP, 0, 0, 1, 0), "", "0a 04 Invalid arguments"),
        (header(0xff, 300, 0, 300, 0), &"k".repeat(300), "ff 04 Invalid arguments"),
    ];
    for (header, rest, expected) in lies {
        let request = [&header[..], rest.as_bytes()].concat();
        check_with(
            Options::default,
            &[get("none"), request, get("none")],
            &format!("00 01 Not found\n{expected}"),
            closed,
        );
    }
    // The longest key is refused when it has arrived, as in memcached.
    let long = [header(GET, u16::MAX, 255, u32::MAX, 0), vec![0x80; 65_535 + 255]].concat();
    let heard = converse(worker(), &[&long[..long.len() - 1]]);
    assert_eq!((heard.output.as_slice(), heard.closed), (&b""[..], None));
    let heard = converse(worker(), &[&long]);
    assert_eq!((show(&heard.output).as_str(), heard.closed), ("00 04 Invalid arguments", closed));
}

#[test]
fn what_is_no_request_closes_the_connection() {
    let closed = Some(CloseReason::Error);
    let mut reply = get("k");
    reply[0] = 0x81;
    for other in [b"version\r\n".to_vec(), reply] {
        check_with(Options::default, &[get("none"), other, get("none")], "00 01 Not found", closed);
    }
}

#[test]
fn quit_closes_the_connection() {
    let closed = Some(CloseReason::Normal);
    check_with(Options::default, &[packet(QUIT, b"", b"", b""), get("k")], "07 00", closed);
    check_with(Options::default, &[packet(QUITQ, b"", b"", b""), get("k")], "", closed);
}

#[test]
fn large_values_arrive_in_pieces() {
    for len in [16_384, 32_767, 32_768, 300_000] {
        let value: Vec<u8> = (0..len).map(|at: usize| (at * 7 / 5) as u8).collect();
        let more = vec![b'+'; len];
        let requests =
            [set("k", &value), packet(APPEND, b"", b"k", &more), get("k"), packet(NOOP, b"", b"", b"")]
                .concat();
        let whole = converse(worker(), &[&requests]);
        for piece in [1000, 7777, 65_536] {
            let heard = converse(worker(), &requests.chunks(piece).collect::<Vec<_>>());
            assert!(heard == whole, "{len} in pieces of {piece}");
        }
        let replies = whole.output;
        let (reply, rest) = read(&replies).expect("set");
        assert_eq!((reply.opcode, reply.status), (SET, 0));
        let (reply, rest) = read(rest).expect("append");
        assert_eq!((reply.opcode, reply.status), (APPEND, 0));
        let (reply, rest) = read(rest).expect("get");
        assert!(reply.value == [value, more].concat(), "{len}");
        assert_eq!(show(rest), "0a 00");
    }
}

#[test]
fn a_large_append_is_joined_in_steps() {
    let options = Options { item_size_max_bytes: 32 << 20, threads: 1, ..Options::default() };
    let mut server = Server::new(&options);
    let peer = server.host.connect();
    let value = vec![b'v'; 5 * MIB];
    let requests = [
        set("k", &value),
        packet(APPEND, b"", b"k", b"end"),
        with_cas(PREPEND, b"", b"k", b"x", 1),
        get("k"),
    ];
    server.host.send(peer, &requests.concat());
    let replies = take(&mut server, peer);
    let (first, rest) = read(&replies).expect("set");
    let (second, rest) = read(rest).expect("append");
    let (third, rest) = read(rest).expect("prepend");
    let (value, _) = read(rest).expect("get");
    assert_eq!([first.status, second.status, third.status], [0, 0, 2]);
    assert!(value.value.len() == 5 * MIB + 3 && value.value.ends_with(b"vend"));
}

#[test]
fn a_value_that_is_too_large_is_dropped_and_a_set_removes_the_old_one() {
    let value = vec![0x80; MIB + 1];
    for (opcode, left) in
        [(SET, "00 01 Not found"), (SETQ, "00 00 00000000 old cas"), (ADD, "00 00 00000000 old cas")]
    {
        let request = packet(opcode, &stored(0, 0), b"k", &value);
        let requests = [set("k", b"old"), request, get("k")].concat();
        let left = if opcode == SETQ { "00 01 Not found" } else { left };
        for piece in [requests.len(), 5000] {
            let heard = converse(worker(), &requests.chunks(piece).collect::<Vec<_>>());
            let expected = format!("01 00 cas\n{opcode:02x} 03 Too large.\n{left}");
            assert_eq!((show(&heard.output), heard.closed), (expected, None));
        }
    }
}
