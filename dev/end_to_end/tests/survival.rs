//! Clients that misbehave: the server survives, keeps its memory limit, and still serves other clients.
//!
//! One test at a time: they measure memory and waiting times, and need most of the files that a process may open.

use end_to_end::bystander::{Bystander, Client};
use end_to_end::clock;
use end_to_end::process;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod crowds;
mod streams;
mod uploads;

/// The longest that the server may work for others while a client waits.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Resident memory of a server beyond `-m`: code, buffers, the kernel's overhead.
const BASE_MB: u64 = 48;

/// Open files that the largest crowd needs, on either side.
const FILES: u64 = 12_000;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A server under attack, and another client of it.
struct AttackedServer {
    server: Server,
    bystander: Bystander,
    memory_mb: u64,
    _alone: MutexGuard<'static, ()>,
}

impl AttackedServer {
    /// Starts a server with `-m memory_mb` and `flags`.
    #[track_caller]
    fn open(driver: SocketDriver, memory_mb: u64, flags: &[&str]) -> AttackedServer {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        process::raise_open_files(FILES).expect("files");
        let memory = memory_mb.to_string();
        let flags = [&["-m", memory.as_str()], flags].concat();
        let server = Server::start(&ServerUnderTest::evenkeel(driver), &flags).expect("a server");
        let bystander = Bystander::start(&server).expect("a bystander");
        AttackedServer { server, bystander, memory_mb, _alone: alone }
    }

    #[track_caller]
    fn connect(&self) -> TcpStream {
        self.server.connect().expect("a connection")
    }

    #[track_caller]
    fn client(&self) -> Client {
        Client::new(self.connect())
    }

    /// Checks that resident memory is within the limit now.
    #[track_caller]
    fn memory_is_bounded(&self) -> u64 {
        let resident_mb = self.server.resident().expect("a living server") >> 20;
        let limit_mb = self.memory_mb * 105 / 100 + BASE_MB;
        assert!(resident_mb <= limit_mb, "{resident_mb} MB resident, more than {limit_mb}");
        resident_mb
    }

    /// Waits until the server has closed all connections and freed their memory, except the bystander's and `kept` of
    /// the test's own.
    #[track_caller]
    fn all_have_left_but(&self, kept: u64) {
        // The client that reads the statistics was accepted last: no other connection is pending.
        self.connections_become(kept + 2, &mut self.client());
    }

    /// Waits until there are `count` connections, by the statistics that `client`, one of them, reads.
    #[track_caller]
    fn connections_become(&self, count: u64, client: &mut Client) {
        let mut last = 0;
        let became = clock::wait_for(|| {
            last = client.statistic("curr_connections").expect("stats");
            (last == count).then_some(())
        });
        assert!(became.is_some(), "{last} connections are open, not {count}");
    }

    /// Checks after the attack that the server is alive and within its limits, and that the other client was served.
    #[track_caller]
    fn close(mut self, what: &str) {
        let resident_mb = self.memory_is_bounded();
        let experience = self.bystander.stop().expect("a bystander who was served");
        assert!(self.server.is_alive(), "the server is gone");
        assert!(experience.longest <= WAIT_MAX, "a client waited {:?}", experience.longest);
        println!(
            "{what}: {resident_mb} MB resident; {} rounds meanwhile, the longest {:?}",
            experience.answered, experience.longest
        );
    }
}

/// Sends as much as the server accepts.
fn send(mut stream: &TcpStream, bytes: &[u8]) {
    match stream.write_all(bytes) {
        Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            panic!("send: {error}")
        }
        _ => {}
    }
}

/// Closes the client's side and reads the rest, until the server closes, too.
fn drain(mut stream: TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    // Both fail if the server has closed already; the output before that counts.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut received);
    received
}

/// Closes with a reset.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("linger");
}
