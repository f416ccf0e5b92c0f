//! Shortage of memory: a request for more memory than can be freed evicts nothing.

use store::{Change, Condition, Config, Error, Handle, Look, NewValue, Store, Stored};

const MIB: usize = 1 << 20;
const NOW: u32 = 2;

/// A store of 16 MiB that takes items of nearly as much.
fn handle() -> Handle {
    let config = Config {
        memory_limit_bytes: 16 << 20,
        item_size_max_bytes: 15 << 20,
        workers: 1,
        ..Config::default()
    };
    Store::new(config).unwrap().handle()
}

fn put(handle: &mut Handle, name: &str, condition: Condition, len: usize) -> Result<Stored, Error> {
    let change = Change { condition, ..Change::default() };
    let value = vec![b'v'; len];
    handle.store(&handle.key(name.as_bytes()), &change, NewValue::Bytes(&value), NOW)
}

fn set(handle: &mut Handle, name: &str, len: usize) {
    assert!(matches!(put(handle, name, Condition::Set, len), Ok(Stored::Stored { .. })), "{name}");
}

fn len_of(handle: &mut Handle, name: &str) -> Option<usize> {
    handle.get(&handle.key(name.as_bytes()), Look::Peek, NOW).map(|item| item.len())
}

/// Fills some of the memory with small items that were all used since.
fn fill(handle: &mut Handle, count: usize) -> u64 {
    for number in 0..count {
        let name = format!("small{number}");
        set(handle, &name, 100);
        assert!(handle.get(&handle.key(name.as_bytes()), Look::Use, NOW).is_some());
    }
    handle.shared().statistics().counts.curr_items
}

#[test]
fn a_reservation_that_cannot_succeed_evicts_nothing() {
    let mut handle = handle();
    // Values that are being received cannot be evicted.
    let held = handle.large_value(7 * MIB, NOW).unwrap();
    let before = fill(&mut handle, 20_000);
    assert!(matches!(handle.large_value(9 * MIB, NOW), Err(Error::OutOfMemory)));
    let after = handle.shared().statistics().counts;
    assert_eq!((after.curr_items, after.evictions), (before, 0));
    drop(held);
    assert!(handle.large_value(9 * MIB, NOW).is_ok(), "now there is room");
}

#[test]
fn an_item_that_cannot_take_more_stays_as_it_is() {
    for condition in [Condition::Append, Condition::Prepend] {
        let mut handle = handle();
        set(&mut handle, "large", 8 * MIB);
        let before = fill(&mut handle, 10_000);
        // The old value and the new one do not fit together.
        assert!(matches!(put(&mut handle, "large", condition, 100), Ok(Stored::NotStored)));
        assert_eq!(len_of(&mut handle, "large"), Some(8 * MIB));
        assert_eq!(handle.shared().statistics().counts.curr_items, before);
    }
}

#[test]
fn an_item_is_not_evicted_for_a_join_to_it() {
    for condition in [Condition::Append, Condition::Prepend] {
        let mut handle = handle();
        set(&mut handle, "large", 6 * MIB);
        fill(&mut handle, 60_000);
        let joined = put(&mut handle, "large", condition, 100);
        assert!(matches!(joined, Ok(Stored::Stored { .. })), "{joined:?}");
        assert_eq!(len_of(&mut handle, "large"), Some(6 * MIB + 100));
    }
}

#[test]
fn memory_for_joining_is_given_back_at_the_end() {
    let mut handle = handle();
    set(&mut handle, "a", 2 * MIB);
    let charged = handle.shared().statistics().large_bytes;
    put(&mut handle, "a", Condition::Append, 10).unwrap();
    set(&mut handle, "a", 2 * MIB);
    assert_eq!(handle.shared().statistics().large_bytes, charged);
    // Memory for the value was found, and then there was no room for the record.
    set(&mut handle, "b", 6 * MIB);
    for _ in 0..100 {
        let _ = put(&mut handle, "b", Condition::Append, 60_000);
        let counts = handle.shared().statistics();
        let stored: usize = ["a", "b"].iter().filter_map(|name| len_of(&mut handle, name)).sum();
        assert!(
            counts.large_bytes <= stored as u64 + 8192,
            "{} are charged for {stored}",
            counts.large_bytes
        );
    }
    assert!(len_of(&mut handle, "b").is_some_and(|len| len > 6 * MIB));
}
