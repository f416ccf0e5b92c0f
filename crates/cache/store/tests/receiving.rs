//! Values that are being received: their memory, and the delay that they cause.

use std::collections::BTreeSet;

use store::{Change, Config, Handle, NewValue, Store};

const MIB: usize = 1 << 20;
const NOW: u32 = 2;

/// A full store of 64 MiB with values of 64 bytes, and items of up to 32 MiB.
fn full() -> Handle {
    let config = Config { item_size_max_bytes: 32 << 20, memory_limit_bytes: 64 << 20, ..Config::default() };
    let mut handle = Store::new(config).unwrap().handle();
    let mut number = 0;
    while handle.shared().statistics().counts.evictions == 0 {
        let name = format!("item{number}");
        let key = handle.key(name.as_bytes());
        handle.store(&key, &Change::default(), NewValue::Bytes(&[b'v'; 64]), NOW).unwrap();
        number += 1;
    }
    handle
}

fn removed(handle: &Handle) -> u64 {
    let counts = handle.shared().statistics().counts;
    counts.evictions + counts.copied_forward
}

#[test]
fn room_for_the_largest_value_is_made_in_short_turns() {
    let mut handle = full();
    let len = 31 * MIB;
    let before = removed(&handle);
    let mut partial = handle.begin_value(len, NOW).unwrap().unwrap();
    assert_eq!(removed(&handle), before, "it is announced only");
    let (mut most, mut turns) = (0, 0);
    while !partial.is_full() {
        handle.begin_turn(NOW);
        let before = removed(&handle);
        let _ready = handle.extend_value(&mut partial, NOW).unwrap();
        most = most.max(removed(&handle) - before);
        let room = partial.room();
        let count = room.len();
        room.fill(b'v');
        partial.fill(count);
        turns += 1;
    }
    // Some 60 bytes of memory for each would be 500,000 at once.
    assert!(most <= 4096, "{most} items in one turn");
    assert!((200..5000).contains(&turns), "{turns} turns");
    let statistics = handle.shared().statistics();
    assert!(statistics.charged_bytes <= 64 << 20, "{statistics:?}");
    let key = handle.key(b"large");
    handle.store(&key, &Change::default(), NewValue::Large(partial.into_value()), NOW).unwrap();
}

#[test]
fn many_values_at_once_share_the_records_of_a_turn() {
    let mut handle = full();
    let mut partials: Vec<_> = (0..16).map(|_| handle.begin_value(MIB, NOW).unwrap().unwrap()).collect();
    let mut done = BTreeSet::new();
    while done.len() < partials.len() {
        handle.begin_turn(NOW);
        let before = removed(&handle);
        for (number, partial) in partials.iter_mut().enumerate().filter(|(_, partial)| !partial.is_full()) {
            let _ready = handle.extend_value(partial, NOW).unwrap();
            let count = partial.room().len();
            partial.fill(count);
            if partial.is_full() {
                done.insert(number);
            }
        }
        assert!(removed(&handle) - before <= 4096);
    }
}

#[test]
fn values_being_received_have_a_share_of_the_limit() {
    let mut handle = full();
    let first = handle.begin_value(20 * MIB, NOW).unwrap().unwrap();
    assert!(!handle.uploads_are_waiting(NOW));
    assert!(
        handle.begin_value(20 * MIB, NOW).unwrap().is_none(),
        "one of the largest items is all there can be"
    );
    assert!(handle.uploads_are_waiting(NOW + 1) && !handle.uploads_are_waiting(NOW + 5));
    drop(first);
    assert!(handle.begin_value(20 * MIB, NOW).unwrap().is_some());
}
