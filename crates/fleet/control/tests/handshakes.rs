//! Handshakes in memory between owners of certificates, with the settings that a controller and its clients use.

use control::authority::{AUTHORITY_FILE, Authority, OPERATOR_FILE, keep_certificate};
use control::identity::{FleetIdentity, FleetName, FleetRole};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{ClientConnection, ServerConnection};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tls::{
    CertificateFiles, CertificateKey, CertificateRequest, ClientSettings, ClientTls, IssuedFor, ListenerTls,
    NameCheck, PeerCheck, SigningAuthority, TlsSettings, Validity,
};

const DAY_S: u64 = 24 * 60 * 60;

/// A directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-handshakes-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a name")
}

/// Certificates are checked with the time of day.
fn now_s() -> u64 {
    UnixTime::now().as_secs()
}

/// A fleet `prod` with a controller, and files of its owners of certificates.
struct Fleet {
    scratch: Scratch,
    authority: Authority,
}

impl Fleet {
    fn new() -> Fleet {
        let scratch = Scratch::new();
        let authority =
            Authority::create(&scratch.path("ca"), name("prod"), name("ann"), now_s()).expect("one");
        let fleet = Fleet { scratch, authority };
        fleet.owner("evenkeel://prod/controller/c1");
        fleet
    }

    fn authorities(&self) -> PathBuf {
        self.scratch.path("ca").join(AUTHORITY_FILE)
    }

    fn file_of(&self, uri: &str) -> PathBuf {
        self.scratch.path(&uri.replace('/', "_"))
    }

    /// The file with a certificate of an identity, signed as a controller does it.
    fn owner(&self, uri: &str) -> PathBuf {
        let identity: FleetIdentity = name(uri);
        let hosts = if identity.role.serves() { vec!["127.0.0.1".to_owned()] } else { Vec::new() };
        let key = CertificateKey::new().expect("a key");
        let request = key.request().expect("a request");
        let signed = self.authority.sign(&request, &identity, &hosts, now_s()).expect("a certificate");
        let path = self.file_of(uri);
        keep_certificate(&path, &key, &signed.pem, &identity, now_s()).expect("a file");
        path
    }

    /// What the controller knows after a handshake with a client that shows this certificate and key.
    fn meets(&self, shown: Option<&Path>) -> Result<FleetIdentity, String> {
        let own = shown.map(|path| (path.to_owned(), path.to_owned()));
        self.handshake(own, &self.file_of("evenkeel://prod/controller/c1"), &self.authorities())
    }

    /// A handshake of a client that trusts `trusted`'s controllers with a server that shows `server`.
    fn handshake(
        &self,
        own: Option<(PathBuf, PathBuf)>,
        server: &Path,
        trusted: &Path,
    ) -> Result<FleetIdentity, String> {
        let names = NameCheck::UriUnder(FleetIdentity::uris_of(&name("prod"), FleetRole::Controller));
        let authorities = Some(trusted.to_owned());
        let client = ClientSettings { own, authorities, names, ..ClientSettings::default() };
        let (client, _) = ClientTls::load(client).map_err(|error| error.source.to_string())?;
        let files = CertificateFiles { chain: server.to_owned(), key: None };
        let settings = TlsSettings { authorities: Some(self.authorities()), ..TlsSettings::new(vec![files]) };
        let (listener, warnings) = ListenerTls::load(settings).expect("settings");
        assert_eq!(warnings, Vec::<String>::new());
        let server = listener.acceptor(PeerCheck::Always).expect("settings").settings();
        let server_name = ServerName::try_from("127.0.0.1").expect("a name");
        let client = ClientConnection::new(client.current(), server_name).expect("a client");
        let mut server = ServerConnection::new(server).expect("a server");
        shake_hands(client, &mut server).map_err(|error| error.to_string())?;
        let shown = server.peer_certificates().and_then(<[_]>::first).expect("a verified certificate");
        FleetIdentity::of_certificate(shown, &name("prod"), now_s()).map_err(|error| error.to_string())
    }
}

