//! Dumps: what is listed, how often, and what a disk that fails does to it.

use super::*;

/// What a dump has listed: how often each key, and where.
#[derive(Default)]
struct Listed {
    dump: FlashDump,
    items: HashMap<String, Vec<Option<crate::operations::dump::DumpedPlace>>>,
    lens: HashMap<String, usize>,
}

impl Listed {
    fn note(&mut self, item: &crate::Dumped<'_>) {
        let key = String::from_utf8(item.key.to_vec()).unwrap();
        self.lens.insert(key.clone(), item.value_len);
        self.items.entry(key).or_default().push(item.on_flash);
    }

    /// Makes a step of a round on flash. False: it has ended.
    fn step(&mut self, stage: &mut Stage) -> bool {
        let mut dump = std::mem::take(&mut self.dump);
        let mut reads = Reads { disk: &stage.disk, done: HashMap::new() };
        let dumped = loop {
            match stage.handle.dump_flash(&mut dump, &mut reads, stage.now, |item| self.note(item)) {
                FlashDumped::Waits => {}
                dumped => break dumped,
            }
        };
        self.dump = dump;
        dumped == FlashDumped::More
    }

    fn memory(&mut self, stage: &mut Stage) {
        let mut cursor = crate::DumpCursor::default();
        while stage.handle.dump(&mut cursor, stage.now, |item| self.note(item)) {}
    }

    /// A whole dump.
    fn of(stage: &mut Stage) -> Listed {
        let mut listed = Listed::default();
        while listed.step(stage) {}
        listed.memory(stage);
        while listed.step(stage) {}
        listed
    }

    fn count(&self, key: &str) -> usize {
        self.items.get(key).map_or(0, Vec::len)
    }
}

#[test]
fn a_dump_lists_each_item_on_flash_and_in_memory_once() {
    let mut stage = Stage::new(64, FlashSettings::default());
    for number in 0..3000_usize {
        let len = if number % 40 == 7 { 40_000 + number * 50 } else { 600 + number % 5000 };
        stage.set(&format!("key {number}"), &vec![b'v'; len]);
    }
    let deleted = stage.handle.key(b"key 5");
    stage.handle.delete(&deleted, &Delete::default(), 1).unwrap();
    let statistics = stage.store.statistics().counts;
    let listed = Listed::of(&mut stage);
    assert_eq!(listed.items.len() as u64, statistics.curr_items);
    let places: Vec<_> = listed.items.values().flatten().flatten().collect();
    assert_eq!(places.len() as u64, stage.statistics().objects);
    assert!(places.len() > 1000, "{}", places.len());
    assert!(listed.items.values().all(|places| places.len() == 1));
    assert_eq!(listed.count("key 5"), 0, "it was deleted");
    for (key, len) in &listed.lens {
        let number: usize = key["key ".len()..].parse().unwrap();
        assert_eq!(*len, if number % 40 == 7 { 40_000 + number * 50 } else { 600 + number % 5000 });
    }
    let distinct: std::collections::HashSet<_> =
        places.iter().map(|place| (place.page, place.offset)).collect();
    assert_eq!(distinct.len(), places.len());
    assert!(places.iter().all(|place| place.page < 64 && place.offset < SEGMENT && place.offset % 64 == 0));
}

#[test]
fn a_dump_says_of_an_item_on_flash_what_a_client_has_stored() {
    let mut stage = Stage::new(64, FlashSettings::default());
    for (name, len) in [("mine", 600), ("long", 200_000)] {
        let key = stage.handle.key(name.as_bytes());
        let change = Change { flags: 77, key_is_binary: true, ..Change::default() };
        stage.handle.store(&key, &change, NewValue::Bytes(&vec![b'v'; len]), 1).unwrap();
        let cas = stage.handle.get(&key, Look::Peek, 1).map(|item| item.cas()).expect("an item");
        stage.flood(name, 10);
        assert!(stage.is_on_flash(name));
        let (mut dump, mut found) = (FlashDump::default(), None);
        let mut reads = Reads { disk: &stage.disk, done: HashMap::new() };
        while stage.handle.dump_flash(&mut dump, &mut reads, 1, |item| {
            if item.key == name.as_bytes() {
                found = Some((
                    item.cas,
                    item.flags,
                    item.expiry,
                    item.key_is_binary,
                    item.value_len,
                    item.fetched,
                ));
            }
        }) != FlashDumped::Ended
        {}
        assert_eq!(found, Some((cas, 77, 0, true, len, false)), "{name}");
    }
}

