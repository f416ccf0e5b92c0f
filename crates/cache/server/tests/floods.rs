//! Floods: clients that request much and read little, endless lines, dumps of a busy server.

use crate::simulated::Server;
use net::sim::{Pace, PeerId};
use server::options::Options;

/// Pending output at which a connection is no longer served.
const OUTPUT_MAX: usize = 64 * 1024;

/// Sets how many bytes peers leave unread.
fn open_window(server: &mut Server, window: usize) {
    server.host.set_pace(Pace { window, ..Pace::default() });
}

fn fill(server: &mut Server, peer: PeerId, count: usize) {
    (0..count).for_each(|number| server.set(peer, &format!("key-{number}"), &format!("{number}")));
}

/// The output that is pending for a peer that requests values of this length repeatedly and reads nothing is
/// bounded, and all of it is correct once it is read.
#[track_caller]
fn check_slow_reader(value_len: usize, request: &str, per_request: usize) {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    let value = "v".repeat(value_len);
    server.set(peer, "k", &value);
    open_window(&mut server, 0);
    let requests = 300;
    server.host.send(peer, request.repeat(requests).as_bytes());
    let most = OUTPUT_MAX + value_len + 1000;
    let pending = server.host.pending_len(peer);
    assert!((1..=most).contains(&pending), "{pending} of {most}");
    open_window(&mut server, 100_000);
    assert_eq!(server.host.take_output(peer), b"", "the window was closed");
    let mut heard = 0;
    loop {
        let output = server.host.take_output(peer);
        heard += output.len();
        assert!(server.host.pending_len(peer) <= most);
        if output.is_empty() {
            break;
        }
    }
    assert_eq!(heard, requests * per_request);
}

#[test]
fn a_slow_reader_holds_little_memory() {
    let head = |len: usize| format!("VALUE k 0 {len}\r\n").len() + 2;
    for len in [0, 100, 5000, 32_767, 32_768, 500_000] {
        check_slow_reader(len, "get k\r\n", head(len) + len + 5);
        check_slow_reader(len, "get k k k\r\n", 3 * (head(len) + len) + 5);
        check_slow_reader(len, "gat 0 k k\r\n", 2 * (head(len) + len) + 5);
        check_slow_reader(len, "mg k v\r\n", format!("VA {len}\r\n").len() + len + 2);
    }
}

#[test]
fn a_line_of_ten_thousand_keys_is_answered_in_order_at_any_pace() {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    fill(&mut server, peer, 5000);
    let keys = (0..10_000).map(|number| format!(" key-{number}")).collect::<String>();
    let values = (0..5000).map(|number| {
        let value = number.to_string();
        format!("VALUE key-{number} 0 {}\r\n{value}\r\n", value.len())
    });
    let expected = values.collect::<String>() + "END\r\n";
    for piece in [usize::MAX, 16_384, 1000, 7] {
        for window in [usize::MAX, 50_000] {
            open_window(&mut server, window);
            let line = format!("get{keys}\r\n");
            let mut heard = String::new();
            for piece in line.as_bytes().chunks(piece.min(line.len())) {
                server.host.send(peer, piece);
                heard.push_str(&server.take(peer));
            }
            assert!(heard == expected, "pieces of {piece}, window of {window}");
        }
    }
    assert_eq!(server.ask(peer, "mn\r\n"), "MN\r\n");
}

