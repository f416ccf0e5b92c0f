//! The index against a map. Locations are artificial: entry `i` lies at `4 * i`, and its hash comes from a
//! table.

use std::collections::BTreeSet;

use stdx::prng::Prng;

use super::*;

struct KeySample {
    index: Index,
    budget: Arc<Budget>,
    /// The hash of the entry at each location; 0 is no location.
    hashes: Vec<u64>,
    there: BTreeSet<usize>,
    /// Those that lie on flash: entry `i` in page `i`.
    on_flash: BTreeSet<usize>,
}

impl KeySample {
    fn new(shards: usize, pages: usize) -> KeySample {
        KeySample::of_depth(shards, pages, DEPTH_MAX)
    }

    fn of_depth(shards: usize, pages: usize, depth_max: u32) -> KeySample {
        let budget = Arc::new(Budget::new((pages * PAGE) as u64));
        let backing = Backing::Anonymous;
        let index =
            Index::new(shards, pages, depth_max, Huge::No, &backing, Arc::default(), Arc::clone(&budget));
        let index = index.unwrap();
        index.begin();
        KeySample { index, budget, hashes: vec![0], there: BTreeSet::new(), on_flash: BTreeSet::new() }
    }

    /// A page, charged as [`crate::Handle`] does.
    fn page(&self) -> Option<NewPage> {
        assert!(self.budget.charge(PAGE_CHARGE));
        self.index.new_page()
    }

    fn insert(&mut self, hash: u64) {
        let i = self.hashes.len();
        self.hashes.push(hash);
        let mut lock = self.index.lock(hash);
        while !self.index.has_room(&lock, hash) {
            let mut page = self.page();
            let hash_at = |at: usize| self.hashes[at / ALIGN];
            self.index.split(&mut lock, hash, &mut page, |_| (), hash_at).unwrap();
        }
        self.index.insert(&mut lock, hash, i * ALIGN, 0);
        self.there.insert(i);
    }

    fn find(&self, lock: &Locked<'_>, i: usize) -> Option<Slot> {
        let hash = self.hashes[i];
        if self.on_flash.contains(&i) {
            return self.index.find_on_flash(lock, hash, |place| place.page() == i as u64);
        }
        self.index.find(lock, hash, |at| at == i * ALIGN)
    }

    fn remove(&mut self, i: usize) {
        let mut lock = self.index.lock(self.hashes[i]);
        let slot = self.find(&lock, i).unwrap();
        self.index.remove(&mut lock, slot, |at| self.hashes[at / ALIGN]);
        self.there.remove(&i);
        self.on_flash.remove(&i);
    }

    /// Moves an entry to flash, or back to memory.
    fn relocate(&mut self, i: usize) {
        let mut lock = self.index.lock(self.hashes[i]);
        let slot = self.find(&lock, i).unwrap();
        if self.on_flash.remove(&i) {
            self.index.relocate(&mut lock, slot, i * ALIGN, 1);
        } else {
            let place = FlashPlace::new(i as u64, 1 + i % PAGES_PER_RECORD_MAX, self.hashes[i]);
            self.index.move_to_flash(&mut lock, slot, place, 1);
            self.on_flash.insert(i);
        }
    }

    /// Scans one page; an entry that is shown twice is a failure.
    #[track_caller]
    fn scan(&self, lock: &Locked<'_>, cursor: u64, scanned: &mut BTreeSet<usize>) -> u64 {
        let hash_at = |at: usize| self.hashes[at / ALIGN];
        self.index.scan(lock, cursor, hash_at, |slot| {
            let i = if slot.is_on_flash() { slot.place().page() as usize } else { slot.at() / ALIGN };
            assert!(scanned.insert(i), "{i} again");
        })
    }

    /// Everything that is charged is in use.
    #[track_caller]
    fn check_charges(&self) {
        let charged = self.budget.charged() + Index::fixed_bytes(self.index.shards());
        assert_eq!(charged, self.index.bytes());
    }

    #[track_caller]
    fn check(&self) {
        self.check_charges();
        for i in 1..self.hashes.len() {
            let lock = self.index.lock(self.hashes[i]);
            let found = self.find(&lock, i);
            assert_eq!(found.is_some(), self.there.contains(&i), "{i}");
            if let Some(slot) = found.filter(|slot| slot.is_on_flash()) {
                assert!(
                    (i % PAGES_PER_RECORD_MAX + 1..=PAGES_PER_RECORD_MAX).contains(&slot.place().pages())
                );
            }
        }
        let mut scanned = BTreeSet::new();
        for shard in 0..self.index.shards() {
            let lock = self.index.lock_shard(shard);
            let mut cursor = 0;
            loop {
                cursor = self.scan(&lock, cursor, &mut scanned);
                if cursor == 0 {
                    break;
                }
            }
        }
        assert_eq!(scanned, self.there);
    }
}

