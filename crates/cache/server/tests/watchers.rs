//! Watchers: the events of every stream, in memcached's format; a slow reader delays no other client.

use crate::simulated::Server;
use net::sim::{Pace, PeerId, SimHost};
use server::options::Options;

/// Interval between ticks of a network.
const TICK_MS: u64 = 50;

/// Sets how many bytes peers leave unread.
fn open_window(server: &mut Server, window: usize) {
    server.host.set_pace(Pace { window, ..Pace::default() });
}

fn watch(server: &mut Server, streams: &str) -> PeerId {
    let watcher = server.host.connect();
    assert_eq!(server.ask(watcher, &format!("watch {streams}\r\n")), "OK\r\n");
    watcher
}

/// The watcher's lines after its next tick.
fn lines_of(server: &mut Server, watcher: PeerId) -> String {
    server.host.advance(TICK_MS);
    server.take(watcher)
}

/// A line's fields after time and number.
fn fields(line: &str) -> String {
    line.split(' ').skip(2).collect::<Vec<_>>().join(" ")
}

fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The number of lines that the watcher lost.
fn skipped(log: &str) -> usize {
    log.lines().filter_map(|line| line.strip_prefix("skipped=")?.parse::<usize>().ok()).sum()
}

fn statistic(server: &mut Server, peer: PeerId, name: &str) -> usize {
    let all = server.ask(peer, "stats\r\n");
    let value =
        all.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).expect(name)
}

/// Stores more than 4 MiB, and returns the number of items.
fn overfill(server: &mut Server, peer: PeerId) -> usize {
    let value = "v".repeat(1000);
    (0..8000).for_each(|number| server.set(peer, &format!("key,{number}"), &value));
    8000
}

fn small() -> Options {
    Options { memory_limit_bytes: 4 << 20, watcher_log_bytes: 8 << 20, ..Options::default() }
}

#[test]
fn a_slow_watcher_gets_the_number_of_lost_lines_and_holds_little() {
    let options = Options { watcher_log_bytes: 1000, ..Options::default() };
    let mut server = Server::new(&options);
    let other = server.host.connect();
    let watcher = watch(&mut server, "fetchers");
    open_window(&mut server, 0);
    for _ in 0..100 {
        server.host.send(other, &b"get missing\r\n".repeat(10));
        server.host.advance(TICK_MS);
    }
    assert!(server.host.pending_len(watcher) <= 2000, "{}", server.host.pending_len(watcher));
    open_window(&mut server, usize::MAX);
    server.take(other);
    let mut log = server.take(watcher);
    log.push_str(&lines_of(&mut server, watcher));
    let lines = log.matches(" type=item_get key=missing status=not_found ").count();
    let skipped = skipped(&log);
    assert_eq!(lines + skipped, 1000, "{log}");
    assert!(lines > 0 && skipped > 0, "{lines} {skipped}");
}

#[test]
fn each_stream_has_its_events() {
    let mut server = Server::new(&Options::default());
    let other = server.host.connect();
    let streams = ["fetchers", "mutations", "deletions", "connevents", "evictions", ""];
    let watchers = streams.map(|stream| watch(&mut server, stream));
    watchers.iter().for_each(|watcher| drop(lines_of(&mut server, *watcher)));

    server.set(other, "a", "hello");
    server.ask(other, "get a\r\nget b\r\ndelete a\r\n");
    let late = server.host.connect();
    server.ask(late, "quit\r\n");
    let types = watchers.map(|watcher| {
        let log = lines_of(&mut server, watcher);
        log.lines().filter_map(|line| field(line, "type")).collect::<Vec<_>>().join(" ")
    });
    let lookups = "item_get item_get item_get item_get";
    assert_eq!(types, [lookups, "item_store", "deleted", "conn_new conn_close", "", lookups]);
    // Closed watchers are removed, and their streams are no longer logged.
    watchers.iter().for_each(|watcher| server.host.finish(*watcher));
    assert_eq!(statistic(&mut server, other, "log_watchers"), 0);
}

#[test]
fn opened_and_closed_connections_are_logged() {
    let mut server = Server::new(&Options::default());
    let watcher = watch(&mut server, "connevents");
    for end in [SimHost::finish, SimHost::reset] {
        let peer = server.host.connect();
        end(&mut server.host, peer);
    }
    let log = lines_of(&mut server, watcher);
    let client = "rip=unix rport=0 transport=local";
    let expected = [
        format!("type=conn_new {client} cfd=1"),
        format!("type=conn_close {client} reason=normal cfd=1"),
        format!("type=conn_new {client} cfd=2"),
        format!("type=conn_close {client} reason=error cfd=2"),
    ];
    assert_eq!(log.lines().map(fields).collect::<Vec<_>>(), expected);
}

