//! Clients that announce values, do not read, or send anything in any pieces.

use net::sim::{Heard, Pace, PeerId};
use server::options::Options;

use crate::binary::take;
use crate::packets::*;
use crate::simulated::Server;

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
