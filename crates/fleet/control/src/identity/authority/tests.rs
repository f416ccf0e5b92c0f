//! Tests of the authority: its directory, what it signs and refuses, and the file of an owner.

use super::*;
use crate::testing::Scratch;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const NOON_S: u64 = 1_800_000_000;

fn authority(scratch: &Scratch) -> Authority {
    Authority::create(&scratch.path("ca"), name("prod"), name("ann"), NOON_S).expect("an authority")
}

fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a name")
}

fn hosts(hosts: &[&str]) -> Vec<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

/// What the authority answers to a request for this identity and these hosts.
#[track_caller]
fn check(identity: &str, given: &[&str], expected: &str) {
    let scratch = Scratch::new();
    let request = CertificateKey::new().and_then(|key| key.request()).expect("a request");
    let answer = match authority(&scratch).sign(&request, &name(identity), &hosts(given), NOON_S) {
        Ok(signed) => format!("signed for {} days", (signed.not_after_s - NOON_S) / 86_400),
        Err(error) => error.to_string(),
    };
    assert!(answer.contains(expected), "{answer}");
}

#[test]
fn the_lifetime_follows_from_the_role() {
    for role in ["controller", "router", "server"] {
        check(&format!("evenkeel://prod/{role}/x"), &["10.0.0.1", "x.example"], "signed for 30 days");
    }
    check("evenkeel://prod/agent/x", &[], "signed for 30 days");
    check("evenkeel://prod/operator/x", &[], "signed for 7 days");
    check("evenkeel://prod/reader/x", &[], "signed for 90 days");
}

#[test]
fn an_identity_of_another_fleet_is_refused() {
    check("evenkeel://test/agent/x", &[], "of the fleet test: this is the authority of prod");
}

#[test]
fn who_serves_has_hosts_and_nobody_else() {
    check("evenkeel://prod/agent/x", &["x.example"], "with 1 host names: expected none");
    check("evenkeel://prod/server/x", &[], "with 0 host names: expected 1 to 16");
    check("evenkeel://prod/server/x", &["x.example"; HOSTS_MAX], "signed");
    check("evenkeel://prod/server/x", &["x.example"; HOSTS_MAX + 1], "with 17 host names");
}

#[test]
fn a_host_is_a_name_or_an_address() {
    for host in ["x", "x-1.example", "10.0.0.1", "::1", "fe80::1"] {
        check("evenkeel://prod/server/x", &[host], "signed");
    }
    let long = "a.".repeat(127) + "a";
    for host in [
        "",
        "*",
        "*.example",
        "x.",
        ".x",
        "-x",
        "x_1",
        "x y",
        "x\n",
        "ä",
        "10.0.0",
        "10.0.0.256",
        "evenkeel://x",
        &long,
    ] {
        check("evenkeel://prod/server/x", &[host], "expected a host name without a wildcard");
    }
}

#[test]
fn an_authority_is_never_overwritten() {
    let scratch = Scratch::new();
    let before = authority(&scratch).certificate_pem();
    let again = Authority::create(&scratch.path("ca"), name("prod"), name("ann"), NOON_S);
    assert!(matches!(again, Err(AuthorityError::Exists { .. })));
    let text = fs::read_to_string(scratch.path("ca").join(AUTHORITY_FILE)).expect("a file");
    assert_eq!((text, scratch.names()), (before, vec!["ca".to_owned()]));
    // Not even one file of it, or a file in its place.
    for (path, content) in [("half/authority-key.pem", "x"), ("file", "x")] {
        let path = scratch.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, content).expect("a file");
    }
    for taken in ["half", "file"] {
        assert!(Authority::create(&scratch.path(taken), name("prod"), name("ann"), NOON_S).is_err());
    }
    assert_eq!(fs::read_to_string(scratch.path("half/authority-key.pem")).expect("a file"), "x");
}

