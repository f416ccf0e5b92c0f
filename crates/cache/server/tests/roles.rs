//! Roles: what clients may do by the names in their certificates, in text, meta commands and the binary protocol.

use crate::packets;

use std::sync::Arc;

use crate::packets::{
    APPEND, DELETE, FLUSH, GAT, GETKQ, INCREMENT, NOOP, SETQ, STAT, TOUCH, VERSION, packet,
};
use crate::simulated::Server;
use net::Security;
use net::sim::PeerId;
use server::options::{Auth, Options};
use tls::{Identity, Role};

const REFUSED: &str = "CLIENT_ERROR not permitted by role\r\n";

/// A client of this name and role.
fn connect(server: &mut Server, name: &str, role: Role) -> PeerId {
    let identity = Some(Arc::new(Identity { name: name.into(), role }));
    let security = Security {
        version: "TLSv1.3",
        suite: "TLS13_AES_128_GCM_SHA256",
        resumed: false,
        in_kernel: false,
        identity,
    };
    server.host.connect_with(Some(Arc::new(security)))
}

/// Everything but what stops the server.
fn options() -> Options {
    Options { detail: true, ..Options::default() }
}

/// Requests, each with the least role that may make it.
const REQUESTS: &[(Role, &str)] = &[
    (Role::Nothing, "version"),
    (Role::Nothing, "mn"),
    (Role::Nothing, "no such command"),
    (Role::Read, "get a"),
    (Role::Read, "gets a b c"),
    (Role::Read, "mg a s v t h l"),
    (Role::Read, "me a"),
    (Role::Read, "config get cluster"),
    (Role::Read, "get AmazonElastiCache:cluster"),
    (Role::Read, "stats"),
    (Role::Read, "stats items"),
    (Role::Read, "stats proxy"),
    (Role::Read, "stats slabs"),
    (Role::Read, "stats settings"),
    (Role::Write, "gat 10 a"),
    (Role::Write, "gats 10 a b"),
    (Role::Write, "touch a 10"),
    (Role::Write, "mg a T10"),
    (Role::Write, "mg a N10"),
    (Role::Write, "mg a R10 v"),
    (Role::Write, "set a 0 0 2\r\nhi"),
    (Role::Write, "append a 0 0 2\r\nhi"),
    (Role::Write, "cas a 0 0 2 1\r\nhi"),
    (Role::Write, "ms a 2\r\nhi"),
    (Role::Write, "md a"),
    (Role::Write, "ma a N0"),
    (Role::Write, "delete a"),
    (Role::Write, "incr a 1"),
    (Role::Admin, "flush_all"),
    (Role::Admin, "verbosity 1"),
    (Role::Admin, "shutdown"),
    (Role::Admin, "cache_memlimit 64"),
    (Role::Admin, "lru_crawler metadump all"),
    (Role::Admin, "slabs automove 0"),
    (Role::Admin, "lru mode flat"),
    (Role::Admin, "extstore free_memchunks 1 1"),
    (Role::Admin, "refresh_certs"),
    (Role::Admin, "watch fetchers"),
    (Role::Admin, "stats reset"),
    (Role::Admin, "stats detail dump"),
    (Role::Admin, "stats cachedump 1 0"),
    (Role::Admin, "stats conns"),
    (Role::Admin, "stats evenkeel tls"),
];

#[test]
fn a_role_may_make_its_requests_and_those_of_lower_ones() {
    for &(least, request) in REQUESTS {
        for role in [Role::Nothing, Role::Read, Role::Write, Role::Admin] {
            let mut server = Server::new(&options());
            let client = connect(&mut server, "cn:x", role);
            let reply = server.ask(client, &format!("{request}\r\n"));
            assert_eq!(reply == REFUSED, role < least, "{request} as {}: {reply}", role.word());
        }
        let mut server = Server::new(&options());
        let anyone = server.host.connect();
        assert_ne!(server.ask(anyone, &format!("{request}\r\n")), REFUSED, "{request} without a certificate");
    }
}

/// Replies to `requests` of a client with this role, which do not depend on where they were cut.
#[track_caller]
fn check(role: Role, requests: &str, expected: &str) {
    for piece in [1, 2, 3, 7, usize::MAX] {
        let mut server = Server::new(&options());
        let client = connect(&mut server, "cn:x", role);
        requests.as_bytes().chunks(piece).for_each(|piece| server.host.send(client, piece));
        assert_eq!(server.take(client), expected, "in pieces of {piece}");
    }
}

