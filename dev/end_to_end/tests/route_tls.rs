//! A router that speaks TLS: to servers with certificates of all kinds, and to clients.

use checkout::{target_directory, workspace};
use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{self, ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Files of a test, in a folder that is removed in the end.
struct Files(PathBuf);

impl Files {
    fn new() -> Files {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = target_directory().join(format!("tmp/route-tls-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("make a folder");
        Files(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of text").to_owned()
    }

    /// Copies a certificate of the tests, or a key, in one step.
    fn copy(&self, name: &str, from: &str) {
        let new = self.0.join("new");
        fs::copy(certificate(from), &new).expect("copy a file");
        fs::rename(new, self.0.join(name)).expect("rename a file");
    }

    /// Makes an authority and a certificate of a server (`ca.pem`, `chain`, `key`) that is not valid any more.
    fn expire(&self) {
        let script = r#"set -e
            key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
            printf '[ca]\ndatabase = index\nrand_serial = yes\ndefault_md = sha256\npolicy = any\nnew_certs_dir = .\n[any]\ncommonName = optional\n[req]\ndistinguished_name = dn\n[dn]\n[authority]\nbasicConstraints = critical, CA:TRUE\n[server]\nbasicConstraints = CA:FALSE\nsubjectAltName = IP:127.0.0.1\n' >conf
            : >index
            key ca-key; key key
            openssl req -new -config conf -key ca-key -subj /CN=past -out ca-request
            openssl ca -batch -notext -config conf -name ca -extensions authority -startdate 20200101000000Z -enddate 20990101000000Z -keyfile ca-key -selfsign -in ca-request -out ca.pem
            openssl req -new -config conf -key key -subj /CN=server -out request
            openssl ca -batch -notext -config conf -name ca -extensions server -startdate 20200101000000Z -enddate 20210101000000Z -keyfile ca-key -cert ca.pem -in request -out chain"#;
        let output = Command::new("sh").args(["-c", script]).current_dir(&self.0).output().expect("run sh");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // If it fails, the folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file of the crate `tls`.
fn certificate(name: &str) -> String {
    workspace()
        .join("crates/base/tls/tests/certificates")
        .join(name)
        .to_str()
        .expect("a path of text")
        .to_owned()
}

/// A server with TLS that shows this chain, with more of memcached's flags.
fn serve(subject: &ServerUnderTest, chain: &str, key: &str, more: &str) -> Server {
    let files = format!("ssl_chain_cert={chain},ssl_key={key}{more}");
    Server::start(subject, &["-Z", "-o", &files]).expect("a server")
}

fn evenkeel() -> ServerUnderTest {
    ServerUnderTest::evenkeel(SocketDriver::Epoll)
}

/// A server of ours that shows the certificate of the tests, for 127.0.0.1.
fn usual() -> Server {
    serve(&evenkeel(), &certificate("server.pem"), &certificate("server-key.pem"), "")
}

/// A pool of this server, with TLS.
fn pool(server: &Server) -> String {
    pool_of(&server.address().to_string())
}

fn pool_of(server: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["{server}"], "security_mech": "ssl"}}}}, "route": "PoolRoute|A"}}"#
    )
}

