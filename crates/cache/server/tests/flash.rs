//! Requests that wait for items on flash, in a simulated network: their replies are those of a server that has all items in
//! memory, whatever the disk does a miss at worst, and nobody else waits.

mod crowds;
mod devices;
mod memory;
mod writes;

use std::sync::Arc;

use flash::Bucket;
use flash::faulty::MemoryDisk;
use net::sim::{DiskConditions, HostId, PathConditions, World};
use net::{Dial, DiskFile, Handler, Next, Opened, Options, Place, Progress, Turn};
use stdx::gather::Gather;
use stdx::prng::Prng;
use store::{Change, Config, FlashConfig, FlashDevice, FlashSettings, NewValue, Store};

const PORT: u16 = 11211;
const STARTED_UNIX_MS: u64 = 1_800_000_000_000;
/// Items of a stage. The first ones are on flash, the last ones in memory.
const ITEMS: usize = 1500;
const ON_FLASH: usize = 400;
const DEVICE_BYTES: u64 = 16 << 20;

fn options() -> Options {
    Options { workers: 1, reads_max: 256, connections_max: 4096, ..Options::default() }
}

fn server_options() -> server::options::Options {
    server::options::Options { threads: 1, ..server::options::Options::default() }
}

/// A client that sends its script at once.
struct Client {
    place: Option<Place>,
    script: Vec<u8>,
    heard: Vec<u8>,
    link: Option<net::Link>,
    /// It resets its connection at this time.
    leaves_at_us: u64,
    /// When the last bytes have come.
    heard_at_us: u64,
    /// How often bytes have come.
    arrivals: usize,
}

impl Handler for Client {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Vec<u8>>) {
        self.link = Some(opened.link);
        turn.output(opened.link).expect("it is open").copy(&self.script);
    }

    fn on_bytes(
        &mut self,
        _: &mut (),
        input: &[u8],
        _output: &mut Gather<Vec<u8>>,
        turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        self.heard.extend_from_slice(input);
        self.heard_at_us = turn.now().us;
        self.arrivals += 1;
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn deadline(&self) -> Option<stdx::clock::Now> {
        self.link.map(|_| stdx::clock::Now { us: self.leaves_at_us })
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        if let Some(place) = self.place.take() {
            turn.dial(Dial { place, timeout_ms: 1000, tls: None }, 0).expect("the first one");
        }
        if turn.now().us >= self.leaves_at_us
            && let Some(link) = self.link.take()
        {
            turn.abort(link);
        }
    }
}

fn is_long(number: usize) -> bool {
    number % 50 == 13
}

/// A value of item `number`, which has its number in it.
fn value_of(number: usize) -> Vec<u8> {
    // Some are large values: two reads bring them, or a long one.
    let len = match number % 50 {
        3 => 40_000 + number,
        _ if is_long(number) => 30_000 + number,
        _ => 3000 + number % 2000,
    };
    format!("{number}.").repeat(25_000).into_bytes()[..len].to_vec()
}

fn with_flash(devices: usize) -> Config {
    let device = FlashDevice { bytes: DEVICE_BYTES, bucket: Bucket::Default };
    let settings = FlashSettings { recache_rate: 0, ..FlashSettings::default() };
    let flash = FlashConfig {
        devices: vec![device; devices],
        segment_bytes: 1 << 20,
        piece_bytes: 256 << 10,
        settings,
    };
    Config {
        memory_limit_bytes: if devices > 0 { 8 << 20 } else { 64 << 20 },
        workers: 2,
        flash: (devices > 0).then_some(flash),
        ..Config::default()
    }
}

/// What item `number` has.
fn content_of(number: usize) -> Vec<u8> {
    // A number alone would be too small for flash.
    if number % 10 == 7 { format!("{number}{}", " ".repeat(600)).into_bytes() } else { value_of(number) }
}

/// A store with items 0 and so on, which have these values, and what its devices have.
fn filled(devices: usize, values: impl Iterator<Item = Vec<u8>>) -> (Arc<Store>, Vec<Vec<u8>>) {
    let store = Store::new(with_flash(devices)).expect("a store");
    let disk = MemoryDisk::new(devices.max(1), DEVICE_BYTES, 1);
    let (mut handle, mut room) = (store.handle(), None);
    for (number, value) in values.enumerate() {
        let name = format!("item{number}");
        let change = Change { flags: number as u32, ..Change::default() };
        handle.store(&handle.key(name.as_bytes()), &change, NewValue::Bytes(&value), 1).expect("room");
        while store.flash_step(&disk, &mut room) {}
    }
    (store, (0..devices).map(|device| disk.contents(device, 0..DEVICE_BYTES)).collect())
}

