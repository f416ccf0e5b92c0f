//! Speed of the store by itself: `cargo run --release -p store --example speed`.
//!
//! One thread, keys of 20 bytes. Arguments: the length of values (20), and the number of keys (several). Gets
//! and sets in batches of 16, prefetched as the server does. Prints nanoseconds per operation.

use std::hint::black_box;

use stdx::prng::Prng;
use store::{Change, Config, Handle, Key, Look, NewValue, Store};

const BATCH: usize = 16;
/// As many operations as a server's turn may have for one connection.
const BATCHES_PER_TURN: usize = 16;
const OPERATIONS: usize = 4_000_000;
/// The second of all operations: nothing expires during the run.
const NOW: u32 = 2;

fn main() {
    let value_len = std::env::args().nth(1).map_or(20, |text| text.parse().expect("a length"));
    let keys = std::env::args().nth(2).map(|text| text.parse().expect("a number of keys"));
    for keys in keys.map_or(vec![10_000, 1_000_000, 4_000_000], |keys| vec![keys]) {
        let config = Config { memory_limit_bytes: 4 << 30, ..Config::default() };
        let mut handle = Store::new(config).expect("address space").handle();
        let mut bench = Bench { handle: &mut handle, keys, value: vec![b'v'; value_len], first: b'k' };
        let fill = bench.fill();
        let overwrite = bench.run(Bench::set);
        let gets = bench.run(Bench::get);
        bench.first = b'x';
        let misses = bench.run(Bench::miss);
        let statistics = handle.shared().statistics();
        let counts = statistics.counts;
        println!(
            "{keys:>8} keys: fill {fill:.0} ns, overwrite {overwrite:.0} ns, get {gets:.0} ns, miss {misses:.0} ns; \
             {:.1} bytes of records and {:.1} of index per item",
            counts.bytes as f64 / counts.curr_items as f64,
            statistics.index_bytes as f64 / counts.curr_items as f64,
        );
    }
}

struct Bench<'h> {
    handle: &'h mut Handle,
    keys: usize,
    value: Vec<u8>,
    /// The first letter of all keys.
    first: u8,
}

impl Bench<'_> {
    fn fill(&mut self) -> f64 {
        let names: Vec<Name> = (0..self.keys).map(|number| self.name(number)).collect();
        self.time(&names, Bench::set)
    }

    fn run(&mut self, operation: impl Fn(&mut Self, &Key<'_>)) -> f64 {
        let mut prng = Prng::new(1);
        let names: Vec<Name> =
            (0..OPERATIONS).map(|_| self.name(prng.below(self.keys as u64) as usize)).collect();
        self.time(&names, operation)
    }

    fn time(&mut self, names: &[Name], operation: impl Fn(&mut Self, &Key<'_>)) -> f64 {
        let start = clock();
        for (number, batch) in names.chunks_exact(BATCH).enumerate() {
            if number % BATCHES_PER_TURN == 0 {
                self.handle.begin_turn(NOW);
            }
            let keys: [Key<'_>; BATCH] = std::array::from_fn(|i| self.handle.key(&batch[i]));
            let fetching = keys.each_ref().map(|key| self.handle.prefetch(key));
            fetching.into_iter().for_each(|key| self.handle.prefetch_item(key));
            keys.iter().for_each(|key| operation(self, key));
        }
        (clock() - start) / names.len() as f64
    }

    fn name(&self, number: usize) -> Name {
        let mut name = *b"key:0000000000000000";
        name[0] = self.first;
        let mut rest = number;
        for digit in name[4..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        name
    }

    fn set(&mut self, key: &Key<'_>) {
        let value = NewValue::Bytes(&self.value);
        self.handle.store(key, &Change::default(), value, NOW).expect("memory enough");
    }

    fn get(&mut self, key: &Key<'_>) {
        let item = self.handle.get(key, Look::Use, NOW).expect("it is there");
        black_box(item.value().as_bytes().first());
    }

    fn miss(&mut self, key: &Key<'_>) {
        assert!(self.handle.get(key, Look::Use, NOW).is_none());
    }
}

type Name = [u8; 20];

/// Nanoseconds of this thread's own processor time.
fn clock() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