#[test]
fn a_dump_does_not_list_dead_items_on_flash() {
    let mut stage = Stage::new(64, FlashSettings::default());
    stage.set_until("expired", &[b'1'; 600], 100);
    stage.set_until("large expired", &[b'1'; 200_000], 100);
    stage.set("replaced", &[b'1'; 600]);
    stage.flood("other", 10);
    assert_eq!(Listed::of(&mut stage).count("large expired"), 1);
    stage.set("replaced", b"in memory");
    stage.now = 100;
    let listed = Listed::of(&mut stage);
    assert_eq!((listed.count("expired"), listed.count("large expired"), listed.count("replaced")), (0, 0, 1));
    stage.store.flush(0);
    assert!(Listed::of(&mut stage).items.is_empty());
}

/// Items move to flash, back, and within it while they are listed; others are stored and deleted.
#[test]
fn items_that_are_there_during_a_whole_dump_are_listed_whatever_happens_to_others() {
    let settings = FlashSettings { recache_rate: 0, ..FlashSettings::default() };
    let mut stage = Stage::new(48, settings);
    let names: Vec<String> = (0..1500).map(|number| format!("mine {number}")).collect();
    names.iter().for_each(|name| stage.set(name, &[b'm'; 4000]));
    stage.flood("first", 10);
    for (round, steps) in [1, 3, 20].into_iter().enumerate() {
        let mut listed = Listed::default();
        let mut number = 0;
        let meanwhile = |stage: &mut Stage, number: &mut usize| {
            for _ in 0..3 {
                stage.set(&format!("round {round} {number}"), &[b'n'; 4000]);
                if number.is_multiple_of(3) {
                    stage.locate(&names[*number * 7 % names.len()], FlashUse::Item);
                }
                let gone = stage.handle.key(format!("round {round} {}", *number / 2).as_bytes()).hash;
                stage.store.drop_from_flash(&mut stage.store.index.lock(gone), gone);
                *number += 1;
            }
        };
        for _ in 0..2 {
            let mut count = 0;
            while listed.step(&mut stage) {
                count += 1;
                if count % steps == 0 {
                    meanwhile(&mut stage, &mut number);
                }
            }
            if listed.items.values().flatten().all(Option::is_some) {
                listed.memory(&mut stage);
            }
        }
        let missing: Vec<_> = names.iter().filter(|name| listed.count(name) == 0).collect();
        let lost: Vec<_> = missing.iter().filter(|name| stage.get(name).is_none()).collect();
        assert_eq!(missing.len(), lost.len(), "round {round}: {missing:?}");
        let twice = listed.items.values().filter(|places| places.len() > 1).count();
        let moved = stage.statistics().counts.objects_rescued as usize + number;
        assert!(twice <= moved, "{twice} of {moved}");
    }
}

#[test]
fn a_dump_ends_where_items_are_written_faster_than_it_lists_them() {
    let mut stage = Stage::new(16, FlashSettings::default());
    stage.flood("first", 12);
    let (mut listed, mut steps) = (Listed::default(), 0);
    while listed.step(&mut stage) {
        stage.flood(&format!("step {steps}"), 1);
        steps += 1;
        assert!(steps < 16 * 6, "a round has at most as many segments as there are");
    }
}