struct Stage {
    world: World,
    server: HostId,
    devices: Vec<DiskFile>,
    store: Arc<Store>,
}

impl Stage {
    fn new(seed: u64, has_flash: bool) -> Stage {
        Stage::with_devices(seed, usize::from(has_flash))
    }

    fn with_devices(seed: u64, devices: usize) -> Stage {
        Stage::with_values(seed, devices, (0..ITEMS).map(content_of))
    }

    fn with_values(seed: u64, devices: usize, values: impl Iterator<Item = Vec<u8>>) -> Stage {
        let mut world = World::new(seed);
        let (store, contents) = filled(devices, values);
        let devices: Vec<DiskFile> = contents.into_iter().map(|contents| world.add_file(contents)).collect();
        let files = devices.clone();
        let worker = server::sim::worker_over(&server_options(), STARTED_UNIX_MS, Arc::clone(&store), files);
        let server = world.add(worker, &[PORT], &options());
        Stage { world, server, devices, store }
    }

    fn set_disk(&mut self, conditions: DiskConditions) {
        self.devices.iter().for_each(|device| self.world.set_disk(device, conditions));
    }

    fn client(&mut self, script: &[u8], leaves_at_us: u64) -> HostId {
        let place = Some(self.world.place(self.server, PORT));
        let client = Client {
            place,
            script: script.to_vec(),
            heard: Vec::new(),
            link: None,
            leaves_at_us,
            heard_at_us: 0,
            arrivals: 0,
        };
        self.world.add(client, &[], &options())
    }

    /// What a client hears until its last request, a `mn`, is answered.
    #[track_caller]
    fn hear(&mut self, client: HostId) -> Vec<u8> {
        let is_done = |world: &mut World| world.handler::<Client>(client).heard.ends_with(b"MN\r\n");
        assert!(self.world.run_until(60_000_000, is_done), "the last request is not answered");
        std::mem::take(&mut self.world.handler::<Client>(client).heard)
    }

    fn converse(&mut self, script: &[u8]) -> Vec<u8> {
        let client = self.client(script, u64::MAX);
        self.hear(client)
    }

    fn flash_hits(&self) -> u64 {
        self.store.flash_statistics().expect("there is flash").counts.objects_read
    }
}

/// Requests of all kinds for random items, whose replies do not depend on where an item lies.
fn script(prng: &mut Prng, count: usize) -> Vec<u8> {
    let mut script = Vec::new();
    for _ in 0..count {
        let item = prng.below(ITEMS as u64 + 20) as usize;
        let number = prng.below(ITEMS as u64 / 10) as usize * 10 + 7;
        let request = match prng.below(20) {
            0..4 => format!("get item{item}\r\n"),
            4 => {
                let name = |_| format!(" item{}", prng.below(ITEMS as u64 + 20));
                format!("get{}\r\n", (0..40).map(name).collect::<String>())
            }
            5 => format!("mg item{item} s v f k Oabc\r\n"),
            6 => format!("mg item{item} s\r\n"),
            7 => format!("mg item{item} T300 v t\r\n"),
            8 => format!("touch item{item} 500\r\n"),
            9 => format!("gat 600 item{item} item{number}\r\n"),
            10 => format!("incr item{number} 5\r\n"),
            11 => format!("ma item{number} N0 J3 v\r\n"),
            12 => format!("append item{item} 0 0 3\r\nabc\r\n"),
            13 => format!("ms item{item} 2 MP F0\r\nxy\r\n"),
            14 => format!("add item{item} 0 0 700\r\n{}\r\n", "a".repeat(700)),
            15 => format!("replace item{item} 1 0 5\r\nsmall\r\n"),
            16 => format!("set item{item} 2 0 800\r\n{}\r\n", "s".repeat(800)),
            17 => format!("cas item{item} 0 0 2 1\r\nno\r\n"),
            18 => format!("md item{item} I q\r\n"),
            _ => format!("delete item{item}\r\n"),
        };
        script.extend_from_slice(request.as_bytes());
    }
    // What a deletion says does not depend on where a dead item lies either.
    script.extend_from_slice(b"delete item2\r\ndelete item2\r\ntouch item4 -1\r\nflush_all\r\n");
    for number in 0..40 {
        script.extend_from_slice(format!("delete item{number}\r\nmd item{} k\r\n", number + 40).as_bytes());
    }
    script.extend_from_slice(b"mn\r\n");
    script
}

