//! Rendezvous hashing: every child gets a score with the key, the highest one has it. A child that leaves takes nobody
//! else's keys along, wherever it stood.

use super::error::HashError;
use super::murmur::murmur64a;

const TAG_SEED: u32 = 4_193_360_111;
const KEY_SEED: u32 = 2_718_281_828;

/// Hashes of the children's tags.
#[derive(Clone, Debug)]
pub(super) struct Endpoints(Box<[u64]>);

impl Endpoints {
    pub(super) fn new(tags: &[&str]) -> Endpoints {
        Endpoints(tags.iter().map(|tag| murmur64a(tag.as_bytes(), TAG_SEED)).collect())
    }

    /// The highest score; of equal ones, the last.
    pub(super) fn select(&self, key: &[u8]) -> usize {
        let mut best = (-1.0, 0);
        for (child, score) in self.scores(key).enumerate() {
            if score >= best.0 {
                best = (score, child);
            }
        }
        best.1
    }

    /// The highest weighted score; of equal ones, the first.
    pub(super) fn select_weighted(&self, weights: &[f64], key: &[u8]) -> usize {
        let mut best = (0.0, 0);
        for (child, score) in self.weighted_scores(weights, key).enumerate() {
            if score > best.0 {
                best = (score, child);
            }
        }
        best.1
    }

    /// All children, the highest score first; of equal ones, the last child first.
    pub(super) fn ranking(&self, key: &[u8]) -> Vec<usize> {
        ranked(self.scores(key))
    }

    /// The same with weights.
    pub(super) fn weighted_ranking(&self, weights: &[f64], key: &[u8]) -> Vec<usize> {
        ranked(self.weighted_scores(weights, key))
    }

    /// Scores as doubles, as mcrouter compares them: the lowest 11 bits are rounded away.
    fn scores(&self, key: &[u8]) -> impl Iterator<Item = f64> {
        self.whole_scores(key).map(|score| score as f64)
    }

    fn weighted_scores(&self, weights: &[f64], key: &[u8]) -> impl Iterator<Item = f64> {
        self.whole_scores(key).zip(weights).map(|(score, weight)| {
            let unit = (score & ((1 << 53) - 1)) as f64 / (1_u64 << 53) as f64;
            weight * (1.0 / -unit.ln())
        })
    }

    fn whole_scores(&self, key: &[u8]) -> impl Iterator<Item = u64> {
        let key_hash = murmur64a(key, KEY_SEED);
        self.0.iter().map(move |&tag_hash| combine(tag_hash, key_hash))
    }
}

/// Weights that a score can be multiplied with, one per child.
pub(super) fn check_weights(weights: &[f64], children: usize) -> Result<(), HashError> {
    if weights.len() != children {
        return Err(HashError::WeightCount { children, weights: weights.len() });
    }
    match weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
        Some(&found) => Err(HashError::Weight { accepted: "of at least 0", found }),
        None => Ok(()),
    }
}

fn ranked(scores: impl Iterator<Item = f64>) -> Vec<usize> {
    let mut ranking: Vec<(f64, usize)> = scores.enumerate().map(|(child, score)| (score, child)).collect();
    ranking.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    ranking.into_iter().map(|(_, child)| child).collect()
}

/// 128 bits to 64, as CityHash does it.
#[inline]
pub(super) fn combine(upper: u64, lower: u64) -> u64 {
    const MULTIPLIER: u64 = 0x9ddf_ea08_eb38_2d69;
    let mixed = (lower ^ upper).wrapping_mul(MULTIPLIER);
    let mixed = (upper ^ mixed ^ (mixed >> 47)).wrapping_mul(MULTIPLIER);
    (mixed ^ (mixed >> 47)).wrapping_mul(MULTIPLIER)
}
