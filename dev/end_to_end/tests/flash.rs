//! A server with a flash tier (`-o ext_path`): items that memory has no room for, statistics, settings, failures.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use stdx::exposition::read;

/// Megabytes for items in memory.
const MEMORY: &str = "16";
/// Items of four times the memory.
const ITEMS: u64 = 48_000;
/// Items that are stored before the server has written some of them: less than its write buffers hold.
const BATCH: u64 = 200;

/// The file of a test's flash, removed with this value.
struct FlashFile(PathBuf);

impl FlashFile {
    fn new() -> FlashFile {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // In memory where that is possible: on a disk that others use, a read may take so long that it counts as a miss.
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        FlashFile(folder.join(format!("evenkeel-flash-{}-{number}", std::process::id())))
    }

    fn options(&self) -> String {
        format!("ext_path={}:256m,ext_page_size=8,ext_wbuf_size=1,ext_item_size=100", self.0.display())
    }

    fn server(&self, driver: SocketDriver, flags: &[&str]) -> Server {
        let (subject, options) = (ServerUnderTest::evenkeel(driver), self.options());
        let own = ["-v", "-m", MEMORY, "-t", "2", "-o", &options];
        Server::start(&subject, &[&own, flags].concat()).expect("a server")
    }
}

impl Drop for FlashFile {
    fn drop(&mut self) {
        // If it fails, the file is in nobody's way.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

#[track_caller]
fn asks(client: &mut Client, request: &str, expected: &str) {
    let request = format!("{request}\r\n");
    assert_eq!(client.ask(request.as_bytes()).expect("an answer"), expected, "{request}");
}

#[track_caller]
fn statistic(client: &mut Client, name: &str) -> u64 {
    client.statistic(name).unwrap_or_else(|error| panic!("{error:#}"))
}

/// The value of an item in its `round`th version.
fn value(number: u64, round: u64) -> String {
    let len = 1000 + number % 700;
    let mut value = format!("{number} {round} ").repeat(len as usize / 4);
    value.truncate(len as usize);
    value
}

fn set(number: u64, round: u64, requests: &mut String) {
    let value = value(number, round);
    write!(requests, "set key{number} {round} 0 {} noreply\r\n{value}\r\n", value.len()).expect("memory");
}

/// Stores items no faster than the server writes them: otherwise it may drop some.
fn fill(client: &mut Client, numbers: std::ops::Range<u64>, round: u64) {
    for first in numbers.clone().step_by(BATCH as usize) {
        let mut requests = String::new();
        (first..numbers.end.min(first + BATCH)).for_each(|number| set(number, round, &mut requests));
        asks(client, &(requests + "mn"), "MN");
        let waits =
            |client: &mut Client| client.statistic("extstore_io_queue").is_ok_and(|waiting| waiting > 2);
        let is_written = clock::wait_for(|| (!waits(client)).then_some(()));
        assert!(is_written.is_some(), "the server writes");
    }
}

/// How many of these items are there. Each has its value of the round that `expected` gives.
#[track_caller]
fn found(client: &mut Client, numbers: std::ops::Range<u64>, expected: impl Fn(u64) -> Option<u64>) -> u64 {
    let mut found = 0;
    for first in numbers.clone().step_by(50) {
        let keys: String =
            (first..numbers.end.min(first + 50)).map(|number| format!(" key{number}")).collect();
        let mut line = client.ask(format!("get{keys}\r\n").as_bytes()).expect("an answer");
        while line != "END" {
            let number = line["VALUE key".len()..].split(' ').next().expect("a key");
            let number: u64 = number.parse().expect("a number");
            let round = expected(number).unwrap_or_else(|| panic!("key{number} was deleted"));
            let value = value(number, round);
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

/// All of them are there, but for some that may have been dropped by chance.
#[track_caller]
fn all_are_there(there: u64, count: u64, context: &str) {
    assert!((count - STRANGERS_MAX..=count).contains(&there), "{there} of {count}, {context}");
}

#[test]
fn four_times_the_memory_comes_back() {
    for driver in SocketDriver::ALL {
        let file = FlashFile::new();
        let server = file.server(driver, &[]);
        let mut client = client(&server);
        fill(&mut client, 0..ITEMS, 1);
        let there = found(&mut client, 0..ITEMS, |_| Some(1));
        all_are_there(there, ITEMS, &format!("{driver:?}"));
        assert_eq!(statistic(&mut client, "curr_items"), there);
        assert_eq!(statistic(&mut client, "get_hits"), there);
        assert_eq!(statistic(&mut client, "evictions"), 0);
        let (read, written) =
            (statistic(&mut client, "get_extstore"), statistic(&mut client, "extstore_objects_written"));
        assert!((ITEMS / 2..=ITEMS).contains(&read), "{read}");
        assert_eq!(statistic(&mut client, "extstore_objects_read"), read);
        assert!(written >= statistic(&mut client, "extstore_objects_used"));
        assert!((ITEMS / 2..=ITEMS).contains(&written), "{written}");
        for none in
            ["get_aborted_extstore", "miss_from_extstore", "badcrc_from_extstore", "extstore_compact_lost"]
        {
            assert_eq!(statistic(&mut client, none), 0, "{none}");
        }
    }
}

#[test]
fn what_was_replaced_or_deleted_does_not_come_back() {
    let file = FlashFile::new();
    let server = file.server(SocketDriver::Uring, &[]);
    let mut client = client(&server);
    fill(&mut client, 0..ITEMS, 1);
    fill(&mut client, 0..ITEMS / 4, 2);
    let deleted = (ITEMS / 4..ITEMS / 4 + 1000).filter(|number| {
        client.ask(format!("delete key{number}\r\n").as_bytes()).expect("an answer") == "DELETED"
    });
    all_are_there(deleted.count() as u64, 1000, "to be deleted");
    let expected = |number| match number {
        _ if number < ITEMS / 4 => Some(2),
        _ if number < ITEMS / 4 + 1000 => None,
        _ => Some(1),
    };
    let there = found(&mut client, 0..ITEMS, expected);
    all_are_there(there, ITEMS - 1000, "not deleted");
    asks(&mut client, "flush_all", "OK");
    assert_eq!(found(&mut client, 0..ITEMS, |_| None), 0);
}

#[test]
fn after_an_orderly_end_items_on_flash_are_there_as_well() {
    let (file, items) = (FlashFile::new(), FlashFile::new());
    let path = items.0.display().to_string();
    let mut server = file.server(SocketDriver::Uring, &["-e", &path]);
    let mut before = client(&server);
    fill(&mut before, 0..ITEMS, 1);
    fill(&mut before, 0..1000, 2);
    server.stop().expect("it ends");
    server.start_again().expect("the same files");
    let mut after = client(&server);
    let round = |number| Some(if number < 1000 { 2 } else { 1 });
    let there = statistic(&mut after, "curr_items");
    all_are_there(there, ITEMS, "after the restart");
    assert_eq!(found(&mut after, 0..ITEMS, round), there);
    // Another layout of the flash: nothing is looked for in the wrong places.
    server.stop().expect("it ends");
    let other = format!("ext_path={}:256m,ext_page_size=16,ext_wbuf_size=1", file.0.display());
    let subject = ServerUnderTest::evenkeel(SocketDriver::Uring);
    let third = Server::start(&subject, &["-v", "-m", MEMORY, "-o", &other, "-e", &path]).expect("empty");
    let wait = || third.said().contains("with 32 pages of 8388608 bytes on 1 device").then_some(());
    assert!(clock::wait_for(wait).is_some(), "{}", third.said());
    let mut client = client(&third);
    assert_eq!(statistic(&mut client, "curr_items"), 0);
    assert_eq!(found(&mut client, 0..ITEMS, |_| None), 0);
    drop(third);
    let _ = std::fs::remove_file(items.0.with_extension("meta"));
}

/// Its replies are held back, with what was read for the requests behind them.
#[test]
fn a_client_that_does_not_read_keeps_nothing_from_others() {
    let file = FlashFile::new();
    let server = file.server(SocketDriver::Uring, &[]);
    let mut other = client(&server);
    asks(&mut other, &format!("set big 0 0 900000\r\n{}", "b".repeat(900_000)), "STORED");
    fill(&mut other, 0..ITEMS, 1);
    let mut silent: Vec<TcpStream> = Vec::new();
    for first in 0..40 {
        let mut stream = server.connect().expect("a connection");
        let gets: String = (0..40).map(|number| format!("get key{}\r\n", first * 40 + number)).collect();
        stream.write_all(format!("{}{gets}", "get big\r\n".repeat(8)).as_bytes()).expect("it is taken");
        silent.push(stream);
    }
    for round in 2..4 {
        fill(&mut other, 0..ITEMS, round);
        all_are_there(found(&mut other, 0..ITEMS, |_| Some(round)), ITEMS, &format!("round {round}"));
    }
    assert_eq!(statistic(&mut other, "get_aborted_extstore"), 0);
}

#[test]
fn commands_that_change_an_item_work_on_flash() {
    let file = FlashFile::new();
    let server = file.server(SocketDriver::Uring, &["-o", "ext_item_size=1"]);
    let mut client = client(&server);
    asks(&mut client, "set counter 0 0 2\r\n41", "STORED");
    asks(&mut client, "set text 7 0 2\r\nab", "STORED");
    fill(&mut client, 0..ITEMS / 2, 1);
    let before = statistic(&mut client, "get_extstore");
    asks(&mut client, "incr counter 1", "42");
    asks(&mut client, "append text 0 0 2\r\ncd", "STORED");
    asks(&mut client, "mg text f v", "VA 4 f7");
    assert_eq!(client.line().expect("a value"), "abcd");
    asks(&mut client, "touch key1 1000", "TOUCHED");
    asks(&mut client, "mg key1 f s", &format!("HD f1 s{}", value(1, 1).len()));
    asks(&mut client, "add key2 0 0 1\r\nx", "NOT_STORED");
    assert!(statistic(&mut client, "get_extstore") >= before + 4, "they were on flash");
}

#[test]
fn the_command_extstore_changes_what_is_written() {
    let file = FlashFile::new();
    let server = file.server(SocketDriver::Epoll, &[]);
    let mut client = client(&server);
    asks(&mut client, "extstore item_size 100000", "OK");
    asks(&mut client, "extstore max_frag 0.5", "OK");
    asks(&mut client, "extstore bogus 1", "ERROR");
    assert_eq!(client.statistic_of("settings", "ext_item_size").expect("a setting"), 100_000);
    fill(&mut client, 0..ITEMS / 2, 1);
    assert_eq!(statistic(&mut client, "extstore_objects_written"), 0);
    assert!(statistic(&mut client, "evictions") > 0);
    asks(&mut client, "extstore item_size 100", "OK");
    fill(&mut client, 0..ITEMS / 2, 2);
    assert!(statistic(&mut client, "extstore_objects_written") > 0);
    found(&mut client, 0..ITEMS / 2, |_| Some(2));
    assert_eq!(client.statistic_of("extstore", "31:free_bucket").expect("a page"), 0);
    assert!(client.statistic_of("extstore", "32:version").is_err(), "256 MB are 32 pages");
}

/// The keys that a dump has, in its order. `prefix` begins its lines, and `end` is the last one.
fn dumped(client: &mut Client, kind: &str, (prefix, end): (&str, &str)) -> Vec<String> {
    asks(client, &format!("lru_crawler {kind} all"), "OK");
    let (mut line, mut keys) = (client.dumped_line().expect("a line"), Vec::new());
    while line != end {
        let rest = line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line}"));
        keys.push(rest.split(' ').next().expect("a key").to_owned());
        line = client.dumped_line().expect("a line");
    }
    keys
}

/// Each item is listed once, and nothing else. Both lists are sorted.
#[track_caller]
fn check_listed(keys: &[String], expected: &[String], items: u64) {
    let others: Vec<&String> = keys.iter().filter(|key| expected.binary_search(key).is_err()).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "one is listed twice");
    assert_eq!(keys.len() as u64, items);
    all_are_there(items, expected.len() as u64, "in the list");
}

const METADUMP: (&str, &str) = ("key=", "END");

#[test]
fn dumps_list_each_item_once_wherever_it_is() {
    for driver in SocketDriver::ALL {
        let file = FlashFile::new();
        let server = file.server(driver, &[]);
        let mut client = client(&server);
        asks(&mut client, &format!("set large 0 0 200000\r\n{}", "l".repeat(200_000)), "STORED");
        asks(&mut client, &format!("ms YmluAGtleQ== 600 b\r\n{}", "b".repeat(600)), "HD");
        fill(&mut client, 0..ITEMS, 1);
        let mut expected: Vec<String> = (0..ITEMS).map(|number| format!("key{number}")).collect();
        expected.extend(["large".to_owned(), "bin%00key".to_owned()]);
        expected.sort();
        let mut keys = dumped(&mut client, "metadump", METADUMP);
        keys.sort();
        check_listed(&keys, &expected, statistic(&mut client, "curr_items"));
        let mut keys = dumped(&mut client, "mgdump", ("mg ", "EN"));
        keys.sort();
        expected.retain(|key| key != "bin%00key");
        expected.push("YmluAGtleQ==".to_owned());
        expected.sort();
        check_listed(&keys, &expected, statistic(&mut client, "curr_items"));
        assert_eq!(statistic(&mut client, "get_extstore"), 0, "a dump is no use");
    }
}

/// Ends the work of another thread, even if this one panics.
struct SetWhenDropped<'f>(&'f AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Of items that are there all the time, some move to flash, others from there to memory and back. What moves to flash and is used there
/// at once may be left out: only what was on flash before is used.
#[test]
fn a_dump_amid_sets_and_deletes_lists_all_that_is_there_all_the_time() {
    let file = FlashFile::new();
    let server = file.server(SocketDriver::Uring, &[]);
    let mut reader = client(&server);
    fill(&mut reader, 0..ITEMS, 1);
    let is_over = AtomicBool::new(false);
    let mut other = client(&server);
    let (dumps, rounds) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let (mut rounds, mut absent) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                let first = ITEMS + rounds % 100 * BATCH;
                fill(&mut other, first..first + BATCH, 1);
                for number in first..first + BATCH / 2 {
                    let touch = format!("touch key{} 0\r\n", number * 37 % (ITEMS / 2));
                    for (request, expected) in
                        [(format!("delete key{number}\r\n"), "DELETED"), (touch, "TOUCHED")]
                    {
                        absent += u64::from(other.ask(request.as_bytes()).expect("an answer") != expected);
                    }
                }
                rounds += 1;
            }
            assert!(absent <= STRANGERS_MAX, "{absent}");
            rounds
        });
        let writing_ends = SetWhenDropped(&is_over);
        let dumps: Vec<Vec<String>> = (0..5).map(|_| dumped(&mut reader, "metadump", METADUMP)).collect();
        drop(writing_ends);
        (dumps, writing.join().expect("it writes"))
    });
    assert!(rounds > 1, "something happened meanwhile");
    for keys in dumps {
        let keys: HashSet<String> = keys.into_iter().collect();
        let missing: Vec<u64> = (0..ITEMS).filter(|number| !keys.contains(&format!("key{number}"))).collect();
        let there =
            missing.iter().filter(|number| found(&mut reader, **number..**number + 1, |_| Some(1)) == 1);
        assert_eq!(there.count(), 0, "of {} after {rounds} rounds: {missing:?}", missing.len());
    }
    assert_eq!(statistic(&mut reader, "evictions"), 0);
}

