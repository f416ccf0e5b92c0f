//! TLS as clients meet it: OpenSSL's client and Python's against the built server, its certificates, tickets and roles.

use checkout::target_directory;
use end_to_end::clients;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/base/tls/tests/certificates");

/// The time limit of OpenSSL's client: one that takes longer waits for a server that does not close.
const SECONDS_MAX: &str = "60";

fn certificate(name: &str) -> String {
    format!("{CERTIFICATES}/{name}")
}

/// Files of a server that a test replaces, in a folder that is removed in the end.
struct Files(PathBuf);

impl Files {
    fn new() -> Files {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = target_directory().join(format!("tmp/tls-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("make a folder");
        let files = Files(folder);
        files.show("server");
        files.copy("authority", "authority.pem");
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of text").to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("write a file");
    }

    fn copy(&self, name: &str, from: &str) {
        fs::copy(certificate(from), self.0.join(name)).expect("copy a file");
    }

    /// Makes this certificate the server's.
    fn show(&self, name: &str) {
        self.copy("chain", &format!("{name}.pem"));
        self.copy("key", &format!("{name}-key.pem"));
    }

    /// A server with these files.
    fn serve(&self, driver: SocketDriver, more: &[&str]) -> Server {
        let (chain, key, authority) = (self.path("chain"), self.path("key"), self.path("authority"));
        let files = format!("ssl_chain_cert={chain},ssl_key={key},ssl_ca_cert={authority}");
        let flags = [&["-v", "-Z", "-o", &files], more].concat();
        Server::start(&ServerUnderTest::evenkeel(driver), &flags).expect("a server")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // If it fails, the folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn hang_up(server: &Server) {
    let pid = Pid::from_raw(server.pid() as i32).expect("a process has an id");
    kill_process(pid, Signal::HUP).expect("send SIGHUP");
}

/// OpenSSL's client with `requests` and `quit`: all that it says, the server's replies in it.
fn openssl(server: &Server, options: &[&str], requests: &str) -> String {
    openssl_with(server, &[options, &["-ign_eof"]].concat(), &format!("{requests}quit\r\n"))
}

/// OpenSSL's client, until the connection ends. Without `-ign_eof`, letters that begin its input are orders to it.
fn openssl_with(server: &Server, options: &[&str], typed: &str) -> String {
    let mut command = Command::new("timeout");
    command.args([SECONDS_MAX, "openssl", "s_client", "-connect", &server.address().to_string()]);
    command.args(["-CAfile", &certificate("authority.pem")]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = command.spawn().expect("run openssl");
    let mut input = client.stdin.take().expect("it is piped");
    // A client that was refused does not read it.
    let _ = input.write_all(typed.as_bytes());
    let output = client.wait_with_output().expect("an end");
    drop(input);
    assert_ne!(output.status.code(), Some(124), "the connection stays open");
    [output.stdout, output.stderr].concat().iter().map(|&byte| char::from(byte)).collect()
}

/// The options for a client's certificate.
fn named(name: &str) -> [String; 4] {
    [
        "-cert".to_owned(),
        certificate(&format!("{name}.pem")),
        "-key".to_owned(),
        certificate(&format!("{name}-key.pem")),
    ]
}

/// The replies to `requests` of a client with this certificate; empty if it is refused.
fn replies(server: &Server, name: Option<&str>, requests: &str) -> String {
    let own = name.map(named);
    let mut options: Vec<&str> = own.iter().flatten().map(String::as_str).collect();
    options.push("-quiet");
    let said = openssl(server, &options, requests);
    let is_reply = |line: &&str| {
        ["VALUE", "STORED", "END", "CLIENT_ERROR", "VERSION", "OK", "Error", "STAT"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    said.lines().filter(is_reply).map(|line| line.to_owned() + "\n").collect()
}

fn statistic(server: &Server, name: &str) -> u64 {
    let all = replies(server, None, "stats\r\n");
    let value =
        all.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {all}"))
}

#[test]
fn pymemcache_works_over_tls() {
    for driver in SocketDriver::ALL {
        let files = Files::new();
        let server = files.serve(driver, &["-m", "256"]);
        let mut program = clients::python("pymemcache_api.py");
        program.args(["tls", &certificate("authority.pem")]);
        clients::passes(program, &server).unwrap_or_else(|error| panic!("{driver:?}: {error:#}"));
    }
}

#[test]
fn openssl_speaks_both_versions_and_all_suites_of_tls_1_2_with_this_key() {
    let files = Files::new();
    let server = files.serve(SocketDriver::Uring, &[]);
    let check = |options: &[&str], expected: &str| {
        let said = openssl(&server, options, "version\r\n");
        assert!(said.contains(expected) && said.contains("VERSION 1.6.45"), "{options:?}: {said}");
        assert!(said.contains("Verify return code: 0 (ok)"), "{options:?}: {said}");
    };
    check(&["-tls1_3"], "New, TLSv1.3, Cipher is TLS_");
    for suite in ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"] {
        let suite = format!("ECDHE-ECDSA-{suite}");
        check(&["-tls1_2", "-cipher", &suite], &format!("New, TLSv1.2, Cipher is {suite}"));
    }
    let old = openssl(&server, &["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"], "version\r\n");
    assert!(!old.contains("VERSION"), "{old}");
}

#[test]
fn a_session_resumes_with_another_server_that_has_the_key() {
    let files = Files::new();
    files.write("tickets", &"a1".repeat(32));
    let keys = files.path("tickets");
    let [first, second] = [SocketDriver::Epoll, SocketDriver::Uring]
        .map(|driver| files.serve(driver, &["--tls-ticket-keys", &keys]));
    let alone = files.serve(SocketDriver::Epoll, &[]);
    for version in ["-tls1_2", "-tls1_3"] {
        let session = files.path("session");
        let said = openssl(&first, &[version, "-sess_out", &session], "version\r\n");
        assert!(said.contains("New, TLSv1."), "{said}");
        for (server, expected) in [(&second, "Reused, TLSv1."), (&alone, "New, TLSv1.")] {
            let said = openssl(server, &[version, "-sess_in", &session], "version\r\n");
            assert!(said.contains(expected) && said.contains("VERSION"), "{version}: {said}");
        }
    }
    assert_eq!(
        (statistic(&second, "evenkeel_tls_resumed"), statistic(&alone, "evenkeel_tls_resumed")),
        (2, 0)
    );
    // The key is retired: a full handshake, and no error.
    files.write("tickets", &"b2".repeat(32));
    hang_up(&second);
    let read_again = "certificates, keys, tickets and roles are read again";
    clock::wait_for(|| second.said().contains(read_again).then_some(())).expect(read_again);
    let said = openssl(&second, &["-tls1_3", "-sess_in", &files.path("session")], "version\r\n");
    assert!(said.contains("New, TLSv1.3") && said.contains("VERSION"), "{said}");
}

/// The subject of the certificate that a new client is shown.
fn shown(server: &Server, name: &str) -> String {
    let said = openssl(server, &["-servername", name], "");
    let subject = said.lines().find_map(|line| line.strip_prefix("subject="));
    subject.unwrap_or_else(|| panic!("{said}")).replace(' ', "")
}

#[test]
fn certificates_are_chosen_by_name_and_replaced_while_clients_are_served() {
    let files = Files::new();
    let other = format!("{}:{}", certificate("other.pem"), certificate("other-key.pem"));
    let server = files.serve(SocketDriver::Epoll, &["--tls-certificate", &other]);
    assert_eq!(
        (&*shown(&server, "localhost"), &*shown(&server, "a.wild.example")),
        ("CN=server", "CN=other")
    );

    files.show("other");
    assert_eq!(replies(&server, None, "refresh_certs\r\n"), "OK\n");
    assert_eq!(shown(&server, "localhost"), "CN=other");

    files.copy("key", "server-key.pem");
    let refused = replies(&server, None, "refresh_certs\r\n");
    let reason = format!(
        "read {}: it is not the key of the certificate in {}",
        files.path("key"),
        files.path("chain")
    );
    assert_eq!(refused, format!("Error {reason}\n"));
    hang_up(&server);
    let line =
        format!("Z warning serve: certificates, keys, tickets and roles stay as they were: {reason}\n");
    clock::wait_for(|| (server.said().matches(&line).count() >= 2).then_some(())).expect("a line for each");
    assert_eq!(shown(&server, "localhost"), "CN=other");

    files.show("server");
    hang_up(&server);
    clock::wait_for(|| (shown(&server, "localhost") == "CN=server").then_some(()))
        .expect("the first certificate");
}

#[test]
fn a_certificate_that_is_renewed_in_its_place_needs_no_signal() {
    let files = Files::new();
    let server = files.serve(SocketDriver::Epoll, &[]);
    assert_eq!(shown(&server, "localhost"), "CN=server");
    for (name, subject) in [("other", "CN=other"), ("server", "CN=server")] {
        files.show(name);
        clock::wait_for(|| (shown(&server, "localhost") == subject).then_some(())).expect(subject);
    }
    // Half of it is an error, once, and what was read stays.
    files.copy("key", "other-key.pem");
    let line = "Z warning serve: certificates, keys, tickets and roles stay as they were: ";
    clock::wait_for(|| server.said().contains(line).then_some(())).expect(line);
    assert_eq!(shown(&server, "localhost"), "CN=server");
}

#[test]
fn roles_follow_from_certificates() {
    const REFUSED: &str = "CLIENT_ERROR not permitted by role\n";
    let files = Files::new();
    files.write("roles", "read dns:*.clients.example\nwrite uri:spiffe://example/*\nadmin cn:admin\n");
    let roles = files.path("roles");
    let server = files.serve(SocketDriver::Uring, &["-o", "ssl_verify_mode=1", "--tls-roles", &roles]);
    let requests = "set a 0 0 1\r\n1\r\nget a\r\nflush_all\r\n";
    let hit = "VALUE a 0 1\nEND\n";
    assert_eq!(replies(&server, Some("writer"), requests), format!("STORED\n{hit}{REFUSED}"));
    assert_eq!(replies(&server, Some("reader"), requests), format!("{REFUSED}{hit}{REFUSED}"));
    assert_eq!(replies(&server, None, requests), REFUSED.repeat(3));
    assert_eq!(replies(&server, Some("stranger"), requests), "");
    assert_eq!(replies(&server, Some("server"), requests), "", "a server's certificate is no client's");
    assert_eq!(
        replies(&server, Some("admin"), "stats evenkeel tls\r\n"),
        "STAT refused:- 3\nSTAT refused:dns:reader.clients.example 2\nSTAT refused:uri:spiffe://example/writer/1 1\nEND\n"
    );
    let present = replies(&server, Some("admin"), "stats conns\r\n");
    assert!(present.contains(":tls TLSv1.3\n") && present.contains(":identity cn:admin\n"), "{present}");
    files.write("roles", "read cn:admin\n");
    hang_up(&server);
    clock::wait_for(|| (replies(&server, Some("admin"), "flush_all\r\n") == REFUSED).then_some(()))
        .expect("the new roles");
}

#[test]
fn with_mode_2_a_client_needs_a_certificate() {
    let files = Files::new();
    let server = files.serve(SocketDriver::Epoll, &["-o", "ssl_verify_mode=2"]);
    assert_eq!(replies(&server, None, "version\r\n"), "");
    assert_eq!(replies(&server, Some("stranger"), "version\r\n"), "");
    assert!(replies(&server, Some("writer"), "version\r\n").starts_with("VERSION"));
}

#[test]
fn a_session_is_not_renegotiated() {
    let files = Files::new();
    let server = files.serve(SocketDriver::Epoll, &[]);
    let said = openssl_with(&server, &["-tls1_2"], "R\n");
    assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{said}");
    assert!(replies(&server, None, "version\r\n").starts_with("VERSION"));
}

#[test]
fn plain_text_and_garbage_at_a_port_with_tls_end_their_connection_only() {
    let files = Files::new();
    let server = files.serve(SocketDriver::Uring, &[]);
    let before = statistic(&server, "ssl_handshake_errors");
    let attempts: [&[u8]; 3] = [b"version\r\n", b"\x16\x03\x01\xff\xff garbage \x00\x01\x02", &[0; 70_000]];
    for attempt in attempts {
        let mut stream = server.connect().expect("a connection");
        // The server may have closed before all is sent.
        let _ = stream.write_all(attempt);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(!heard.windows(7).any(|part| part == b"VERSION"), "{}", heard.escape_ascii());
    }
    let errors = || statistic(&server, "ssl_handshake_errors") - before;
    clock::wait_for(|| (errors() == 3).then_some(())).expect("three errors");
    assert_eq!(statistic(&server, "ssl_proto_errors"), 0, "no session was established");
}
