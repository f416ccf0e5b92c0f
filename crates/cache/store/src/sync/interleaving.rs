//! Thread schedules, explored by random seeds: reading, writing, splitting, flushing and reclaiming
//! concurrently.
//!
//! Each test runs many seeds; a failure names its seed, which reproduces the schedule. Under miri (with
//! `-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-disable-weak-memory-emulation`: the emulation does
//! not support memory that is reused with other access sizes) three seeds run, in minutes.

pub(crate) mod schedule;

use std::sync::Arc;

use crate::operations::request::{Change, Condition, Delete, Look, MetaGet, NewValue, Stored};
use crate::{Arithmetic, Config, Counted, Handle, Store};

type Thread<'t> = Box<dyn FnOnce() + Send + 't>;

#[track_caller]
fn check(config: &Config, seeds: u64, test: impl Fn(u64, &Arc<Store>)) {
    for seed in 0..if cfg!(miri) { 3 } else { seeds } {
        let store = Store::new(config.clone()).unwrap();
        // A failure in a thread is printed by that thread; this adds the seed.
        let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed, &store)));
        assert!(attempt.is_ok(), "with seed {seed}");
        let statistics = store.statistics();
        assert!(statistics.charged_bytes <= statistics.limit_bytes, "seed {seed}: {statistics:?}");
    }
}

fn small() -> Config {
    Config { memory_limit_bytes: 4 << 20, workers: 2, ..Config::default() }
}

fn set(handle: &mut Handle, name: &str, value: &[u8]) {
    let key = handle.key(name.as_bytes());
    handle.store(&key, &Change::default(), NewValue::Bytes(value), 2).unwrap();
}

fn get(handle: &mut Handle, name: &str) -> Option<Vec<u8>> {
    let key = handle.key(name.as_bytes());
    let item = handle.get(&key, Look::Use, 2)?;
    let value = item.value().as_bytes().to_vec();
    Some(value)
}

/// A value of one letter, repeated: a torn one has several.
fn letters(letter: u8, len: usize) -> Vec<u8> {
    vec![letter; len]
}

fn is_whole(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == value[0])
}

/// Fills the memory until the next few stores must evict.
fn fill(handle: &mut Handle) {
    for number in 0..150 {
        set(handle, &format!("filler {number}"), &letters(b'f', 30_000));
        get(handle, &format!("filler {}", number / 2));
    }
}

