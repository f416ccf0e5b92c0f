//! Listeners that speak one protocol only (`proto[…]:` in `-l`): what is of the other one is refused as by memcached.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use transcript::Version;

const FLAGS: [&str; 6] =
    ["-t", "1", "-l", "proto[binary]:127.0.0.1:0", "-l", "proto[ascii]:tag_two_:127.0.0.1:0"];

/// The memcached that knows all of it.
const COMPARED: Version = (1, 6, 45);

/// A `noop` in a packet, and the reply to it.
const NOOP: &[u8] = b"\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const NOOP_DONE: &[u8] = b"\x81\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// A server with three listeners, and the addresses of those with a protocol: binary, then text.
fn start(subject: &ServerUnderTest, flags: &[&str], transport: &str) -> (Server, Vec<SocketAddr>) {
    let server = Server::start(subject, &[&FLAGS, flags].concat()).expect("a server");
    let mut stream = server.connect().expect("a connection");
    stream.write_all(b"stats conns\r\nquit\r\n").expect("send");
    let mut list = String::new();
    stream.read_to_string(&mut list).expect("receive");
    let has_no_peer = |line: &&str| {
        let number = line.split(':').next().unwrap_or_default();
        transport == "udp" || list.contains(&format!("{number}:state conn_listening"))
    };
    let at = |line: &str| line.split_once(&format!(":addr {transport}:"))?.1.parse().ok();
    let all: Vec<SocketAddr> = list.lines().filter(has_no_peer).filter_map(at).collect();
    assert_eq!(all.len(), 3, "{list}");
    (server, all[1..].to_vec())
}

/// What comes back on a new connection that sends `bytes` and ends.
fn ask(at: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.set_read_timeout(Some(clock::PATIENCE)).expect("a timeout");
    stream.write_all(bytes).expect("send");
    let mut reply = Vec::new();
    // A server that closes with something unread resets the connection.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read_to_end(&mut reply);
    reply
}

#[test]
fn a_listener_with_a_protocol_speaks_no_other() {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    // Older ones do not know the prefix.
    let mut subjects: Vec<_> = [memcached].into_iter().filter(|it| it.memcached >= Some(COMPARED)).collect();
    subjects.extend([SocketDriver::Epoll, SocketDriver::Uring].map(ServerUnderTest::evenkeel));
    for subject in subjects {
        let (server, at) = start(&subject, &[], "tcp");
        let name = &subject.name;
        assert_eq!(ask(at[0], NOOP), NOOP_DONE, "{name}");
        assert_eq!(ask(at[0], b"mn\r\n"), b"", "{name}: text is not answered");
        assert_eq!(ask(at[0], &[NOOP, b"mn\r\n"].concat()[..]).len() % 24, 0, "{name}");
        assert_eq!(ask(at[1], b"mn\r\n"), b"MN\r\n", "{name}");
        // The opcode of a noop is a line feed.
        let lines = b"CLIENT_ERROR bad command line format\r\nERROR\r\nMN\r\n";
        assert_eq!(ask(at[1], &[NOOP, b"\r\nmn\r\n"].concat()), lines, "{name}: packets are lines");
        // The one without a protocol speaks both.
        assert_eq!(ask(server.address(), NOOP), NOOP_DONE, "{name}");
        assert_eq!(ask(server.address(), b"mn\r\n"), b"MN\r\n", "{name}");
    }
}

#[test]
fn datagrams_of_another_protocol_are_not_answered() {
    let evenkeel = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let (_server, at) = start(&evenkeel, &["-U", "-1"], "udp");
    let reply = |socket: &UdpSocket| {
        let mut buffer = [0; 2000];
        let len = socket.recv(&mut buffer).expect("a reply");
        buffer[8..len].to_vec()
    };
    for (at, other, own, answer) in
        [(at[0], &b"mn\r\n"[..], NOOP, NOOP_DONE), (at[1], NOOP, &b"mn\r\n"[..], &b"MN\r\n"[..])]
    {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(clock::PATIENCE)).expect("a timeout");
        socket.connect(at).expect("an address");
        // The second one is of the listener's protocol: its reply is the first to come.
        socket.send(&[b"\0\x07\0\0\0\x01\0\0", other].concat()).expect("send");
        socket.send(&[b"\0\x08\0\0\0\x01\0\0", own].concat()).expect("send");
        assert_eq!(reply(&socket), answer);
    }
}

/// Text for a listener that speaks the binary protocol: each connection ends at its first byte, and nothing stays.
#[test]
fn text_on_a_binary_listener_leaves_nothing_behind() {
    let evenkeel = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let (mut server, at) = start(&evenkeel, &["-m", "64"], "tcp");
    let line = format!("set k 0 0 60000\r\n{}\r\n", "v".repeat(60_000));
    for number in 0..3000 {
        let mut stream = TcpStream::connect(at[0]).expect("a connection");
        // It may be closed before all of it is sent.
        let _ = stream.write_all(&line.as_bytes()[..if number % 10 == 0 { line.len() } else { 40 }]);
        let mut reply = Vec::new();
        stream.set_read_timeout(Some(clock::PATIENCE)).expect("a timeout");
        let _ = stream.read_to_end(&mut reply);
        assert_eq!(reply, b"");
    }
    assert!(server.is_alive());
    assert_eq!(ask(at[0], NOOP), NOOP_DONE);
    let resident = server.resident().expect("it is there") >> 20;
    assert!(resident < 48, "{resident} MiB");
}
