//! Eviction of small items and large values beside each other.

use std::sync::Arc;

use store::{Change, Config, Delete, Error, Handle, LargeValue, Look, NewValue, PartialValue, Store, Value};

const MIB: u64 = 1 << 20;
const NOW: u32 = 2;
const LARGE: usize = 20_000_000;

fn handle(megabytes: u64) -> Handle {
    let config = Config {
        memory_limit_bytes: megabytes * MIB,
        item_size_max_bytes: 32 * MIB,
        workers: 1,
        ..Config::default()
    };
    Store::new(config).unwrap().handle()
}

fn set(handle: &mut Handle, name: &str, len: usize) {
    set_at(handle, name, len, NOW);
}

fn set_at(handle: &mut Handle, name: &str, len: usize, now: u32) {
    let key = handle.key(name.as_bytes());
    handle.store(&key, &Change::default(), NewValue::Bytes(&vec![b'v'; len]), now).unwrap();
}

fn is_there(handle: &mut Handle, name: &str) -> bool {
    is_there_at(handle, name, NOW)
}

fn is_there_at(handle: &mut Handle, name: &str, now: u32) -> bool {
    handle.get(&handle.key(name.as_bytes()), Look::Use, now).is_some()
}

#[test]
fn unread_large_values_do_not_displace_small_items_in_use() {
    let mut handle = handle(64);
    let small = 10_000;
    (0..small).for_each(|number| set(&mut handle, &format!("small{number}"), 100));
    let mut missed = 0;
    for round in 0..60 {
        set(&mut handle, &format!("large{}", round % 4), LARGE);
        // A twentieth of them between two large values: slower than memory turns over.
        for number in (0..small).filter(|number| number % 20 == round % 20) {
            missed += usize::from(!is_there(&mut handle, &format!("small{number}")));
        }
    }
    assert_eq!(missed, 0, "of {}", 60 * small / 20);
}

#[test]
fn large_values_do_not_displace_small_items_in_use_however_fast_they_come() {
    let mut handle = handle(64);
    let small = 10_000;
    (0..small).for_each(|number| set(&mut handle, &format!("small{number}"), 100));
    let (rounds, per_second, cycle) = (8_000, 20, 1_000);
    let mut missed = 0;
    for round in 0..rounds {
        let now = NOW + round / per_second;
        let large = format!("large{}", round % 100);
        set_at(&mut handle, &large, 1_000_000, now);
        assert!(is_there_at(&mut handle, &large, now));
        // Each of them once in 50 seconds, while the large values have been replaced some 30 times.
        for number in (0..small).filter(|number| number % cycle == round % cycle) {
            missed += usize::from(!is_there_at(&mut handle, &format!("small{number}"), now));
        }
    }
    assert_eq!(missed, 0, "of {}", rounds * small / cycle);
}

#[test]
fn large_values_being_received_count_as_large_values() {
    let mut handle = handle(64);
    let small = 10_000;
    (0..small).for_each(|number| set(&mut handle, &format!("small{number}"), 100));
    for round in 0..60 {
        let on_its_way = handle.large_value(30_000_000, NOW).unwrap();
        set(&mut handle, &format!("large{}", round % 8), 5_000_000);
        drop(on_its_way);
        for number in (0..small).filter(|number| number % 20 == round % 20) {
            assert!(is_there(&mut handle, &format!("small{number}")), "{number} after {round} large values");
        }
    }
}

#[test]
fn large_values_replace_unused_small_items() {
    let mut handle = handle(16);
    (0..100_000).for_each(|number| set(&mut handle, &format!("small{number}"), 100));
    let large_bytes = |handle: &Handle| handle.shared().statistics().large_bytes;
    (0..100).for_each(|number| set(&mut handle, &format!("large{number}"), 100_000));
    let half = large_bytes(&handle);
    assert!((7 * MIB..9 * MIB).contains(&half), "{} KiB", half >> 10);
    let more = |handle: &mut Handle, now| {
        (0..10_000).for_each(|number| set_at(handle, &format!("large{number}"), 100_000, now));
        large_bytes(handle)
    };
    let still_half = more(&mut handle, NOW + 300);
    assert!((7 * MIB..9 * MIB).contains(&still_half), "{} KiB", still_half >> 10);
    let most = more(&mut handle, NOW + 600);
    assert!(most > 12 * MIB, "{} KiB", most >> 10);
}

#[test]
fn large_values_leave_half_of_a_lowered_limit_to_small_items() {
    let mut handle = handle(64);
    let (small, others) = (10_000, 90_000);
    (0..small).for_each(|number| set(&mut handle, &format!("small{number}"), 100));
    (0..others).for_each(|number| set(&mut handle, &format!("other{number}"), 30));
    handle.shared().set_memory_limit(32 * MIB).unwrap();
    let mut missed = 0;
    for round in 0..40 {
        let begun = [15_000_000, 15_000_000, LARGE].map(|len| handle.begin_value(len, NOW).ok().flatten());
        let mut partials: Vec<PartialValue> = begun.into_iter().flatten().collect();
        assert!(!partials.is_empty(), "large values have their half, too");
        while partials.iter().any(|partial| !partial.is_full()) {
            handle.begin_turn(NOW);
            for partial in &mut partials {
                let _ready = handle.extend_value(partial, NOW).unwrap();
                let count = partial.room().len();
                partial.fill(count);
            }
        }
        for (number, partial) in partials.into_iter().enumerate() {
            let (name, value) = (format!("large{number}"), NewValue::Large(partial.into_value()));
            handle.store(&handle.key(name.as_bytes()), &Change::default(), value, NOW).unwrap();
        }
        for number in (0..small).filter(|number| number % 20 == round % 20) {
            missed += usize::from(!is_there(&mut handle, &format!("small{number}")));
        }
    }
    assert_eq!(missed, 0, "of {}", 40 * small / 20);
}

