//! Tests of TLS over real sockets, with rustls' own client.

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned, SupportedProtocolVersion, version};
use stdx::prng::Prng;
use tls::{ListenerTls, PeerCheck, TlsSettings};

use super::{LOOPBACK, TIMEOUT, TestNetwork, exchange, open, options};
use crate::handler::CloseReason;
use crate::network::*;
use crate::options::{AtLimit, DriverChoice};
use crate::secure::tls_ends::{acceptor, certificates, client_config};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

type Client = StreamOwned<ClientConnection, TcpStream>;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

pub(super) fn secure(options: Options) -> TestNetwork {
    open(&[Listen::Tcp(LOOPBACK)], Options { acceptors: vec![Some(acceptor())], ..options })
}

fn session(version: &'static SupportedProtocolVersion) -> ClientConnection {
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    ClientConnection::new(Arc::new(client_config(version)), name).expect("a session")
}

impl TestNetwork {
    fn socket(&self) -> TcpStream {
        let Address::Tcp(address) = &self.addresses[0] else { panic!("a TCP address") };
        let socket = TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        socket
    }

    fn secure(&self, version: &'static SupportedProtocolVersion) -> Client {
        StreamOwned::new(session(version), self.socket())
    }
}

fn each(mut check: impl FnMut(DriverChoice, &'static SupportedProtocolVersion)) {
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        VERSIONS.into_iter().for_each(|version| check(driver, version));
    }
}

/// A random command and its reply.
fn command(random: &mut Prng) -> (Vec<u8>, Vec<u8>) {
    let size = |random: &mut Prng| match random.below(4) {
        0 => random.below(20_000) as usize,
        1 => random.below(400_000) as usize,
        _ => random.below(200) as usize,
    };
    match random.below(5) {
        0 => {
            let held = size(random);
            (format!("hold {held}\n").into(), [vec![b'h'; held], b"\n".to_vec()].concat())
        }
        1 => {
            let copied = size(random);
            (format!("copy {copied}\n").into(), [vec![b'c'; copied], b"\n".to_vec()].concat())
        }
        2 => {
            let body: Vec<u8> = (0..size(random) + 1).map(|_| random.below(256) as u8).collect();
            let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
            let reply = format!("{} {sum}\n", body.len());
            ([format!("body {}\n", body.len()).into_bytes(), body].concat(), reply.into())
        }
        3 => {
            let lines = 1 + random.below(20);
            let reply: String = (1..=lines).rev().map(|line| format!("{line}\n")).collect();
            (format!("spin {lines}\n").into(), reply.into())
        }
        _ => {
            let line = format!("line{}\n", "x".repeat(random.below(100) as usize));
            (line.clone().into(), line.into())
        }
    }
}

/// Sends `bytes` in records of random lengths.
fn send_in_records(client: &mut Client, mut bytes: &[u8], random: &mut Prng) {
    while !bytes.is_empty() {
        let most = [1, 100, 16_384, 70_000][random.below(4) as usize];
        let (record, rest) = bytes.split_at(bytes.len().min(1 + random.below(most) as usize));
        client.write_all(record).expect("the server takes it");
        client.flush().expect("the server takes it");
        bytes = rest;
    }
}

#[test]
fn whatever_is_sent_in_whatever_records_is_answered_as_without_tls() {
    each(|driver, version| {
        let network = secure(Options { driver, ..options() });
        for seed in 0..3 {
            let mut random = Prng::new(seed);
            let mut client = network.secure(version);
            for _ in 0..30 {
                let count = 1 + random.below(4);
                let commands: Vec<_> = (0..count).map(|_| command(&mut random)).collect();
                let (asked, expected): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
                send_in_records(&mut client, &asked.concat(), &mut random);
                let expected = expected.concat();
                let mut reply = vec![0; expected.len()];
                client.read_exact(&mut reply).expect("a reply");
                assert!(reply == expected, "seed {seed}, {driver:?}, {version:?}");
            }
            client.write_all(b"quit\n").expect("sent");
            // An end without the peer's word for it would be an error.
            assert_eq!(client.read(&mut [0]).expect("the end of the session"), 0);
        }
        let counts = network.view.handshakes();
        let of_version = if version.version == rustls::ProtocolVersion::TLSv1_2 {
            counts.full.v1_2
        } else {
            counts.full.v1_3
        };
        assert_eq!(of_version, 3, "{version:?}");
        assert_eq!((counts.full.sum(), counts.failed, counts.in_progress), (3, 0, 0));
    });
}

#[test]
fn a_peer_that_does_not_read_gets_everything_later_and_delays_nobody() {
    each(|driver, version| {
        let network = secure(Options { workers: 1, driver, ..options() });
        let mut slow = network.secure(version);
        let held = 3_000_000;
        slow.write_all(format!("hold {held}\ncopy {held}\nlast\n").as_bytes()).expect("sent");
        let mut other = network.secure(version);
        (0..100).for_each(|_| exchange(&mut other, "between\n"));
        let expected = [vec![b'h'; held], b"\n".to_vec(), vec![b'c'; held], b"\nlast\n".to_vec()].concat();
        let mut reply = vec![0; expected.len()];
        slow.read_exact(&mut reply).expect("a reply");
        assert!(reply == expected);
        exchange(&mut slow, "still there\n");
    });
}