/// Entries on flash split and merge with those in memory, although nobody asks what their keys are.
#[test]
fn entries_move_to_flash_and_back_through_splits_and_mergers() {
    let count = if cfg!(miri) { 600 } else { 60_000 };
    let mut sample = KeySample::of_depth(4, 1024, FLASH_DEPTH_MAX);
    let mut prng = Prng::new(7);
    for i in 1..=count {
        sample.insert(prng.next_u64());
        if prng.below(3) > 0 {
            sample.relocate(i);
        }
        let other = 1 + prng.below(i as u64) as usize;
        sample.relocate(other);
    }
    sample.check();
    for i in 1..=count {
        match prng.below(8) {
            0 => {}
            1 => sample.relocate(i),
            _ => sample.remove(i),
        }
    }
    sample.check();
    (1..=count)
        .filter(|i| sample.there.contains(i))
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|i| sample.remove(i));
    sample.check();
    assert_eq!(sample.index.pages(), 4, "all other pages are given back");
}

#[test]
fn directories_have_as_many_levels_as_slots_have_low_bits() {
    let mut sample = KeySample::of_depth(1, 4096, FLASH_DEPTH_MAX);
    let mut prng = Prng::new(9);
    let refused = loop {
        let hash = prng.next_u64();
        let mut lock = sample.index.lock(hash);
        if sample.index.has_room(&lock, hash) {
            drop(lock);
            sample.insert(hash);
            let last = sample.hashes.len() - 1;
            sample.relocate(last);
            continue;
        }
        let mut page = sample.page();
        let split =
            sample.index.split(&mut lock, hash, &mut page, |_| (), |_| unreachable!("all are on flash"));
        match split {
            Err(Refused::Level(depth)) => {
                let bytes = sample.index.missing_bytes(depth);
                assert!(sample.budget.charge(bytes));
                sample.index.add_levels(depth, bytes);
            }
            Err(Refused::Full) => break page,
            Ok(()) => {}
        }
        if let Some(page) = page {
            sample.index.give_back(page);
        }
    };
    sample.index.give_back(refused.unwrap());
    assert!(sample.index.pages() <= 1 << FLASH_DEPTH_MAX);
    assert!(sample.there.len() > 25_000, "{}", sample.there.len());
    sample.check();
}

#[test]
fn entries_are_found_until_they_are_removed_through_any_number_of_splits() {
    let count = if cfg!(miri) { 600 } else { 60_000 };
    let mut sample = KeySample::new(4, 1024);
    let mut prng = Prng::new(1);
    for _ in 0..count {
        sample.insert(prng.next_u64());
    }
    sample.check();
    for i in 1..=count {
        if prng.below(3) > 0 {
            sample.remove(i);
        }
    }
    sample.check();
    for _ in 0..count / 2 {
        sample.insert(prng.next_u64());
    }
    sample.check();
}

#[test]
fn a_crowded_home_uses_the_whole_stash_and_gives_it_back() {
    let mut sample = KeySample::new(1, 16);
    // All of one home and one tag; only the directory bits differ.
    for low in 0..72 {
        sample.insert(low);
    }
    assert_eq!(sample.index.pages(), 1);
    sample.check();
    for i in (1..=72).rev() {
        sample.remove(i);
        if i % 9 == 0 {
            sample.check();
        }
    }
    let empty = |slot: &AtomicU64| slot.load(Relaxed) == 0;
    assert!(sample.index.slots[0..PAGE_SLOTS].iter().all(empty), "no overflow mark is left");
}

#[test]
fn a_page_is_well_filled_when_it_splits() {
    let mut sample = KeySample::new(1, 16);
    let mut prng = Prng::new(3);
    while sample.index.pages() == 1 {
        sample.insert(prng.next_u64());
    }
    assert!(sample.hashes.len() > PAGE_SLOTS * 8 / 10, "{} of {PAGE_SLOTS}", sample.hashes.len());
}

#[test]
fn uses_are_counted_up_to_three() {
    let mut sample = KeySample::new(1, 2);
    sample.insert(99);
    let mut lock = sample.index.lock(99);
    for expected in [0, 1, 2, 3, 3] {
        let slot = sample.index.find(&lock, 99, |_| true).unwrap();
        assert_eq!((slot.frequency(), slot.at()), (expected, ALIGN));
        sample.index.count_use(&mut lock, slot);
    }
    let slot = sample.index.find(&lock, 99, |_| true).unwrap();
    sample.index.relocate(&mut lock, slot, 800, 1);
    let slot = sample.index.find(&lock, 99, |_| true).unwrap();
    assert_eq!((slot.frequency(), slot.at()), (1, 800));
}