#[test]
fn clients_that_leave_or_do_not_read_a_dump_keep_it_from_nobody() {
    let file = FlashFile::new();
    let server = file.server(SocketDriver::Uring, &[]);
    let mut other = client(&server);
    fill(&mut other, 0..ITEMS, 1);
    let begun = |length: usize| {
        let mut stream = server.connect().expect("a connection");
        stream.write_all(b"lru_crawler metadump all\r\n").expect("it is taken");
        stream.read_exact(&mut vec![0; length]).expect("it begins");
        stream
    };
    let silent: Vec<TcpStream> = (0..20).map(|_| begun(1)).collect();
    for number in 0..20 {
        drop(begun(10 + number * 10_000));
    }
    all_are_there(dumped(&mut other, "metadump", METADUMP).len() as u64, ITEMS, "in the dump");
    all_are_there(found(&mut other, 0..ITEMS, |_| Some(1)), ITEMS, "after the dumps");
    assert_eq!(statistic(&mut other, "get_aborted_extstore"), 0);
    drop(silent);
    let there = || (other.statistic("curr_connections").ok()? <= 3).then_some(());
    assert!(clock::wait_for(there).is_some(), "their connections are closed");
}

/// Pages are reused; what is still there is right.
#[test]
fn more_than_the_flash_holds_makes_room() {
    let file = FlashFile::new();
    let small = format!("ext_path={}:32m,ext_page_size=4,ext_wbuf_size=1", file.0.display());
    let subject = ServerUnderTest::evenkeel(SocketDriver::Uring);
    let server = Server::start(&subject, &["-m", MEMORY, "-o", &small]).expect("a server");
    let mut client = client(&server);
    fill(&mut client, 0..ITEMS, 1);
    let there = found(&mut client, 0..ITEMS, |_| Some(1));
    assert!((ITEMS / 4..ITEMS).contains(&there), "{there}");
    assert_eq!(statistic(&mut client, "curr_items"), there);
    assert!(statistic(&mut client, "extstore_page_reclaims") > 0);
    assert!(statistic(&mut client, "extstore_objects_evicted") > 0);
}

