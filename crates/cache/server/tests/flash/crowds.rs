//! Many clients at once, each with items of its own and some that all of them read, so that each one's replies are known whatever the
//! others do.

use super::*;

const OWNERS: usize = 24;
/// Requests of an owner.
const REQUESTS: usize = 40;
/// The end of what a client with packets hears.
const LAST_PACKET: [u8; 24] = packet_head(0x81, 0x0a, [0xff; 4]);

const fn packet_head(magic: u8, opcode: u8, opaque: [u8; 4]) -> [u8; 24] {
    let mut head = [0; 24];
    (head[0], head[1]) = (magic, opcode);
    (head[12], head[13], head[14], head[15]) = (opaque[0], opaque[1], opaque[2], opaque[3]);
    head
}

/// A request with a key, and with extras and a value.
fn packet(opcode: u8, opaque: u32, extras: &[u8], key: &str, value: &[u8]) -> Vec<u8> {
    let mut packet = packet_head(0x80, opcode, opaque.to_be_bytes()).to_vec();
    packet[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    packet[4] = extras.len() as u8;
    let body = extras.len() + key.len() + value.len();
    packet[8..12].copy_from_slice(&(body as u32).to_be_bytes());
    [&packet[..], extras, key.as_bytes(), value].concat()
}

/// An item that everybody reads and nobody changes. The large values are among them.
fn shared(prng: &mut Prng) -> usize {
    prng.below(90) as usize * 10 + 3
}

/// An item of an owner; most of them are on flash, and some may not be there.
fn own(prng: &mut Prng, owner: usize) -> usize {
    let decades = if prng.below(4) == 0 { 160 } else { 72 };
    let of_owner = (decades - owner).div_ceil(OWNERS) as u64;
    let decade = owner + prng.below(of_owner) as usize * OWNERS;
    let digit = [0, 1, 2, 4, 5, 6, 7, 8, 9][prng.below(9) as usize];
    10 * decade + digit
}

fn base64_of(key: &str) -> String {
    let mut encoded = Vec::new();
    protocol::base64::encode(&mut encoded, key.as_bytes());
    String::from_utf8(encoded).expect("base64 is text")
}

/// A line that only reads.
fn reading_line(prng: &mut Prng, mut item: impl FnMut(&mut Prng) -> usize) -> String {
    let number = item(prng);
    match prng.below(8) {
        0..4 => format!("get item{number}\r\n"),
        4 => format!("mg item{number} s v f k Oabc\r\n"),
        5 => format!("mg {} b v k q\r\n", base64_of(&format!("item{number}"))),
        6 => {
            let keys = 2 + prng.below(100);
            let names: String = (0..keys).map(|_| format!(" item{}", item(prng))).collect();
            format!("get{names}\r\n")
        }
        // The same key several times.
        _ => format!("get item{number}\r\n").repeat(1 + prng.below(6) as usize),
    }
}

fn lines_of_owner(prng: &mut Prng, owner: usize) -> Vec<u8> {
    let mut script = Vec::new();
    for _ in 0..REQUESTS {
        let item = own(prng, owner);
        let either = |prng: &mut Prng| if prng.below(2) == 0 { shared(prng) } else { own(prng, owner) };
        let line = match prng.below(24) {
            0 => format!("touch item{item} 500\r\n"),
            1 => format!("gat 600 item{item} item{}\r\n", own(prng, owner)),
            2 => format!("append item{item} 0 0 3\r\nabc\r\n"),
            3 => format!("set item{item} 2 0 800\r\n{}\r\n", "s".repeat(800)),
            4 => format!("delete item{item}\r\n"),
            5 => format!("md item{item} q\r\n"),
            6 => format!("add item{item} 0 0 5\r\nadded\r\n"),
            7 => format!("incr item{} 5\r\n", item / 10 * 10 + 7),
            8 => format!("mg item{item} s t\r\n"),
            _ => reading_line(prng, either),
        };
        script.extend_from_slice(line.as_bytes());
    }
    script.extend_from_slice(b"mn\r\n");
    script
}

fn packets_of_owner(prng: &mut Prng, owner: usize) -> Vec<u8> {
    let mut script = Vec::new();
    for opaque in 0..REQUESTS as u32 {
        let name = format!("item{}", own(prng, owner));
        let shared = format!("item{}", shared(prng));
        script.extend(match prng.below(12) {
            0 => packet(0x04, opaque, &[], &name, &[]),
            1 => packet(0x01, opaque, &[0; 8], &name, &[b'x'; 700]),
            2 => packet(0x1c, opaque, &[0, 0, 2, 0], &name, &[]),
            3 => packet(0x1d, opaque, &[0, 0, 2, 0], &name, &[]),
            4 => packet(0x0e, opaque, &[], &name, b"abc"),
            // get, getq, getk, getkq
            5 => packet(0x00, opaque, &[], &shared, &[]),
            6 => packet(0x0c, opaque, &[], &name, &[]),
            7 | 8 => packet(0x0d, opaque, &[], &shared, &[]),
            _ => packet(0x09, opaque, &[], &name, &[]),
        });
    }
    script.extend_from_slice(&packet_head(0x80, 0x0a, [0xff; 4]));
    script
}

/// Replies without their uniques, which say in which order the items of all clients were stored.
fn without_uniques(mut replies: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(head) = replies.get_mut(at..at + 24) {
        head[16..].fill(0);
        at += 24 + u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
    }
    assert_eq!(at, replies.len(), "whole packets");
    replies
}

/// A client with its script, and how its replies end.
struct Owner {
    script: Vec<u8>,
    has_packets: bool,
}

impl Owner {
    fn new(prng: &mut Prng, number: usize) -> Owner {
        let has_packets = number % 4 == 1;
        let script = if has_packets { packets_of_owner(prng, number) } else { lines_of_owner(prng, number) };
        Owner { script, has_packets }
    }

    #[track_caller]
    fn hear(&self, stage: &mut Stage, client: HostId) -> Vec<u8> {
        let end = if self.has_packets { &LAST_PACKET[..] } else { &b"MN\r\n"[..] };
        let is_done = |world: &mut World| world.handler::<Client>(client).heard.ends_with(end);
        assert!(stage.world.run_until(10_000_000, is_done), "the last request is not answered");
        let heard = std::mem::take(&mut stage.world.handler::<Client>(client).heard);
        if self.has_packets { without_uniques(heard) } else { heard }
    }
}

/// Clients that read much and do not stay: they reset their connections at any time, or hear nothing for a while.
fn restless(stage: &mut Stage, prng: &mut Prng, count: usize) -> Vec<HostId> {
    let began = stage.world.now().us;
    let mut deaf = Vec::new();
    for _ in 0..count {
        let lines: String = (0..20).map(|_| reading_line(prng, shared)).collect();
        let is_deaf = prng.below(3) == 0;
        let leaves_at_us = if is_deaf { u64::MAX } else { began + prng.below(40_000) };
        let client = stage.client(lines.as_bytes(), leaves_at_us);
        if is_deaf {
            deaf.push(client);
        }
    }
    deaf
}

/// No read is left behind. No item was written, so there are no buffers that wait.
#[track_caller]
fn check_rest(stage: &mut Stage) {
    stage.world.run_for(1_000_000);
    let heard = String::from_utf8(stage.converse(b"stats\r\nmn\r\n")).expect("text");
    assert!(heard.contains("STAT extstore_io_queue 0\r\n"), "{heard}");
}

fn conditions(seed: u64) -> (DiskConditions, PathConditions) {
    let disk = [
        DiskConditions::default(),
        DiskConditions { delay_us: 50, jitter_us: 2000, error_ppm: 0, short_ppm: 200_000 },
        DiskConditions { delay_us: 0, jitter_us: 0, error_ppm: 0, short_ppm: 0 },
        DiskConditions { delay_us: 100, jitter_us: 7000, error_ppm: 0, short_ppm: 20_000 },
    ];
    let path = PathConditions { delay_us: 50, jitter_us: 20, loss_ppm: 0, piece_max: usize::MAX };
    let pieces = PathConditions { jitter_us: 300, piece_max: 100 + (seed % 7) as usize * 300, ..path };
    (disk[(seed % 4) as usize], if seed.is_multiple_of(3) { pieces } else { path })
}

/// The replies to each owner, and those of a server with all items in memory.
fn check_crowd(seed: u64) {
    let prng = &mut Prng::new(seed);
    let owners: Vec<Owner> = (0..OWNERS).map(|number| Owner::new(prng, number)).collect();
    let mut in_memory = Stage::new(seed, false);
    let expected: Vec<Vec<u8>> = owners
        .iter()
        .map(|owner| {
            let client = in_memory.client(&owner.script, u64::MAX);
            owner.hear(&mut in_memory, client)
        })
        .collect();
    let mut stage = Stage::with_devices(seed, 1 + (seed % 2) as usize);
    let (disk, path) = conditions(seed);
    stage.set_disk(disk);
    stage.world.set_default_path(path);
    let mut clients = Vec::new();
    let mut deaf = restless(&mut stage, prng, 10);
    for (number, owner) in owners.iter().enumerate() {
        clients.push(stage.client(&owner.script, u64::MAX));
        if number % 5 == 4 {
            deaf.extend(restless(&mut stage, prng, 4));
            stage.world.run_for(prng.below(3000));
        }
    }
    let dump = stage.client(&dump("lru_crawler metadump"), u64::MAX);
    stage.world.run_for(prng.below(2000));
    deaf.iter().for_each(|client| stage.world.partition(stage.server, *client));
    for (number, ((owner, client), expected)) in owners.iter().zip(clients).zip(expected).enumerate() {
        let heard = owner.hear(&mut stage, client);
        check_same(&heard, &expected, &format!("seed {seed}, owner {number}"));
    }
    let (keys, _) = stage.hear_dump(dump);
    assert!(keys.len() > ITEMS / 2, "{} items", keys.len());
    assert!(stage.flash_hits() > 200, "{}", stage.flash_hits());
}

#[test]
fn replies_to_each_of_many_are_those_of_a_server_with_all_items_in_memory() {
    (0..8).for_each(check_crowd);
}

#[test]
fn a_single_get_does_not_wait_for_what_many_others_asked_for_in_advance() {
    let mut stage = Stage::new(1, true);
    let delay_us = 8000;
    stage.set_disk(DiskConditions { delay_us, jitter_us: 0, ..DiskConditions::default() });
    let is_short = |number: &usize| number % 50 != 3 && !is_long(*number);
    let ahead: String =
        (0..ON_FLASH).filter(is_short).map(|number| format!("get item{number}\r\n")).collect();
    (0..100).for_each(|_| _ = stage.client(ahead.as_bytes(), u64::MAX));
    stage.world.run_for(30_000);
    let began_us = stage.world.now().us;
    let heard = stage.converse(b"get item0\r\nmn\r\n");
    assert!(heard.starts_with(b"VALUE item0 "), "{}", heard.escape_ascii());
    // For what is in flight, and for its own read: not for the thousand that waited before it.
    let waited_us = stage.world.now().us - began_us;
    assert!(waited_us < 3 * delay_us, "{waited_us} µs");
}

/// Takes a line from what was heard.
fn take_line<'h>(heard: &mut &'h [u8]) -> &'h str {
    let all: &'h [u8] = heard;
    let end = all.windows(2).position(|window| window == b"\r\n").expect("whole lines");
    *heard = &all[end + 2..];
    std::str::from_utf8(&all[..end]).expect("text")
}

