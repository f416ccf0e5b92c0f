//! The client against servers of a few lines.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tokio::runtime::Runtime;

use super::*;

/// A client of a port of this host.
fn client(port: u16) -> HttpClient {
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions().expect("versions");
    let tls = tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let place = HttpPlace::Network { is_tls: false, host: "127.0.0.1".to_owned(), port };
    HttpClient::new(place, Arc::new(tls), Duration::from_secs(5)).expect("a client")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Reads the head of a request without a body; nothing at the end of a connection.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (String::new(), [0]);
    while !head.ends_with("\r\n\r\n") && stream.read(&mut byte).expect("a connection") == 1 {
        head.push(char::from(byte[0]));
    }
    head
}

/// Asks a server twice; returns what it said, and the heads that it read on each of its connections.
///
/// A reply for each connection and request.
#[track_caller]
fn check(replies: &'static [&'static [&'static str]], expected: &[&str], connections: &[usize]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (closing, closed) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
        let serve = |replies: &&[&str]| {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut heads = 0;
            for reply in *replies {
                assert!(head(&mut stream).contains(&format!("host: 127.0.0.1:{port}\r\n")));
                heads += 1;
                stream.write_all(reply.as_bytes()).expect("a client");
            }
            drop(stream);
            // Nobody may wait for it any more.
            let _ = closing.send(());
            heads
        };
        replies.iter().map(serve).collect::<Vec<usize>>()
    });
    let (client, runtime) = (client(port), runtime());
    let said = runtime.block_on(async {
        let mut said = Vec::new();
        let mut last_on: Vec<usize> = replies.iter().map(|replies| replies.len()).collect();
        for asked in 1..=expected.len() {
            said.push(match ask(&client).await {
                Ok(text) => text,
                Err(fault) => fault.to_string(),
            });
            // A connection that the server has closed is idle no more when the client has heard of that.
            if asked < expected.len() && asked == last_on[0] {
                last_on.remove(0);
                closed.recv().expect("the server goes on");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        said
    });
    assert_eq!(said, expected);
    assert_eq!(server.join().expect("a server"), connections);
}

async fn ask(client: &HttpClient) -> Result<String, HttpFault> {
    let mut answer = client.send(Method::GET, "/x", None, Vec::new()).await?;
    let mut text = answer.status.as_u16().to_string();
    while let Some(piece) = answer.piece().await? {
        text.push(' ');
        text.push_str(&String::from_utf8_lossy(&piece));
    }
    Ok(text)
}

#[test]
fn a_connection_is_used_again_once_its_answer_is_read() {
    check(
        &[&[
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        ]],
        &["200 a", "404"],
        &[2],
    );
}

#[test]
fn a_connection_that_was_closed_while_idle_is_replaced() {
    const ONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na";
    check(&[&[ONE], &[ONE]], &["200 a", "200 a"], &[1, 1]);
}

#[test]
fn a_server_that_sends_us_elsewhere_is_not_obeyed() {
    check(
        &[&["HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"]],
        &["307"],
        &[1],
    );
}

#[test]
fn a_request_without_an_answer_is_not_sent_twice() {
    check(&[&[""]], &["send a request, and read its answer"], &[1]);
}

#[test]
fn a_port_without_a_server_is_told_apart_from_a_lost_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = client(closed.local_addr().expect("an address").port());
    drop(closed);
    let failed = runtime().block_on(ask(&client));
    assert!(matches!(failed, Err(HttpFault::Connect(_))));
}

#[test]
fn places_are_shown_as_addresses() {
    let network = |is_tls, host: &str| HttpPlace::Network { is_tls, host: host.to_owned(), port: 7 };
    assert_eq!(network(true, "h").to_string(), "https://h:7");
    assert_eq!(network(false, "::1").to_string(), "http://[::1]:7");
    assert_eq!(HttpPlace::Unix("/run/c".into()).to_string(), "unix:/run/c");
}
