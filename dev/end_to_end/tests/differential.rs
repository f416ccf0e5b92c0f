//! The differential fuzzer: the same random commands to a real memcached and to Evenkeel with both drivers, in pieces
//! of random lengths. Their answers must be equal except for the differences in `differences.rs`.
//!
//! `EVENKEEL_TEST_SEEDS=0..100000 cargo test -p end_to_end --test main differential` runs these seeds.

mod differences;
use crate::packets;
mod plain;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::conversation::Writer;
use crate::conversation::unwritten::Peer;
use crate::packets::PacketWriter;
use differences::comparable;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use stdx::prng::Prng;

/// Conversations of an ordinary run; `EVENKEEL_TEST_SEEDS` selects others, as `first..last`.
const SEEDS: Range<u64> = 0..24;

/// Requests in one conversation.
const REQUESTS: usize = 60;

/// Conversations at the same time: most of their time is the start of servers.
const AT_ONCE: u64 = 4;

/// A difference counts if the servers differ as often as this, one time after another.
const TRIES: usize = 4;

/// Maximum lengths of the pieces that a stream is cut into; a conversation has one of them.
const PIECES: [usize; 5] = [usize::MAX, 5000, 100, 17, 3];

/// After this many pieces the rest is sent in larger ones.
const PIECES_MAX: usize = 3000;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_TEST_SEEDS") else { return SEEDS };
    let (first, last) = text.split_once("..").expect("first..last");
    first.parse().expect("a number")..last.parse().expect("a number")
}

/// The protocol of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Text,
    Binary,
}

impl Spoken {
    /// The requests of a conversation. In text every other one is of requests as clients write them, the rest of
    /// damaged ones, too.
    fn requests(self, seed: u64, memcached: &ServerUnderTest) -> Vec<Vec<u8>> {
        match self {
            Spoken::Binary => PacketWriter::new(seed).requests(REQUESTS),
            Spoken::Text if seed.is_multiple_of(2) => plain::requests(seed, REQUESTS, peer(memcached)),
            Spoken::Text => Writer::toward(peer(memcached), seed).requests(REQUESTS),
        }
    }

    /// Requests that complete any announced value.
    fn tail(self) -> Vec<u8> {
        match self {
            Spoken::Text => b"mn\r\n".repeat(300_000),
            Spoken::Binary => packets::packet(packets::NOOP, b"", b"", b"").repeat(50_000),
        }
    }

    /// How the output to a whole tail ends.
    fn tail_end(self) -> String {
        match self {
            Spoken::Text => "MN\n".to_owned(),
            Spoken::Binary => "0a 00".to_owned(),
        }
    }

    fn comparable(self, output: &[u8], memcached: &ServerUnderTest) -> String {
        match self {
            Spoken::Text => comparable(output, peer(memcached)),
            // CAS uniques differ: that there is one is compared.
            Spoken::Binary => packets::show(output),
        }
    }
}

#[test]
fn ours_with_both_drivers_answers_as_memcached() {
    answers_as_memcached(Spoken::Text);
}

#[test]
fn ours_with_both_drivers_answers_packets_as_memcached() {
    answers_as_memcached(Spoken::Binary);
}

fn answers_as_memcached(spoken: Spoken) {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let left_out: Vec<String> =
        peer(&memcached).left_out().map(|it| format!("{} ({})", it.requests, it.reason)).collect();
    if !left_out.is_empty() {
        eprintln!("left out, because the peer is {}: {}", memcached.name, left_out.join("; "));
    }
    let ours = SocketDriver::ALL.map(ServerUnderTest::evenkeel);
    let (next, seeds) = (AtomicU64::new(seeds().start), seeds());
    let failures: Vec<String> = std::thread::scope(|scope| {
        let play = || -> Vec<String> {
            let mut failures = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end || failures.len() > 3 {
                    return failures;
                }
                let requests = spoken.requests(seed, &memcached);
                let compared =
                    ours.iter().filter_map(|ours| compare(spoken, seed, &requests, &memcached, ours));
                failures.extend(compared);
            }
        };
        let players: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(play)).collect();
        players.into_iter().flat_map(|player| player.join().expect("no panic")).collect()
    });
    assert!(failures.is_empty(), "{} differences\n{}", failures.len(), failures.join("\n"));
}

/// The server whose answers are compared with Evenkeel's.
fn peer(memcached: &ServerUnderTest) -> Peer {
    Peer(memcached.memcached.expect("the version of a memcached"))
}

