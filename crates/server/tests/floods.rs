//! Clients that ask for much and read little, lines without end, dumps and watchers of a server at work.

use net::sim::{Host, Pace, PeerId};
use server::Worker;
use server::options::Options;

const STARTED_UNIX_MS: u64 = 1_800_000_000_000;

/// Waiting output that keeps a connection from being served.
const OUTPUT_MAX: usize = 64 * 1024;

/// Between two ticks of a network.
const TICK_MS: u64 = 50;

struct Server {
    host: Host<Worker>,
}

impl Server {
    fn new(options: &Options) -> Server {
        Server { host: server::sim::host(options, STARTED_UNIX_MS, 1) }
    }

    /// From now on peers let so much lie unread.
    fn window(&mut self, window: usize) {
        self.host.set_pace(Pace { window, ..Pace::default() });
    }

    fn ask(&mut self, peer: PeerId, request: &str) -> String {
        self.host.send(peer, request.as_bytes());
        self.take(peer)
    }

    /// All that waits for `peer`, in as many pieces as its window makes of it.
    fn take(&mut self, peer: PeerId) -> String {
        let mut all = Vec::new();
        loop {
            let output = self.host.take_output(peer);
            if output.is_empty() {
                return String::from_utf8(all).expect("text");
            }
            all.extend_from_slice(&output);
        }
    }