fn shake_hands(mut client: ClientConnection, server: &mut ServerConnection) -> Result<(), rustls::Error> {
    // The client is through before the server has looked at its certificate.
    for _ in 0..4 {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).expect("memory takes all");
        server.read_tls(&mut &*wire).expect("memory gives all");
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).expect("memory takes all");
        client.read_tls(&mut &*wire).expect("memory gives all");
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(())
}

/// A certificate and its key in one file, signed by any authority for any names.
fn odd(scratch: &Scratch, authority: &SigningAuthority, uri: &str, validity: Validity) -> PathBuf {
    let key = CertificateKey::new().expect("a key");
    let request = CertificateRequest::parse(&key.request().expect("a request")).expect("a request");
    let owner = IssuedFor { common_name: "odd", uri, hosts: &[], serves: false, validity };
    let path = scratch.path("odd.pem");
    fs::write(&path, authority.sign(&request, &owner).expect("a certificate") + &key.pem()).expect("a file");
    path
}

/// A certificate that OpenSSL has made (`tests/certificates/make.sh`).
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

fn today() -> Validity {
    Validity { not_before_s: now_s() - DAY_S, not_after_s: now_s() + DAY_S }
}

#[track_caller]
fn check(found: Result<FleetIdentity, String>, expected: &str) {
    let found = found.map_or_else(|error| error, |identity| identity.to_string());
    assert!(found.contains(expected), "{found}");
}

#[test]
fn every_role_is_known_by_its_certificate() {
    let fleet = Fleet::new();
    for role in FleetRole::ALL {
        let uri = format!("evenkeel://prod/{role}/host-1");
        check(fleet.meets(Some(&fleet.owner(&uri))), &uri);
    }
    check(fleet.meets(Some(&fleet.scratch.path("ca").join(OPERATOR_FILE))), "evenkeel://prod/operator/ann");
}

#[test]
fn a_client_without_a_certificate_is_refused() {
    check(Fleet::new().meets(None), "peer sent no certificates");
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let fleet = Fleet::new();
    let shown = |authority: &str| {
        let authority = SigningAuthority::new(authority, today()).expect("an authority");
        fleet.meets(Some(&odd(&fleet.scratch, &authority, "evenkeel://prod/operator/ann", today())))
    };
    check(shown("test"), "UnknownIssuer");
    // Also if it has the same name.
    check(shown("prod"), "BadSignature");
}

#[test]
fn a_certificate_that_signs_itself_is_refused() {
    let fleet = Fleet::new();
    // An authority of its own, and no authority at all.
    let own = SigningAuthority::new("evenkeel://prod/operator/ann", today()).expect("an authority");
    let path = fleet.scratch.path("self.pem");
    fs::write(&path, own.certificate_pem() + &own.key_pem()).expect("a file");
    check(fleet.meets(Some(&path)), "CaUsedAsEndEntity");
    check(fleet.meets(Some(&fixture("self-signed.pem"))), "BadSignature");
}

#[test]
fn the_authority_is_no_client() {
    let fleet = Fleet::new();
    let ca = fleet.scratch.path("ca");
    let files = (ca.join(AUTHORITY_FILE), ca.join("authority-key.pem"));
    let server = fleet.file_of("evenkeel://prod/controller/c1");
    check(fleet.handshake(Some(files), &server, &fleet.authorities()), "CaUsedAsEndEntity");
}

#[test]
fn a_certificate_that_has_expired_or_is_not_valid_yet_is_refused() {
    let fleet = Fleet::new();
    let ca = fleet.scratch.path("ca");
    let signing =
        SigningAuthority::load(&ca.join(AUTHORITY_FILE), &ca.join("authority-key.pem")).expect("one");
    let shown = |from_s, until_s| {
        let validity = Validity { not_before_s: from_s, not_after_s: until_s };
        fleet.meets(Some(&odd(&fleet.scratch, &signing, "evenkeel://prod/agent/x", validity)))
    };
    check(shown(now_s() - DAY_S, now_s() + DAY_S), "evenkeel://prod/agent/x");
    check(shown(now_s() - DAY_S, now_s() - 3600), "certificate expired");
    check(shown(now_s() + 3600, now_s() + DAY_S), "not valid yet");
}