fn router(configuration: &str, flags: &[&str]) -> Server {
    Server::start_router(&[&["--config-str", configuration][..], flags].concat()).expect("a router")
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

#[track_caller]
fn works(router: &Server) {
    let mut client = client(router);
    assert_eq!(client.ask(b"set k 5 0 5\r\nvalue\r\n").expect("an answer"), "STORED");
    assert_eq!(client.ask(b"get k\r\n").expect("an answer"), "VALUE k 5 5");
    assert_eq!([client.line().expect("the value"), client.line().expect("the end")], ["value", "END"]);
}

/// Waits for a line of the router.
#[track_caller]
fn says(router: &Server, line: &str) {
    let said = clock::wait_for(|| router.said().contains(line).then_some(()));
    assert!(said.is_some(), "expected {line:?} in {}", router.said());
}

/// A request fails, and the operator hears why.
#[track_caller]
fn fails(router: &Server, why: &str) {
    assert_eq!(client(router).ask(b"get k\r\n").expect("an answer"), "SERVER_ERROR connection error");
    says(router, &format!(" is unavailable (connect_error: the TLS handshake failed: {why})"));
}

/// The flags of a router that trusts this authority.
fn trusting<'f>(authority: &'f str, more: &[&'f str]) -> Vec<&'f str> {
    [&["--pem-ca-path", authority, "--ssl-verify-peers"], more].concat()
}

#[test]
fn servers_are_asked_over_tls() {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let (chain, key) = (certificate("server.pem"), certificate("server-key.pem"));
    for subject in [evenkeel(), ServerUnderTest::evenkeel(SocketDriver::Uring), memcached] {
        let server = serve(&subject, &chain, &key, "");
        for driver in ["--driver=epoll", "--driver=auto"] {
            let router = router(&pool(&server), &[driver, "--num-proxies=2"]);
            works(&router);
            let mut client = client(&router);
            // More than a record, and more than a buffer.
            let value = vec![b'x'; 900_000];
            let set = [&b"set large 0 0 900000\r\n"[..], &value, b"\r\n"].concat();
            assert_eq!(client.ask(&set).expect("an answer"), "STORED");
            assert_eq!(client.ask(b"get large\r\n").expect("an answer"), "VALUE large 0 900000");
            assert_eq!(client.line().expect("the value").as_bytes(), value);
            assert_eq!(client.line().expect("the end"), "END");
        }
    }
}

#[test]
fn without_checks_any_certificate_will_do_and_with_them_its_authority_counts() {
    let server = usual();
    works(&router(&pool(&server), &[]));
    let (ours, foreign) = (certificate("authority.pem"), certificate("foreign.pem"));
    works(&router(&pool(&server), &trusting(&ours, &[])));
    fails(
        &router(&pool(&server), &trusting(&foreign, &[])),
        "the authority of the server's certificate is not trusted",
    );
}

#[test]
fn names_are_compared_if_the_operator_says_so() {
    let ours = certificate("authority.pem");
    let chain = (certificate("other.pem"), certificate("other-key.pem"));
    let server = serve(&evenkeel(), &chain.0, &chain.1, "");
    let other_name = "the server's certificate is for another name";
    works(&router(&pool(&server), &trusting(&ours, &[])));
    fails(&router(&pool(&server), &trusting(&ours, &["--ssl-verify-names"])), other_name);
    let enforce = "--ssl-service-identity-authorization-enforce";
    let of = |name| trusting(&ours, &["--ssl-service-identity", name, enforce]);
    works(&router(&pool(&server), &of("other.example")));
    works(&router(&pool(&server), &of("other")));
    fails(&router(&pool(&server), &of("server")), other_name);
    works(&router(&pool(&usual()), &trusting(&ours, &["--ssl-verify-names"])));
}

#[test]
fn a_certificate_that_has_expired_is_an_error_with_a_name() {
    let files = Files::new();
    files.expire();
    let server = serve(&evenkeel(), &files.path("chain"), &files.path("key"), "");
    let authority = files.path("ca.pem");
    fails(&router(&pool(&server), &trusting(&authority, &[])), "the server's certificate has expired");
    works(&router(&pool(&server), &[]));
}

#[test]
fn a_server_that_does_not_speak_tls_is_an_error_with_a_name() {
    let plain = Server::start(&evenkeel(), &["-m", "64"]).expect("a server");
    let router = router(&pool(&plain), &[]);
    let answer = client(&router).ask(b"get k\r\n").expect("an answer");
    assert_eq!(answer, "SERVER_ERROR connection error");
    says(&router, "is unavailable (connect_error: the TLS handshake failed: ");
}

#[test]
fn a_server_that_never_answers_in_the_handshake_is_a_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = silent.local_addr().expect("an address").to_string();
    let router = router(&pool_of(&address), &["-t", "300"]);
    let (mut waiting, mut other) = (client(&router), client(&router));
    // The request and the connection have the same time.
    let answer = waiting.ask(b"get k\r\n").expect("an answer");
    assert!(
        ["SERVER_ERROR connection timeout", "SERVER_ERROR Reply timeout"].contains(&&*answer),
        "{answer}"
    );
    says(&router, "is unavailable (connect_timeout: timed out)");
    assert!(other.ask(b"version\r\n").expect("an answer").starts_with("VERSION"));
}

#[test]
fn a_server_that_wants_a_certificate_gets_the_one_of_the_command_line() {
    let more = format!(",ssl_verify_mode=2,ssl_ca_cert={}", certificate("authority.pem"));
    let server = serve(&evenkeel(), &certificate("server.pem"), &certificate("server-key.pem"), &more);
    let (chain, key) = (certificate("writer.pem"), certificate("writer-key.pem"));
    works(&router(&pool(&server), &["--pem-cert-path", &chain, "--pem-key-path", &key]));
    // In TLS 1.3 a server looks at a certificate when the client's handshake is over: the session ends then.
    let router = router(&pool(&server), &[]);
    let answer = client(&router).ask(b"get k\r\n").expect("an answer");
    assert!(["SERVER_ERROR remote error", "SERVER_ERROR connection error"].contains(&&*answer), "{answer}");
    says(&router, "has ended a TLS session without an answer: perhaps it wants another certificate");
}

/// What a server with TLS answers to OpenSSL's client.
fn asked_over_tls(server: &Server, options: &[&str], requests: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["60", "openssl", "s_client", "-quiet", "-connect", &server.address().to_string()]);
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = command.spawn().expect("run openssl");
    let mut input = client.stdin.take().expect("it is piped");
    // A client that is refused does not read it.
    let _ = write!(input, "{requests}quit\r\n");
    let mut said = String::new();
    client.stdout.take().expect("it is piped").read_to_string(&mut said).expect("an answer");
    let status = client.wait().expect("an end");
    drop(input);
    assert_ne!(status.code(), Some(124), "the connection stays open");
    said
}

