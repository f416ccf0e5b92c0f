//! A server with a memory file (`-e`) ends and starts again: what is there afterwards, and what is said when nothing is.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use stdx::prng::Prng;

/// Memory files of a test, removed with this value.
struct Shelf(PathBuf);

impl Shelf {
    fn new() -> Shelf {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/evenkeel-restart-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder in memory");
        Shelf(path)
    }

    fn items(&self) -> String {
        self.0.join("items").display().to_string()
    }

    fn meta(&self) -> String {
        self.items() + ".meta"
    }

    fn server(&self, driver: SocketDriver, flags: &[&str]) -> Server {
        let (subject, items) = (ServerUnderTest::evenkeel(driver), self.items());
        Server::start(&subject, &[&["-v", "-t", "2", "-e", &items], flags].concat()).expect("a server")
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        // If it fails, the files are in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

#[track_caller]
fn asks(client: &mut Client, request: &str, expected: &str) {
    assert_eq!(client.ask(request.as_bytes()).expect("an answer"), expected, "{request}");
}

/// Longer than what is kept among other items every now and then.
fn value(number: u64) -> String {
    let len = if number.is_multiple_of(50) { 60_000 } else { 10 + number % 700 };
    format!("{number} ").repeat(len.div_ceil(2) as usize)[..len as usize].to_owned()
}

fn fill(client: &mut Client, numbers: std::ops::Range<u64>) {
    let mut requests = String::new();
    for number in numbers {
        let value = value(number);
        requests += &format!("set key{number} {number} 0 {} noreply\r\n{value}\r\n", value.len());
    }
    asks(client, &(requests + "mn\r\n"), "MN");
}

/// How many of these items are there. Each has its value.
#[track_caller]
fn found(client: &mut Client, numbers: std::ops::Range<u64>) -> usize {
    let (mut found, mut numbers) = (0, numbers.peekable());
    while numbers.peek().is_some() {
        let keys: String = numbers.by_ref().take(20).map(|number| format!(" key{number}")).collect();
        let mut line = client.ask(format!("get{keys}\r\n").as_bytes()).expect("an answer");
        while line != "END" {
            let number = line["VALUE key".len()..].split(' ').next().expect("a key");
            let value = value(number.parse().expect("a number"));
            assert_eq!(line, format!("VALUE key{number} {number} {}", value.len()));
            assert_eq!(client.line().expect("a value"), value);
            found += 1;
            line = client.line().expect("a line");
        }
    }
    found
}

#[test]
fn after_an_orderly_end_everything_is_there() {
    for driver in SocketDriver::ALL {
        let shelf = Shelf::new();
        let mut server = shelf.server(driver, &["-m", "256"]);
        let mut before = client(&server);
        fill(&mut before, 0..3_000);
        asks(&mut before, "set counter 0 0 2\r\n41\r\n", "STORED");
        asks(&mut before, "set short 0 2 1\r\nx\r\n", "STORED");
        asks(&mut before, "set long 0 1000 1\r\nx\r\n", "STORED");
        asks(&mut before, "delete key7\r\n", "DELETED");
        asks(&mut before, "md key9 I T90\r\n", "HD");
        asks(&mut before, "ms stamped 1 E77\r\nx\r\n", "HD");
        for round in 0..2 {
            server.stop().expect("an orderly end");
            assert!(std::fs::exists(shelf.meta()).expect("a folder"), "round {round}");
            server.start_again().expect("it starts");
            assert!(!std::fs::exists(shelf.meta()).expect("a folder"), "round {round}");
        }
        let mut after = client(&server);
        assert_eq!(found(&mut after, 0..3_000), 2_999);
        asks(&mut after, "incr counter 1\r\n", "42");
        asks(&mut after, "get key7\r\n", "END");
        asks(&mut after, "mg stamped c\r\n", "HD c77");
        // The item that was invalidated has to be fetched anew by one client.
        let stale = after.ask(b"mg key9 c s\r\n").expect("an answer");
        assert!(stale.starts_with("HD ") && stale.ends_with(" X W"), "{stale}");
        let left: u64 = after.ask(b"mg long t\r\n").expect("an answer")[4..].parse().expect("seconds");
        assert!((900..=1000).contains(&left), "{left}");
        let gone = clock::wait_for(|| (after.ask(b"mg short t\r\n").ok()? == "EN").then_some(()));
        assert!(gone.is_some(), "it expires when it would have expired");
        assert_eq!(after.statistic("curr_items").expect("statistics"), 3_002);
        assert!(after.statistic("uptime").expect("statistics") < 100);
        said_with(&server, "items of the last server");
    }
}

#[test]
fn items_expire_while_there_is_no_server() {
    let shelf = Shelf::new();
    let mut server = shelf.server(SocketDriver::Epoll, &[]);
    asks(&mut client(&server), "set short 0 2 1\r\nx\r\n", "STORED");
    server.stop().expect("an orderly end");
    clock::pass(Duration::from_secs(3));
    server.start_again().expect("it starts");
    asks(&mut client(&server), "get short\r\n", "END");
}

#[test]
fn limits_and_threads_may_change() {
    let shelf = Shelf::new();
    let mut server = shelf.server(SocketDriver::Epoll, &["-m", "100"]);
    fill(&mut client(&server), 0..2_000);
    for flags in [&["-m", "200", "-t", "5"][..], &["-t", "1", "-I", "2m"], &["-m", "64"]] {
        server.stop().expect("an orderly end");
        server.start_again_with(flags).expect("it starts");
        let mut client = client(&server);
        assert_eq!(found(&mut client, 0..2_000), 2_000, "{flags:?}");
        fill(&mut client, 0..100);
    }
    let limit = client(&server).statistic("limit_maxbytes").expect("statistics");
    assert_eq!(limit, 64 << 20);
}

#[test]
fn while_items_are_evicted_what_is_left_is_right() {
    let shelf = Shelf::new();
    let mut server = shelf.server(SocketDriver::Epoll, &["-m", "8"]);
    for round in 0..3 {
        let first = round * 30_000;
        let mut before = client(&server);
        fill(&mut before, first..first + 30_000);
        let there = found(&mut before, 0..first + 30_000);
        server.stop().expect("an orderly end");
        server.start_again().expect("it starts");
        // Sealing open segments leaves less room; what is evicted for it comes later.
        assert_eq!(found(&mut client(&server), 0..first + 30_000), there, "round {round}");
    }
}

/// The server's output, once it has these words: a thread of its own writes it.
#[track_caller]
fn said_with(server: &Server, words: &str) -> String {
    let said = clock::wait_for(|| Some(server.said()).filter(|said| said.contains(words)));
    said.unwrap_or_else(|| panic!("expected {words}, found {}", server.said()))
}

/// After `harm`, the server starts empty and says `expected`.
#[track_caller]
fn check_lost(harm: impl FnOnce(&mut Server, &Shelf), expected: &str) {
    let shelf = Shelf::new();
    let mut server = shelf.server(SocketDriver::Epoll, &[]);
    fill(&mut client(&server), 0..500);
    harm(&mut server, &shelf);
    server.start_again().expect("it starts in any case");
    let mut client = client(&server);
    assert_eq!(found(&mut client, 0..500), 0);
    let said = said_with(&server, expected);
    assert_eq!(said.matches("the items of the last server are lost: ").count(), 1, "{said}");
    assert!(said.contains(expected), "{said}");
    // From here on it is a server like any other.
    fill(&mut client, 0..500);
    server.stop().expect("an orderly end");
    server.start_again().expect("it starts");
    assert_eq!(found(&mut Client::new(server.connect().expect("a connection")), 0..500), 500);
}

/// The parts of a file that exist.
fn pages(file: &File) -> Vec<u64> {
    let (mut pages, mut at) = (Vec::new(), 0);
    while let Ok(data) = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        at = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(data)).expect("an end");
        pages.extend((data..at).step_by(4096));
    }
    pages
}

