//! Joins to large values in steps: the length of a turn, and concurrent changes.

use store::{Change, Condition, Config, Handle, Join, JoinStep, Look, NewValue, Store, Stored, Value};

const MIB: usize = 1 << 20;
const NOW: u32 = 2;
/// Bytes that a turn may copy, and one step of memory more.
const TURN_MAX: usize = 640 * 1024;

/// A store of 64 MiB, with items of up to 32 MiB.
fn handle() -> Handle {
    let config = Config { item_size_max_bytes: 32 << 20, memory_limit_bytes: 64 << 20, ..Config::default() };
    Store::new(config).unwrap().handle()
}

fn store(handle: &mut Handle, name: &str, condition: Condition, value: &[u8]) -> Stored {
    let change = Change { condition, flags: 7, ..Change::default() };
    handle.store(&handle.key(name.as_bytes()), &change, NewValue::Bytes(value), NOW).unwrap()
}

fn begin(handle: &mut Handle, condition: Condition, new: &[u8]) -> Option<Join> {
    handle.begin_join(&handle.key(b"large"), condition, new.len(), NOW)
}

fn step(handle: &mut Handle, join: &mut Join, new: &[u8]) -> JoinStep {
    handle.begin_turn(NOW);
    handle.step_join(join, &handle.key(b"large"), new, NOW).unwrap()
}

/// Makes steps until the joined value is whole. Returns the number of turns.
fn finish(handle: &mut Handle, join: &mut Join, new: &[u8]) -> usize {
    (1..).find(|_| step(handle, join, new) == JoinStep::Whole).unwrap()
}

fn value(handle: &mut Handle, name: &str) -> Option<Vec<u8>> {
    let item = handle.get(&handle.key(name.as_bytes()), Look::Peek, NOW)?;
    Some(match item.value() {
        Value::Inline(bytes) => bytes.to_vec(),
        Value::Large(large) => (**large).as_ref().to_vec(),
    })
}

/// Fills the memory with values of 64 bytes.
fn fill(handle: &mut Handle) {
    for number in 0.. {
        store(handle, &format!("item{number}"), Condition::Set, &[b'v'; 64]);
        if handle.shared().statistics().counts.evictions > 0 {
            return;
        }
    }
}

fn removed(handle: &Handle) -> u64 {
    let counts = handle.shared().statistics().counts;
    counts.evictions + counts.copied_forward
}

/// Bytes that differ from their neighbours.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_large_value_is_joined_in_short_turns() {
    let parts = [(20 * MIB, 100), (20 * MIB, 3 * MIB), (100, 20 * MIB), (MIB, 255 * 1024)];
    for condition in [Condition::Append, Condition::Prepend] {
        for (old_len, new_len) in parts {
            let mut handle = handle();
            fill(&mut handle);
            let (old, new) = (bytes(old_len), vec![b'n'; new_len]);
            store(&mut handle, "large", Condition::Set, &old);
            // As in a server that has received it.
            let mut received = handle.large_value(new_len, NOW).unwrap();
            received.as_mut().copy_from_slice(&new);
            let mut join = begin(&mut handle, condition, &new).unwrap();
            let (mut most, mut turns) = (0, 1);
            let mut before = removed(&handle);
            while step(&mut handle, &mut join, &new) != JoinStep::Whole {
                most = most.max(removed(&handle) - before);
                before = removed(&handle);
                turns += 1;
            }
            assert!(most <= 4096, "{most} items in one turn");
            assert!(turns >= (old_len + new_len) / TURN_MAX, "{turns} turns");
            handle.prepare(Some(join));
            let before = removed(&handle);
            let change = Change { condition, ..Change::default() };
            let stored =
                handle.store(&handle.key(b"large"), &change, NewValue::Large(received), NOW).unwrap();
            assert!(matches!(stored, Stored::Stored { len, .. } if len == old_len + new_len), "{stored:?}");
            assert!(removed(&handle) - before <= 4096, "the value has its memory");
            let joined = if condition == Condition::Append { [old, new] } else { [new, old] }.concat();
            assert!(value(&mut handle, "large").unwrap() == joined);
            let statistics = handle.shared().statistics();
            assert_eq!(statistics.large_bytes, joined.len().next_multiple_of(64) as u64);
        }
    }
}

#[test]
fn short_and_impossible_joins_take_no_steps() {
    let mut handle = handle();
    assert!(begin(&mut handle, Condition::Append, b"new").is_none(), "there is nothing");
    store(&mut handle, "large", Condition::Set, &bytes(200_000));
    assert!(begin(&mut handle, Condition::Append, b"new").is_none(), "it is short");
    store(&mut handle, "large", Condition::Set, &bytes(31 * MIB));
    assert!(begin(&mut handle, Condition::Set, b"new").is_none(), "it is no join");
    assert!(begin(&mut handle, Condition::Append, &bytes(2 * MIB)).is_none(), "the whole would be too large");
    assert!(begin(&mut handle, Condition::Append, b"new").is_some());
}

