//! More values at a time than reads have memory for, from devices that are not fast.

use super::devices::{WORKS, crowd, on_first};
use super::*;

/// Each of a hundred clients wants eight values of 31 KB, and the first of its reads ends long before the last one.
#[test]
fn pipelines_beyond_the_memory_for_reads_are_answered_by_a_slow_device() {
    let mut stage = Stage::new(60, true);
    stage.set_disk(DiskConditions { delay_us: 1000, jitter_us: 15_000, ..WORKS });
    let script = format!("{}mn\r\n", gets_of_long());
    let began = stage.world.now().us;
    let clients: Vec<HostId> = (0..100).map(|_| stage.client(script.as_bytes(), u64::MAX)).collect();
    let mut last_us = 0;
    for client in clients {
        assert_eq!(count(&stage.hear(client), b"VALUE"), 8);
        last_us = last_us.max(stage.world.handler::<Client>(client).heard_at_us - began);
    }
    assert!(last_us < 400_000, "{last_us} us");
}

/// One read says how long the value is, and the other brings it: neither is dropped while its request waits for the other.
#[test]
fn large_values_beyond_the_memory_for_reads_are_answered_by_a_slow_device() {
    const LARGE: usize = 40;
    let value =
        |number: usize| if number < LARGE { vec![b'l'; 100_000 + number] } else { content_of(number) };
    let mut stage = Stage::with_values(61, 4, (0..ITEMS).map(value));
    let [of_first, _] = on_first(&mut stage, 0..LARGE);
    assert!(of_first.len() > 2, "{of_first:?}");
    // The device's share of the memory is 4 MiB.
    stage.set_disk(DiskConditions { delay_us: 6000, jitter_us: 3000, ..WORKS });
    let (hits, took_us) = crowd(&mut stage, of_first.iter().copied().cycle().take(600));
    // The others wait too long for their turn.
    assert!((400..=600).contains(&hits) && took_us < 500_000, "{hits} hits in {took_us} us");
}
