//! The memory limit bounds resident memory. Alone in its binary: nothing else may allocate.

use stdx::prng::Prng;
use store::{Change, Config, Handle, Look, NewValue, Store};

const LIMIT: u64 = 32 << 20;
/// Resident memory of the test binary, and of fixed parts: tables, counters, stacks.
const BASE: u64 = 6 << 20;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[track_caller]
fn check(handle: &mut Handle, limit: u64, phase: &str) {
    let statistics = handle.shared().statistics();
    assert!(statistics.charged_bytes <= limit, "{phase}: {statistics:?}");
    let most = limit + limit / 20 + BASE;
    assert!(resident() <= most, "{phase}: {} MiB resident, {statistics:?}", resident() >> 20);
}

/// Stores `bytes` bytes of values of mixed lengths.
fn fill(handle: &mut Handle, prng: &mut Prng, bytes: u64, len_max: u64) {
    let value = vec![7; len_max as usize];
    let mut stored = 0;
    while stored < bytes {
        let len = prng.below(len_max) as usize;
        let name = prng.next_u64().to_string();
        let key = handle.key(name.as_bytes());
        let change = Change { flags: prng.below(2) as u32, ..Change::default() };
        handle.store(&key, &change, NewValue::Bytes(&value[..len]), 2).unwrap();
        let _ = handle.get(&key, Look::Use, 2);
        stored += len as u64 + 60;
    }
}

#[test]
fn resident_memory_stays_within_the_limit() {
    let store = Store::new(Config { memory_limit_bytes: LIMIT, ..Config::default() }).unwrap();
    let mut handle = store.handle();
    let mut prng = Prng::new(1);
    for (len_max, phase) in [
        (20, "tiny"),
        (500, "small"),
        (200_000, "large"),
        (20, "tiny again"),
        (5_000, "medium"),
        (32_000, "long"),
    ] {
        fill(&mut handle, &mut prng, 2 * LIMIT, len_max);
        check(&mut handle, LIMIT, phase);
        let items = store.statistics().counts.bytes;
        assert!(items > LIMIT / 2, "{phase}: only {} MiB of items", items >> 20);
    }
    store.set_memory_limit(LIMIT / 2).unwrap();
    for _ in 0..10_000 {
        handle.begin_turn(2);
    }
    check(&mut handle, LIMIT / 2, "half of it");
    store.set_memory_limit(2 * LIMIT).unwrap();
    fill(&mut handle, &mut prng, 6 * LIMIT, 1_000);
    check(&mut handle, 2 * LIMIT, "twice as much");
    assert!(store.statistics().counts.bytes > LIMIT, "more memory is used");
}