    fn set(&mut self, peer: PeerId, key: &str, value: &str) {
        let reply = self.ask(peer, &format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
        assert_eq!(reply, "STORED\r\n", "{key}");
    }

    fn fill(&mut self, peer: PeerId, count: usize) {
        (0..count).for_each(|number| self.set(peer, &format!("key-{number}"), &format!("{number}")));
    }
}

/// What waits for a peer that asks again and again for values of this length and reads nothing is bounded, and
/// all of it is right once it reads.
#[track_caller]
fn check_slow_reader(value_len: usize, request: &str, per_request: usize) {
    let mut server = Server::new(&Options::default());
    let peer = server.host.connect();
    let value = "v".repeat(value_len);
    server.set(peer, "k", &value);
    server.window(0);
    let requests = 300;
    server.host.send(peer, request.repeat(requests).as_bytes());
    let most = OUTPUT_MAX + value_len + 1000;
    let pending = server.host.pending_len(peer);
    assert!((1..=most).contains(&pending), "{pending} of {most}");
    server.window(100_000);
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
fn who_reads_slowly_holds_little_memory() {
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
    server.fill(peer, 5000);
    let keys = (0..10_000).map(|number| format!(" key-{number}")).collect::<String>();
    let values = (0..5000).map(|number| {
        let value = number.to_string();
        format!("VALUE key-{number} 0 {}\r\n{value}\r\n", value.len())
    });
    let expected = values.collect::<String>() + "END\r\n";
    for piece in [usize::MAX, 16_384, 1000, 7] {
        for window in [usize::MAX, 50_000] {
            server.window(window);
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
    // The last key may go on, so it is not served yet; and the line was not known to be long before 2048 bytes.
    assert_eq!(values, 49_999);
    assert_eq!(server.ask(peer, "\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
    // A key that never ends is none.
    server.host.send(peer, &[b"get ".to_vec(), vec![b'k'; 100_000]].concat());
    let heard = server.ask(peer, "\r\n");
    assert_eq!(heard, "CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn a_dump_has_what_stays_and_may_miss_what_changes() {
    for kind in ["metadump", "mgdump"] {
        let mut server = Server::new(&Options::default());
        let (dumper, other) = (server.host.connect(), server.host.connect());
        server.fill(other, 6000);
        server.window(10_000);
        server.host.send(dumper, format!("lru_crawler {kind} all\r\n").as_bytes());
        let mut dump = String::new();
        for round in 0..1000 {
            let output = server.host.take_output(dumper);
            assert!(server.host.pending_len(dumper) <= OUTPUT_MAX + 10_000, "a step of a dump is short");
            dump.push_str(std::str::from_utf8(&output).expect("text"));
            // Odd keys come and go, even ones stay.
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
fn a_watcher_that_reads_slowly_is_told_how_much_it_missed_and_holds_little() {
    let options = Options { watcher_log_bytes: 1000, ..Options::default() };
    let mut server = Server::new(&options);
    let (watcher, other) = (server.host.connect(), server.host.connect());
    assert_eq!(server.ask(watcher, "watch fetchers\r\n"), "OK\r\n");
    server.window(0);
    for _ in 0..100 {
        server.host.send(other, &b"get missing\r\n".repeat(10));
        server.host.advance(TICK_MS);
    }
    assert!(server.host.pending_len(watcher) <= 2000, "{}", server.host.pending_len(watcher));
    server.window(usize::MAX);
    server.take(other);
    let mut log = server.take(watcher);
    server.host.advance(TICK_MS);
    log.push_str(&server.take(watcher));
    let told =
        log.lines().filter(|line| line.contains(" type=item_get key=missing status=not_found ")).count();
    let skipped: usize = log
        .lines()
        .filter_map(|line| line.strip_prefix("[skipped=")?.strip_suffix(']')?.parse::<usize>().ok())
        .sum();
    assert_eq!(told + skipped, 1000, "{log}");
    assert!(told > 0 && skipped > 0, "{told} {skipped}");
}

#[test]
fn each_stream_has_its_events() {
    let mut server = Server::new(&Options::default());
    let other = server.host.connect();
    let watch = |server: &mut Server, stream: &str| {
        let peer = server.host.connect();
        assert_eq!(server.ask(peer, &format!("watch {stream}\r\n")), "OK\r\n");
        peer
    };
    let streams = ["fetchers", "mutations", "deletions", "connevents", "evictions", ""];
    let watchers = streams.map(|stream| watch(&mut server, stream));
    server.host.advance(TICK_MS);
    watchers.iter().for_each(|watcher| drop(server.take(*watcher)));

    server.set(other, "a", "hello");
    server.ask(other, "get a\r\nget b\r\ndelete a\r\n");
    let late = server.host.connect();
    server.ask(late, "quit\r\n");
    server.host.advance(TICK_MS);
    let types = watchers.map(|watcher| {
        let log = server.take(watcher);
        let of = |line: &str| line.split(' ').find_map(|word| word.strip_prefix("type=")).map(str::to_owned);
        log.lines().filter_map(of).collect::<Vec<_>>().join(" ")
    });
    let expected =
        ["item_get item_get", "item_store", "deleted", "conn_new conn_close", "", "item_get item_get"];
    assert_eq!(types, expected);
    // Who leaves is forgotten, and nobody is told what nobody watches.
    watchers.iter().for_each(|watcher| server.host.finish(*watcher));
    assert!(server.ask(other, "stats\r\n").contains("STAT log_watchers 0\r\n"));
}

#[test]
fn who_comes_and_goes_is_told_with_both_ends() {
    let mut server = Server::new(&Options::default());
    let watcher = server.host.connect();
    assert_eq!(server.ask(watcher, "watch connevents\r\n"), "OK\r\n");
    for end in [Host::finish, Host::reset] {
        let peer = server.host.connect();
        end(&mut server.host, peer);
    }
    server.host.advance(TICK_MS);
    let log = server.take(watcher);
    let without_number = |line: &str| line.split(' ').skip(2).collect::<Vec<_>>().join(" ");
    let client = "rip=unix rport=0 transport=local";
    let expected = [
        format!("type=conn_new {client} cfd=1"),
        format!("type=conn_close {client} reason=normal cfd=1"),
        format!("type=conn_new {client} cfd=2"),
        format!("type=conn_close {client} reason=error cfd=2"),
    ];
    assert_eq!(log.lines().map(without_number).collect::<Vec<_>>(), expected);
}

#[test]
fn a_flush_to_come_takes_what_is_there_when_it_comes() {
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
