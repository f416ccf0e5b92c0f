//! A store that leaves its process: what comes back, and what is refused.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flash::Bucket;
use rustix::fs::{MemfdFlags, memfd_create};
use stdx::prng::Prng;
use store::{
    Change, Config, Delete, FlashConfig, FlashDevice, FlashSettings, Handle, Look, Manifest, NewValue, Store,
    ThawError,
};

const MIB: u64 = 1 << 20;
const NOW: u32 = 10;

fn config() -> Config {
    Config { memory_limit_bytes: 64 * MIB, ..Config::default() }
}

fn new_file() -> Arc<File> {
    Arc::new(memfd_create("store", MemfdFlags::CLOEXEC).expect("a file in memory").into())
}

fn key(number: u64) -> String {
    format!("key {number}")
}

fn value(number: u64) -> Vec<u8> {
    let len = if number.is_multiple_of(100) { 50_000 } else { 20 + number as usize % 300 };
    (0..len).map(|at| (number as usize + at) as u8).collect()
}

fn set(handle: &mut Handle, number: u64) {
    let (key, value) = (key(number), value(number));
    let key = handle.key(key.as_bytes());
    handle.store(&key, &Change::default(), NewValue::Bytes(&value), NOW).expect("room");
}

/// How many of these items are there. Each has its value.
#[track_caller]
fn found(handle: &mut Handle, numbers: std::ops::Range<u64>) -> usize {
    let is_there = |number: &u64| {
        let key = key(*number);
        let key = handle.key(key.as_bytes());
        let item = handle.get(&key, Look::Peek, NOW);
        item.inspect(|item| assert_eq!(item.value().as_bytes(), value(*number), "{number}")).is_some()
    };
    numbers.filter(is_there).count()
}

/// A file and the manifest of a store with so many items.
fn frozen(items: u64) -> (Arc<File>, Manifest) {
    let file = new_file();
    let store = Store::in_file(config(), &file).expect("a store");
    let mut handle = store.handle();
    (0..items).for_each(|number| set(&mut handle, number));
    drop(handle);
    (file, store.freeze().expect("it is in a file"))
}

fn thaw(config: Config, file: &Arc<File>, manifest: &Manifest) -> Result<Arc<Store>, ThawError> {
    Store::thaw(config, file, manifest)
}

#[test]
fn all_items_come_back_whatever_the_number_of_threads_and_the_limit() {
    for (threads, megabytes) in [(1, 64), (16, 64), (4, 96), (2, 48)] {
        let (file, manifest) = frozen(20_000);
        let config = Config { workers: threads, memory_limit_bytes: megabytes * MIB, ..config() };
        let store = thaw(config, &file, &manifest).expect("the same memory");
        let mut handle = store.handle();
        assert_eq!(found(&mut handle, 0..20_000), 20_000, "{threads} threads, {megabytes} MB");
        (20_000..30_000).for_each(|number| set(&mut handle, number));
        assert_eq!(found(&mut handle, 0..30_000), 30_000, "{threads} threads, {megabytes} MB");
        assert_eq!(store.statistics().limit_bytes, megabytes * MIB);
    }
}

/// Enough that pages of the index are split, and merged again.
#[test]
fn an_index_of_many_pages_grows_and_shrinks_afterwards() {
    let (file, manifest) = frozen(250_000);
    let larger = || Config { memory_limit_bytes: 256 * MIB, ..config() };
    let store = thaw(larger(), &file, &manifest).expect("the same memory");
    let mut handle = store.handle();
    let there = found(&mut handle, 0..250_000);
    (250_000..500_000).for_each(|number| set(&mut handle, number));
    assert_eq!(found(&mut handle, 0..500_000), there + 250_000);
    drop(handle);
    let manifest = store.freeze().expect("it is in a file");
    let pages = store.statistics().index_bytes;
    drop(store);
    let store = thaw(larger(), &file, &manifest).expect("the same memory");
    let mut handle = store.handle();
    assert_eq!(found(&mut handle, 0..500_000), there + 250_000);
    for number in 0..500_000 {
        let key = key(number);
        let key = handle.key(key.as_bytes());
        handle.delete(&key, &Delete::default(), NOW).expect("nothing is needed");
    }
    assert_eq!(store.statistics().counts.curr_items, 0);
    assert!(store.statistics().index_bytes < pages / 2, "{pages} {}", store.statistics().index_bytes);
}

