//! Hostile keys that look like lines, words or terminal commands: monitoring that reads a dump, a statistic
//! or a log stream must see one well-formed line for each item.

use std::sync::Mutex;

use crate::simulated::Server;
use server::options::{Auth, Options};

/// Keys with arbitrary bytes, in base64. The first half of each is a prefix.
const BINARY_KEYS: &[(&str, &str)] = &[
    ("forged lines", "YQ0KRU5EDQpQUkVGSVggYWRtaW4gZ2V0IDkgaGl0IDkgc2V0IDkgZGVsIDk6MQ=="),
    ("a line feed", "YQpTVEFUIHBpZCAxOjE="),
    ("a zero byte", "YQBiOjE="),
    ("a terminal's escape", "G1sySgdhOjE="),
    ("a Unicode line end", "4oCoRU5EwoU6MQ=="),
];

/// Keys as text; a carriage return before other bytes does not end a line.
const TEXT_KEYS: &[&str] = &["a\rEND\r:1", "\x1b[2J\u{2028}:2", "b\x7f\x01\x0b\x0c:3", "\u{202e}evil:4"];

/// A server with all of these keys, each used in several ways.
fn server() -> (Server, usize) {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    server.ask(peer, "stats detail on\r\n");
    for (what, key) in BINARY_KEYS {
        assert_eq!(server.ask(peer, &format!("ms {key} 1 b\r\nx\r\n")), "HD\r\n", "{what}");
        server.ask(peer, &format!("mg {key} b v\r\nmg {key}AAAA b\r\nma {key} b\r\nmd {key} b x\r\n"));
    }
    for key in TEXT_KEYS {
        assert_eq!(server.ask(peer, &format!("set {key} 0 0 1\r\nx\r\n")), "STORED\r\n", "{key:?}");
        server.ask(peer, &format!("get {key}\r\nincr {key} 1\r\n"));
    }
    server.host.finish(peer);
    (server, BINARY_KEYS.len() + TEXT_KEYS.len())
}

/// Checks a reply line by line: only readable characters, and the expected words.
#[track_caller]
fn check(reply: &str, line_end: &str, count: usize, end: &str, shape: &[&str]) {
    let lines = reply.strip_suffix(end).unwrap_or_else(|| panic!("{reply:?}"));
    assert_eq!(lines.split_terminator(line_end).count(), count, "{reply:?}");
    for line in lines.split_terminator(line_end) {
        let readable = |c: char| c == ' ' || c.is_ascii_graphic() || !c.is_ascii() && c.is_alphanumeric();
        assert!(line.chars().all(readable), "{line:?}");
        let words: Vec<&str> = line.trim_end_matches(' ').split(' ').collect();
        assert_eq!(words.len(), shape.len(), "{line:?}");
        for (word, expected) in words.iter().zip(shape) {
            assert!(word.starts_with(expected), "{line:?}: {word} is no {expected}");
        }
    }
}

#[test]
fn no_key_adds_a_line_to_the_counts_by_prefix() {
    let (mut server, count) = server();
    let peer = server.host.connect();
    let reply = server.ask(peer, "stats detail dump\r\n");
    check(&reply, "\r\n", count, "END\r\n", &["PREFIX", "", "get", "", "hit", "", "set", "", "del", ""]);
    assert!(
        reply.contains("PREFIX a%0D%0AEND%0D%0APREFIX%20admin%20get%209%20hit%209%20set%209%20del%209 get")
    );
}

#[test]
fn no_key_adds_a_line_to_a_dump() {
    let (mut server, count) = server();
    let peer = server.host.connect();
    let facts = &["key=", "exp=", "la=", "cas=", "fetch=", "cls=", "size=", "flags="];
    for classes in ["all", "hash", "1"] {
        let reply = server.ask(peer, &format!("lru_crawler metadump {classes}\r\n"));
        check(reply.strip_prefix("OK\r\n").expect("OK"), "\n", count, "END\r\n", facts);
        let reply = server.ask(peer, &format!("lru_crawler mgdump {classes}\r\n"));
        let mut requests: Vec<&str> = reply.lines().collect();
        assert_eq!((requests.remove(0), requests.pop()), ("OK", Some("EN")));
        assert_eq!(requests.len(), count);
        // Each line is a request that finds its item.
        for request in requests {
            check(request, "\r\n", 1, "", &["mg", "", "b"]);
            assert_eq!(
                server.ask(peer, &format!("{request} s\r\n")).split(' ').next(),
                Some("HD"),
                "{request}"
            );
        }
    }
    let reply = server.ask(peer, "stats cachedump 1 0\r\n");
    check(&reply, "\r\n", TEXT_KEYS.len(), "END\r\n", &["ITEM", "", "[", "b;", "", "s]"]);
}

#[test]
fn no_key_adds_a_line_to_a_log_stream() {
    let mut server = Server::new(&Options { memory_limit_bytes: 4 << 20, ..Options::default() });
    let watcher = server.host.connect();
    assert_eq!(server.ask(watcher, "watch fetchers mutations deletions evictions\r\n"), "OK\r\n");
    let peer = server.host.connect();
    for (what, key) in BINARY_KEYS {
        assert_eq!(server.ask(peer, &format!("ms {key} 1 b\r\nx\r\n")), "HD\r\n", "{what}");
        server.ask(peer, &format!("mg {key} b v\r\nmd {key} b\r\nms {key} 1 b\r\nx\r\n"));
    }
    for key in TEXT_KEYS {
        server.ask(peer, &format!("set {key} 0 0 1\r\nx\r\ndelete {key}\r\nset {key} 0 0 1\r\nx\r\n"));
    }
    // They are evicted.
    let value = "v".repeat(30_000);
    (0..400).for_each(|number| server.set(peer, &format!("k{number}"), &value));
    server.host.advance(50);
    let log = server.take(watcher);
    for line in log.split_terminator('\n').filter(|line| !line.starts_with("skipped=")) {
        assert!(line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{line:?}");
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words[0].starts_with("ts=") && words[1].starts_with("gid="), "{line:?}");
        assert!(words[2].starts_with("type=") && words[3].starts_with("key="), "{line:?}");
        assert!(words.iter().all(|word| word.matches('=').count() == 1), "{line:?}");
    }
    assert!(log.contains("type=eviction key=a%0D%0AEND%0D%0A"), "one of them was evicted");
}