#[test]
fn evicted_items_are_logged_with_their_facts() {
    let mut server = Server::new(&Options { worker_log_bytes: 1 << 20, ..small() });
    let other = server.host.connect();
    let (evictions, system) = (watch(&mut server, "evictions"), watch(&mut server, "sysevents"));
    server.ask(other, "ms ALpY 2 b T100\r\nhi\r\nset read 0 0 3\r\nabc\r\nget read\r\n");
    server.host.advance(3000);
    overfill(&mut server, other);

    let log = lines_of(&mut server, evictions);
    let lines: Vec<String> = log.lines().map(fields).collect();
    assert_eq!(lines.len(), statistic(&mut server, other, "evictions"));
    assert!(lines.contains(&"type=eviction key=%00%BAX fetch=no ttl=97 la=3 clsid=1 size=2".to_owned()));
    assert!(lines.contains(&"type=eviction key=key%2C0 fetch=no ttl=-1 la=0 clsid=1 size=1000".to_owned()));
    assert!(!log.contains("key=read fetch=no"), "it was read");
    for key in lines.iter().filter_map(|line| field(line, "key")?.strip_prefix("key%2C")) {
        assert_eq!(server.ask(other, &format!("mg key,{key}\r\n")), "EN\r\n", "{key} was evicted");
    }

    let log = lines_of(&mut server, system);
    let moved = log.lines().filter(|line| line.ends_with(" type=slab_move src=1 dst=0 state=ok")).count();
    assert_eq!(moved, statistic(&mut server, other, "slabs_moved"));
    assert_eq!(moved, log.lines().count(), "and nothing else");
}

#[test]
fn evictions_without_room_are_counted_for_their_watchers() {
    let mut server = Server::new(&Options { worker_log_bytes: 200, ..small() });
    let other = server.host.connect();
    let (watcher, indifferent) = (watch(&mut server, "evictions"), watch(&mut server, "deletions"));
    overfill(&mut server, other);
    let log = lines_of(&mut server, watcher);
    let (lines, skipped) = (log.matches("type=eviction").count(), skipped(&log));
    assert!(lines > 0 && skipped > 0, "{lines} {skipped}");
    assert_eq!(lines + skipped, statistic(&mut server, other, "evictions"));
    assert_eq!(skipped, statistic(&mut server, other, "log_worker_dropped"));
    assert_eq!(lines_of(&mut server, indifferent), "");
    server.ask(other, "stats reset\r\n");
    assert_eq!(statistic(&mut server, other, "log_worker_dropped"), 0);
}

/// In base64, bytes that would end a line or a field: a line feed, a space, an equals sign.
#[test]
fn hot_keys_are_logged_in_every_window_with_any_bytes_encoded() {
    let mut server = Server::new(&Options::default());
    let other = server.host.connect();
    let watcher = watch(&mut server, "hotkeys");
    server.set(other, "hot", "value");
    server.host.send(other, b"mg hot v\r\nmg hot v\r\nmg Yg9iIAo9YQ== b v\r\n");
    server.host.advance(1000);
    let (log, mut more) = (lines_of(&mut server, watcher), String::new());
    let lines: Vec<String> = log.lines().filter(|line| line.contains("by=requests")).map(fields).collect();
    assert_eq!(
        lines,
        [
            "type=hot_key by=requests place=1 percent=75.00 percent_min=75.00 percent_max=75.00 key=hot",
            "type=hot_key by=requests place=2 percent=25.00 percent_min=25.00 percent_max=25.00 key=b%0Fb%20%0A%3Da",
        ]
    );
    assert!(log.contains("by=bytes place=1") && log.contains("by=misses place=1 percent=100.00"), "{log}");
    // The same window is not logged again, the next one is.
    (0..3).for_each(|_| more.push_str(&lines_of(&mut server, watcher)));
    assert_eq!(more, "");
    server.host.advance(5000);
    assert!(lines_of(&mut server, watcher).contains("place=1"));
}

#[test]
fn with_x_there_are_no_hot_keys_to_watch() {
    let mut server = Server::new(&Options { dumping: false, ..Options::default() });
    let other = server.host.connect();
    let watcher = watch(&mut server, "hotkeys");
    server.set(other, "secret", "value");
    server.host.advance(10_000);
    assert_eq!(lines_of(&mut server, watcher), "");
}

#[test]
fn items_that_go_to_flash_are_logged_as_memcached_logs_them() {
    let mut options = Options { memory_limit_bytes: 16 << 20, ..Options::default() };
    options.flash.paths = vec!["/x:64m".parse().expect("a path")];
    (options.flash.segment_bytes, options.flash.piece_bytes) = (8 << 20, 1 << 20);
    let mut server = Server::new(&options);
    let watcher = watch(&mut server, "evictions");
    let client = server.host.connect();
    let value = "v".repeat(4000);
    let mut log = String::new();
    for number in 0..6000 {
        server.ask(client, &format!("set key{number} 0 1000 4000 noreply\r\n{value}\r\n"));
        if number % 100 == 0 {
            log += &lines_of(&mut server, watcher);
        }
    }
    let first = log.lines().find(|line| line.contains("type=extwrite")).expect("some went to flash");
    let (key, rest) = fields(first)
        .split_once(" fetch=")
        .map(|(key, rest)| (key.to_owned(), rest.to_owned()))
        .expect("fields");
    assert!(key.starts_with("type=extwrite key=key"), "{key}");
    assert_eq!(field(first, "bucket"), Some("0"));
    let names: Vec<_> =
        rest.split(' ').filter_map(|word| word.split_once('=')).map(|(name, _)| name).collect();
    assert_eq!(names, ["ttl", "la", "clsid", "bucket"], "{rest}");
}
