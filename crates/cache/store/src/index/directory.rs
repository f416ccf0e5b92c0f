//! Directories of all shards: from the low bits of a hash to a page.
//!
//! A shard's directory has 2^depth entries and doubles as needed. All directories share one table, in rows of
//! 64 entries of every shard, so that memory fills row by row while the shards grow at about the same rate.
//! Level d is the entries that take a directory from depth d − 1 to d. A level is charged for all shards
//! before the first shard uses it, and given back when the last one has released it.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

use crate::error::Error;
use crate::manifest::numbers::Damaged;
use crate::memory::backing::Backing;
use crate::memory::budget::Budget;
use crate::memory::system::{Huge, Table};
use crate::sync::{Mutex, lock};

#[derive(Debug)]
pub(super) struct Directory {
    entries: Table<AtomicU32>,
    shard_bits: u32,
    /// The maximum depth, limited by the address space.
    depth_max: u32,
    /// The innermost lock: no other is taken while it is held.
    levels: Mutex<Levels>,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Levels {
    charged: u32,
    /// Number of shards with at least this many levels.
    users: [u32; DEPTH_MAX as usize + 1],
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { charged: ROW_BITS, users: [0; DEPTH_MAX as usize + 1] }
    }
}

/// The number of a page, and how many low bits its entries' hashes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) page: u32,
    pub(super) depth: u32,
}

pub(super) const PAGE_BITS: u32 = 27;
/// The bits of the hash that only the directory uses.
pub(crate) const DEPTH_MAX: u32 = 20;
/// A row has 2^6 entries per shard. The first one is always charged.
const ROW_BITS: u32 = 6;
const ENTRY_LEN: u64 = size_of::<AtomicU32>() as u64;

impl Entry {
    #[inline]
    fn read(bits: u32) -> Entry {
        Entry { page: bits & ((1 << PAGE_BITS) - 1), depth: bits >> PAGE_BITS }
    }

    fn bits(self) -> u32 {
        self.depth << PAGE_BITS | self.page
    }
}

impl Directory {
    /// Directories for `shards` shards and `pages_max` pages: three bits beyond an even spread, for pages
    /// that split early.
    pub(super) fn new(
        shards: usize,
        pages_max: usize,
        backing: &Backing,
        budget: Arc<Budget>,
    ) -> Result<Directory, Error> {
        let depth_max = depth_for(pages_max / shards);
        Ok(Directory {
            entries: Table::new(shards << depth_max.max(ROW_BITS), Huge::No, backing)?,
            shard_bits: shards.ilog2(),
            depth_max,
            levels: Mutex::default(),
            budget,
        })
    }

    /// The initial charge for `shards` shards.
    pub(super) fn first_row_bytes(shards: usize) -> u64 {
        (shards as u64 * ENTRY_LEN) << ROW_BITS
    }

    /// The maximum depth for `pages_per_shard` pages per shard.
    pub(super) fn depth_within(&self, pages_per_shard: u64) -> u32 {
        depth_for(usize::try_from(pages_per_shard).unwrap_or(usize::MAX)).min(self.depth_max)
    }

    /// All bytes that are charged.
    pub(super) fn bytes(&self) -> u64 {
        (1 << self.shard_bits) * (ENTRY_LEN << lock(&self.levels).charged)
    }

    /// Levels that are charged.
    pub(super) fn levels_charged(&self) -> u32 {
        lock(&self.levels).charged
    }

    /// Adopts directories of these depths, by shard. What is charged is the caller's to adopt.
    pub(super) fn thaw(&self, charged: u64, depths: &[u32]) -> Result<(), Damaged> {
        if !(u64::from(ROW_BITS)..=u64::from(self.depth_max.max(ROW_BITS))).contains(&charged) {
            return Err(Damaged);
        }
        let mut levels = lock(&self.levels);
        levels.charged = charged as u32;
        levels.users = std::array::from_fn(|level| {
            let has_it = |depth: &&u32| level > 0 && **depth as usize >= level;
            depths.iter().filter(has_it).count() as u32
        });
        Ok(())
    }

