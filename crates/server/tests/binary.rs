//! The binary protocol: replies wherever requests are cut, the choice of the protocol, hostile clients.

#[allow(dead_code, reason = "shared with other tests")]
mod packets;
mod simulated;

use net::CloseReason;
use net::sim::{Heard, Pace, PeerId, at_every_cut, converse};
use packets::*;
use server::options::{Auth, Options, Protocol};
use simulated::Server;

const MIB: usize = 1 << 20;

fn worker() -> server::Worker {
    worker_with(Options::default())
}

fn worker_with(options: Options) -> server::Worker {
    server::sim::worker(&options, 1_800_000_000_000, 1)
}

/// Replies to `requests`, which must not depend on cuts.
#[track_caller]
fn check(requests: &[Vec<u8>], expected: &str) {
    check_with(Options::default, requests, expected, None);
}

#[track_caller]
fn check_with(
    options: impl Fn() -> Options,
    requests: &[Vec<u8>],
    expected: &str,
    closed: Option<CloseReason>,
) {
    let heard = at_every_cut(|| worker_with(options()), &requests.concat());
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(show(&heard.output), expected.join("\n"));
    assert_eq!(heard.closed, closed);
}

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

/// All pending output for `peer`.
fn take(server: &mut Server, peer: PeerId) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let output = server.host.take_output(peer);
        if output.is_empty() {
            return all;
        }
        all.extend_from_slice(&output);
    }
}

/// Names and values of a list of statistics, without its end.
fn statistics(output: &[u8]) -> Vec<(String, String)> {
    let (mut rest, mut list) = (output, Vec::new());
    loop {
        let (reply, behind) = read(rest).expect("a whole reply");
        assert_eq!((reply.opcode, reply.status, reply.opaque, reply.cas), (STAT, 0, 0xdead_beef, 0));
        if reply.key.is_empty() && reply.value.is_empty() {
            assert_eq!(behind, b"", "an empty packet is the last one");
            return list;
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.into()).expect("text");
        list.push((text(reply.key), text(reply.value)));
        rest = behind;
    }
}

#[test]
fn statistics_are_those_of_the_text_protocol() {
    let mut server = Server::new(&Options { track_sizes: true, ..Options::default() });
    let (text, peer) = (server.host.connect(), server.host.connect());
    server.ask(text, "stats detail on\r\n");
    server.set(text, "a:b", "value");
    for name in ["", "settings", "items", "slabs", "sizes"] {
        let lines = server.ask(text, &format!("stats {name}\r\n"));
        server.host.send(peer, &packet(STAT, b"", name.as_bytes(), b""));
        let list = statistics(&take(&mut server, peer));
        let passing = ["rusage_", "bytes", "curr_items", "time", "uptime"];
        let comparable = |line: &str| !passing.iter().any(|name| line.starts_with(name));
        let theirs: Vec<&str> = lines
            .lines()
            .filter_map(|line| line.strip_prefix("STAT "))
            .filter(|line| comparable(line))
            .collect();
        let ours: Vec<String> = list
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .filter(|line| comparable(line))
            .collect();
        assert!(ours.len() > 1 || name == "sizes", "{name}");
        assert_eq!(ours, theirs, "{name}");
    }
    server.host.send(peer, &packet(STAT, b"", b"detail dump", b""));
    let list = statistics(&take(&mut server, peer));
    assert_eq!(list, [("detailed".to_owned(), "PREFIX a get 0 hit 0 set 1 del 0\r\nEND\r\n".to_owned())]);
    for name in ["reset", "detail off"] {
        server.host.send(peer, &packet(STAT, b"", name.as_bytes(), b""));
        assert_eq!(statistics(&take(&mut server, peer)), []);
    }
    for name in ["bogus", "conns", "cachedump 1 1", "detail"] {
        server.host.send(peer, &packet(STAT, b"", name.as_bytes(), b""));
        assert_eq!(show(&take(&mut server, peer)), "10 01 Not found", "{name}");
    }
}

