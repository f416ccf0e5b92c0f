//! Datagrams that a server takes from an interface below the kernel's sockets (`--udp-xdp`): the same answers, and nothing else is touched.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::process::Command;

use end_to_end::clock;
use end_to_end::network::{FleetHost, FleetNetwork, in_namespaces, ip};
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};

/// The port of servers of these tests, in networks of their own.
const PORT: u16 = 11311;
const HOST: FleetHost = FleetHost::Host(1);
/// Where the test is.
const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// A server on a host of its own, and a client on this one.
struct Pair {
    network: FleetNetwork,
    server: Server,
    socket: UdpSocket,
}

impl Pair {
    fn start(flags: &[&str]) -> Pair {
        let network = FleetNetwork::of_hosts(0, 1);
        let server = Pair::server(network, flags);
        let socket = UdpSocket::bind((HERE, 0)).expect("a socket");
        socket.connect(server.address()).expect("an address");
        Pair { network, server, socket }
    }

    fn server(network: FleetNetwork, flags: &[&str]) -> Server {
        let at = SocketAddr::from((network.ip(HOST), PORT));
        let flags = [&["-U", "11311", "-t", "1"], flags].concat();
        let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        // It is started there, and reached from here over its port for TCP.
        network.within(HOST, || Server::start_exactly_at(at, &subject, &flags)).expect("a server")
    }

    fn send(&self, request: &[u8]) {
        self.socket.send(&framed(request)).expect("send");
    }

    /// The whole reply to a request, which is sent again until there is one: datagrams may be lost.
    fn ask(&self, request: &[u8]) -> Vec<u8> {
        let within = std::time::Duration::from_secs(2);
        self.socket.set_read_timeout(Some(within)).expect("a timeout");
        let answered = clock::wait_for(|| {
            self.send(request);
            let mut parts: Vec<Option<Vec<u8>>> = Vec::new();
            let mut buffer = vec![0; 1 << 16];
            while parts.is_empty() || parts.contains(&None) {
                let len = self.socket.recv(&mut buffer).ok()?;
                let number = |at: usize| usize::from(u16::from_be_bytes([buffer[at], buffer[at + 1]]));
                parts.resize(number(4), None);
                parts[number(2)] = Some(buffer[8..len].to_vec());
            }
            Some(parts.into_iter().flatten().flatten().collect())
        });
        answered.unwrap_or_else(|| panic!("no reply to {}: {}", request.escape_ascii(), self.server.said()))
    }

    fn stat(&self, name: &str) -> u64 {
        stat(&self.server, name)
    }

    /// Sends a packet whose IP header is written here.
    fn send_raw(&self, packet: &[u8]) {
        let raw = rustix::net::RawProtocol::new(255).expect("it is not zero");
        let protocol = Some(rustix::net::Protocol::from_raw(raw));
        let socket = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, protocol);
        let to = SocketAddrV4::new(self.network.ip(HOST), 0);
        let sent = sendto(socket.expect("root may have one"), packet, SendFlags::empty(), &to);
        assert_eq!(sent, Ok(packet.len()));
    }

    /// A packet with a request: a sender, options of IP, and a checksum of UDP.
    fn packet(&self, from: Ipv4Addr, options: &[u8], checksum: u16, request: &[u8]) -> Vec<u8> {
        let udp_len = 8 + 8 + request.len() as u16;
        let head = 20 + options.len() as u16;
        let mut packet = vec![0x40 | (head / 4) as u8, 0];
        packet.extend((head + udp_len).to_be_bytes());
        // The kernel fills in the number and the checksum of the header.
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        packet.extend(from.octets());
        packet.extend(self.network.ip(HOST).octets());
        packet.extend(options);
        let port = self.socket.local_addr().expect("an address").port();
        [port, PORT, udp_len, checksum].iter().for_each(|number| packet.extend(number.to_be_bytes()));
        packet.extend(framed(request));
        packet
    }
}

