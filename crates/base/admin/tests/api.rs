//! The API's transport over real sockets, with clients that behave and clients that do not.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use admin::api::{Api, ApiAnswer, ApiLimits, ApiListener, ApiPeer, ApiReply, ApiRequest, ApiTls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use tls::RunCertificates;

/// A failure only: far more than anything here takes.
const MINUTE: Duration = Duration::from_secs(60);

/// Says what was asked, and by whom; `/wait` is answered when the client has gone.
#[derive(Default)]
struct Mirror {
    waiting: AtomicUsize,
    gone: Arc<AtomicUsize>,
}

struct Gone(Arc<AtomicUsize>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Api for Mirror {
    fn answer(self: Arc<Self>, request: ApiRequest) -> ApiAnswer {
        if request.path == "/wait" {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let gone = Gone(Arc::clone(&self.gone));
            return Box::pin(async move {
                let _gone = gone;
                std::future::pending().await
            });
        }
        let peer = match &request.peer {
            ApiPeer::Local => "local".to_owned(),
            ApiPeer::Unknown => "unknown".to_owned(),
            ApiPeer::Certificate(der) => format!("certificate of {} bytes", der.len()),
        };
        let (method, path, query) = (request.method, request.path, request.query);
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let reply = ApiReply::new(200, format!("{method:?} {path} {query:?} {body:?} {peer}"));
        Box::pin(async move { reply })
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("evenkeel-test-api-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a folder");
    folder
}

fn serve(listener: ApiListener, limits: ApiLimits) -> (Arc<Mirror>, Option<SocketAddr>) {
    let (mirror, address) = (Arc::new(Mirror::default()), listener.addresses().first().copied());
    let api = Arc::clone(&mirror);
    std::thread::spawn(move || listener.serve(api, limits));
    (mirror, address)
}

fn over_tcp(limits: ApiLimits) -> (Arc<Mirror>, SocketAddr) {
    let (mirror, address) = serve(ApiListener::default().tcp("127.0.0.1", 0, None).expect("a port"), limits);
    (mirror, address.expect("an address"))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(MINUTE)).expect("a time limit");
    stream
}

/// Sends a request as it is, and returns the status line and the body.
fn ask(stream: &mut (impl Read + Write), request: &str) -> Option<(String, String)> {
    stream.write_all(request.as_bytes()).ok()?;
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        (stream.read(&mut byte).ok()? == 1).then(|| text.push(byte[0]))?;
    }
    let head = String::from_utf8(text).ok()?.to_ascii_lowercase();
    let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())?;
    let mut body = vec![0; len];
    stream.read_exact(&mut body).ok()?;
    Some((head.lines().next()?.to_owned(), String::from_utf8(body).ok()?))
}

#[track_caller]
fn check(limits: ApiLimits, request: &str, status: &str, body: &str) {
    let (_, address) = over_tcp(limits);
    let (line, found) = ask(&mut connect(address), request).expect("an answer");
    assert!(line.contains(status), "{line}");
    assert!(found.contains(body), "{found}");
}

fn head(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n")
}