#[test]
fn values_being_received_cost_no_more_items_when_the_limit_is_lowered() {
    let mut handle = handle(64);
    let held = handle.large_value(LARGE, NOW).unwrap();
    (0..100_000).for_each(|number| set(&mut handle, &format!("small{number}"), 100));
    handle.shared().set_memory_limit(8 * MIB).unwrap();
    for number in 0..20_000 {
        handle.begin_turn(NOW);
        set(&mut handle, &format!("new{number}"), 100);
        assert!(is_there(&mut handle, &format!("new{number}")));
    }
    let during = handle.shared().statistics();
    assert!(during.counts.curr_items > 10_000, "{during:?}");
    drop(held);
    (0..2_000).for_each(|_| handle.begin_turn(NOW));
    let after = handle.shared().statistics();
    assert!(after.charged_bytes <= 8 * MIB, "{after:?}");
    set(&mut handle, "last", 100);
    assert!(handle.shared().statistics().charged_bytes <= 8 * MIB);
}

#[test]
fn one_value_and_all_values_being_received_have_at_most_half_of_the_limit() {
    let mut handle = handle(64);
    assert!(matches!(handle.begin_value(LARGE, NOW), Ok(Some(_))));
    handle.shared().set_memory_limit(32 * MIB).unwrap();
    assert!(matches!(handle.begin_value(LARGE, NOW), Err(Error::OutOfMemory)));
    let first = handle.begin_value(15 * MIB as usize, NOW).unwrap();
    assert!(first.is_some());
    assert!(handle.begin_value(2 * MIB as usize, NOW).unwrap().is_none(), "it waits");
    assert!(handle.begin_value(MIB as usize, NOW).unwrap().is_some());
    handle.shared().set_memory_limit(64 * MIB).unwrap();
    assert!(matches!(handle.begin_value(16_000_000, NOW), Ok(Some(_))));
}

/// Receives up to `most` more bytes; false if the value is refused.
fn receive(handle: &mut Handle, partial: &mut PartialValue, most: usize) -> bool {
    let end = partial.filled() + most;
    while partial.filled() < end && !partial.is_full() {
        handle.begin_turn(NOW);
        if handle.extend_value(partial, NOW).is_err() {
            return false;
        }
        let count = partial.room().len();
        partial.fill(count);
    }
    true
}

#[test]
fn a_lower_limit_holds_for_values_being_received() {
    let small = 60_000;
    for lens in [[20_000_000, 13_000_000], [16_000_000, 15_000_000]] {
        let mut handle = handle(64);
        (0..small).for_each(|number| set(&mut handle, &format!("small{number}"), 100));
        let mut partials = lens.map(|len| handle.begin_value(len, NOW).unwrap().unwrap());
        assert!(partials.iter_mut().all(|partial| receive(&mut handle, partial, 4_000_000)));
        handle.shared().set_memory_limit(32 * MIB).unwrap();
        let [mut first, mut second] = partials;
        assert!(!receive(&mut handle, &mut first, 20_000_000), "{lens:?}: more than its share");
        drop(first);
        assert!(receive(&mut handle, &mut second, 20_000_000), "{lens:?}: it has room now");
        let kept = (0..small).filter(|number| is_there(&mut handle, &format!("small{number}"))).count();
        assert_eq!(kept, small, "{lens:?}");
    }
}

/// Stores a large value and takes a reference to it, as for a client that reads it slowly.
fn read_slowly(handle: &mut Handle, name: &str) -> Arc<LargeValue> {
    set(handle, name, LARGE);
    let key = handle.key(name.as_bytes());
    let item = handle.get(&key, Look::Peek, NOW).expect("it was just stored");
    let Value::Large(large) = item.value() else { panic!("it is large") };
    Arc::clone(large)
}

#[test]
fn large_values_that_are_still_read_leave_a_quarter_of_the_limit_to_other_items() {
    let mut handle = handle(64);
    let read = [read_slowly(&mut handle, "a"), read_slowly(&mut handle, "b")];
    for name in ["a", "b"] {
        handle.delete(&handle.key(name.as_bytes()), &Delete::default(), NOW).unwrap();
    }
    let small = 20_000;
    (0..small).for_each(|number| set(&mut handle, &format!("small{number}"), 900));
    let value = vec![b'v'; LARGE];
    let key = handle.key(b"large");
    let stored = handle.store(&key, &Change::default(), NewValue::Bytes(&value), NOW);
    assert!(matches!(stored, Err(Error::OutOfMemory)), "{stored:?}");
    assert!(handle.begin_value(LARGE, NOW).unwrap().is_none(), "it waits for the readers");
    let kept = (0..small).filter(|number| is_there(&mut handle, &format!("small{number}"))).count();
    assert_eq!(kept, small);
    set(&mut handle, "shorter", 5_000_000);
    drop(read);
    set(&mut handle, "large", LARGE);
}
