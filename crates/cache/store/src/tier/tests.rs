//! A tier over a disk in memory: what goes there, what stays, and what comes back.

use std::collections::HashMap;
use std::sync::Arc;

use flash::faulty::{Fault, FaultRule, MemoryDisk};
use flash::{AlignedBytes, Bucket, Disk};

use super::*;
use crate::{Change, Config, Delete, Deleted, Handle, Look, NewValue, Store};

mod dumps;
mod finish;

/// A store with a tier, its disk, and reads that end at once.
struct Stage {
    store: Arc<Store>,
    handle: Handle,
    disk: MemoryDisk,
    room: Option<AlignedBytes>,
    now: u32,
}

/// A read, and what the disk has said.
type Answered = (FlashRead, Option<AlignedBytes>);

/// The reads of one operation; each ends when it is asked for the second time.
struct Reads<'d> {
    disk: &'d MemoryDisk,
    done: HashMap<(u64, usize), Answered>,
}

impl FlashReads for Reads<'_> {
    fn state(&mut self, _hash: u64, read: FlashRead) -> ReadState<'_> {
        let place = (read.position, read.len);
        if !self.done.contains_key(&place) {
            let mut bytes = AlignedBytes::zeroed(read.len);
            let is_read = self.disk.read(read.device, read.position, &mut bytes).is_ok();
            self.done.insert(place, (read, is_read.then_some(bytes)));
            return ReadState::Pending;
        }
        match &self.done[&place].1 {
            Some(bytes) => ReadState::Done(bytes),
            None => ReadState::Failed,
        }
    }
}

const SEGMENT: u64 = 512 << 10;

impl Stage {
    fn new(segments: u64, settings: FlashSettings) -> Stage {
        let device = FlashDevice { bytes: segments * SEGMENT, bucket: Bucket::Default };
        let flash =
            FlashConfig { devices: vec![device], segment_bytes: SEGMENT, piece_bytes: SEGMENT / 2, settings };
        let config =
            Config { memory_limit_bytes: 8 << 20, workers: 1, flash: Some(flash), ..Config::default() };
        let store = Store::new(config).unwrap();
        let handle = store.handle();
        Stage { store, handle, disk: MemoryDisk::new(1, segments * SEGMENT, 1), room: None, now: 1 }
    }

    fn set(&mut self, name: &str, value: &[u8]) {
        self.set_until(name, value, 0);
    }

    fn set_until(&mut self, name: &str, value: &[u8], expiry: u32) {
        self.set_alone(name, value, expiry);
        while self.store.flash_step(&self.disk, &mut self.room) {}
    }

    /// Without a step of the tier's thread.
    fn set_alone(&mut self, name: &str, value: &[u8], expiry: u32) {
        let key = self.handle.key(name.as_bytes());
        let change = Change { expiry, ..Change::default() };
        let stored = self.handle.store(&key, &change, NewValue::Bytes(value), self.now);
        assert!(stored.is_ok(), "{stored:?}: {:?}", self.statistics());
    }

    /// Stores items that nobody asks for.
    fn flood(&mut self, prefix: &str, mib: usize) {
        (0..mib << 8).for_each(|number| self.set(&format!("{prefix} {number}"), &[b'f'; 4000]));
    }

    fn locate(&mut self, name: &str, usage: FlashUse) {
        let mut reads = Reads { disk: &self.disk, done: HashMap::new() };
        let key = self.handle.key(name.as_bytes());
        while self.handle.locate(&key, usage, &mut reads, self.now) == Located::Waits {}
    }

    fn get(&mut self, name: &str) -> Option<Vec<u8>> {
        self.locate(name, FlashUse::Value);
        let key = self.handle.key(name.as_bytes());
        self.handle.get(&key, Look::Use, self.now).map(|item| item.value().as_bytes().to_vec())
    }

