//! Random conversations: replies must not depend on where the input is cut. The comparison with memcached is
//! in `end_to_end` (`tests/differential`).

use crate::conversation::Writer;
use net::sim::Pace;
use server::sim::{check, hear};

/// Seeds of an ordinary run; `EVENKEEL_TEST_SEEDS` sets others, as `first..last`.
const SEEDS: std::ops::Range<u64> = 0..300;

/// Requests in one conversation.
const REQUESTS: usize = 40;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_TEST_SEEDS") else { return SEEDS };
    let (first, last) = text.split_once("..").expect("first..last");
    first.parse().expect("a number")..last.parse().expect("a number")
}

#[test]
fn replies_to_a_conversation_do_not_depend_on_cuts() {
    for seed in seeds() {
        let mut writer = Writer::new(seed);
        let input = writer.requests(REQUESTS).concat();
        let whole = hear([&input[..]], Pace::default());
        for round in 0..4 {
            let mut pieces = Vec::new();
            let mut rest = &input[..];
            // Small pieces first, then larger ones.
            let most = [3, 40, 3000, 100_000][round];
            while !rest.is_empty() {
                let most = if pieces.len() > 2000 { 100_000 } else { most };
                let (piece, behind) = rest.split_at((1 + writer.below(most)).min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            let window = [usize::MAX, 1000, 100, 70_000][round];
            let pace = Pace { send_max: [usize::MAX, 7, 1000, 100_000][round], window, ..Pace::default() };
            let heard = hear(pieces, pace);
            assert!(
                heard == whole,
                "seed {seed}, round {round}: {}",
                difference(&heard.output, &whole.output)
            );
        }
    }
}

/// A short run of what `dev/fuzz/` explores: bytes that are hardly requests any more.
#[test]
fn replies_to_any_bytes_do_not_depend_on_cuts() {
    for seed in seeds() {
        let mut writer = Writer::new(seed);
        for _ in 0..3 {
            // Fifteen cuts.
            let mut input: Vec<u8> = (0..31).map(|_| writer.below(256) as u8).collect();
            input[0] |= 15;
            input.append(&mut writer.damaged(6).concat());
            check(&input);
        }
    }
}

/// The first difference of two outputs, with its context.
fn difference(one: &[u8], other: &[u8]) -> String {
    let at = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let (from, to) = (at.saturating_sub(200), bytes.len().min(at + 100));
        bytes[from.min(to)..to].escape_ascii().to_string()
    };
    format!("at byte {at}\n  {}\n  {}", around(one), around(other))
}