#[test]
fn a_refused_request_leaves_the_connection_in_order() {
    let set = "set a 0 0 14\r\nget b\r\nget c\r\n\r\n";
    check(Role::Read, &format!("{set}get a\r\n"), &format!("{REFUSED}END\r\n"));
    check(Role::Read, "ms a 7 q O1\r\nversion\r\nmg a\r\n", &format!("{REFUSED}EN\r\n"));
    let large = "v".repeat(100_000);
    check(Role::Read, &format!("set a 0 0 100000\r\n{large}\r\nmn\r\n"), &format!("{REFUSED}MN\r\n"));
    let pipeline = "get a\r\ndelete a\r\nget a\r\ntouch a 0\r\nmn\r\n";
    check(Role::Read, pipeline, &format!("END\r\n{REFUSED}END\r\n{REFUSED}MN\r\n"));
}

#[test]
fn who_expects_no_reply_gets_none() {
    let requests = "set a 0 0 2 noreply\r\nhi\r\ndelete a noreply\r\nflush_all noreply\r\nget a\r\n";
    check(Role::Read, requests, "END\r\n");
    check(Role::Nothing, requests, REFUSED);
}

#[test]
fn a_refused_request_changes_nothing() {
    let mut server = Server::new(&options());
    let writer = connect(&mut server, "cn:writer", Role::Write);
    server.set(writer, "a", "1");
    let reader = connect(&mut server, "cn:reader", Role::Read);
    for (_, request) in REQUESTS.iter().filter(|(least, _)| *least > Role::Read) {
        server.ask(reader, &format!("{request}\r\n"));
    }
    assert_eq!(server.ask(reader, "mg a v t f\r\n"), "VA 1 t-1 f0\r\n1\r\n");
}

/// A right follows from what a request does to the items, with any flag and with none.
#[test]
fn a_reader_changes_nothing_with_any_flag_of_mg() {
    let argument = |letter: u8| if b"OTNRECDFIMSJ".contains(&letter) { "9" } else { "" };
    for letter in (b'a'..=b'z').chain(b'A'..=b'Z').map(char::from) {
        let mut server = Server::new(&options());
        let writer = connect(&mut server, "cn:writer", Role::Write);
        let reader = connect(&mut server, "cn:reader", Role::Read);
        server.ask(writer, "ms stale 1 T100\r\nx\r\nms soon 1 T5\r\nx\r\nmd stale I T30\r\n");
        let facts = "mg soon u v s t c f\r\nmg absent u v\r\n";
        let before = server.ask(writer, facts);
        for key in ["stale", "soon", "absent"] {
            server.ask(reader, &format!("mg {key} v {letter}{}\r\n", argument(letter as u8)));
            server.ask(reader, &format!("mg {key} {letter}{}\r\n", argument(letter as u8)));
        }
        assert_eq!(server.ask(writer, facts), before, "{letter}");
        let won = server.ask(writer, "mg stale t\r\n");
        assert_eq!(won, "HD t30 X W\r\n", "{letter}: the right to recache was taken");
    }
}

#[test]
fn a_reader_of_a_stale_item_learns_whether_a_writer_recaches_it() {
    let mut server = Server::new(&options());
    let writer = connect(&mut server, "cn:writer", Role::Write);
    let reader = connect(&mut server, "cn:reader", Role::Read);
    server.ask(writer, "ms k 1\r\nx\r\nmd k I T30\r\n");
    assert_eq!(server.ask(reader, "mg k v\r\n"), "VA 1 X\r\nx\r\n");
    assert_eq!(server.ask(writer, "mg k v\r\n"), "VA 1 X W\r\nx\r\n");
    assert_eq!(server.ask(reader, "mg k v\r\n"), "VA 1 Z X\r\nx\r\n");
}

#[test]
fn a_get_of_endless_keys_ends_a_connection_without_a_role() {
    let mut server = Server::new(&options());
    let client = connect(&mut server, "cn:x", Role::Nothing);
    let keys = format!("get {}", "key ".repeat(2000));
    let reply = server.ask(client, &keys);
    assert_eq!(reply, REFUSED);
    assert!(server.host.closed(client).is_some());
    let reader = connect(&mut server, "cn:y", Role::Read);
    assert_eq!(server.ask(reader, &format!("{keys}\r\n")), "END\r\n");
}