    fn is_on_flash(&mut self, name: &str) -> bool {
        let key = self.handle.key(name.as_bytes());
        let lock = self.store.index.lock(key.hash);
        let is_key = |at: usize| self.store.segments.record(at).key() == key.bytes;
        self.store.index.find(&lock, key.hash, is_key).is_none()
            && self.store.index.find_on_flash(&lock, key.hash, |_| true).is_some()
    }

    fn statistics(&self) -> FlashStatistics {
        self.store.flash_statistics().expect("there is flash")
    }
}

#[test]
fn an_item_that_memory_has_no_room_for_is_read_from_flash() {
    let mut stage = Stage::new(64, FlashSettings::default());
    let value: Vec<u8> = (0..30_000).map(|i| i as u8).collect();
    stage.set("mine", &value);
    stage.flood("other", 10);
    assert!(stage.is_on_flash("mine"));
    assert_eq!(stage.get("mine"), Some(value));
    assert!(stage.is_on_flash("mine"), "a read leaves it there");
    assert_eq!(stage.store.statistics().counts.curr_items, 2561, "nothing was lost");
    assert_eq!(stage.store.statistics().counts.evictions, 0);
}

#[test]
fn large_values_are_read_whole_and_leave_no_memory_behind() {
    let mut stage = Stage::new(64, FlashSettings::default());
    let value = |number: usize| (0..40_000 + number * 9000).map(|i| (i + number) as u8).collect::<Vec<u8>>();
    (0..20).for_each(|number| stage.set(&format!("large {number}"), &value(number)));
    stage.set("too large", &[b'x'; 300_000]);
    stage.flood("other", 10);
    assert!((0..20).all(|number| stage.is_on_flash(&format!("large {number}"))));
    assert_eq!(stage.get("too large"), None, "it has no room in a piece");
    for number in 0..20 {
        let is_right = stage.get(&format!("large {number}")) == Some(value(number));
        assert!(is_right, "{number}: {:?}", stage.statistics());
        assert!(stage.is_on_flash(&format!("large {number}")), "a read leaves it there");
    }
    stage.handle.begin_turn(1);
    assert_eq!(stage.store.statistics().large_bytes, 0);
    stage.locate("large 3", FlashUse::Item);
    assert!(!stage.is_on_flash("large 3"));
    assert!(stage.get("large 3") == Some(value(3)));
    assert_eq!(stage.store.statistics().counts.large_items, 1);
}

#[test]
fn what_changes_an_item_moves_it_to_memory_first() {
    let mut stage = Stage::new(64, FlashSettings::default());
    stage.set("mine", &[b'1'; 600]);
    stage.flood("other", 10);
    let objects = stage.statistics().objects;
    stage.locate("mine", FlashUse::Item);
    assert!(!stage.is_on_flash("mine"));
    assert_eq!(stage.statistics().objects, objects - 1);
    assert_eq!(stage.get("mine"), Some(vec![b'1'; 600]));
}

#[test]
fn a_set_or_a_delete_needs_no_read_and_leaves_nothing_old() {
    let mut stage = Stage::new(64, FlashSettings::default());
    ["set", "deleted"].iter().for_each(|name| stage.set(name, &[b'1'; 600]));
    stage.flood("other", 10);
    stage.set("set", b"new");
    assert_eq!(stage.get("set"), Some(b"new".to_vec()));
    let key = stage.handle.key(b"deleted");
    let deleted = stage.handle.delete(&key, &Delete::default(), 1).unwrap();
    assert_eq!(deleted, Deleted::Deleted { len: 0 }, "its length is not known");
    assert_eq!(stage.get("deleted"), None);
    let key = stage.handle.key(b"set");
    stage.handle.delete(&key, &Delete::default(), 1).unwrap();
    assert_eq!(stage.get("set"), None, "the old one does not come back");
}