#[test]
fn a_dump_passes_over_what_cannot_be_read() {
    let mut stage = Stage::new(64, FlashSettings::default());
    (0..20).for_each(|number| stage.set(&format!("large {number}"), &[b'l'; 150_000]));
    stage.flood("other", 16);
    let all = Listed::of(&mut stage).items.len();
    // Some of the first two segments.
    let rule = stage.disk.fail(FaultRule::new(Fault::ReadError).range(4096..SEGMENT + 4096));
    let listed = Listed::of(&mut stage);
    stage.disk.end(rule);
    assert!((all - 700..all).contains(&listed.items.len()), "{} of {all}", listed.items.len());
    let counts = stage.statistics().counts;
    assert!(counts.dump_bytes_skipped > 0 && counts.turned_off == 0 && counts.lost == 0, "{counts:?}");
    assert_eq!(Listed::of(&mut stage).items.len(), all, "nothing was lost");
    // Damage is no item either.
    let rule = stage.disk.fail(FaultRule::new(Fault::ReadError));
    let reads = stage.disk.counts(0).reads;
    let listed = Listed::of(&mut stage);
    stage.disk.end(rule);
    assert!(listed.items.values().flatten().all(|place| place.is_none_or(|place| place.page > 0)));
    assert!(stage.disk.counts(0).reads - reads <= 17, "then the device is left alone");
    assert_eq!(stage.statistics().counts.turned_off, 1);
}

#[test]
fn a_damaged_record_is_not_listed_and_others_are() {
    let mut stage = Stage::new(64, FlashSettings::default());
    // The key's length: a longer key than any, none, and another one.
    let lens = [255, 0, 9];
    for number in 0..lens.len() {
        stage.set(&format!("long {number}"), &[b'l'; 150_000]);
        stage.set(&format!("short {number}"), &[b's'; 2000]);
    }
    stage.flood("other", 16);
    let all = Listed::of(&mut stage);
    for (number, key_len) in lens.into_iter().enumerate() {
        for name in [format!("long {number}"), format!("short {number}")] {
            let place = all.items[&name][0].expect("it is on flash");
            let position = u64::from(place.page) * SEGMENT + place.offset;
            let mut page = AlignedBytes::zeroed(FLASH_PAGE);
            let in_page = position as usize % FLASH_PAGE;
            stage.disk.read(0, position - in_page as u64, &mut page).unwrap();
            page[in_page + 45] = key_len;
            stage.disk.write(0, position - in_page as u64, &page).unwrap();
        }
    }
    let listed = Listed::of(&mut stage);
    let missing: Vec<&String> = all.items.keys().filter(|key| listed.count(key) == 0).collect();
    assert!(missing.iter().all(|key| key.starts_with("long") || key.starts_with("short")), "{missing:?}");
    assert_eq!((missing.len(), listed.items.len()), (6, all.items.len() - 6));
}

#[test]
fn a_dump_whose_reads_are_refused_or_late_ends() {
    struct Never(bool);
    impl FlashReads for Never {
        fn state(&mut self, _: u64, _: FlashRead) -> ReadState<'_> {
            if self.0 { ReadState::Late } else { ReadState::Refused }
        }
    }
    for is_late in [false, true] {
        let mut stage = Stage::new(64, FlashSettings::default());
        stage.flood("other", 16);
        let (mut dump, mut count) = (FlashDump::default(), 0);
        loop {
            match stage.handle.dump_flash(&mut dump, &mut Never(is_late), 1, |_| count += 1) {
                FlashDumped::Ended => break,
                dumped => assert_eq!(dumped, FlashDumped::More),
            }
        }
        let counts = stage.statistics().counts;
        assert!(count < 400 && counts.dump_bytes_skipped > 10 * SEGMENT, "{count} {counts:?}");
        assert_eq!(counts.turned_off, u64::from(is_late));
    }
}

#[test]
fn a_value_that_looks_like_records_is_not_listed() {
    let mut stage = Stage::new(64, FlashSettings::default());
    let mut value = Vec::new();
    while value.len() < 3000 {
        let mut header = [7_u8; 64];
        header[36..40].copy_from_slice(&100_000_u32.to_le_bytes());
        value.extend(header);
    }
    // Its record is wiped when it comes to the same page again.
    for _ in 0..2 {
        let key = stage.handle.key(b"mine");
        stage.handle.store(&key, &Change::default(), NewValue::Bytes(&value[..1600]), 1).unwrap();
        push_out(&mut stage);
    }
    stage.set("behind", &[b'b'; 600]);
    stage.flood("other", 10);
    let listed = Listed::of(&mut stage);
    assert_eq!((listed.count("mine"), listed.count("behind")), (1, 1));
    assert_eq!(listed.items.len() as u64, stage.store.statistics().counts.curr_items);
}
