//! A server with items on flash is taken over (`--takeover` with `-o ext_path`), or almost.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Megabytes for items in memory.
const MEMORY: &str = "16";
/// Items of four times the memory.
const ITEMS: u64 = 48_000;
/// Items that are stored before the server has written some of them: less than its write buffers hold.
const BATCH: u64 = 200;

/// Steps of an exchange: the kinds of its messages.
const HELLO: u32 = 1;
const OFFER: u32 = 2;
const READY: u32 = 3;
const STATE: u32 = 4;
const CONNECTIONS: u32 = 5;
const HAVE: u32 = 6;

/// A place with a port, files for flash, and servers that follow each other. The last one ends with this value.
struct Place {
    folder: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Place {
    fn new() -> Place {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        // In memory where that is possible: on a disk that others use, a read may take so long that it counts as a miss.
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        let folder = folder.join(format!("evenkeel-takeover-flash-{}-{number}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let port = end_to_end::server::reserve_port().expect("a port").1.port();
        Place { folder, port, server: None }
    }

    fn begin(flags: &[&str]) -> Place {
        let mut place = Place::new();
        let flash = place.flash("a:256m");
        place.server = Some(place.start(&[&["-o", &flash], flags].concat()));
        let serves = clock::wait_for(|| TcpStream::connect(("127.0.0.1", place.port)).ok());
        assert!(serves.is_some(), "{}", place.said());
        place
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Options for flash in a file of this folder.
    fn flash(&self, file: &str) -> String {
        format!("ext_path={},ext_page_size=8,ext_wbuf_size=1,ext_item_size=100", self.path(file))
    }

    fn start(&self, flags: &[&str]) -> Child {
        let subject = ServerUnderTest::evenkeel(SocketDriver::Uring);
        let said = File::options().create(true).append(true).open(self.path("said")).expect("a file");
        let mut command = Command::new(&subject.program);
        command.args(&subject.arguments).args(["-v", "-u", "root", "-l", "127.0.0.1", "-t", "2"]);
        command.args(["-m", MEMORY, "-p", &self.port.to_string(), "--takeover", &self.path("next")]);
        command.args(flags).stdin(Stdio::null()).stderr(said).spawn().expect("a process")
    }

    /// The next one takes over.
    fn follow(&mut self, flags: &[&str]) {
        let flash = self.flash("a:256m");
        let next = self.start(&[&["-o", &flash], flags].concat());
        let mut last = self.server.replace(next).expect("a server");
        let ended = clock::wait_for(|| last.try_wait().expect("a child"));
        assert!(ended.is_some_and(|status| status.success()), "{ended:?} {}", self.said());
    }

    /// The next one fails, and the server goes on.
    #[track_caller]
    fn fail(&mut self, flags: &[&str], expected: &str) {
        let mut next = self.start(flags);
        let ended = clock::wait_for(|| next.try_wait().expect("a child"));
        assert!(ended.is_some_and(|status| !status.success()), "{ended:?} {}", self.said());
        assert!(self.said().contains(expected), "expected {expected}, found {}", self.said());
        assert!(self.server.as_mut().expect("a server").try_wait().expect("a child").is_none());
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
        Client::new(stream)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It may have ended already.
            let _ = server.kill();
            let _ = server.wait();
        }
        if std::thread::panicking() {
            eprintln!("the servers said: {}", self.said());
        }
        // If it fails, the folder does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
fn asks(client: &mut Client, request: &str, expected: &str) {
    assert_eq!(client.ask(format!("{request}\r\n").as_bytes()).expect("an answer"), expected, "{request}");
}

#[track_caller]
fn statistic(client: &mut Client, name: &str) -> u64 {
    client.statistic(name).unwrap_or_else(|error| panic!("{error:#}"))
}

fn value(number: u64, round: u64) -> String {
    let len = 1000 + number % 700;
    let mut value = format!("{number} {round} ").repeat(len as usize / 4);
    value.truncate(len as usize);
    value
}

/// Stores items no faster than the server writes them: otherwise it may drop some.
fn fill(client: &mut Client, numbers: std::ops::Range<u64>, round: u64) {
    for first in numbers.clone().step_by(BATCH as usize) {
        let mut requests = String::new();
        for number in first..numbers.end.min(first + BATCH) {
            let value = value(number, round);
            write!(requests, "set key{number} {round} 0 {} noreply\r\n{value}\r\n", value.len())
                .expect("memory");
        }
        asks(client, &(requests + "mn"), "MN");
        let waits =
            |client: &mut Client| client.statistic("extstore_io_queue").is_ok_and(|waiting| waiting > 2);
        assert!(clock::wait_for(|| (!waits(client)).then_some(())).is_some(), "the server writes");
    }
}

/// How many of these items are there, each with its value of the round that `expected` gives.
#[track_caller]
fn found(client: &mut Client, numbers: std::ops::Range<u64>, expected: impl Fn(u64) -> u64) -> u64 {
    let mut found = 0;
    for first in numbers.clone().step_by(50) {
        let keys: String =
            (first..numbers.end.min(first + 50)).map(|number| format!(" key{number}")).collect();
        let mut line = client.ask(format!("get{keys}\r\n").as_bytes()).expect("an answer");
        while line != "END" {
            let number = line["VALUE key".len()..].split(' ').next().expect("a key");
            let number: u64 = number.parse().expect("a number");
            let (round, value) = (expected(number), value(number, expected(number)));
            assert_eq!(line, format!("VALUE key{number} {round} {}", value.len()));
            assert_eq!(client.line().expect("a value"), value);
            found += 1;
            line = client.line().expect("a line");
        }
    }
    found
}

/// An item that is stored drops one on flash that has the same tag: of as many as there are here, one in one of twenty to thirty tests.
const STRANGERS_MAX: u64 = 3;

/// All of these items are there, but for some that may have been dropped by chance. On a machine that is too busy reads may take so long
/// that they count as misses, and the flash is left alone for 10 s: they are asked for again.
#[track_caller]
fn all_found(client: &mut Client, numbers: std::ops::Range<u64>, expected: impl Fn(u64) -> u64) {
    let (mut there, count) = (0, numbers.end - numbers.start);
    let all = clock::wait_for(|| {
        there = found(client, numbers.clone(), &expected);
        (there + STRANGERS_MAX >= count).then_some(())
    });
    assert!(all.is_some(), "{there} of {count}");
}

#[test]
fn items_on_flash_are_there_in_every_successor() {
    let mut place = Place::begin(&[]);
    let mut client = place.client();
    fill(&mut client, 0..ITEMS, 1);
    for round in 2..5 {
        place.follow(&["-m", if round == 3 { "24" } else { MEMORY }]);
        let items = statistic(&mut client, "curr_items");
        assert!((ITEMS - STRANGERS_MAX..=ITEMS).contains(&items), "round {round}: {items}");
        let of = |number| if number < (round - 2) * 1000 { number / 1000 + 2 } else { 1 };
        all_found(&mut client, 0..ITEMS, of);
        let read = statistic(&mut client, "extstore_objects_read");
        assert!(read >= ITEMS / 2, "{read}");
        assert!(statistic(&mut client, "extstore_page_allocs") < 4, "so do these");
        fill(&mut client, (round - 2) * 1000..(round - 1) * 1000, round);
    }
    assert_eq!(statistic(&mut client, "badcrc_from_extstore"), 0);
}

#[test]
fn a_successor_with_other_flash_is_refused_before_anything_stops() {
    let mut place = Place::begin(&[]);
    let mut client = place.client();
    fill(&mut client, 0..ITEMS / 2, 1);
    let opened = statistic(&mut client, "extstore_page_allocs");
    place.fail(&[], "-o ext_path: expected ");
    let other = |file: &str, option: &str| format!("{},{option}", place.flash(file));
    let cases = [
        (place.flash("b:256m"), "b: No such file or directory"),
        (place.flash("a:248m"), "expected 32 as it has, found 31"),
        (place.flash("a:264m"), "expected 32 as it has, found 33"),
        (format!("{},ext_path={}", place.flash("a:256m"), place.path("b:256m")), "found 2 paths"),
        (other("a:256m", "ext_page_size=16"), "ext_page_size: expected 8 as it has, found 16"),
    ];
    for (options, expected) in cases {
        place.fail(&["-o", &options], expected);
        assert!(!fs::exists(place.path("b")).expect("a folder"), "no file is made");
    }
    fs::copy(place.path("a"), place.path("b")).expect("room");
    fs::rename(place.path("a"), place.path("c")).expect("a folder");
    fs::rename(place.path("b"), place.path("a")).expect("a folder");
    place.fail(&["-o", &place.flash("a:256m")], "a was replaced since it has opened it");
    fs::rename(place.path("c"), place.path("a")).expect("a folder");
    // No other server gets the file meanwhile.
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let flash = place.flash("a:256m");
    let refused = end_to_end::server::Server::start(&subject, &["-o", &flash]).expect_err("it is in use");
    assert!(format!("{refused:#}").contains("alone: a process has it open already"), "{refused:#}");
    all_found(&mut client, 0..ITEMS / 2, |_| 1);
    fill(&mut client, 0..ITEMS, 2);
    assert!(statistic(&mut client, "extstore_page_allocs") > opened, "it still writes");
    place.follow(&[]);
    all_found(&mut client, 0..ITEMS, |_| 2);
}

#[test]
fn a_server_without_flash_has_no_successor_with_it() {
    let mut place = Place::new();
    place.server = Some(place.start(&[]));
    assert!(clock::wait_for(|| TcpStream::connect(("127.0.0.1", place.port)).ok()).is_some());
    let flash = place.flash("a:256m");
    place.fail(&["-o", &flash], "expected none, because it has no items on flash");
    assert!(!fs::exists(place.path("a")).expect("a folder"));
}

/// A process that speaks as a successor does.
struct FakeSuccessor(UnixStream);

impl FakeSuccessor {
    fn new(place: &Place) -> FakeSuccessor {
        let stream =
            clock::wait_for(|| UnixStream::connect(place.folder.join("next")).ok()).expect("it listens");
        stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
        FakeSuccessor(stream)
    }

    fn send(&mut self, kind: u32, bytes: &[u8]) {
        let head = [kind.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
        self.0.write_all(&[&head, bytes].concat()).expect("it takes them");
    }

    /// Receives a message without its descriptors.
    fn wait_for(&mut self, kind: u32) -> Vec<u8> {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).expect("a message");
        let [found, len] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| head[at + byte])));
        assert_eq!(found, kind);
        let mut bytes = vec![0; len as usize];
        self.0.read_exact(&mut bytes).expect("a whole message");
        bytes
    }

    /// Takes part up to this message.
    fn go_to(&mut self, last: u32) {
        for kind in HELLO..=last {
            match kind {
                HELLO => self.send(HELLO, br#"{"format":4,"layout":4,"version":"?"}"#),
                READY | HAVE => self.send(kind, b""),
                CONNECTIONS => while !self.wait_for(CONNECTIONS).is_empty() {},
                _ => drop(self.wait_for(kind)),
            }
        }
    }
}

#[test]
fn a_successor_that_vanishes_at_any_step_leaves_a_flash_that_works() {
    let mut place = Place::begin(&[]);
    let mut client = place.client();
    fill(&mut client, 0..ITEMS, 1);
    let opened = statistic(&mut client, "extstore_page_allocs");
    for (round, last) in (2..).zip([0, HELLO, OFFER, READY, STATE, CONNECTIONS].into_iter().cycle().take(18))
    {
        let mut successor = FakeSuccessor::new(&place);
        successor.go_to(last);
        drop(successor);
        fill(&mut client, 0..200, round);
        let of = |number| if number < 200 { round } else { 1 };
        all_found(&mut client, 0..ITEMS, of);
    }
    let after = statistic(&mut client, "extstore_page_allocs");
    assert!(after <= opened + 2, "a page goes on where it was: {opened} {after}");
    place.follow(&[]);
    all_found(&mut client, 0..ITEMS, |number| if number < 200 { 19 } else { 1 });
}

/// Writers that never stop, so that items go to flash all the time and pages are reused. Each item that is found is no older than what
/// was stored last before it was asked for.
#[test]
fn nothing_old_is_served_while_servers_that_write_follow_each_other() {
    let mut place = Place::begin(&[]);
    let done = AtomicBool::new(false);
    const KEYS: u64 = 30_000;
    let stored: Vec<AtomicU64> = (0..2 * KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (mut client, stored, done) = (place.client(), &stored, &done);
            scope.spawn(move || {
                let mut round = 1;
                while !done.load(Relaxed) {
                    for number in half * KEYS..(half + 1) * KEYS {
                        let value = value(number, round);
                        let set = format!("set key{number} {round} 0 {}\r\n{value}", value.len());
                        asks(&mut client, &set, "STORED");
                        stored[number as usize].store(round, Relaxed);
                        let asked = half * KEYS + (number * 7919) % KEYS;
                        let expected = stored[asked as usize].load(Relaxed);
                        let line =
                            client.ask(format!("mg key{asked} f v\r\n").as_bytes()).expect("an answer");
                        if line != "EN" {
                            assert!(line.ends_with(&format!(" f{expected}")), "{line}: {expected}");
                            let found = client.line().expect("a value");
                            assert_eq!(found, self::value(asked, expected));
                        }
                        if done.load(Relaxed) {
                            return;
                        }
                    }
                    round += 1;
                }
            });
        }
        for round in 0..12 {
            clock::pass(std::time::Duration::from_millis(500));
            match round % 3 {
                // Each other time the successor vanishes when all has been stopped for it.
                1 => FakeSuccessor::new(&place).go_to(CONNECTIONS),
                2 => FakeSuccessor::new(&place).go_to(READY),
                _ => place.follow(&[]),
            }
        }
        done.store(true, Relaxed);
    });
    let mut client = place.client();
    let there = found(&mut client, 0..2 * KEYS, |number| stored[number as usize].load(Relaxed));
    assert!(there > 0);
}

/// Servers are killed at moments of all kinds: of both processes one serves, or none is left and the next begins with an empty flash.
#[test]
fn whichever_process_is_killed_nothing_old_is_served() {
    let mut place = Place::begin(&[]);
    let mut client = place.client();
    fill(&mut client, 0..ITEMS / 2, 1);
    for delay_ms in (0..60).step_by(3) {
        let flash = place.flash("a:256m");
        let mut next = place.start(&["-o", &flash]);
        clock::pass(std::time::Duration::from_millis(delay_ms));
        if delay_ms % 2 == 0 {
            // It may have taken over already: then nobody is left.
            next.kill().expect("a child");
            next.wait().expect("a child");
        } else {
            let mut last = place.server.replace(next).expect("a server");
            last.kill().expect("a child");
            last.wait().expect("a child");
        }
        let serves =
            |place: &mut Place| place.server.as_mut().expect("one").try_wait().expect("a child").is_none();
        let answer = clock::wait_for(|| {
            if !serves(&mut place) {
                return Some(false);
            }
            let mut stream = TcpStream::connect(("127.0.0.1", place.port)).ok()?;
            stream.set_read_timeout(Some(clock::PATIENCE)).ok()?;
            stream.write_all(b"mn\r\n").ok()?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).ok()?;
            (line == "MN\r\n").then_some(true)
        });
        match answer {
            Some(true) => {
                client = place.client();
                // Or it has met nobody, and begun with an empty flash.
                if statistic(&mut client, "curr_items") > 0 {
                    all_found(&mut client, 0..ITEMS / 2, |_| 1);
                } else {
                    fill(&mut client, 0..ITEMS / 2, 1);
                }
            }
            Some(false) => {
                place.server = Some(place.start(&["-o", &flash]));
                assert!(clock::wait_for(|| TcpStream::connect(("127.0.0.1", place.port)).ok()).is_some());
                client = place.client();
                fill(&mut client, 0..ITEMS / 2, 1);
            }
            None => panic!("it serves, and does not answer"),
        }
    }
}
