//! Pages for browsers over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use admin::site::{BrowserSite, SiteAnswer, SiteMethod, SiteReply, SiteRequest};
use admin::{AdminListener, Limits};

/// For failures only.
const DEADLINE: Duration = Duration::from_secs(60);

/// Says what was asked, after a moment in which others are answered.
struct Echo;

impl BrowserSite for Echo {
    fn answer(self: Arc<Self>, request: SiteRequest) -> SiteAnswer {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let SiteRequest { method, path, query, host, has, bearer, cookies, certificate } = request;
            assert_eq!(certificate, None, "without TLS");
            let body = match method {
                SiteMethod::Get => format!("{path} {query:?} {host:?} {has:?}").into(),
                SiteMethod::Post => format!("{bearer:?} {cookies:?}").into(),
            };
            let headers = vec![("x-echo", "yes".to_owned()), ("x-wrong", "a\r\nset-cookie: b".to_owned())];
            SiteReply {
                status: if path == "/odd" { 7 } else { 200 },
                content_type: "text/plain",
                body,
                headers,
            }
        })
    }
}

fn ask(request: &str) -> String {
    let listener = AdminListener::bind(Some("127.0.0.1"), 0).expect("a free port");
    let address: SocketAddr = listener.addresses()[0];
    std::thread::spawn(move || listener.serve_site(Arc::new(Echo), None, Limits::default()));
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("send");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("a reply");
    String::from_utf8(reply).expect("text")
}

#[test]
fn a_request_arrives_with_what_a_browser_says() {
    let reply =
        ask("GET /a%20b?c=d HTTP/1.1\r\nhost: h:1\r\nif-none-match: \"t\"\r\nconnection: close\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    assert!(reply.ends_with("/a%20b Some(\"c=d\") Some(\"h:1\") Some(\"\\\"t\\\"\")"), "{reply}");
    assert!(reply.contains("x-echo: yes\r\n"), "{reply}");
    assert!(!reply.contains("set-cookie"), "a value is no further header: {reply}");
}

#[test]
fn what_would_change_something_arrives_with_its_token_and_cookies() {
    let post = |more: &str| ask(&format!("POST /a HTTP/1.1\r\nhost: h\r\n{more}connection: close\r\n\r\n"));
    let reply = post("authorization: Bearer abc\r\ncookie: a=1; b=2\r\n");
    assert!(reply.ends_with("Some(\"abc\") Some(\"a=1; b=2\")"), "{reply}");
    let reply = post("authorization: Basic abc\r\n");
    assert!(reply.ends_with("None None"), "{reply}");
}

#[test]
fn what_is_no_reading_is_refused() {
    let refused = |request: &str| ask(request).split("\r\n").next().map(str::to_owned);
    let status = |code: &str| Some(format!("HTTP/1.1 {code}"));
    assert_eq!(
        refused("PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        status("405 Method Not Allowed")
    );
    assert_eq!(
        refused("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nab"),
        status("413 Payload Too Large")
    );
    assert_eq!(
        refused("GET / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nab"),
        status("413 Payload Too Large")
    );
    assert_eq!(
        refused("GET /odd HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"),
        status("500 Internal Server Error")
    );
    let head = ask("HEAD / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
}
