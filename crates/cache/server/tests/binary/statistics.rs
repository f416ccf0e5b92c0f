//! `stat`, and what requests count.

use server::options::Options;

use crate::binary::take;
use crate::packets::*;
use crate::simulated::Server;

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