#[track_caller]
fn check_refused(flags: &[&str], expected: &str) {
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let error = Server::start(&subject, flags).expect_err("it is refused");
    let error = format!("{error:#}");
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_cannot_be_used_is_refused_at_the_start() {
    let file = FlashFile::new();
    let _server = file.server(SocketDriver::Epoll, &[]);
    let options = file.options();
    let alone = format!("use {} alone: a process has it open already", file.0.display());
    check_refused(&["-o", &options], &alone);
    check_refused(&["-o", "ext_path=/no such folder/x:1g"], "open /no such folder/x to read and write");
    check_refused(&["-o", "ext_path=/dev/null:1g"], "a regular file or a block device is accepted");
}

#[test]
fn after_a_kill_amid_writes_nothing_old_is_served() {
    let file = FlashFile::new();
    let mut server = file.server(SocketDriver::Uring, &[]);
    let mut before = client(&server);
    fill(&mut before, 0..ITEMS / 2, 1);
    let mut stream = server.connect().expect("a connection");
    let writing = std::thread::spawn(move || {
        for first in (ITEMS / 2..).step_by(BATCH as usize) {
            let mut requests = String::new();
            (first..first + BATCH).for_each(|number| set(number % ITEMS, 1, &mut requests));
            if stream.write_all(requests.as_bytes()).is_err() {
                return;
            }
        }
    });
    let written = |client: &mut Client| client.statistic("extstore_objects_written").expect("statistics");
    let (first, amid) = (
        written(&mut before),
        clock::wait_for(|| {
            let now = written(&mut before);
            (now > ITEMS / 2).then_some(now)
        }),
    );
    assert!(amid.is_some_and(|amid| amid > first), "it writes");
    server.kill().expect("it runs");
    writing.join().expect("it ends with the connection");
    server.start_again().expect("the lock has gone with the process");
    let mut after = client(&server);
    assert_eq!(found(&mut after, 0..ITEMS, |_| None), 0);
    assert_eq!(statistic(&mut after, "curr_items"), 0);
    fill(&mut after, 0..ITEMS, 2);
    all_are_there(found(&mut after, 0..ITEMS, |_| Some(2)), ITEMS, "after the kill");
}

/// What the endpoint of metrics has at `path`.
fn fetch(server: &Server, path: &str) -> String {
    let address = clock::wait_for(|| {
        let said = server.said();
        Some(said.split_once("metrics at http://")?.1.split_once("/metrics")?.0.to_owned())
    });
    let mut stream = TcpStream::connect(address.expect("an endpoint")).expect("connect");
    stream.set_read_timeout(Some(clock::PATIENCE)).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("send");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer in text");
    reply.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

#[test]
fn metrics_have_the_families_of_extstore_and_ours() {
    let measured = || {
        let file = FlashFile::new();
        let server = file.server(SocketDriver::Epoll, &["--metrics-listen", "127.0.0.1:0"]);
        let mut client = client(&server);
        fill(&mut client, 0..ITEMS / 2, 1);
        let there = found(&mut client, 0..ITEMS / 2, |_| Some(1));
        let text = fetch(&server, "/metrics");
        // On a machine that has much else to do, reads are late, as those of a slow disk are.
        (!server.said().contains("is left alone")).then_some((there, text))
    };
    let (there, text) =
        (0..3).find_map(|_| measured()).expect("a disk that is not slow, once in three times");
    let families = read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    let sum = |name: &str| -> f64 {
        let samples = families.iter().flat_map(|family| &family.samples);
        samples.filter(|sample| sample.name == name).map(|sample| sample.value).sum()
    };
    all_are_there(there, ITEMS / 2, "in both");
    assert_eq!(sum("memcached_extstore_bytes_limit"), f64::from(256 << 20));
    assert!(sum("memcached_extstore_objects_written_total") > 0.0);
    assert!(sum("memcached_extstore_objects_read_total") > 0.0);
    assert!(sum("memcached_extstore_pages_used") > 0.0);
    assert!(sum("evenkeel_flash_device_written_bytes_total") > 0.0);
    assert_eq!(sum("evenkeel_flash_lost_total"), 0.0);
    assert_eq!(sum("memcached_current_items"), there as f64);
}
