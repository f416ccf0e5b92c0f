//! Uploads of large values: announced, incomplete and concurrent ones have a bounded effect on other clients.

use crate::simulated::Server;
use net::sim::{Pace, PeerId};
use server::options::Options;

const MIB: usize = 1 << 20;
const REFUSED: &str = "SERVER_ERROR out of memory storing object\r\n";
/// Longer than an upload may wait or stall.
const LONG_S: u64 = 40;

/// A server with `-m 64` and items of up to `item_size_max`, and a peer.
fn server(item_size_max: usize) -> (Server, PeerId) {
    let options = Options {
        memory_limit_bytes: 64 << 20,
        item_size_max_bytes: item_size_max as u64,
        threads: 1,
        ..Options::default()
    };
    let mut server = Server::new(&options);
    let peer = server.host.connect();
    (server, peer)
}

/// Fills most of the memory with small items, and returns their number.
fn fill(server: &mut Server, peer: PeerId) -> u64 {
    let value = "v".repeat(300);
    for batch in 0..150 {
        let sets: String =
            (0..1000).map(|i| format!("set small{batch}.{i} 0 0 300 noreply\r\n{value}\r\n")).collect();
        server.ask(peer, &sets);
    }
    statistic(server, peer, "curr_items")
}

#[track_caller]
fn statistic(server: &mut Server, peer: PeerId, name: &str) -> u64 {
    let all = server.ask(peer, "stats\r\n");
    let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.expect(name).parse().expect(name)
}

/// The next megabyte of a value, or its rest and line end.
fn piece(len: usize, number: usize) -> String {
    let start = number * MIB;
    let mut piece = "v".repeat(MIB.min(len - start));
    if start + MIB >= len {
        piece.push_str("\r\n");
    }
    piece
}

#[test]
fn an_announced_value_takes_no_memory() {
    let (mut server, honest) = server(MIB);
    let before = fill(&mut server, honest);
    let evictions = statistic(&mut server, honest, "evictions");
    for number in 0..100 {
        let peer = server.host.connect();
        assert_eq!(server.ask(peer, &format!("set big{number} 0 0 1000000\r\n")), "");
    }
    assert_eq!(statistic(&mut server, honest, "evictions"), evictions);
    assert_eq!(statistic(&mut server, honest, "curr_items"), before);
    for number in 0..1000 {
        server.set(honest, &format!("more{number}"), "v");
    }
    server.set(honest, "large", &"v".repeat(900_000));
}

#[test]
fn stalled_uploads_take_a_limited_share_for_a_limited_time() {
    let (mut server, honest) = server(MIB);
    let before = fill(&mut server, honest);
    let half = "v".repeat(500_000);
    let stuck: Vec<PeerId> = (0..100)
        .map(|number| {
            let peer = server.host.connect();
            assert_eq!(server.ask(peer, &format!("set big{number} 0 0 1000000\r\n{half}")), "");
            peer
        })
        .collect();
    // A quarter of the memory.
    let left = statistic(&mut server, honest, "curr_items");
    assert!(left * 10 >= before * 7, "{left} of {before} are left");
    (0..1000).for_each(|number| server.set(honest, &format!("more{number}"), "v"));
    // Uploads that have the share must make progress, within a shorter time because others wait.
    (0..LONG_S / 10).for_each(|_| server.host.advance(1000));
    let refused = stuck.iter().filter(|peer| server.take(**peer) == REFUSED).count();
    assert!((10..90).contains(&refused), "{refused} are refused first");
    (0..LONG_S).for_each(|_| server.host.advance(1000));
    let more = stuck.iter().filter(|peer| server.take(**peer) == REFUSED).count();
    assert_eq!(refused + more, stuck.len());
    server.set(honest, "large", &"v".repeat(900_000));
    // What is refused is swallowed, and the connection goes on.
    assert_eq!(server.ask(stuck[0], &half), "");
    assert_eq!(server.ask(stuck[0], "\r\nget none\r\n"), "END\r\n");
}

