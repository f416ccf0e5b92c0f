//! Handshakes in memory between clients and what [`ListenerTls`] gives a listener.

use super::*;
use crate::cipher::Ciphers;
use crate::client::{Trust, client};
use crate::files::{authorities, certificates, key};
use crate::issue::{SigningAuthority, Validity};
use crate::settings::{CertificateFiles, KeyFormat};
use crate::testing::{FakeClock, Scratch, tests_file};
use rustls::client::{ClientSessionMemoryCache, Resumption, Tls12Resumption};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, Connection, HandshakeKind, ProtocolVersion,
    ServerConnection, SupportedProtocolVersion,
};
use std::io::Read;

/// A day in 2027; the tests' certificates are valid for all of this century.
const NOW_S: u64 = 1_800_000_000;
const DAY_S: u64 = 24 * 60 * 60;

/// A server with the tests' certificate, and the authority of the tests' clients.
fn settings() -> TlsSettings {
    let authorities = Some(tests_file("authority.pem"));
    TlsSettings { authorities, ..TlsSettings::new(vec![pair("server")]) }
}

fn pair(name: &str) -> CertificateFiles {
    CertificateFiles {
        chain: tests_file(&format!("{name}.pem")),
        key: Some(tests_file(&format!("{name}-key.pem"))),
    }
}

fn listener(settings: TlsSettings) -> ListenerTls {
    ListenerTls::load(settings).expect("settings").0
}

fn acceptor(settings: TlsSettings, check: PeerCheck) -> Acceptor {
    listener(settings).acceptor(check).expect("an acceptor")
}

/// Settings of a client, with the certificate of this name if there is one. Its sessions are in them.
fn client_named(name: Option<&str>, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let authority = tests_file("authority.pem");
    let trusting = client(Trust::Authorities(&authority)).expect("settings");
    let mut config = match name.map(pair) {
        None => trusting.with_no_client_auth(),
        Some(files) => {
            let own = certificates(&files.chain).expect("a certificate");
            let key = key(files.key.as_deref().expect("a path")).expect("a key");
            trusting.with_client_auth_cert(own, key).expect("a pair")
        }
    };
    config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(32)));
    // The library has no way of narrowing the versions once there is a builder for both.
    let mut narrowed = ClientConfig::builder_with_provider(Arc::clone(config.crypto_provider()))
        .with_protocol_versions(&[version])
        .expect("ring has suites of both")
        .with_root_certificates(authorities(&authority).expect("an authority"))
        .with_no_client_auth();
    narrowed.client_auth_cert_resolver = Arc::clone(&config.client_auth_cert_resolver);
    narrowed.resumption = config.resumption;
    Arc::new(narrowed)
}

/// What both sides know after a handshake.
struct Established {
    resumed: bool,
    identity: Option<Arc<Identity>>,
    version: ProtocolVersion,
    suite: CipherSuite,
    /// The server's certificate.
    shown: Vec<u8>,
}

fn handshake(
    client: &Arc<ClientConfig>,
    acceptor: &Acceptor,
    name: &str,
) -> Result<Established, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut client = Connection::Client(ClientConnection::new(Arc::clone(client), name)?);
    let mut server = Connection::Server(ServerConnection::new(acceptor.settings())?);
    while client.is_handshaking() || server.is_handshaking() || client.wants_write() || server.wants_write() {
        transfer(&mut client, &mut server)?;
        transfer(&mut server, &mut client)?;
    }
    Ok(Established {
        resumed: server.handshake_kind() == Some(HandshakeKind::Resumed),
        identity: acceptor.identify(server.peer_certificates()),
        version: server.protocol_version().expect("a version"),
        suite: server.negotiated_cipher_suite().expect("a suite").suite(),
        shown: client.peer_certificates().expect("a certificate")[0].to_vec(),
    })
}