/// Expired and flushed items, and those that were never there, count as what a get would say.
#[test]
fn a_deletion_that_has_looked_tells_live_items_from_dead_and_strange_ones() {
    let mut stage = Stage::new(64, FlashSettings::default());
    let names = |prefix: &str| (0..300).map(|number| format!("{prefix} {number}")).collect::<Vec<_>>();
    names("live").iter().for_each(|name| stage.set(name, &[b'l'; 600]));
    names("expired").iter().for_each(|name| stage.set_until(name, &[b'e'; 600], 100));
    stage.flood("other", 12);
    stage.now = 100;
    let count = |stage: &mut Stage, prefix: &str| {
        let mut deleted = |name: &String| {
            stage.locate(name, FlashUse::Removal);
            let key = stage.handle.key(name.as_bytes());
            let deleted = stage.handle.delete(&key, &Delete::default(), stage.now).unwrap();
            assert!(matches!(deleted, Deleted::NotFound | Deleted::Deleted { len: 600 }), "{deleted:?}");
            deleted != Deleted::NotFound
        };
        names(prefix).iter().filter(|name| deleted(name)).count()
    };
    assert_eq!(count(&mut stage, "expired"), 0);
    assert_eq!((count(&mut stage, "live"), count(&mut stage, "live")), (300, 0));
    names("live").iter().for_each(|name| stage.set(name, &[b'l'; 600]));
    stage.flood("another", 12);
    stage.store.flush(0);
    assert_eq!(count(&mut stage, "live"), 0, "all of them were flushed");
}

/// An item with the same tag is another key's: it is neither deleted nor counted.
#[test]
fn a_deletion_that_has_looked_leaves_the_items_of_other_keys() {
    let mut stage = Stage::new(64, FlashSettings::default());
    stage.set("mine", &[b'1'; 600]);
    let mine = stage.handle.key(b"mine").hash;
    stage.flood("other", 10);
    // By chance, one in 2^35 has its tag.
    let twin = crate::index::hash::Key { bytes: b"twin", hash: mine };
    let mut reads = Reads { disk: &stage.disk, done: HashMap::new() };
    while stage.handle.locate(&twin, FlashUse::Removal, &mut reads, 1) == Located::Waits {}
    assert_eq!(stage.handle.delete(&twin, &Delete::default(), 1).unwrap(), Deleted::NotFound);
    assert_eq!(stage.get("mine"), Some(vec![b'1'; 600]), "and it is still there");
    // Without a look, it goes.
    assert_eq!(stage.handle.delete(&twin, &Delete::default(), 1).unwrap(), Deleted::Deleted { len: 0 });
    assert_eq!(stage.get("mine"), None);
}

#[test]
fn dead_items_are_not_found_on_flash() {
    let mut stage = Stage::new(64, FlashSettings::default());
    stage.set_until("expired", &[b'1'; 600], 100);
    stage.set("flushed", &[b'1'; 600]);
    stage.flood("other", 10);
    assert!(stage.get("expired").is_some() && stage.get("flushed").is_some());
    stage.now = 100;
    assert_eq!(stage.get("expired"), None);
    stage.store.flush(0);
    assert_eq!(stage.get("flushed"), None);
    assert!(!stage.is_on_flash("expired") && !stage.is_on_flash("flushed"));
    stage.set("later", &[b'2'; 600]);
    stage.flood("another", 10);
    assert_eq!(stage.get("later"), Some(vec![b'2'; 600]), "a flush is over when it is over");
}

#[test]
fn small_items_are_not_written() {
    let settings = FlashSettings { item_size_min: 1000, ..FlashSettings::default() };
    let mut stage = Stage::new(64, settings);
    stage.set("small", &[b's'; 900]);
    stage.flood("large", 10);
    assert!(stage.statistics().objects > 1000);
    assert_eq!(stage.get("small"), None);
}

