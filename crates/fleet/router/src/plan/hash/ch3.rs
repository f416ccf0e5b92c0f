//! Ch3, a consistent hash: a walk down a binary tree whose turns are bits of a hash of the key.
//!
//! A child added at the end takes keys from all others, and nothing else moves.

use super::murmur::{murmur64a, murmur64a_of_number};

/// Children that Ch3 can tell apart: 2^23.
pub const CH3_COUNT_MAX: usize = 1 << 23;

/// Seed of the hash that gives the bits.
const SEED: u32 = 4_193_360_111;
/// Bits between two turns on one level.
const STEP: u32 = 23;
/// Walks that may end beyond the last child before the answer is child 0.
const WALKS_MAX: u32 = 32;

/// The child of a key among `count` of them.
#[inline]
pub fn ch3(key: &[u8], count: u32) -> u32 {
    if count <= 1 {
        return 0;
    }
    let mut bits = Bits::new(murmur64a(key, SEED));
    let mut level = u32::BITS - (count - 1).leading_zeros();
    let mut at = level;
    for _ in 0..WALKS_MAX {
        if !bits.get(at) {
            // Down to the first level whose bit is set. The bits of all levels are in the first hash.
            let below = bits.kept[0] & ((1 << level) - 2);
            if below == 0 {
                return 0;
            }
            level = below.ilog2();
            at = level;
        }
        let mut child = 1;
        for _ in 1..level {
            at += STEP;
            child = (child << 1) | bits.get_number(at);
        }
        at += STEP;
        if child < count {
            return child;
        }
    }
    0
}

/// An endless row of bits: a hash, the hash of that hash, and so on.
///
/// A walk goes forward and starts again near the beginning, so the first hashes are kept. Further ones, which one key
/// of many millions reaches, are computed again.
struct Bits {
    kept: [u64; 8],
    count: usize,
}

impl Bits {
    fn new(first: u64) -> Bits {
        let mut kept = [0; 8];
        kept[0] = first;
        Bits { kept, count: 1 }
    }

    #[inline]
    fn get(&mut self, at: u32) -> bool {
        self.get_number(at) == 1
    }

    #[inline]
    fn get_number(&mut self, at: u32) -> u32 {
        let word = (at / u64::BITS) as usize;
        while self.count <= word.min(self.kept.len() - 1) {
            self.kept[self.count] = murmur64a_of_number(self.kept[self.count - 1], SEED);
            self.count += 1;
        }
        let hash = match self.kept.get(word) {
            Some(&hash) => hash,
            None => self.beyond(word),
        };
        (hash >> (at % u64::BITS)) as u32 & 1
    }

    #[cold]
    fn beyond(&self, word: usize) -> u64 {
        let last = self.kept.len() - 1;
        (last..word).fold(self.kept[last], |hash, _| murmur64a_of_number(hash, SEED))
    }
}
