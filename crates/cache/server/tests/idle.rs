//! A server without requests: it finishes its housekeeping, and then rests.

use crate::simulated::Server;
use net::Handler;
use net::sim::PeerId;
use server::options::Options;

fn statistic(server: &mut Server, peer: PeerId, name: &str) -> u64 {
    let all = server.ask(peer, "stats\r\n");
    let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.expect(name).parse().expect(name)
}

/// Number of turns until the worker needs no more: at most `most`.
fn turns_until_rest(server: &mut Server, most: usize) -> usize {
    let mut turns = 0;
    while server.host.handler().deadline().is_some() {
        server.host.advance(5);
        turns += 1;
        assert!(turns <= most, "it does not rest");
    }
    turns
}

#[test]
fn flushed_items_are_reclaimed_without_requests() {
    let mut server = Server::new(&Options { threads: 1, ..Options::default() });
    let peer = server.host.connect();
    for batch in 0..50 {
        let sets: String = (0..1000).map(|i| format!("set k{batch}.{i} 0 0 1 noreply\r\nv\r\n")).collect();
        server.ask(peer, &sets);
    }
    turns_until_rest(&mut server, 10);
    assert_eq!(server.ask(peer, "flush_all\r\n"), "OK\r\n");
    // 50,000 items, 64 in a turn.
    assert!(turns_until_rest(&mut server, 2_000) > 500);
    // The rest is in the open segment, which the next items fill up.
    assert!(statistic(&mut server, peer, "curr_items") < 5_000);
    // It checks again once in each new second.
    server.host.advance(1000);
    assert!(turns_until_rest(&mut server, 2) <= 2);
}

#[test]
fn a_lowered_limit_is_reached_without_requests() {
    let mut server =
        Server::new(&Options { memory_limit_bytes: 256 << 20, threads: 1, ..Options::default() });
    let peer = server.host.connect();
    let value = "v".repeat(100_000);
    for number in 0..1500 {
        server.set(peer, &format!("k{number}"), &value);
    }
    assert_eq!(server.ask(peer, "cache_memlimit 64\r\n"), "OK\r\n");
    turns_until_rest(&mut server, 2_000);
    assert!(statistic(&mut server, peer, "bytes") < 64 << 20);
}
