//! Tests of whole networks over real sockets. Clients block, with a timeout that only a failure reaches. The work of
//! other threads is waited for: a reply shows that its request was served, and nothing more.

mod accept;
mod handing;
mod placement;
mod secure;
mod secure_dial;
mod wait;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::files::file_read::DiskFile;
use crate::handler::{CloseReason, Origin};
use crate::network::view::{ConnectionEntry, Counts};
use crate::options::{AtLimit, DriverChoice};
use crate::sockets::address::Transport;
use crate::testing::echo::{EchoEvent, EchoHandler};
use crate::testing::reading::ReadingHandler;

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A network of echo handlers. Dropping it stops it and waits for its end: socket files are removed.
pub(super) struct TestNetwork {
    running: Option<Running<EchoHandler>>,
    pub(super) view: View,
    stop: Stop,
    pub(super) addresses: Vec<Address>,
    told: Receiver<EchoEvent>,
}

pub(super) fn open(places: &[Listen], options: Options) -> TestNetwork {
    start(Network::bind(places, options).unwrap())
}

fn start(network: Network) -> TestNetwork {
    let (tell, told) = channel();
    let handlers = (0..network.options.workers).map(|_| EchoHandler::new(tell.clone())).collect();
    let (view, stop, addresses) = (network.view(), network.stop(), network.addresses());
    TestNetwork { running: Some(network.start(handlers).unwrap()), view, stop, addresses, told }
}

fn on_loopback(options: Options) -> TestNetwork {
    open(&[Listen::Tcp(LOOPBACK)], options)
}

pub(super) fn options() -> Options {
    Options { workers: 2, ..Options::default() }
}

impl TestNetwork {
    fn connect(&self, number: usize) -> Box<dyn Client> {
        match &self.addresses[number] {
            Address::Udp(_) => panic!("nothing to connect to"),
            Address::Tcp(address) => {
                let client = TcpStream::connect(address).unwrap();
                client.set_read_timeout(Some(TIMEOUT)).unwrap();
                Box::new(client)
            }
            Address::Unix(path) => {
                let client = UnixStream::connect(path.as_ref().unwrap()).unwrap();
                client.set_read_timeout(Some(TIMEOUT)).unwrap();
                Box::new(client)
            }
        }
    }

    pub(super) fn closed(&self) -> (u64, CloseReason) {
        loop {
            if let EchoEvent::Closed(id, reason) = self.told.recv_timeout(TIMEOUT).unwrap() {
                return (id, reason);
            }
        }
    }

    /// Sends lines until the counts are as expected: another thread counts, before or after it sends a reply.
    #[track_caller]
    fn exchange_until(&self, client: &mut dyn Client, ready: impl Fn(Counts) -> bool) {
        let ready = (0..EXCHANGES_MAX).any(|_| {
            exchange(client, "busy\n");
            ready(self.view.counts())
        });
        assert!(ready, "after {EXCHANGES_MAX} lines still {:?}", self.view.counts());
    }
}

/// So many lines that a count which has not changed by then never will: they take a minute, or an hour on a busy
/// machine.
const EXCHANGES_MAX: usize = 2_000_000;

impl Drop for TestNetwork {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.running.take().map(Running::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the network failed");
    }
}

pub(super) trait Client: Read + Write {}
impl<T: Read + Write> Client for T {}

/// Sends a line and reads its echo.
#[track_caller]
pub(super) fn exchange(client: &mut dyn Client, line: &str) {
    client.write_all(line.as_bytes()).unwrap();
    expect_reply(client, line);
}

#[track_caller]
fn expect_reply(client: &mut dyn Client, text: &str) {
    let mut heard = vec![0; text.len()];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(String::from_utf8_lossy(&heard), text);
}

/// A path of this test's own.
fn path(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("net-{}-{test}", std::process::id()))
}

/// Lets this process have `count` files open.
fn allow_files(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        let maximum = limit.maximum.map(|maximum| maximum.max(count));
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum }).unwrap();
    }
}

fn unix(test: &str) -> Listen {
    Listen::Unix { path: path(test), mode: 0o640 }
}

