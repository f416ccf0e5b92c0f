//! Tests of connections with TLS, one round at a time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConnection, SupportedProtocolVersion, version};
use tls::{CertificateFiles, ListenerTls, PeerCheck, TlsSettings};

use super::tests::{Rig, with_each_driver};
use crate::INPUT_MAX;
use crate::echo::EchoEvent;
use crate::handler::CloseReason;
use crate::session::{Session, SessionSide, SessionStep};

/// A client whose records the test cuts and delays.
struct Client {
    session: ClientConnection,
    socket: UnixStream,
}

impl Client {
    /// Records with `content`.
    fn records(&mut self, content: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        self.session.writer().write_all(content).expect("room");
        while self.session.wants_write() {
            self.session.write_tls(&mut records).expect("memory takes all");
        }
        records
    }

    /// What has arrived.
    fn received(&mut self) -> Vec<u8> {
        let mut content = Vec::new();
        while let Ok(1..) = self.session.read_tls(&mut self.socket) {
            self.session.process_new_packets().expect("records");
            let _would_block = self.session.reader().read_to_end(&mut content);
        }
        content
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tls/tests/certificates")).join(name)
}

/// Both ends of a session, after the handshake.
fn pair(version: &'static SupportedProtocolVersion) -> (ClientConnection, Session) {
    let certificates = vec![CertificateFiles { chain: file("cert.pem"), key: Some(file("key.pem")) }];
    let (listener, _) = ListenerTls::load(TlsSettings::new(certificates)).expect("files");
    let acceptor = listener.acceptor(PeerCheck::Never).expect("an acceptor");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    let authorities = tls::authorities(&file("ca.pem")).expect("authorities");
    let config = builder.expect("a version").with_root_certificates(authorities).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let server = UnbufferedServerConnection::new(acceptor.settings()).expect("a server");
    let mut server = SessionSide::Server(Box::new(server));
    while client.is_handshaking() || server.common().is_handshaking() {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        while client.wants_write() {
            client.write_tls(&mut to_server).expect("memory takes all");
        }
        let mut at = 0;
        while at < to_server.len() {
            let (used, step) = server.step(&mut to_server[at..], &mut to_client, &mut |_: &[u8]| {});
            step.expect("a handshake");
            at += used;
        }
        while let (_, Ok(SessionStep::Again)) = server.step(&mut [], &mut to_client, &mut |_: &[u8]| {}) {}
        let mut left = &*to_client;
        while !left.is_empty() {
            client.read_tls(&mut left).expect("memory gives all");
            client.process_new_packets().expect("a handshake");
        }
    }
    (client, Session::new(server, &[], &[]))
}

/// A connected client, and a server whose keys are good for so many more records.
fn connect(rig: &mut Rig, version: &'static SupportedProtocolVersion, records_left: Option<u64>) -> Client {
    let (session, mut server) = pair(version);
    server.records_left = records_left.unwrap_or(server.records_left);
    Client { session, socket: rig.connect_with(Some(Box::new(server))) }
}

#[test]
fn a_record_may_come_in_any_two_pieces() {
    with_each_driver(|mut rig| {
        let mut client = connect(&mut rig, &version::TLS13, None);
        for cut in 1.. {
            let records = client.records(b"a line\n");
            let Some((first, second)) =
                records.split_at_checked(cut).filter(|(_, second)| !second.is_empty())
            else {
                assert!(cut > 20, "a record has a head and a tag");
                return;
            };
            client.socket.write_all(first).expect("room");
            rig.settle();
            assert_eq!(client.received(), b"");
            client.socket.write_all(second).expect("room");
            rig.settle();
            assert_eq!(client.received(), b"a line\n");
        }
    });
}

#[test]
fn keys_of_tls_1_2_that_are_used_up_end_the_connection_between_two_requests() {
    with_each_driver(|mut rig| {
        let mut client = connect(&mut rig, &version::TLS12, Some(3));
        for _ in 0..2 {
            let line = client.records(b"a line\n");
            client.socket.write_all(&line).expect("room");
            rig.settle();
            assert_eq!(client.received(), b"a line\n");
        }
        // The third reply uses them up, but half a request is there: it is finished first.
        let lines = client.records(b"a line\nhalf");
        client.socket.write_all(&lines).expect("room");
        rig.settle();
        assert_eq!(client.received(), b"a line\n");
        let rest = client.records(b" a line\n");
        client.socket.write_all(&rest).expect("room");
        rig.settle();
        assert_eq!(client.received(), b"half a line\n");
        let told: Vec<_> = rig.told.try_iter().collect();
        assert_eq!(told, [EchoEvent::Closed(1, CloseReason::Normal)]);
        assert!(client.session.reader().read(&mut [0]).is_ok_and(|read| read == 0), "it is told the end");
    });
}

#[test]
fn the_end_of_the_input_comes_after_all_of_it() {
    with_each_driver(|mut rig| {
        let mut client = connect(&mut rig, &version::TLS13, None);
        // More records than are decrypted in a round, and more content than fits into the input.
        let lines: Vec<u8> = (0..300).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
        let mut records: Vec<u8> = lines.chunks(7).flat_map(|part| client.records(part)).collect();
        let long = [vec![b'x'; INPUT_MAX - 100], b"\n".to_vec()].concat();
        (0..3).for_each(|_| records.extend(client.records(&long)));
        client.session.send_close_notify();
        records.extend(client.records(b""));
        client.socket.write_all(&records).expect("room in the socket");
        client.socket.shutdown(std::net::Shutdown::Write).expect("an end");
        let mut received = Vec::new();
        while received.len() < lines.len() + 3 * long.len() {
            rig.settle();
            received.extend(client.received());
        }
        assert!(received == [lines, long.repeat(3)].concat());
        rig.settle();
        let told: Vec<_> = rig.told.try_iter().collect();
        assert_eq!(told, [EchoEvent::Closed(1, CloseReason::Normal)]);
    });
}