#[test]
fn a_much_lower_limit_evicts_and_keeps_to_it() {
    let (file, manifest) = frozen(100_000);
    let store = thaw(Config { memory_limit_bytes: 16 * MIB, ..config() }, &file, &manifest).expect("a store");
    let mut handle = store.handle();
    for _ in 0..100_000 {
        handle.begin_turn(NOW);
    }
    assert!(store.statistics().charged_bytes <= 16 * MIB, "{:?}", store.statistics());
    let found = found(&mut handle, 0..100_000);
    assert!((10_000..90_000).contains(&found), "{found}");
}

#[test]
fn the_file_stays_as_it_is_when_the_old_store_ends() {
    let file = new_file();
    let store = Store::in_file(config(), &file).expect("a store");
    let mut handle = store.handle();
    (0..5_000).for_each(|number| set(&mut handle, number));
    let large = handle.large_value(200_000, NOW).expect("room");
    drop(handle);
    let manifest = store.freeze().expect("it is in a file");
    // Both would give pages back.
    drop(large);
    drop(store);
    let store = thaw(config(), &file, &manifest).expect("the same memory");
    assert_eq!(found(&mut store.handle(), 0..5_000), 5_000);
    assert_eq!(store.statistics().large_bytes, 50 * 50_048, "the value that nobody has is not part of it");
}

#[test]
fn a_second_process_gives_unique_cas_numbers() {
    let (file, manifest) = frozen(1_000);
    let store = thaw(config(), &file, &manifest).expect("the same memory");
    let mut handle = store.handle();
    let cas = |handle: &mut Handle, number: u64| {
        let key = key(number);
        let key = handle.key(key.as_bytes());
        handle.get(&key, Look::Peek, NOW).map(|item| item.cas()).expect("it is there")
    };
    let mut all: Vec<u64> = (0..1_000).map(|number| cas(&mut handle, number)).collect();
    for number in 0..1_000 {
        set(&mut handle, number);
        all.push(cas(&mut handle, number));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2_000);
}

#[test]
fn a_flush_that_was_scheduled_comes() {
    let file = new_file();
    let store = Store::in_file(config(), &file).expect("a store");
    set(&mut store.handle(), 1);
    store.flush(NOW + 5);
    let manifest = store.freeze().expect("it is in a file");
    let store = thaw(config(), &file, &manifest).expect("the same memory");
    let mut handle = store.handle();
    assert_eq!(found(&mut handle, 0..2), 1);
    handle.begin_turn(NOW + 5);
    assert_eq!(found(&mut handle, 0..2), 0);
}

