//! Tests of networks that hand themselves over, over real sockets.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use crate::network::*;
use crate::options::DriverChoice;
use crate::testing::echo::EchoHandler;

/// Longer than anything takes; a test that waits for so long fails.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOPBACK: Listen = Listen::Tcp(SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)));

fn options(driver: DriverChoice, adopted: Vec<Arc<OwnedFd>>) -> Options {
    Options { workers: 2, driver, adopted, ..Options::default() }
}

fn handlers() -> Vec<EchoHandler> {
    vec![EchoHandler::alone(), EchoHandler::alone()]
}

fn tcp_address(network: &Network) -> SocketAddr {
    match network.addresses()[0] {
        Address::Tcp(address) => address,
        _ => unreachable!("the place is one of TCP"),
    }
}

/// A client.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Client(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("it takes them");
    }

    /// The next line; empty at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => String::new(),
            read => read.map(|_| line).expect("a line"),
        }
    }

    #[track_caller]
    fn echoes(&mut self, line: &str) {
        self.send(line.as_bytes());
        assert_eq!(self.line(), line);
    }
}

/// Hands a network over and returns what is left of it.
fn hand_over(running: Running<EchoHandler>, stop: &Stop, patience: Duration) -> LeftNetwork<EchoHandler> {
    stop.hand_over(patience);
    let left = running.leave().expect("no worker fails");
    assert!(left.is_handed_over());
    left
}