#[test]
fn the_index_shrinks_to_its_initial_size_as_entries_leave() {
    let count = if cfg!(miri) { 3_000 } else { 60_000 };
    let mut sample = KeySample::new(4, 1024);
    let mut prng = Prng::new(4);
    (0..count).for_each(|_| sample.insert(prng.next_u64()));
    let most = sample.index.pages();
    let mut left: Vec<usize> = (1..=count).collect();
    for tenth in (0..10).rev() {
        while left.len() > count * tenth / 10 {
            let i = left.swap_remove(prng.below(left.len() as u64) as usize);
            sample.remove(i);
        }
        sample.check();
        // At least some 60 entries in a page, once there are several.
        assert!(sample.index.pages() <= 4 + left.len() as u64 / 60, "{} pages", sample.index.pages());
    }
    assert_eq!(sample.index.pages(), 4, "of {most}");
    assert_eq!(sample.index.home_slots(), 4 * (512 - 64), "all but the stash");
    assert!(sample.index.shards.iter().all(|shard| shard.depth.load(Relaxed) == 0));
    (0..count).for_each(|_| sample.insert(prng.next_u64()));
    sample.check();
    assert!(sample.index.pages() < most + most / 10, "returned pages are reused");
    assert!(sample.index.fresh.load(Relaxed) < most as u32 + most as u32 / 10);
}

#[test]
fn a_page_whose_entries_would_stay_together_is_not_split() {
    let mut sample = KeySample::new(1, 16);
    // One home, and the same directory bits but for the highest of 20.
    (0..72).for_each(|i| sample.insert((i & 7) << 17));
    let mut lock = sample.index.lock(0);
    let mut page = sample.page();
    let hash_at = |at: usize| sample.hashes[at / ALIGN];
    let split = sample.index.split(&mut lock, 0, &mut page, |_| (), hash_at);
    assert_eq!((split, page.is_some()), (Err(Refused::Full), true));
}

#[test]
fn the_limit_bounds_the_depth_of_a_directory() {
    // Address space for 1,024 pages, and memory for 16: seven bits.
    let mut sample = KeySample::new(1, 1024);
    sample.budget.set_limit(16 * PAGE as u64);
    let bytes = sample.index.missing_bytes(7);
    assert!(sample.budget.charge(bytes));
    sample.index.add_levels(7, bytes);
    let mut prng = Prng::new(5);
    loop {
        // Every bit is more often 0 than 1, so that the same page is split again and again.
        let low = (0..20).fold(0, |low, bit| low | u64::from(prng.below(5) == 0) << bit);
        let hash = low | prng.next_u64() << 20;
        let mut lock = sample.index.lock(hash);
        if sample.index.has_room(&lock, hash) {
            drop(lock);
            sample.insert(hash);
            continue;
        }
        let mut page = sample.index.new_page();
        let hash_at = |at: usize| sample.hashes[at / ALIGN];
        if let Err(refused) = sample.index.split(&mut lock, hash, &mut page, |_| (), hash_at) {
            assert_eq!((refused, sample.index.shards[0].depth.load(Relaxed)), (Refused::Full, 7));
            return;
        }
    }
}

#[test]
fn a_scan_beside_splits_and_mergers_shows_what_stays_exactly_once() {
    let count = if cfg!(miri) { 1_000 } else { 8_000 };
    for seed in 0..20 {
        let mut sample = KeySample::new(1, 1024);
        let mut prng = Prng::new(seed);
        (0..count).for_each(|_| sample.insert(prng.next_u64()));
        // Seven of eight entries are removed and others inserted while the scan is under way.
        let stay: BTreeSet<usize> = (1..=count).filter(|i| i % 8 == 0).collect();
        let mut coming_and_going: Vec<usize> = (1..=count).filter(|i| i % 8 != 0).collect();
        let (mut cursor, mut scanned) = (0, BTreeSet::new());
        loop {
            let lock = sample.index.lock_shard(0);
            cursor = sample.scan(&lock, cursor, &mut scanned);
            drop(lock);
            if cursor == 0 {
                break;
            }
            match prng.below(3) {
                0 if !coming_and_going.is_empty() => {
                    let some = coming_and_going.len().min(count / 4);
                    coming_and_going.drain(..some).for_each(|i| sample.remove(i));
                }
                1 => {
                    let first = sample.hashes.len();
                    (0..count / 8).for_each(|_| sample.insert(prng.next_u64()));
                    coming_and_going.extend(first..sample.hashes.len());
                }
                _ => (),
            }
        }
        assert!(scanned.is_superset(&stay), "seed {seed}");
    }
}
