//! Devices that hang with as many reads as a worker has in flight.

use super::*;

const HANGS: DiskConditions =
    DiskConditions { delay_us: 25_000_000, jitter_us: 0, error_ppm: 0, short_ppm: 0 };
pub(super) const WORKS: DiskConditions =
    DiskConditions { delay_us: 100, jitter_us: 50, error_ppm: 0, short_ppm: 0 };

/// Clients with one get each, all at once. Returns how many had a value, and how long the last one waited.
pub(super) fn crowd(stage: &mut Stage, numbers: impl Iterator<Item = usize>) -> (usize, u64) {
    let began = stage.world.now().us;
    let clients: Vec<HostId> =
        numbers.map(|number| stage.client(&gets(number..number + 1), u64::MAX)).collect();
    let (mut hits, mut last) = (0, 0);
    for client in clients {
        hits += count(&stage.hear(client), b"VALUE");
        last = last.max(stage.world.handler::<Client>(client).heard_at_us - began);
    }
    (hits, last)
}

/// Which of these items are on the first device, and which are on others, which are slower.
pub(super) fn on_first(stage: &mut Stage, items: impl Iterator<Item = usize>) -> [Vec<usize>; 2] {
    stage.set_disk(DiskConditions { delay_us: 20_000, ..WORKS });
    stage.world.set_disk(&stage.devices[0].clone(), WORKS);
    let mut found = [Vec::new(), Vec::new()];
    for number in items {
        let (hits, took_us) = crowd(stage, number..number + 1);
        assert_eq!(hits, 1);
        found[usize::from(took_us > 10_000)].push(number);
    }
    stage.set_disk(WORKS);
    found
}

/// One wants more reads than a worker has in flight.
#[test]
fn a_device_that_hangs_leaves_the_other_one_its_reads() {
    let mut stage = Stage::with_devices(40, 2);
    let [of_first, of_second] = on_first(&mut stage, (1..ON_FLASH).step_by(7));
    assert!(of_first.len() > 10 && of_second.len() > 10, "{of_first:?} {of_second:?}");
    stage.world.set_disk(&stage.devices[0].clone(), HANGS);
    let (hits, took_us) = crowd(&mut stage, (0..1000).map(|number| number % ON_FLASH));
    assert!((400..800).contains(&hits), "{hits} hits");
    assert!((100_000..110_000).contains(&took_us), "{took_us} us");
    for pause_us in [0, 10_100_000, 0] {
        stage.world.run_for(pause_us);
        let (hits, took_us) = crowd(&mut stage, of_second.iter().copied());
        assert!(hits == of_second.len() && took_us < 10_000, "{hits} hits in {took_us} us");
        let (hits, took_us) = crowd(&mut stage, of_first.iter().copied());
        assert!(hits == 0 && took_us < 10_000, "{hits} hits in {took_us} us");
    }
}

/// It is tried again, which it has no room for, so nobody waits.
#[test]
fn a_device_that_hangs_with_all_reads_is_left_alone_again() {
    let mut stage = Stage::new(41, true);
    stage.set_disk(HANGS);
    let (hits, took_us) = crowd(&mut stage, 0..ON_FLASH);
    assert!(hits == 0 && (100_000..110_000).contains(&took_us), "{hits} hits in {took_us} us");
    for _ in 0..2 {
        stage.world.run_for(10_100_000);
        let (hits, took_us) = crowd(&mut stage, 0..ON_FLASH);
        assert!(hits == 0 && took_us < 10_000, "{hits} hits in {took_us} us");
    }
    stage.set_disk(WORKS);
    // All reads have ended, and the last failure was 10 s ago.
    stage.world.run_for(12_000_000);
    assert_eq!(crowd(&mut stage, 0..100).0, 100, "nothing was lost");
    assert_eq!(stage.store.flash_statistics().expect("flash").counts.lost, 0);
}
