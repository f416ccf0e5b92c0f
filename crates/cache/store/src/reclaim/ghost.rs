//! Ghost table: fingerprints of items recently evicted from the small queue.
//!
//! A key that is stored again while its fingerprint is present was evicted too early, and goes to the main
//! queue. Four entries of 16 bits share a word, the newest replacing the oldest. An entry is a fingerprint of 12 bits and
//! the age at which it was made: ages advance with the bytes that are evicted, so that ghosts of large items are forgotten
//! as soon as those of small ones that took as much memory. A false match (1 in 1,000) only puts an item into the wrong
//! queue.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::error::Error;
use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::memory::backing::Backing;
use crate::memory::system::{Huge, Table};

#[derive(Debug)]
pub(crate) struct Ghosts {
    words: Table<AtomicU64>,
    /// Whether there has ever been a fingerprint: until memory is full, lookups are skipped.
    any: AtomicBool,
    /// The present age, from 1 to [`AGES`]; then again from 1. Changed by who reclaims, as are the other two.
    age: AtomicU64,
    /// Bytes evicted in this age.
    evicted: AtomicU64,
    /// Words that this age has cleared of the entries that the next one would take for its own.
    swept: AtomicUsize,
}

/// One byte of ghosts per 256 bytes of memory.
const SHARE: u64 = 256;
/// Ages that are told apart: 0 stands for an unused entry.
const AGES: u64 = 15;
/// Ages in which as many bytes are evicted as the memory has.
pub(crate) const AGES_PER_MEMORY: u64 = 5;
/// Bits of a fingerprint, below those of the age.
const FINGERPRINT_BITS: u32 = 12;
const ENTRIES: u32 = 4;

impl Ghosts {
    /// A table sized for a memory limit of `limit` bytes.
    pub(crate) fn new(limit: u64, backing: &Backing) -> Result<Ghosts, Error> {
        let words = Ghosts::bytes_for(limit) as usize / 8;
        Ok(Ghosts {
            words: Table::new(words, Huge::No, backing)?,
            any: AtomicBool::new(false),
            age: AtomicU64::new(1),
            evicted: AtomicU64::new(0),
            swept: AtomicUsize::new(0),
        })
    }

    /// Bytes of the table for a memory limit of `limit` bytes.
    pub(crate) fn bytes_for(limit: u64) -> u64 {
        8 << (limit / SHARE / 8).max(1).ilog2()
    }

    /// Bytes of the table once it is in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Entries that the table can have.
    pub(crate) fn entries_max(limit: u64) -> u64 {
        Ghosts::bytes_for(limit) / 8 * u64::from(ENTRIES)
    }

    /// Remembers an item of `bytes` bytes, of a memory of `limit` bytes. To be called by who reclaims.
    pub(crate) fn add(&self, hash: u64, bytes: u64, limit: u64) {
        if !self.any.load(Relaxed) {
            self.any.store(true, Relaxed);
        }
        self.advance(bytes, limit);
        let word = self.word(hash);
        let entry = self.age.load(Relaxed) << FINGERPRINT_BITS | fingerprint(hash);
        // Of two concurrent changes one may be lost: it is only a hint.
        word.store(word.load(Relaxed) << 16 | entry, Relaxed);
    }

    /// Whether an item was evicted in one of the last `ages` ages, the present one included.
    #[inline]
    pub(crate) fn contains(&self, hash: u64, ages: u64) -> bool {
        self.any.load(Relaxed) && self.find(hash, ages).is_some()
    }

    /// Forgets an item.
    pub(crate) fn forget(&self, hash: u64, ages: u64) {
        if let Some(place) = self.find(hash, ages) {
            let word = self.word(hash);
            word.store(word.load(Relaxed) & !(0xffff << (16 * place)), Relaxed);
        }
    }

    fn find(&self, hash: u64, ages: u64) -> Option<u32> {
        let (word, age, fingerprint) =
            (self.word(hash).load(Relaxed), self.age.load(Relaxed), fingerprint(hash));
        (0..ENTRIES).find(|place| {
            let entry = word >> (16 * place) & 0xffff;
            let made = entry >> FINGERPRINT_BITS;
            made != 0 && entry & FINGERPRINT == fingerprint && (age + AGES - made) % AGES < ages
        })
    }

