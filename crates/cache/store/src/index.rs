//! Hash index: from the hash of a key to the location of its item.
//!
//! Every shard has a directory that doubles as needed; each entry leads to a page of 4 KiB. A page has 56
//! home buckets of eight slots, and eight more buckets, the stash, for entries whose home is full. When home
//! and stash are full the page is split by one more bit of the hash, in some 10 µs; this is the only way in
//! which the index grows, so there are no long pauses. Two sparse halves are merged into one page, and the
//! other page is given back. Pages and directories are charged to the memory limit.
//!
//! ```text
//! slot   tag 20 | frequency 2 | flash 1 | overflow 1 | location 40 (in units of 4 bytes; 0: empty)
//! hash   0..20 directory | 20..36 home | 36..50 the rest of the tag | from the top: shard
//! ```
//!
//! The upper 6 bits of the tag are the number of the home, so that the home of a stash entry is known. The
//! overflow bit of the i-th slot of a home (empty or not) says that stash bucket i has entries of this home.
//! The flash bit says that the item lies on flash, and the location where: see `index/on_flash.rs`.
//!
//! All writes happen under the shard's lock, and so do all reads except prefetch hints. Slots are atomics so
//! that a hint may read them at any time.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

pub(crate) use self::directory::DEPTH_MAX;
use self::directory::{Directory, Entry, PAGE_BITS};
use crate::error::Error;
use crate::memory::backing::Backing;
use crate::memory::budget::Budget;
use crate::memory::prefault::{Frontier, PrefaultThread};
use crate::memory::system::{HUGE_PAGE, Huge, PAGE, Table};
use crate::segment::record::ALIGN;
use crate::shard::{Locked, Shard};
use crate::sync::{Mutex, lock};

mod directory;
mod manifest;
mod on_flash;
mod page;
mod resize;

pub(crate) use on_flash::{FLASH_DEPTH_MAX, FlashPlace, PAGES_PER_RECORD_MAX};
pub(crate) use resize::Refused;

#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    shard_bits: u32,
    slots: Table<AtomicU64>,
    /// Number of entries of each page.
    counts: Table<AtomicU16>,
    directory: Directory,
    /// Pages from this number on have never been used.
    fresh: AtomicU32,
    /// Number of pages that were used before and are now neither charged nor resident. Changed under the lock
    /// of `returned`.
    returned_count: AtomicU32,
    returned: Mutex<Vec<u32>>,
    pages_max: u32,
    /// The most levels of a directory: fewer if there are entries of items on flash.
    depth_max: u32,
    budget: Arc<Budget>,
    /// How far the slots are pre-faulted.
    frontier: Frontier,
    prefault_thread: Arc<PrefaultThread>,
}

/// A slot that was found, and its value at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    number: usize,
    value: u64,
}

/// A page that no directory refers to yet.
#[derive(Debug)]
pub(crate) struct NewPage(u32);

/// The charge of a page: itself and the number of its entries.
pub(crate) const PAGE_CHARGE: u64 = (PAGE + size_of::<AtomicU16>()) as u64;
/// Items lie below this offset: a slot cannot address more.
pub(crate) const LOCATIONS_END: u64 = (LOCATION + 1) * ALIGN as u64;

const SLOTS: usize = 8;
const HOMES: usize = 56;
const STASH: usize = 8;
const PAGE_SLOTS: usize = (HOMES + STASH) * SLOTS;

const LOCATION: u64 = (1 << 40) - 1;
const OVERFLOW: u64 = 1 << 40;
const FLASH: u64 = 1 << 41;
const FREQUENCY_SHIFT: u32 = 42;
const FREQUENCY: u64 = 3 << FREQUENCY_SHIFT;
const TAG_SHIFT: u32 = 44;
const TAG: u64 = u64::MAX << TAG_SHIFT;

/// Uses of an item are counted up to this number, since the frequency was last lowered.
pub(crate) const FREQUENCY_MAX: u64 = 3;
/// New pages between two wake-ups of the pre-faulting thread: a quarter of a huge page.
const PAGES_PER_WAKE: u32 = (HUGE_PAGE / PAGE / 4) as u32;

