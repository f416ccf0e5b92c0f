//! Tests of accept queues and of inherited sockets over real sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, listen, shutdown, socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::network::*;
use crate::options::AtLimit;
use crate::testing::echo::EchoHandler;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A path of this test's own.
fn path(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("net-accept-{}-{test}", std::process::id()))
}

fn inherited(socket: &impl AsFd) -> Listen {
    Listen::Inherited(Arc::new(socket.as_fd().try_clone_to_owned().expect("a descriptor")))
}

fn tcp() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// A network of one echo handler, ended with this value.
struct Served {
    running: Option<Running<EchoHandler>>,
    view: View,
    stop: Stop,
}

impl Served {
    fn start(places: &[Listen], options: Options) -> Served {
        let network = Network::bind(places, Options { workers: 1, ..options }).expect("a network");
        let (view, stop) = (network.view(), network.stop());
        let running = Some(network.start(vec![EchoHandler::alone()]).expect("a start"));
        Served { running, view, stop }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.running.take().map(Running::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the network failed");
    }
}

#[track_caller]
fn exchange(mut client: impl Read + Write) {
    client.write_all(b"hello\n").expect("sent");
    let mut heard = [0; 6];
    client.read_exact(&mut heard).expect("an echo");
    assert_eq!(&heard, b"hello\n");
}

fn client(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("a client");
    client.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    client
}

/// The number of clients that fit the queue of a unix listener, counted until one does not, or `most`.
fn fitting(path: &PathBuf, most: usize) -> usize {
    let name = SocketAddrUnix::new(path).expect("a path");
    let mut clients = Vec::new();
    while clients.len() < most {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket");
        match connect(&client, &name) {
            Ok(()) => clients.push(client),
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                break;
            }
        }
    }
    clients.len()
}

#[track_caller]
fn check_queue(test: &str, backlog: Option<u32>, granted: u32) {
    // Beyond the kernel's default of 4096. Other tests need a few thousand files at the same time.
    const MOST: usize = 4500;
    let limit = getrlimit(Resource::Nofile);
    let files = 10_000;
    if limit.current.is_some_and(|current| current < files) {
        let maximum = limit.maximum.map(|maximum| maximum.max(files));
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).expect("files");
    }
    let place = Listen::Unix { path: path(test), mode: 0o600 };
    let network = Network::bind(&[place], Options { backlog, ..Options::default() }).expect("a network");
    assert_eq!(network.backlog(), granted);
    // The kernel lets one more connection wait.
    assert_eq!(fitting(&path(test), MOST), (granted as usize + 1).min(MOST));
}

#[test]
fn the_queue_is_as_long_as_the_kernel_allows_unless_a_length_is_given() {
    let somaxconn = QueueSettings::read().somaxconn.expect("this namespace's limit");
    check_queue("default", None, somaxconn);
    check_queue("given", Some(5), 5.min(somaxconn));
    check_queue("none", Some(0), 0);
    check_queue("beyond", Some(u32::MAX), somaxconn);
}

#[test]
fn inherited_sockets_are_served_beside_our_own_and_their_files_stay() {
    // Both block, as sockets of other programs do.
    let (listener, address) = tcp();
    let file = path("served");
    let unix = UnixListener::bind(&file).expect("a listener");
    let own = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let served = Served::start(&[inherited(&listener), own, inherited(&unix)], Options::default());
    exchange(client(address));
    let local = UnixStream::connect(&file).expect("a client");
    local.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    exchange(local);
    assert_eq!(served.view.counts().accepted, 2);
    drop(served);
    assert!(file.exists(), "the file is its owner's");
    std::fs::remove_file(file).expect("it is there");
    // So is the socket: the owner still has it, and its next clients wait there.
    let waiting = TcpStream::connect(address).expect("a client");
    listener.set_nonblocking(false).expect("a flag");
    assert_eq!(listener.accept().expect("it waits").1, waiting.local_addr().expect("bound"));
}