/// The error is that of the receiver, unless the sender's tells more: a server that refuses sends an alert.
fn transfer(from: &mut Connection, to: &mut Connection) -> Result<(), rustls::Error> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).expect("memory takes all");
    }
    let mut wire = &*wire;
    while !wire.is_empty() {
        to.read_tls(&mut wire).expect("memory gives all");
        to.process_new_packets()?;
    }
    let _ = to.reader().read(&mut [0; 16]);
    Ok(())
}

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// The name and the role that a client has with a check; or how it is refused.
fn who(name: Option<&str>, check: PeerCheck, settings: &TlsSettings) -> Vec<String> {
    let outcomes = BOTH.map(|version| {
        let acceptor = acceptor(settings.clone(), check);
        match handshake(&client_named(name, version), &acceptor, "localhost") {
            Ok(Established { identity: None, .. }) => "nobody".to_owned(),
            Ok(Established { identity: Some(identity), .. }) => {
                format!("{} {}", identity.role.word(), identity.name)
            }
            Err(error) => error.to_string(),
        }
    });
    let mut outcomes = outcomes.to_vec();
    outcomes.dedup();
    outcomes
}

#[track_caller]
fn check_who(name: Option<&str>, check: PeerCheck, expected: &str) {
    assert_eq!(who(name, check, &settings()), [expected], "{name:?} {check:?}");
}

#[test]
fn a_client_is_known_by_its_certificate_if_it_is_asked_for_one() {
    for check in [PeerCheck::IfShown, PeerCheck::Always] {
        check_who(Some("reader"), check, "admin dns:reader.clients.example");
        check_who(Some("writer"), check, "admin uri:spiffe://example/writer/1");
        check_who(Some("admin"), check, "admin cn:admin");
    }
    check_who(Some("reader"), PeerCheck::Never, "nobody");
    check_who(None, PeerCheck::Never, "nobody");
    check_who(None, PeerCheck::IfShown, "nobody");
}

#[test]
fn clients_without_a_valid_certificate_are_refused() {
    check_who(None, PeerCheck::Always, "peer sent no certificates");
    for check in [PeerCheck::IfShown, PeerCheck::Always] {
        // The name of the authority is another one; an impostor of the same name would have a bad signature.
        check_who(Some("stranger"), check, "invalid peer certificate: UnknownIssuer");
        let purpose = who(Some("server"), check, &settings());
        assert!(
            purpose.iter().all(|error| error.contains("certificate does not allow extended key usage")),
            "{purpose:?}"
        );
    }
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let clock = FakeClock::at(4_922_899_201); // a second after the end of the tests' certificates
    let (listener, warnings) = ListenerTls::load_at(settings(), clock, None).expect("settings");
    assert!(warnings[0].ends_with("server.pem has expired"), "{warnings:?}");
    let acceptor = listener.acceptor(PeerCheck::Always).expect("an acceptor");
    for version in BOTH {
        let error = handshake(&client_named(Some("reader"), version), &acceptor, "localhost").err();
        assert!(error.expect("an error").to_string().contains("certificate expired"));
    }
}

#[test]
fn a_certificate_of_an_authority_is_used_and_named_with_its_remedy() {
    let validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
    let authority = SigningAuthority::new("cache", validity).expect("an authority");
    let scratch = Scratch::new();
    let pem = authority.certificate_pem() + &authority.key_pem();
    let files = CertificateFiles { chain: scratch.file("own.pem", &pem), key: None };
    let (_, warnings) = ListenerTls::load(TlsSettings::new(vec![files])).expect("settings");
    assert!(warnings[0].contains("CaUsedAsEndEntity") && warnings[0].contains("CA:FALSE"), "{warnings:?}");
}

#[test]
fn roles_follow_from_the_file() {
    let scratch = Scratch::new();
    let file = "read dns:*.clients.example\nwrite uri:spiffe://example/writer/*\n";
    let settings = TlsSettings { roles: Some(scratch.file("roles", file)), ..settings() };
    let check = |name, check, expected: &str| assert_eq!(who(name, check, &settings), [expected]);
    check(Some("reader"), PeerCheck::Always, "read dns:reader.clients.example");
    check(Some("writer"), PeerCheck::IfShown, "write uri:spiffe://example/writer/1");
    check(Some("admin"), PeerCheck::Always, "none cn:admin");
    // A client must not get more by showing less.
    check(None, PeerCheck::IfShown, "none -");
    check(Some("writer"), PeerCheck::Never, "none -");
}