#[test]
fn an_upload_beyond_the_share_waits_for_the_others() {
    let (mut server, first) = server(32 * MIB);
    let second = server.host.connect();
    let (head, rest) = ("v".repeat(100), "v".repeat(20 * MIB - 100));
    for peer in [first, second] {
        assert_eq!(
            server.ask(peer, &format!("set k{peer:?} 0 0 {}\r\n{head}", 20 * MIB).replace("PeerId", "")),
            ""
        );
    }
    assert_eq!(server.ask(second, &rest), "", "it waits");
    assert_eq!(server.ask(first, &format!("{rest}\r\n")), "STORED\r\n");
    server.host.advance(50);
    assert_eq!(
        server.ask(second, "\r\nget k(1)\r\n").len(),
        "STORED\r\nVALUE k(1) 0 20971520\r\n".len() + 20 * MIB + 7
    );
}

#[test]
fn large_values_of_several_clients_do_not_displace_small_items_in_use() {
    let (mut server, honest) = server(32 * MIB);
    let before = fill(&mut server, honest);
    let keys = |batch: usize| (0..1000).map(|i| format!(" small{batch}.{i}")).collect::<String>();
    let present = |server: &mut Server| -> u64 {
        let found = (0..150).map(|batch| server.ask(honest, &format!("get{}\r\n", keys(batch))));
        found.map(|reply| reply.matches("VALUE ").count() as u64).sum()
    };
    present(&mut server);
    let peers: Vec<PeerId> = (0..4).map(|_| server.host.connect()).collect();
    let len = 20 * MIB;
    let mut replies = vec![String::new(); 4];
    for round in 0..4 {
        for (number, peer) in peers.iter().enumerate() {
            server.ask(*peer, &format!("set big{round}.{number} 0 0 {len}\r\n"));
        }
        for number in 0..20 {
            for (peer, reply) in peers.iter().zip(&mut replies) {
                reply.push_str(&server.ask(*peer, &piece(len, number)));
            }
            server.host.advance(50);
        }
        for _ in 0..4 {
            server.host.advance(50);
            peers.iter().zip(&mut replies).for_each(|(peer, reply)| reply.push_str(&server.take(*peer)));
        }
    }
    assert_eq!(replies, vec!["STORED\r\n".repeat(4); 4]);
    let after = present(&mut server);
    assert!(after * 2 >= before, "{after} of {before} are left");
}

/// Stores a value of `len` bytes.
fn set_large(server: &mut Server, peer: PeerId, name: &str, len: usize) {
    assert_eq!(server.ask(peer, &format!("set {name} 5 0 {len}\r\n")), "");
    let replies: String =
        (0..len.div_ceil(MIB)).map(|number| server.ask(peer, &piece(len, number))).collect();
    assert_eq!(replies, "STORED\r\n");
}

#[test]
fn requests_after_a_join_wait_for_it() {
    let (mut server, peer) = server(32 * MIB);
    set_large(&mut server, peer, "a", 5 * MIB);
    let replies = server.ask(
        peer,
        "append a 0 0 3\r\nend\r\nprepend a 0 0 5 noreply\r\nbegin\r\nms a 2 MA c\r\n!!\r\nms a 2 MA C1\r\n??\r\n\
         append a 0 0 3\r\nendings\r\nmg a s f\r\nappend none 0 0 1\r\nx\r\nmn\r\n",
    );
    let cas = replies.split_once("HD c").unwrap().1.split_once("\r\n").unwrap().0;
    let size = 5 * MIB + 3 + 5 + 2;
    assert_eq!(
        replies,
        format!(
            "STORED\r\nHD c{cas}\r\nEX\r\nCLIENT_ERROR bad data chunk\r\nERROR\r\nHD s{size} f5\r\nNOT_STORED\r\nMN\r\n"
        )
    );
    let value = server.ask(peer, "get a\r\n");
    assert!(
        value.starts_with(&format!("VALUE a 5 {size}\r\nbeginvvv")) && value.ends_with("vvvend!!\r\nEND\r\n")
    );
    assert_eq!(statistic(&mut server, peer, "cmd_set"), 1 + 6);
}

