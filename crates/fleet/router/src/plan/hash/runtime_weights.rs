//! Weights that change while the hash is in use.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::error::HashError;
use super::weighted_ch3::{self, WEIGHT_OF_MISSING, share};

/// A weight for each child of a WeightedCh3Rv hash. All workers read them while one thread sets them.
#[derive(Debug)]
pub struct RuntimeWeights {
    /// Of 2^32 - 1 hashes, so many are accepted.
    shares: Box<[AtomicU32]>,
}

impl RuntimeWeights {
    /// For `count` children, each with [`WEIGHT_OF_MISSING`].
    pub fn new(count: usize) -> RuntimeWeights {
        let share = share(WEIGHT_OF_MISSING).expect("it is from 0 to 1");
        RuntimeWeights { shares: (0..count).map(|_| AtomicU32::new(share)).collect() }
    }

    /// Sets them, all or none. Superfluous ones are ignored, missing ones are [`WEIGHT_OF_MISSING`].
    ///
    /// # Errors
    /// A weight that is not from 0 to 1.
    pub fn set(&self, weights: &[f64]) -> Result<(), HashError> {
        let all = weights.iter().copied().chain(std::iter::repeat(WEIGHT_OF_MISSING));
        let shares = all.take(self.shares.len()).map(share).collect::<Result<Vec<u32>, _>>()?;
        self.shares.iter().zip(shares).for_each(|(share, new)| share.store(new, Relaxed));
        Ok(())
    }

    pub(super) fn select(&self, key: &[u8]) -> usize {
        weighted_ch3::select_by(key, self.shares.len() as u32, |child| self.shares[child].load(Relaxed))
    }
}