#[test]
fn a_reader_sees_old_or_new_while_the_item_is_overwritten_moved_and_evicted() {
    check(&small(), 60, |seed, store| {
        let mut handle = store.handle();
        fill(&mut handle);
        set(&mut handle, "k", &letters(b'a', 20_000));
        get(&mut handle, "k");
        let write = || {
            let mut handle = store.handle();
            for letter in b'b'..b'h' {
                set(&mut handle, "k", &letters(letter, 20_000 + usize::from(letter % 2) * 500));
            }
        };
        let crowd = || {
            let mut handle = store.handle();
            for number in 0..12 {
                set(&mut handle, &format!("more {number}"), &letters(b'm', 31_000));
            }
        };
        let read = || {
            let mut handle = store.handle();
            let mut last = b'a';
            for _ in 0..12 {
                let Some(value) = get(&mut handle, "k") else { continue };
                assert!(is_whole(&value) && value[0] >= last, "torn, or back in time");
                last = value[0];
            }
        };
        schedule::run(seed, vec![Box::new(write) as Thread<'_>, Box::new(crowd), Box::new(read)]);
    });
}

#[test]
fn what_was_there_before_a_flush_never_comes_back() {
    check(&small(), 80, |seed, store| {
        let mut handle = store.handle();
        fill(&mut handle);
        set(&mut handle, "k", b"before");
        let crowd = || {
            let mut handle = store.handle();
            for number in 0..8 {
                set(&mut handle, &format!("more {number}"), &letters(b'm', 31_000));
            }
        };
        let append = || {
            let mut handle = store.handle();
            let change = Change { condition: Condition::Append, ..Change::default() };
            let key = handle.key(b"k");
            for _ in 0..4 {
                handle.store(&key, &change, NewValue::Bytes(b"+"), 2).unwrap();
                handle.arithmetic(&handle.key(b"n"), &Arithmetic::default(), 2).unwrap();
            }
        };
        let flush = || {
            let mut handle = store.handle();
            store.flush(0);
            for number in 0..150 {
                assert_eq!(get(&mut handle, &format!("filler {number}")), None);
            }
            assert_eq!(get(&mut handle, "k"), None);
        };
        schedule::run(seed, vec![Box::new(crowd) as Thread<'_>, Box::new(append), Box::new(flush)]);
        assert_eq!(get(&mut handle, "k"), None);
    });
}

#[test]
fn what_is_stored_after_a_flush_stays() {
    check(&Config { memory_limit_bytes: 8 << 20, ..small() }, 300, |seed, store| {
        let writer = |name: &'static str| {
            move || {
                let mut handle = store.handle();
                for letter in b'a'..b'e' {
                    set(&mut handle, name, &[letter; 10]);
                    store.flush(0);
                    set(&mut handle, name, &[letter; 20]);
                }
            }
        };
        schedule::run(seed, vec![Box::new(writer("x")) as Thread<'_>, Box::new(writer("y"))]);
        let mut handle = store.handle();
        // The writer of the last flush has stored a value after it.
        let both = [get(&mut handle, "x"), get(&mut handle, "y")];
        assert!(both.contains(&Some(vec![b'd'; 20])), "{both:?}");
    });
}

#[test]
fn counts_add_up_while_pages_split() {
    // With 4 MiB there are 64 shards: 430 items each, and every page is about to split.
    check(&small(), 6, |seed, store| {
        let mut handle = store.handle();
        let fillers = if cfg!(miri) { 300 } else { 26_500 };
        (0..fillers).for_each(|number| set(&mut handle, &format!("filler {number}"), b"f"));
        set(&mut handle, "n", b"0");
        let count = |thread: u64| {
            move || {
                let mut handle = store.handle();
                for number in 0..400 {
                    let request = Arithmetic { delta: 1, ..Arithmetic::default() };
                    let counted = handle.arithmetic(&handle.key(b"n"), &request, 2).unwrap();
                    assert!(matches!(counted, Counted::Counted { .. }));
                    set(&mut handle, &format!("new {thread} {number}"), b"f");
                    assert!(get(&mut handle, &format!("filler {number}")).is_some() || cfg!(miri));
                }
            }
        };
        schedule::run(seed, vec![Box::new(count(1)) as Thread<'_>, Box::new(count(2))]);
        assert_eq!(get(&mut handle, "n"), Some(b"800".to_vec()));
    });
}

#[test]
fn one_of_many_wins() {
    check(&small(), 300, |seed, store| {
        let wins = std::sync::atomic::AtomicU32::new(0);
        let vivify = || {
            let mut handle = store.handle();
            let key = handle.key(b"k");
            let request = MetaGet { vivify: Some(100), recache_below: Some(200), ..MetaGet::default() };
            let found = handle.meta_get(&key, &request, 2).unwrap();
            wins.fetch_add(u32::from(found.won), std::sync::atomic::Ordering::Relaxed);
        };
        schedule::run(seed, vec![Box::new(vivify) as Thread<'_>, Box::new(vivify), Box::new(vivify)]);
        assert_eq!(wins.into_inner(), 1);
    });
}

#[test]
fn adds_and_deletes_take_turns() {
    check(&small(), 300, |seed, store| {
        let sum = std::sync::atomic::AtomicI64::new(0);
        let add = || {
            let mut handle = store.handle();
            let key = handle.key(b"k");
            let change = Change { condition: Condition::Add, ..Change::default() };
            for _ in 0..4 {
                let stored = handle.store(&key, &change, NewValue::Bytes(&[1; 40_000]), 2).unwrap();
                let added = i64::from(matches!(stored, Stored::Stored { .. }));
                sum.fetch_add(added, std::sync::atomic::Ordering::Relaxed);
            }
        };
        let delete = || {
            let mut handle = store.handle();
            let key = handle.key(b"k");
            for _ in 0..4 {
                let deleted = handle.delete(&key, &Delete::default(), 2).unwrap();
                let gone = i64::from(matches!(deleted, crate::Deleted::Deleted { .. }));
                sum.fetch_sub(gone, std::sync::atomic::Ordering::Relaxed);
            }
        };
        schedule::run(seed, vec![Box::new(add) as Thread<'_>, Box::new(add), Box::new(delete)]);
        let left = get(&mut store.handle(), "k").is_some();
        assert_eq!(sum.into_inner(), i64::from(left));
        assert_eq!(store.statistics().counts.large_items, u64::from(left));
    });
}

#[test]
fn concurrent_writers_that_fill_the_memory_all_succeed() {
    check(&small(), 30, |seed, store| {
        fill(&mut store.handle());
        let write = |thread: usize| {
            move || {
                let mut handle = store.handle();
                for number in 0..10 {
                    let len = [100, 30_000, 400_000, 31_000][(thread + number) % 4];
                    let name = format!("new {thread} {number}");
                    set(&mut handle, &name, &letters(b'w', len));
                    assert!(get(&mut handle, &name).is_none_or(|value| value.len() == len));
                    handle.begin_turn(2);
                }
            }
        };
        let threads = (0..4).map(|thread| Box::new(write(thread)) as Thread<'_>).collect();
        schedule::run(seed, threads);
    });
}