    /// Bytes to be charged before a directory can have `depth` levels.
    pub(super) fn missing_bytes(&self, depth: u32) -> u64 {
        let charged = lock(&self.levels).charged;
        (charged + 1..=depth).map(|level| self.level_bytes(level)).sum()
    }

    /// Adds levels for `paid` bytes that have been charged; the remainder is given back.
    pub(super) fn add_levels(&self, depth: u32, mut paid: u64) {
        let mut levels = lock(&self.levels);
        while levels.charged < depth && self.level_bytes(levels.charged + 1) <= paid {
            levels.charged += 1;
            paid -= self.level_bytes(levels.charged);
        }
        self.budget.give_back(paid);
    }

    fn level_bytes(&self, level: u32) -> u64 {
        (ENTRY_LEN << self.shard_bits) << (level - 1)
    }

    #[inline]
    pub(super) fn get(&self, shard: usize, low: usize) -> Entry {
        Entry::read(self.entries[self.place(shard, low)].load(Acquire))
    }

    pub(super) fn set(&self, shard: usize, low: usize, entry: Entry) {
        self.entries[self.place(shard, low)].store(entry.bits(), Release);
    }

    #[inline]
    fn place(&self, shard: usize, low: usize) -> usize {
        ((low >> ROW_BITS) << self.shard_bits | shard) << ROW_BITS | low & ((1 << ROW_BITS) - 1)
    }

    /// Doubles a shard's directory of depth `depth`: the upper half is a copy of the lower one. False if the
    /// level is not charged.
    pub(super) fn double(&self, shard: usize, depth: u32) -> bool {
        {
            let mut levels = lock(&self.levels);
            if levels.charged <= depth {
                return false;
            }
            levels.users[depth as usize + 1] += 1;
        }
        (0..1 << depth).for_each(|low| self.set(shard, low | 1 << depth, self.get(shard, low)));
        true
    }

    /// Removes the upper half of a shard's directory, which is no longer read.
    pub(super) fn halve(&self, shard_depth: u32) {
        let mut levels = lock(&self.levels);
        levels.users[shard_depth as usize] -= 1;
        while levels.charged > ROW_BITS && levels.users[levels.charged as usize] == 0 {
            let level = levels.charged;
            // From the first row of the level to its last, of all shards.
            let first = 1 << (self.shard_bits + level - 1);
            self.entries.release(first..2 * first);
            levels.charged -= 1;
            self.budget.give_back(self.level_bytes(level));
        }
    }
}

fn depth_for(pages_per_shard: usize) -> u32 {
    (pages_per_shard.max(1).ilog2() + 3).min(DEPTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_charged_before_its_use_and_given_back_after_the_last() {
        let budget = Arc::new(Budget::new(1 << 20));
        let directory = Directory::new(16, 1 << 12, &Backing::Anonymous, Arc::clone(&budget)).unwrap();
        let (first, second) = (Entry { page: 5, depth: 0 }, Entry { page: 6, depth: 0 });
        directory.set(0, 0, first);
        directory.set(1, 0, second);
        assert!((0..6).all(|depth| directory.double(0, depth) && directory.double(1, depth)));
        assert!(!directory.double(0, 6), "level 7 is not charged");
        let bytes = directory.missing_bytes(7);
        assert_eq!(bytes, 16 * 64 * 4);
        assert!(budget.charge(bytes + 100));
        directory.add_levels(7, bytes + 100);
        assert_eq!((budget.charged(), directory.missing_bytes(7)), (bytes, 0));
        assert!(directory.double(0, 6) && directory.double(1, 6));
        assert!((0..128).all(|low| directory.get(0, low) == first && directory.get(1, low) == second));
        directory.halve(7);
        assert_eq!(budget.charged(), bytes, "one shard still has it");
        directory.halve(7);
        assert_eq!((budget.charged(), directory.bytes()), (0, Directory::first_row_bytes(16)));
        assert_eq!(directory.get(1, 63), second, "the first row stays");
    }
}
