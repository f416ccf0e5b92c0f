//! From a key's hash to where its item lies.
//!
//! Every shard has a directory that doubles as needed; each entry leads to a page of 4 KiB. A page has 56
//! home buckets of eight slots and eight more buckets, the stash, for what finds its home full. When
//! both are full the page is split by one more bit of the hash: some 10 µs, and the only way the index
//! grows, so it never pauses anyone.
//!
//! ```text
//! slot   tag 20 | frequency 2 | spare 1 | overflow 1 | location 40 (in units of 4 bytes; 0: empty)
//! hash   0..20 directory | 20..36 home | 36..50 the rest of the tag | from the top: shard
//! ```
//!
//! The upper 6 bits of the tag are the number of the home, so a stash entry knows where it belongs. The
//! overflow bit of a home's i-th slot (empty or not) says that stash bucket i holds entries of this home.
//!
//! All writes happen under the shard's lock, and so do all reads except prefetch hints. Slots are atomics
//! so that a hint may read them at any time.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::ahead::{Frontier, Runner};
use crate::error::Error;
use crate::memory::{HUGE_PAGE, Huge, PAGE, Table};
use crate::record::ALIGN;
use crate::shard::{Locked, Shard};

#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    shard_bits: u32,
    slots: Table<AtomicU64>,
    /// All shards' directories, each with room for `1 << depth_max` entries: page 27 | depth 5.
    directory: Table<AtomicU32>,
    depth_max: u32,
    /// Pages from here on have never been used.
    fresh: AtomicU32,
    pages_max: u32,
    /// Of the slots, made resident ahead of use.
    frontier: Frontier,
    runner: Arc<Runner>,
}

/// A slot that was found, as it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    number: usize,
    value: u64,
}

/// A page that belongs to no directory yet.
#[derive(Debug)]
pub(crate) struct NewPage(u32);

/// What a page takes from the memory limit: itself and its share of the directory.
pub(crate) const PAGE_CHARGE: u64 = PAGE as u64 + 16;

const SLOTS: usize = 8;
const HOMES: usize = 56;
const STASH: usize = 8;
const PAGE_SLOTS: usize = (HOMES + STASH) * SLOTS;

const LOCATION: u64 = (1 << 40) - 1;
const OVERFLOW: u64 = 1 << 40;
const FREQUENCY_SHIFT: u32 = 42;
const FREQUENCY: u64 = 3 << FREQUENCY_SHIFT;
const TAG_SHIFT: u32 = 44;

/// An item that was used this often (since the frequency was last lowered) counts no further.
pub(crate) const FREQUENCY_MAX: u64 = 3;
/// After so many new pages the thread that runs ahead has a look: a quarter of a huge page.
const PAGES_PER_WAKE: u32 = (HUGE_PAGE / PAGE / 4) as u32;
const DIRECTORY_BITS_MAX: u32 = 20;
const PAGE_BITS: u32 = 27;

impl Slot {
    /// Where the item lies, as an offset in bytes.
    #[inline]
    pub(crate) fn at(self) -> usize {
        (self.value & LOCATION) as usize * ALIGN
    }

    #[inline]
    pub(crate) fn frequency(self) -> u64 {
        (self.value & FREQUENCY) >> FREQUENCY_SHIFT
    }
}

#[inline]
fn home_of(hash: u64) -> usize {
    ((hash >> 20 & 0xffff) as usize * HOMES) >> 16
}

#[inline]
fn tag_of(hash: u64) -> u64 {
    (home_of(hash) as u64) << 14 | (hash >> 36 & 0x3fff)
}

fn home_of_slot(value: u64) -> usize {
    (value >> (TAG_SHIFT + 14)) as usize
}

/// Making it, and finding shards.
impl Index {
    /// An index for at most `pages_max` pages. The first page of every shard is there already.
    pub(crate) fn new(
        shards: usize,
        pages_max: usize,
        huge: Huge,
        runner: Arc<Runner>,
    ) -> Result<Index, Error> {
        assert!(shards.is_power_of_two());
        let pages_max = pages_max.clamp(2 * shards, 1 << PAGE_BITS);
        // Three bits beyond an even spread, for pages that split earlier than others.
        let depth_max = (pages_max / shards).ilog2().saturating_add(3).min(DIRECTORY_BITS_MAX);
        let index = Index {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            shard_bits: shards.ilog2(),
            slots: Table::new(pages_max * PAGE_SLOTS, huge)?,
            directory: Table::new(shards << depth_max, Huge::No)?,
            depth_max,
            fresh: AtomicU32::new(shards as u32),
            pages_max: pages_max as u32,
            frontier: Frontier::default(),
            runner,
        };
        for shard in 0..shards {
            index.directory[shard << depth_max].store(shard as u32, Relaxed);
        }
        Ok(index)
    }