#[test]
fn me_replies_with_one_line() {
    let (mut server, _) = server();
    let peer = server.host.connect();
    // As in memcached, `b` counts only if another word follows.
    let binary = BINARY_KEYS.iter().map(|(_, key)| format!("me {key} b b\r\n"));
    for request in binary.chain(TEXT_KEYS.iter().map(|key| format!("me {key}\r\n"))) {
        let reply = server.ask(peer, &request);
        check(&reply, "\r\n", 1, "", &["ME", "", "exp=", "la=", "cas=", "fetch=", "cls=", "size="]);
    }
}

/// The log of a watcher of all streams: checks that its lines have known types and one word for each field.
fn log_of_all_streams(options: &Options, act: impl FnOnce(&mut Server)) -> String {
    let mut server = Server::new(options);
    let watcher = server.host.connect();
    if options.auth.is_some() {
        assert_eq!(server.ask(watcher, "set a 0 0 9\r\nuser pass\r\n"), "STORED\r\n");
    }
    let streams = "fetchers mutations deletions evictions connevents rawcmds sysevents";
    assert_eq!(server.ask(watcher, &format!("watch {streams}\r\n")), "OK\r\n");
    act(&mut server);
    server.host.advance(50);
    let log = server.take(watcher);
    for line in log.split_terminator('\n') {
        assert!(line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{line:?}");
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words[0].starts_with("ts=") && words[1].starts_with("gid="), "{line:?}");
        assert!(words.iter().all(|word| word.matches('=').count() == 1), "{line:?}");
    }
    log
}

#[test]
fn no_token_or_unknown_command_reaches_a_log_stream() {
    let log = log_of_all_streams(&Options::default(), |server| {
        let peer = server.host.connect();
        let forged = "Oa\rts=1";
        assert_eq!(server.ask(peer, &format!("ms k 1 {forged} F7\r\nx\r\n")), format!("HD {forged}\r\n"));
        server.ask(peer, &format!("mg k k v {forged}\r\nma k {forged}\r\nmd k {forged} L\rfoo P\x1b[2J\r\n"));
        server.ask(peer, "forged\rts=1.2 gid=3 type=item_get\r\n\x1b[2Jstats\rdetail dump\r\nwatch \x07\r\n");
        server.host.finish(peer);
    });
    let types: Vec<&str> = log.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let expected =
        ["conn_new", "item_get", "item_store", "item_get", "item_get", "item_get", "deleted", "conn_close"];
    assert_eq!(types, expected.map(|name| format!("type={name}")), "{log}");
}

#[test]
fn no_user_name_reaches_a_log_stream_or_a_statistic() {
    let auth = Auth { file: "users".into(), users: vec![("user".into(), "pass".into())] };
    let options = Options { auth: Some(auth), ..Options::default() };
    let log = log_of_all_streams(&options, |server| {
        let stranger = server.host.connect();
        let login = "forged\r\nts=1 \x1b[2J\r\nEND";
        let reply = server.ask(stranger, &format!("set a\rts=1 0 0 {}\r\n{login}\r\n", login.len()));
        assert_eq!(reply, "CLIENT_ERROR authentication failure\r\n");
        let peer = server.host.connect();
        assert_eq!(server.ask(peer, "set a 0 0 9\r\nuser pass\r\n"), "STORED\r\n");
        for topic in ["", " conns", " settings", " items", " slabs", " detail dump"] {
            let reply = server.ask(peer, &format!("stats{topic}\r\n"));
            assert!(reply.ends_with("END\r\n") && !reply.contains("forged"), "{reply}");
            assert_eq!(reply.matches("END\r\n").count(), 1, "{reply}");
        }
    });
    assert!(log.lines().all(|line| line.contains("type=conn_new")), "{log}");
    assert_eq!(log.lines().count(), 2, "{log}");
}

#[test]
fn no_byte_of_a_client_reaches_the_operators_terminal() {
    static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let notice = |line: &str| NOTICES.lock().expect("no panic").push(line.to_owned());
    let auth = Auth { file: "users".into(), users: vec![("user".into(), "pass".into())] };
    let options = Options { verbosity: 3, auth: Some(auth), ..Options::default() };
    let mut host = server::sim::host_with(&options, 1_800_000_000_000, 1, notice);
    // A get of the binary protocol, whose key is a forged line.
    let key = b"\r\nevenkeel: serve: forged\x1b[2J\n";
    let header = [0x80, 0, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0, key.len() as u8];
    let request = [&header[..], b"\r\n\x1b[2J\r\n.....", key].concat();
    let peer = host.connect();
    host.send(peer, &request);
    assert!(host.closed(peer).is_some());
    let peer = host.connect();
    host.send(peer, b"set a 0 0 9\r\nuser pass\r\n");
    host.send(peer, b"verbosity 2\r\nset \x1b[2J 0 0 1\r\nx\r\nforged\rline\r\nget \x1b[2J\r\n");
    let notices = NOTICES.lock().expect("no panic").clone();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{notices:?}");
    assert!(!notices[0].contains("forged"), "{notices:?}");
}