#[test]
fn items_that_are_used_on_flash_stay_when_their_segment_is_reused() {
    let mut stage = Stage::new(8, FlashSettings::default());
    ["used", "unused"].iter().for_each(|name| stage.set(name, &[b'1'; 600]));
    stage.flood("first", 6);
    for round in 0..20 {
        stage.get("used");
        stage.flood(&format!("round {round}"), 1);
    }
    assert_eq!((stage.get("used").is_some(), stage.get("unused").is_some()), (true, false));
    let counts = stage.statistics().counts;
    assert!(counts.objects_rescued > 0 && counts.segments_reused > 20, "{counts:?}");
}

#[test]
fn of_a_segment_that_nobody_used_only_the_tables_are_read() {
    let mut stage = Stage::new(8, FlashSettings::default());
    stage.flood("first", 20);
    let (counts, read) = (stage.statistics().counts, stage.disk.counts(0).bytes_read);
    assert!(counts.segments_reused > 10 && counts.objects_evicted > 1000, "{counts:?}");
    assert!(read <= counts.segments_reused * 2 * (64 << 10), "{read} bytes, {counts:?}");
}

/// Stores items, uses some of them on flash, damages all tables or none, and pushes the items out.
#[track_caller]
fn check_kept(used: usize, are_tables_there: bool) {
    let mut stage = Stage::new(16, FlashSettings { kept_max_percent: 25, ..FlashSettings::default() });
    let name = |number: usize| format!("mine {number}");
    (0..100).for_each(|number| stage.set(&name(number), &[number as u8; 2000]));
    stage.flood("first", 7);
    (0..used).for_each(|number| assert_eq!(stage.get(&name(number)), Some(vec![number as u8; 2000])));
    if !are_tables_there {
        let ends = (1..=16 * 2).map(|piece| piece * (SEGMENT / 2));
        ends.for_each(|end| stage.disk.set_contents(0, end - 4096, &[0; 4096]));
    }
    let before = stage.statistics().counts.segments_reused;
    while stage.statistics().counts.segments_reused < before + 14 {
        stage.flood(&format!("after {} pieces", stage.disk.counts(0).writes), 1);
        (0..used).for_each(|number| drop(stage.get(&name(number))));
    }
    let kept = |number: &usize| stage.get(&name(*number)) == Some(vec![*number as u8; 2000]);
    assert_eq!((0..100).filter(kept).count(), used, "tables: {are_tables_there}");
    let counts = stage.statistics().counts;
    assert_eq!((counts.lost, counts.damaged), (0, 0), "{counts:?}");
    assert!(counts.objects_rescued >= used as u64, "{counts:?}");
}

#[test]
fn used_items_are_kept_be_they_few_or_many_and_with_or_without_a_table() {
    check_kept(5, true);
    check_kept(40, true);
    check_kept(5, false);
    check_kept(40, false);
}

/// Of two hundred items all are used once, and every tenth twice: those are kept, and some of the others.
#[test]
fn of_more_used_items_than_may_be_kept_those_used_most_are() {
    let settings = FlashSettings { kept_max_percent: 20, recache_rate: 0, ..FlashSettings::default() };
    let mut stage = Stage::new(16, settings);
    let name = |number: usize| format!("mine {number}");
    (0..200).for_each(|number| stage.set(&name(number), &[number as u8; 2000]));
    stage.flood("first", 9);
    assert!((0..200).all(|number| stage.is_on_flash(&name(number))));
    (0..200).for_each(|number| drop(stage.get(&name(number))));
    (0..20).for_each(|number| drop(stage.get(&name(number * 10))));
    let before = stage.statistics().counts.segments_reused;
    while stage.statistics().counts.segments_reused < before + 15 {
        stage.flood(&format!("after {} pieces", stage.disk.counts(0).writes), 1);
    }
    let kept: Vec<usize> = (0..200).filter(|number| stage.get(&name(*number)).is_some()).collect();
    assert_eq!(kept.iter().filter(|number| *number % 10 == 0).count(), 20, "{kept:?}");
    // Of three segments at most.
    assert!(kept.len() < 200 / 2, "{kept:?}");
}