#[test]
fn requests_that_come_with_the_end_of_the_handshake_are_answered() {
    each(|driver, version| {
        let network = secure(Options { driver, ..options() });
        let mut client = network.secure(version);
        // Buffered until there is a session, and then sent with the last message.
        client.conn.writer().write_all(b"early\nhold 20000\n").expect("buffered");
        let mut reply = vec![0; 6 + 20_001];
        client.read_exact(&mut reply).expect("a reply");
        assert!(reply.starts_with(b"early\nhhh"));
    });
}

#[test]
fn records_of_one_byte_are_read_and_a_client_that_ends_the_session_is_told_the_end() {
    let network = secure(options());
    let mut client = network.secure(&version::TLS13);
    for byte in b"one byte at a time\n".repeat(20) {
        client.conn.writer().write_all(&[byte]).expect("buffered");
        // One record each, all in one send.
    }
    client.flush().expect("sent");
    let mut reply = vec![0; 19 * 20];
    client.read_exact(&mut reply).expect("a reply");
    client.conn.send_close_notify();
    client.flush().expect("sent");
    assert_eq!(client.read(&mut [0]).expect("the end of the session"), 0);
    assert_eq!(network.closed().1, CloseReason::Normal);
}

#[test]
fn what_cannot_be_decrypted_ends_the_connection_with_an_alert() {
    each(|driver, version| {
        let network = secure(Options { driver, ..options() });
        let mut client = network.secure(version);
        exchange(&mut client, "hello\n");
        // A record of content (RFC 8446, 5.1) that nobody has encrypted.
        client.sock.write_all(b"\x17\x03\x03\x00\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").expect("sent");
        let error = client.read(&mut [0]).expect_err("an alert");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains("BadRecordMac"), "{error}");
        assert_eq!(network.closed().1, CloseReason::Error);
        assert_eq!(network.view.counts().sessions_failed, 1);
        exchange(&mut network.secure(version), "others go on\n");
    });
}

#[test]
fn plain_text_and_garbage_fail_the_handshake_and_nobody_else_notices() {
    let network = secure(options());
    let mut random = Prng::new(1);
    let garbage: Vec<u8> = (0..100_000).map(|_| random.below(256) as u8).collect();
    let cases =
        [&b"get key\r\n"[..], b"\x80\x01", &garbage, b"\x16\x03\x01\xff\xff", b"GET / HTTP/1.1\r\n\r\n"];
    for bytes in cases {
        let mut client = network.socket();
        let _refused = client.write_all(bytes);
        let _shut = client.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _reset = client.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == 21, "an alert or nothing: {answer:?}");
    }
    exchange(&mut network.secure(&version::TLS13), "served\n");
    let counts = network.view.handshakes();
    assert_eq!((counts.failed, counts.full.sum(), counts.in_progress), (cases.len() as u64, 1, 0));
    assert_eq!(network.view.counts().accepted, 1);
}

#[test]
fn clients_that_stop_half_way_make_room_for_others() {
    let network = secure(Options { handshakes_max: 8, handshake_timeout_ms: 600_000, ..options() });
    let hello = {
        let mut bytes = Vec::new();
        session(&version::TLS13).write_tls(&mut bytes).expect("memory takes all");
        bytes
    };
    let mut half: Vec<TcpStream> = Vec::new();
    for number in 0..100 {
        let mut client = network.socket();
        client.write_all(&hello[..number * 7 % hello.len()]).expect("sent");
        half.push(client);
    }
    let mut honest = network.secure(&version::TLS13);
    exchange(&mut honest, "served\n");
    let counts = network.view.handshakes();
    assert!(counts.displaced >= 92 && counts.in_progress <= 8, "{counts:?}");
    assert_eq!(network.view.counts().connections, 1);
}

#[test]
fn a_unix_socket_is_served_without_tls_also_where_an_acceptor_is_given() {
    let path = std::env::temp_dir().join(format!("evenkeel-plain-{}", std::process::id()));
    let _stale = std::fs::remove_file(&path);
    let socket = std::os::unix::net::UnixListener::bind(&path).expect("a listener");
    let place = Listen::Inherited(Arc::new(socket.into()));
    let network = open(&[place], Options { acceptors: vec![Some(acceptor())], ..options() });
    let mut client = std::os::unix::net::UnixStream::connect(&path).expect("a connection");
    client.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    exchange(&mut client, "plain\n");
    assert_eq!(network.view.handshakes().full.sum(), 0);
    let _gone = std::fs::remove_file(&path);
}

