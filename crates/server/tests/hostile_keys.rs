//! Keys that look like lines, words or terminal commands: whatever a client calls its items, a monitor that reads a
//! dump, a statistic or a log stream reads one well-formed line for each.

mod simulated;

use server::options::Options;
use simulated::Server;

/// Bytes that a key in base64 may hold; in base64. The first half of each is a prefix.
const BINARY_KEYS: &[(&str, &str)] = &[
    ("forged lines", "YQ0KRU5EDQpQUkVGSVggYWRtaW4gZ2V0IDkgaGl0IDkgc2V0IDkgZGVsIDk6MQ=="),
    ("a line feed", "YQpTVEFUIHBpZCAxOjE="),
    ("a zero byte", "YQBiOjE="),
    ("a terminal's escape", "G1sySgdhOjE="),
    ("a Unicode line end", "4oCoRU5EwoU6MQ=="),
];

/// As text; a carriage return before other bytes does not end a line.
const TEXT_KEYS: &[&str] = &["a\rEND\r:1", "\x1b[2J\u{2028}:2", "b\x7f\x01\x0b\x0c:3", "\u{202e}evil:4"];

/// A server that has all of them, each used in several ways.
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

/// Checks a reply line by line: nothing but readable characters, and of each line its words.
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
    // They make room for others.
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