/// Whether a second handshake of the same client, with another acceptor, resumes the first one's session.
fn resumes(client: Option<&str>, first: &Acceptor, second: &Acceptor) -> Vec<bool> {
    let outcomes = BOTH.map(|version| {
        let client = client_named(client, version);
        let full = handshake(&client, first, "localhost").expect("a handshake");
        assert!(!full.resumed);
        let again = handshake(&client, second, "localhost").expect("a handshake");
        assert!(!again.resumed || full.identity == again.identity, "a session belongs to one client");
        again.resumed
    });
    outcomes.to_vec()
}

#[test]
fn a_ticket_is_accepted_by_every_process_with_its_key() {
    let scratch = Scratch::new();
    let with_keys = |name: &str, digits: &[&str]| {
        let keys: String = digits.iter().map(|digit| digit.repeat(64) + "\n").collect();
        let settings = TlsSettings { ticket_keys: Some(scratch.file(name, keys)), ..settings() };
        acceptor(settings, PeerCheck::IfShown)
    };
    let (old, new, both) =
        (with_keys("old", &["1"]), with_keys("new", &["2"]), with_keys("both", &["2", "1"]));
    for client in [None, Some("reader")] {
        assert_eq!(resumes(client, &old, &with_keys("copy", &["1"])), [true, true]);
        assert_eq!(resumes(client, &old, &both), [true, true]);
        assert_eq!(resumes(client, &old, &new), [false, false], "a retired key");
        assert_eq!(resumes(client, &both, &old), [false, false], "a key that has not arrived yet");
    }
}

#[test]
fn without_a_key_file_a_process_accepts_its_own_tickets_also_after_a_reload() {
    let listener = listener(settings());
    let own = listener.acceptor(PeerCheck::Always).expect("an acceptor");
    assert_eq!(resumes(Some("reader"), &own, &own), [true, true]);
    assert_eq!(resumes(Some("reader"), &own, &acceptor(settings(), PeerCheck::Always)), [false, false]);
    let client = client_named(Some("reader"), &TLS13);
    assert!(!handshake(&client, &own, "localhost").expect("a handshake").resumed);
    listener.reload().expect("the same files");
    assert!(handshake(&client, &own, "localhost").expect("a handshake").resumed);
}

#[test]
fn a_ticket_does_not_replace_a_check_of_the_certificate() {
    let scratch = Scratch::new();
    let ticket_keys = Some(scratch.file("tickets", "1".repeat(64)));
    let settings = TlsSettings { ticket_keys, session_cache: true, ..settings() };
    let listener = listener(settings.clone());
    let open = listener.acceptor(PeerCheck::Never).expect("an acceptor");
    let optional = listener.acceptor(PeerCheck::IfShown).expect("an acceptor");
    let strict = listener.acceptor(PeerCheck::Always).expect("an acceptor");
    // The client has no certificate, so that a ticket of the others is all that it could come in with.
    for version in BOTH {
        for lenient in [&open, &optional] {
            let client = client_named(None, version);
            handshake(&client, lenient, "localhost").expect("a handshake");
            assert!(handshake(&client, &strict, "localhost").is_err());
        }
    }
    assert_eq!(resumes(Some("reader"), &optional, &strict), [false, false]);
    // An authority that is not trusted any more.
    let elsewhere = TlsSettings { authorities: Some(tests_file("foreign.pem")), ..settings };
    let elsewhere = acceptor(elsewhere, PeerCheck::Always);
    for version in BOTH {
        let client = client_named(Some("reader"), version);
        handshake(&client, &strict, "localhost").expect("a handshake");
        assert!(handshake(&client, &elsewhere, "localhost").is_err());
    }
}

#[test]
fn a_session_that_outlives_its_certificate_may_do_nothing() {
    let clock = FakeClock::at(4_922_899_200);
    let (listener, _) = ListenerTls::load_at(settings(), Arc::clone(&clock) as _, None).expect("settings");
    let acceptor = listener.acceptor(PeerCheck::Always).expect("an acceptor");
    for version in BOTH {
        clock.set(4_922_899_200);
        let client = client_named(Some("admin"), version);
        let before = handshake(&client, &acceptor, "localhost").expect("a handshake");
        assert_eq!(before.identity.expect("an identity").role, Role::Admin);
        clock.set(4_922_899_201);
        let after = handshake(&client, &acceptor, "localhost").expect("a handshake");
        assert!(after.resumed);
        assert_eq!(after.identity.expect("an identity").role, Role::Nothing);
    }
}

