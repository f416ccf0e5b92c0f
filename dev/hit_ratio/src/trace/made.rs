//! Small traces of our own making, for tests and for a first look: always the same.

use super::ItemTrace;
use stdx::prng::{Prng, mix};

/// Some items are used much more often than others; all are of the same size. Now and then comes a scan.
pub(crate) fn equal_sizes(requests: usize) -> ItemTrace {
    ItemTrace::new(uses(requests, 1).map(|object| (object, 100)))
}

/// The same, of mixed sizes.
pub(crate) fn mixed_sizes(requests: usize) -> ItemTrace {
    ItemTrace::new(uses(requests, 2).map(|object| (object, 100 + (mix(object) % 3900) as u32)))
}

fn uses(requests: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut prng = Prng::new(seed);
    let mut scanned = KEYS;
    let mut left = 0;
    (0..requests).map(move |_| {
        if left == 0 && prng.below(SCAN_ONE_IN) == 0 {
            left = SCAN;
        }
        if left > 0 {
            left -= 1;
            scanned += 1;
            return scanned;
        }
        (prng.unit().powi(4) * KEYS as f64) as u64
    })
}

const KEYS: u64 = 20_000;
/// Items of one scan, and requests between two of them on the average.
const SCAN: u64 = 500;
const SCAN_ONE_IN: u64 = 5000;
