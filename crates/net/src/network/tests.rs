//! Whole networks over real sockets. Clients block, with a timeout that only a failure runs into, and what other
//! threads do is waited for: a reply that has been heard says that its request was served, and nothing more.

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
use crate::address::Transport;
use crate::handler::{CloseReason, Origin};
use crate::options::{AtLimit, DriverChoice};
use crate::parrot::{Parrot, Told};
use crate::view::{Counts, Present};

const PATIENCE: Duration = Duration::from_secs(60);

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A network of parrots. When dropped it is stopped, and has ended: socket files are gone.
struct Aviary {
    running: Option<Running<Parrot>>,
    view: View,
    stop: Stop,
    addresses: Vec<Address>,
    told: Receiver<Told>,
}

fn open(places: &[Listen], options: Options) -> Aviary {
    populate(Network::bind(places, options).unwrap())
}

fn populate(network: Network) -> Aviary {
    let (tell, told) = channel();
    let handlers = (0..network.options.workers).map(|_| Parrot::new(tell.clone())).collect();
    let (view, stop, addresses) = (network.view(), network.stop(), network.addresses());
    Aviary { running: Some(network.start(handlers).unwrap()), view, stop, addresses, told }
}

fn on_loopback(options: Options) -> Aviary {
    open(&[Listen::Tcp(LOOPBACK)], options)
}

fn options() -> Options {
    Options { workers: 2, ..Options::default() }
}

impl Aviary {
    fn connect(&self, number: usize) -> Box<dyn Client> {
        match &self.addresses[number] {
            Address::Udp(_) => panic!("nothing to connect to"),
            Address::Tcp(address) => {
                let client = TcpStream::connect(address).unwrap();
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(client)
            }
            Address::Unix(path) => {
                let client = UnixStream::connect(path.as_ref().unwrap()).unwrap();
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(client)
            }
        }
    }

    fn closed(&self) -> (u64, CloseReason) {
        loop {
            if let Told::Closed(id, reason) = self.told.recv_timeout(PATIENCE).unwrap() {
                return (id, reason);
            }
        }
    }

    /// Talks with `client` until the counts are as they should be. What counts is done before or after a reply is
    /// sent, by another thread.
    #[track_caller]
    fn talk_until(&self, client: &mut dyn Client, ready: impl Fn(Counts) -> bool) {
        let ready = (0..TALKS_MAX).any(|_| {
            talk(client, "busy\n");
            ready(self.view.counts())
        });
        assert!(ready, "after {TALKS_MAX} lines still {:?}", self.view.counts());
    }
}

/// Lines, so many that what did not happen meanwhile never will: a minute's worth, or an hour's on a busy machine.
const TALKS_MAX: usize = 2_000_000;

impl Drop for Aviary {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.running.take().map(Running::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the network failed");
    }
}

trait Client: Read + Write {}
impl<T: Read + Write> Client for T {}

/// Says a line and hears it repeated.
#[track_caller]
fn talk(client: &mut dyn Client, line: &str) {
    client.write_all(line.as_bytes()).unwrap();
    hear(client, line);
}

#[track_caller]
fn hear(client: &mut dyn Client, text: &str) {
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
fn tcp_and_unix_are_served_at_once_and_say_where_they_are() {
    let aviary = open(&[Listen::Tcp(LOOPBACK), unix("both"), Listen::Tcp(LOOPBACK)], options());
    let mut clients: Vec<_> = [0, 1, 2, 0, 1, 2].map(|number| aviary.connect(number)).into();
    clients.iter_mut().for_each(|client| talk(client, "hello\n"));
    let mut present = Vec::new();
    let now = Options::default().clock.now();
    let more = aviary.view.present_from(&mut aviary.view.cursor(), 10, now, |one| present.push(one.clone()));
    assert!(!more);
    present.sort_by_key(|present| present.opened.id.0);
    let listener = |present: &Present| match present.opened.origin {
        Origin::Accepted { listener } => listener,
        Origin::Dialled { .. } => panic!("nobody dials"),
    };
    let seen: Vec<_> = present.iter().map(listener).collect();
    assert_eq!(seen.iter().map(|listener| u32::from(*listener)).sum::<u32>(), 6);
    for present in &present {
        assert_eq!(present.opened.local, aviary.addresses[usize::from(listener(present))]);
        assert_eq!(present.opened.transport == Transport::Unix, listener(present) == 1);
    }
    assert_eq!(present.iter().filter(|present| present.worker == 0).count(), 3);
    let counts = aviary.view.counts();
    assert_eq!((counts.connections, counts.accepted, counts.bytes_read), (6, 6, 36));
    assert!(matches!(aviary.addresses[0], Address::Tcp(address) if address.port() != 0));
}

#[test]
fn an_ipv6_address_leaves_the_port_to_ipv4() {
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return eprintln!("this machine has no IPv6");
    }
    // A port that is free for one may be somebody's for the other, for instance a client's of another test.
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
    let aviary = populate(network);
    let Address::Tcp(any) = aviary.addresses[0] else { panic!("tcp") };
    let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, any.port())).unwrap();
    talk(&mut client, "six\n");
    talk(&mut aviary.connect(1), "four\n");
}