impl Slot {
    /// The item's location in memory, as an offset in bytes.
    #[inline]
    pub(crate) fn at(self) -> usize {
        debug_assert!(!self.is_on_flash(), "it has a place on flash");
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

/// Construction, shards and pages.
impl Index {
    /// An index of at most `pages_max` pages, and directories of at most `depth_max` levels. The first page of every shard is in use from [`Index::begin`] on; the
    /// caller charges [`Index::fixed_bytes`].
    pub(crate) fn new(
        shards: usize,
        pages_max: usize,
        depth_max: u32,
        huge: Huge,
        backing: &Backing,
        prefault_thread: Arc<PrefaultThread>,
        budget: Arc<Budget>,
    ) -> Result<Index, Error> {
        assert!(shards.is_power_of_two());
        let pages_max = pages_max.clamp(2 * shards, 1 << PAGE_BITS);
        Ok(Index {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            shard_bits: shards.ilog2(),
            slots: Table::new(pages_max * PAGE_SLOTS, huge, backing)?,
            counts: Table::new(pages_max, Huge::No, backing)?,
            directory: Directory::new(shards, pages_max, backing, Arc::clone(&budget))?,
            fresh: AtomicU32::new(shards as u32),
            returned_count: AtomicU32::new(0),
            returned: Mutex::default(),
            pages_max: pages_max as u32,
            depth_max,
            budget,
            frontier: Frontier::default(),
            prefault_thread,
        })
    }

    /// Gives each shard its first page. An index that another process has filled has them.
    pub(crate) fn begin(&self) {
        for shard in 0..self.shards() {
            self.directory.set(shard, 0, Entry { page: shard as u32, depth: 0 });
            self.lock_shard(shard).pages().deepest = 1;
        }
    }

    /// The charge for an index with `shards` shards over its whole lifetime.
    pub(crate) fn fixed_bytes(shards: usize) -> u64 {
        shards as u64 * PAGE_CHARGE + Directory::first_row_bytes(shards)
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
        u64::from(self.fresh.load(Relaxed).saturating_sub(self.returned_count.load(Relaxed)))
    }

    /// Bytes charged for the index.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages() * PAGE_CHARGE + self.directory.bytes()
    }

    /// Slots in the homes of all pages.
    pub(crate) fn home_slots(&self) -> u64 {
        self.pages() * (HOMES * SLOTS) as u64
    }

    /// Takes a page that the caller has charged to the budget.
    pub(crate) fn new_page(&self) -> Option<NewPage> {
        if self.returned_count.load(Relaxed) > 0
            && let Some(page) = self.take_returned()
        {
            return Some(page);
        }
        let more = |fresh: u32| (fresh < self.pages_max).then_some(fresh + 1);
        let new = self.fresh.fetch_update(Relaxed, Relaxed, more).ok()?;
        if new % PAGES_PER_WAKE == 0 {
            self.prefault_thread.wake();
        }
        Some(NewPage(new))
    }

    fn take_returned(&self) -> Option<NewPage> {
        let mut returned = lock(&self.returned);
        let page = returned.pop()?;
        self.returned_count.store(returned.len() as u32, Relaxed);
        Some(NewPage(page))
    }

    /// Gives an empty page back: it is then neither charged nor resident.
    pub(crate) fn give_back(&self, page: NewPage) {
        let first = page.0 as usize * PAGE_SLOTS;
        self.slots.release(first..first + PAGE_SLOTS);
        let mut returned = lock(&self.returned);
        returned.push(page.0);
        self.returned_count.store(returned.len() as u32, Relaxed);
        self.budget.give_back(PAGE_CHARGE);
    }

    /// Bytes to be charged before a directory can have `depth` levels.
    pub(crate) fn missing_bytes(&self, depth: u32) -> u64 {
        self.directory.missing_bytes(depth)
    }

    /// Adds levels to the directories for `paid` bytes that have been charged.
    pub(crate) fn add_levels(&self, depth: u32, paid: u64) {
        self.directory.add_levels(depth, paid);
    }

    /// Pre-faults the pages that will be taken next, as far as `left` bytes of memory allow.
    pub(crate) fn prefault(&self, left: u64) {
        let used = u64::from(self.fresh.load(Relaxed)) * PAGE as u64;
        if let Some(bytes) = self.frontier.advance(used, left) {
            self.slots.populate(bytes);
        }
    }

    #[inline]
    fn entry(&self, shard: usize, hash: u64) -> Entry {
        let depth = self.shards[shard].depth.load(Acquire);
        self.directory.get(shard, hash as usize & ((1 << depth) - 1))
    }

    /// The number of the first slot of the hash's page.
    #[inline]
    fn page(&self, shard: usize, hash: u64) -> usize {
        self.entry(shard, hash).page as usize * PAGE_SLOTS
    }

    /// Prefetches the home bucket.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let page = self.page(self.shard_of(hash), hash);
        self.slots.prefetch(page + home_of(hash) * SLOTS);
    }