#[test]
fn requests_arrive_whole() {
    let limits = ApiLimits::default();
    check(limits, &head("GET", "/a/b%2Fc?x=1&y", ""), "200", r#"Get /a/b%2Fc Some("x=1&y") "" unknown"#);
    let post = head("POST", "/p", "Content-Length: 5\r\n") + "hello";
    check(limits, &post, "200", r#"Post /p None "hello" unknown"#);
    let chunked = head("POST", "/p", "Transfer-Encoding: chunked\r\n") + "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    check(limits, &chunked, "200", r#"Post /p None "hello" unknown"#);
}

#[test]
fn bad_requests_are_refused_with_what_is_accepted() {
    let limits = ApiLimits { body_len: 10, body_time: Duration::from_millis(50), ..ApiLimits::default() };
    check(limits, &head("DELETE", "/", ""), "405", "expected GET or POST");
    check(limits, &head("POST", "/", "Content-Length: 11\r\n"), "413", "at most 10 bytes");
    check(limits, &head("POST", "/", "Content-Length: 99999999999999999999\r\n"), "400", "");
    let endless = head("POST", "/", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n6\r\nworld!\r\n";
    check(limits, &endless, "413", "at most 10 bytes");
    check(limits, &head("POST", "/", "Content-Length: 5\r\n"), "408", "in time");
    check(limits, &(head("GET", "/", "Content-Length: 1\r\n") + "x"), "400", "no body");
}

#[test]
fn bodies_of_strangers_are_short_and_all_bodies_together_have_a_limit() {
    let limits = ApiLimits { stranger_body_len: 3, ..ApiLimits::default() };
    check(limits, &(head("POST", "/", "Content-Length: 3\r\n") + "abc"), "200", "abc");
    check(limits, &head("POST", "/", "Content-Length: 4\r\n"), "413", "at most 3 bytes");
    // Without an announced length, a body may become the longest one.
    let limits = ApiLimits { body_len: 10, bodies_len: 9, ..ApiLimits::default() };
    check(limits, &(head("POST", "/", "Content-Length: 9\r\n") + "123456789"), "200", "123456789");
    check(limits, &head("POST", "/", "Content-Length: 10\r\n"), "503", "come again");
    check(limits, &head("POST", "/", "Transfer-Encoding: chunked\r\n"), "503", "come again");
    check(limits, &head("GET", "/", ""), "200", "Get /");
}

#[test]
fn an_idle_client_is_closed_and_one_that_waits_for_its_answer_is_not() {
    let limits = ApiLimits { head_time: Duration::from_millis(50), ..ApiLimits::default() };
    let (mirror, address) = over_tcp(limits);
    let mut waiting = connect(address);
    waiting.write_all(head("GET", "/wait", "").as_bytes()).expect("a request");
    let mut idle = connect(address);
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("it is closed");
    assert_eq!(mirror.gone.load(Ordering::SeqCst), 0);
    drop(waiting);
    until(|| mirror.gone.load(Ordering::SeqCst) == 1);
}

/// Waits for something that another thread does.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    panic!("it did not happen within a minute");
}

#[test]
fn connections_beyond_the_limit_are_closed_and_those_before_stay() {
    let (mirror, address) = over_tcp(ApiLimits { connections: 2, ..ApiLimits::default() });
    let mut first = [connect(address), connect(address)];
    for stream in &mut first {
        assert!(ask(stream, &head("GET", "/", "")).is_some());
    }
    assert!(ask(&mut connect(address), &head("GET", "/", "")).is_none());
    assert!(ask(&mut first[0], &head("GET", "/again", "")).is_some());
    drop(first);
    until(|| ask(&mut connect(address), &head("GET", "/", "")).is_some());
    assert_eq!(mirror.waiting.load(Ordering::SeqCst), 0);
}

/// Settings of a server that wants a certificate, of a client that has it, and of one that has none.
fn mutual() -> (ApiTls, Arc<ClientConfig>, Arc<ClientConfig>) {
    let made = RunCertificates::new(&["127.0.0.1"], os::clock::unix_s()).expect("certificates");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_slice(made.certificate.as_bytes()).expect("a certificate")];
    let key = || PrivateKeyDer::from_pem_slice(made.key.as_bytes()).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(made.authority.as_bytes()).expect("one")).expect("an authority");
    let roots = Arc::new(roots);
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(chain.clone(), key())
        .expect("settings");
    let client = || {
        ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(Arc::clone(&roots))
    };
    let known = client().with_client_auth_cert(chain, key()).expect("settings");
    let server = Arc::new(server);
    (Arc::new(move || Arc::clone(&server)), Arc::new(known), Arc::new(client().with_no_client_auth()))
}

fn over_tls(address: SocketAddr, settings: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::from(address.ip());
    StreamOwned::new(ClientConnection::new(Arc::clone(settings), name).expect("a client"), connect(address))
}

#[test]
fn a_peer_shows_its_certificate_or_gets_nothing() {
    let (tls, known, unknown) = mutual();
    let listener = ApiListener::default().tcp("127.0.0.1", 0, Some(tls)).expect("a port");
    let (_, address) = serve(listener, ApiLimits::default());
    let address = address.expect("an address");
    let (_, body) = ask(&mut over_tls(address, &known), &head("GET", "/", "")).expect("an answer");
    assert!(body.contains("certificate of "), "{body}");
    assert_eq!(ask(&mut over_tls(address, &unknown), &head("GET", "/", "")), None);
    assert_eq!(ask(&mut connect(address), &head("GET", "/", "")), None, "without TLS");
}

#[test]
fn peers_that_never_finish_a_handshake_keep_nobody_out() {
    let (tls, known, _) = mutual();
    let listener = ApiListener::default().tcp("127.0.0.1", 0, Some(tls)).expect("a port");
    let limits = ApiLimits { handshakes: 4, connections: 4, handshake_time: MINUTE, ..ApiLimits::default() };
    let (_, address) = serve(listener, limits);
    let address = address.expect("an address");
    let mut silent: Vec<TcpStream> = (0..64).map(|_| connect(address)).collect();
    assert!(ask(&mut over_tls(address, &known), &head("GET", "/", "")).is_some());
    let ended = silent[0].read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)), "the oldest is closed: {ended:?}");
}

#[test]
fn a_socket_file_is_for_its_owner() {
    let folder = folder("file");
    let path = folder.join("control.sock");
    let (_, _) = serve(ApiListener::default().unix(&path).expect("a socket"), ApiLimits::default());
    assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("connect");
    let (_, body) = ask(&mut stream, &head("GET", "/", "")).expect("an answer");
    assert!(body.ends_with("local"), "{body}");
    assert!(ApiListener::default().unix(&path).is_err(), "somebody listens");
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn only_a_socket_that_nobody_listens_on_is_replaced() {
    let folder = folder("left");
    let (left, file, link) = (folder.join("left"), folder.join("file"), folder.join("link"));
    drop(UnixListener::bind(&left).expect("a socket"));
    assert!(ApiListener::default().unix(&left).is_ok());
    std::fs::write(&file, "precious").expect("a file");
    symlink(&file, &link).expect("a link");
    assert!(ApiListener::default().unix(&file).is_err() && ApiListener::default().unix(&link).is_err());
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "precious");
    std::fs::remove_dir_all(folder).expect("it is ours");
}