#[test]
fn tickets_expire() {
    let clock = FakeClock::at(NOW_S);
    let (listener, _) = ListenerTls::load_at(settings(), Arc::clone(&clock) as _, None).expect("settings");
    let acceptor = listener.acceptor(PeerCheck::Never).expect("an acceptor");
    for version in BOTH {
        clock.set(NOW_S);
        let client = client_named(None, version);
        handshake(&client, &acceptor, "localhost").expect("a handshake");
        assert!(handshake(&client, &acceptor, "localhost").expect("a handshake").resumed);
        clock.set(NOW_S + DAY_S);
        assert!(!handshake(&client, &acceptor, "localhost").expect("a handshake").resumed);
    }
}

#[test]
fn sessions_are_cached_only_when_asked_for() {
    for session_cache in [false, true] {
        let acceptor = acceptor(TlsSettings { session_cache, ..settings() }, PeerCheck::Never);
        let mut client = Arc::into_inner(client_named(None, &TLS12)).expect("one owner");
        client.resumption = client.resumption.tls12_resumption(Tls12Resumption::SessionIdOnly);
        let client = Arc::new(client);
        handshake(&client, &acceptor, "localhost").expect("a handshake");
        let again = handshake(&client, &acceptor, "localhost").expect("a handshake");
        assert_eq!(again.resumed, session_cache);
    }
}

#[test]
fn the_certificate_is_chosen_by_the_name_that_a_client_asks_for() {
    let settings = TlsSettings { certificates: vec![pair("server"), pair("other")], ..settings() };
    let acceptor = acceptor(settings, PeerCheck::Never);
    let anyone = Arc::new(client(Trust::Anyone).expect("settings").with_no_client_auth());
    let shown = |name| handshake(&anyone, &acceptor, name).expect("a handshake").shown;
    let own = |name: &str| certificates(&pair(name).chain).expect("a certificate")[0].to_vec();
    for name in
        ["localhost", "cache.example", "unknown.example", "wild.example", "a.b.wild.example", "127.0.0.1"]
    {
        assert!(shown(name) == own("server"), "{name}");
    }
    for name in ["other.example", "OTHER.example", "any.wild.example", "Any.Wild.example"] {
        assert!(shown(name) == own("other"), "{name}");
    }
}