/// All of `stats`.
fn statistics(server: &Server) -> String {
    asked_over_tls(server, &[], "stats\r\n")
}

fn statistic(all: &str, name: &str) -> u64 {
    let value =
        all.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {all}"))
}

#[test]
fn sessions_are_resumed_where_that_is_asked_for() {
    for (flags, resumes) in [(&["--ssl-connection-cache"][..], true), (&[], false)] {
        let server = usual();
        // The connection is closed again and again, because nobody uses it.
        let flags = [&["--reset-inactive-connection-interval=20"][..], flags].concat();
        let router = router(&pool(&server), &flags);
        let mut client = client(&router);
        let mut own = 0;
        let done = clock::wait_for(|| {
            assert_eq!(client.ask(b"get none\r\n").expect("an answer"), "END");
            clock::pass(Duration::from_millis(100));
            // That of the client that asks is one.
            own += 1;
            let all = statistics(&server);
            let full = statistic(&all, "evenkeel_tls_handshakes") - own;
            let resumed = statistic(&all, "evenkeel_tls_resumed");
            (full + resumed >= 5).then_some((full, resumed))
        });
        let (full, resumed) = done.expect("connections are made again");
        match resumes {
            true => assert!(full <= 2 && resumed >= 3, "{full} in full, {resumed} resumed"),
            false => assert_eq!(resumed, 0),
        }
    }
}

/// Asks the router as fast as it answers, until it is told to stop; returns how many requests there were.
fn traffic(router: &Server, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    let (mut client, stop) = (client(router), Arc::clone(stop));
    std::thread::spawn(move || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(client.ask(b"set k 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
            count += 1;
        }
        count
    })
}

#[test]
fn certificates_are_swapped_under_load_and_no_request_is_lost() {
    let files = Files::new();
    let (own, key, authority) = (files.path("own"), files.path("own-key"), files.path("ca"));
    files.copy("own", "writer.pem");
    files.copy("own-key", "writer-key.pem");
    files.copy("ca", "authority.pem");
    let more = format!(",ssl_verify_mode=2,ssl_ca_cert={}", certificate("authority.pem"));
    let server = serve(&evenkeel(), &certificate("server.pem"), &certificate("server-key.pem"), &more);
    let flags = trusting(&authority, &["--pem-cert-path", &own, "--pem-key-path", &key]);
    let router = router(&pool(&server), &flags);
    let stop = Arc::new(AtomicBool::new(false));
    let traffic = traffic(&router, &stop);

    // Half of a pair: nothing changes, and a line says so.
    files.copy("own-key", "reader-key.pem");
    hang_up(&router);
    says(&router, "certificates and keys stay as they were: read ");
    files.copy("own", "reader.pem");
    let read = "certificates and keys are read again";
    says(&router, read);
    // An authority that nobody has: those who are connected go on.
    files.copy("ca", "foreign.pem");
    let twice = clock::wait_for(|| (router.said().matches(read).count() >= 2).then_some(()));
    assert!(twice.is_some(), "{}", router.said());
    stop.store(true, Ordering::Relaxed);
    assert!(traffic.join().expect("no request has failed") > 0);
    assert!(!router.said().contains("is unavailable"), "{}", router.said());
}

/// A router with TLS for its clients.
fn router_with_tls(flags: &[&str]) -> Server {
    let configuration = r#"{"route": "NullRoute"}"#;
    Server::start_router_at("--ssl-port", &[&["--config-str", configuration][..], flags].concat())
        .expect("a router")
}