fn framed(request: &[u8]) -> Vec<u8> {
    [b"\x12\x34\0\0\0\x01\0\0", request].concat()
}

fn stat(server: &Server, name: &str) -> u64 {
    let mut stream = server.connect().expect("a connection");
    stream.write_all(b"stats\r\nquit\r\n").expect("send");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("receive");
    let found =
        text.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
    found.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
}

fn requests() -> Vec<Vec<u8>> {
    let text = |text: &str| text.as_bytes().to_vec();
    let value = "v".repeat(1200);
    vec![
        text("set a 7 0 3\r\nabc\r\n"),
        text("get a\r\n"),
        text("get a nothing a\r\n"),
        text("incr a 1\r\n"),
        text("mg a v f s k O123\r\n"),
        text(&format!("set long 0 0 1200\r\n{value}\r\n")),
        text("get long a long long\r\n"),
        text("delete a\r\n"),
        text("get a\r\n"),
    ]
}

#[test]
fn answers_are_those_of_sockets() {
    if !in_namespaces("frames::answers_are_those_of_sockets") {
        return;
    }
    let mut pair = Pair::start(&[]);
    let by_socket: Vec<Vec<u8>> = requests().iter().map(|request| pair.ask(request)).collect();
    for mode in ["native", "generic"] {
        pair.server.stop().expect("it ends");
        pair.server = Pair::server(pair.network, &["--udp-xdp", "eth0", "--udp-xdp-mode", mode]);
        let by_frames: Vec<Vec<u8>> = requests().iter().map(|request| pair.ask(request)).collect();
        assert_eq!(by_frames, by_socket, "{mode}");
        assert!(pair.stat("evenkeel_udp_xdp_received") >= by_frames.len() as u64, "{mode}");
        assert_eq!(pair.stat("evenkeel_udp_xdp_by_socket"), 0, "{mode}");
        // A value of many datagrams, which the client's buffer has room for, set over TCP, which no program touches.
        let long = vec![b'x'; 60_000];
        let mut stream = pair.server.connect().expect("a connection");
        stream.write_all(b"set huge 0 0 60000\r\n").expect("send");
        stream.write_all(&[&long[..], b"\r\n"].concat()).expect("send");
        let mut stored = [0; 8];
        stream.read_exact(&mut stored).expect("receive");
        assert_eq!(&stored, b"STORED\r\n");
        let reply = pair.ask(b"get huge\r\n");
        let whole = [b"VALUE huge 0 60000\r\n", &long[..], b"\r\nEND\r\n"].concat();
        assert!(reply == whole, "{} bytes", reply.len());
    }
}

#[test]
fn what_the_program_does_not_know_is_served_by_the_socket() {
    if !in_namespaces("frames::what_the_program_does_not_know_is_served_by_the_socket") {
        return;
    }
    let pair = Pair::start(&["--udp-xdp", "eth0"]);
    assert_eq!(pair.ask(b"set a 0 0 1\r\nx\r\n"), b"STORED\r\n");
    let taken = pair.stat("evenkeel_udp_xdp_received");
    // Three fragments.
    let value = "v".repeat(4000);
    assert_eq!(pair.ask(format!("set long 0 0 4000\r\n{value}\r\n").as_bytes()), b"STORED\r\n");
    assert_eq!(pair.stat("evenkeel_udp_xdp_received"), taken, "fragments are the kernel's");
    // Options of IP: a record of the route. The reply goes back by the way of the last request that a port has received.
    let served = pair.stat("evenkeel_udp_requests");
    pair.send_raw(&pair.packet(HERE, &[7, 7, 4, 0, 0, 0, 0, 0], 0, b"get a\r\n"));
    assert!(clock::wait_for(|| (pair.stat("evenkeel_udp_requests") > served).then_some(())).is_some());
    assert_eq!(pair.stat("evenkeel_udp_xdp_received"), taken, "options are the kernel's");
}