#[test]
fn one_in_so_many_repeated_uses_brings_an_item_back_to_memory() {
    for (rate, uses) in [(1, 2), (5, 6), (0, 100)] {
        let mut stage = Stage::new(64, FlashSettings { recache_rate: rate, ..FlashSettings::default() });
        stage.set("mine", &[b'1'; 600]);
        stage.flood("other", 10);
        let needed = (1..=100).find(|_| stage.get("mine").is_some() && !stage.is_on_flash("mine"));
        assert_eq!(needed.unwrap_or(100), uses, "rate {rate}");
    }
}

#[test]
fn keys_with_the_tag_of_an_item_on_flash_do_not_get_it() {
    let mut stage = Stage::new(64, FlashSettings::default());
    stage.set("mine", &[b'1'; 600]);
    // By chance, one in 2^35 has its tag.
    let mine = stage.handle.key(b"mine").hash;
    stage.flood("other", 10);
    let twin = crate::index::hash::Key { bytes: b"twin", hash: mine };
    let mut reads = Reads { disk: &stage.disk, done: HashMap::new() };
    while stage.handle.locate(&twin, FlashUse::Value, &mut reads, 1) == Located::Waits {}
    assert!(stage.handle.get(&twin, Look::Use, 1).is_none());
    assert_eq!(stage.get("mine"), Some(vec![b'1'; 600]), "and it is still there");
}

#[test]
fn without_a_thread_items_are_dropped_and_no_operation_waits() {
    let mut stage = Stage::new(64, FlashSettings::default());
    for number in 0..8000 {
        let name = format!("key {number}");
        let key = stage.handle.key(name.as_bytes());
        stage.handle.store(&key, &Change::default(), NewValue::Bytes(&[b'v'; 4000]), 1).unwrap();
    }
    let statistics = stage.statistics();
    assert!(statistics.counts.refused > 1000, "{statistics:?}");
    let counts = stage.store.statistics().counts;
    assert_eq!(counts.curr_items + counts.evictions, 8000);
    assert!(stage.store.statistics().charged_bytes <= 8 << 20);
}

#[test]
fn the_disk_is_behind_while_memory_and_pieces_are_full_and_nothing_is_lost_before() {
    let mut stage = Stage::new(64, FlashSettings::default());
    let mut stored = 0;
    while !stage.store.flash_is_behind() {
        stage.set_alone(&format!("mine {stored}"), &[b'v'; 4000], 0);
        stored += 1;
    }
    let items = stage.store.statistics().counts.curr_items;
    assert_eq!((stage.statistics().counts.refused, items), (0, stored));
    let progress = stage.store.flash_progress();
    assert!(stage.store.flash_step(&stage.disk, &mut stage.room));
    assert!(!stage.store.flash_is_behind() && stage.store.flash_progress() > progress);
    // A device that is left alone writes nothing.
    while !stage.store.flash_is_behind() {
        stage.set_alone(&format!("mine {stored}"), &[b'v'; 4000], 0);
        stored += 1;
    }
    let tier = stage.store.tier.as_ref().expect("a tier");
    (0..16).for_each(|_| tier.note_failure(0));
    assert!(!stage.store.flash_is_behind());
}

#[test]
fn pieces_that_cannot_be_written_lose_their_items_and_no_others() {
    let mut stage = Stage::new(64, FlashSettings::default());
    let rule = stage.disk.fail(FaultRule::new(Fault::WriteError));
    stage.flood("lost", 20);
    stage.disk.end(rule);
    let FlashStatistics { counts, objects, .. } = stage.statistics();
    assert!(counts.lost >= 1000 && counts.write_errors == 16 && counts.turned_off == 1, "{counts:?}");
    assert!(objects < 200, "those of pieces that are not full yet: {objects}");
    stage.now += 10;
    stage.flood("kept", 10);
    assert!(stage.get("kept 0").is_some());
}