    /// The item's likely location, by its tag alone and without the lock: a hint.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<usize> {
        let home = self.page(self.shard_of(hash), hash) + home_of(hash) * SLOTS;
        let tag = tag_of(hash) << TAG_SHIFT;
        let mut matching = 0u32;
        // Without branches, because which slot matches is unpredictable.
        let values = self.bucket(home);
        for (i, value) in values.into_iter().enumerate() {
            matching |= (((value ^ tag) & (TAG | FLASH) == 0) as u32) << i;
        }
        let value = values.get(matching.trailing_zeros() as usize)?;
        // 0 where the slot is empty, which one tag in 2^20 matches.
        Some((value & LOCATION) as usize * ALIGN)
    }

    /// The slots of a bucket.
    #[inline]
    fn bucket(&self, first: usize) -> [u64; SLOTS] {
        let slots: &[AtomicU64; SLOTS] = self.slots[first..first + SLOTS].try_into().expect("a bucket");
        slots.each_ref().map(|slot| slot.load(Relaxed))
    }
}

/// Lookup and changes of entries, under the lock.
impl Index {
    /// The slot of this hash whose location in memory satisfies `is_right`.
    #[inline]
    pub(crate) fn find(
        &self,
        lock: &Locked<'_>,
        hash: u64,
        mut is_right: impl FnMut(usize) -> bool,
    ) -> Option<Slot> {
        self.find_slot(lock, hash, |slot| !slot.is_on_flash() && is_right(slot.at()))
    }

