use super::*;
use crate::AlignedBytes;
use rustix::io::Errno;

const PAGE: u64 = 4096;
const DEVICE_BYTES: u64 = 64 * PAGE;

fn disk() -> MemoryDisk {
    MemoryDisk::new(2, DEVICE_BYTES, 1)
}

fn filled(pages: u64, byte: u8) -> AlignedBytes {
    let mut bytes = AlignedBytes::zeroed((pages * PAGE) as usize);
    bytes.fill(byte);
    bytes
}

fn read(disk: &MemoryDisk, device: usize, position: u64, pages: u64) -> io::Result<AlignedBytes> {
    let mut bytes = filled(pages, 0x55);
    disk.read(device, position, &mut bytes).map(|()| bytes)
}

#[track_caller]
fn check_error<T: fmt::Debug>(result: io::Result<T>, errno: Errno) {
    assert_eq!(result.expect_err("an error").raw_os_error(), Some(errno.raw_os_error()));
}

/// Numbers of the sectors of 512 bytes of a range that hold `byte`. None is mixed.
fn sectors_with(disk: &MemoryDisk, device: usize, range: Range<u64>, byte: u8) -> Vec<u64> {
    let bytes = disk.contents(device, range.clone());
    let sectors = (range.start / 512..).zip(bytes.chunks(512));
    let held = sectors.filter(|(_, sector)| {
        assert!(sector.iter().all(|other| *other == sector[0]), "a sector is written as a whole");
        sector[0] == byte
    });
    held.map(|(number, _)| number).collect()
}

