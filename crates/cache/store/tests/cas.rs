//! CAS uniques: a server issues each only once, those of a key grow, and a restart does not repeat them.

use std::collections::BTreeSet;

use store::{Change, Condition, Config, Handle, Look, NewValue, Store, Stored};

/// Some day in 2027.
const STARTED_UNIX_MS: u64 = 1_800_000_000_000;

fn handle(started_unix_ms: u64) -> Handle {
    Store::new(Config { started_unix_ms, ..Config::default() }).expect("address space").handle()
}

/// Stores a value, and returns its CAS unique.
fn set(handle: &mut Handle, key: &str) -> u64 {
    try_set(handle, key).expect("room")
}

/// As [`set`]; `None` without room.
fn try_set(handle: &mut Handle, key: &str) -> Option<u64> {
    let key = handle.key(key.as_bytes());
    match handle.store(&key, &Change::default(), NewValue::Bytes(b"v"), 2) {
        Ok(Stored::Stored { cas, .. }) => Some(cas),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

#[test]
fn no_two_changes_of_a_server_have_the_same_cas_and_those_of_a_key_grow() {
    let mut handle = handle(STARTED_UNIX_MS);
    let mut given = BTreeSet::new();
    let mut last = vec![0; 2000];
    for _ in 0..5 {
        for (number, last) in last.iter_mut().enumerate() {
            let cas = set(&mut handle, &format!("key-{number}"));
            assert!(cas > *last, "{cas} after {last}");
            assert!(given.insert(cas), "{cas} was given before");
            *last = cas;
        }
    }
}

#[test]
fn a_cas_from_before_a_restart_matches_nothing() {
    let mut before = handle(STARTED_UNIX_MS);
    let old = (0..100_000).map(|_| set(&mut before, "key")).max().expect("some");
    // A second later.
    let mut after = handle(STARTED_UNIX_MS + 1000);
    let first = set(&mut after, "key");
    assert!(first > old, "{first} is not above {old}");
    let change = Change { condition: Condition::Set, compare_cas: Some(old), ..Change::default() };
    let key = after.key(b"key");
    let stored = after.store(&key, &change, NewValue::Bytes(b"w"), 2).expect("room");
    assert_eq!(stored, Stored::Exists);
}

#[test]
fn cas_uniques_from_the_clock_take_no_memory_in_items() {
    let stored_until_full = |started_unix_ms| {
        let config = Config {
            started_unix_ms,
            evict: false,
            memory_limit_bytes: 4 << 20,
            workers: 1,
            ..Config::default()
        };
        let mut handle = Store::new(config).expect("address space").handle();
        (0..u32::MAX).take_while(|number| try_set(&mut handle, &format!("key-{number}")).is_some()).count()
    };
    let without = stored_until_full(0);
    assert!(without > 10_000, "{without}");
    assert_eq!(stored_until_full(STARTED_UNIX_MS), without);
}

#[test]
fn a_cas_that_the_client_gives_is_kept_whatever_its_width() {
    let mut handle = handle(STARTED_UNIX_MS);
    let first = set(&mut handle, "other");
    let key = handle.key(b"key");
    for given in [0, 1, first - 1, first, first + (1 << 48), u64::MAX] {
        let change = Change { new_cas: Some(given), ..Change::default() };
        handle.store(&key, &change, NewValue::Bytes(b"v"), 2).expect("room");
        assert_eq!(handle.get(&key, Look::Use, 2).expect("it is there").cas(), given);
        if given == 0 {
            // In a comparison 0 is not a CAS unique.
            continue;
        }
        let compared = Change { compare_cas: Some(given), ..Change::default() };
        let stored = handle.store(&key, &compared, NewValue::Bytes(b"w"), 2).expect("room");
        assert!(matches!(stored, Stored::Stored { .. }), "{given}: {stored:?}");
    }
}

#[test]
fn a_clock_that_is_wrong_by_years_causes_no_failure() {
    for started_unix_ms in [0, 1, u64::MAX] {
        let mut handle = handle(started_unix_ms);
        assert!(set(&mut handle, "key") < set(&mut handle, "key") || started_unix_ms == u64::MAX);
    }
}
