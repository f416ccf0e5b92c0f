//! Density, items per byte: `cargo run --release -p store --example density`.
//!
//! Stores distinct keys of 20 bytes, twice as many as fit, and prints how many items are present at the end, the share of the limit
//! that their keys and values are, the resident memory and the index memory of each, and the time of a set with eviction. Arguments:
//! the limit in MiB (256), and the lengths of values (several).

use store::{Change, Config, NewValue, Store};

fn main() {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse().expect("a number of MiB, and lengths")).collect();
    let limit = numbers.first().map_or(256 << 20, |mib| mib << 20);
    let lens = numbers.get(1..).filter(|lens| !lens.is_empty()).unwrap_or(&[20, 100, 300, 1_000, 4_000]);
    for value_len in lens {
        let store = Store::new(Config { memory_limit_bytes: limit, workers: 1, ..Config::default() })
            .expect("address space");
        let mut handle = store.handle();
        let value = vec![b'v'; *value_len as usize];
        let count = 2 * limit / (40 + value_len);
        let mut start = clock();
        for number in 0..count {
            if number == count / 2 {
                start = clock();
            }
            let name = format!("key:{:016}", number * 7919);
            let key = handle.key(name.as_bytes());
            handle.store(&key, &Change::default(), NewValue::Bytes(&value), 2).expect("memory enough");
        }
        let set = (clock() - start) / (count - count / 2) as f64;
        let statistics = store.statistics();
        let items = statistics.counts.curr_items;
        println!(
            "20 + {value_len:>6}: {items:>8} items, {:.1} % of the limit, {:.1} bytes resident each, {:.1} of them index; \
             set with eviction {set:.0} ns",
            100.0 * (items * (20 + value_len)) as f64 / limit as f64,
            resident() as f64 / items as f64,
            statistics.index_bytes as f64 / items as f64,
        );
    }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has a size");
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number") * 1024
}

/// Nanoseconds of this thread's own processor time.
fn clock() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