#[test]
fn after_any_other_end_a_server_starts_empty_and_says_why() {
    check_lost(
        |server, _| server.kill().expect("it runs"),
        "it had no orderly end, so there is no /dev/shm/evenkeel-restart",
    );
    check_lost(
        |server, shelf| {
            server.stop().expect("an orderly end");
            let meta = std::fs::read(shelf.meta()).expect("it is there");
            std::fs::write(shelf.meta(), &meta[..meta.len() / 2]).expect("room");
        },
        "items.meta: it is damaged: its checksum is wrong",
    );
    check_lost(
        |server, shelf| {
            server.stop().expect("an orderly end");
            let file = File::options().write(true).open(shelf.items()).expect("it is there");
            file.set_len(1 << 20).expect("shorter");
        },
        "checksums are wrong",
    );
    check_lost(
        |server, shelf| {
            server.stop().expect("an orderly end");
            std::fs::remove_file(shelf.items()).expect("it is there");
        },
        "checksums are wrong",
    );
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let mut prng = Prng::new(1);
    for _ in 0..8 {
        let number = prng.next_u64();
        check_lost(
            |server, shelf| {
                server.stop().expect("an orderly end");
                let file = File::options().read(true).write(true).open(shelf.items()).expect("it is there");
                let pages = pages(&file);
                let at = pages[number as usize % pages.len()] + (number >> 40) % 4096;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).expect("a page");
                file.write_all_at(&[byte[0] ^ 1 << (number >> 60 & 7)], at).expect("room");
            },
            "1 of ",
        );
    }
}