fn different_bits(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[test]
fn what_was_written_is_read_on_its_device() {
    let disk = disk();
    disk.write(1, 2 * PAGE, &filled(3, 7)).expect("written");
    assert_eq!(*read(&disk, 1, 2 * PAGE, 3).expect("read"), *filled(3, 7));
    assert_eq!(read(&disk, 1, 3 * PAGE, 4).expect("read")[2 * PAGE as usize..], *filled(2, 0));
    assert_eq!(*read(&disk, 0, 2 * PAGE, 3).expect("read"), *filled(3, 0));
}

#[test]
fn calls_and_bytes_are_counted_per_device() {
    let disk = disk();
    disk.write(1, 0, &filled(3, 7)).expect("written");
    read(&disk, 1, 0, 2).expect("read");
    disk.fail(FaultRule::new(Fault::WriteError));
    disk.write(1, 0, &filled(1, 7)).expect_err("a rule");
    let counts = DiskCounts { reads: 1, writes: 2, bytes_read: 2 * PAGE, bytes_written: 3 * PAGE, errors: 1 };
    assert_eq!((disk.counts(0), disk.counts(1)), (DiskCounts::default(), counts));
}

#[test]
fn ends_and_numbers_of_devices_are_those_of_a_real_disk() {
    let disk = disk();
    let error = read(&disk, 0, DEVICE_BYTES - PAGE, 2).expect_err("beyond the end");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    check_error(disk.write(0, DEVICE_BYTES, &filled(1, 1)), Errno::NOSPC);
    check_error(read(&disk, 2, 0, 1), Errno::NXIO);
    check_error(disk.write(2, 0, &filled(1, 1)), Errno::NXIO);
}

#[test]
#[should_panic(expected = "is not a multiple of 4096")]
fn a_position_within_a_page_is_the_callers_mistake() {
    let _ = disk().write(0, 512, &filled(1, 1));
}

#[test]
fn errors_are_for_calls_that_touch_the_range_of_the_device() {
    let disk = disk();
    for fault in [Fault::ReadError, Fault::WriteError] {
        disk.fail(FaultRule::new(fault).device(1).range(2 * PAGE..3 * PAGE));
    }
    for (device, position, pages, fails) in
        [(1, 0, 2, false), (1, 1, 2, true), (1, 2, 1, true), (1, 3, 1, false), (0, 2, 1, false)]
    {
        let position = position * PAGE;
        let (read, written) =
            (read(&disk, device, position, pages), disk.write(device, position, &filled(pages, 9)));
        if fails {
            check_error(read, Errno::IO);
            check_error(written, Errno::IO);
        } else {
            read.expect("outside");
            written.expect("outside");
        }
    }
    disk.end_all();
    assert_eq!(
        *read(&disk, 1, 2 * PAGE, 1).expect("no rule"),
        *filled(1, 0),
        "what failed did not get there"
    );
}

#[test]
fn a_failed_read_leaves_nothing_that_could_be_used() {
    let disk = disk();
    disk.write(0, 0, &filled(1, 7)).expect("written");
    disk.fail(FaultRule::new(Fault::ReadError));
    let mut bytes = filled(1, 0);
    disk.read(0, 0, &mut bytes).expect_err("a rule");
    assert_eq!(*bytes, *filled(1, 0xa5));
}

#[test]
fn a_rule_ends_after_its_times_or_when_told() {
    let disk = disk();
    let twice = disk.fail(FaultRule::new(Fault::ReadError).times(2));
    let fails = |times| (0..times).filter(|_| read(&disk, 0, 0, 1).is_err()).count();
    assert_eq!((fails(5), disk.strikes(twice)), (2, 2));
    let always = disk.fail(FaultRule::new(Fault::ReadError));
    assert_eq!(fails(5), 5);
    disk.end(always);
    assert_eq!((fails(5), disk.strikes(always), disk.strikes(twice)), (0, 5, 2));
}

#[test]
fn a_seed_repeats_its_failures() {
    let run = |seed| -> Vec<bool> {
        let disk = MemoryDisk::new(1, DEVICE_BYTES, seed);
        disk.fail(FaultRule::new(Fault::ReadError).probability(0.25));
        (0..1000).map(|_| read(&disk, 0, 0, 1).is_err()).collect()
    };
    let failures = run(7);
    let count = failures.iter().filter(|fails| **fails).count();
    assert!((200..300).contains(&count), "a quarter of 1000: {count}");
    assert_eq!(failures, run(7));
    assert_ne!(failures, run(8));
}

#[test]
fn a_torn_write_leaves_some_sectors_and_says_so_or_not() {
    for (seed, fault) in (0..100).flat_map(|seed| [(seed, Fault::TornWrite), (seed, Fault::FailedTornWrite)])
    {
        let disk = MemoryDisk::new(1, DEVICE_BYTES, seed);
        disk.fail(FaultRule::new(fault));
        let written = disk.write(0, PAGE, &filled(2, 7));
        match fault {
            Fault::TornWrite => written.expect("reported as done"),
            _ => check_error(written, Errno::IO),
        }
        let count = sectors_with(&disk, 0, PAGE..3 * PAGE, 7).len();
        assert!((1..16).contains(&count), "seed {seed}: {count} of 16 sectors");
        assert_eq!(sectors_with(&disk, 0, 0..DEVICE_BYTES, 7).len(), count, "nothing beside the write");
    }
}

#[test]
fn a_tear_may_leave_any_sector() {
    let disk = disk();
    disk.fail(FaultRule::new(Fault::TornWrite));
    let mut arrived = [0; 8];
    for round in 1..=200 {
        disk.write(0, 0, &filled(1, round)).expect("reported as done");
        for sector in sectors_with(&disk, 0, 0..PAGE, round) {
            arrived[sector as usize] += 1;
        }
    }
    assert!(arrived.iter().all(|count| (50..150).contains(count)), "{arrived:?}");
}

#[test]
fn a_range_of_one_sector_loses_that_sector() {
    for fault in [Fault::TornWrite, Fault::LostWrite] {
        let disk = disk();
        disk.fail(FaultRule::new(fault).range(PAGE + 512..PAGE + 1024));
        disk.write(0, 0, &filled(2, 7)).expect("reported as done");
        let lost = sectors_with(&disk, 0, 0..2 * PAGE, 0);
        assert_eq!(lost, [9], "{fault:?}");
    }
}

#[test]
fn a_lost_write_is_reported_as_done() {
    let disk = disk();
    disk.write(0, 0, &filled(2, 7)).expect("written");
    disk.fail(FaultRule::new(Fault::LostWrite).times(1));
    disk.write(0, 0, &filled(2, 8)).expect("reported as done");
    assert_eq!(*read(&disk, 0, 0, 2).expect("read"), *filled(2, 7));
    assert_eq!(disk.counts(0).bytes_written, 4 * PAGE);
}

#[test]
fn bits_are_wrong_in_one_read_or_for_good() {
    let disk = disk();
    disk.write(0, 0, &filled(2, 7)).expect("written");
    disk.fail(FaultRule::new(Fault::FlippedRead { bits: 3 }).range(PAGE..PAGE + 64).times(1));
    let wrong = read(&disk, 0, 0, 2).expect("read");
    assert_eq!(different_bits(&wrong[PAGE as usize..][..64], &[7; 64]), 3, "within the range");
    assert_eq!(different_bits(&wrong, &filled(2, 7)), 3);
    assert_eq!(*read(&disk, 0, 0, 2).expect("read"), *filled(2, 7), "only once");
    disk.flip_bits(0, 512..1024, 5);
    for _ in 0..2 {
        assert_eq!(different_bits(&read(&disk, 0, 0, 2).expect("read")[512..1024], &[7; 512]), 5);
    }
    disk.flip_bits(0, 0..1, 100);
    assert_eq!(disk.contents(0, 0..1), [!7], "of eight bits no more than eight");
}

#[test]
fn several_rules_apply_to_one_call() {
    let disk = disk();
    disk.fail(FaultRule::new(Fault::LostWrite).range(0..512));
    disk.fail(FaultRule::new(Fault::LostWrite).range(1024..1536));
    disk.write(0, 0, &filled(1, 7)).expect("reported as done");
    assert_eq!(sectors_with(&disk, 0, 0..PAGE, 0), [0, 2]);
    let error = disk.fail(FaultRule::new(Fault::WriteError));
    check_error(disk.write(0, 0, &filled(1, 8)), Errno::IO);
    assert_eq!(sectors_with(&disk, 0, 0..PAGE, 8), [0; 0]);
    assert_eq!(disk.strikes(error), 1);
}

#[test]
fn calls_hang_until_they_are_released_and_are_carried_out_then() {
    let disk = disk();
    disk.hang(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| disk.write(0, 0, &filled(1, 7)));
        let reader = scope.spawn(|| read(&disk, 0, PAGE, 1));
        disk.wait_for_hanging(0, 2);
        assert_eq!(disk.contents(0, 0..1), [0], "not written yet");
        disk.write(1, 0, &filled(1, 7)).expect("another device does not hang");
        let counts = disk.counts(0);
        assert_eq!((counts.reads, counts.writes, counts.bytes_read, counts.bytes_written), (1, 1, 0, 0));
        disk.release(0);
        writer.join().expect("no panic").expect("written");
        reader.join().expect("no panic").expect("read");
    });
    assert_eq!(disk.contents(0, 0..PAGE), *filled(1, 7));
    disk.wait_for_hanging(0, 0);
}