#[test]
fn a_join_waits_for_uploads_and_fails_in_the_end() {
    let (mut server, first) = server(32 * MIB);
    let second = server.host.connect();
    set_large(&mut server, first, "a", 20 * MIB);
    server.ask(first, &format!("set b 0 0 {}\r\n{}", 20 * MIB, "v".repeat(MIB)));
    assert_eq!(server.ask(second, "append a 0 0 3\r\nend\r\nmn\r\n"), "");
    let mut reply = String::new();
    for _ in 0..7 {
        // It makes progress, so that it is not refused.
        server.ask(first, &"v".repeat(MIB));
        server.host.advance(1000);
        reply.push_str(&server.take(second));
    }
    assert_eq!(reply, "NOT_STORED\r\nMN\r\n");
    // The item is unchanged.
    assert_eq!(server.ask(second, "mg a s\r\n"), format!("HD s{}\r\n", 20 * MIB));
}

#[test]
fn a_client_that_leaves_in_mid_join_leaves_nothing_behind() {
    let (mut server, first) = server(32 * MIB);
    set_large(&mut server, first, "a", 20 * MIB);
    server.ask(first, &format!("set b 0 0 {}\r\n{}", 20 * MIB, "v".repeat(MIB)));
    for _ in 0..50 {
        let peer = server.host.connect();
        assert_eq!(server.ask(peer, "append a 0 0 3\r\nend\r\n"), "", "it waits for the upload");
        server.host.reset(peer);
    }
    server.host.reset(first);
    let peer = server.host.connect();
    assert_eq!(server.ask(peer, "append a 0 0 3\r\nend\r\n"), "STORED\r\n");
}

/// Sends requests from `peer` whose replies it does not read, and then `last`.
fn ask_without_reading(server: &mut Server, peer: PeerId, last: &str) {
    let requests = format!("{}{last}", "get small\r\n".repeat(12));
    server.host.send(peer, requests.as_bytes());
}

#[test]
fn a_client_that_does_not_read_gets_no_part_of_the_uploads_share() {
    for last in ["append big 0 0 1\r\nZ\r\n", "set huge 0 0 15000000\r\nvvv"] {
        let (mut server, honest) = server(16 * MIB);
        server.host.set_pace(Pace { window: 8192, ..Pace::default() });
        set_large(&mut server, honest, "big", 14 * MIB);
        server.set(honest, "small", &"v".repeat(5000));
        let slow = server.host.connect();
        ask_without_reading(&mut server, slow, last);
        assert!(server.host.pending_len(slow) > 0, "it has not read");
        assert_eq!(
            server.ask(honest, &format!("set other 0 0 {}\r\n{}\r\n", 2 * MIB, "v".repeat(2 * MIB))),
            "STORED\r\n"
        );
        // Once it reads, all requests are answered.
        let replies = server.take(slow);
        assert_eq!(replies.matches("VALUE small").count(), 12);
        assert_eq!(replies.ends_with("STORED\r\n"), last.starts_with("append"));
    }
}

#[test]
fn a_waiting_append_completes_although_its_client_has_finished_sending() {
    let (mut server, first) = server(32 * MIB);
    let second = server.host.connect();
    set_large(&mut server, first, "a", 20 * MIB);
    server.ask(first, &format!("set b 0 0 {}\r\n{}", 20 * MIB, "v".repeat(MIB)));
    server.host.send(second, b"append a 0 0 3\r\nend\r\nmn\r\n");
    server.host.finish(second);
    server.host.advance(200);
    assert_eq!((server.take(second).as_str(), server.host.closed(second)), ("", None));
    let rest: String = (1..20).map(|_| server.ask(first, &"v".repeat(MIB))).collect();
    assert_eq!(rest + &server.ask(first, "\r\n"), "STORED\r\n");
    server.host.advance(100);
    assert_eq!(server.take(second), "STORED\r\nMN\r\n");
    assert!(server.host.closed(second).is_some());
}
