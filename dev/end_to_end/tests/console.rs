//! The console at an address of a network: TLS, and tokens or certificates of those who may read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tls::{ClientSettings, ClientTls, NameCheck};

/// A browser with a certificate, or without one.
struct Browser {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Browser {
    fn new(fleet: &Fleet, address: SocketAddr, certificate: Option<&str>) -> Browser {
        let own = certificate.map(|name| (fleet.path(name), fleet.path(name)));
        let authorities: Option<PathBuf> = Some(fleet.path("ca/authority.pem"));
        let settings = ClientSettings { own, authorities, names: NameCheck::Host, resumes: false };
        let (tls, _) = ClientTls::load(settings).expect("files");
        Browser { address, tls: tls.current() }
    }

    /// The whole answer to a request with these headers.
    fn ask(&self, request: &str, headers: &str) -> String {
        let socket = TcpStream::connect(self.address).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let session = ClientConnection::new(Arc::clone(&self.tls), ServerName::from(self.address.ip()));
        let mut stream = StreamOwned::new(session.expect("settings"), socket);
        let text = format!(
            "{request} HTTP/1.1\r\nhost: c1.example\r\ncontent-length: 0\r\nconnection: close\r\n{headers}\r\n"
        );
        let mut answer = Vec::new();
        // A peer that refuses a handshake closes.
        let asked = stream.write_all(text.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
        asked.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&answer).into_owned())
    }

    fn status(&self, request: &str, headers: &str) -> String {
        self.ask(request, headers).split(' ').nth(1).unwrap_or("nothing").to_owned()
    }
}

#[test]
fn a_console_at_a_network_admits_browsers_with_a_token_or_a_certificate() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller_flags = ["--console", "0.0.0.0:0"].map(str::to_owned).to_vec();
    fleet.controller(1, 1);
    let shown = || {
        let log = fleet.read("c1.log");
        let (_, behind) = log.split_once("console at https://")?;
        behind.split_once('/')?.0.rsplit_once(':')?.1.parse::<u16>().ok()
    };
    let port = clock::wait_for(shown).unwrap_or_else(|| panic!("{}", fleet.read("c1.log")));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let stranger = Browser::new(&fleet, address, None);

    // The page is for everybody: it says what is needed. What it shows is not.
    assert!(stranger.ask("GET /", "").contains("<title>Evenkeel</title>"));
    assert_eq!(stranger.status("GET /v1/summary", ""), "401");
    assert_eq!(stranger.status("POST /session", "authorization: Bearer 00\r\n"), "401");
    for role in ["agent", "router", "server"] {
        let browser = Browser::new(&fleet, address, Some(&format!("{role}.pem")));
        assert_eq!(browser.status("GET /v1/summary", ""), "401", "{role}");
    }
    let reader = Browser::new(&fleet, address, Some("reader.pem"));
    assert_eq!(reader.status("GET /v1/summary", ""), "200");
    assert_eq!(reader.status("GET /v1/history", ""), "200");
    // Of the same address there is nothing else, whatever the certificate may do at the controller's own.
    let operator = Browser::new(&fleet, address, Some("ca/operator.pem"));
    assert_eq!(operator.status("POST /v1/apply", ""), "405");
    assert_eq!(operator.status("GET /v1/policy", ""), "404");

    // A token is for one browser.
    assert!(
        fleet.control_as("agent", &["console-token"]).expect_err("no right").contains("only operator may")
    );
    let said = fleet.control(&["console-token"]);
    let url = said.lines().next().expect("the address");
    let (place, token) = url.split_once("/#t=").expect("a token");
    assert!(place.starts_with("https://") && place.ends_with(&format!(":{port}")), "{url}");
    let exchange = |token: &str| stranger.ask("POST /session", &format!("authorization: Bearer {token}\r\n"));
    let taken = exchange(token);
    let (_, cookie) = taken.split_once("set-cookie: ").expect("a cookie");
    let cookie = cookie.split(';').next().expect("its value");
    assert!(cookie.starts_with("__Host-evenkeel-"), "{taken}");
    assert_eq!(stranger.status("GET /v1/summary", &format!("cookie: {cookie}\r\n")), "200");
    assert_eq!(stranger.status("GET /v1/summary", &format!("cookie: {cookie}0\r\n")), "401");
    assert!(exchange(token).starts_with("HTTP/1.1 401 "), "a token is taken once");
    assert!(!fleet.read("c1.log").contains(token), "no log has it");
    assert!(fleet.read("audit1.log").contains("console-token"), "{}", fleet.read("audit1.log"));
    assert!(!fleet.read("audit1.log").contains(token));
}

#[test]
fn a_console_of_one_host_and_a_controller_without_one_give_no_token() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    let error = fleet.control_at(1, &["console-token"]).expect_err("there is no console");
    assert!(
        error.contains("this controller has no console") && error.contains("--console HOST:PORT"),
        "{error}"
    );
    fleet.kill_controller(1);
    fleet.controller_flags = ["--console", "127.0.0.1:0"].map(str::to_owned).to_vec();
    fleet.controller(1, 1);
    let error = fleet.control_at(1, &["console-token"]).expect_err("it needs no token");
    assert!(error.contains("takes no token") && error.contains("open http://127.0.0.1:"), "{error}");
}