#[test]
fn anonymous_memory_has_no_manifest() {
    assert_eq!(Store::new(config()).expect("a store").freeze(), None);
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut Config, &mut Manifest), expected: &str) {
    let (file, mut manifest) = frozen(100);
    let mut config = config();
    change(&mut config, &mut manifest);
    let error = thaw(config, &file, &manifest).expect_err("it differs");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_differs_is_said() {
    check_refused(
        |_, manifest| manifest.0[0] = 7,
        "it was written by another version: its layout is 7, and 4 is expected",
    );
    check_refused(
        |config, _| config.cas = false,
        "it was written with CAS uniques, and this server runs without CAS uniques (-C)",
    );
    check_refused(|_, manifest| manifest.0[11] ^= 1, "it was written by a version with another hash of keys");
    check_refused(
        |config, _| {
            let device = FlashDevice { bytes: 640 << 20, bucket: Bucket::Default };
            let (segment_bytes, piece_bytes) = (64 << 20, 4 << 20);
            let settings = FlashSettings::default();
            config.flash = Some(FlashConfig { devices: vec![device], segment_bytes, piece_bytes, settings });
        },
        "it was written by a server without flash, and this one runs with 10 pages of 67108864 bytes on 1 device, \
         written 1048576 bytes at a time",
    );
    check_refused(|_, manifest| manifest.0.push(0), "its numbers contradict each other");
    check_refused(
        |config, _| config.memory_limit_bytes = 1 << 40,
        "use 1099511627776 bytes of memory: there is address space for 68719476736",
    );
}

#[test]
fn an_attempt_that_fails_changes_nothing() {
    let (file, manifest) = frozen(5_000);
    let too_large = Config { memory_limit_bytes: 1 << 40, ..config() };
    assert!(matches!(thaw(too_large, &file, &manifest), Err(ThawError::Store(_))));
    let cut = Manifest(manifest.0[..manifest.0.len() - 1].to_vec());
    assert!(thaw(config(), &file, &cut).is_err());
    let store = thaw(config(), &file, &manifest).expect("the same memory");
    assert_eq!(found(&mut store.handle(), 0..5_000), 5_000);
}

#[test]
fn a_store_that_has_not_begun_changes_nothing() {
    let (file, manifest) = frozen(5_000);
    let smaller = Config { memory_limit_bytes: 16 * MIB, ..config() };
    let store = Store::thaw_frozen(smaller, &file, &manifest).expect("the same memory");
    // Large values give their pages back otherwise.
    drop(store);
    let store = thaw(config(), &file, &manifest).expect("the same memory");
    assert_eq!(found(&mut store.handle(), 0..5_000), 5_000);
}

#[test]
fn a_manifest_that_was_cut_is_refused() {
    let (file, manifest) = frozen(2_000);
    for len in (0..manifest.0.len()).step_by(7) {
        let cut = Manifest(manifest.0[..len].to_vec());
        assert!(matches!(thaw(config(), &file, &cut), Err(ThawError::Damaged)), "{len}");
    }
}

/// Whoever writes a manifest can write its checksum, too. Nothing more is promised for one than memory safety, and an end.
#[test]
fn numbers_that_make_no_sense_are_refused_or_harmless() {
    let (file, manifest) = frozen(2_000);
    let mut prng = Prng::new(1);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..300 {
        let mut other = manifest.clone();
        let at = 9 + prng.below(other.0.len() as u64 - 9) as usize;
        other.0[at] = match prng.below(3) {
            0 => prng.next_u64(),
            1 => other.0[at].wrapping_add(1),
            _ => prng.below(1 << 20),
        };
        match thaw(config(), &file, &other) {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100 && taken > 0, "{refused} {taken}");
}

#[test]
fn a_file_that_cannot_grow_is_an_error() {
    let path = std::env::temp_dir().join(format!("store-manifest-{}", std::process::id()));
    std::fs::write(&path, "x").expect("a file");
    let read_only = Arc::new(File::open(&path).expect("the file"));
    let error = Store::in_file(config(), &read_only).expect_err("it cannot be written");
    assert_eq!(error.to_string(), "use the file that holds items");
    std::fs::remove_file(&path).expect("it is there");
    let mut byte = [0];
    read_only.read_exact_at(&mut byte, 0).expect("as it was");
    assert_eq!(&byte, b"x");
}

/// Changes some numbers of a manifest, most often those at its beginning, of which everything else depends.
fn mutated(manifest: &Manifest, prng: &mut Prng) -> Manifest {
    let mut numbers = manifest.0.clone();
    for _ in 0..1 + prng.below(3) {
        let len = numbers.len() as u64;
        let within = if prng.below(2) == 0 { len.min(40) } else { len };
        let at = prng.below(within) as usize;
        let other = numbers[prng.below(len) as usize];
        numbers[at] = match prng.below(9) {
            0 => u64::MAX - prng.below(3),
            1 => 1 << prng.below(64),
            2 => (1 << prng.below(64)) - 1,
            3 => numbers[at].wrapping_add(1),
            4 => numbers[at].wrapping_sub(1),
            5 => numbers[at] << prng.below(8),
            6 => prng.next_u64(),
            7 => prng.below(100),
            _ => other,
        };
        match prng.below(16) {
            0 => numbers.truncate(at + 1),
            1 => numbers.insert(at, other),
            2 => _ = numbers.remove(at),
            _ => {}
        }
        if numbers.is_empty() {
            break;
        }
    }
    Manifest(numbers)
}

/// Each length is compared with what holds it before it is used: whatever the numbers are, a store comes of them or an error. More seeds:
/// `EVENKEEL_TEST_SEEDS=first..last`.
#[test]
fn no_manifest_ends_the_process() {
    let seeds = std::env::var("EVENKEEL_TEST_SEEDS").ok();
    let seeds = seeds.and_then(|text| {
        let (first, last) = text.split_once("..")?;
        Some(first.parse::<u64>().ok()?..last.parse().ok()?)
    });
    let (mut file, mut manifest) = frozen(300);
    let (mut accepted, seeds) = (0, seeds.unwrap_or(0..400));
    for seed in seeds.clone() {
        let other = mutated(&manifest, &mut Prng::new(seed));
        let Ok(store) = Store::thaw_frozen(config(), &file, &other) else { continue };
        accepted += 1;
        eprintln!("seed {seed} is accepted");
        let Ok(()) = store.begin(64 * MIB) else { continue };
        let mut handle = store.handle();
        for number in 400..500 {
            let (name, value) = (key(number), value(number));
            let key = handle.key(name.as_bytes());
            // There may be no room: numbers can be possible and untrue.
            let _ = handle.store(&key, &Change::default(), NewValue::Bytes(&value), NOW);
        }
        (0..100).for_each(|_| handle.begin_turn(NOW));
        let _ = store.statistics();
        drop(handle);
        drop(store);
        (file, manifest) = frozen(300);
    }
    eprintln!("{accepted} of {seeds:?} are accepted");
}