#[test]
fn tcp_and_unix_listeners_are_served_together() {
    let served = open(&[Listen::Tcp(LOOPBACK), unix("both"), Listen::Tcp(LOOPBACK)], options());
    let mut clients: Vec<_> = [0, 1, 2, 0, 1, 2].map(|number| served.connect(number)).into();
    clients.iter_mut().for_each(|client| exchange(client, "hello\n"));
    let mut present = Vec::new();
    let now = Options::default().clock.now();
    let more =
        served.view.connections_from(&mut served.view.cursor(), 10, now, |one| present.push(one.clone()));
    assert!(!more);
    present.sort_by_key(|present| present.opened.id.0);
    let listener = |present: &ConnectionEntry| match present.opened.origin {
        Origin::Accepted { listener } => listener,
        Origin::Dialled { .. } => panic!("no dials in this test"),
    };
    let seen: Vec<_> = present.iter().map(listener).collect();
    assert_eq!(seen.iter().map(|listener| u32::from(*listener)).sum::<u32>(), 6);
    for present in &present {
        assert_eq!(present.opened.local, served.addresses[usize::from(listener(present))]);
        assert_eq!(present.opened.transport == Transport::Unix, listener(present) == 1);
    }
    assert_eq!(present.iter().filter(|present| present.worker == 0).count(), 3);
    let counts = served.view.counts();
    assert_eq!((counts.connections, counts.accepted, counts.bytes_read), (6, 6, 36));
    assert!(matches!(served.addresses[0], Address::Tcp(address) if address.port() != 0));
}

#[test]
fn an_ipv6_address_leaves_the_port_to_ipv4() {
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return eprintln!("this machine has no IPv6");
    }
    // A port that is free for one family may be taken for the other, for instance by a client of another test.
    let attempt = || {
        let any = Network::bind(&[Listen::Tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)))], options())?;
        let Address::Tcp(free) = any.addresses()[0] else { panic!("tcp") };
        drop(any);
        let places = [
            Listen::Tcp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, free.port()))),
            Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], free.port()))),
        ];
        Network::bind(&places, options())
    };
    let network = (0..100).find_map(|_| attempt().ok()).unwrap_or_else(|| attempt().unwrap());
    let served = start(network);
    let Address::Tcp(any) = served.addresses[0] else { panic!("tcp") };
    let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, any.port())).unwrap();
    exchange(&mut client, "six\n");
    exchange(&mut served.connect(1), "four\n");
}

#[test]
fn two_thousand_connections_are_served_by_either_driver() {
    allow_files(10_000);
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let served = on_loopback(Options { driver, connections_max: 3000, ..options() });
        let mut clients: Vec<_> = (0..2000).map(|_| served.connect(0)).collect();
        for repetition in 0..3 {
            let line = format!("line {repetition}\n");
            clients.iter_mut().for_each(|client| client.write_all(line.as_bytes()).unwrap());
            clients.iter_mut().for_each(|client| expect_reply(client, &line));
        }
        assert_eq!(served.view.counts().connections, 2000);
        assert_eq!(served.view.counts().connection_structures, 2000);
        drop(clients);
        (0..2000).for_each(|_| assert_eq!(served.closed().1, CloseReason::Normal));
        exchange(&mut served.connect(0), "once more\n");
        assert_eq!(served.view.counts().connection_structures, 2000);
    }
}

#[test]
fn a_reset_closes_the_connection_and_no_other() {
    let served = on_loopback(options());
    let mut other = served.connect(0);
    exchange(&mut other, "there\n");
    for id in 2..20 {
        let Address::Tcp(address) = served.addresses[0] else { panic!("tcp") };
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"hold 20000000\n").unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        assert_eq!(served.closed(), (id, CloseReason::Error));
        exchange(&mut other, "still there\n");
    }
}

#[test]
fn a_connection_beyond_the_limit_is_refused_with_a_line() {
    let at_limit = AtLimit::Refuse(b"too many\n");
    let served = on_loopback(Options { connections_max: 2, at_limit, ..options() });
    let mut clients = [served.connect(0), served.connect(0)];
    clients.iter_mut().for_each(|client| exchange(client, "hello\n"));
    let mut heard = String::new();
    served.connect(0).read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "too many\n");
    let counts = served.view.counts();
    assert_eq!((counts.rejected, counts.connections, counts.listen_disabled_num), (1, 2, 0));
    let [first, mut second] = clients;
    drop(first);
    served.exchange_until(&mut second, |counts| counts.connections == 1);
    exchange(&mut served.connect(0), "there is room\n");
}