#[test]
fn a_value_stored_during_a_join_is_not_overwritten() {
    let mut handle = handle();
    for other in [bytes(MIB), bytes(10)] {
        store(&mut handle, "large", Condition::Set, &bytes(5 * MIB));
        let mut join = begin(&mut handle, Condition::Append, b"new").unwrap();
        assert_eq!(step(&mut handle, &mut join, b"new"), JoinStep::Soon);
        store(&mut handle, "large", Condition::Set, &other);
        assert_eq!(step(&mut handle, &mut join, b"new"), JoinStep::Changed);
        drop(join);
        // Also between the last step and the store.
        store(&mut handle, "large", Condition::Set, &bytes(5 * MIB));
        let mut join = begin(&mut handle, Condition::Append, b"new").unwrap();
        finish(&mut handle, &mut join, b"new");
        store(&mut handle, "large", Condition::Set, &other);
        handle.prepare(Some(join));
        store(&mut handle, "large", Condition::Append, b"new");
        assert!(value(&mut handle, "large").unwrap() == [&*other, b"new"].concat());
    }
    let mut join = begin(&mut handle, Condition::Append, &bytes(MIB)).unwrap();
    assert_eq!(step(&mut handle, &mut join, &bytes(MIB)), JoinStep::Soon);
    handle.shared().clone().flush(0);
    assert_eq!(step(&mut handle, &mut join, &bytes(MIB)), JoinStep::Changed);
    assert_eq!(value(&mut handle, "large"), None);
}

#[test]
fn a_join_that_fails_or_is_dropped_leaves_no_charge() {
    let mut handle = handle();
    store(&mut handle, "large", Condition::Set, &bytes(31 * MIB));
    let held = handle.large_value(3 * MIB, NOW).unwrap();
    for number in 0..1000 {
        store(&mut handle, &format!("item{number}"), Condition::Set, &[b'v'; 64]);
    }
    let before = handle.shared().statistics();
    let mut join = begin(&mut handle, Condition::Append, b"new").unwrap();
    handle.begin_turn(NOW);
    assert!(handle.step_join(&mut join, &handle.key(b"large"), b"new", NOW).is_err(), "both do not fit");
    handle.prepare(Some(join));
    assert_eq!(store(&mut handle, "large", Condition::Append, b"new"), Stored::NotStored);
    let after = handle.shared().statistics();
    assert_eq!(
        (after.counts.curr_items, after.charged_bytes),
        (before.counts.curr_items, before.charged_bytes)
    );
    assert_eq!(value(&mut handle, "large").map(|value| value.len()), Some(31 * MIB));

    drop(held);
    store(&mut handle, "large", Condition::Set, &bytes(10 * MIB));
    let before = handle.shared().statistics().large_bytes;
    let mut join = begin(&mut handle, Condition::Append, b"new").unwrap();
    (0..5).for_each(|_| assert_eq!(step(&mut handle, &mut join, b"new"), JoinStep::Soon));
    assert!(handle.shared().statistics().large_bytes > before + MIB as u64);
    drop(join);
    assert_eq!(handle.shared().statistics().large_bytes, before);
}

#[test]
fn many_joins_share_the_copies_of_a_turn_and_the_share_of_uploads() {
    let mut handle = handle();
    let names: Vec<String> = (0..6).map(|number| format!("large{number}")).collect();
    let mut joins: Vec<Join> = Vec::new();
    for name in &names {
        store(&mut handle, name, Condition::Set, &bytes(6 * MIB));
        let key = handle.key(name.as_bytes());
        joins.push(handle.begin_join(&key, Condition::Append, 3, NOW).unwrap());
    }
    let charged = handle.shared().statistics().large_bytes;
    handle.begin_turn(NOW);
    let mut step = |(join, name): (&mut Join, &String)| {
        let key = handle.key(name.as_bytes());
        handle.step_join(join, &key, b"new", NOW).unwrap()
    };
    let steps: Vec<JoinStep> = joins.iter_mut().zip(&names).map(&mut step).collect();
    assert_eq!(steps[..3], [JoinStep::Soon; 3]);
    assert_eq!(steps[3..], [JoinStep::Later; 3], "36 of 48 MB are announced, with what is joined to");
    let taken = handle.shared().statistics().large_bytes - charged;
    assert!(taken as usize <= TURN_MAX, "{taken} bytes in one turn");
}

#[test]
fn joins_to_one_key_are_serialized_and_none_is_lost() {
    let mut handle = handle();
    store(&mut handle, "large", Condition::Set, &bytes(3 * MIB));
    let mut waiting: Vec<(Join, String)> = (0..40)
        .map(|number| (begin(&mut handle, Condition::Append, b"0000").unwrap(), format!("{number:04}")))
        .collect();
    let mut turns = 0;
    while !waiting.is_empty() {
        handle.begin_turn(NOW);
        turns += 1;
        assert!(turns <= 40 * 8, "each join has its own turns, and nothing is copied twice");
        let mut left = Vec::new();
        for (mut join, new) in waiting {
            let key = handle.key(b"large");
            match handle.step_join(&mut join, &key, new.as_bytes(), NOW).unwrap() {
                JoinStep::Whole => {
                    handle.prepare(Some(join));
                    let stored = store(&mut handle, "large", Condition::Append, new.as_bytes());
                    assert!(matches!(stored, Stored::Stored { .. }), "{stored:?}");
                }
                JoinStep::Soon => left.push((join, new)),
                other => panic!("{other:?}"),
            }
        }
        waiting = left;
    }
    let joined = value(&mut handle, "large").unwrap();
    let mut records: Vec<&[u8]> = joined[3 * MIB..].chunks(4).collect();
    records.sort_unstable();
    let expected: Vec<String> = (0..40).map(|number| format!("{number:04}")).collect();
    assert!(records.into_iter().eq(expected.iter().map(String::as_bytes)));
}
