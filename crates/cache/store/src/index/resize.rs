//! Growth of the index by page splits, and shrinking by mergers.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::directory::Entry;
use super::{FLASH, Index, LOCATION, NewPage, OVERFLOW, PAGE_SLOTS, low_bits};
use crate::memory::system::PAGE;
use crate::segment::record::ALIGN;
use crate::shard::Locked;

/// Why a page is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The directory needs this many levels, of which one is not charged yet.
    Level(u32),
    /// A split would not help: nearly all entries would stay together, or the directory has its maximum depth
    /// for the memory limit.
    Full,
}

/// A page is split only if each half gets at least one entry in 8. With random hashes this always holds (it
/// fails for 72 entries or more with 2^-36); chosen ones would otherwise cause a page and a directory level
/// for every single entry.
const SMALLER_HALF_MIN: usize = 8;
/// A page with at most this many entries is considered for a merger, each time when [`LOOK_EVERY`] more are
/// gone.
const SPARSE: usize = 112;
const LOOK_EVERY: usize = 16;
/// Two pages with at most this many entries together are merged: less than half full, so that the result does
/// not split soon.
const MERGED_MAX: usize = 224;

impl Index {
    /// Splits the page of this hash in two. `hash_at` returns the hash of the entry at a location in
    /// memory; `prefetch` is called for each such location before. If the page is not split, `new` stays as it is.
    pub(crate) fn split(
        &self,
        lock: &mut Locked<'_>,
        hash: u64,
        new: &mut Option<NewPage>,
        prefetch: impl Fn(usize),
        hash_at: impl Fn(usize) -> u64,
    ) -> Result<(), Refused> {
        let old = self.entry(lock.number, hash);
        let first = old.page as usize * PAGE_SLOTS;
        let mut entries = [0; PAGE_SLOTS];
        for (entry, slot) in entries.iter_mut().zip(&self.slots[first..first + PAGE_SLOTS]) {
            *entry = slot.load(Relaxed) & !OVERFLOW;
            if *entry & FLASH == 0 {
                prefetch((*entry & LOCATION) as usize * ALIGN);
            }
        }
        let mut goes = [false; PAGE_SLOTS];
        for (goes, entry) in goes.iter_mut().zip(&entries).filter(|(_, entry)| **entry & LOCATION != 0) {
            *goes = low_bits(*entry, &hash_at) >> old.depth & 1 == 1;
        }
        let (count, moved) = (self.count(old.page), goes.iter().filter(|goes| **goes).count());
        if moved.min(count - moved) * SMALLER_HALF_MIN < count {
            return Err(Refused::Full);
        }
        self.ensure_deeper(lock, old.depth)?;
        let new = new.take().expect("the caller has one").0;
        self.slots[first..first + PAGE_SLOTS].iter().for_each(|slot| slot.store(0, Relaxed));
        self.set_count(old.page, 0);
        for (entry, goes) in entries.into_iter().zip(goes).filter(|(entry, _)| entry & LOCATION != 0) {
            self.put(if goes { new } else { old.page }, entry);
        }
        let depth = old.depth + 1;
        let low = hash as usize & ((1 << old.depth) - 1);
        self.point(lock, low, Entry { page: old.page, depth });
        self.point(lock, low | 1 << old.depth, Entry { page: new, depth });
        if depth == self.depth(lock) {
            lock.pages().deepest += 2;
        }
        Ok(())
    }

    /// Makes sure that the directory is deeper than this page.
    fn ensure_deeper(&self, lock: &mut Locked<'_>, page_depth: u32) -> Result<(), Refused> {
        let depth = self.depth(lock);
        if page_depth < depth {
            return Ok(());
        }
        if depth >= self.depth_within_limit() {
            return Err(Refused::Full);
        }
        if !self.directory.double(lock.number, depth) {
            return Err(Refused::Level(depth + 1));
        }
        self.shards[lock.number].depth.store(depth + 1, Release);
        lock.pages().deepest = 0;
        Ok(())
    }

    fn depth_within_limit(&self) -> u32 {
        let within =
            self.directory.depth_within(self.budget.limit() / PAGE as u64 / self.shards.len() as u64);
        within.min(self.depth_max)
    }

    fn depth(&self, lock: &Locked<'_>) -> u32 {
        self.shards[lock.number].depth.load(Relaxed)
    }

    /// Points all directory entries with these low bits to a page.
    fn point(&self, lock: &mut Locked<'_>, low: usize, to: Entry) {
        let entries = 1 << self.depth(lock);
        for i in (low..entries).step_by(1 << to.depth) {
            self.directory.set(lock.number, i, to);
        }
    }

    /// Called when an entry was removed from this page: merges it with its neighbour if few entries are left.
    #[inline]
    pub(super) fn note_removal(&self, lock: &mut Locked<'_>, page: u32, hash: impl FnOnce() -> u64) {
        let count = self.count(page);
        if count <= SPARSE && count.is_multiple_of(LOOK_EVERY) {
            self.merge(lock, hash());
        }
    }

    /// Merges the page of this hash with its neighbours for as long as they are sparse.
    fn merge(&self, lock: &mut Locked<'_>, hash: u64) {
        loop {
            let one = self.entry(lock.number, hash);
            if one.depth == 0 || self.count(one.page) > SPARSE {
                return;
            }
            let half = 1 << (one.depth - 1);
            let low = hash as usize & (2 * half - 1);
            let other = self.directory.get(lock.number, low ^ half);
            if other.depth != one.depth || self.count(one.page) + self.count(other.page) > MERGED_MAX {
                return;
            }
            let more = self.count(one.page) > self.count(other.page);
            let (kept, gone) = if more { (one.page, other.page) } else { (other.page, one.page) };
            if !self.has_room_for(kept, gone) {
                return;
            }
            self.move_all(gone, kept);
            self.point(lock, low & (half - 1), Entry { page: kept, depth: one.depth - 1 });
            self.give_back(NewPage(gone));
            if one.depth == self.depth(lock) {
                lock.pages().deepest -= 2;
                self.shrink_directory(lock);
            }
        }
    }

    /// Halves the directory for as long as no page needs its last bit.
    fn shrink_directory(&self, lock: &mut Locked<'_>) {
        while lock.pages().deepest == 0 {
            let depth = self.depth(lock) - 1;
            self.shards[lock.number].depth.store(depth, Release);
            self.directory.halve(depth + 1);
            let is_deepest = |low: &usize| self.directory.get(lock.number, *low).depth == depth;
            lock.pages().deepest = (0..1 << depth).filter(is_deepest).count();
        }
    }
}