#[test]
fn sockets_of_places_that_are_no_more_are_closed() {
    let first = Network::bind(&[LOOPBACK], options(DriverChoice::Epoll, Vec::new())).expect("a network");
    let (address, sockets) = (tcp_address(&first), first.sockets().expect("descriptors"));
    drop(first);
    let second = Network::bind(&[LOOPBACK], options(DriverChoice::Epoll, sockets)).expect("a network");
    assert_ne!(tcp_address(&second), address, "the kernel has chosen another port");
    let refused = TcpStream::connect(address).expect_err("nobody listens there");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn connections_go_to_the_next_network_and_their_peers_notice_nothing() {
    for driver in [DriverChoice::Epoll, DriverChoice::Auto] {
        let network = Network::bind(&[LOOPBACK], options(driver, Vec::new())).expect("a network");
        let (address, sockets, stop) =
            (tcp_address(&network), network.sockets().expect("descriptors"), network.stop());
        let running = network.start(handlers()).expect("a start");
        let mut clients: Vec<Client> = (0..20).map(|_| Client::new(address)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.echoes(&format!("{number}\n"));
            // Half of them are in the middle of a line.
            if number % 2 == 0 {
                client.send(b"begun ");
            }
        }
        let left = hand_over(running, &stop, PATIENCE);
        assert_eq!(left.connections().len(), 20);
        // Sent while nobody serves; so is the connection.
        clients.iter_mut().for_each(|client| client.send(b"meanwhile\n"));
        let mut late = Client::new(address);
        late.send(b"late\n");
        let place = Listen::Tcp(address);
        let next = Network::bind(&[place], options(driver, sockets)).expect("the same listeners");
        let (view, stop) = (next.view(), next.stop());
        let LeftNetwork { connections, network, .. } = left;
        drop(network);
        let running = next.start_with(handlers(), connections, |_| Ok::<_, Error>(())).expect("a start");
        for (number, client) in clients.iter_mut().enumerate() {
            let expected = if number % 2 == 0 { "begun meanwhile\n" } else { "meanwhile\n" };
            assert_eq!(client.line(), expected, "{number}");
            client.echoes("and so on\n");
        }
        assert_eq!(late.line(), "late\n");
        assert_eq!(view.counts().connections, 21);
        stop.stop();
        running.join().expect("no worker fails");
        assert_eq!(clients[0].line(), "");
    }
}

#[test]
fn a_network_whose_successor_fails_goes_on() {
    let network = Network::bind(&[LOOPBACK], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let (address, stop, view) = (tcp_address(&network), network.stop(), network.view());
    let mut running = network.start(handlers()).expect("a start");
    let mut clients: Vec<Client> = (0..10).map(|_| Client::new(address)).collect();
    clients.iter_mut().for_each(|client| client.echoes("before\n"));
    for round in 0..3 {
        let left = hand_over(running, &stop, PATIENCE);
        clients.iter_mut().for_each(|client| client.send(b"meanwhile\n"));
        running = left.go_on().expect("a start");
        for client in &mut clients {
            assert_eq!(client.line(), "meanwhile\n", "{round}");
        }
        clients.push(Client::new(address));
        clients.iter_mut().for_each(|client| client.echoes("after\n"));
        assert_eq!(view.counts().connections, clients.len() as u64);
    }
    stop.stop();
    running.join().expect("no worker fails");
}

#[test]
fn a_request_that_has_begun_may_end_and_one_that_does_not_is_given_up() {
    let network = Network::bind(&[LOOPBACK], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let (address, stop) = (tcp_address(&network), network.stop());
    let running = network.start(handlers()).expect("a start");
    let [mut quick, mut slow, mut watcher] = [(); 3].map(|()| Client::new(address));
    quick.send(b"body 4\n12");
    slow.send(b"body 4\n12");
    watcher.send(b"watch\n");
    assert_eq!(watcher.line(), "tick\n");
    let ending = std::thread::spawn(move || {
        stop.hand_over(Duration::from_millis(300));
        stop
    });
    std::thread::park_timeout(Duration::from_millis(100));
    quick.send(b"34");
    assert!(!quick.line().is_empty(), "all are served until it is decided");
    let stop = ending.join().expect("no panic");
    let left = running.leave().expect("no worker fails");
    assert_eq!(left.connections().len(), 1);
    assert_eq!(slow.line(), "");
    while !watcher.line().is_empty() {}
    let running = left.go_on().expect("a start");
    quick.echoes("still there\n");
    stop.stop();
    running.join().expect("no worker fails");
}

#[test]
fn a_unix_socket_keeps_its_file() {
    let path = std::env::temp_dir().join(format!("net-handing-{}", std::process::id()));
    let place = || Listen::Unix { path: path.clone(), mode: 0o600 };
    let network = Network::bind(&[place()], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let (sockets, stop) = (network.sockets().expect("descriptors"), network.stop());
    let running = network.start(handlers()).expect("a start");
    let mut client = BufReader::new(UnixStream::connect(&path).expect("a connection"));
    let again = || Network::bind(&[place()], options(DriverChoice::Auto, sockets.clone())).expect("the same");
    drop(again());
    assert!(path.exists(), "it is the other network's as long as this one has not begun");
    let running = hand_over(running, &stop, PATIENCE).go_on().expect("a start");
    let LeftNetwork { connections, network, .. } = hand_over(running, &stop, PATIENCE);
    drop(network);
    let next = again();
    let stop = next.stop();
    let running = next.start_with(handlers(), connections, |_| Ok::<_, Error>(())).expect("a start");
    client.get_mut().write_all(b"x\n").expect("it takes them");
    let mut line = String::new();
    client.read_line(&mut line).expect("a line");
    assert_eq!(line, "x\n");
    drop(UnixStream::connect(&path).expect("another connection"));
    stop.stop();
    running.join().expect("no worker fails");
    assert!(!path.exists(), "the last one removes it");
}

#[test]
fn a_network_that_goes_on_removes_its_unix_socket_at_the_end() {
    let path = std::env::temp_dir().join(format!("net-going-on-{}", std::process::id()));
    let place = Listen::Unix { path: path.clone(), mode: 0o600 };
    let network = Network::bind(&[place], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let stop = network.stop();
    let running = network.start(handlers()).expect("a start");
    let running = hand_over(running, &stop, PATIENCE).go_on().expect("a start");
    drop(UnixStream::connect(&path).expect("a connection"));
    stop.stop();
    running.join().expect("no worker fails");
    assert!(!path.exists());
}

#[test]
fn nobody_is_served_by_a_network_that_could_not_begin() {
    let network = Network::bind(&[LOOPBACK], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let (address, sockets, stop) =
        (tcp_address(&network), network.sockets().expect("descriptors"), network.stop());
    let running = network.start(handlers()).expect("a start");
    let mut client = Client::new(address);
    client.echoes("before\n");
    let left = hand_over(running, &stop, PATIENCE);
    client.send(b"meanwhile\n");
    let copies = left.connections().iter().map(|handed| HandedConnection {
        socket: handed.socket.try_clone().expect("a descriptor"),
        listener: handed.listener,
        state: handed.state.clone(),
        rest: handed.rest.clone(),
    });
    let mut late = Client::new(address);
    late.send(b"late\n");
    let next = Network::bind(&[Listen::Tcp(address)], options(DriverChoice::Auto, sockets));
    let refused = next.expect("the same listener").start_with(handlers(), copies.collect(), |_| {
        std::thread::park_timeout(Duration::from_millis(100));
        Err(Error::Waiting(ErrorKind::Other.into()))
    });
    assert!(refused.is_err());
    let running = left.go_on().expect("a start");
    assert_eq!(client.line(), "meanwhile\n");
    assert_eq!(late.line(), "late\n");
    stop.stop();
    running.join().expect("no worker fails");
}

#[test]
fn a_stop_during_a_hand_over_comes_when_nobody_has_taken_over() {
    let network = Network::bind(&[LOOPBACK], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let (address, stop) = (tcp_address(&network), network.stop());
    let running = network.start(handlers()).expect("a start");
    let [mut resting, mut slow] = [(); 2].map(|()| Client::new(address));
    resting.echoes("before\n");
    slow.send(b"body 4\n12");
    let handing = stop.clone();
    let ending = std::thread::spawn(move || handing.hand_over(Duration::from_millis(400)));
    std::thread::park_timeout(Duration::from_millis(100));
    stop.stop();
    ending.join().expect("no panic");
    let left = running.leave().expect("no worker fails");
    assert!(left.is_handed_over());
    assert_eq!(left.connections().len(), 1, "a successor would have it");
    left.go_on().expect("a start").join().expect("it ends by itself");
    assert_eq!(resting.line(), "");
}

#[test]
fn connections_leave_one_by_one_while_both_networks_serve() {
    let network = Network::bind(&[LOOPBACK], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let (address, sockets, giver) =
        (tcp_address(&network), network.sockets().expect("descriptors"), network.giver());
    let (stop, running) = (network.stop(), network.start(handlers()).expect("a start"));
    // More than leave in one round.
    let mut clients: Vec<Client> = (0..600).map(|_| Client::new(address)).collect();
    clients.iter_mut().for_each(|client| client.echoes("here\n"));
    let mut busy = Client::new(address);
    busy.send(b"here\nbody 4\nab");
    assert_eq!(busy.line(), "here\n");
    clients[0].send(b"begun ");
    let next = Network::bind(&[Listen::Tcp(address)], options(DriverChoice::Auto, sockets));
    let next = next.expect("the same listeners");
    let (intake, view) = (next.intake(), next.view());
    let _next = next.start(handlers()).expect("a start");
    let given = giver.begin().expect("it accepts nothing");
    let taking = std::thread::spawn(move || intake.deal(given));
    clients[0].send(b"and ended\n");
    assert_eq!(clients[0].line(), "begun and ended\n");
    clients.iter_mut().skip(1).for_each(|client| client.echoes("and there\n"));
    let mut late = Client::new(address);
    late.echoes("late\n");
    assert_eq!(giver.left(), 1, "it is in the middle of a body");
    busy.send(b"cd");
    assert_eq!(busy.line(), "4 394\n");
    busy.echoes("there, too\n");
    assert_eq!((giver.left(), view.counts().connections), (0, 602), "the answer came from there");
    // The last sender ends with the network.
    stop.stop();
    running.join().expect("no worker fails");
    taking.join().expect("no panic");
}

#[test]
fn a_network_that_gives_up_goes_on_with_what_nobody_took() {
    let network = Network::bind(&[LOOPBACK], options(DriverChoice::Auto, Vec::new())).expect("a network");
    let (address, giver) = (tcp_address(&network), network.giver());
    let _running = network.start(handlers()).expect("a start");
    let mut clients: Vec<Client> = (0..20).map(|_| Client::new(address)).collect();
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.echoes("here\n"));
        let given = giver.begin().expect("it accepts nothing");
        let mut waiting = Client::new(address);
        waiting.send(b"waiting\n");
        clients.iter_mut().for_each(|client| client.send(b"meanwhile\n"));
        giver.give_up(given);
        assert_eq!(waiting.line(), "waiting\n");
        clients.iter_mut().for_each(|client| assert_eq!(client.line(), "meanwhile\n"));
    }
    assert!(giver.left() >= 20);
}
