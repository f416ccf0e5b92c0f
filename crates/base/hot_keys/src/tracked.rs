//! Keys that samples have shown to be hot: each access to them is counted, so that their share is known exactly.
//!
//! One place for a hash, so an access compares one word of 1 KiB: 1 ns.

use super::HotWindow;
use super::KeyAccess;

/// Places, a power of two. Two hot keys that share one: the later one is counted by samples alone.
const PLACES: usize = 128;

/// Share of the accesses, as a divisor, from which on a key is counted, and below which it is not any more.
const BEGIN: u64 = 500;
const END: u64 = 1000;

/// Samples of a key before it is counted: fewer may be chance.
const SAMPLES_MIN: u64 = 8;

/// The keys of a worker.
pub(super) struct Tracked {
    hashes: [u64; PLACES],
    /// Accesses that are in no window yet.
    counts: [u32; PLACES],
    keys: Vec<TrackedKey>,
    /// No key is counted.
    pub(super) is_off: bool,
}

#[derive(Clone, Default)]
struct TrackedKey {
    key: Vec<u8>,
    /// Accesses in the present window.
    counted: u64,
    /// Since an earlier window.
    is_old: bool,
}

impl Default for Tracked {
    fn default() -> Tracked {
        Tracked {
            hashes: [0; PLACES],
            counts: [0; PLACES],
            keys: vec![TrackedKey::default(); PLACES],
            is_off: false,
        }
    }
}

fn place_of(hash: u64) -> usize {
    hash as usize % PLACES
}

impl Tracked {
    /// Counts an access, if it is to one of the keys.
    #[inline]
    pub(super) fn count(&mut self, hash: u64) {
        let place = place_of(hash);
        // Without a branch: where a half of the accesses are to such keys, it would often be predicted wrongly.
        self.counts[place] = self.counts[place].wrapping_add(u32::from(self.hashes[place] == hash));
    }

    pub(super) fn has(&self, hash: u64) -> bool {
        self.hashes[place_of(hash)] == hash
    }

    /// Counts the accesses to a key from now on, if it certainly had enough of them and its place is free.
    pub(super) fn consider(&mut self, access: &KeyAccess<'_>, certain: u64, accesses: u64, gap: u32) {
        let place = place_of(access.hash);
        let is_hot = certain * BEGIN > accesses && certain >= SAMPLES_MIN * u64::from(gap);
        // Where every access is a sample there is nothing to gain.
        if !self.is_off && gap > 1 && is_hot && self.hashes[place] == 0 {
            (self.hashes[place], self.counts[place]) = (access.hash, 0);
            let key = &mut self.keys[place];
            key.key.clear();
            key.key.extend_from_slice(access.key);
            (key.counted, key.is_old) = (0, false);
        }
    }

    /// Moves all counts into a window.
    pub(super) fn flush(&mut self, window: &mut HotWindow) {
        for place in 0..PLACES {
            let count = u64::from(std::mem::take(&mut self.counts[place]));
            if count > 0 {
                let tracked = &mut self.keys[place];
                tracked.counted += count;
                let access =
                    KeyAccess { key: &tracked.key, hash: self.hashes[place], bytes: 0, missed: false };
                window.requests.add(&access, count, 1);
            }
        }
    }

    /// A window of so many accesses has ended: forgets the keys that were not hot in all of it.
    pub(super) fn end_window(&mut self, accesses: u64) {
        for (hash, tracked) in self.hashes.iter_mut().zip(&mut self.keys) {
            if tracked.is_old && tracked.counted * END < accesses {
                *hash = 0;
            }
            (tracked.counted, tracked.is_old) = (0, true);
        }
    }

    /// Forgets all keys, whose counts have been moved.
    pub(super) fn clear(&mut self) {
        self.hashes = [0; PLACES];
    }
}