#[track_caller]
fn check_same(heard: &[u8], expected: &[u8], whose: &str) {
    let same = heard.iter().zip(expected).take_while(|(heard, reply)| heard == reply).count();
    let show =
        |all: &[u8]| all[same.saturating_sub(60)..(same + 60).min(all.len())].escape_ascii().to_string();
    assert!(heard == expected, "{whose}, byte {same}: {} instead of {}", show(heard), show(expected));
}

/// Replies to `cas` and `md I` depend on uniques, but not on which: nothing else does.
#[test]
fn replies_are_those_of_a_server_with_all_items_in_memory() {
    for seed in 0..12 {
        let script = script(&mut Prng::new(seed), 300);
        let expected = Stage::new(seed, false).converse(&script);
        let mut stage = Stage::new(seed, true);
        // In pieces of any size, and with reads that are continued.
        let piece_max = if seed % 3 == 0 { 7 } else { 1400 };
        let path = PathConditions { delay_us: 50, jitter_us: 200, loss_ppm: 0, piece_max };
        stage.world.set_default_path(path);
        stage.set_disk(DiskConditions { jitter_us: 2000, short_ppm: 200_000, ..DiskConditions::default() });
        let heard = stage.converse(&script);
        check_same(&heard, &expected, &format!("seed {seed}"));
        assert!(stage.flash_hits() > 50, "{}", stage.flash_hits());
    }
}

fn gets(range: std::ops::Range<usize>) -> Vec<u8> {
    let mut script: Vec<u8> = range.flat_map(|number| format!("get item{number}\r\n").into_bytes()).collect();
    script.extend_from_slice(b"mn\r\n");
    script
}

fn count(heard: &[u8], what: &[u8]) -> usize {
    heard.windows(what.len()).filter(|window| *window == what).count()
}

#[test]
fn a_read_that_fails_is_a_miss_and_the_item_is_gone() {
    let mut stage = Stage::new(1, true);
    stage.set_disk(DiskConditions { error_ppm: 1_000_000, ..DiskConditions::default() });
    let heard = stage.converse(&gets(0..10));
    assert_eq!((count(&heard, b"VALUE"), count(&heard, b"END\r\n")), (0, 10));
    stage.set_disk(DiskConditions::default());
    let heard = stage.converse(&gets(0..10));
    assert_eq!(count(&heard, b"VALUE"), 0);
    let heard = stage.converse(&gets(10..60));
    assert_eq!(count(&heard, b"VALUE"), 50, "others are there");
    assert_eq!(stage.store.flash_statistics().expect("flash").counts.lost, 10);
}

/// Sixteen requests wait in vain, and then nobody does for ten seconds.
#[test]
fn a_disk_that_hangs_is_left_alone() {
    let mut stage = Stage::new(5, true);
    stage.set_disk(DiskConditions { delay_us: 3_000_000, ..DiskConditions::default() });
    let first: Vec<HostId> =
        (0..16).map(|number| stage.client(&gets(number..number + 1), u64::MAX)).collect();
    first.iter().for_each(|client| assert_eq!(count(&stage.hear(*client), b"VALUE"), 0));
    let began = stage.world.now().us;
    let later = stage.client(&gets(16..100), u64::MAX);
    assert_eq!(count(&stage.hear(later), b"VALUE"), 0);
    let took = stage.world.handler::<Client>(later).heard_at_us - began;
    assert!(took < 50_000, "{took} us for 84 requests");
    stage.set_disk(DiskConditions::default());
    stage.world.run_until(11_000_000, |_| false);
    let heard = stage.converse(&gets(0..100));
    assert_eq!(count(&heard, b"VALUE"), 100, "nothing was lost");
}

#[test]
fn a_disk_that_hangs_costs_a_tenth_of_a_second_and_delays_nobody_else() {
    let mut stage = Stage::new(2, true);
    stage.set_disk(DiskConditions { delay_us: 20_000_000, ..DiskConditions::default() });
    let began = stage.world.now().us;
    let waiting = stage.client(&gets(0..1), u64::MAX);
    let other = stage.client(&gets(ITEMS - 100..ITEMS), u64::MAX);
    let heard = stage.hear(other);
    assert_eq!(count(&heard, b"VALUE"), 100);
    let took = stage.world.handler::<Client>(other).heard_at_us - began;
    assert!(took < 50_000, "items in memory: {took} us");
    let heard = stage.hear(waiting);
    assert_eq!(count(&heard, b"VALUE"), 0, "a miss");
    let took = stage.world.handler::<Client>(waiting).heard_at_us - began;
    assert!((100_000..160_000).contains(&took), "{took} us");
    // Nothing was lost: the disk is well again.
    stage.set_disk(DiskConditions::default());
    stage.world.run_until(25_000_000, |_| false);
    assert_eq!(count(&stage.converse(&gets(0..1)), b"VALUE"), 1);
}

