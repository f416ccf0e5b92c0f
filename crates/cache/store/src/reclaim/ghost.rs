//! Ghost table: fingerprints of items recently evicted from the small queue.
//!
//! A key that is stored again while its fingerprint is present was evicted too early, and goes to the main
//! queue. Four fingerprints of 16 bits share a word, the newest replacing the oldest. A false match (1 in
//! 16,000) only puts an item into the wrong queue.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::error::Error;
use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::memory::backing::Backing;
use crate::memory::system::{Huge, Table};

#[derive(Debug)]
pub(crate) struct Ghosts {
    words: Table<AtomicU64>,
    /// Whether there has ever been a fingerprint: until memory is full, lookups are skipped.
    any: AtomicBool,
}

/// One byte of ghosts per 256 bytes of memory.
const SHARE: u64 = 256;

impl Ghosts {
    /// A table sized for a memory limit of `limit` bytes.
    pub(crate) fn new(limit: u64, backing: &Backing) -> Result<Ghosts, Error> {
        let words = Ghosts::bytes_for(limit) as usize / 8;
        Ok(Ghosts { words: Table::new(words, Huge::No, backing)?, any: AtomicBool::new(false) })
    }

    /// Bytes of the table for a memory limit of `limit` bytes.
    pub(crate) fn bytes_for(limit: u64) -> u64 {
        8 << (limit / SHARE / 8).max(1).ilog2()
    }

    /// Bytes of the table once it is in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    pub(crate) fn add(&self, hash: u64) {
        if !self.any.load(Relaxed) {
            self.any.store(true, Relaxed);
        }
        let word = self.word(hash);
        // Of two concurrent additions one may be lost: it is only a hint.
        word.store(word.load(Relaxed) << 16 | fingerprint(hash), Relaxed);
    }

    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        if !self.any.load(Relaxed) {
            return false;
        }
        let word = self.word(hash).load(Relaxed);
        let fingerprint = fingerprint(hash);
        (0..4).any(|i| word >> (16 * i) & 0xffff == fingerprint)
    }

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

/// Never 0, the value of an unused place.
#[inline]
fn fingerprint(hash: u64) -> u64 {
    (hash >> 44 & 0xffff).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::mix;

    #[test]
    fn the_latest_are_remembered_and_the_oldest_forgotten() {
        let ghosts = Ghosts::new(1 << 20, &Backing::Anonymous).unwrap();
        let count = ghosts.bytes() / 2;
        (0..8 * count).for_each(|i| ghosts.add(mix(i)));
        let remembered =
            |range: std::ops::Range<u64>| range.filter(|i| ghosts.contains(mix(*i))).count() as u64;
        assert!(remembered(0..count) < count / 100);
        assert_eq!(remembered(8 * count - 10..8 * count), 10);
    }
}
