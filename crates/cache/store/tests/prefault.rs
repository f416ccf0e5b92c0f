//! The pre-faulting thread. Alone in its binary: nothing else may allocate.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use stdx::prng::Prng;
use store::{Change, Config, NewValue, Store};

const LIMIT: u64 = 256 << 20;
/// Resident memory of the test binary, and of fixed parts: tables, counters, stacks.
const BASE: u64 = 6 << 20;
/// Timeout, reached only if the thread hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of polling its progress, and the maximum number of polls.
const GLANCE: Duration = Duration::from_millis(2);
const GLANCES_MAX: u32 = 30_000;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn memory_is_resident_before_its_use_but_not_beyond_the_limit() {
    let store = Store::new(Config { memory_limit_bytes: LIMIT, ..Config::default() }).unwrap();
    let empty = resident();
    let weak = Arc::downgrade(&store);
    let (ended, end) = std::sync::mpsc::channel();
    let runner = std::thread::spawn(move || {
        Store::prefault(&weak);
        ended.send(()).unwrap();
    });
    // Two megabytes for items and as much for the index, of which the shards' first pages are in use.
    let is_ahead = |_| match end.recv_timeout(GLANCE) {
        Err(RecvTimeoutError::Timeout) => resident() >= empty + (3 << 20),
        ended => panic!("the thread ended: {ended:?}"),
    };
    assert!((0..GLANCES_MAX).any(is_ahead), "only {} KiB more are resident", (resident() - empty) >> 10);
    let mut handle = store.handle();
    let mut prng = Prng::new(1);
    let value = [7; 1000];
    let mut stored = 0;
    while stored < 2 * LIMIT {
        let len = prng.below(1000) as usize;
        let name = prng.next_u64().to_string();
        let key = handle.key(name.as_bytes());
        handle.store(&key, &Change::default(), NewValue::Bytes(&value[..len]), 2).unwrap();
        stored += len as u64 + 60;
    }
    let most = LIMIT + LIMIT / 20 + BASE;
    assert!(resident() <= most, "{} MiB resident, {:?}", resident() >> 20, store.statistics());
    drop((handle, store));
    end.recv_timeout(PATIENCE).expect("the thread ends with the store");
    runner.join().unwrap();
}