#[test]
fn wrong_and_foreign_datagrams_are_counted_and_not_served() {
    if !in_namespaces("frames::wrong_and_foreign_datagrams_are_counted_and_not_served") {
        return;
    }
    let pair = Pair::start(&["--udp-xdp", "eth0"]);
    assert_eq!(pair.ask(b"set a 0 0 1\r\nx\r\n"), b"STORED\r\n");
    let requests = pair.stat("evenkeel_udp_requests");
    let counted = |name: &str, at_least: u64| {
        let counted = clock::wait_for(|| (pair.stat(name) >= at_least).then_some(()));
        assert!(counted.is_some(), "{name}: {}", pair.stat(name));
    };
    for _ in 0..3 {
        pair.send_raw(&pair.packet(HERE, &[], 0x1234, b"get a\r\n"));
    }
    counted("evenkeel_udp_xdp_refused", 3);
    // No checksum is none that is wrong.
    pair.send_raw(&pair.packet(HERE, &[], 0, b"get a\r\n"));
    counted("evenkeel_udp_requests", requests + 1);
    // No firewall sees what comes below the sockets: senders that --udp-allow does not name are dropped by the server.
    let refused = pair.stat("evenkeel_udp_refused");
    pair.send_raw(&pair.packet(Ipv4Addr::new(198, 51, 100, 7), &[], 0, b"get a\r\n"));
    counted("evenkeel_udp_refused", refused + 1);
    // Lengths that lie, and no bytes at all.
    for len in [0_u16, 7, 8, 9, 100, u16::MAX] {
        let mut packet = pair.packet(HERE, &[], 0, b"get a\r\n");
        packet[24..26].copy_from_slice(&len.to_be_bytes());
        pair.send_raw(&packet);
    }
    assert_eq!(pair.ask(b"get a\r\n"), b"VALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn the_program_goes_with_its_server_and_replaces_no_other() {
    if !in_namespaces("frames::the_program_goes_with_its_server_and_replaces_no_other") {
        return;
    }
    let mut pair = Pair::start(&["--udp-xdp", "eth0"]);
    assert_eq!(pair.ask(b"set a 0 0 1\r\nx\r\n"), b"STORED\r\n");
    let program = || {
        let shown = Command::new("ip").args(["-n", "h1", "link", "show", "eth0"]).output().expect("ip");
        String::from_utf8_lossy(&shown.stdout).contains("evenkeel_udp")
    };
    assert!(program());
    let second = pair.network.within(HOST, || {
        let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let mut command = Command::new(&subject.program);
        command.args(&subject.arguments).args([
            "-u",
            "root",
            "-l",
            "127.0.0.2",
            "-p",
            "11400",
            "-U",
            "11400",
            "--udp-xdp",
            "eth0",
        ]);
        command.output().expect("it runs")
    });
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("it has another XDP program already"), "{said}");
    assert_eq!(pair.ask(b"get a\r\n"), b"VALUE a 0 1\r\nx\r\nEND\r\n", "it serves on");
    // The cable is drawn, and put back.
    pair.network.unplug(HOST);
    pair.network.plug(HOST);
    assert_eq!(pair.ask(b"get a\r\n"), b"VALUE a 0 1\r\nx\r\nEND\r\n");
    // Another name is the same interface.
    ip(&["-n", "h1", "link", "set", "eth0", "name", "other"]);
    assert_eq!(pair.ask(b"get a\r\n"), b"VALUE a 0 1\r\nx\r\nEND\r\n");
    ip(&["-n", "h1", "link", "set", "other", "name", "eth0"]);
    pair.server.kill().expect("it ran");
    assert!(clock::wait_for(|| (!program()).then_some(())).is_some(), "the kernel takes it away");
    pair.server = Pair::server(pair.network, &[]);
    assert_eq!(pair.ask(b"get a\r\n"), b"END\r\n", "another one, with a socket");
}