#[test]
fn a_segment_that_cannot_be_read_is_reused_without_its_items() {
    let mut stage = Stage::new(8, FlashSettings::default());
    let rule = stage.disk.fail(FaultRule::new(Fault::ReadError));
    stage.flood("other", 12);
    stage.disk.end(rule);
    let counts = stage.statistics().counts;
    assert!(counts.segments_reused >= 8 && counts.lost > 1000, "{counts:?}");
    assert_eq!((counts.read_errors, counts.turned_off), (16, 1), "{counts:?}");
    stage.now += 10;
    assert_eq!(stage.get("other 10"), None);
    stage.flood("later", 6);
    assert!(stage.get("later 100").is_some());
}

#[test]
fn a_device_that_fails_is_left_alone_for_seconds_and_its_items_stay() {
    let mut stage = Stage::new(64, FlashSettings::default());
    stage.set("mine", &[b'1'; 600]);
    stage.flood("other", 10);
    let rule = stage.disk.fail(FaultRule::new(Fault::ReadError));
    (0..16).for_each(|number| assert_eq!(stage.get(&format!("other {number}")), None));
    stage.disk.end(rule);
    let reads = stage.disk.counts(0).reads;
    assert_eq!(stage.get("mine"), None, "the device is off");
    assert_eq!(stage.disk.counts(0).reads, reads, "nobody asks it");
    stage.flood("dropped", 10);
    assert!(stage.statistics().counts.refused > 0, "nothing goes to it but what a segment was open for");
    stage.now += 10;
    assert_eq!(stage.get("mine"), Some(vec![b'1'; 600]));
    let counts = stage.statistics().counts;
    assert_eq!((counts.turned_off, counts.lost, counts.aborted), (1, 16, 1), "{counts:?}");
}

#[test]
fn what_was_read_before_a_segment_was_filled_again_is_not_used() {
    let mut stage = Stage::new(8, FlashSettings::default());
    stage.set("mine", &[b'1'; 600]);
    stage.flood("other", 7);
    let mut reads = Reads { disk: &stage.disk, done: HashMap::new() };
    let key = stage.handle.key(b"mine");
    assert_eq!(stage.handle.locate(&key, FlashUse::Value, &mut reads, 1), Located::Waits);
    let done = std::mem::take(&mut reads.done);
    // Again and again the same key comes to the same pages.
    for round in 0..40 {
        stage.set("mine", &[b'2'; 600]);
        stage.flood(&format!("round {round}"), 1);
        let mut reads = Reads { disk: &stage.disk, done: done.clone() };
        let key = stage.handle.key(b"mine");
        while stage.handle.locate(&key, FlashUse::Value, &mut reads, 1) == Located::Waits {}
        let found = stage.handle.get(&key, Look::Use, 1).map(|item| item.value().as_bytes()[0]);
        assert_ne!(found, Some(b'1'), "round {round}");
    }
}

/// Small items push others out of memory without going to flash themselves.
fn push_out(stage: &mut Stage) {
    for number in 0..30_000 {
        let name = format!("small {number}");
        let key = stage.handle.key(name.as_bytes());
        let value = NewValue::Bytes(&[b's'; 300]);
        stage.handle.store(&key, &Change::default(), value, stage.now).unwrap();
    }
}

#[test]
fn older_records_of_a_key_in_the_same_page_are_not_found() {
    for has_disk in [false, true] {
        let mut stage = Stage::new(64, FlashSettings::default());
        for version in [b'1', b'2', b'3'] {
            let key = stage.handle.key(b"mine");
            stage.handle.store(&key, &Change::default(), NewValue::Bytes(&[version; 700]), 1).unwrap();
            push_out(&mut stage);
        }
        assert!(stage.is_on_flash("mine"));
        if has_disk {
            stage.store.finish_flash(&stage.disk);
        }
        assert_eq!(stage.get("mine"), Some(vec![b'3'; 700]), "on the disk: {has_disk}");
    }
}