/// Checks replies to gets: each value is that of its item. Returns how many there are, and how many ends.
#[track_caller]
fn check_values(mut heard: &[u8]) -> (usize, usize) {
    let (mut values, mut ends) = (0, 0);
    while !heard.is_empty() {
        let line = take_line(&mut heard);
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["END"] => ends += 1,
            ["MN"] => assert!(heard.is_empty(), "the last request is answered last"),
            ["VALUE", key, flags, len] => {
                let number: usize = flags.parse().expect("a number");
                let len: usize = len.parse().expect("a length");
                assert_eq!(key, format!("item{number}"));
                assert!(heard[..len] == content_of(number)[..], "the value of {key}");
                assert_eq!(&heard[len..len + 2], b"\r\n");
                heard = &heard[len + 2..];
                values += 1;
            }
            _ => panic!("{line}"),
        }
    }
    (values, ends)
}

/// Reads that fail, are short, or come too late, for more clients than there are places, some of which leave.
fn check_bad_disk(seed: u64) -> usize {
    let prng = &mut Prng::new(seed);
    let mut stage = Stage::with_devices(seed, 1 + (seed % 3) as usize);
    let (_, path) = conditions(seed);
    stage.world.set_default_path(path);
    for device in stage.devices.clone() {
        let disk = DiskConditions {
            delay_us: [50, 1000, 20_000][prng.below(3) as usize],
            jitter_us: [100, 5000, 90_000, 110_000][prng.below(4) as usize],
            error_ppm: prng.below(10_000) as u32,
            short_ppm: prng.below(300_000) as u32,
        };
        stage.world.set_disk(&device, disk);
    }
    let began = stage.world.now().us;
    let mut clients = Vec::new();
    for _ in 0..200 {
        let gets = 1 + prng.below(30) as usize;
        let item = |prng: &mut Prng| loop {
            let number = prng.below(700) as usize;
            if number % 10 != 7 {
                return number;
            }
        };
        let mut script: String = (0..gets).map(|_| format!("get item{}\r\n", item(prng))).collect();
        let keys: String = (0..prng.below(60)).map(|_| format!(" item{}", item(prng))).collect();
        script.push_str(&format!("get item{}{keys}\r\nmn\r\n", item(prng)));
        let leaves_at_us = if prng.below(4) == 0 { began + prng.below(150_000) } else { u64::MAX };
        let client = stage.client(script.as_bytes(), leaves_at_us);
        if leaves_at_us == u64::MAX {
            clients.push((client, gets + 1));
        }
    }
    let mut all = 0;
    for (client, requests) in clients {
        let heard = stage.hear(client);
        let (values, ends) = check_values(&heard);
        assert_eq!(ends, requests, "seed {seed}");
        all += values;
        let took_us = stage.world.handler::<Client>(client).heard_at_us - began;
        assert!(took_us < 20_000_000, "seed {seed}: {took_us} us");
    }
    check_rest(&mut stage);
    all
}

#[test]
fn whatever_the_disks_do_values_are_right_and_every_request_is_answered() {
    let values: usize = (0..8).map(check_bad_disk).sum();
    assert!(values > 2000, "{values} values");
}
