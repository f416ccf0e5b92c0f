//! The key and its hash: 64 bits, seeded, computed once per request.
//!
//! The folded 64×64→128 bit multiplication of Wang Yi's wyhash; our own code from the published idea.

/// A key and its hash. Made by [`crate::Handle::key`].
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
}

impl<'k> Key<'k> {
    pub(crate) fn new(bytes: &'k [u8], seed: u64) -> Key<'k> {
        assert!(!bytes.is_empty() && bytes.len() <= KEY_LEN_MAX, "a key has 1 to {KEY_LEN_MAX} bytes");
        Key { bytes, hash: hash(bytes, seed) }
    }

    /// The key itself.
    pub fn as_bytes(&self) -> &'k [u8] {
        self.bytes
    }
}

/// The longest key, in bytes.
pub const KEY_LEN_MAX: usize = 250;

/// Odd constants without structure (the fractional digits of pi, e and √2 in binary, made odd).
const PI: u64 = 0x243f_6a88_85a3_08d3;
const E: u64 = 0xb7e1_5162_8aed_2a6b;
const ROOT2: u64 = 0x6a09_e667_f3bc_c909;

#[inline]
pub(crate) fn hash(bytes: &[u8], seed: u64) -> u64 {
    let len = bytes.len();
    let mut state = seed ^ PI;
    let (a, b) = if len <= 16 {
        match len {
            8.. => (word(bytes, 0), word(bytes, len - 8)),
            4.. => (half(bytes, 0), half(bytes, len - 4)),
            1.. => {
                (u64::from(bytes[0]) << 16 | u64::from(bytes[len / 2]) << 8 | u64::from(bytes[len - 1]), 0)
            }
            0 => (0, 0),
        }
    } else {
        let mut at = 0;
        while at + 16 < len {
            state = fold(word(bytes, at) ^ E, word(bytes, at + 8) ^ state);
            at += 16;
        }
        (word(bytes, len - 16), word(bytes, len - 8))
    };
    // The seed enters both factors, so that no key makes one of them zero for every seed.
    fold(fold(a ^ E ^ state, b ^ ROOT2.wrapping_add(state)), PI ^ len as u64)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_bit_of_the_hash_depends_on_every_bit_of_the_key() {
        for len in [1, 3, 4, 7, 8, 12, 16, 17, 33, 250] {
            let key: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            let mut flips = [0u32; 64];
            for bit in 0..len * 8 {
                for seed in 0..16 {
                    let mut other = key.clone();
                    other[bit / 8] ^= 1 << (bit % 8);
                    let difference = hash(&key, seed) ^ hash(&other, seed);
                    assert_ne!(difference, 0, "{len} {bit}");
                    (0..64).for_each(|i| flips[i] += (difference >> i) as u32 & 1);
                }
            }
            let trials = len as u32 * 8 * 16;
            let near_half = |count: &u32| *count > trials / 4 && *count < trials * 3 / 4;
            assert!(flips.iter().all(near_half), "{len}: {flips:?} of {trials}");
        }
    }

    #[test]
    fn counting_keys_do_not_collide_in_any_field_of_the_hash() {
        let hashes: Vec<u64> = (0..100_000u32).map(|i| hash(format!("key:{i}").as_bytes(), 7)).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        for shift in [0, 20, 40, 56] {
            let mut counts = [0u32; 256];
            hashes.iter().for_each(|hash| counts[(hash >> shift) as usize & 255] += 1);
            assert!(counts.iter().all(|count| (280..510).contains(count)), "{shift}: {counts:?}");
        }
    }

    #[test]
    fn the_seed_changes_the_hash() {
        assert_ne!(hash(b"a", 1), hash(b"a", 2));
    }
}