#[test]
fn a_connection_beyond_the_limit_waits_for_another_to_close() {
    let served = on_loopback(Options { connections_max: 2, ..options() });
    let [mut first, second] = [1, 2].map(|_| {
        let mut client = served.connect(0);
        exchange(&mut client, "hello\n");
        client
    });
    let mut third = served.connect(0);
    third.write_all(b"me too\n").unwrap();
    // The first two are served while the third waits.
    served.exchange_until(&mut first, |counts| !counts.accepting);
    let counts = served.view.counts();
    assert_eq!((counts.connections, counts.accepted, counts.rejected), (2, 2, 0));
    drop(second);
    expect_reply(&mut third, "me too\n");
    assert_eq!(served.closed(), (2, CloseReason::Normal));
    drop(first);
    drop(third);
    (0..2).for_each(|_| assert_eq!(served.closed().1, CloseReason::Normal));
    served.exchange_until(&mut served.connect(0), |counts| counts.accepting);
    let counts = served.view.counts();
    assert!(counts.listen_disabled_num >= 1 && counts.time_in_listen_disabled_us > 0);
}

#[test]
fn all_connections_of_a_full_listen_queue_are_accepted() {
    let served = open(&[unix("queue")], Options { connections_max: 1, backlog: Some(1), ..options() });
    std::thread::scope(|scope| {
        for number in 0..20 {
            let served = &served.addresses;
            scope.spawn(move || {
                let Address::Unix(Some(path)) = &served[0] else { panic!("unix") };
                let mut client = UnixStream::connect(path).unwrap();
                client.set_read_timeout(Some(TIMEOUT)).unwrap();
                exchange(&mut client, &format!("{number}\n"));
            });
        }
    });
    assert_eq!(served.view.counts().accepted, 20);
}

#[test]
fn stopping_closes_everything_and_returns_the_handlers() {
    let mut served = open(&[Listen::Tcp(LOOPBACK), unix("stop")], options());
    let mut clients = [served.connect(0), served.connect(1)];
    clients.iter_mut().for_each(|client| exchange(client, "hello\n"));
    served.stop.stop();
    assert_eq!(served.running.take().unwrap().join().unwrap().len(), 2);
    clients.iter_mut().for_each(|client| assert_eq!(client.read(&mut [0]).unwrap(), 0));
    assert!(!path("stop").exists());
}

#[test]
fn a_socket_file_has_its_mode_and_replaces_only_one_without_listener() {
    // A killed run may have left files, and this process may have its number.
    let _missing = fs::remove_file(path("stale"));
    drop(UnixListener::bind(path("stale")).unwrap());
    assert!(path("stale").exists());
    let served = open(&[unix("stale")], options());
    assert_eq!(fs::metadata(path("stale")).unwrap().permissions().mode() & 0o777, 0o640);
    exchange(&mut served.connect(0), "hello\n");

    let error = Network::bind(&[unix("stale")], options()).err().expect("the first one lives");
    assert_eq!(error.to_string(), format!("listen on {}", path("stale").display()));
    exchange(&mut served.connect(0), "still here\n");

    fs::write(path("file"), "precious").unwrap();
    assert!(Network::bind(&[unix("file")], options()).is_err());
    assert_eq!(fs::read_to_string(path("file")).unwrap(), "precious");
    fs::remove_file(path("file")).unwrap();
}

/// Reports the value that it finds in each turn.
struct Turns {
    left: Arc<std::sync::atomic::AtomicU64>,
    tell: Sender<u64>,
}

impl Handler for Turns {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &crate::Opened, _turn: &mut crate::Turn<Vec<u8>>) {}

    fn on_bytes(
        &mut self,
        _: &mut (),
        input: &[u8],
        _output: &mut stdx::gather::Gather<Vec<u8>>,
        _turn: &mut crate::Turn<Vec<u8>>,
    ) -> crate::Progress {
        crate::Progress { consumed: input.len(), next: crate::Next::Read }
    }

    fn begin_turn(&mut self, _now: stdx::clock::Now) {
        let _closed = self.tell.send(self.left.load(Ordering::Relaxed));
    }
}