    #[inline]
    pub(crate) fn lock(&self, hash: u64) -> Locked<'_> {
        let number = self.shard_of(hash);
        self.shards[number].lock(number)
    }

    pub(crate) fn lock_shard(&self, number: usize) -> Locked<'_> {
        self.shards[number].lock(number)
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        (hash >> 1 >> (63 - self.shard_bits)) as usize
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Pages in use, spare ones included.
    pub(crate) fn pages(&self) -> u64 {
        u64::from(self.fresh.load(Relaxed))
    }

    /// One more page, which the caller has charged to the budget.
    pub(crate) fn new_page(&self) -> Option<NewPage> {
        let more = |fresh: u32| (fresh < self.pages_max).then_some(fresh + 1);
        let new = self.fresh.fetch_update(Relaxed, Relaxed, more).ok()?;
        if new % PAGES_PER_WAKE == 0 {
            self.runner.wake();
        }
        Some(NewPage(new))
    }

    /// Makes pages resident that will be taken next, as far as so much memory is left.
    pub(crate) fn make_ahead(&self, left: u64) {
        if let Some(bytes) = self.frontier.advance(self.pages() * PAGE as u64, left) {
            self.slots.populate(bytes);
        }
    }

    #[inline]
    fn entry(&self, shard: usize, hash: u64) -> u32 {
        let depth = self.shards[shard].depth.load(Acquire);
        let low = hash as usize & ((1 << depth) - 1);
        self.directory[(shard << self.depth_max) + low].load(Acquire)
    }

    /// The number of the first slot of the hash's page.
    #[inline]
    fn page(&self, shard: usize, hash: u64) -> usize {
        (self.entry(shard, hash) & ((1 << PAGE_BITS) - 1)) as usize * PAGE_SLOTS
    }

    /// Asks for the home bucket.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let page = self.page(self.shard_of(hash), hash);
        self.slots.prefetch(page + home_of(hash) * SLOTS);
    }

    /// Where the item may lie, going by its tag alone and without the lock: a hint.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<usize> {
        let home = self.page(self.shard_of(hash), hash) + home_of(hash) * SLOTS;
        let tag = tag_of(hash);
        let values = self.slots[home..home + SLOTS].iter().map(|slot| slot.load(Relaxed));
        let mut matching = values.filter(|value| value >> TAG_SHIFT == tag && value & LOCATION != 0);
        matching.next().map(|value| (value & LOCATION) as usize * ALIGN)
    }
}