#[test]
fn a_client_over_ipv4_at_a_socket_for_both_has_its_ipv4_address() {
    // The standard library binds a socket that takes IPv4, too.
    let Ok(both) = TcpListener::bind("[::]:0") else { return eprintln!("this machine has no IPv6") };
    let port = both.local_addr().expect("bound").port();
    let served = Served::start(&[inherited(&both)], Options::default());
    let client = client(SocketAddr::from(([127, 0, 0, 1], port)));
    exchange(&client);
    let (mut present, now) = (Vec::new(), Options::default().clock.now());
    served.view.connections_from(&mut served.view.cursor(), 10, now, |one| present.push(one.opened.clone()));
    let [opened] = &present[..] else { panic!("{} connections", present.len()) };
    assert_eq!(opened.peer, Address::Tcp(client.local_addr().expect("bound")));
    assert_eq!(opened.local, Address::Tcp(client.peer_addr().expect("connected")));
}

#[test]
fn the_queue_of_an_inherited_socket_is_its_owners_unless_a_length_is_given() {
    for (test, backlog, expected) in [("kept", None, 3), ("set", Some(7), 7)] {
        let file = path(test);
        let unix = UnixListener::bind(&file).expect("a listener");
        listen(&unix, 3).expect("a queue");
        let network = Network::bind(&[inherited(&unix)], Options { backlog, ..Options::default() });
        assert_eq!(fitting(&file, 100), expected + 1);
        drop(network.expect("a network"));
        std::fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn a_socket_that_another_process_accepts_from_is_shared() {
    const CLIENTS: usize = 500;
    let (listener, address) = tcp();
    let other: OwnedFd = listener.as_fd().try_clone_to_owned().expect("a descriptor");
    let served = Served::start(&[inherited(&listener)], Options::default());
    let other = TcpListener::from(other);
    let ended = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        // It takes what it can, so that the acceptor is woken for connections that are gone.
        let rival = scope.spawn(|| {
            let mut taken = 0;
            while !ended.load(Ordering::SeqCst) {
                match other.accept() {
                    Ok((mut stream, _)) => {
                        stream.set_nonblocking(false).expect("a flag");
                        let mut line = [0; 6];
                        stream.read_exact(&mut line).expect("a line");
                        stream.write_all(&line).expect("sent");
                        taken += 1;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "it does not block"),
                }
            }
            taken
        });
        (0..CLIENTS).for_each(|_| exchange(client(address)));
        ended.store(true, Ordering::SeqCst);
        rival.join().expect("the other one")
    });
    assert_eq!(served.view.counts().accepted + taken, CLIENTS as u64);
    println!("the other one accepted {taken} of {CLIENTS}");
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Receives the notices of the tests below.
fn note(line: &str) {
    LINES.lock().expect("no panic here").push(line.to_owned());
}

/// The notices about this address.
fn lines_about(address: &str) -> usize {
    let lines = LINES.lock().expect("no panic here");
    lines.iter().filter(|line| line.contains(&format!(" {address}:"))).count()
}

fn until(so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    panic!("waited in vain");
}

#[track_caller]
fn check_given_up(how: Shutdown, options: Options) {
    let ((lost, gone), (kept, address)) = (tcp(), tcp());
    let file = path(&format!("lost-{how:?}-{}", options.connections_max));
    let unix = UnixListener::bind(&file).expect("a listener");
    let places = [&lost as &dyn AsFd, &kept, &unix].map(|socket| {
        Listen::Inherited(Arc::new(socket.as_fd().try_clone_to_owned().expect("a descriptor")))
    });
    let served = Served::start(&places, Options { notice: note, ..options.clone() });
    let first = client(address);
    exchange(&first);
    let full = options.connections_max == 1;
    let second = full.then(|| client(address));
    if full {
        // The acceptor pauses, because the second client has to wait.
        until(|| !served.view.counts().accepting);
    }
    shutdown(&lost, how).expect("it listens");
    shutdown(&unix, how).expect("it listens");
    let names = [gone.to_string(), file.display().to_string()];
    until(|| names.iter().all(|name| lines_about(name) > 0));
    drop(first);
    match second {
        Some(second) => exchange(second),
        None => (0..100).for_each(|_| exchange(client(address))),
    }
    assert_eq!(names.map(|name| lines_about(&name)), [1, 1], "each is given up once");
    std::fs::remove_file(file).expect("it is there");
}

#[test]
fn a_socket_that_another_process_shuts_down_is_given_up_and_the_others_are_served() {
    for how in [Shutdown::Both, Shutdown::Read] {
        check_given_up(how, Options::default());
        // Also while no connection is accepted.
        check_given_up(how, Options { connections_max: 1, at_limit: AtLimit::Wait, ..Options::default() });
    }
}