#[test]
fn packets_are_refused_as_their_twins_in_text() {
    let exptime = 10u32.to_be_bytes();
    let requests = [
        (Role::Nothing, packet(NOOP, b"", b"", b"")),
        (Role::Nothing, packet(VERSION, b"", b"", b"")),
        (Role::Read, packets::get("a")),
        (Role::Read, packet(STAT, b"", b"items", b"")),
        (Role::Read, packet(STAT, b"", b"settings and more", b"")),
        (Role::Read, packet(STAT, b"", b"evenkeel times", b"")),
        (Role::Write, packet(GAT, &exptime, b"a", b"")),
        (Role::Write, packet(TOUCH, &exptime, b"a", b"")),
        (Role::Write, packets::set("a", b"value")),
        (Role::Write, packet(APPEND, b"", b"a", b"value")),
        (Role::Write, packet(DELETE, b"", b"a", b"")),
        (Role::Write, packet(INCREMENT, &packets::counted(1, 1, 0), b"a", b"")),
        (Role::Admin, packet(FLUSH, b"", b"", b"")),
        (Role::Admin, packet(STAT, b"", b"reset", b"")),
        (Role::Admin, packet(STAT, b"", b"detail dump", b"")),
        (Role::Admin, packet(STAT, b"", b"evenkeel hot", b"")),
    ];
    for (least, request) in &requests {
        for role in [Role::Nothing, Role::Read, Role::Write, Role::Admin] {
            for piece in [1, 30, usize::MAX] {
                let mut server = Server::new(&options());
                let client = connect(&mut server, "cn:x", role);
                let whole = [request, &packet(NOOP, b"", b"", b"")[..]].concat();
                whole.chunks(piece).for_each(|piece| server.host.send(client, piece));
                let output = server.host.take_output(client);
                let (first, rest) = packets::read(&output).expect("a reply");
                assert_eq!(first.status == 0x20, role < *least, "{:02x} as {}", request[1], role.word());
                assert!(
                    packets::show(rest).ends_with("0a 00") || rest.is_empty(),
                    "the next request is served"
                );
            }
        }
    }
    // A quiet request says nothing if all is well: an error is not.
    let mut server = Server::new(&options());
    let client = connect(&mut server, "cn:x", Role::Read);
    let quiet = packet(SETQ, &packets::stored(0, 0), b"a", b"value");
    server.host.send(client, &[quiet, packet(GETKQ, b"", b"a", b""), packet(NOOP, b"", b"", b"")].concat());
    let output = server.host.take_output(client);
    assert_eq!(packets::show(&output), "11 20 Auth failure.\n0a 00");
}

#[test]
fn refusals_are_counted_by_name_and_the_table_is_bounded() {
    let mut server = Server::new(&options());
    let admin = connect(&mut server, "cn:admin", Role::Admin);
    let counts = |server: &mut Server| server.ask(admin, "stats evenkeel tls\r\n");
    assert_eq!(counts(&mut server), "END\r\n");
    for _ in 0..2 {
        let reader = connect(&mut server, "cn:reader", Role::Read);
        server.ask(reader, "delete a\r\ndelete a noreply\r\n");
    }
    let nobody = connect(&mut server, "-", Role::Nothing);
    server.ask(nobody, "get a\r\n");
    assert_eq!(counts(&mut server), "STAT refused:- 1\r\nSTAT refused:cn:reader 4\r\nEND\r\n");
    for number in 0..1000 {
        let other = connect(&mut server, &format!("cn:{number}"), Role::Nothing);
        server.ask(other, "get a\r\n");
    }
    let listed = counts(&mut server);
    assert_eq!(listed.lines().count(), 128 + 2, "names, others, END");
    assert!(listed.contains("STAT refused:others 874\r\n"), "{listed}");
}

#[test]
fn with_users_a_client_needs_a_password_and_a_role() {
    let users = vec![("ann".to_owned(), "one".to_owned())];
    let auth = Some(Auth { file: "/users".into(), users });
    let mut server = Server::new(&Options { auth, ..options() });
    let reader = connect(&mut server, "cn:reader", Role::Read);
    assert_eq!(server.ask(reader, "get a\r\n"), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(server.ask(reader, "set login 0 0 7\r\nann one\r\n"), "STORED\r\n");
    assert_eq!(server.ask(reader, "get a\r\ndelete a\r\n"), format!("END\r\n{REFUSED}"));
}

#[test]
fn a_name_stands_in_watch_connevents() {
    let mut server = Server::new(&options());
    let admin = connect(&mut server, "cn:admin", Role::Admin);
    assert_eq!(server.ask(admin, "watch connevents\r\n"), "OK\r\n");
    let reader = connect(&mut server, "dns:reader.example", Role::Read);
    server.ask(reader, "quit\r\n");
    server.host.connect();
    server.host.advance(50);
    let log = server.take(admin);
    let lines: Vec<&str> =
        log.lines().filter_map(|line| line.split_once(" type=")).map(|(_, line)| line).collect();
    assert_eq!(
        lines,
        [
            "conn_new rip=unix rport=0 transport=local cfd=1 identity=dns:reader.example",
            "conn_close rip=unix rport=0 transport=local reason=normal cfd=1 identity=dns:reader.example",
            "conn_new rip=unix rport=0 transport=local cfd=2",
        ]
    );
}
