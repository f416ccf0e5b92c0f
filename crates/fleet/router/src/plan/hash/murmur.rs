//! MurmurHash64A (Austin Appleby, public domain).

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;

/// The hash of a text.
#[inline]
pub fn murmur64a(text: &[u8], seed: u32) -> u64 {
    let mut hash = u64::from(seed) ^ (text.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        hash = (hash ^ scramble(u64::from_le_bytes(*word))).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| (word << 8) | u64::from(byte));
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    finish(hash)
}

/// The same for the 8 bytes of a number.
#[inline]
pub(super) fn murmur64a_of_number(number: u64, seed: u32) -> u64 {
    let hash = u64::from(seed) ^ 8_u64.wrapping_mul(MULTIPLIER);
    finish((hash ^ scramble(number)).wrapping_mul(MULTIPLIER))
}

#[inline]
fn scramble(word: u64) -> u64 {
    let word = word.wrapping_mul(MULTIPLIER);
    (word ^ (word >> 47)).wrapping_mul(MULTIPLIER)
}

#[inline]
fn finish(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 47)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 47)
}