/// Finding and changing entries, under the lock.
impl Index {
    /// The slot of this hash whose location is right.
    #[inline]
    pub(crate) fn find(
        &self,
        lock: &Locked<'_>,
        hash: u64,
        mut is_right: impl FnMut(usize) -> bool,
    ) -> Option<Slot> {
        let page = self.page(lock.number, hash);
        let tag = tag_of(hash);
        let home = page + home_of(hash) * SLOTS;
        let mut overflow = 0u32;
        let mut matching = 0u32;
        // Without branches: which slot it is cannot be foreseen.
        let bucket: &[AtomicU64; SLOTS] = self.slots[home..home + SLOTS].try_into().expect("a bucket");
        let values = bucket.each_ref().map(|slot| slot.load(Relaxed));
        for (i, value) in values.into_iter().enumerate() {
            overflow |= (((value & OVERFLOW) != 0) as u32) << i;
            matching |= ((value >> TAG_SHIFT == tag) as u32) << i;
        }
        while matching != 0 {
            let i = matching.trailing_zeros() as usize;
            matching &= matching - 1;
            let found = Slot { number: home + i, value: values[i & (SLOTS - 1)] };
            if found.value & LOCATION != 0 && is_right(found.at()) {
                return Some(found);
            }
        }
        while overflow != 0 {
            let bucket = page + (HOMES + overflow.trailing_zeros() as usize) * SLOTS;
            overflow &= overflow - 1;
            for (i, slot) in self.slots[bucket..bucket + SLOTS].iter().enumerate() {
                let found = Slot { number: bucket + i, value: slot.load(Relaxed) };
                if found.value >> TAG_SHIFT == tag && found.value & LOCATION != 0 && is_right(found.at()) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Whether one more entry of this hash finds a slot.
    pub(crate) fn has_room(&self, lock: &Locked<'_>, hash: u64) -> bool {
        self.free_slot(self.page(lock.number, hash), home_of(hash)).is_some()
    }

    /// Adds an entry. There must be [room](Index::has_room).
    pub(crate) fn insert(&self, lock: &mut Locked<'_>, hash: u64, at: usize, frequency: u64) {
        let page = self.page(lock.number, hash);
        let value = tag_of(hash) << TAG_SHIFT | frequency << FREQUENCY_SHIFT | location(at);
        self.put(page, value);
    }

    /// Points the entry elsewhere.
    pub(crate) fn relocate(&self, _lock: &mut Locked<'_>, slot: Slot, at: usize, frequency: u64) {
        let cell = &self.slots[slot.number];
        let kept = cell.load(Relaxed) & !(LOCATION | FREQUENCY);
        cell.store(kept | frequency << FREQUENCY_SHIFT | location(at), Relaxed);
    }

    /// Counts one use.
    #[inline]
    pub(crate) fn count_use(&self, _lock: &mut Locked<'_>, slot: Slot) {
        if slot.frequency() < FREQUENCY_MAX {
            self.slots[slot.number].store(slot.value + (1 << FREQUENCY_SHIFT), Relaxed);
        }
    }

    /// Takes the entry out. A slot found before is no longer valid after this.
    pub(crate) fn remove(&self, _lock: &mut Locked<'_>, slot: Slot) {
        let page = slot.number - slot.number % PAGE_SLOTS;
        let home = home_of_slot(slot.value);
        if slot.number < page + HOMES * SLOTS {
            self.clear(slot.number);
            self.fetch_home(page, home);
        } else {
            self.remove_from_stash(page, home, slot.number);
        }
    }

    /// Some entry in the way of this hash, where there is no room and no growing.
    pub(crate) fn in_the_way(&self, lock: &Locked<'_>, hash: u64) -> Slot {
        let number = self.page(lock.number, hash) + home_of(hash) * SLOTS;
        Slot { number, value: self.slots[number].load(Relaxed) }
    }

    /// Every entry's location in the page that `cursor` leads to, and the next cursor; 0 after the last.
    ///
    /// The cursor counts with its bits reversed, so that it misses nothing when pages split meanwhile.
    pub(crate) fn scan(&self, lock: &Locked<'_>, cursor: u64, mut each: impl FnMut(usize)) -> u64 {
        let depth = self.entry(lock.number, cursor) >> PAGE_BITS;
        let page = self.page(lock.number, cursor);
        for slot in &self.slots[page..page + PAGE_SLOTS] {
            let value = slot.load(Relaxed);
            if value & LOCATION != 0 {
                each((value & LOCATION) as usize * ALIGN);
            }
        }
        let above = u64::MAX.checked_shl(depth).unwrap_or(0);
        (cursor | above).reverse_bits().wrapping_add(1).reverse_bits()
    }
}

/// Growing.
impl Index {
    /// Splits the page of this hash in two. `hash_at` says the hash of the entry at a location, and
    /// `prefetch` that it will be asked. Gives the page back if the directory cannot grow any more.
    pub(crate) fn split(
        &self,
        lock: &mut Locked<'_>,
        hash: u64,
        new: NewPage,
        prefetch: impl Fn(usize),
        hash_at: impl Fn(usize) -> u64,
    ) -> Result<(), NewPage> {
        let depth = self.entry(lock.number, hash) >> PAGE_BITS;
        if depth == self.shards[lock.number].depth.load(Relaxed) && !self.double(lock) {
            return Err(new);
        }
        let old_page = self.page(lock.number, hash);
        let new_page = new.0 as usize * PAGE_SLOTS;
        let mut entries = [0; PAGE_SLOTS];
        for (entry, slot) in entries.iter_mut().zip(&self.slots[old_page..old_page + PAGE_SLOTS]) {
            *entry = slot.swap(0, Relaxed) & !OVERFLOW;
            prefetch((*entry & LOCATION) as usize * ALIGN);
        }
        for entry in entries.into_iter().filter(|entry| entry & LOCATION != 0) {
            let goes = hash_at((entry & LOCATION) as usize * ALIGN) >> depth & 1 == 1;
            self.put(if goes { new_page } else { old_page }, entry);
        }
        self.point_to(lock, hash, depth, old_page as u32 / PAGE_SLOTS as u32, new.0);
        Ok(())
    }

    /// Twice as many directory entries, the upper half a copy of the lower one.
    fn double(&self, lock: &mut Locked<'_>) -> bool {
        let depth = self.shards[lock.number].depth.load(Relaxed);
        if depth == self.depth_max {
            return false;
        }
        let start = lock.number << self.depth_max;
        for i in 0..1 << depth {
            let entry = self.directory[start + i].load(Relaxed);
            self.directory[start + (1 << depth) + i].store(entry, Relaxed);
        }
        self.shards[lock.number].depth.store(depth + 1, Release);
        true
    }

    /// All entries that led to the page that was split now lead to one of the two.
    fn point_to(&self, lock: &mut Locked<'_>, hash: u64, depth: u32, old: u32, new: u32) {
        let start = lock.number << self.depth_max;
        let entries = 1 << self.shards[lock.number].depth.load(Relaxed);
        let low = hash as usize & ((1 << depth) - 1);
        for i in (low..entries).step_by(1 << depth) {
            let page = if i >> depth & 1 == 1 { new } else { old };
            self.directory[start + i].store(page | (depth + 1) << PAGE_BITS, Release);
        }
    }
}

/// Inside a page.
impl Index {
    /// A free slot, and the stash bucket that it is in.
    fn free_slot(&self, page: usize, home: usize) -> Option<(usize, Option<usize>)> {
        let free_in = |bucket: usize| {
            let start = page + bucket * SLOTS;
            (start..start + SLOTS).find(|slot| self.slots[*slot].load(Relaxed) & LOCATION == 0)
        };
        if let Some(slot) = free_in(home) {
            return Some((slot, None));
        }
        let mut stash = (0..STASH).map(|i| (home + i) % STASH);
        stash.find_map(|bucket| free_in(HOMES + bucket).map(|slot| (slot, Some(bucket))))
    }

    fn put(&self, page: usize, value: u64) {
        let home = home_of_slot(value);
        let (slot, stash) = self.free_slot(page, home).expect("there is room, as the caller has checked");
        let kept = self.slots[slot].load(Relaxed) & OVERFLOW;
        self.slots[slot].store(value | kept, Relaxed);
        if let Some(bucket) = stash {
            let sign = &self.slots[page + home * SLOTS + bucket];
            sign.store(sign.load(Relaxed) | OVERFLOW, Relaxed);
        }
    }

    fn clear(&self, slot: usize) {
        let cell = &self.slots[slot];
        cell.store(cell.load(Relaxed) & OVERFLOW, Relaxed);
    }

    /// Brings one of the home's entries back from the stash, now that there is a place for it.
    fn fetch_home(&self, page: usize, home: usize) {
        let signs = page + home * SLOTS;
        let is_signed = |bucket: &usize| self.slots[signs + bucket].load(Relaxed) & OVERFLOW != 0;
        let Some(bucket) = (0..STASH).find(is_signed) else { return };
        let away = self.of_home(page, home, bucket).expect("the sign says so");
        let value = self.slots[away].load(Relaxed);
        self.remove_from_stash(page, home, away);
        self.put(page, value & !OVERFLOW);
    }

    fn remove_from_stash(&self, page: usize, home: usize, slot: usize) {
        let bucket = (slot - page) / SLOTS - HOMES;
        self.clear(slot);
        if self.of_home(page, home, bucket).is_none() {
            let sign = &self.slots[page + home * SLOTS + bucket];
            sign.store(sign.load(Relaxed) & !OVERFLOW, Relaxed);
        }
    }

    /// An entry of this home in that stash bucket.
    fn of_home(&self, page: usize, home: usize, bucket: usize) -> Option<usize> {
        let start = page + (HOMES + bucket) * SLOTS;
        (start..start + SLOTS).find(|slot| {
            let value = self.slots[*slot].load(Relaxed);
            value & LOCATION != 0 && home_of_slot(value) == home
        })
    }
}

fn location(at: usize) -> u64 {
    debug_assert!(at > 0 && at.is_multiple_of(ALIGN) && (at / ALIGN) as u64 <= LOCATION);
    (at / ALIGN) as u64
}

#[cfg(test)]
mod tests;