#[test]
fn the_least_version_and_the_ciphers_are_what_the_settings_say() {
    let only_13 = acceptor(TlsSettings { tls13_only: true, ..settings() }, PeerCheck::Never);
    assert!(handshake(&client_named(None, &TLS12), &only_13, "localhost").is_err());
    let with_13 = handshake(&client_named(None, &TLS13), &only_13, "localhost").expect("a handshake");
    assert_eq!(with_13.version, ProtocolVersion::TLSv1_3);
    let ciphers = Ciphers::parse("ECDHE-ECDSA-CHACHA20-POLY1305");
    let one = acceptor(TlsSettings { ciphers, ..settings() }, PeerCheck::Never);
    let with_12 = handshake(&client_named(None, &TLS12), &one, "localhost").expect("a handshake");
    assert_eq!(with_12.suite, CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
    assert!(handshake(&client_named(None, &TLS13), &one, "localhost").is_ok());
}

#[test]
fn a_key_may_be_in_der_or_in_the_file_of_the_chain() {
    let scratch = Scratch::new();
    let read = |name: &str| std::fs::read_to_string(tests_file(name)).expect("a file");
    let both = scratch.file("both.pem", read("server.pem") + &read("server-key.pem"));
    let in_chain = CertificateFiles { chain: both, key: None };
    let with_one_file =
        acceptor(TlsSettings { certificates: vec![in_chain], ..settings() }, PeerCheck::Never);
    assert!(handshake(&client_named(None, &TLS13), &with_one_file, "localhost").is_ok());
    let der = key(&tests_file("server-key.pem")).expect("a key");
    let der = CertificateFiles {
        chain: tests_file("server.pem"),
        key: Some(scratch.file("key.der", der.secret_der())),
    };
    let settings = TlsSettings { certificates: vec![der], key_format: KeyFormat::Der, ..settings() };
    let with_der = acceptor(settings, PeerCheck::Never);
    assert!(handshake(&client_named(None, &TLS13), &with_der, "localhost").is_ok());
}

/// Files of a server in one directory, to be replaced.
struct Replaceable {
    scratch: Scratch,
    listener: ListenerTls,
}

const FILES: [(&str, &str); 3] =
    [("chain", "server.pem"), ("key", "server-key.pem"), ("authorities", "authority.pem")];

impl Replaceable {
    fn new() -> Self {
        let scratch = Scratch::new();
        for (name, source) in FILES {
            scratch.file(name, std::fs::read(tests_file(source)).expect("a file"));
        }
        let [chain, key, authorities] = FILES.map(|(name, _)| scratch.path(name));
        let settings = TlsSettings {
            certificates: vec![CertificateFiles { chain, key: Some(key) }],
            authorities: Some(authorities),
            ticket_keys: Some(scratch.file("tickets", "1".repeat(64))),
            roles: Some(scratch.file("roles", "read *\n")),
            ..settings()
        };
        Self { listener: listener(settings), scratch }
    }

    /// That a reload with this content of this file is refused, for this reason, and nothing has changed.
    #[track_caller]
    fn check_refused(&self, name: &str, content: &str, expected: &str) {
        let before = std::fs::read(self.scratch.path(name)).expect("a file");
        let acceptor = self.listener.acceptor(PeerCheck::Always).expect("an acceptor");
        let settings = acceptor.settings();
        self.scratch.file(name, content);
        let Err(TlsServerError::File(error)) = self.listener.reload() else {
            panic!("an error about a file")
        };
        assert_eq!(error.path, self.scratch.path(name));
        assert!(error.source.to_string().contains(expected), "{}", error.source);
        assert!(Arc::ptr_eq(&settings, &acceptor.settings()), "the old settings are in use");
        let established = handshake(&client_named(Some("reader"), &TLS13), &acceptor, "localhost");
        assert_eq!(established.expect("a handshake").identity.expect("an identity").role, Role::Read);
        self.scratch.file(name, before);
    }
}

#[test]
fn a_reload_that_fails_names_the_file_and_changes_nothing() {
    let server = Replaceable::new();
    let other_key = std::fs::read_to_string(tests_file("other-key.pem")).expect("a file");
    server.check_refused("chain", "", "no certificate in it");
    server.check_refused(
        "chain",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "invalid",
    );
    server.check_refused("key", &other_key, "not the key of the certificate in");
    server.check_refused("key", "", "no key without a password");
    server.check_refused("authorities", "", "no certificate in it");
    server.check_refused("tickets", "12", "line 1: expected 64 hexadecimal digits");
    server.check_refused("roles", "root *", "line 1: expected the role");
    std::fs::remove_file(server.scratch.path("roles")).expect("the file");
    assert!(server.listener.reload().is_err());
}

#[test]
fn a_reload_replaces_everything_for_later_handshakes() {
    let server = Replaceable::new();
    let acceptor = server.listener.acceptor(PeerCheck::Always).expect("an acceptor");
    let reader = client_named(Some("reader"), &TLS13);
    handshake(&reader, &acceptor, "localhost").expect("a handshake");
    for (name, source) in [("chain", "other.pem"), ("key", "other-key.pem"), ("authorities", "foreign.pem")] {
        server.scratch.file(name, std::fs::read(tests_file(source)).expect("a file"));
    }
    server.scratch.file("roles", "write cn:admin\n");
    server.scratch.file("tickets", "2".repeat(64));
    server.listener.reload().expect("usable files");
    assert!(handshake(&reader, &acceptor, "other.example").is_err(), "its authority is trusted no more");
    let stranger = handshake(&client_named(Some("stranger"), &TLS13), &acceptor, "other.example");
    let identity = stranger.expect("a handshake").identity.expect("an identity");
    assert_eq!((identity.role, &*identity.name), (Role::Write, "cn:admin"));
}

/// A session resumes with the certificate of its first handshake, and with the roles and the expiry of today: whoever is removed
/// from the roles must not come in with a ticket from before, nor with one from such a session.
#[test]
fn a_resumed_session_has_the_role_of_today() {
    for version in BOTH {
        let server = Replaceable::new();
        let acceptor = server.listener.acceptor(PeerCheck::Always).expect("an acceptor");
        let reader = client_named(Some("reader"), version);
        handshake(&reader, &acceptor, "localhost").expect("a handshake");
        let roles =
            [("none *\n", Role::Nothing), ("admin *\n", Role::Admin), ("write cn:other\n", Role::Nothing)];
        for (text, role) in roles {
            server.scratch.file("roles", text);
            server.listener.reload().expect("usable files");
            let again = handshake(&reader, &acceptor, "localhost").expect("a handshake");
            assert!(again.resumed, "{version:?}");
            assert_eq!(again.identity.expect("an identity").role, role);
        }
    }
}

/// With a cache of sessions, too, what a client has not shown to one listener it cannot resume with another.
#[test]
fn a_cached_session_does_not_replace_a_check_of_the_certificate() {
    let listener = listener(TlsSettings { session_cache: true, ..settings() });
    let acceptors = [PeerCheck::Never, PeerCheck::IfShown, PeerCheck::Always];
    let [open, optional, strict] = acceptors.map(|check| listener.acceptor(check).expect("an acceptor"));
    for lenient in [&open, &optional] {
        let mut client = Arc::into_inner(client_named(None, &TLS12)).expect("one owner");
        client.resumption = client.resumption.tls12_resumption(Tls12Resumption::SessionIdOnly);
        let client = Arc::new(client);
        handshake(&client, lenient, "localhost").expect("a handshake");
        assert!(handshake(&client, lenient, "localhost").expect("a handshake").resumed);
        assert!(handshake(&client, &strict, "localhost").is_err());
    }
}

/// Reloads keep the keys of tickets in memory, and take those of the file as they are now.
#[test]
fn a_ticket_of_a_key_that_a_reload_has_removed_means_a_full_handshake() {
    for version in BOTH {
        let server = Replaceable::new();
        let acceptor = server.listener.acceptor(PeerCheck::Always).expect("an acceptor");
        let reader = client_named(Some("reader"), version);
        let steps = [("1", false), ("1", true), ("2\n1", true), ("2", true), ("3", false)];
        for (keys, resumed) in steps {
            let text: String = keys.lines().map(|digit| digit.repeat(64) + "\n").collect();
            server.scratch.file("tickets", text);
            server.listener.reload().expect("usable files");
            let established = handshake(&reader, &acceptor, "localhost").expect("a handshake");
            assert_eq!(established.resumed, resumed, "{version:?}, {keys:?}");
        }
    }
}

#[test]
fn secrets_that_everyone_may_read_are_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let server = Replaceable::new();
    let warned = |mode| {
        for name in ["key", "tickets"] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(server.scratch.path(name), permissions).expect("permissions");
        }
        server.listener.reload().expect("the same files")
    };
    assert_eq!(warned(0o640), [""; 0]);
    let warnings = warned(0o644);
    assert_eq!(warnings.len(), 2);
    assert!(warnings[1].starts_with("every user of this host may read the keys in /"), "{warnings:?}");
}

