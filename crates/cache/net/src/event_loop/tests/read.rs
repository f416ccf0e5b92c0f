//! Tests of reads of files: with both drivers, each with a ring and with threads.

use std::fs::{File, remove_file, write};
use std::io::{ErrorKind, PipeWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::event_loop::*;
use crate::files::file_read::DiskFile;
use crate::handler::{Arrival, ConnectionId, Origin};
use crate::kernel::frame_ports::WorkerPorts;
use crate::network::connection_table::ConnectionTable;
use crate::options::DriverChoice;
use crate::sockets::address::{Address, Transport};
use crate::testing::reading::ReadingHandler;

/// Longer than a busy machine delays a test: only a failure reaches it.
const TIMEOUT_MS: u64 = 60_000;

const FILE_LEN: usize = 10_000;

const READS_MAX: usize = 4;

struct Rig {
    worker: EventLoop<ReadingHandler>,
    clients: Vec<UnixStream>,
}

/// Runs `test` over both drivers, each with a ring (if the kernel allows one) and with threads.
fn with_each_way(file: impl Fn() -> DiskFile, test: impl Fn(Rig)) {
    for choice in [DriverChoice::Epoll, DriverChoice::Uring] {
        for threads_only in [false, true] {
            let mut rig = Rig::new(choice, file());
            if threads_only {
                rig.worker.kernel.file_reads = FileReads::with_threads();
            }
            test(rig);
        }
    }
}

/// Runs `test` over both drivers, with the reading end of a pipe as file and its other end, where there is a ring: threads
/// cannot read from a pipe at a position.
fn with_each_pipe(test: impl Fn(Rig, PipeWriter)) {
    for choice in [DriverChoice::Epoll, DriverChoice::Uring] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut rig = Rig::new(choice, OwnedFd::from(reader).into());
        // Whether there is a ring shows with the first read.
        let client = rig.connect();
        rig.send(client, "0 1\n");
        rig.round(TIMEOUT_MS);
        if rig.worker.kernel.file_reads.ring().is_none() {
            return eprintln!("this kernel refuses io_uring");
        }
        (&writer).write_all(b"!").unwrap();
        rig.expect(client, ":!\n");
        test(rig, writer);
    }
}

impl Rig {
    fn new(choice: DriverChoice, file: DiskFile) -> Rig {
        let setup = WorkerSetup {
            number: 0,
            departure: Arc::new(Departure::new(1)),
            messages: Arc::new(MessageQueue::new().unwrap()),
            limit: Arc::new(ConnectionLimit::new(100).unwrap()),
            table: TableWriter::new(Arc::new(ConnectionTable::new())),
            datagram_sockets: Vec::new(),
            ports: WorkerPorts::default(),
            dialled_max: 0,
            reads_max: READS_MAX,
            handshakes: None,
            idle_timeout_s: 0,
            busy_poll_us: 0,
            notice: |_| {},
        };
        let worker =
            EventLoop::on_system(ReadingHandler::new(file), IoDriver::choose(choice), setup, Clock::start())
                .unwrap();
        Rig { worker, clients: Vec::new() }
    }

    /// A client; returns its number.
    fn connect(&mut self) -> usize {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        let arrival = Arrival {
            id: ConnectionId(self.worker.limit.connection_opened()),
            origin: Origin::Accepted { listener: 0 },
            transport: Transport::Unix,
            peer: Address::Unix(None),
            local: Address::Unix(None),
            security: None,
        };
        self.worker.open(server.into(), arrival, None, false, Now::default());
        self.clients.push(client);
        self.clients.len() - 1
    }

    fn send(&mut self, client: usize, text: &str) {
        self.clients[client].write_all(text.as_bytes()).unwrap();
    }

    fn round(&mut self, wait_ms: u64) {
        let wait_ms = if self.worker.wait_ms(Now::default()) == 0 { 0 } else { wait_ms };
        let events = self.worker.kernel.poll.wait(wait_ms).unwrap();
        self.worker.round(events, Now::default());
    }

    /// Rounds until there is nothing to do without an event.
    fn settle(&mut self) {
        while self.worker.wait_ms(Now::default()) == 0 {
            self.round(0);
        }
    }

    #[track_caller]
    fn until(&mut self, ready: impl Fn(&ReadingHandler) -> bool) {
        // Each wait ends with an event, or after a minute.
        for _ in 0..10_000 {
            if ready(&self.worker.handler) {
                return;
            }
            self.round(TIMEOUT_MS);
        }
        panic!("it never happens");
    }