#[test]
fn a_get_line_without_end_is_served_as_it_comes() {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    server.set(peer, "k", "v");
    server.host.send(peer, b"get");
    let mut values = 0;
    for _ in 0..1000 {
        server.host.send(peer, &b" k".repeat(50));
        values += server.take(peer).matches("VALUE k 0 1\r\nv\r\n").count();
    }
    // The last key may be incomplete, so it is not served yet; and the line was not known to be long before
    // 2048 bytes.
    assert_eq!(values, 49_999);
    assert_eq!(server.ask(peer, "\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
    // An endless key is an error.
    server.host.send(peer, &[b"get ".to_vec(), vec![b'k'; 100_000]].concat());
    let heard = server.ask(peer, "\r\n");
    assert_eq!(heard, "CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn a_dump_lists_unchanged_items_exactly_once() {
    for kind in ["metadump", "mgdump"] {
        let mut server = Server::new(&Options::default());
        let (dumper, other) = (server.host.connect(), server.host.connect());
        fill(&mut server, other, 6000);
        open_window(&mut server, 10_000);
        server.host.send(dumper, format!("lru_crawler {kind} all\r\n").as_bytes());
        let mut dump = String::new();
        for round in 0..1000 {
            let output = server.host.take_output(dumper);
            assert!(server.host.pending_len(dumper) <= OUTPUT_MAX + 10_000, "a step of a dump is short");
            dump.push_str(std::str::from_utf8(&output).expect("text"));
            // Odd keys are deleted, even ones stay.
            let number = round * 2 + 1;
            server.ask(other, &format!("delete key-{number}\r\nset new-{round} 0 0 1\r\nx\r\n"));
        }
        dump.push_str(&server.take(dumper));
        let (first, last) = if kind == "metadump" { ("key=", "END") } else { ("mg ", "EN") };
        let mut lines = dump.lines();
        assert_eq!(lines.next(), Some("OK"));
        let keys: Vec<&str> = lines
            .by_ref()
            .take_while(|line| *line != last)
            .map(|line| line.strip_prefix(first).and_then(|rest| rest.split(' ').next()).expect(line))
            .collect();
        assert_eq!(lines.next(), None, "nothing behind the end");
        for number in (0..6000).step_by(2) {
            let key = format!("key-{number}");
            assert_eq!(keys.iter().filter(|other| **other == key).count(), 1, "{kind}: {key}");
        }
        assert_eq!(server.ask(dumper, "mn\r\n"), "MN\r\n");
    }
}

#[test]
fn a_scheduled_flush_removes_the_items_of_that_moment() {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    server.set(peer, "before", "x");
    assert_eq!(server.ask(peer, "flush_all 3\r\n"), "OK\r\n");
    server.host.advance(1000);
    server.set(peer, "between", "x");
    server.host.advance(1000);
    assert_eq!(server.ask(peer, "get before between\r\n").matches("VALUE").count(), 2);
    server.host.advance(1000);
    assert_eq!(server.ask(peer, "get before between\r\n"), "END\r\n");
    server.host.advance(1000);
    server.set(peer, "after", "x");
    server.host.advance(10_000);
    assert_eq!(server.ask(peer, "get after\r\n").matches("VALUE").count(), 1);
}

#[test]
fn a_cachedump_has_the_same_maximum_length_as_memcacheds() {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    // Long keys: 2 MiB of lines are some 8000 items.
    let key = |number: usize| format!("{number:0>250}");
    (0..9000).for_each(|number| server.set(peer, &key(number), "x"));
    let dump = server.ask(peer, "stats cachedump 1 0\r\nmn\r\n");
    let line_len = "ITEM  [1 b; 0 s]\r\n".len() + 250;
    assert_eq!(dump.matches("ITEM 0").count(), 2 * 1024 * 1024 / line_len);
    assert!(dump.ends_with(" [1 b; 0 s]\r\nEND\r\nMN\r\n"));
    let dump = server.ask(peer, "stats cachedump 1 700\r\n");
    assert_eq!(dump.matches("ITEM 0").count(), 700);
}

#[test]
fn items_are_counted_by_size_over_many_turns() {
    let mut server = Server::new(&Options { track_sizes: true, ..Options::default() });
    let peer = server.host.connect();
    fill(&mut server, peer, 20_000);
    server.set(peer, "key-0", &"v".repeat(1000));
    // 66 bytes and more; 1066 bytes.
    assert_eq!(server.ask(peer, "stats sizes\r\nmn\r\n"), "STAT 96 19999\r\nSTAT 1088 1\r\nEND\r\nMN\r\n");
}