/// Counters, without those of bytes, connections and time.
fn counters(server: &mut Server) -> Vec<String> {
    let peer = server.host.connect();
    let all = server.ask(peer, "stats\r\n");
    let counts = ["cmd_", "get_", "delete_", "incr_", "decr_", "cas_", "touch_", "store_", "total_items"];
    all.lines()
        .filter(|line| counts.iter().any(|name| line.starts_with(&format!("STAT {name}"))))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_request_counts_and_is_logged_as_its_twin_in_text() {
    let twins: &[(&str, Vec<u8>)] = &[
        ("get k\r\n", get("k")),
        ("get none\r\n", get("none")),
        ("gat 9 k\r\n", packet(GAT, &[0, 0, 0, 9], b"k", b"")),
        ("gat 9 none\r\n", packet(GATKQ, &[0, 0, 0, 9], b"none", b"")),
        ("touch k 9\r\n", packet(TOUCH, &[0, 0, 0, 9], b"k", b"")),
        ("touch none 9\r\n", packet(TOUCH, &[0, 0, 0, 9], b"none", b"")),
        ("set k 0 0 1\r\nv\r\n", set("k", b"v")),
        ("set k 0 0 1\r\nv\r\n", packet(SETQ, &stored(0, 0), b"k", b"v")),
        ("add k 0 0 1\r\nv\r\n", packet(ADD, &stored(0, 0), b"k", b"v")),
        ("replace none 0 0 1\r\nv\r\n", packet(REPLACE, &stored(0, 0), b"none", b"v")),
        ("append k 0 0 1\r\nv\r\n", packet(APPEND, b"", b"k", b"v")),
        ("prepend none 0 0 1\r\nv\r\n", packet(PREPEND, b"", b"none", b"v")),
        ("cas k 0 0 1 1\r\nv\r\n", with_cas(SET, &stored(0, 0), b"k", b"v", 1)),
        ("cas none 0 0 1 1\r\nv\r\n", with_cas(SET, &stored(0, 0), b"none", b"v", 1)),
        ("delete k\r\n", packet(DELETE, b"", b"k", b"")),
        ("delete none\r\n", packet(DELETEQ, b"", b"none", b"")),
        ("incr n 1\r\n", packet(INCREMENT, &counted(1, 0, 0), b"n", b"")),
        ("decr none 1\r\n", packet(DECREMENT, &counted(1, 0, u32::MAX), b"none", b"")),
        ("flush_all\r\n", packet(FLUSH, b"", b"", b"")),
        ("set k 0 0 2000000\r\n", header(SET, 1, 8, 2_000_009, 0).into_iter().chain(*b"12345678k").collect()),
    ];
    for (text, binary) in twins {
        let mut outcomes = [text.as_bytes(), binary].map(|request| {
            let mut server = Server::new(&Options::default());
            let watcher = server.host.connect();
            let peer = server.host.connect();
            server.ask(peer, "set k 0 0 1\r\nv\r\nset n 0 0 1\r\n5\r\n");
            server.ask(watcher, "watch fetchers mutations deletions\r\n");
            let peer = server.host.connect();
            server.host.send(peer, request);
            server.host.advance(100);
            let log = server.take(watcher);
            let log: Vec<String> = log
                .lines()
                .filter(|line| line.contains("type="))
                .map(|line| line[line.find("type=").expect("it is there")..].to_owned())
                .collect();
            (log, counters(&mut server))
        });
        let (binary, text_twin) = (std::mem::take(&mut outcomes[1]), std::mem::take(&mut outcomes[0]));
        assert_eq!(binary, text_twin, "{text}");
        assert!(!binary.0.is_empty() || text.starts_with("flush"), "{text}");
    }
}

#[test]
fn announced_values_take_no_memory() {
    let options = Options { memory_limit_bytes: 64 << 20, threads: 1, ..Options::default() };
    let mut server = Server::new(&options);
    let honest = server.host.connect();
    (0..1000).for_each(|number| server.set(honest, &format!("k{number}"), "v"));
    let evictions = |server: &mut Server| {
        let all = server.ask(honest, "stats\r\n");
        all.lines().find(|line| line.starts_with("STAT evictions ")).expect("it is there").to_owned()
    };
    let before = evictions(&mut server);
    let peers: Vec<PeerId> = (0..100)
        .map(|number| {
            let peer = server.host.connect();
            let value = vec![b'v'; if number % 2 == 0 { 0 } else { 500_000 }];
            let mut request = header(SET, 1, 8, 1_000_009, 0);
            request.extend(*b"12345678k");
            server.host.send(peer, &[request, value].concat());
            peer
        })
        .collect();
    assert_eq!(evictions(&mut server), before);
    (0..1000).for_each(|number| server.set(honest, &format!("more{number}"), "v"));
    // Those that make no progress are refused, and go on.
    (0..60).for_each(|_| server.host.advance(1000));
    for peer in peers.iter().skip(1).step_by(2) {
        assert_eq!(show(&take(&mut server, *peer)), "01 82 Out of memory");
        server.host.send(*peer, &[vec![b'v'; 500_000], get("none")].concat());
        assert_eq!(show(&take(&mut server, *peer)), "00 01 Not found");
    }
}

/// A client that sends `requests` over and over and does not read; returns how many bytes wait for it at most.
fn flood(requests: &[u8], rounds: usize) -> usize {
    let mut server = Server::new(&Options::default());
    server.host.set_pace(Pace { window: 1000, ..Pace::default() });
    let honest = server.host.connect();
    let peer = server.host.connect();
    server.set(honest, "k", &"v".repeat(900));
    let mut most = 0;
    for _ in 0..rounds {
        server.host.send(peer, requests);
        most = most.max(server.host.pending_len(peer));
    }
    assert!(server.ask(honest, "get none\r\n").ends_with("END\r\n"));
    most
}

#[test]
fn clients_that_do_not_read_have_a_bounded_output() {
    let quiet = packet(GETQ, b"", b"k", b"").repeat(1000);
    assert!(flood(&quiet, 300) < 70_000);
    let missing = [packet(GETQ, b"", b"none", b""), packet(SETQ, &stored(0, 0), b"k", b"v")].concat();
    assert_eq!(flood(&missing.repeat(1000), 300), 0);
    assert!(flood(&packet(0x19, b"", b"none", b"v").repeat(1000), 100) < 70_000);
    assert!(flood(&packet(STAT, b"", b"", b"").repeat(1000), 10) < 70_000);
    assert!(flood(&packet(0xff, b"", b"", b"").repeat(1000), 10) < 70_000);
}

#[test]
fn random_conversations_do_not_depend_on_cuts() {
    for seed in 0..150 {
        let mut writer = PacketWriter::new(seed);
        let input = writer.requests(40).concat();
        let whole: Heard = server::sim::hear([&input[..]], Pace::default());
        for (round, longest) in [3, 40, 3000, 100_000].into_iter().enumerate() {
            let mut pieces = Vec::new();
            let mut rest = &input[..];
            let mut cuts = stdx::prng::Prng::new(seed);
            while !rest.is_empty() {
                let longest = if pieces.len() > 2000 { 100_000 } else { longest };
                let (piece, behind) = rest.split_at((1 + cuts.below(longest) as usize).min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            let window = [usize::MAX, 1000, 100, 70_000][round];
            let heard = server::sim::hear(pieces, Pace { window, ..Pace::default() });
            assert_eq!(heard.closed, whole.closed, "seed {seed}, round {round}");
            assert!(heard == whole, "seed {seed}, round {round}");
        }
    }
}
