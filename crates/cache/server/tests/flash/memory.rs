//! More values at a time than reads have memory for.

use super::devices::{WORKS, crowd, on_first};
use super::*;

/// Gets of the large values that one read brings, all of them.
fn gets_of_long() -> String {
    (0..ON_FLASH).filter(|number| is_long(*number)).map(|number| format!("get item{number}\r\n")).collect()
}

/// A hundred clients ask for these eight values: 26 MB at once, of which 16 have memory. Returns when the last one has all.
fn hear_long(stage: &mut Stage) -> u64 {
    let script = format!("{}mn\r\n", gets_of_long());
    let began = stage.world.now().us;
    let clients: Vec<HostId> = (0..100).map(|_| stage.client(script.as_bytes(), u64::MAX)).collect();
    let mut last_us = 0;
    for client in clients {
        assert_eq!(count(&stage.hear(client), b"VALUE"), 8);
        last_us = last_us.max(stage.world.handler::<Client>(client).heard_at_us - began);
    }
    last_us
}

#[test]
fn values_beyond_the_memory_for_reads_take_turns() {
    let mut stage = Stage::new(8, true);
    stage.set_disk(DiskConditions { delay_us: 200, jitter_us: 500, ..DiskConditions::default() });
    let last_us = hear_long(&mut stage);
    assert!(last_us < 60_000, "{last_us} us");
}

/// The first read of each client ends long before its last one.
#[test]
fn pipelines_beyond_the_memory_for_reads_are_answered_by_a_slow_device() {
    let mut stage = Stage::new(60, true);
    stage.set_disk(DiskConditions { delay_us: 1000, jitter_us: 15_000, ..WORKS });
    let last_us = hear_long(&mut stage);
    assert!(last_us < 400_000, "{last_us} us");
}

/// They fill the memory for reads with values that they do not take.
#[test]
fn clients_that_do_not_read_delay_others_by_milliseconds() {
    let mut stage = Stage::new(9, true);
    stage.set_disk(DiskConditions { delay_us: 200, jitter_us: 100, ..DiskConditions::default() });
    let in_memory: String = (0..8).map(|at| format!("get item{}\r\n", 1103 + 50 * at)).collect();
    let script = format!("{in_memory}{}mn\r\n", gets_of_long());
    let millisecond = PathConditions { delay_us: 1000, jitter_us: 0, loss_ppm: 0, piece_max: 1400 };
    stage.world.set_default_path(millisecond);
    let deaf: Vec<HostId> = (0..200).map(|_| stage.client(script.as_bytes(), u64::MAX)).collect();
    // The requests have arrived, the replies have not.
    stage.world.run_for(3_500);
    assert_eq!(stage.world.handler::<Client>(deaf[0]).arrivals, 0);
    deaf.iter().for_each(|client| stage.world.partition(stage.server, *client));
    stage.world.run_for(2_000);
    let began = stage.world.now().us;
    let others: Vec<HostId> = (0..20).map(|at| stage.client(&gets(at..at + 10), u64::MAX)).collect();
    for client in others {
        assert_eq!(count(&stage.hear(client), b"VALUE"), 10);
        let took = stage.world.handler::<Client>(client).heard_at_us - began;
        assert!(took < 40_000, "{took} us");
    }
    for client in deaf {
        stage.world.heal(stage.server, client);
        assert_eq!(count(&stage.hear(client), b"VALUE"), 16);
    }
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