#[test]
fn a_handshake_has_a_deadline() {
    let network = secure(Options { handshake_timeout_ms: 50, ..options() });
    let mut silent = network.socket();
    let mut told = Vec::new();
    silent.read_to_end(&mut told).expect("the end");
    assert_eq!(told, b"\x15\x03\x03\x00\x02\x01\x00", "close_notify");
    assert_eq!(network.view.handshakes().expired, 1);
}

/// An end without the server's word for it would be the error `UnexpectedEof`.
#[track_caller]
fn check_clean_end(client: &mut Client) {
    assert_eq!(client.read(&mut [0]).expect("close_notify"), 0);
}

#[test]
fn idle_and_stopped_sessions_end_with_close_notify() {
    each(|driver, version| {
        let network = secure(Options { driver, idle_timeout_s: 1, ..options() });
        let mut idle = network.secure(version);
        exchange(&mut idle, "hello\n");
        check_clean_end(&mut idle);
        assert_eq!(network.closed().1, CloseReason::IdleTimeout);

        let network = secure(Options { driver, ..options() });
        let mut open = network.secure(version);
        exchange(&mut open, "hello\n");
        drop(network);
        check_clean_end(&mut open);
    });
}

#[test]
fn output_that_is_lost_at_the_end_is_a_cut() {
    each(|driver, version| {
        let network = secure(Options { driver, ..options() });
        let mut slow = network.secure(version);
        // More than the sockets hold.
        slow.write_all(b"hold 30000000\n").expect("sent");
        slow.read_exact(&mut [0]).expect("the beginning of the reply");
        drop(network);
        let mut rest = Vec::new();
        let error = slow.read_to_end(&mut rest).expect_err("no close_notify");
        assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
        assert!(rest.len() < 30_000_000);
    });
}

#[test]
fn a_client_that_is_refused_at_the_limit_is_told_in_tls() {
    let at_limit = AtLimit::Refuse(b"full\r\n");
    each(|driver, version| {
        let network = secure(Options { driver, connections_max: 1, at_limit, ..options() });
        let (mut first, mut second) = (network.secure(version), network.secure(version));
        while network.view.handshakes().in_progress < 2 {
            std::thread::yield_now();
        }
        // Accepted while there was room: the session is refused.
        exchange(&mut first, "first\n");
        let _refused = second.conn.complete_io(&mut second.sock);
        let mut told = Vec::new();
        second.read_to_end(&mut told).expect("close_notify");
        assert_eq!(told, b"full\r\n");
        // Accepted at the limit: the handshake is refused.
        let mut third = Vec::new();
        network.socket().read_to_end(&mut third).expect("the end");
        assert_eq!(third, b"\x15\x03\x03\x00\x02\x02\x50", "internal_error");
        exchange(&mut first, "first\n");
        assert_eq!(network.view.counts().rejected, 2);
    });
}

#[test]
fn sessions_for_the_kernel_work_whether_it_takes_keys_or_not() {
    let settings = TlsSettings { kernel: true, ..TlsSettings::new(certificates()) };
    let (listener, _) = ListenerTls::load(settings).expect("files");
    let acceptor = Arc::new(listener.acceptor(PeerCheck::Never).expect("no authorities are needed"));
    // Whether it does depends on this machine's kernel.
    for version in VERSIONS {
        let acceptors = vec![Some(Arc::clone(&acceptor))];
        let network = open(&[Listen::Tcp(LOOPBACK)], Options { acceptors, ..options() });
        let mut client = network.secure(version);
        (0..100).for_each(|_| exchange(&mut client, "served\n"));
        drop(network);
        check_clean_end(&mut client);
    }
}

#[test]
fn sessions_count_as_connections_once_they_are_established() {
    let network = secure(Options { connections_max: 1, handshake_timeout_ms: 200, ..options() });
    let mut first = network.secure(&version::TLS13);
    let mut second = network.secure(&version::TLS13);
    // Both were accepted before either counts; the second then waits for longer than a handshake may take.
    first.conn.complete_io(&mut first.sock).expect("a handshake");
    exchange(&mut first, "first\n");
    second.conn.complete_io(&mut second.sock).expect("a handshake");
    let (_sender, never) = channel::<()>();
    let _passed = never.recv_timeout(Duration::from_millis(300));
    let waiting = std::thread::spawn(move || exchange(&mut second, "second\n"));
    (0..50).for_each(|_| exchange(&mut first, "first\n"));
    assert_eq!(network.view.counts().accepted, 1);
    drop(first);
    waiting.join().expect("the second is served after the first");

    let network = secure(Options { connections_max: 1, at_limit: AtLimit::Refuse(b"full\r\n"), ..options() });
    let (mut first, mut second) = (network.secure(&version::TLS13), network.secure(&version::TLS13));
    first.conn.complete_io(&mut first.sock).expect("a handshake");
    exchange(&mut first, "first\n");
    assert!(second.write_all(b"second\n").and_then(|()| second.read_exact(&mut [0; 7])).is_err());
    exchange(&mut first, "first\n");
}