/// The fewest requests that show how `ours` differs from `memcached`, if it does.
fn compare(
    spoken: Spoken,
    seed: u64,
    requests: &[Vec<u8>],
    memcached: &ServerUnderTest,
    ours: &ServerUnderTest,
) -> Option<String> {
    let differ = |requests: &[Vec<u8>]| differ(spoken, seed, requests, memcached, ours);
    // Several times, because a second may pass in one server and not in the other.
    let mut difference = differ(requests)?;
    for _ in 1..TRIES {
        difference = differ(requests)?;
    }
    let mut fewest = requests.to_vec();
    let mut at = 0;
    while at < fewest.len() {
        let mut fewer = fewest.clone();
        fewer.remove(at);
        match differ(&fewer) {
            Some(found) => (fewest, difference) = (fewer, found),
            None => at += 1,
        }
    }
    let input = fewest.concat().escape_ascii().to_string();
    let (name, input) = (&ours.name, &input[..input.len().min(1000)]);
    Some(format!("seed {seed}, {name}: {input}\n{difference}"))
}

fn differ(
    spoken: Spoken,
    seed: u64,
    requests: &[Vec<u8>],
    memcached: &ServerUnderTest,
    ours: &ServerUnderTest,
) -> Option<String> {
    let mut input = requests.concat();
    // Then with enough bytes to complete any announced value: memcached reports the error of a request after it has
    // discarded its value. Only if needed, because they are many.
    for tail in [Vec::new(), spoken.tail()] {
        input.extend_from_slice(&tail);
        let [theirs, ours] =
            [memcached, ours].map(|subject| spoken.comparable(&hear(seed, subject, &input), memcached));
        match (ours == theirs, ours.starts_with(&theirs)) {
            (true, _) => return None,
            // The value is not complete yet.
            (false, true) if tail.is_empty() || !ours.ends_with(&spoken.tail_end()) => {}
            _ => return Some(difference(&theirs, &ours)),
        }
    }
    None
}

/// The complete answer of a new server to `input`, which is sent in pieces.
fn hear(seed: u64, subject: &ServerUnderTest, input: &[u8]) -> Vec<u8> {
    let server = Server::start(subject, &["-t", "2"]).expect("a server");
    let mut stream = server.connect().expect("a connection");
    let reader = stream.try_clone().expect("a second handle");
    let mut prng = Prng::new(seed);
    let longest = PIECES[prng.below(PIECES.len() as u64) as usize];
    let mut output = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // After an error, the output so far counts.
            let _ = (&reader).read_to_end(&mut output);
        });
        let mut rest = input;
        for piece in 0.. {
            let longest = if piece < PIECES_MAX { longest } else { 1 << 20 };
            let len = 1 + prng.below(longest.min(rest.len()).max(1) as u64) as usize;
            if rest.is_empty() || stream.write_all(&rest[..len.min(rest.len())]).is_err() {
                break;
            }
            rest = &rest[len.min(rest.len())..];
        }
        let _ = stream.shutdown(Shutdown::Write);
    });
    output
}

/// The first line that differs, with some lines before it.
fn difference(theirs: &str, ours: &str) -> String {
    let same = theirs.lines().zip(ours.lines()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let lines: Vec<&str> = text.lines().skip(same.saturating_sub(4)).take(6).collect();
        lines.join("\n    ").chars().take(1000).collect::<String>()
    };
    format!("  memcached:\n    {}\n  ours:\n    {}", around(theirs), around(ours))
}

/// This test fails if the comparison accepts everything.
#[test]
fn a_server_with_other_answers_is_detected() {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let other = ServerUnderTest { arguments: vec!["-F".to_owned()], ..memcached.clone() };
    let requests = [b"set a 0 0 1\r\nx\r\n".to_vec(), b"flush_all\r\n".to_vec(), b"get b\r\n".to_vec()];
    let difference = compare(Spoken::Text, 1, &requests, &memcached, &other).expect("a difference");
    assert!(
        difference.contains(": flush_all\\r\\n\n  memcached:\n    OK\n") && !difference.contains("set a"),
        "{difference}"
    );
    assert_eq!(compare(Spoken::Text, 1, &requests, &memcached, &memcached), None);
    let requests: Vec<Vec<u8>> =
        [packets::FLUSH, packets::NOOP].map(|it| packets::packet(it, b"", b"", b"")).into();
    let difference = compare(Spoken::Binary, 1, &requests, &memcached, &other).expect("a difference");
    assert!(difference.contains("08 00") && difference.contains("08 20 Auth failure."), "{difference}");
}
