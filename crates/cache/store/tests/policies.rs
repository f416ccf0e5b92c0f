//! Misses of a client that stores what it does not find, under several policies.

use stdx::prng::{Prng, mix};
use store::{Change, Config, Handle, Look, NewValue, Optimise, PolicyState, Store};

const NOW: u32 = 2;
const MEMORY: u64 = 8 << 20;
const KEYS: u64 = 20_000;
const REQUESTS: u64 = 200_000;

/// Gets that missed, bytes of their values, and the policy at the end.
struct Misses {
    objects: u64,
    bytes: u64,
    state: PolicyState,
}

fn handle(config: Config) -> Handle {
    let config = Config { memory_limit_bytes: MEMORY, workers: 1, hash_secret: 3, ..config };
    Store::new(config).unwrap().handle()
}

fn replay(config: Config, mut requests: impl Iterator<Item = (u64, usize)>) -> Misses {
    let mut handle = handle(config);
    let mut misses = Misses { objects: 0, bytes: 0, state: handle.shared().statistics().policy };
    let value = [b'v'; 4000];
    for number in 0.. {
        let Some((object, len)) = requests.next() else { break };
        let now = NOW + number / 10_000;
        if number % 100 == 0 {
            handle.begin_turn(now);
        }
        let name = format!("key{object}");
        let key = handle.key(name.as_bytes());
        if handle.get(&key, Look::Use, now).is_none() {
            misses.objects += 1;
            misses.bytes += len as u64;
            handle.store(&key, &Change::default(), NewValue::Bytes(&value[..len]), now).unwrap();
        }
    }
    misses.state = handle.shared().statistics().policy;
    misses
}

/// Some keys are asked for more often than others; sizes from 100 to 4000 bytes have nothing to do with it.
fn mixed_sizes() -> impl Iterator<Item = (u64, usize)> {
    let mut prng = Prng::new(1);
    (0..REQUESTS).map(move |_| {
        let object = (prng.unit().powi(4) * KEYS as f64) as u64;
        (object, 100 + (mix(object) % 3900) as usize)
    })
}

fn pinned(policy: &str) -> Config {
    Config { policy: Some(policy.parse().unwrap()), ..Config::default() }
}

#[test]
fn with_sizes_fewer_gets_miss_and_without_them_fewer_bytes() {
    let sized = replay(pinned("size:10:1:200"), mixed_sizes());
    let plain = replay(pinned("plain:10:1:200"), mixed_sizes());
    assert!(sized.objects * 100 < plain.objects * 97, "{} and {}", sized.objects, plain.objects);
    assert!(plain.bytes < sized.bytes, "{} and {}", plain.bytes, sized.bytes);
    assert!(sized.state.pinned && sized.state.changes == 0);
}

#[test]
fn what_optimises_bytes_never_looks_at_sizes() {
    let config = Config { optimise: Optimise::Bytes, ..Config::default() };
    let misses = replay(config, mixed_sizes());
    assert!(!misses.state.policy.by_size && !misses.state.pinned, "{:?}", misses.state);
}

/// Each key twice, with a seventh of the memory in between.
fn read_once_more_later() -> impl Iterator<Item = (u64, usize)> {
    const APART: u64 = 900;
    (0..30_000).flat_map(|number| {
        let again = (number >= APART).then(|| (number - APART, 1000));
        [Some((number, 1000)), again].into_iter().flatten()
    })
}

#[test]
fn a_policy_that_suits_the_load_is_found_and_the_same_in_every_run() {
    let found = replay(Config::default(), read_once_more_later());
    assert!(found.state.policy.small_percent >= 20, "{:?}", found.state);
    assert!((1..=3).contains(&found.state.changes), "{:?}", found.state);
    let again = replay(Config::default(), read_once_more_later());
    assert_eq!((again.objects, again.state), (found.objects, found.state));
}
