//! Rankings of keys by weight in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005), in sets of eight.
//!
//! A key belongs to one set, by its hash. If it is not among the eight keys there, it takes the place of the lightest one
//! and its weight, too, which is noted as its error: a key's true weight is at least its weight less its error, and a key
//! that is missing has at most the lightest weight of its set. A set is a few cache lines, where a list of all keys would
//! have to be searched. Clients cannot choose keys of one set, because the hash has a secret.

use super::KeyAccess;

/// Keys of a set: their hashes are one cache line.
const SET_KEYS: usize = 8;
/// Sets, a power of two. A key that has 1/512 of all is never missing from 512 places in one list; with sets it is
/// missing with keys that fall together by chance only.
const SETS: usize = 64;

/// Weights of keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking {
    /// Empty until the first key: a window in which nobody misses needs no memory for misses.
    sets: Vec<KeySet>,
    /// The weight of all.
    pub(crate) total: u64,
}

/// The keys of a set. In a free place the weight and the hash are 0.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct KeySet {
    hashes: [u64; SET_KEYS],
    weights: [u64; SET_KEYS],
    errors: [u64; SET_KEYS],
    /// Of the estimates from samples.
    variances: [f32; SET_KEYS],
    keys: [Vec<u8>; SET_KEYS],
}

/// A key of a ranking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankedKey<'r> {
    pub(crate) key: &'r [u8],
    pub(crate) hash: u64,
    pub(crate) weight: u64,
    /// So much of the weight may be that of other keys.
    pub(crate) error: u64,
    pub(crate) variance: f64,
}

impl Ranking {
    /// Adds `weight` for each of the accesses of which one in `gap` is a sample. Returns what is certain of the key's weight.
    pub(crate) fn add(&mut self, access: &KeyAccess<'_>, weight: u64, gap: u32) -> u64 {
        if self.sets.is_empty() {
            self.sets.resize_with(SETS, KeySet::default);
        }
        debug_assert!(weight > 0);
        let estimate = weight.saturating_mul(gap.into());
        self.total = self.total.saturating_add(estimate);
        let set = &mut self.sets[set_of(access.hash)];
        let place = set.place(access);
        set.weights[place] = set.weights[place].saturating_add(estimate);
        // Of a sum of samples that are each taken with probability 1/gap.
        set.variances[place] += weight as f32 * weight as f32 * (gap as f32 * (gap - 1) as f32);
        set.weights[place] - set.errors[place]
    }

    /// Forgets all keys, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.total = 0;
        for set in &mut self.sets {
            (set.hashes, set.weights, set.errors, set.variances) = Default::default();
        }
    }

    /// All keys, in no order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = RankedKey<'_>> {
        self.sets.iter().flat_map(|set| {
            let taken = (0..SET_KEYS).filter(|place| set.weights[*place] > 0);
            taken.map(|place| RankedKey {
                key: &set.keys[place],
                hash: set.hashes[place],
                weight: set.weights[place],
                error: set.errors[place],
                variance: set.variances[place].into(),
            })
        })
    }

    /// The most that a key of this hash can weigh if it is not among the keys.
    pub(crate) fn missing_max(&self, hash: u64) -> u64 {
        self.sets.get(set_of(hash)).and_then(|set| set.weights.into_iter().min()).unwrap_or(0)
    }
}

fn set_of(hash: u64) -> usize {
    (hash >> 32) as usize % SETS
}

impl KeySet {
    /// The key's place. If it has none, that of the lightest key, whose weight becomes its error.
    #[inline]
    fn place(&mut self, access: &KeyAccess<'_>) -> usize {
        // Two keys of one hash would count as one: 1 in 2^64. All eight are compared, without a branch for each.
        let same = (0..SET_KEYS)
            .fold(0u32, |same, place| same | u32::from(self.hashes[place] == access.hash) << place);
        if same != 0 {
            return same.trailing_zeros() as usize;
        }
        let place = (0..SET_KEYS).min_by_key(|place| self.weights[*place]).expect("a set has places");
        (self.hashes[place], self.errors[place], self.variances[place]) =
            (access.hash, self.weights[place], 0.0);
        self.keys[place].clear();
        self.keys[place].extend_from_slice(access.key);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use stdx::prng::{Prng, mix};

    fn access(key: &[u8], hash: u64) -> KeyAccess<'_> {
        KeyAccess { key, hash, bytes: 0, missed: false }
    }

    /// Whatever comes: no key weighs less than its weight less its error, none more than its weight, and missing ones at
    /// most what the ranking says.
    #[test]
    fn bounds_hold_for_any_sequence() {
        for seed in 0..30 {
            let mut prng = Prng::new(seed);
            let (mut ranking, mut model) = (Ranking::default(), HashMap::<u64, u64>::new());
            let keys = 1 + prng.below(3000);
            for _ in 0..20_000 {
                // Squared: some keys are much hotter than others.
                let key = (prng.unit() * prng.unit() * keys as f64) as u64;
                let weight = 1 + prng.below(1 + seed);
                ranking.add(&access(&key.to_le_bytes(), mix(key + 1)), weight, 1);
                *model.entry(key).or_default() += weight;
            }
            assert_eq!(ranking.total, model.values().sum::<u64>());
            let mut present = 0;
            for ranked in ranking.keys() {
                let key = u64::from_le_bytes(ranked.key.try_into().expect("eight bytes"));
                let truth = model.remove(&key).expect("no key is invented, none is there twice");
                assert!(
                    ranked.weight - ranked.error <= truth && truth <= ranked.weight,
                    "seed {seed}: {ranked:?} {truth}"
                );
                present += 1;
            }
            assert!(present <= SETS * SET_KEYS);
            for (key, truth) in model {
                assert!(truth <= ranking.missing_max(mix(key + 1)), "seed {seed}: {key} {truth}");
            }
        }
    }

    #[test]
    fn extreme_weights_neither_wrap_nor_panic() {
        let mut ranking = Ranking::default();
        for hash in 0..10_000u64 {
            ranking.add(&access(&[0; 250], hash << 29), u64::MAX / 3, u32::MAX);
        }
        assert_eq!(ranking.total, u64::MAX);
    }

    #[test]
    fn a_cleared_ranking_has_no_keys() {
        let mut ranking = Ranking::default();
        ranking.add(&access(b"a", 1), 1, 1);
        ranking.clear();
        assert_eq!((ranking.keys().count(), ranking.total, ranking.missing_max(1)), (0, 0, 0));
        ranking.add(&access(b"b", 2), 1, 1);
        assert_eq!(
            ranking.keys().map(|ranked| (ranked.key.to_vec(), ranked.error)).collect::<Vec<_>>(),
            [(b"b".to_vec(), 0)]
        );
    }
}
