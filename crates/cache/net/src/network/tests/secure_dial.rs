//! Tests of dialled connections with TLS.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, SupportedProtocolVersion, version};
use stdx::gather::Gather;
use tls::Trust;

use super::secure::secure;
use super::{TIMEOUT, options};
use crate::event_loop::dial::{Dial, DialTls, Place, Unreachable};
use crate::event_loop::turn::Turn;
use crate::handler::{Next, Opened, Progress, Security};
use crate::network::*;
use crate::secure::handshakes::HandshakeFault;
use crate::secure::tls_ends::{client_config, file};

/// Dials what comes through a channel, greets who answers, and tells the test.
struct Dialler {
    orders: Receiver<Dial>,
    tell: Sender<DialEvent>,
}

#[derive(Debug)]
enum DialEvent {
    Opened(Option<Arc<Security>>),
    Unreachable(Unreachable),
    Received(Vec<u8>),
}

impl Handler for Dialler {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Vec<u8>>) {
        turn.output(opened.link).expect("it is new").copy(b"hello\n");
        self.tell.send(DialEvent::Opened(opened.security.clone())).expect("the test waits");
    }

    fn on_unreachable(&mut self, _: u64, why: Unreachable, _turn: &mut Turn<Vec<u8>>) {
        let _test_is_over = self.tell.send(DialEvent::Unreachable(why));
    }

    fn on_bytes(
        &mut self,
        _: &mut (),
        input: &[u8],
        _output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        self.tell.send(DialEvent::Received(input.to_vec())).expect("the test waits");
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        while let Ok(dial) = self.orders.try_recv() {
            turn.dial(dial, 7).expect("there is room");
        }
    }
}

struct DialNetwork {
    running: Option<Running<Dialler>>,
    order: Sender<Dial>,
    events: Receiver<DialEvent>,
    nudge: Nudge,
    stop: Stop,
}

impl DialNetwork {
    fn new(options: Options) -> DialNetwork {
        let network = Network::bind(&[], Options { workers: 1, ..options }).expect("a network");
        let (nudge, stop) = (network.nudge(), network.stop());
        let ((order, orders), (tell, events)) = (channel(), channel());
        let running = network.start(vec![Dialler { orders, tell }]).expect("threads");
        DialNetwork { running: Some(running), order, events, nudge, stop }
    }

    fn dial(&self, address: SocketAddr, tls: &DialTls, timeout_ms: u32) -> DialEvent {
        let dial = Dial { place: Place::Tcp(address), timeout_ms, tls: Some(tls.clone()) };
        self.order.send(dial).expect("the network runs");
        self.nudge.nudge(0);
        self.events.recv_timeout(TIMEOUT).expect("an outcome")
    }

    #[track_caller]
    fn fails(&self, address: SocketAddr, tls: &DialTls, timeout_ms: u32, expected: Unreachable) {
        let event = self.dial(address, tls, timeout_ms);
        assert!(matches!(event, DialEvent::Unreachable(why) if why == expected), "{event:?}");
    }
}

impl Drop for DialNetwork {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.running.take().map(Running::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the network failed");
    }
}

fn dial_tls(version: &'static SupportedProtocolVersion, name: &'static str) -> DialTls {
    DialTls { settings: Arc::new(client_config(version)), name: ServerName::try_from(name).expect("a name") }
}

fn can_dial() -> Options {
    Options { secure_dials: true, ..Options::default() }
}

#[test]
fn a_dial_with_tls_has_a_session_and_the_next_one_resumes_it() {
    for version in [&version::TLS12, &version::TLS13] {
        let server = secure(options());
        let Address::Tcp(address) = server.addresses[0] else { panic!("a TCP address") };
        let network = DialNetwork::new(can_dial());
        let tls = dial_tls(version, "127.0.0.1");
        for resumed in [false, true, true] {
            let DialEvent::Opened(Some(security)) = network.dial(address, &tls, 60_000) else {
                panic!("a session")
            };
            assert_eq!((security.resumed, security.version.starts_with("TLSv1.")), (resumed, true));
            let event = network.events.recv_timeout(TIMEOUT).expect("an echo");
            assert!(matches!(&event, DialEvent::Received(bytes) if bytes == b"hello\n"), "{event:?}");
        }
    }
}

#[test]
fn a_server_that_is_not_the_one_or_breaks_the_protocol_is_unreachable() {
    let server = secure(options());
    let Address::Tcp(address) = server.addresses[0] else { panic!("a TCP address") };
    let network = DialNetwork::new(can_dial());
    let fault = Unreachable::Handshake;
    let elsewhere = dial_tls(&version::TLS13, "elsewhere.example");
    network.fails(address, &elsewhere, 60_000, fault(HandshakeFault::OtherName));

    let plain = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let tls = dial_tls(&version::TLS13, "127.0.0.1");
    // It neither answers nor closes.
    network.fails(plain.local_addr().expect("an address"), &tls, 50, Unreachable::TimedOut);
    let address = plain.local_addr().expect("an address");
    drop(plain);
    network.fails(address, &tls, 60_000, Unreachable::Refused);
    let untrusting = DialTls { settings: no_authorities(), ..tls };
    let Address::Tcp(address) = server.addresses[0] else { panic!("a TCP address") };
    network.fails(address, &untrusting, 60_000, fault(HandshakeFault::UnknownAuthority));

    for (said, expected) in [
        (&b"ERROR\r\n"[..], HandshakeFault::NotTls),
        (b"", HandshakeFault::Closed),
        (b"\x15\x03\x03\x00\x02\x02\x28", HandshakeFault::NothingInCommon),
        (b"\x15\x03\x03\x00\x02\x02\x74", HandshakeFault::CertificateRequired),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut hello = [0; 5];
            stream.read_exact(&mut hello).expect("the head of a record");
            let mut rest = vec![0; usize::from(u16::from_be_bytes([hello[3], hello[4]]))];
            stream.read_exact(&mut rest).expect("the rest of it");
            stream.write_all(said).expect("an answer");
        });
        let tls = dial_tls(&version::TLS13, "127.0.0.1");
        network.fails(address, &tls, 60_000, fault(expected));
        answering.join().expect("it has answered");
    }
}

/// The system's authorities, or none: the tests' own is not among them.
fn no_authorities() -> Arc<ClientConfig> {
    let system = file("foreign.pem");
    Arc::new(tls::client(Trust::Authorities(&system)).expect("authorities").with_no_client_auth())
}

#[test]
fn dials_in_the_middle_of_their_handshake_end_with_the_network() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut network = DialNetwork::new(can_dial());
    let place = Place::Tcp(silent.local_addr().expect("an address"));
    let tls = Some(dial_tls(&version::TLS13, "127.0.0.1"));
    network.order.send(Dial { place, timeout_ms: 600_000, tls }).expect("the network runs");
    network.nudge.nudge(0);
    // It has begun.
    let _client = silent.accept().expect("a client");
    network.stop.stop();
    network.running.take().map(Running::join).expect("once").expect("an orderly end");
    let event = network.events.recv_timeout(TIMEOUT).expect("an outcome");
    assert!(matches!(event, DialEvent::Unreachable(Unreachable::Stopping)), "{event:?}");
    assert!(network.events.try_recv().is_err(), "one outcome");
}

#[test]
fn without_threads_for_handshakes_a_dial_with_tls_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let network = DialNetwork::new(Options::default());
    let refused = Unreachable::Failed(Errno::OPNOTSUPP.raw_os_error());
    let tls = dial_tls(&version::TLS13, "127.0.0.1");
    network.fails(listener.local_addr().expect("an address"), &tls, 60_000, refused);
}
