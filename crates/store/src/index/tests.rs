//! The index against a map. Locations are made up: entry `i` lies at `4 * i`, and its hash is a table's.

use std::collections::BTreeSet;

use stdx::prng::Prng;

use super::*;

struct Sample {
    index: Index,
    /// The hash of the entry at each location; 0 is no location.
    hashes: Vec<u64>,
    there: BTreeSet<usize>,
}

impl Sample {
    fn new(shards: usize, pages: usize) -> Sample {
        Sample {
            index: Index::new(shards, pages, Huge::No, Arc::default()).unwrap(),
            hashes: vec![0],
            there: BTreeSet::new(),
        }
    }

    fn insert(&mut self, hash: u64) {
        let i = self.hashes.len();
        self.hashes.push(hash);
        let mut lock = self.index.lock(hash);
        while !self.index.has_room(&lock, hash) {
            let page = self.index.new_page().unwrap();
            let hash_at = |at: usize| self.hashes[at / ALIGN];
            self.index.split(&mut lock, hash, page, |_| (), hash_at).unwrap();
        }
        self.index.insert(&mut lock, hash, i * ALIGN, 0);
        self.there.insert(i);
    }

    fn remove(&mut self, i: usize) {
        let mut lock = self.index.lock(self.hashes[i]);
        let slot = self.index.find(&lock, self.hashes[i], |at| at == i * ALIGN).unwrap();
        self.index.remove(&mut lock, slot);
        self.there.remove(&i);
    }

    #[track_caller]
    fn check(&self) {
        for i in 1..self.hashes.len() {
            let lock = self.index.lock(self.hashes[i]);
            let found = self.index.find(&lock, self.hashes[i], |at| at == i * ALIGN);
            assert_eq!(found.is_some(), self.there.contains(&i), "{i}");
        }
        let mut scanned = BTreeSet::new();
        for shard in 0..self.index.shards() {
            let lock = self.index.lock_shard(shard);
            let mut cursor = 0;
            loop {
                cursor = self.index.scan(&lock, cursor, |at| assert!(scanned.insert(at / ALIGN)));
                if cursor == 0 {
                    break;
                }
            }
        }
        assert_eq!(scanned, self.there);
    }
}

#[test]
fn entries_are_found_until_they_are_removed_through_any_number_of_splits() {
    let count = if cfg!(miri) { 600 } else { 60_000 };
    let mut sample = Sample::new(4, 1024);
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
    let mut sample = Sample::new(1, 16);
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
    assert!(sample.index.slots[0..PAGE_SLOTS].iter().all(empty), "no sign is left");
}

#[test]
fn a_page_is_well_filled_when_it_splits() {
    let mut sample = Sample::new(1, 16);
    let mut prng = Prng::new(3);
    while sample.index.pages() == 1 {
        sample.insert(prng.next_u64());
    }
    assert!(sample.hashes.len() > PAGE_SLOTS * 8 / 10, "{} of {PAGE_SLOTS}", sample.hashes.len());
}

#[test]
fn uses_are_counted_up_to_three() {
    let mut sample = Sample::new(1, 2);
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
fn a_directory_at_its_greatest_depth_refuses() {
    let mut sample = Sample::new(1, 2);
    let depth_max = sample.index.depth_max;
    for _ in 0..72 {
        sample.insert(0);
    }
    let mut lock = sample.index.lock(0);
    let mut page = sample.index.new_page().unwrap();
    for _ in 0..=depth_max {
        match sample.index.split(&mut lock, 0, page, |_| (), |_| 0) {
            Ok(()) => page = NewPage(1),
            Err(_) => return,
        }
    }
    panic!("it grew for ever");
}