#[test]
fn more_requests_than_reads_wait_for_their_places_and_then_miss() {
    const CLIENTS: usize = 2300;
    // With 50 ms, 2048 have a place. The device has 256 at a time, which makes 768 in the tenth of a second that the others wait.
    for (delay_us, expected) in [(100, CLIENTS), (50_000, 768)] {
        let mut stage = Stage::new(3, true);
        stage.set_disk(DiskConditions { delay_us, jitter_us: 0, ..DiskConditions::default() });
        let item = |client: usize| client % ON_FLASH;
        let clients: Vec<HostId> = (0..CLIENTS)
            .map(|client| stage.client(&gets(item(client)..item(client) + 1), u64::MAX))
            .collect();
        let hits: usize = clients.iter().map(|client| count(&stage.hear(*client), b"VALUE")).sum();
        let aborted = stage.store.flash_statistics().expect("flash").counts.aborted;
        assert_eq!(hits + aborted as usize, CLIENTS, "with {delay_us} us");
        // A large value needs two reads.
        assert!((expected - expected / 50..=expected).contains(&hits), "{hits} hits with {delay_us} us");
        // Those that waited for the device are not its fault.
        assert_eq!(count(&stage.converse(&gets(0..100)), b"VALUE"), 100);
    }
}

#[test]
fn values_of_a_pipeline_leave_together() {
    let mut stage = Stage::new(6, true);
    stage.set_disk(DiskConditions { delay_us: 100, jitter_us: 3000, ..DiskConditions::default() });
    for (requests, most) in [(15, 1), (31, 2)] {
        // Small values, and the first of them in memory.
        let numbers: Vec<usize> = (0..).map(|at| 10 * at + 7).take(requests).collect();
        let mut script: Vec<u8> =
            numbers.iter().flat_map(|number| format!("get item{number}\r\n").into_bytes()).collect();
        script.extend_from_slice(b"mn\r\n");
        let client = stage.client(&script, u64::MAX);
        assert_eq!(count(&stage.hear(client), b"VALUE"), requests);
        let arrivals = stage.world.handler::<Client>(client).arrivals;
        assert!(arrivals <= most, "{arrivals} sends for {requests} values");
    }
}

#[test]
fn a_pipeline_with_reads_that_take_too_long_has_its_other_values() {
    let mut stage = Stage::new(7, true);
    // A third of the reads.
    stage.set_disk(DiskConditions { delay_us: 100, jitter_us: 150_000, ..DiskConditions::default() });
    let began = stage.world.now().us;
    let clients = [4, 14].map(|at| stage.client(&gets(at..at + 10), u64::MAX));
    for client in clients {
        let heard = stage.hear(client);
        assert_eq!(count(&heard, b"END\r\n"), 10);
        let hits = count(&heard, b"VALUE");
        assert!((3..=9).contains(&hits), "{hits} of 10");
        let took = stage.world.handler::<Client>(client).heard_at_us - began;
        assert!((100_000..110_000).contains(&took), "{took} us");
    }
}

#[test]
fn clients_that_leave_while_they_wait_leave_nothing_behind() {
    let mut stage = Stage::new(4, true);
    stage.set_disk(DiskConditions { delay_us: 30_000, ..DiskConditions::default() });
    let began = stage.world.now().us;
    (0..ON_FLASH).for_each(|number| {
        stage.client(&gets(number..number + 1), began + 5_000 + number as u64 * 50);
    });
    stage.world.run_until(1_000_000, |_| false);
    stage.set_disk(DiskConditions::default());
    let heard = stage.converse(&gets(0..200));
    assert_eq!(count(&heard, b"VALUE"), 200);
    assert_eq!(stage.store.flash_statistics().expect("flash").counts.lost, 0);
}

/// A dump, and its end after an `mn` where it has none of its own.
fn dump(command: &str) -> Vec<u8> {
    format!("{command} all\r\n").into_bytes()
}

