//! Sets that push items to a disk which writes more slowly than they come.

use store::FlashCounts;

use super::*;

/// The disk writes one piece of 256 KiB in this time.
const PIECE_US: u64 = 20_000;

/// Sets of new items, with values that go to flash.
fn sets(client: usize, count: usize) -> Vec<u8> {
    let set = |number: usize| format!("set new{client}.{number} 0 0 4000\r\n{}\r\n", "n".repeat(4000));
    let mut script: Vec<u8> = (0..count).flat_map(|number| set(number).into_bytes()).collect();
    script.extend_from_slice(b"mn\r\n");
    script
}

/// A stage whose disk is the test's.
struct Slow {
    stage: Stage,
    disk: MemoryDisk,
}

impl Slow {
    fn new(seed: u64) -> Slow {
        Slow { stage: Stage::new(seed, true), disk: MemoryDisk::new(1, DEVICE_BYTES, 1) }
    }

    fn counts(&self) -> FlashCounts {
        self.stage.store.flash_statistics().expect("flash").counts
    }

    /// The disk writes while the world goes on, until all these clients have their last reply. Returns how often it wrote.
    #[track_caller]
    fn write_until_heard(&mut self, clients: &[HostId]) -> usize {
        let (mut written, mut room) = (0, None);
        for _ in 0..3000 {
            let is_done =
                |client: &HostId| self.stage.world.handler::<Client>(*client).heard.ends_with(b"MN\r\n");
            if clients.iter().all(is_done) {
                return written;
            }
            self.stage.world.run_for(PIECE_US);
            written += usize::from(self.stage.store.flash_step(&self.disk, &mut room));
        }
        panic!("not all is answered within a minute");
    }
}

#[test]
fn what_is_stored_faster_than_the_disk_writes_waits_for_it_and_is_not_lost() {
    let mut slow = Slow::new(50);
    let began = slow.stage.world.now().us;
    let before = slow.counts();
    let clients: Vec<HostId> = (0..4).map(|client| slow.stage.client(&sets(client, 500), u64::MAX)).collect();
    // Whoever asks for what is in memory waits for nobody.
    slow.stage.world.run_for(100_000);
    let asked = slow.stage.world.now().us;
    let getter = slow.stage.client(&gets(ITEMS - 20..ITEMS), u64::MAX);
    assert_eq!(count(&slow.stage.hear(getter), b"VALUE"), 20);
    let took = slow.stage.world.handler::<Client>(getter).heard_at_us - asked;
    assert!(took < 10_000, "{took} us for items in memory");
    let written = slow.write_until_heard(&clients);
    for client in clients {
        assert_eq!(count(&slow.stage.hear(client), b"STORED\r\n"), 500);
    }
    let after = slow.counts();
    assert_eq!((after.refused, after.lost), (before.refused, before.lost), "{after:?}");
    assert!(after.objects_written > before.objects_written + 1500, "{after:?}");
    assert!(
        slow.stage.world.now().us - began >= written as u64 * PIECE_US && written > 20,
        "{written} writes"
    );
}

#[test]
fn a_set_waits_a_fifth_of_a_second_for_a_disk_that_hangs_and_not_at_all_after_two() {
    let mut slow = Slow::new(51);
    let alone = |slow: &mut Slow, client: usize| {
        let began = slow.stage.world.now().us;
        let client = slow.stage.client(&sets(client, 1), u64::MAX);
        assert_eq!(count(&slow.stage.hear(client), b"STORED\r\n"), 1);
        slow.stage.world.handler::<Client>(client).heard_at_us - began
    };
    let filling = slow.stage.client(&sets(0, 800), u64::MAX);
    slow.stage.world.run_for(500_000);
    assert!(slow.stage.store.flash_is_behind());
    let took = alone(&mut slow, 1);
    assert!((195_000..210_000).contains(&took), "{took} us");
    let began = slow.stage.world.now().us;
    assert_eq!(count(&slow.stage.hear(filling), b"STORED\r\n"), 800);
    let took = slow.stage.world.handler::<Client>(filling).heard_at_us - began;
    // Room that memory finds meanwhile begins the two seconds anew.
    assert!((1_000_000..4_000_000).contains(&took), "{took} us");
    let took = alone(&mut slow, 2);
    assert!(took < 10_000, "{took} us");
    assert!(slow.counts().refused > 0);
    // It works again: nothing more is lost.
    let mut room = None;
    while slow.stage.store.flash_step(&slow.disk, &mut room) {}
    let before = slow.counts().refused;
    let filling = slow.stage.client(&sets(3, 800), u64::MAX);
    slow.write_until_heard(&[filling]);
    assert_eq!(slow.counts().refused, before);
}

#[test]
fn clients_that_leave_while_their_sets_wait_leave_nothing_behind() {
    let mut slow = Slow::new(52);
    let leaves_at = slow.stage.world.now().us + 300_000;
    (0..20).for_each(|client| {
        slow.stage.client(&sets(client, 100), leaves_at + client as u64 * 1000);
    });
    slow.stage.world.run_for(400_000);
    let client = slow.stage.client(&sets(20, 100), u64::MAX);
    slow.write_until_heard(&[client]);
    assert_eq!(count(&slow.stage.hear(client), b"STORED\r\n"), 100);
}

#[test]
fn what_may_not_be_stored_or_needs_no_disk_does_not_wait() {
    let mut slow = Slow::new(53);
    let filling = slow.stage.client(&sets(0, 800), u64::MAX);
    slow.stage.world.run_for(500_000);
    let began = slow.stage.world.now().us;
    let script = format!("delete item{}\r\nincr item1497 1\r\nget nothing\r\nmn\r\n", ITEMS - 1);
    let client = slow.stage.client(script.as_bytes(), u64::MAX);
    let heard = slow.stage.hear(client);
    assert!(heard.starts_with(b"DELETED\r\n"), "{}", heard.escape_ascii());
    let took = slow.stage.world.handler::<Client>(client).heard_at_us - began;
    assert!(took < 10_000, "{took} us");
    slow.write_until_heard(&[filling]);
}
