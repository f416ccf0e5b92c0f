//! Concurrent handles. Values name their keys, so that a wrong one is detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use stdx::prng::{Prng, mix};
use store::{
    Arithmetic, Change, Condition, Config, Counted, Delete, Handle, Look, MetaGet, NewValue, Store, Stored,
    Value,
};

/// A value that names its key and repeats one byte: [`verify`] detects torn and foreign ones.
fn value_of(key: u64, prng: &mut Prng) -> Vec<u8> {
    let len = match prng.below(20) {
        0 => 40_000 + prng.below(30_000),
        1..5 => 1_000 + prng.below(3_000),
        _ => prng.below(200),
    };
    let mut value = key.to_le_bytes().to_vec();
    value.resize(9 + len as usize, prng.next_u64() as u8);
    value
}

#[track_caller]
fn verify(key: u64, value: &[u8]) {
    assert_eq!(value[..8], key.to_le_bytes(), "another key's value");
    assert!(value[8..].iter().all(|byte| *byte == value[8]), "a torn value of {key}");
}

fn hammer(handle: &mut Handle, seed: u64, keys: u64, operations: usize, second: &AtomicU32) {
    let mut prng = Prng::new(seed);
    let mut sent: Vec<(u64, Arc<store::LargeValue>)> = Vec::new();
    for operation in 0..operations {
        let now = second.load(Relaxed);
        let number = prng.below(keys);
        let name = mix(number).to_string();
        let key = handle.key(name.as_bytes());
        match prng.below(100) {
            0..50 => {
                if let Some(item) = handle.get(&key, Look::Use, now) {
                    assert_eq!(item.key(), name.as_bytes());
                    assert!(item.expiry() == 0 || item.expiry() > now);
                    verify(number, item.value().as_bytes());
                    if let Value::Large(large) = item.value() {
                        sent.push((number, Arc::clone(large)));
                    }
                }
            }
            50..85 => {
                let value = value_of(number, &mut prng);
                let condition = if prng.below(4) == 0 { Condition::Add } else { Condition::Set };
                let expiry = if prng.below(3) == 0 { now + 1 + prng.below(20) as u32 } else { 0 };
                let change = Change { condition, expiry, ..Change::default() };
                let _ = handle.store(&key, &change, NewValue::Bytes(&value), now);
            }
            85..92 => {
                handle.delete(&key, &Delete::default(), now).expect("nothing to store");
            }
            92..97 => {
                handle.touch(&key, now + 5, now);
            }
            97 => {
                let request = MetaGet { recache_below: Some(now + 3), ..MetaGet::default() };
                if let Some(found) = handle.meta_get(&key, &request, now) {
                    verify(number, found.item.value().as_bytes());
                }
            }
            98 => handle.begin_turn(now),
            _ => {
                second.fetch_add(u32::from(prng.below(8) == 0), Relaxed);
                if prng.below(200) == 0 {
                    handle.shared().flush(if prng.below(2) == 0 { 0 } else { now + 2 });
                }
            }
        }
        if operation % 64 == 0 {
            // As if the network were slow.
            sent.drain(..).for_each(|(number, large)| verify(number, large.as_ref().as_ref()));
        }
    }
}

#[track_caller]
fn check(seed: u64, config: Config, keys: u64, operations: usize) {
    let store = Store::new(Config { item_size_max_bytes: 1 << 20, ..config }).unwrap();
    let second = AtomicU32::new(2);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (mut handle, second) = (store.handle(), &second);
            scope.spawn(move || hammer(&mut handle, seed ^ thread, keys, operations, second));
        }
    });
    let statistics = store.statistics();
    assert!(statistics.charged_bytes <= statistics.limit_bytes, "{statistics:?}");
    let counts = statistics.counts;
    assert_eq!(counts.curr_items, counts.small_items + counts.main_items);
    assert!(counts.curr_items < keys + 1, "{statistics:?}");
}

#[test]
fn threads_that_share_every_key_see_whole_values_only() {
    check(1, Config { memory_limit_bytes: 64 << 20, ..Config::default() }, 50, 60_000);
}

#[test]
fn threads_that_evict_each_others_items_see_whole_values_only() {
    check(2, Config { memory_limit_bytes: 8 << 20, ..Config::default() }, 20_000, 60_000);
    check(3, Config { memory_limit_bytes: store::MEMORY_LIMIT_MIN, ..Config::default() }, 20_000, 40_000);
    check(4, Config { memory_limit_bytes: 8 << 20, evict: false, ..Config::default() }, 20_000, 30_000);
}

#[test]
fn no_count_is_lost_while_the_index_grows_and_segments_are_emptied() {
    let store = Store::new(Config { memory_limit_bytes: 64 << 20, ..Config::default() }).unwrap();
    let mut handle = store.handle();
    let counters = 64u64;
    for number in 0..counters {
        let name = number.to_le_bytes();
        let key = handle.key(&name);
        handle.store(&key, &Change::default(), NewValue::Bytes(b"0"), 2).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let mut handle = store.handle();
            scope.spawn(move || {
                for i in 0..20_000u64 {
                    let request = Arithmetic { delta: 1, ..Arithmetic::default() };
                    let name = (i % counters).to_le_bytes();
                    let counted = handle.arithmetic(&handle.key(&name), &request, 2).unwrap();
                    assert!(matches!(counted, Counted::Counted { .. }), "{counted:?}");
                    let filler = (1_000_000 * (thread + 1) + i).to_le_bytes();
                    let value = NewValue::Bytes(&[1; 100]);
                    handle.store(&handle.key(&filler), &Change::default(), value, 2).unwrap();
                }
            });
        }
    });
    for number in 0..counters {
        let name = number.to_le_bytes();
        let item = handle.get(&handle.key(&name), Look::Peek, 2).expect("memory enough");
        let text = String::from_utf8_lossy(item.value().as_bytes()).trim().to_string();
        let each = 20_000 / counters + u64::from(number < 20_000 % counters);
        assert_eq!(text.parse::<u64>().unwrap(), 4 * each, "{number}");
    }
}

#[test]
fn one_of_many_concurrent_compare_and_stores_wins() {
    let store = Store::new(Config::default()).unwrap();
    let mut handle = store.handle();
    let key = handle.key(b"k");
    handle.store(&key, &Change::default(), NewValue::Bytes(b"0"), 2).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut handle = store.handle();
            scope.spawn(move || {
                let key = handle.key(b"k");
                let mut won = 0;
                while won < 2_000 {
                    let item = handle.get(&key, Look::Use, 2).unwrap();
                    let (cas, count) = (item.cas(), item.value().as_bytes().to_vec());
                    drop(item);
                    let count = String::from_utf8(count).unwrap().parse::<u64>().unwrap() + 1;
                    let change = Change { compare_cas: Some(cas), ..Change::default() };
                    let value = count.to_string();
                    match handle.store(&key, &change, NewValue::Bytes(value.as_bytes()), 2).unwrap() {
                        Stored::Stored { .. } => won += 1,
                        Stored::Exists => {}
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    assert_eq!(handle.get(&key, Look::Use, 2).unwrap().value().as_bytes(), b"8000");
}