#[test]
fn of_many_that_make_an_authority_in_one_place_one_succeeds() {
    let scratch = Scratch::new();
    let make = || Authority::create(&scratch.path("ca"), name("prod"), name("ann"), NOON_S).ok();
    let made: Vec<Authority> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
    });
    let kept = Authority::open(&scratch.path("ca")).expect("an authority").certificate_pem();
    assert_eq!((made.len(), made[0].certificate_pem(), scratch.names().len()), (1, kept, 1));
}

#[test]
fn keys_are_for_their_owner_alone() {
    let scratch = Scratch::new();
    authority(&scratch);
    let mode = |file| others_mode(&scratch.path("ca").join(file)).expect("a file");
    assert_eq!((mode(AUTHORITY_KEY_FILE), mode(OPERATOR_FILE), mode("")), (0, 0, 0));
    let key = scratch.path("ca").join(AUTHORITY_KEY_FILE);
    for wrong in [0o640, 0o604, 0o620, 0o601] {
        fs::set_permissions(&key, fs::Permissions::from_mode(wrong)).expect("a mode");
        assert!(
            matches!(Authority::open(&scratch.path("ca")), Err(AuthorityError::PublicKey { .. })),
            "{wrong:o}"
        );
    }
}

#[test]
fn an_authority_is_opened_as_it_was_made() {
    let scratch = Scratch::new();
    let made = authority(&scratch);
    let opened = Authority::open(&scratch.path("ca")).expect("an authority");
    assert_eq!(opened.fleet(), &name::<FleetName>("prod"));
    assert_eq!(opened.certificate_pem(), made.certificate_pem());
    assert!(matches!(Authority::open(&scratch.path("none")), Err(AuthorityError::File(_))));
}

#[test]
fn certificates_end_with_their_authority() {
    let scratch = Scratch::new();
    let authority = authority(&scratch);
    let request = CertificateKey::new().and_then(|key| key.request()).expect("a request");
    let end_s = NOON_S + AUTHORITY_LIFETIME_S;
    let sign = |now_s| authority.sign(&request, &name("evenkeel://prod/agent/x"), &[], now_s);
    let late = sign(end_s - 3600).expect("a certificate");
    assert_eq!(late.not_after_s, end_s);
    assert!(late.renewal_due_s < end_s);
    assert!(matches!(sign(end_s), Err(AuthorityError::Expired)));
}

#[test]
fn a_certificate_that_cannot_be_used_does_not_replace_one_that_can() {
    let scratch = Scratch::new();
    let authority = authority(&scratch);
    let path = scratch.path("agent.pem");
    let own: FleetIdentity = name("evenkeel://prod/agent/x");
    let (key, other_key) = (CertificateKey::new().expect("a key"), CertificateKey::new().expect("a key"));
    let signed = |key: &CertificateKey, identity: &str| {
        let request = key.request().expect("a request");
        authority.sign(&request, &name(identity), &[], NOON_S).expect("a certificate").pem
    };
    let good = signed(&key, "evenkeel://prod/agent/x");
    keep_certificate(&path, &key, &good, &own, NOON_S).expect("a certificate of ours");
    let kept = fs::read_to_string(&path).expect("a file");
    assert_eq!((tls::certificates(&path).expect("one").len(), others_mode(&path).ok()), (1, Some(0)));
    tls::key(&path).expect("a key");

    let refused = |certificate: &str, now_s, expected: &str| {
        let error = keep_certificate(&path, &key, certificate, &own, now_s).expect_err("refused");
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error}: {cause}").contains(expected), "{error}: {cause}");
        assert_eq!(fs::read_to_string(&path).expect("a file"), kept);
    };
    refused("", NOON_S, "something else");
    refused(&signed(&other_key, "evenkeel://prod/agent/x"), NOON_S, "not for the key");
    refused(&signed(&key, "evenkeel://prod/agent/y"), NOON_S, "it is for evenkeel://prod/agent/y");
    refused(&authority.certificate_pem(), NOON_S, "0 URIs");
    refused(&good, NOON_S + 31 * 86_400, "valid from");
    refused(&good, NOON_S - 2 * CLOCK_SKEW_S - 1, "valid from");
}