#[test]
fn a_certificate_of_this_authority_with_another_name_is_refused() {
    let fleet = Fleet::new();
    let ca = fleet.scratch.path("ca");
    let signing =
        SigningAuthority::load(&ca.join(AUTHORITY_FILE), &ca.join("authority-key.pem")).expect("one");
    for (uri, expected) in [
        ("evenkeel://test/operator/ann", "of the fleet test: this is prod"),
        ("spiffe://prod/operator/ann", "expected `evenkeel://FLEET/ROLE/ID`"),
        ("evenkeel://prod/root/ann", "expected a role"),
        ("evenkeel://prod/operator/*", "is not 1 to 63 letters"),
        ("evenkeel://prod/operator/a%6en", "is not 1 to 63 letters"),
    ] {
        check(fleet.meets(Some(&odd(&fleet.scratch, &signing, uri, today()))), expected);
    }
}

#[test]
fn only_a_controller_is_taken_for_a_controller() {
    let fleet = Fleet::new();
    let agent = fleet.owner("evenkeel://prod/agent/host-1");
    let own = || Some((agent.clone(), agent.clone()));
    let server = |uri: &str| fleet.handshake(own(), &fleet.owner(uri), &fleet.authorities());
    check(server("evenkeel://prod/controller/c2"), "evenkeel://prod/agent/host-1");
    // The same address, the same authority: a server on a controller's host.
    check(server("evenkeel://prod/server/c07-1"), "NotValidForName");
    check(server("evenkeel://prod/router/r1"), "NotValidForName");
    // Certificates of clients are no server's.
    check(server("evenkeel://prod/operator/eve"), "does not allow extended key usage for server");
    let stranger = Fleet::new();
    let own = Some((agent.clone(), agent.clone()));
    let shown = stranger.file_of("evenkeel://prod/controller/c1");
    check(stranger.handshake(own, &shown, &fleet.authorities()), "BadSignature");
}

#[test]
fn a_certificate_with_several_uris_is_refused() {
    let pem = fs::read(fixture("two-uris.pem")).expect("a file");
    let der = rustls::pki_types::pem::PemObject::from_pem_slice(&pem);
    let der: rustls::pki_types::CertificateDer<'_> = der.expect("a certificate");
    let found = FleetIdentity::of_certificate(&der, &name("prod"), 1_800_000_000);
    check(found.map_err(|error| error.to_string()), "with 2 URIs: expected one");
}

#[test]
fn a_session_that_outlives_its_certificate_has_no_identity() {
    let fleet = Fleet::new();
    let path = fleet.owner("evenkeel://prod/agent/x");
    let der = tls::certificates(&path).expect("a certificate");
    let at = |now_s| FleetIdentity::of_certificate(&der[0], &name("prod"), now_s);
    assert!(at(now_s() + 29 * DAY_S).is_ok());
    assert!(at(now_s() + 31 * DAY_S).is_err());
    assert!(at(now_s() - DAY_S).is_err());
}

#[test]
fn what_is_no_certificate_has_no_identity() {
    let fleet: FleetName = name("prod");
    let path = Fleet::new();
    let der =
        tls::certificates(&path.owner("evenkeel://prod/agent/x")).expect("a certificate").swap_remove(0);
    for end in 0..der.len() {
        assert!(FleetIdentity::of_certificate(&der[..end], &fleet, now_s()).is_err(), "cut at {end}");
    }
    // Damaged anywhere, it is no other identity but one whose URI was damaged.
    for at in 0..der.len() {
        let mut damaged = der.to_vec();
        damaged[at] ^= 1;
        if let Ok(identity) = FleetIdentity::of_certificate(&damaged, &fleet, now_s()) {
            assert_eq!((identity.fleet, identity.role), (fleet.clone(), FleetRole::Agent));
        }
    }
}
