//! Tests of connections with TLS, one round at a time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{
    ClientConnection, ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedProtocolVersion,
    version,
};
use stdx::prng::Prng;

use super::{Rig, with_each_driver};
use crate::INPUT_MAX;
use crate::handler::CloseReason;
use crate::secure::session::{Session, SessionSide, SessionStep};
use crate::secure::tls_ends::{acceptor, client_config};
use crate::testing::echo::EchoEvent;

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

/// Both ends of a session, after the handshake.
fn pair(version: &'static SupportedProtocolVersion) -> (ClientConnection, Session) {
    let mut config = client_config(version);
    config.enable_secret_extraction = true;
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let server = UnbufferedServerConnection::new(acceptor().settings()).expect("a server");
    let mut server = SessionSide::Server(Box::new(server));
    while client.is_handshaking() || server.state().is_handshaking() {
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

/// A client of TLS 1.3 that encrypts whatever the test wants.
struct FreeClient {
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
    socket: UnixStream,
}

impl FreeClient {
    fn connect(rig: &mut Rig) -> FreeClient {
        let (client, server) = pair(&version::TLS13);
        let suite = client.negotiated_cipher_suite().and_then(|suite| suite.tls13()).expect("a suite");
        let secrets = client.dangerous_extract_secrets().expect("secrets");
        let (sequence, secrets) = secrets.tx;
        let (key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => panic!("another cipher"),
        };
        let encrypter = suite.aead_alg.encrypter(key, iv);
        FreeClient { encrypter, sequence, socket: rig.connect_with(Some(Box::new(server))) }
    }

    fn record(&mut self, content_type: ContentType, content: &[u8]) -> Vec<u8> {
        let payload = OutboundChunks::Single(content);
        let plain = OutboundPlainMessage { typ: content_type, version: ProtocolVersion::TLSv1_2, payload };
        let record = self.encrypter.encrypt(plain, self.sequence).expect("a record");
        self.sequence += 1;
        record.encode()
    }
}

#[test]
fn half_a_handshake_message_before_replies_disturbs_nothing() {
    with_each_driver(|mut rig| {
        let mut client = FreeClient::connect(&mut rig);
        // A request, and the first byte of a KeyUpdate (RFC 8446, 4.6.3), which does not go on.
        let mut records = client.record(ContentType::ApplicationData, b"a line\n");
        records.extend(client.record(ContentType::Handshake, &[24]));
        client.socket.write_all(&records).expect("room");
        rig.settle();
        let mut reply = [0; 1000];
        assert!(client.socket.read(&mut reply).is_ok_and(|len| len > 7), "a reply");
        // Content in between is forbidden (5.1).
        let record = client.record(ContentType::ApplicationData, b"a line\n");
        client.socket.write_all(&record).expect("room");
        rig.settle();
        let told: Vec<_> = rig.told.try_iter().collect();
        assert_eq!(told, [EchoEvent::Closed(1, CloseReason::Error)]);
    });
}

#[test]
fn a_reset_in_the_middle_of_a_handshake_message_ends_the_connection() {
    with_each_driver(|mut rig| {
        let mut client = FreeClient::connect(&mut rig);
        let mut records = client.record(ContentType::ApplicationData, b"a line\n");
        records.extend(client.record(ContentType::Handshake, &[24]));
        client.socket.write_all(&records).expect("room");
        rig.settle();
        // With a reply that is not read, the end is a reset.
        drop(client);
        rig.settle();
        let told: Vec<_> = rig.told.try_iter().collect();
        assert_eq!(told, [EchoEvent::Closed(1, CloseReason::Error)]);
    });
}

#[test]
fn a_handshake_message_without_end_ends_the_connection() {
    with_each_driver(|mut rig| {
        let mut client = FreeClient::connect(&mut rig);
        // A KeyUpdate of 65,535 bytes, more of it than there is room for.
        let mut records = client.record(ContentType::Handshake, &[24, 0, 255, 255]);
        (0..3).for_each(|_| records.extend(client.record(ContentType::Handshake, &[0; 16_000])));
        let mut left = &*records;
        while !left.is_empty() && rig.worker.slab.indices().next().is_some() {
            left = &left[client.socket.write(left).unwrap_or(0)..];
            rig.settle();
        }
        let told: Vec<_> = rig.told.try_iter().collect();
        assert_eq!(told, [EchoEvent::Closed(1, CloseReason::Error)]);
    });
}

#[test]
fn no_sequence_of_records_stops_the_worker() {
    with_each_driver(|mut rig| {
        for seed in 0..300 {
            let mut random = Prng::new(seed);
            let mut client = FreeClient::connect(&mut rig);
            let mut records = Vec::new();
            for _ in 0..1 + random.below(100) {
                let content: Vec<u8> = match random.below(6) {
                    0 => b"copy 20000\n".to_vec(),
                    1 => b"a line\n".to_vec(),
                    2 => vec![24, 0, 0, 1, random.below(3) as u8],
                    3 => [24, 0, 0, 1, 1][..random.below(5) as usize].to_vec(),
                    4 => (0..random.below(20)).map(|_| random.below(256) as u8).collect(),
                    _ => [vec![b'x'; random.below(16_000) as usize], b"\n".to_vec()].concat(),
                };
                let content_type = match random.below(8) {
                    0 => ContentType::Handshake,
                    1 if random.below(10) == 0 => ContentType::Alert,
                    2 if random.below(10) == 0 => ContentType::ChangeCipherSpec,
                    _ => ContentType::ApplicationData,
                };
                records.extend(client.record(content_type, &content));
            }
            if random.below(3) == 0 {
                let place = random.below(records.len() as u64) as usize;
                records[place] ^= 1 << random.below(8);
            }
            let mut left = &*records;
            let mut reply = vec![0; 1 << 16];
            while !left.is_empty() {
                let (now, later) = left.split_at(left.len().min(1 + random.below(30_000) as usize));
                // It may have been closed, or be full because replies are waiting.
                let sent = client.socket.write(now).unwrap_or(if rig.round() { 0 } else { now.len() });
                left = if sent < now.len() { &left[sent..] } else { later };
                rig.round();
                let _would_block = client.socket.read(&mut reply);
            }
            rig.settle();
            drop(client);
            rig.settle();
            assert_eq!(rig.worker.slab.indices().count(), 0, "seed {seed}");
            rig.told.try_iter().for_each(drop);
        }
    });
}