    /// Rounds until the client has received `text`.
    #[track_caller]
    fn expect(&mut self, client: usize, text: &str) {
        let mut received = vec![0; text.len()];
        let mut len = 0;
        for _ in 0..10_000 {
            match self.clients[client].read(&mut received[len..]) {
                Ok(more) => len += more,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            if len == text.len() {
                break;
            }
            self.round(TIMEOUT_MS);
        }
        assert_eq!(String::from_utf8_lossy(&received[..len]), text);
    }
}

/// A path of this test's own.
fn path() -> std::path::PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("net-{}-read-{number}", std::process::id()))
}

fn contents() -> String {
    (0..FILE_LEN).map(|at| char::from(b'a' + (at % 23) as u8)).collect()
}

/// A file with `contents`, opened by `open`.
fn open_with(open: impl Fn(&std::path::Path) -> std::io::Result<File>) -> std::io::Result<DiskFile> {
    let path = path();
    write(&path, contents()).unwrap();
    let file = open(&path);
    remove_file(&path).unwrap();
    file.map(DiskFile::from)
}

fn file() -> DiskFile {
    open_with(|path| File::open(path)).unwrap()
}

#[test]
fn a_reply_waits_for_its_read_and_later_requests_for_the_reply() {
    with_each_way(file, |mut rig| {
        let [client, other] = [rig.connect(), rig.connect()];
        rig.send(client, "first\n100 10\n5 7\nlast\n");
        rig.send(other, "0 10000\n");
        let all = contents();
        rig.expect(client, &format!("first\n:{}\n:{}\nlast\n", &all[100..110], &all[5..12]));
        rig.expect(other, &format!(":{all}\n"));
        assert_eq!(rig.worker.handler.results.len(), 3);
    });
}

#[test]
fn a_worker_without_reads_has_neither_ring_nor_threads() {
    with_each_way(file, |mut rig| {
        let client = rig.connect();
        rig.send(client, "hello\n");
        rig.expect(client, "hello\n");
        assert!(!rig.worker.kernel.file_reads.is_started());
    });
}

#[test]
fn a_block_is_filled_as_far_as_the_file_goes() {
    with_each_way(file, |mut rig| {
        let client = rig.connect();
        for (at, len) in [(9_990, 100), (10_000, 5), (123_456_789, 5), (9_223_372_036_854_775_000, 5), (0, 0)]
        {
            rig.send(client, &format!("{at} {len}\n"));
            let all = contents();
            let start = all.len().min(at);
            rig.expect(client, &format!(":{}\n", &all[start..all.len().min(start + len)]));
        }
    });
}

#[test]
fn errors_are_reported() {
    let write_only = || open_with(|path| File::options().write(true).open(path)).unwrap();
    with_each_way(write_only, |mut rig| {
        let client = rig.connect();
        rig.send(client, "0 5\nhello\n");
        rig.expect(client, &format!("error {}\nhello\n", Errno::BADF.raw_os_error()));
    });
    with_each_way(
        || File::open("/").unwrap().into(),
        |mut rig| {
            let client = rig.connect();
            rig.send(client, "0 5\n");
            rig.expect(client, &format!("error {}\n", Errno::ISDIR.raw_os_error()));
        },
    );
    // The highest numbers are no positions; to io_uring, the very highest means the file's own one.
    with_each_way(file, |mut rig| {
        let client = rig.connect();
        for at in [u64::MAX, u64::MAX - 1, 1 << 63] {
            rig.send(client, &format!("{at} 5\n"));
            rig.expect(client, &format!("error {}\n", Errno::INVAL.raw_os_error()));
        }
    });
    with_each_way(
        || DiskFile::simulated(0),
        |mut rig| {
            let client = rig.connect();
            rig.send(client, "0 5\n");
            rig.expect(client, &format!("error {}\n", Errno::BADF.raw_os_error()));
        },
    );
}

#[test]
fn reads_beyond_the_limit_are_refused_until_others_end() {
    with_each_way(file, |mut rig| {
        let all = contents();
        for _ in 0..3 {
            let clients: Vec<usize> = (0..READS_MAX + 2).map(|_| rig.connect()).collect();
            clients.iter().for_each(|client| rig.send(*client, "0 5\n"));
            rig.round(TIMEOUT_MS);
            let (taken, refused) = clients.split_at(READS_MAX);
            refused.iter().for_each(|client| rig.expect(*client, "busy\n"));
            taken.iter().for_each(|client| rig.expect(*client, &format!(":{}\n", &all[..5])));
        }
        assert_eq!(rig.worker.handler.results.len(), 3 * READS_MAX);
    });
}

#[test]
fn a_file_that_its_handler_has_dropped_is_read_to_the_end() {
    with_each_way(file, |mut rig| {
        let client = rig.connect();
        rig.send(client, "0 10000\n");
        rig.round(TIMEOUT_MS);
        rig.worker.handler.file = None;
        rig.expect(client, &format!(":{}\n", contents()));
    });
}

