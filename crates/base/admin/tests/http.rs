//! The pages over real sockets, for clients that behave and for those that do not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use admin::site::{BrowserSite, SiteAnswer, SiteReply, SiteRequest};
use admin::{AdminListener, Limits, Source};

/// For failures only.
const DEADLINE: Duration = Duration::from_secs(60);

/// Pages that say how often they were built.
#[derive(Default)]
struct Counted {
    built: AtomicUsize,
}

impl Source for Counted {
    fn metrics(&self) -> String {
        format!("built {}\n", self.built.fetch_add(1, Relaxed) + 1)
    }

    fn readiness(&self) -> Result<(), String> {
        Err("the cache is still empty".into())
    }

    fn report(&self, name: &str) -> Option<String> {
        (name == "stats").then(|| "{\"answer\":42}".to_owned())
    }
}

fn start(limits: Limits) -> SocketAddr {
    let listener = AdminListener::bind(Some("127.0.0.1"), 0).expect("a free port");
    let address = listener.addresses()[0];
    std::thread::spawn(move || listener.serve(Arc::new(Counted::default()), limits));
    address
}

/// No page is old enough to be sent again.
fn fresh() -> Limits {
    Limits { page_age: Duration::ZERO, ..Limits::default() }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream
}

/// Everything until the server closes; a reset counts as the end.
fn rest(mut stream: TcpStream) -> String {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => all.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The whole reply to a request on a connection of its own.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("send");
    rest(stream)
}

