//! Samples of the keys that clients ask for.
//!
//! A request costs a subtraction. A key is hashed only where it is a sample, so keys are known by samples alone.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use ::hot_keys::{HotTable, KeyAccess, KeySampler};
use stdx::clock::Now;

/// A worker's samples.
pub(crate) struct HotSamples {
    sampler: KeySampler,
    /// With a secret, so that no client can choose keys that displace each other in a ranking. That of all workers, whose
    /// figures are added up by hash.
    hasher: RandomState,
}

impl HotSamples {
    pub(crate) fn new(table: Arc<HotTable>, hasher: RandomState, seed: u64) -> HotSamples {
        let sampler = KeySampler::by_samples_alone(table, seed.rotate_left(32));
        HotSamples { sampler, hasher }
    }

    /// Counts a request for a key, as the client wrote it.
    #[inline]
    pub(crate) fn count(&mut self, key: &[u8], now: Now) {
        if self.sampler.is_due_by_count() {
            self.sample(key, now);
        }
    }

    #[cold]
    fn sample(&mut self, key: &[u8], now: Now) {
        let hash = self.hasher.hash_one(key);
        self.sampler.take(&KeyAccess { key, hash, bytes: 0, missed: false }, now);
    }
}