#[test]
fn an_authority_that_cannot_be_used_is_warned_about() {
    let server = Replaceable::new();
    let authority = std::fs::read_to_string(tests_file("authority.pem")).expect("a file");
    // A certificate in name only: a number in DER.
    let number = "-----BEGIN CERTIFICATE-----\nAgEA\n-----END CERTIFICATE-----\n";
    server.scratch.file("authorities", authority + number);
    let warnings = server.listener.reload().expect("one is enough");
    let expected =
        format!("1 of 2 certificates in {} cannot be used", server.scratch.path("authorities").display());
    assert!(warnings.contains(&expected), "{warnings:?}");
}

#[test]
fn clients_cannot_be_checked_without_authorities() {
    let listener = listener(TlsSettings { authorities: None, ..settings() });
    assert!(listener.acceptor(PeerCheck::Never).is_ok());
    assert!(matches!(listener.acceptor(PeerCheck::Always), Err(TlsServerError::NoAuthorities)));
    assert!(matches!(listener.acceptor(PeerCheck::IfShown), Err(TlsServerError::NoAuthorities)));
}

#[test]
fn secrets_of_sessions_are_given_out_only_for_the_kernel() {
    for kernel in [false, true] {
        let acceptor = acceptor(TlsSettings { kernel, ..settings() }, PeerCheck::Never);
        assert_eq!((acceptor.kernel(), acceptor.settings().enable_secret_extraction), (kernel, kernel));
    }
}