#[test]
fn a_command_that_changes_an_item_takes_it_away_if_it_cannot_be_read() {
    struct Refusal;
    impl FlashReads for Refusal {
        fn state(&mut self, _: u64, _: FlashRead) -> ReadState<'_> {
            ReadState::Refused
        }
    }
    let mut stage = Stage::new(64, FlashSettings::default());
    ["read", "changed"].iter().for_each(|name| stage.set(name, &[b'1'; 600]));
    stage.flood("other", 10);
    for (name, usage) in [("read", FlashUse::Value), ("changed", FlashUse::Item)] {
        let key = stage.handle.key(name.as_bytes());
        assert_eq!(stage.handle.locate(&key, usage, &mut Refusal, 1), Located::Ready);
        assert!(stage.handle.get(&key, Look::Use, 1).is_none());
    }
    assert_eq!((stage.get("read").is_some(), stage.get("changed").is_some()), (true, false));
}

#[test]
fn a_command_that_misses_an_item_which_was_just_moved_to_flash_takes_it_away() {
    let mut stage = Stage::new(64, FlashSettings::default());
    let names: Vec<String> = (0..5).map(|number| format!("mine {number}")).collect();
    names.iter().for_each(|name| stage.set(name, &[b'1'; 600]));
    stage.flood("other", 10);
    let key = |number: usize| stage.handle.key(names[number].as_bytes());
    let keys = [0, 1, 2, 3, 4].map(key);
    let stale = Delete { mark_stale: true, ..Delete::default() };
    assert_eq!(stage.handle.delete(&keys[0], &stale, 1).unwrap(), Deleted::NotFound);
    assert!(!stage.handle.touch(&keys[1], 5, 1));
    let counted = stage.handle.arithmetic(&keys[2], &crate::Arithmetic::default(), 1).unwrap();
    assert_eq!(counted, crate::Counted::NotFound);
    let replace = Change { condition: crate::Condition::Replace, ..Change::default() };
    let stored = stage.handle.store(&keys[3], &replace, NewValue::Bytes(b"new"), 1).unwrap();
    assert_eq!(stored, crate::Stored::NotStored);
    let touching = crate::MetaGet { touch: Some(5), ..crate::MetaGet::default() };
    assert!(stage.handle.meta_get(&keys[4], &touching, 1).is_none());
    assert!(names.iter().all(|name| !stage.is_on_flash(name)));
}

#[test]
fn sizes_that_a_tier_cannot_have_are_refused_with_what_is_accepted() {
    let check = |devices: &[u64], segment_bytes: u64, piece_bytes: u64, limit: u64, expected: &str| {
        let device = |bytes: &u64| FlashDevice { bytes: *bytes, bucket: Bucket::Default };
        let devices = devices.iter().map(device).collect();
        let flash = FlashConfig { devices, segment_bytes, piece_bytes, settings: FlashSettings::default() };
        let config = Config { memory_limit_bytes: limit, flash: Some(flash), ..Config::default() };
        let error = Store::new(config).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    };
    let mib = 1 << 20;
    check(&[100 * mib], mib, 100_000, 64 * mib, "pieces are powers of two from 262144");
    check(&[100 * mib], 3 * mib, 2 * mib, 64 * mib, "a segment is a whole number of them");
    check(&[4 * mib], mib, mib, 64 * mib, "at least 5242880 are needed");
    check(&[], mib, mib, 64 * mib, "at least");
    check(&[5 << 40], 64 * mib, 4 * mib, 64 * mib, "can be used");
    check(&[1 << 40], 64 * mib, 4 * mib, 64 * mib, "with 1099511627776 bytes of flash: at least");
}