    /// The slot with the tag of this hash that is wanted.
    #[inline]
    fn find_slot(
        &self,
        lock: &Locked<'_>,
        hash: u64,
        mut is_wanted: impl FnMut(Slot) -> bool,
    ) -> Option<Slot> {
        let page = self.page(lock.number, hash);
        let tag = tag_of(hash);
        let home = page + home_of(hash) * SLOTS;
        let mut overflow = 0u32;
        let mut matching = 0u32;
        // Without branches, because which slot matches is unpredictable.
        let values = self.bucket(home);
        for (i, value) in values.into_iter().enumerate() {
            overflow |= (((value & OVERFLOW) != 0) as u32) << i;
            matching |= ((value >> TAG_SHIFT == tag) as u32) << i;
        }
        while matching != 0 {
            let i = matching.trailing_zeros() as usize;
            matching &= matching - 1;
            let found = Slot { number: home + i, value: values[i & (SLOTS - 1)] };
            if found.value & LOCATION != 0 && is_wanted(found) {
                return Some(found);
            }
        }
        while overflow != 0 {
            let bucket = page + (HOMES + overflow.trailing_zeros() as usize) * SLOTS;
            overflow &= overflow - 1;
            for (i, slot) in self.slots[bucket..bucket + SLOTS].iter().enumerate() {
                let found = Slot { number: bucket + i, value: slot.load(Relaxed) };
                if found.value >> TAG_SHIFT == tag && found.value & LOCATION != 0 && is_wanted(found) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Whether there is a free slot for one more entry of this hash.
    pub(crate) fn has_room(&self, lock: &Locked<'_>, hash: u64) -> bool {
        self.free_slot(self.page(lock.number, hash), home_of(hash)).is_some()
    }

    /// Adds an entry. The caller has checked that there is [room](Index::has_room).
    pub(crate) fn insert(&self, lock: &mut Locked<'_>, hash: u64, at: usize, frequency: u64) {
        let page = self.entry(lock.number, hash).page;
        self.put(page, tag_of(hash) << TAG_SHIFT | frequency << FREQUENCY_SHIFT | location(at));
    }

    /// Changes the location of an entry, whose item is in memory afterwards.
    pub(crate) fn relocate(&self, _lock: &mut Locked<'_>, slot: Slot, at: usize, frequency: u64) {
        let cell = &self.slots[slot.number];
        let kept = cell.load(Relaxed) & !(LOCATION | FREQUENCY | FLASH);
        cell.store(kept | frequency << FREQUENCY_SHIFT | location(at), Relaxed);
    }

    /// Counts one use.
    #[inline]
    pub(crate) fn count_use(&self, _lock: &mut Locked<'_>, slot: Slot) {
        if slot.frequency() < FREQUENCY_MAX {
            self.slots[slot.number].store(slot.value + (1 << FREQUENCY_SHIFT), Relaxed);
        }
    }

    /// Removes the entry; `hash_at` as in [`Index::split`]. Slots found before are invalid after this.
    #[inline]
    pub(crate) fn remove(&self, lock: &mut Locked<'_>, slot: Slot, hash_at: impl Fn(usize) -> u64) {
        let first = slot.number - slot.number % PAGE_SLOTS;
        let page = (slot.number / PAGE_SLOTS) as u32;
        let home = home_of_slot(slot.value);
        if slot.number < first + HOMES * SLOTS {
            self.clear(slot.number);
            self.unstash(first, home);
        } else {
            self.remove_from_stash(first, home, slot.number);
        }
        self.set_count(page, self.count(page) - 1);
        self.note_removal(lock, page, || low_bits(slot.value, hash_at));
    }

    /// Any entry of the home bucket of this hash, to be evicted where the index cannot grow.
    pub(crate) fn any_of_home(&self, lock: &Locked<'_>, hash: u64) -> Slot {
        let number = self.page(lock.number, hash) + home_of(hash) * SLOTS;
        Slot { number, value: self.slots[number].load(Relaxed) }
    }

    /// Calls `each` with every slot that has an entry in the page of `cursor`. Returns the next cursor; 0
    /// after the last page. `hash_at` as in [`Index::split`].
    ///
    /// The cursor counts with its bits reversed, so that no entry is missed when pages split meanwhile. In
    /// merged pages, entries of a page that it has already passed are left out.
    pub(crate) fn scan(
        &self,
        lock: &Locked<'_>,
        cursor: u64,
        hash_at: impl Fn(usize) -> u64,
        mut each: impl FnMut(Slot),
    ) -> u64 {
        let Entry { page, depth } = self.entry(lock.number, cursor);
        let above = u64::MAX << depth;
        let is_passed =
            |value| cursor & above != 0 && low_bits(value, &hash_at).reverse_bits() < cursor.reverse_bits();
        let first = page as usize * PAGE_SLOTS;
        for (place, slot) in self.slots[first..first + PAGE_SLOTS].iter().enumerate() {
            let value = slot.load(Relaxed);
            if value & LOCATION != 0 && !is_passed(value) {
                each(Slot { number: first + place, value });
            }
        }
        (cursor | above).reverse_bits().wrapping_add(1).reverse_bits()
    }
}

/// Whether the entry of one hash could be taken for that of the other one, by what a slot says of an item on flash.
pub(crate) fn share_slot(one: u64, other: u64) -> bool {
    tag_of(one) == tag_of(other) && on_flash::share_low_bits(one, other)
}

/// The same, in one shard: one of its slots could be either's.
pub(crate) fn share_entry(one: u64, other: u64, shard_bits: u32) -> bool {
    let shard = |hash: u64| hash >> 1 >> (63 - shard_bits);
    share_slot(one, other) && shard(one) == shard(other)
}

/// The bits of its hash that a directory uses: for an entry in memory the whole hash, by its location.
#[inline]
fn low_bits(value: u64, hash_at: impl FnOnce(usize) -> u64) -> u64 {
    let slot = Slot { number: 0, value };
    if slot.is_on_flash() { slot.place().low_bits() } else { hash_at(slot.at()) }
}

fn location(at: usize) -> u64 {
    debug_assert!(at > 0 && at.is_multiple_of(ALIGN) && (at as u64) < LOCATIONS_END);
    (at / ALIGN) as u64
}

pub(crate) mod hash;
#[cfg(test)]
mod tests;
