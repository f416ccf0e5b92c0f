//! The share of a small memory that items of one size use, also after another size.

use store::{Change, Config, Handle, NewValue, Store};

const LIMIT: u64 = 64 << 20;

/// Stores almost twice as many values as fit. Returns the share of the limit that all items have which are there.
fn fill(handle: &mut Handle, prefix: &str, len: u64) -> f64 {
    let value = vec![b'v'; len as usize];
    for number in 0..LIMIT * 18 / 10 / (len + 40) {
        let name = format!("{prefix}:{number:016}");
        let key = handle.key(name.as_bytes());
        handle.store(&key, &Change::default(), NewValue::Bytes(&value), 2).expect("evicted for");
    }
    let statistics = handle.shared().statistics();
    assert!(statistics.charged_bytes <= LIMIT, "{len}: {statistics:?}");
    assert!(statistics.counts.evictions > 0, "{len}: {statistics:?}");
    statistics.counts.bytes as f64 / LIMIT as f64
}

fn store() -> Handle {
    let config = Config { memory_limit_bytes: LIMIT, workers: 1, ..Config::default() };
    Store::new(config).expect("a store").handle()
}

#[test]
fn values_of_each_size_use_nearly_all_of_a_small_memory() {
    for len in [4_000, 8_000, 12_000, 16_000, 20_000, 26_200, 27_000, 32_700, 33_000, 40_000, 66_000, 100_000]
    {
        let share = fill(&mut store(), "a", len);
        assert!(share > 0.95, "{len}: {share}");
    }
}

/// Segments are short after the first values, and have to be long again for the next ones.
#[test]
fn values_of_another_size_use_it_as_well() {
    let mut handle = store();
    for (round, len) in
        [26_200, 1_000, 32_700, 12_000, 100_000, 4_000, 26_200, 66_000].into_iter().enumerate()
    {
        let share = fill(&mut handle, &format!("{round}"), len);
        // With short items between the others, some segments are of two kinds.
        assert!(share > 0.93, "{round}, {len}: {share}");
    }
}