#[test]
fn a_device_that_is_gone_comes_back_as_it_was_or_empty() {
    let disk = disk();
    disk.write(0, 0, &filled(1, 7)).expect("written");
    for (how, expected) in [(ComesBack::WithContents, 7), (ComesBack::Empty, 0)] {
        disk.remove(0);
        disk.release(0);
        check_error(read(&disk, 0, 0, 1), Errno::NXIO);
        check_error(disk.write(0, 0, &filled(1, 8)), Errno::NXIO);
        read(&disk, 1, 0, 1).expect("another device is there");
        disk.bring_back(0, how);
        assert_eq!(*read(&disk, 0, 0, 1).expect("read"), *filled(1, expected), "{how:?}");
    }
}

#[test]
fn calls_that_hang_end_when_their_device_is_gone() {
    let disk = disk();
    disk.hang(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| disk.write(0, 0, &filled(1, 7)));
        disk.wait_for_hanging(0, 1);
        disk.remove(0);
        // Another one may be in its place before the call has noticed.
        disk.bring_back(0, ComesBack::WithContents);
        check_error(writer.join().expect("no panic"), Errno::NXIO);
    });
    assert_eq!(disk.contents(0, 0..1), [0]);
    read(&disk, 0, 0, 1).expect("it does not hang any more");
}

#[test]
fn older_contents_can_be_put_back() {
    let disk = disk();
    disk.write(0, 0, &filled(2, 7)).expect("written");
    let old = disk.contents(0, 0..2 * PAGE);
    disk.write(0, 0, &filled(2, 8)).expect("written");
    disk.set_contents(0, PAGE, &old[PAGE as usize..]);
    assert_eq!(disk.contents(0, 0..2 * PAGE), [vec![8; 4096], vec![7; 4096]].concat());
}
