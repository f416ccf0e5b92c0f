//! New items that nobody has read yet: a load is kept, a scan is not.

use store::{Change, Config, Handle, Look, NewValue, Store};

const VALUE: [u8; 1000] = [b'v'; 1000];
const NOW: u32 = 2;
/// Operations of one turn.
const TURN: u64 = 50;

struct Cache {
    handle: Handle,
    operations: u64,
}

impl Cache {
    fn new(megabytes: u64) -> Cache {
        let config = Config { memory_limit_bytes: megabytes << 20, workers: 1, ..Config::default() };
        Cache { handle: Store::new(config).unwrap().handle(), operations: 0 }
    }

    fn turn(&mut self) {
        self.operations += 1;
        if self.operations.is_multiple_of(TURN) {
            self.handle.begin_turn(NOW);
        }
    }

    fn set(&mut self, name: &str) {
        self.turn();
        let key = self.handle.key(name.as_bytes());
        self.handle.store(&key, &Change::default(), NewValue::Bytes(&VALUE), NOW).unwrap();
    }

    fn get(&mut self, name: &str) -> bool {
        self.turn();
        let key = self.handle.key(name.as_bytes());
        self.handle.get(&key, Look::Use, NOW).is_some()
    }

    /// How many of these names are found, in percent.
    fn found(&mut self, kind: &str, numbers: std::ops::Range<u64>) -> u64 {
        let count = numbers.end - numbers.start;
        numbers.filter(|number| self.get(&format!("{kind}{number}"))).count() as u64 * 100 / count
    }

    /// Fills the memory with items that are read once. Returns how many fit.
    fn fill(&mut self, megabytes: u64) -> u64 {
        for number in 0..megabytes * 2000 {
            self.set(&format!("old{number}"));
            assert!(self.get(&format!("old{number}")));
        }
        let counts = self.handle.shared().statistics().counts;
        assert!(counts.evictions > counts.curr_items / 2, "the memory is full: {counts:?}");
        counts.curr_items
    }
}

#[test]
fn half_a_memory_of_new_items_is_found_after_it_was_stored() {
    for megabytes in [16, 64] {
        let mut cache = Cache::new(megabytes);
        let fit = cache.fill(megabytes);
        (0..fit / 2).for_each(|number| cache.set(&format!("new{number}")));
        let found = cache.found("new", 0..fit / 2);
        assert!(found >= 95, "{found} % with {megabytes} MiB");
    }
}

#[test]
fn a_scan_does_not_displace_what_is_read_meanwhile() {
    let mut cache = Cache::new(16);
    let fit = cache.fill(16);
    let hot = fit / 2;
    // Four memories of items that are stored and never read, and for each of them one get of a hot item, which is stored if it
    // is missed.
    let mut missed = 0;
    for number in 0..4 * fit {
        cache.set(&format!("scan{number}"));
        let name = format!("hot{}", number % hot);
        if !cache.get(&name) {
            missed += u64::from(number >= 2 * fit);
            cache.set(&name);
        }
    }
    assert!(missed * 100 < 2 * fit * 5, "{missed} of {} gets of hot items missed", 2 * fit);
    let scanned = cache.found("scan", 0..4 * fit);
    assert!(scanned <= 15, "{scanned} % of what was scanned displaced others");
}