#[test]
fn two_thousand_connections_are_served_by_either_driver() {
    allow_files(10_000);
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let aviary = on_loopback(Options { driver, connections_max: 3000, ..options() });
        let mut clients: Vec<_> = (0..2000).map(|_| aviary.connect(0)).collect();
        for repetition in 0..3 {
            let line = format!("line {repetition}\n");
            clients.iter_mut().for_each(|client| client.write_all(line.as_bytes()).unwrap());
            clients.iter_mut().for_each(|client| hear(client, &line));
        }
        assert_eq!(aviary.view.counts().connections, 2000);
        assert_eq!(aviary.view.counts().connection_structures, 2000);
        drop(clients);
        (0..2000).for_each(|_| assert_eq!(aviary.closed().1, CloseReason::Normal));
        talk(&mut aviary.connect(0), "once more\n");
        assert_eq!(aviary.view.counts().connection_structures, 2000);
    }
}

#[test]
fn a_reset_closes_the_connection_and_no_other() {
    let aviary = on_loopback(options());
    let mut other = aviary.connect(0);
    talk(&mut other, "there\n");
    for id in 2..20 {
        let Address::Tcp(address) = aviary.addresses[0] else { panic!("tcp") };
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"hold 20000000\n").unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        assert_eq!(aviary.closed(), (id, CloseReason::Error));
        talk(&mut other, "still there\n");
    }
}

#[test]
fn one_beyond_the_limit_is_told_and_closed() {
    let at_limit = AtLimit::Refuse(b"too many\n");
    let aviary = on_loopback(Options { connections_max: 2, at_limit, ..options() });
    let mut clients = [aviary.connect(0), aviary.connect(0)];
    clients.iter_mut().for_each(|client| talk(client, "hello\n"));
    let mut heard = String::new();
    aviary.connect(0).read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "too many\n");
    let counts = aviary.view.counts();
    assert_eq!((counts.rejected, counts.connections, counts.listen_disabled_num), (1, 2, 0));
    let [first, mut second] = clients;
    drop(first);
    aviary.talk_until(&mut second, |counts| counts.connections == 1);
    talk(&mut aviary.connect(0), "there is room\n");
}

#[test]
fn one_beyond_the_limit_waits_for_another_to_close() {
    let aviary = on_loopback(Options { connections_max: 2, ..options() });
    let [mut first, second] = [1, 2].map(|_| {
        let mut client = aviary.connect(0);
        talk(&mut client, "hello\n");
        client
    });
    let mut third = aviary.connect(0);
    third.write_all(b"me too\n").unwrap();
    // The two are served while the third waits.
    aviary.talk_until(&mut first, |counts| !counts.accepting);
    let counts = aviary.view.counts();
    assert_eq!((counts.connections, counts.accepted, counts.rejected), (2, 2, 0));
    drop(second);
    hear(&mut third, "me too\n");
    assert_eq!(aviary.closed(), (2, CloseReason::Normal));
    drop(first);
    drop(third);
    (0..2).for_each(|_| assert_eq!(aviary.closed().1, CloseReason::Normal));
    aviary.talk_until(&mut aviary.connect(0), |counts| counts.accepting);
    let counts = aviary.view.counts();
    assert!(counts.listen_disabled_num >= 1 && counts.time_in_listen_disabled_us > 0);
}

#[test]
fn a_full_listen_queue_is_worked_off() {
    let aviary = open(&[unix("queue")], Options { connections_max: 1, backlog: 1, ..options() });
    std::thread::scope(|scope| {
        for number in 0..20 {
            let aviary = &aviary.addresses;
            scope.spawn(move || {
                let Address::Unix(Some(path)) = &aviary[0] else { panic!("unix") };
                let mut client = UnixStream::connect(path).unwrap();
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                talk(&mut client, &format!("{number}\n"));
            });
        }
    });
    assert_eq!(aviary.view.counts().accepted, 20);
}

