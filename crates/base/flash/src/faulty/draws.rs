//! Random numbers of a disk that fails: SplitMix64, as in `stdx`, which a crate of this layer does not use.

use std::collections::BTreeSet;

/// A generator that gives the same numbers for the same seed.
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64 / (1_u64 << 53) as f64) < probability
    }

    /// Flips so many bits, all of them different; if there are fewer, each.
    pub(super) fn flip_bits(&mut self, bytes: &mut [u8], bits: u64) {
        let all = bytes.len() as u64 * 8;
        let mut flipped = BTreeSet::new();
        while (flipped.len() as u64) < bits.min(all) {
            let bit = self.below(all);
            if flipped.insert(bit) {
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
    }
}