#[test]
fn clients_are_answered_over_tls() {
    let (chain, key) = (certificate("server.pem"), certificate("server-key.pem"));
    let own = ["--server-pem-cert-path", &chain, "--server-pem-key-path", &key];
    let authority = certificate("authority.pem");
    let trusting = ["-CAfile", &authority, "-verify_return_error", "-verify_ip", "127.0.0.1"];
    for driver in ["--driver=epoll", "--driver=auto"] {
        let router = router_with_tls(&[&own[..], &[driver]].concat());
        says(&router, &format!("routes on tls:{}", router.address()));
        for version in ["-tls1_2", "-tls1_3"] {
            let options = [&trusting[..], &[version]].concat();
            assert_eq!(asked_over_tls(&router, &options, "get a b\r\ndelete k\r\n"), "END\r\nNOT_FOUND\r\n");
        }
    }
}

#[test]
fn clients_without_a_certificate_are_refused_where_one_is_required() {
    let (chain, key) = (certificate("server.pem"), certificate("server-key.pem"));
    let authority = certificate("authority.pem");
    let own =
        ["--server-pem-cert-path", &chain, "--server-pem-key-path", &key, "--server-pem-ca-path", &authority];
    let (named, named_key) = (certificate("reader.pem"), certificate("reader-key.pem"));
    let (stranger, stranger_key) = (certificate("stranger.pem"), certificate("stranger-key.pem"));
    let shown = ["-cert", &named, "-key", &named_key];
    let foreign = ["-cert", &stranger, "-key", &stranger_key];
    let asks = |router: &Server, options: &[&str]| asked_over_tls(router, options, "get a\r\n");

    let router = router_with_tls(&[&own[..], &["--ssl-require-peer-certs"]].concat());
    assert_eq!([asks(&router, &[]), asks(&router, &shown), asks(&router, &foreign)], ["", "END\r\n", ""]);
    let router = router_with_tls(&own);
    assert_eq!(
        [asks(&router, &[]), asks(&router, &shown), asks(&router, &foreign)],
        ["END\r\n", "END\r\n", ""]
    );
}

#[test]
fn the_certificate_for_clients_is_read_again_when_it_changes() {
    let files = Files::new();
    files.copy("chain", "server.pem");
    files.copy("key", "server-key.pem");
    let (chain, key, authority) = (files.path("chain"), files.path("key"), certificate("authority.pem"));
    let router = router_with_tls(&["--server-pem-cert-path", &chain, "--server-pem-key-path", &key]);
    let named =
        |name| ["-CAfile", &authority, "-verify_return_error", "-verify_hostname", name].map(str::to_owned);
    let asks = |name| {
        let options = named(name);
        asked_over_tls(&router, &options.each_ref().map(String::as_str), "get a\r\n")
    };
    assert_eq!([asks("cache.example"), asks("other.example")], ["END\r\n", ""]);
    files.copy("chain", "other.pem");
    files.copy("key", "other-key.pem");
    says(&router, "certificates and keys are read again");
    assert_eq!([asks("cache.example"), asks("other.example")], ["", "END\r\n"]);
}

#[test]
fn a_missing_file_of_tls_ends_the_start_with_2() {
    let configuration = ["--config-str", r#"{"route": "NullRoute"}"#, "--ssl-port", "0"];
    let files = ["--server-pem-cert-path", "/nowhere/chain", "--server-pem-key-path", "/nowhere/key"];
    let output = subject::router().args(configuration).args(files).output().expect("run a router");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("read /nowhere/chain: No such file"), "{said}");
}

#[test]
fn a_socket_that_another_process_has_made_is_listened_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let router = subject::router();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$@\" 3<&0 0</dev/null", "sh"])
        .arg(router.get_program())
        .args(router.get_args());
    command.args(["--config-str", r#"{"route": "NullRoute"}"#, "--listen-sock-fd", "3"]);
    let mut child = command.stdin(OwnedFd::from(listener)).spawn().expect("run a router");
    let mut client = Client::new(TcpStream::connect(address).expect("it listens"));
    assert_eq!(client.ask(b"delete k\r\n").expect("an answer"), "NOT_FOUND");
    child.kill().expect("it runs");
    child.wait().expect("an end");

    // What is no listener is an error.
    let output = Command::new("sh")
        .args(["-c", "exec \"$@\" 3</dev/null", "sh"])
        .arg(router.get_program())
        .args(router.get_args())
        .args(["--config-str", r#"{"route": "NullRoute"}"#, "--listen-sock-fd", "3"])
        .output()
        .expect("run a router");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("descriptor 3"), "{said}");
}

fn hang_up(router: &Server) {
    let pid = Pid::from_raw(router.pid() as i32).expect("a process has an id");
    kill_process(pid, Signal::HUP).expect("send SIGHUP");
}
