//! Dropped large values: their memory is given back in steps, and is available on demand.

use store::{Change, Config, Delete, Handle, Look, NewValue, Store};

const MIB: usize = 1 << 20;
const NOW: u32 = 2;
/// Bytes that one turn gives back.
const STEP: u64 = 4 << 20;

fn handle(evict: bool) -> Handle {
    let config =
        Config { item_size_max_bytes: 100 << 20, memory_limit_bytes: 256 << 20, evict, ..Config::default() };
    Store::new(config).unwrap().handle()
}

fn set(handle: &mut Handle, name: &str, len: usize) {
    let value = vec![b'v'; len];
    handle.store(&handle.key(name.as_bytes()), &Change::default(), NewValue::Bytes(&value), NOW).unwrap();
}

fn delete(handle: &mut Handle, name: &str) {
    handle.delete(&handle.key(name.as_bytes()), &Delete::default(), NOW).unwrap();
}

fn charged(handle: &Handle) -> u64 {
    handle.shared().statistics().charged_bytes
}

#[test]
fn memory_of_a_dropped_value_is_given_back_in_steps() {
    let mut handle = handle(true);
    let empty = charged(&handle);
    set(&mut handle, "a", 100 * MIB - 200);
    let full = charged(&handle);
    delete(&mut handle, "a");
    assert_eq!(handle.shared().statistics().large_bytes, 0);
    assert_eq!(charged(&handle), full, "its pages are still there");
    let mut turns = 0;
    while charged(&handle) > empty + MIB as u64 {
        let before = charged(&handle);
        handle.begin_turn(NOW);
        let given = before - charged(&handle);
        assert!(given > 0 && given <= 2 * STEP, "{given} bytes in one turn");
        turns += 1;
    }
    assert!((12..=25).contains(&turns), "{turns} turns");
}

/// A segment takes up to a MiB of large values here before it is sealed.
#[test]
fn expired_and_flushed_values_are_given_back_although_their_segment_is_open() {
    let mut handle = handle(true);
    let empty = charged(&handle);
    let rest = |handle: &mut Handle, now: u32| {
        while handle.needs_turn() {
            handle.begin_turn(now);
        }
        handle.shared().statistics().large_bytes
    };
    let set = |handle: &mut Handle, expiry: u32, now: u32| {
        let change = Change { expiry, ..Change::default() };
        let key = handle.key(b"a");
        handle.store(&key, &change, NewValue::Bytes(&[b'v'; 400_000]), now).unwrap();
    };
    set(&mut handle, NOW + 1, NOW);
    assert!(rest(&mut handle, NOW) >= 400_000, "it is there");
    handle.begin_turn(NOW + 1);
    assert_eq!(rest(&mut handle, NOW + 1), 0);
    set(&mut handle, 0, NOW + 1);
    assert!(rest(&mut handle, NOW + 2) >= 400_000, "it never expires");
    handle.shared().flush(0);
    assert_eq!(rest(&mut handle, NOW + 2), 0);
    let statistics = handle.shared().statistics();
    let free = statistics.segments.free * statistics.segments.segment_size;
    assert_eq!((statistics.charged_bytes - free, statistics.segments.open), (empty, 0));
}

#[test]
fn memory_of_dropped_values_is_reused_before_anything_is_evicted() {
    for evict in [true, false] {
        let mut handle = handle(evict);
        set(&mut handle, "small", 100);
        for round in 0..10 {
            for name in ["a", "b"] {
                set(&mut handle, name, 90 * MIB);
                delete(&mut handle, name);
            }
            for number in 0..1000 {
                set(&mut handle, &format!("{round}.{number}"), 20_000);
                delete(&mut handle, &format!("{round}.{number}"));
            }
        }
        assert!(handle.get(&handle.key(b"small"), Look::Peek, NOW).is_some());
        assert_eq!(handle.shared().statistics().counts.evictions, 0);
    }
}

#[test]
fn evicted_values_count_by_their_size() {
    let mut handle = handle(true);
    (0..240).for_each(|number| set(&mut handle, &format!("k{number}"), MIB));
    handle.shared().set_memory_limit(32 << 20).unwrap();
    let least = 32 << 20;
    while charged(&handle) > least {
        let before = charged(&handle);
        handle.begin_turn(NOW);
        let given = before - charged(&handle);
        assert!(given > 0 && given <= 2 * STEP, "{given} bytes in one turn");
    }
}

#[test]
fn free_segments_are_given_back_in_steps_before_anything_is_evicted() {
    let mut handle = handle(true);
    for number in 0..20_000 {
        set(&mut handle, &format!("old{number}"), 10_000);
    }
    handle.shared().flush(0);
    (0..2_000).for_each(|_| handle.begin_turn(NOW));
    for number in 0..100 {
        set(&mut handle, &format!("new{number}"), 10_000);
    }
    let mut before = charged(&handle);
    assert!(before > 150 << 20, "free segments are kept: {before}");
    handle.shared().set_memory_limit(32 << 20).unwrap();
    for _ in 0..1_000 {
        let given = before - charged(&handle);
        assert!(given <= 2 * STEP, "{given} bytes in one turn");
        before = charged(&handle);
        handle.begin_turn(NOW);
    }
    assert!(before <= 32 << 20, "{before}");
    let counts = handle.shared().statistics().counts;
    assert_eq!((counts.evictions, counts.curr_items >= 100), (0, true));
}
