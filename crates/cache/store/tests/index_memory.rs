//! Memory of the index, charged and given back: under chosen keys, after a flush, as items expire, and when
//! the limit is lowered.

use store::{Change, Config, Error, Handle, Look, MEMORY_LIMIT_MAX, NewValue, Statistics, Store};

const MIB: u64 = 1 << 20;

fn store_of(megabytes: u64) -> Handle {
    Store::new(Config { memory_limit_bytes: megabytes * MIB, ..Config::default() }).unwrap().handle()
}

#[track_caller]
fn set(handle: &mut Handle, key: &[u8], value: &[u8], expiry: u32) {
    let change = Change { expiry, ..Change::default() };
    handle.store(&handle.key(key), &change, NewValue::Bytes(value), 2).unwrap();
}

/// Items of 8 bytes under numbered keys.
#[track_caller]
fn fill(handle: &mut Handle, numbers: std::ops::Range<u32>, expiry: u32) {
    numbers.for_each(|number| set(handle, format!("key{number}").as_bytes(), b"12345678", expiry));
}

fn is_there(handle: &mut Handle, key: &[u8]) -> bool {
    handle.get(&handle.key(key), Look::Use, 2).is_some()
}

fn statistics(handle: &Handle) -> Statistics {
    handle.shared().statistics()
}

/// `count` turns of an idle worker.
fn turns(handle: &mut Handle, count: usize, now: u32) {
    (0..count).for_each(|_| handle.begin_turn(now));
}

/// Keys of 32 bytes whose hashes were equal with an earlier multiplicative function, under every seed: their
/// first word made a factor zero.
fn colliding_once(number: u64) -> [u8; 32] {
    let mut key = [b'x'; 32];
    key[..8].copy_from_slice(&0xb7e1_5162_8aed_2a6b_u64.to_le_bytes());
    key[8..16].copy_from_slice(&number.to_le_bytes());
    key
}

#[test]
fn chosen_keys_are_stored_like_any_others() {
    let mut handle = store_of(64);
    let (chosen, value) = (87_600, b"v");
    (0..chosen).for_each(|number| set(&mut handle, &colliding_once(number), value, 0));
    let after = statistics(&handle);
    assert_eq!((after.counts.curr_items, after.counts.evictions), (chosen, 0));
    assert!(after.index_bytes < 20 * chosen + 2 * MIB, "{} KiB of index", after.index_bytes >> 10);
    fill(&mut handle, 0..100_000, 0);
    assert!((0..100_000).all(|number| is_there(&mut handle, format!("key{number}").as_bytes())));
}

#[test]
fn a_flush_gives_the_index_back() {
    let mut handle = store_of(64);
    let empty = statistics(&handle);
    fill(&mut handle, 0..300_000, 0);
    assert!(statistics(&handle).index_bytes > 2 * empty.index_bytes);
    handle.shared().flush(0);
    turns(&mut handle, 20_000, 2);
    let after = statistics(&handle);
    // Dead items of an open segment are removed after it is sealed.
    assert!(after.counts.curr_items * 60 < after.segments.segment_size, "{after:?}");
    assert_eq!(after.index_bytes, empty.index_bytes);
}

#[test]
fn items_that_expire_give_the_index_back() {
    let mut handle = store_of(64);
    let empty = statistics(&handle);
    fill(&mut handle, 0..300_000, 100);
    turns(&mut handle, 20_000, 101);
    let after = statistics(&handle);
    // Expired items of an open segment are removed after it is sealed.
    let open = after.segments.open * after.segments.segment_size / 60;
    assert!(after.counts.curr_items <= open, "{after:?}");
    assert!(after.index_bytes <= empty.index_bytes + open * 40, "{after:?}");
}

#[test]
fn the_memory_of_a_million_small_items_serves_large_ones_afterwards() {
    let mut handle = store_of(64);
    fill(&mut handle, 0..900_000, 0);
    let small = statistics(&handle);
    let value = vec![b'v'; 20_000];
    (0..10_000).for_each(|number| set(&mut handle, format!("large{number}").as_bytes(), &value, 0));
    let large = statistics(&handle);
    assert!(large.index_bytes < small.index_bytes / 5, "{} of {}", large.index_bytes, small.index_bytes);
    assert!(large.counts.bytes > 55 * MIB, "{large:?}");
}

#[test]
fn a_limit_below_the_size_of_the_index_shrinks_it_step_by_step() {
    let mut handle = store_of(64);
    fill(&mut handle, 0..900_000, 0);
    let index = statistics(&handle).index_bytes;
    assert!(index > 8 * MIB, "{index}");
    handle.shared().set_memory_limit(8 * MIB).unwrap();
    let mut evicted_at_once = 0;
    for round in 0..40_000_u32 {
        let before = statistics(&handle).counts.evictions;
        handle.begin_turn(2);
        set(&mut handle, format!("new{round}").as_bytes(), b"12345678", 0);
        evicted_at_once = evicted_at_once.max(statistics(&handle).counts.evictions - before);
    }
    let after = statistics(&handle);
    assert!(after.charged_bytes <= 8 * MIB, "{after:?}");
    assert!(after.counts.curr_items > 40_000, "{after:?}");
    assert!(is_there(&mut handle, b"new39999"));
    // The reserve of two segments of 128 KiB, one more, and the rest of one that was begun: never all of them.
    assert!(evicted_at_once < 10_500, "{evicted_at_once} in one operation");
}

#[test]
fn a_limit_that_leaves_no_room_is_refused_and_nothing_is_lost() {
    let mut handle = store_of(1024);
    fill(&mut handle, 0..1_000, 0);
    let before = statistics(&handle);
    let Err(Error::LimitTooSmall { bytes, least }) = handle.shared().set_memory_limit(8 * MIB) else {
        panic!("segments of 1 MiB need more");
    };
    assert_eq!((bytes, statistics(&handle)), (8 * MIB, before));
    handle.shared().set_memory_limit(least).unwrap();
    turns(&mut handle, 1_000, 2);
    fill(&mut handle, 0..500_000, 0);
    let after = statistics(&handle);
    assert!(after.charged_bytes <= least && after.counts.curr_items > 50_000, "{after:?}");
}

#[test]
fn without_eviction_a_lower_limit_loses_nothing() {
    let config = Config { memory_limit_bytes: 64 * MIB, evict: false, ..Config::default() };
    let mut handle = Store::new(config).unwrap().handle();
    fill(&mut handle, 0..300_000, 0);
    handle.shared().set_memory_limit(8 * MIB).unwrap();
    turns(&mut handle, 10_000, 2);
    // An open segment takes some more.
    let refused = (0..8).find_map(|number| {
        let key = [number];
        let key = handle.key(&key);
        handle.store(&key, &Change::default(), NewValue::Bytes(&[0; 20_000]), 2).err()
    });
    assert!(matches!(refused, Some(Error::OutOfMemory)), "{refused:?}");
    assert!((0..300_000).all(|number| is_there(&mut handle, format!("key{number}").as_bytes())));
}

#[test]
fn a_limit_beyond_the_range_of_slots_is_refused() {
    let config = Config { memory_limit_bytes: MEMORY_LIMIT_MAX + 1, ..Config::default() };
    assert!(matches!(Store::new(config), Err(Error::LimitTooLarge { most: MEMORY_LIMIT_MAX, .. })));
}
