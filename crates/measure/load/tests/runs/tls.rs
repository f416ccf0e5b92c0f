//! Encrypted connections: to a scripted server, and to memcached.

use crate::memcached::Listening;
use crate::support::{CLOSE, Items, Script, run, serve};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../base/tls/tests/certificates");

fn config(version: &'static SupportedProtocolVersion) -> Arc<ServerConfig> {
    let chain = CertificateDer::from_pem_file(format!("{CERTIFICATES}/cert.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(format!("{CERTIFICATES}/key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    let config = builder.expect("a version").with_no_client_auth().with_single_cert(vec![chain], key);
    Arc::new(config.expect("they fit"))
}

/// Starts a server with the certificate of the tests; returns `--tls --server` and its address.
fn server(version: &'static SupportedProtocolVersion, piece: usize, script: Script) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (config, items) = (config(version), Items::default());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, items) = (Arc::clone(&config), Arc::clone(&items));
            thread::spawn(move || {
                stream.set_nodelay(true)?;
                let session = ServerConnection::new(config).expect("a configuration that fits");
                serve(StreamOwned::new(session, stream), &items, piece, script)
            });
        }
    });
    format!("--tls --server {address}")
}

fn trusting() -> String {
    format!("--tls-ca {CERTIFICATES}/ca.pem")
}

#[test]
fn what_is_encrypted_reads_back() {
    for (version, engine) in [(&TLS13, "auto"), (&TLS13, "epoll"), (&TLS12, "auto")] {
        for (piece, more) in [
            (usize::MAX, "--depth 8 --multiget 5 --gets 0.8"),
            (7, "--protocol meta"),
            (usize::MAX, "--value-size 0,300k --gets 0.5 --depth 3 --connections 2"),
            (usize::MAX, "--rate 3000 --threads 2 --tls-insecure"),
        ] {
            let line = format!(
                "{} {} --engine {engine} --connections 4 --requests 300 --warm-up 0 --keys 40 --prefill --verify {more}",
                server(version, piece, |_, reply| reply),
                trusting()
            );
            let summary = run(&line).expect(&line);
            assert!(summary.is_clean() && summary.requests >= 300, "{line}\n{summary}");
            assert_eq!((summary.misses, summary.transport.as_str()), (0, "tls"), "{line}\n{summary}");
            let handshakes = summary.handshakes.expect("there were some");
            assert_eq!(
                (handshakes.count, handshakes.resumed),
                (summary.run.connections as u64, 0),
                "{summary}"
            );
            assert!(handshakes.latency.p50_us > 0.0, "{summary}");
        }
    }
}

#[test]
fn a_connection_that_is_opened_anew_resumes_its_session() {
    for version in [&TLS13, &TLS12] {
        let line = format!(
            "{} {} --connections 3 --requests 400 --warm-up 0 --keys 40 --prefill --verify --reconnect-after 20",
            server(version, usize::MAX, |_, reply| reply),
            trusting()
        );
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean() && summary.misses == 0, "{line}\n{summary}");
        let handshakes = summary.handshakes.expect("there were some");
        assert!(handshakes.count > 10 && handshakes.resumed >= handshakes.count - 4, "{line}\n{summary}");
    }
}

#[test]
fn what_comes_after_goodbye_is_not_read() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || -> std::io::Result<usize> {
        let (mut stream, _) = listener.accept()?;
        let mut session = ServerConnection::new(config(&TLS13)).expect("a configuration that fits");
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        let mut last = Vec::new();
        session.send_close_notify();
        session.write_tls(&mut last)?;
        last.resize(100_000, b'x');
        stream.write_all(&last)?;
        // The connection stays until the other side has gone.
        stream.read_to_end(&mut Vec::new())
    });
    let line =
        format!("--tls --server {address} {} --connections 1 --warm-up 0 --duration 300ms", trusting());
    assert_eq!(run(&line).expect(&line).requests, 0, "{line}");
}

#[test]
fn a_server_that_is_not_trusted_gets_nothing() {
    let script: Script = |_, _| panic!("no request may arrive");
    let line = format!("{} --connections 1", server(&TLS13, usize::MAX, script));
    for trust in [String::new(), format!("--tls-ca {CERTIFICATES}/cert.pem")] {
        assert_eq!(run(&format!("{line} {trust}")).expect_err(&line), "encrypt connection 0", "{trust}");
    }
    // Its certificate is for 127.0.0.1.
    let (_, port) = line.split_once("127.0.0.1:").expect("an address");
    let other_name = format!("--tls --server 127.0.0.2:{port}");
    assert!(run(&other_name).is_err());
}

#[test]
fn files_without_certificates_and_servers_without_tls_are_named() {
    let error = run("--tls --tls-ca /nowhere").expect_err("no such file");
    assert_eq!(error, "read the certificates in /nowhere");
    let key = format!("{CERTIFICATES}/key.pem");
    assert_eq!(
        run(&format!("--tls --tls-ca {key}")).expect_err("no certificate"),
        format!("read the certificates in {key}")
    );
    let plain = crate::support::server(usize::MAX, |_, _| CLOSE.to_vec());
    let error = run(&format!("--tls --tls-insecure {plain} --connections 1")).expect_err("no TLS");
    assert!(error.starts_with("keep connection 0") || error.starts_with("encrypt connection 0"), "{error}");
}

#[test]
fn memcached_encrypts() {
    let options =
        [format!("ssl_chain_cert={CERTIFICATES}/cert.pem"), format!("ssl_key={CERTIFICATES}/key.pem")];
    let Some(memcached) = Listening::start("tls", &["-Z", "-o", &options[0], "-o", &options[1]]) else {
        return;
    };
    for engine in ["auto", "epoll"] {
        let line = format!(
            "--tls {} --server {} --engine {engine} --connections 100 --gets 0.8 --warm-up 20ms --keys 500 \
             --value-size 0-3000 --prefill --verify --requests 3000 --duration 20s",
            trusting(),
            memcached.addresses[0]
        );
        let summary = run(&line).expect(&line);
        assert!(summary.is_clean() && summary.misses == 0, "{line}\n{summary}");
        assert_eq!(summary.handshakes.map(|handshakes| handshakes.count), Some(100), "{line}\n{summary}");
    }
}
