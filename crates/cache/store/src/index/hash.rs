//! The key and its hash: 64 bits, keyed with a secret, computed once per request.
//!
//! SipHash-1-3, the published defence against chosen keys (Aumasson and Bernstein, "SipHash: a fast
//! short-input PRF", 2012; Rust's and Python's hash tables use this variant): without the 128 bits of the
//! secret, hashes cannot be told from random numbers, so a client cannot choose keys of one index page.
//! Multiplicative hashes without such a proof were tried: a block of a key that cancels the state did so
//! under every seed.

use siphasher::sip::SipHasher13;

/// A key and its hash. Made by [`crate::Handle::key`].
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
}

impl<'k> Key<'k> {
    pub(crate) fn new(bytes: &'k [u8], hash: &KeyHash) -> Key<'k> {
        assert!(!bytes.is_empty() && bytes.len() <= KEY_LEN_MAX, "a key has 1 to {KEY_LEN_MAX} bytes");
        Key { bytes, hash: hash.of(bytes) }
    }

    /// The hash, which clients cannot predict.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The key itself.
    pub fn as_bytes(&self) -> &'k [u8] {
        self.bytes
    }
}

/// The longest key, in bytes.
pub const KEY_LEN_MAX: usize = 250;

/// The hash function of one store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash(SipHasher13);

impl KeyHash {
    pub(crate) fn new(secret: u128) -> KeyHash {
        KeyHash(SipHasher13::new_with_keys(secret as u64, (secret >> 64) as u64))
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hash(key: &[u8], secret: u128) -> u64 {
        KeyHash::new(secret).of(key)
    }

    #[test]
    fn every_bit_of_the_hash_depends_on_every_bit_of_the_key() {
        for len in [1, 3, 4, 7, 8, 12, 16, 17, 33, 250] {
            let key: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            let mut flips = [0u32; 64];
            for bit in 0..len * 8 {
                for secret in 0..16 {
                    let mut other = key.clone();
                    other[bit / 8] ^= 1 << (bit % 8);
                    let difference = hash(&key, secret) ^ hash(&other, secret);
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
    fn both_halves_of_the_secret_change_the_hash() {
        assert_ne!(hash(b"a", 1), hash(b"a", 2));
        assert_ne!(hash(b"a", 1), hash(b"a", 1 | 1 << 64));
    }

    /// Blocks that cancelled the state of a multiplicative hash under every seed, because half of the factors
    /// of each product come from the key. No 16 bytes do so here.
    #[test]
    fn no_block_of_a_key_makes_the_rest_the_same_for_every_secret() {
        const E: u64 = 0xb7e1_5162_8aed_2a6b;
        let mut cancelling = Vec::from(E.to_le_bytes());
        cancelling.extend([0; 8]);
        cancelling.extend(b"the same last 16");
        for secret in 0..64 {
            let hashes: HashSet<u64> = (0..64u64)
                .map(|free| {
                    cancelling[8..16].copy_from_slice(&free.to_le_bytes());
                    hash(&cancelling, secret)
                })
                .collect();
            assert_eq!(hashes.len(), 64, "{secret}");
        }
    }
}
