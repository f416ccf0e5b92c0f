//! Limited address space (`ulimit -v`): addresses are reusable for values of any size. Alone in its binary,
//! because the limit is per process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stdx::prng::Prng;
use store::{Change, Config, NewValue, Store};

/// Address space for a store of 64 MiB, beyond what the test itself uses.
const ADDRESSES: u64 = 1 << 30;

fn used() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// Address space that is enough for the store, but not for growth.
const FEW_ADDRESSES: u64 = 400 << 20;

#[test]
fn addresses_are_reusable_for_values_of_any_size() {
    let maximum = getrlimit(Resource::As).maximum;
    let value = vec![b'v'; 17 << 20];
    setrlimit(Resource::As, Rlimit { current: Some(used() + ADDRESSES), maximum }).unwrap();
    let config = Config { item_size_max_bytes: 32 << 20, ..Config::default() };
    // Headroom remains for the rest of the process.
    setrlimit(Resource::As, Rlimit { current: Some(used() + FEW_ADDRESSES), maximum }).unwrap();
    let store = Store::new(config.clone()).unwrap();
    assert_eq!(Vec::<u8>::new().try_reserve(60 << 20), Ok(()));
    drop(store);
    setrlimit(Resource::As, Rlimit { current: Some(used() + ADDRESSES), maximum }).unwrap();
    let store = Store::new(config).unwrap();
    let mut handle = store.handle();
    let mut prng = Prng::new(1);
    let mut set = |name: &str, len: usize| {
        let key = handle.key(name.as_bytes());
        let stored = handle.store(&key, &Change::default(), NewValue::Bytes(&value[..len]), 2);
        assert!(stored.is_ok(), "{len} bytes: {stored:?}, {:?}", handle.shared().statistics());
    };
    // One size after the other, each filling all of the memory.
    for size in [40_000, 70_000, 150_000, 280_000, 600_000, 1_200_000, 5_000_000, 17_000_000] {
        (0..2 * (64 << 20) / size).for_each(|number| set(&format!("{size}.{number}"), size));
    }
    // All sizes at once.
    for number in 0..500u64 {
        let len = 40_000 << prng.below(8);
        set(&format!("mixed{}", number % 100), len + prng.below(len as u64) as usize);
    }
}
