//! Samples of the keys that clients ask for.
//!
//! A request costs a subtraction. A key is hashed only where it is a sample, so keys are known by samples alone.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use ::hot_keys::{HotTable, KeyAccess, KeySampler};
use stdx::clock::Now;

use crate::hot::marks::HotMarks;

/// A worker's samples.
pub(crate) struct HotSamples {
    sampler: KeySampler,
    /// With a secret, so that no client can choose keys that displace each other in a ranking. That of all workers, whose
    /// figures are added up by hash.
    hasher: RandomState,
    marks: Arc<HotMarks>,
}

impl HotSamples {
    pub(crate) fn new(
        table: Arc<HotTable>,
        marks: Arc<HotMarks>,
        hasher: RandomState,
        seed: u64,
    ) -> HotSamples {
        let sampler = KeySampler::by_samples_alone(table, seed.rotate_left(32));
        HotSamples { sampler, hasher, marks }
    }

    /// Counts a request for a key, as the client wrote it. Returns whether it is a sample.
    #[inline]
    pub(crate) fn count(&mut self, key: &[u8], now: Now) -> bool {
        let is_due = self.sampler.is_due_by_count();
        if is_due {
            self.sample(key, now);
        }
        is_due
    }

    /// A request that is a sample was answered by a hot value.
    #[cold]
    pub(crate) fn mark(&self, key: &[u8], now: Now) {
        self.marks.mark(self.hasher.hash_one(key), now);
    }

    #[cold]
    fn sample(&mut self, key: &[u8], now: Now) {
        let hash = self.hasher.hash_one(key);
        self.sampler.take(&KeyAccess { key, hash, bytes: 0, missed: false }, now);
    }
}
