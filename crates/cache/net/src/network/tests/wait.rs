//! Tests of waiting times: of input that a worker could not read at once, and of input that a peer held up itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use stdx::gather::Gather;

use super::{LOOPBACK, TIMEOUT};
use crate::clock::Clock;
use crate::event_loop::turn::Turn;
use crate::handler::{Next, Opened, Progress};
use crate::network::*;
use crate::options::DriverChoice;

/// How long a worker is kept from reading.
const HELD_US: u64 = 50_000;

/// So often a connection is tried before the test fails: the sample is chosen anew every second.
const TRIES_MAX: usize = 1000;

/// Answers `line` with itself, `hold` when the test allows it, and `many` with [`MANY`] bytes. Notes waits.
struct WaitHandler {
    waits: Arc<Mutex<Vec<u64>>>,
    held: Sender<()>,
    release: Receiver<()>,
}

/// More than a socket takes.
const MANY: usize = 40_000_000;

impl Handler for WaitHandler {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) {}

    fn on_bytes(
        &mut self,
        _connection: &mut (),
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        if input.starts_with(b"hold") {
            self.held.send(()).expect("the test waits");
            self.release.recv().expect("the test goes on");
        }
        if input.starts_with(b"many") {
            output.hold(vec![b'x'; MANY]);
        }
        output.copied().extend_from_slice(input);
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn on_waited(&mut self, waited_us: u64) {
        self.waits.lock().expect("no panic").push(waited_us);
    }
}

struct WaitNetwork {
    running: Option<Running<WaitHandler>>,
    stop: Stop,
    addresses: Vec<Address>,
    waits: Arc<Mutex<Vec<u64>>>,
    held: Receiver<()>,
    release: Sender<()>,
    clock: Clock,
}

impl WaitNetwork {
    fn start(places: &[Listen], driver: DriverChoice) -> WaitNetwork {
        let network =
            Network::bind(places, Options { workers: 1, driver, ..Options::default() }).expect("a network");
        let (addresses, stop) = (network.addresses(), network.stop());
        let (waits, (held, is_held), (release, released)) = (Arc::default(), channel(), channel());
        let handler = WaitHandler { waits: Arc::clone(&waits), held, release: released };
        let running = Some(network.start(vec![handler]).expect("a start"));
        WaitNetwork { running, stop, addresses, waits, held: is_held, release, clock: Clock::start() }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let Address::Tcp(address) = self.addresses[0] else { panic!("a TCP listener") };
        let client = TcpStream::connect(address).expect("a client");
        client.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        BufReader::new(client)
    }

    fn take_waits(&self) -> Vec<u64> {
        std::mem::take(&mut self.waits.lock().expect("no panic"))
    }

    /// Returns when so much time has passed.
    fn pass(&self, us: u64) {
        let begin = self.clock.now();
        while self.clock.now().us - begin.us < us {
            std::thread::yield_now();
        }
    }
}

impl Drop for WaitNetwork {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.running.take().map(Running::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the network failed");
    }
}

fn exchange<S: Read>(client: &mut BufReader<S>, line: &str)
where
    for<'s> &'s S: Write,
{
    client.get_ref().write_all(line.as_bytes()).expect("send");
    let mut reply = String::new();
    client.read_line(&mut reply).expect("a reply");
    assert_eq!(reply, line);
}

/// While the worker is held by one client, others send. Their waits are as long as it was held after they had sent, and no
/// longer than from before they sent until they had their replies.
#[test]
fn input_that_comes_while_the_worker_is_busy_has_waited_for_so_long() {
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let network = WaitNetwork::start(&[Listen::Tcp(LOOPBACK)], driver);
        let mut clients: Vec<_> = (0..4).map(|_| network.connect()).collect();
        let mut holder = network.connect();
        for attempt in 0.. {
            assert!(attempt < TRIES_MAX, "no wait was noted");
            clients.iter_mut().for_each(|client| exchange(client, "line\n"));
            network.take_waits();
            holder.get_ref().write_all(b"hold\n").expect("send");
            network.held.recv_timeout(TIMEOUT).expect("the worker is held");
            let before = network.clock.now();
            clients.iter().for_each(|client| client.get_ref().write_all(b"line\n").expect("send"));
            network.pass(HELD_US);
            network.release.send(()).expect("the worker is held");
            for client in clients.iter_mut().chain([&mut holder]) {
                client.read_line(&mut String::new()).expect("a reply");
            }
            let since_before = network.clock.now().us - before.us;
            let waits = network.take_waits();
            assert!(waits.iter().all(|wait| *wait <= since_before), "{waits:?} in {since_before} µs");
            // The holder may be the one in the sample: its own input did not wait.
            if waits.iter().any(|wait| *wait >= HELD_US) {
                break;
            }
        }
    }
}

#[test]
fn input_that_its_own_peer_keeps_from_being_read_has_not_waited() {
    let network = WaitNetwork::start(&[Listen::Tcp(LOOPBACK)], DriverChoice::Epoll);
    let mut client = network.connect();
    // Until it is the one in the sample.
    let sampled = (0..1_000_000).any(|_| {
        exchange(&mut client, "line\n");
        !network.take_waits().is_empty()
    });
    assert!(sampled, "no wait was noted");
    client.get_ref().write_all(b"many\n").expect("send");
    let mut some = vec![0; 1 << 16];
    client.read_exact(&mut some).expect("the beginning of the output");
    network.take_waits();
    let before = network.clock.now();
    client.get_ref().write_all(b"line\n").expect("send");
    network.pass(4 * HELD_US);
    let mut left = MANY + "many\n".len() - some.len();
    while left > 0 {
        let room = some.len().min(left);
        left -= client.read(&mut some[..room]).expect("output");
    }
    let mut reply = String::new();
    client.read_line(&mut reply).expect("a reply");
    assert_eq!(reply, "line\n");
    assert!(network.clock.now().us - before.us >= 4 * HELD_US);
    let waits = network.take_waits();
    assert!(waits.iter().all(|wait| *wait < 4 * HELD_US), "{waits:?}");
}

/// With stamps, a unix socket's receive could be given descriptors, which nobody would close.
#[test]
fn unix_sockets_have_no_stamps() {
    let path = std::env::temp_dir().join(format!("evenkeel-waits-{}", std::process::id()));
    let listen = Listen::Unix { path: path.clone(), mode: 0o600 };
    let network = WaitNetwork::start(&[listen], DriverChoice::Epoll);
    let client = UnixStream::connect(&path).expect("a client");
    client.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut client = BufReader::new(client);
    let begin = network.clock.now();
    // Longer than until the sample is chosen anew.
    while network.clock.now().us - begin.us < 1_500_000 {
        exchange(&mut client, "line\n");
    }
    assert_eq!(network.take_waits(), [0; 0]);
}
