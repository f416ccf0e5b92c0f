//! Probes of servers that answer, answer something else, hang and go.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// A failure only.
const MINUTE: Duration = Duration::from_secs(60);

/// A server that gives each connection this answer to whatever it asks; how many connections it had is told.
fn server(answer: &'static [u8]) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = sender.send(());
            std::thread::spawn(move || {
                let mut request = [0; 64];
                while stream.read(&mut request).is_ok_and(|len| len > 0) {
                    let _ = stream.write_all(answer);
                }
            });
        }
    });
    (address, receiver)
}

fn tls() -> Arc<ClientConfig> {
    let made = tls::RunCertificates::new(&["127.0.0.1"], os::clock::unix_s()).expect("certificates");
    let mut roots = rustls::RootCertStore::empty();
    let authority = rustls::pki_types::pem::PemObject::from_pem_slice(made.authority.as_bytes());
    roots.add(authority.expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

fn probe(address: &str) -> (ProbeList, Receiver<ProbeResult>) {
    let (sender, receiver) = channel();
    let sender = std::sync::Mutex::new(sender);
    let sink: ProbeSink = Arc::new(move |result| {
        let _ = sender.lock().expect("no thread has panicked").send(result);
    });
    let list = start_probes(tls(), sink).expect("a thread");
    list.set([(member(), ProbeTarget { address: address.to_owned(), tls: false })].into());
    (list, receiver)
}

fn member() -> MemberId {
    "m1".parse().expect("a name")
}

#[track_caller]
fn check(answer: &'static [u8], expected: &str) {
    let (address, _connections) = server(answer);
    let (_list, results) = probe(&address);
    let why = results.recv_timeout(MINUTE).expect("a result").answer.expect_err("no server");
    assert!(why.contains(expected), "{why}");
}

#[test]
fn a_server_that_answers_is_asked_again_over_the_same_connection() {
    let (address, connections) = server(b"VERSION 1.6.45\r\n");
    let (_list, results) = probe(&address);
    for _ in 0..2 {
        assert!(results.recv_timeout(MINUTE).expect("a result").answer.is_ok());
    }
    assert_eq!(connections.try_iter().count(), 1);
}

#[test]
fn what_does_not_answer_as_a_server_is_said() {
    check(b"HTTP/1.1 400 Bad Request\r\n", "it answers \"HTTP/1.1 400 Bad Request\" to `version`");
    check(&[b'x'; 1000], "its answer has no end");
    check(b"VERSION without an end", "no answer within 1000 ms");
    check(b"\0\x1b[2J\n", r"\x1b[2J");
}

#[test]
fn a_port_that_nobody_listens_on_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let (_list, results) = probe(&address);
    let why = results.recv_timeout(MINUTE).expect("a result").answer.expect_err("nobody listens");
    assert!(why.contains("refused"), "{why}");
}

#[test]
fn a_server_that_leaves_the_list_is_not_probed_any_more() {
    let (address, _connections) = server(b"VERSION 1\r\n");
    let (list, results) = probe(&address);
    results.recv_timeout(MINUTE).expect("a result");
    drop(list);
    // The thread ends, and with it the sink; a probe that was under way may be told.
    while results.recv_timeout(MINUTE).is_ok() {}
}