impl Stage {
    /// The keys of a `metadump`, and the lines that name a place on flash.
    #[track_caller]
    fn hear_dump(&mut self, client: HostId) -> (Vec<String>, usize) {
        let is_done = |world: &mut World| world.handler::<Client>(client).heard.ends_with(b"END\r\n");
        assert!(self.world.run_until(120_000_000, is_done), "the dump does not end");
        let heard = std::mem::take(&mut self.world.handler::<Client>(client).heard);
        let text = String::from_utf8(heard).expect("text");
        let key = |line: &str| Some(line.strip_prefix("key=")?.split(' ').next()?.to_owned());
        let keys = text.lines().filter_map(key).collect();
        (
            keys,
            text.lines().filter(|line| line.contains(" ext_page=") && line.contains(" ext_offset=")).count(),
        )
    }

    fn metadump(&mut self) -> (Vec<String>, usize) {
        let client = self.client(&dump("lru_crawler metadump"), u64::MAX);
        self.hear_dump(client)
    }
}

fn distinct(keys: &[String]) -> usize {
    keys.iter().collect::<std::collections::HashSet<_>>().len()
}

#[test]
fn dumps_list_items_on_flash_and_in_memory_once() {
    let mut stage = Stage::new(20, true);
    stage.set_disk(DiskConditions { jitter_us: 2000, short_ppm: 200_000, ..DiskConditions::default() });
    let on_flash = stage.store.flash_statistics().expect("flash").objects as usize;
    let (keys, places) = stage.metadump();
    assert_eq!((keys.len(), distinct(&keys), places), (ITEMS, ITEMS, on_flash));
    let client = stage.client(&[dump("lru_crawler mgdump")].concat(), u64::MAX);
    let is_done = |world: &mut World| world.handler::<Client>(client).heard.ends_with(b"EN\r\n");
    assert!(stage.world.run_until(60_000_000, is_done));
    let heard = std::mem::take(&mut stage.world.handler::<Client>(client).heard);
    assert_eq!(count(&heard, b"mg item"), ITEMS);
    assert_eq!(stage.flash_hits(), 0, "a dump is no use");
}

/// They take turns, and each has all.
#[test]
fn many_dumps_at_once_all_end_and_requests_do_not_miss() {
    let mut stage = Stage::new(21, true);
    stage.set_disk(DiskConditions { delay_us: 2000, jitter_us: 500, ..DiskConditions::default() });
    let dumps: Vec<HostId> = (0..40).map(|_| stage.client(&dump("lru_crawler metadump"), u64::MAX)).collect();
    let began = stage.world.now().us;
    let reader = stage.client(&gets(0..200), u64::MAX);
    assert_eq!(count(&stage.hear(reader), b"VALUE"), 200);
    let took = stage.world.handler::<Client>(reader).heard_at_us - began;
    assert!(took < 300_000, "{took} us");
    for client in dumps {
        assert_eq!(distinct(&stage.hear_dump(client).0), ITEMS);
    }
    assert_eq!(stage.store.flash_statistics().expect("flash").counts.dump_bytes_skipped, 0);
}

#[test]
fn a_disk_that_hangs_or_fails_does_not_keep_a_dump_from_its_end() {
    let hangs = DiskConditions { delay_us: 20_000_000, ..DiskConditions::default() };
    let fails = DiskConditions { error_ppm: 1_000_000, ..DiskConditions::default() };
    for (seed, conditions) in [(22, hangs), (23, fails)] {
        let mut stage = Stage::new(seed, true);
        stage.set_disk(conditions);
        let began = stage.world.now().us;
        let clients = [(); 12].map(|()| stage.client(&dump("lru_crawler metadump"), u64::MAX));
        for client in clients {
            let (keys, places) = stage.hear_dump(client);
            assert!((500..ITEMS).contains(&keys.len()), "{} items, {places} on flash", keys.len());
            let took = stage.world.handler::<Client>(client).heard_at_us - began;
            assert!(took < 3_000_000, "{took} us");
        }
        let counts = stage.store.flash_statistics().expect("flash").counts;
        assert!(counts.dump_bytes_skipped > 0 && counts.lost == 0, "{counts:?}");
        stage.set_disk(DiskConditions::default());
        stage.world.run_until(31_000_000, |_| false);
        assert_eq!(stage.metadump().0.len(), ITEMS, "nothing was lost");
    }
}

#[test]
fn clients_that_leave_during_a_dump_leave_the_turn_to_others() {
    let mut stage = Stage::new(24, true);
    stage.set_disk(DiskConditions { delay_us: 5000, ..DiskConditions::default() });
    let began = stage.world.now().us;
    for number in 0..60 {
        stage.client(&dump("lru_crawler metadump"), began + 3_000 + number * 700);
    }
    let (keys, _) = stage.metadump();
    assert_eq!(distinct(&keys), ITEMS);
}