#[test]
fn stopping_closes_everything_and_gives_the_handlers_back() {
    let mut aviary = open(&[Listen::Tcp(LOOPBACK), unix("stop")], options());
    let mut clients = [aviary.connect(0), aviary.connect(1)];
    clients.iter_mut().for_each(|client| talk(client, "hello\n"));
    aviary.stop.stop();
    assert_eq!(aviary.running.take().unwrap().join().unwrap().len(), 2);
    clients.iter_mut().for_each(|client| assert_eq!(client.read(&mut [0]).unwrap(), 0));
    assert!(!path("stop").exists());
}

#[test]
fn a_socket_file_has_its_mode_and_replaces_a_dead_one_only() {
    // A run that was killed may have left something, and this process may have its number.
    let _nothing_there = fs::remove_file(path("stale"));
    drop(UnixListener::bind(path("stale")).unwrap());
    assert!(path("stale").exists());
    let aviary = open(&[unix("stale")], options());
    assert_eq!(fs::metadata(path("stale")).unwrap().permissions().mode() & 0o777, 0o640);
    talk(&mut aviary.connect(0), "hello\n");

    let error = Network::bind(&[unix("stale")], options()).err().expect("the first one lives");
    assert_eq!(error.to_string(), format!("listen on {}", path("stale").display()));
    talk(&mut aviary.connect(0), "still here\n");

    fs::write(path("file"), "precious").unwrap();
    assert!(Network::bind(&[unix("file")], options()).is_err());
    assert_eq!(fs::read_to_string(path("file")).unwrap(), "precious");
    fs::remove_file(path("file")).unwrap();
}

/// Tells of each turn what it has been left.
struct Turns {
    left: Arc<std::sync::atomic::AtomicU64>,
    tell: std::sync::mpsc::Sender<u64>,
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
        let _nobody_listens = self.tell.send(self.left.load(Ordering::Relaxed));
    }
}

#[test]
fn a_worker_that_is_nudged_soon_sees_what_was_written_before() {
    const NUDGES: u64 = 10_000;
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let network = Network::bind(&[], Options { driver, ..options() }).unwrap();
        let (nudge, stop) = (network.nudge(), network.stop());
        let left = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (tell, told) = channel();
        let (quiet, _nobody_listens) = channel();
        let handlers = [quiet, tell].map(|tell| Turns { left: Arc::clone(&left), tell });
        let running = network.start(handlers.into()).unwrap();
        // By ticks alone, of which there is one in a second, this would take hours.
        for number in 1..=NUDGES {
            left.store(number, Ordering::Relaxed);
            nudge.nudge(1);
            while told.recv_timeout(PATIENCE).unwrap() < number {}
        }
        // Many at a time are one.
        (0..NUDGES).for_each(|_| nudge.nudge(1));
        stop.stop();
        running.join().unwrap();
        assert!(told.iter().count() as u64 <= NUDGES + 10);
    }
}

#[test]
fn datagrams_are_divided_between_the_workers_beside_connections() {
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let places = [Listen::Tcp(LOOPBACK), Listen::Udp(LOOPBACK)];
        let network = Network::bind(&places, Options { driver, ..options() }).unwrap();
        let [Address::Tcp(_), Address::Udp(address)] = network.addresses()[..] else { panic!("both") };
        let (view, stop) = (network.view(), network.stop());
        let running = network.start(vec![crate::caller::Caller::default(), Default::default()]).unwrap();
        let peers: Vec<_> = (0..100).map(|_| std::net::UdpSocket::bind(LOOPBACK).unwrap()).collect();
        for peer in &peers {
            peer.set_read_timeout(Some(PATIENCE)).unwrap();
            peer.send_to(b"1", address).unwrap();
            let mut reply = [0; 10];
            let (len, from) = peer.recv_from(&mut reply).unwrap();
            assert_eq!((&reply[..len], from), (&b"reply 0"[..], address));
        }
        assert_eq!(view.counts().datagrams, 100);
        stop.stop();
        let heard: Vec<usize> = running.join().unwrap().iter().map(|caller| caller.datagrams.len()).collect();
        assert!(heard.iter().sum::<usize>() == 100 && heard.iter().all(|count| *count > 10), "{heard:?}");
    }
}

#[test]
fn an_address_for_datagrams_is_not_shared_with_another_network() {
    let network = Network::bind(&[Listen::Udp(LOOPBACK)], Options { workers: 1, ..options() }).unwrap();
    let Address::Udp(address) = network.addresses()[0] else { panic!("udp") };
    let error = Network::bind(&[Listen::Udp(address)], options()).err().expect("it is taken");
    assert_eq!(error.to_string(), format!("listen on {address}"));
}