#[test]
fn a_server_without_cas_does_not_take_items_with_it() {
    let shelf = Shelf::new();
    let mut server = shelf.server(SocketDriver::Epoll, &[]);
    fill(&mut client(&server), 0..10);
    server.stop().expect("an orderly end");
    server.start_again_with(&["-C"]).expect("it starts");
    assert_eq!(found(&mut client(&server), 0..10), 0);
    let expected = "it was written with CAS uniques, and this server runs without CAS uniques (-C)";
    said_with(&server, expected);
}

#[test]
fn over_tls_a_server_leaves_its_items_as_well() {
    let shelf = Shelf::new();
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll).over_tls();
    let items = shelf.items();
    let mut server = Server::start(&subject, &["-v", "-e", &items]).expect("a server");
    let _resting: Vec<_> = (0..5).map(|_| server.connect().expect("a connection")).collect();
    server.stop().expect("an orderly end");
    server.start_again().expect("it starts");
    said_with(&server, "with 0 items of the last server");
}

#[track_caller]
fn check_refused(flags: &[&str], expected: &str) {
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let error = Server::start(&subject, flags).expect_err("it is refused");
    let error = format!("{error:#}");
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_cannot_be_kept_is_refused_at_the_start() {
    let shelf = Shelf::new();
    let _server = shelf.server(SocketDriver::Epoll, &[]);
    check_refused(&["-e", &shelf.items()], "another process uses it: each server needs a file of its own");
    check_refused(&["-e", "/no such folder/items"], "open /no such folder/items (-e): No such file");
    check_refused(&["-e", &shelf.0.display().to_string()], "Is a directory");
    check_refused(&["-e", "/proc/self/comm"], "(-e)");
    let foreign = Shelf::new();
    std::fs::write(foreign.meta(), "").expect("room");
    let expected = "items.meta (-e): expected no file, or one that a server has left, found an empty one";
    check_refused(&["-e", &foreign.items()], expected);
}

/// A limit beyond what the file system has would end the server at some set.
#[test]
fn a_file_system_that_is_too_small_is_refused_for_a_start_and_for_a_higher_limit() {
    if !rustix::process::getuid().is_root() {
        eprintln!("a file system of its own needs root");
        return;
    }
    let disk = Shelf::new();
    // In a namespace of this thread alone, so nothing is left to be undone.
    let outcome = std::thread::scope(|scope| {
        let in_namespace = scope.spawn(|| {
            #[expect(deprecated, reason = "unsafe only where file descriptors are unshared")]
            rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).expect("a mount namespace");
            let run = |arguments: &[&str]| {
                let status = std::process::Command::new("mount").args(arguments).status().expect("run mount");
                assert!(status.success(), "{arguments:?}");
            };
            run(&["--make-rprivate", "/"]);
            run(&["-t", "tmpfs", "-o", "size=100m", "tmpfs", &disk.0.display().to_string()]);
            let expected = "keep 134217728 bytes of items in the file: its file system has room for 100";
            check_refused(&["-e", &disk.items(), "-m", "128"], expected);
            let mut server = disk.server(SocketDriver::Epoll, &["-m", "64"]);
            assert!(!server.said().contains("lost"), "{}", server.said());
            fill(&mut client(&server), 0..1_000);
            server.stop().expect("an orderly end");
            // A mistake in a command line loses nothing.
            check_refused(&["-e", &disk.items(), "-m", "128"], expected);
            check_refused(&["-e", &disk.items(), "-t", "0"], "-t");
            server.start_again().expect("it starts");
            let mut client = client(&server);
            assert_eq!(found(&mut client, 0..1_000), 1_000);
            let refused = client.ask(b"cache_memlimit 128\r\n").expect("an answer");
            assert!(refused.starts_with("MEMLIMIT_ADJUST_FAILED"), "{refused}");
            asks(&mut client, "cache_memlimit 90\r\n", "OK");
            // Much more than fits.
            fill(&mut client, 0..100_000);
            asks(&mut client, "set last 0 0 1\r\nx\r\n", "STORED");
        });
        in_namespace.join()
    });
    outcome.expect("no failure");
}