    /// Counts evicted bytes, and clears as much of the table for the next age.
    fn advance(&self, bytes: u64, limit: u64) {
        let per_age = (limit / AGES_PER_MEMORY).max(1);
        let evicted = self.evicted.load(Relaxed) + bytes;
        let next = self.age.load(Relaxed) % AGES + 1;
        let goal =
            (self.words.len() as u128 * u128::from(evicted.min(per_age)) / u128::from(per_age)) as usize;
        let swept = self.swept.load(Relaxed).min(goal);
        for word in &self.words[swept..goal] {
            let value = word.load(Relaxed);
            let left = (0..ENTRIES).filter(|place| value >> (16 * place + FINGERPRINT_BITS) & 0xf == next);
            let left = left.fold(value, |left, place| left & !(0xffff << (16 * place)));
            if left != value {
                word.store(left, Relaxed);
            }
        }
        if evicted < per_age {
            self.evicted.store(evicted, Relaxed);
            self.swept.store(goal, Relaxed);
        } else {
            self.age.store(next, Relaxed);
            self.evicted.store(0, Relaxed);
            self.swept.store(0, Relaxed);
        }
    }

    /// The ages of the table are not part of it: another process takes all entries for recent ones or for old ones, and
    /// clears them within three times the memory.
    pub(crate) fn freeze(&self, manifest: &mut ManifestWriter) {
        manifest.put(self.any.load(Relaxed));
    }

    pub(crate) fn thaw(&self, manifest: &mut ManifestReader<'_>) -> Result<(), Damaged> {
        self.any.store(manifest.below(2)? == 1, Relaxed);
        Ok(())
    }

    #[inline]
    fn word(&self, hash: u64) -> &AtomicU64 {
        &self.words[(hash >> 8) as usize & (self.words.len() - 1)]
    }
}

const FINGERPRINT: u64 = (1 << FINGERPRINT_BITS) - 1;

#[inline]
fn fingerprint(hash: u64) -> u64 {
    hash >> 44 & FINGERPRINT
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::mix;

    const LIMIT: u64 = 1 << 20;

    fn ghosts() -> Ghosts {
        Ghosts::new(LIMIT, &Backing::Anonymous).unwrap()
    }

    fn remembered(ghosts: &Ghosts, range: std::ops::Range<u64>, ages: u64) -> u64 {
        range.filter(|i| ghosts.contains(mix(*i), ages)).count() as u64
    }

    #[test]
    fn the_latest_are_remembered_and_the_oldest_forgotten() {
        let ghosts = ghosts();
        let count = ghosts.bytes() / 2;
        (0..8 * count).for_each(|i| ghosts.add(mix(i), 1, LIMIT));
        assert!(remembered(&ghosts, 0..count, 14) < count / 50);
        assert_eq!(remembered(&ghosts, 8 * count - 10..8 * count, 14), 10);
    }

    #[test]
    fn large_items_are_forgotten_after_as_many_bytes_as_small_ones() {
        let ghosts = ghosts();
        // A hundred of them are the memory.
        (0..1000).for_each(|i| ghosts.add(mix(i), LIMIT / 100, LIMIT));
        assert!(remembered(&ghosts, 0..880, 5) <= 2, "more than one memory ago");
        assert_eq!(remembered(&ghosts, 920..1000, 5), 80, "within one memory");
        assert_eq!(remembered(&ghosts, 820..1000, 10), 180, "within two");
        // What is older than all ages is not taken for recent.
        assert!(remembered(&ghosts, 0..600, 14) <= 4);
    }

    #[test]
    fn a_forgotten_item_is_gone() {
        let ghosts = ghosts();
        ghosts.add(mix(1), 1, LIMIT);
        ghosts.add(mix(2), 1, LIMIT);
        ghosts.forget(mix(1), 5);
        assert_eq!([1, 2].map(|i| ghosts.contains(mix(i), 5)), [false, true]);
    }
}