fn fetch(address: SocketAddr, method: &str, path: &str) -> String {
    ask(address, &format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

#[track_caller]
fn check(address: SocketAddr, method: &str, path: &str, status: &str, has: &str) {
    let reply = fetch(address, method, path);
    assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {reply}");
    assert!(reply.contains(has), "{method} {path}: {reply}");
}

#[test]
fn each_page_has_its_status_and_type() {
    let address = start(fresh());
    check(address, "GET", "/metrics", "200", "text/plain; version=0.0.4");
    check(address, "GET", "/metrics", "200", "\r\n\r\nbuilt 2\n");
    check(address, "HEAD", "/healthz", "200", "text/plain");
    check(address, "GET", "/healthz", "200", "ok\n");
    check(address, "GET", "/readyz", "503", "not ready: the cache is still empty\n");
    check(address, "GET", "/api/v1/stats", "200", "{\"answer\":42}");
    check(address, "GET", "/api/v1/stats", "200", "application/json");
    check(address, "GET", "/api/v1/other", "404", "no such report");
    check(address, "GET", "/api/v1/../metrics", "404", "");
    check(address, "GET", "/", "200", "/metrics");
    check(address, "GET", "/favicon.ico", "404", "not found");
    check(address, "POST", "/metrics", "405", "");
    check(address, "DELETE", "/api/v1/stats", "405", "");
}

/// A page for browsers that says for which path it is.
struct Front;

impl BrowserSite for Front {
    fn answer(self: Arc<Self>, request: SiteRequest) -> SiteAnswer {
        let body = format!("front {} {:?}", request.path, request.host).into();
        let reply = SiteReply { status: 200, content_type: "text/html", body, headers: Vec::new() };
        Box::pin(std::future::ready(reply))
    }
}

#[test]
fn browsers_get_a_page_where_programs_get_a_list() {
    let listener = AdminListener::bind(Some("127.0.0.1"), 0).expect("a free port");
    let address = listener.addresses()[0];
    std::thread::spawn(move || {
        listener.serve_with_site(Arc::new(Counted::default()), Arc::new(Front), fresh())
    });
    let accepting = |path: &str, accept: &str| {
        ask(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"),
        )
    };
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    assert!(accepting("/", browser).ends_with("front / Some(\"x\")"));
    for program in ["*/*", "text/plain", "application/json"] {
        let reply = accepting("/", program);
        assert!(reply.contains("for Prometheus") && !reply.contains("front"), "{program}: {reply}");
    }
    check(address, "GET", "/", "200", "for Prometheus");
    check(address, "GET", "/page.js", "200", "front /page.js");
    check(address, "POST", "/page.js", "404", "");
    check(address, "POST", "/", "405", "");
    // What is a page of the source or a report is none of the site's, whoever asks.
    for (path, expected) in [
        ("/metrics", "built 1\n"),
        ("/healthz", "ok\n"),
        ("/readyz", "not ready: the cache is still empty\n"),
        ("/api/v1/stats", "{\"answer\":42}"),
        ("/api/v1/other", "no such report\n"),
    ] {
        let reply = accepting(path, browser);
        assert!(reply.ends_with(expected), "{path}: {reply}");
    }
    check(address, "GET", "/api/v2/x", "404", "not found");
}

#[test]
fn a_page_is_built_once_for_scrapers_that_come_together() {
    let address = start(Limits { page_age: Duration::from_secs(3600), ..Limits::default() });
    let scrape = || std::thread::spawn(move || fetch(address, "GET", "/metrics"));
    let scrapers: Vec<_> = (0..30).map(|_| scrape()).collect();
    for scraper in scrapers {
        let reply = scraper.join().expect("a scrape");
        assert!(reply.ends_with("\r\n\r\nbuilt 1\n"), "{reply}");
    }
}

#[test]
fn requests_that_follow_each_other_on_a_connection_are_answered() {
    let address = start(fresh());
    let two = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let reply = ask(address, two);
    assert_eq!(reply.matches("HTTP/1.1 200").count(), 2, "{reply}");
}

#[test]
fn a_body_is_refused_and_not_read() {
    let address = start(fresh());
    for head in ["Content-Length: 1000000000", "Transfer-Encoding: chunked"] {
        let reply = ask(address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n"));
        assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
        assert!(reply.contains("connection: close"), "{reply}");
    }
}

#[test]
fn a_head_that_is_too_long_or_no_head_at_all_ends_its_connection_only() {
    let address = start(fresh());
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nCookie: {}", "x".repeat(20_000));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    for (sent, status) in [
        (long, "HTTP/1.1 431"),
        (many, "HTTP/1.1 431"),
        ("get a b c\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), ""),
        ("\u{16}\u{3}\u{1}\0\u{fffd}\r\n\r\n".to_owned(), "HTTP/1.1 400"),
    ] {
        let reply = ask(address, &sent);
        assert!(reply.starts_with(status), "{:?}: {reply}", &sent[..20]);
        assert!(!reply.contains("built"), "{reply}");
    }
    check(address, "GET", "/metrics", "200", "built 1\n");
}

#[test]
fn a_head_that_does_not_end_is_given_up() {
    let address = start(Limits { head_time: Duration::from_millis(50), ..fresh() });
    let mut slow = connect(address);
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost").expect("send");
    assert!(!rest(slow).contains("built"));
    // Neither does a connection stay that sends nothing at all, before its first request or after.
    assert_eq!(rest(connect(address)), "");
    let mut once = connect(address);
    once.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").expect("send");
    assert!(rest(once).ends_with("ok\n"));
}

#[test]
fn a_thousand_idle_connections_do_not_keep_out_the_next_scrape() {
    let address = start(fresh());
    let idle: Vec<TcpStream> = (0..1000)
        .map(|number| {
            let mut stream = connect(address);
            // A half of them in the middle of a head.
            if number % 2 == 0 {
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
            }
            stream
        })
        .collect();
    for built in 1..=3 {
        check(address, "GET", "/metrics", "200", &format!("built {built}\n"));
    }
    // All but the youngest have been closed.
    let closed = idle.into_iter().take(1000 - admin::CONNECTIONS_MAX).map(rest);
    assert_eq!(closed.filter(|reply| reply.is_empty()).count(), 1000 - admin::CONNECTIONS_MAX);
}

#[test]
fn a_connection_ends_at_its_age_even_if_its_client_goes_on() {
    let address = start(Limits { age: Duration::from_millis(100), ..fresh() });
    let mut stream = connect(address);
    while stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").is_ok() {
        let mut reply = [0; 1024];
        if matches!(stream.read(&mut reply), Ok(0) | Err(_)) {
            break;
        }
    }
}

#[test]
fn an_address_that_cannot_be_bound_is_named() {
    let taken = AdminListener::bind(Some("127.0.0.1"), 0).expect("a free port");
    let port = taken.addresses()[0].port();
    let refused = |host, port| AdminListener::bind(host, port).err().expect("refused").to_string();
    assert_eq!(refused(Some("127.0.0.1"), port), format!("listen on 127.0.0.1:{port} for metrics"));
    assert_eq!(refused(Some("192.0.2.1"), port), format!("listen on 192.0.2.1:{port} for metrics"));
    assert_eq!(refused(Some("no.such.name.invalid"), 1), "listen on no.such.name.invalid:1 for metrics");
}

#[test]
fn without_a_host_every_interface_is_served() {
    let listener = AdminListener::bind(None, 0).expect("a free port");
    let port = listener.addresses()[0].port();
    std::thread::spawn(move || listener.serve(Arc::new(Counted::default()), fresh()));
    check(SocketAddr::from(([127, 0, 0, 1], port)), "GET", "/healthz", "200", "ok");
}