#[test]
fn a_full_index_keeps_room_for_items_in_memory_and_new_items_replace_the_oldest_on_flash() {
    let settings = FlashSettings { item_size_min: 64, ..FlashSettings::default() };
    let mut stage = Stage::new(256, settings);
    let name = |number: u32| format!("small {number}");
    let (mut number, mut after_full) = (0, 0);
    while after_full < 60_000 {
        stage.set(&name(number), b"0123456789");
        number += 1;
        after_full += u32::from(!stage.store.tier.as_ref().unwrap().index_limit.admits(u64::MAX - 1));
        assert!(number < 1_000_000, "it becomes full: {:?}", stage.statistics());
    }
    let full = stage.statistics();
    assert!((85..96).contains(&stage.store.index_pressure()), "{full:?}");
    assert!(full.segments_free > 8, "it is not the flash that is full: {full:?}");
    assert!(full.objects > u64::from(number) / 2, "{full:?}");
    assert_eq!(stage.get(&name(number - 1)), Some(b"0123456789".to_vec()), "it is in memory");
    let recent = number - 30_000;
    assert!(stage.is_on_flash(&name(recent)), "{full:?}");
    assert_eq!(stage.get(&name(recent)), Some(b"0123456789".to_vec()));
    assert_eq!(stage.get(&name(0)), None, "the oldest is gone");
}

#[test]
fn a_full_index_takes_new_items_although_the_thread_of_the_tier_is_slow() {
    let settings = FlashSettings { item_size_min: 64, ..FlashSettings::default() };
    let mut stage = Stage::new(256, settings);
    let name = |number: u32| format!("small {number}");
    let mut number = 0;
    while stage.store.tier.as_ref().unwrap().index_limit.admits(u64::MAX - 1) {
        stage.set(&name(number), b"0123456789");
        number += 1;
    }
    // A step of the thread, which the disk or others on the processor delay, in so many sets.
    let last = number + 3_500_000;
    for number in number..last {
        stage.set_alone(&name(number), b"0123456789", 0);
        if number % 1000 == 0 {
            stage.store.flash_step(&stage.disk, &mut stage.room);
        }
    }
    assert!(stage.store.index_pressure() <= 100, "{:?}", stage.statistics());
    assert!(stage.get(&name(last - 1)).is_some(), "it is in memory");
}

#[test]
fn an_index_with_all_that_it_may_have_gives_up_what_was_used_least_on_flash() {
    let settings = FlashSettings { item_size_min: 64, ..FlashSettings::default() };
    let mut stage = Stage::new(256, settings);
    let name = |number: u32| format!("small {number}");
    let mut number = 0;
    while stage.store.index_pressure() < 89 {
        stage.set(&name(number), b"0123456789");
        number += 1;
    }
    // An operator lowers the limit, faster than segments could be emptied.
    stage.store.set_memory_limit((8 << 20) - stage.store.index_room()).unwrap();
    let before = stage.statistics().counts.objects_evicted;
    for number in number..number + 20_000 {
        stage.set_alone(&name(number), b"0123456789", 0);
    }
    assert!(stage.statistics().counts.objects_evicted > before, "{:?}", stage.statistics());
}

#[test]
fn what_is_written_stays_within_the_budget() {
    const RATE: u64 = 512 << 10;
    let mut stage = Stage::new(64, FlashSettings { write_rate: RATE, ..FlashSettings::default() });
    stage.flood("before", 10);
    assert_eq!(stage.statistics().counts.device_bytes_written, 0, "nothing is earned yet");
    assert!(stage.statistics().counts.over_budget > 256);
    for second in 2..=61 {
        stage.now = second;
        stage.set("a second", b"");
        stage.flood(&format!("in {second}"), 1);
    }
    let counts = stage.statistics().counts;
    let written = counts.device_bytes_written;
    assert!((20 * RATE..=60 * RATE).contains(&written), "{written} bytes in 60 s: {counts:?}");
    // Without one all is written, and nothing is owed.
    stage.store.set_flash(|settings| settings.write_rate = 0);
    stage.flood("afterwards", 10);
    assert!(stage.statistics().counts.device_bytes_written - written >= 9 << 20);
}
