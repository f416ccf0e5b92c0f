//! Ch3 with weights: a child refuses its share of keys, and they are hashed again with a counter behind them.

use super::ch3::ch3;
use super::error::HashError;
use super::salted::Salted;
use super::spooky::spooky32;

/// Weight of children that the configuration gives none: mcrouter's, which logs an error, too.
pub const WEIGHT_OF_MISSING: f64 = 0.5;

/// Seed of the hash that is compared with the weight.
const SEED: u32 = 0xface_2014;
/// Hashes after which the last child gets the key, whatever its weight.
const TRIES_MAX: u32 = 32;
/// Digits of the largest counter.
const COUNTER_LEN: usize = 2;

/// A weight per child.
#[derive(Clone, Debug)]
pub(super) struct WeightedCh3 {
    /// Of 2^32 - 1 hashes, so many are accepted.
    shares: Box<[u32]>,
}

impl WeightedCh3 {
    /// Weights from 0 to 1. Superfluous ones are ignored, missing ones are [`WEIGHT_OF_MISSING`].
    pub(super) fn new(weights: &[f64], count: usize) -> Result<WeightedCh3, HashError> {
        let given = weights.iter().copied();
        let all = given.chain(std::iter::repeat(WEIGHT_OF_MISSING)).take(count);
        Ok(WeightedCh3 { shares: all.map(share).collect::<Result<_, _>>()? })
    }

    pub(super) fn select(&self, key: &[u8]) -> usize {
        select(key, &self.shares)
    }
}

/// A weight as a part of 2^32 - 1.
pub(super) fn share(weight: f64) -> Result<u32, HashError> {
    if (0.0..=1.0).contains(&weight) {
        Ok((weight * f64::from(u32::MAX)) as u32)
    } else {
        Err(HashError::Weight { accepted: "from 0 to 1", found: weight })
    }
}

/// The child of a key among those that have shares.
pub(super) fn select(key: &[u8], shares: &[u32]) -> usize {
    select_by(key, shares.len() as u32, |child| shares[child])
}

/// The same, where `share` knows the shares.
#[inline]
pub(super) fn select_by(key: &[u8], count: u32, share: impl Fn(usize) -> u32) -> usize {
    let first = ch3(key, count) as usize;
    if spooky32(key, SEED) < share(first) {
        return first;
    }
    let mut salted = Salted::new(key, COUNTER_LEN);
    let bytes = salted.bytes();
    let mut child = first;
    for counter in 0..TRIES_MAX - 1 {
        let len = key.len() + write_reversed(counter, &mut bytes[key.len()..]);
        child = ch3(&bytes[..len], count) as usize;
        if spooky32(&bytes[..len], SEED) < share(child) {
            break;
        }
    }
    child
}

/// Writes a number with its last digit first, and returns how many digits it has.
fn write_reversed(mut number: u32, into: &mut [u8]) -> usize {
    let mut len = 0;
    loop {
        into[len] = b'0' + (number % 10) as u8;
        len += 1;
        number /= 10;
        if number == 0 {
            return len;
        }
    }
}