#[test]
fn a_nudged_worker_sees_what_was_written_before() {
    const NUDGES: u64 = 10_000;
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let network = Network::bind(&[], Options { driver, ..options() }).unwrap();
        let (nudge, stop) = (network.nudge(), network.stop());
        let left = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (tell, told) = channel();
        let (quiet, _closed) = channel();
        let handlers = [quiet, tell].map(|tell| Turns { left: Arc::clone(&left), tell });
        let running = network.start(handlers.into()).unwrap();
        // By ticks alone (one in a second), this would take hours.
        for number in 1..=NUDGES {
            left.store(number, Ordering::Relaxed);
            nudge.nudge(1);
            while told.recv_timeout(TIMEOUT).unwrap() < number {}
        }
        // Many at a time count as one.
        (0..NUDGES).for_each(|_| nudge.nudge(1));
        stop.stop();
        running.join().unwrap();
        assert!(told.iter().count() as u64 <= NUDGES + 10);
    }
}

#[test]
fn datagrams_are_distributed_among_the_workers() {
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let places = [Listen::Tcp(LOOPBACK), Listen::Udp(LOOPBACK)];
        let network = Network::bind(&places, Options { driver, ..options() }).unwrap();
        let [Address::Tcp(_), Address::Udp(address)] = network.addresses()[..] else { panic!("both") };
        let (view, stop) = (network.view(), network.stop());
        let running = network
            .start(vec![crate::testing::scripted::ScriptedHandler::default(), Default::default()])
            .unwrap();
        let peers: Vec<_> = (0..100).map(|_| std::net::UdpSocket::bind(LOOPBACK).unwrap()).collect();
        for peer in &peers {
            peer.set_read_timeout(Some(TIMEOUT)).unwrap();
            peer.send_to(b"1", address).unwrap();
            let mut reply = [0; 10];
            let (len, from) = peer.recv_from(&mut reply).unwrap();
            assert_eq!((&reply[..len], from), (&b"reply 0"[..], address));
        }
        assert_eq!(view.counts().datagrams, 100);
        stop.stop();
        let heard: Vec<usize> =
            running.join().unwrap().iter().map(|handler| handler.datagrams.len()).collect();
        assert!(heard.iter().sum::<usize>() == 100 && heard.iter().all(|count| *count > 10), "{heard:?}");
    }
}

#[test]
fn a_datagram_address_is_not_shared_with_another_network() {
    let network = Network::bind(&[Listen::Udp(LOOPBACK)], Options { workers: 1, ..options() }).unwrap();
    let Address::Udp(address) = network.addresses()[0] else { panic!("udp") };
    let error = Network::bind(&[Listen::Udp(address)], options()).err().expect("it is taken");
    assert_eq!(error.to_string(), format!("listen on udp:{address}"));
}

#[test]
fn workers_read_the_same_file_while_their_connections_wait() {
    const READS: usize = 50;
    let contents: String = (0..1000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    fs::write(path("contents"), &contents).unwrap();
    let file = DiskFile::from(fs::File::open(path("contents")).unwrap());
    fs::remove_file(path("contents")).unwrap();
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let network = Network::bind(&[Listen::Tcp(LOOPBACK)], Options { driver, ..options() }).unwrap();
        let Address::Tcp(address) = network.addresses()[0] else { panic!("tcp") };
        let stop = network.stop();
        let handlers = [0, 1].map(|_| ReadingHandler::new(file.clone()));
        let running = network.start(handlers.into()).unwrap();
        let mut clients: Vec<_> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
        let requests: String = (0..READS).map(|at| format!("{at} 10\n")).collect();
        for client in &mut clients {
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            client.write_all(requests.as_bytes()).unwrap();
        }
        let replies: String = (0..READS).map(|at| format!(":{}\n", &contents[at..at + 10])).collect();
        clients.iter_mut().for_each(|client| expect_reply(client, &replies));
        stop.stop();
        let handlers = running.join().unwrap();
        assert!(handlers.iter().all(|handler| handler.results.len() == 4 * READS));
    }
}
