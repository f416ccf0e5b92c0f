//! Keys chosen with knowledge of the secret, the worst case.

use super::*;
use crate::config::Config;
use crate::operations::request::Look;

/// More than a page of the index holds.
const CHOSEN: usize = 800;

fn handle(evict: bool) -> Handle {
    let config = Config { memory_limit_bytes: 4 << 20, evict, ..Config::default() };
    Store::new(config).unwrap().handle()
}

/// Keys of one shard whose hashes agree in the 8 lowest bits.
fn chosen(handle: &Handle) -> Vec<[u8; 8]> {
    let together = |bytes: &[u8; 8]| {
        let hash = handle.key(bytes).hash;
        hash & 0xff == 0 && hash >> 58 == 0
    };
    (0_u64..).map(u64::to_le_bytes).filter(together).take(CHOSEN).collect()
}

fn set(handle: &mut Handle, key: &[u8]) -> Result<Stored, Error> {
    handle.store(&handle.key(key), &Change::default(), NewValue::Bytes(b"v"), 2)
}

#[test]
fn the_page_of_chosen_keys_is_bounded_and_other_keys_stay() {
    let mut handle = handle(true);
    assert!((0..5_000_u32).all(|number| set(&mut handle, &number.to_be_bytes()).is_ok()));
    let chosen = chosen(&handle);
    let before = handle.shared().statistics();
    assert!(chosen.iter().all(|key| set(&mut handle, key).is_ok()));
    let after = handle.shared().statistics();
    let spare = after.index_bytes - before.index_bytes;
    assert!(spare <= crate::index::PAGE_CHARGE, "{spare} bytes more, where a spare page is ready");
    assert!(after.counts.evictions > CHOSEN as u64 / 4, "{after:?}");
    assert!(handle.get(&handle.key(chosen.last().unwrap()), Look::Use, 2).is_some());
    let theirs = |number: &u32| handle.key(&number.to_be_bytes()).hash >> 58 == 0;
    let others: Vec<u32> = (0..5_000).filter(|number| !theirs(number)).collect();
    assert!(
        others.iter().all(|number| handle.get(&handle.key(&number.to_be_bytes()), Look::Use, 2).is_some())
    );
}

#[test]
fn without_eviction_chosen_keys_are_refused_and_stored_ones_stay() {
    let mut handle = handle(false);
    let stored: Vec<_> = chosen(&handle).into_iter().filter(|key| set(&mut handle, key).is_ok()).collect();
    assert!(stored.len() > CHOSEN / 4 && stored.len() < CHOSEN, "{}", stored.len());
    assert!(stored.iter().all(|key| handle.get(&handle.key(key), Look::Use, 2).is_some()));
    set(&mut handle, b"one more").unwrap();
}