#[test]
fn a_result_for_a_closed_connection_reaches_the_handler_alone() {
    with_each_way(file, |mut rig| {
        let client = rig.connect();
        rig.send(client, "0 5\n");
        rig.round(TIMEOUT_MS);
        assert_eq!(rig.worker.handler.ordered(), 1);
        let place = rig.worker.slab.indices().next().unwrap();
        rig.worker.close(place, CloseReason::Error);
        // Its place is used again.
        let other = rig.connect();
        rig.until(|handler| handler.results == [(0, Ok(5))]);
        rig.send(other, "hello\n");
        rig.expect(other, "hello\n");
    });
}

#[test]
fn each_read_has_one_result_when_the_worker_ends() {
    with_each_way(file, |mut rig| {
        let clients: Vec<usize> = (0..READS_MAX).map(|_| rig.connect()).collect();
        clients.iter().for_each(|client| rig.send(*client, "0 10000\n"));
        rig.round(TIMEOUT_MS);
        let mut results = rig.worker.end().results;
        results.sort_by_key(|(tag, _)| *tag);
        for (tag, (seen, result)) in (0..).zip(&results) {
            assert_eq!(tag, *seen);
            assert!(matches!(result, Ok(10_000) | Err(Errno::CANCELED)), "{result:?}");
        }
        assert_eq!(results.len(), READS_MAX);
    });
}

#[test]
fn a_read_that_brings_a_part_is_continued() {
    with_each_pipe(|mut rig, mut pipe| {
        let (client, other) = (0, rig.connect());
        rig.send(client, "0 6\n");
        for part in ["ab", "c", "de"] {
            pipe.write_all(part.as_bytes()).unwrap();
            // Others are served meanwhile.
            rig.send(other, "hello\n");
            rig.expect(other, "hello\n");
        }
        assert_eq!(rig.worker.handler.results.len(), 1, "the read of the set-up");
        pipe.write_all(b"f").unwrap();
        rig.expect(client, ":abcdef\n");
        rig.send(client, "0 6\n");
        pipe.write_all(b"the").unwrap();
        drop(pipe);
        rig.expect(client, ":the\n");
    });
}

#[test]
fn a_worker_ends_although_a_read_does_not() {
    with_each_pipe(|mut rig, mut pipe| {
        rig.send(0, "0 6\n");
        rig.until(|handler| handler.ordered() == 2);
        let handler = rig.worker.end();
        assert_eq!(handler.results[1..], [(1, Err(Errno::CANCELED))]);
        // Whether the kernel still reads or not, it writes to memory that was left to it.
        let _broken_pipe = pipe.write_all(b"too late");
    });
}

#[test]
fn after_a_ring_that_fails_threads_read() {
    for choice in [DriverChoice::Epoll, DriverChoice::Uring] {
        let mut rig = Rig::new(choice, file());
        let clients = [rig.connect(), rig.connect()];
        let reply = format!(":{}\n", &contents()[..5]);
        rig.send(clients[0], "0 5\n");
        rig.expect(clients[0], &reply);
        let Some(ring) = rig.worker.kernel.file_reads.ring() else {
            return eprintln!("this kernel refuses io_uring");
        };
        ring.break_ring();
        rig.settle();
        clients.iter().for_each(|client| rig.send(*client, "0 5\n"));
        rig.until(|handler| handler.results.len() == 3);
        let results = &rig.worker.handler.results[1..];
        assert!(results.iter().all(|(_, result)| result.is_err()), "{results:?}");
        let Err(error) = results[0].1 else { panic!("an error") };
        for client in clients {
            rig.expect(client, &format!("error {}\n", error.raw_os_error()));
            rig.send(client, "0 5\n");
            rig.expect(client, &reply);
        }
        assert!(rig.worker.kernel.file_reads.ring().is_none());
    }
}

#[test]
fn aligned_blocks_read_files_without_the_page_cache() {
    const O_DIRECT: i32 = libc::O_DIRECT;
    let direct = || open_with(|path| File::options().read(true).custom_flags(O_DIRECT).open(path));
    if let Err(error) = direct() {
        return eprintln!("no O_DIRECT in {}: {error}", std::env::temp_dir().display());
    }
    with_each_way(
        || direct().unwrap(),
        |mut rig| {
            rig.worker.handler.alignment = 4096;
            let (client, all) = (rig.connect(), contents());
            for (at, len) in [(0, 4096), (4096, 4096), (8192, 8192), (0, 16_384), (12_288, 4096)] {
                rig.send(client, &format!("{at} {len}\n"));
                let start = all.len().min(at);
                rig.expect(client, &format!(":{}\n", &all[start..all.len().min(start + len)]));
            }
        },
    );
}
