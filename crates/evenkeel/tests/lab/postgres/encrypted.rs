//! A history in PostgreSQL, over TCP with TLS.

use super::{RULES, Server, refused, succeeds};
use crate::until::until;
use crate::{check, directory, lab};
use std::fs;
use std::path::Path;
use std::process::Command;

/// For 127.0.0.1 and localhost, and its authority.
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../base/tls/tests/certificates");

/// An address of 127.0.0.0/8 that is this process's own, so that PostgreSQL's usual port is free there.
fn address() -> String {
    let [high, middle, low] = [16, 8, 0].map(|bits| (std::process::id() >> bits) & 255);
    format!("127.{}.{middle}.{low}", 64 + high % 128)
}

/// A server that refuses TCP connections without encryption.
fn start() -> Option<Server> {
    let rules = format!(
        "{RULES}hostssl all guarded all scram-sha-256\nhostssl all shown all trust clientcert=verify-ca\n\
         hostssl all all all trust\n"
    );
    Server::start_with("tls", &rules, |home| {
        for file in ["cert.pem", "key.pem"] {
            fs::copy(Path::new(CERTIFICATES).join(file), home.join(file)).expect(file);
        }
        own_certificate(home);
        // It refuses a key that others may read.
        succeeds(Command::new("chmod").arg("600").arg(home.join("key.pem")));
        let file = |name: &str| home.join(name).display().to_string();
        vec![
            format!("listen_addresses={}", address()),
            format!("ssl_cert_file={}", file("cert.pem")),
            format!("ssl_key_file={}", file("key.pem")),
            format!("ssl_ca_file={}", file("own.pem")),
        ]
    })
}

/// A client's certificate, which is its own authority.
fn own_certificate(home: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-subj", "/CN=shown", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]);
    succeeds(openssl.arg(home.join("own.key")).arg("-out").arg(home.join("own.pem")));
}

/// The server by a name of its certificate.
fn known(user: &str) -> String {
    format!("postgres://{user}@localhost/lab?hostaddr={}&", address())
}

/// The server by an address that its certificate is not for.
fn unknown(user: &str) -> String {
    format!("postgres://{user}@{}/lab?", address())
}

#[test]
fn a_shared_history_is_reached_over_tls() {
    let Some(server) = start() else { return };
    server.said("postgres", "create database lab");
    server.said("postgres", "create role shown login superuser");
    server.said("postgres", "create role guarded login superuser password 'right'");
    encrypts(&server, "on");
    let directory = directory("lab-postgres-tls");
    let accepted = |url: String| drop(check(&lab(&directory, &["history", "--store", &url]), 0));
    let refused = |url: String, status, expected: &[&str]| refused(&directory, &url, status, expected);
    let authority = format!("sslrootcert={CERTIFICATES}/ca.pem");
    let (known_owner, unknown_owner) = (known("owner"), unknown("owner"));

    accepted(format!("{known_owner}sslmode=verify-full&{authority}"));
    accepted(format!("{known_owner}{authority}"));
    let misnamed = ["not valid for name", "hint: HOST has to be"];
    refused(format!("{unknown_owner}{authority}"), 71, &misnamed);
    let stranger = format!("sslrootcert={}/own.pem", server.home.display());
    // The server is authenticated also if the URL does not mention it.
    for authority in [&*stranger, "sslrootcert=system", ""] {
        let unsigned = ["UnknownIssuer", "hint: sslrootcert=FILE is the certificate"];
        refused(format!("{known_owner}{authority}"), 71, &unsigned);
    }
    let plain = ["no encryption", "hint: pg_hba.conf refuses connections without encryption"];
    refused(format!("{known_owner}sslmode=disable"), 1, &plain);
    for mode in ["allow", "prefer", "require", "verify-ca"] {
        let none = [&*format!("there is no sslmode={mode}"), "hint: sslmode=disable", "sslmode=verify-full"];
        refused(format!("{known_owner}sslmode={mode}&{authority}"), 1, &none);
    }

    // The proof of the password is bound to this certificate.
    accepted(format!("{}{authority}&channel_binding=require", known("guarded:right")));

    let shown = format!("{}{authority}", known("shown"));
    let file = |name: &str| format!("{}/{name}", server.home.display());
    refused(shown.clone(), 1, &["client certificate", "hint: sslcert=FILE&sslkey=FILE"]);
    accepted(format!("{shown}&sslcert={}&sslkey={}", file("own.pem"), file("own.key")));
    let of_others = format!("{shown}&sslcert={}&sslkey={}", file("cert.pem"), file("key.pem"));
    refused(of_others, 71, &["hint: sslcert=FILE&sslkey=FILE"]);

    encrypts(&server, "off");
    let off = ["server does not support TLS", "hint: the server has `ssl = off`"];
    refused(format!("{known_owner}{authority}"), 1, &off);
    // Without encryption, the server still has to accept the connection.
    refused(format!("{known_owner}sslmode=disable"), 1, &plain);
}

/// Switches the server's encryption on or off, and waits until that has an effect.
fn encrypts(server: &Server, ssl: &str) {
    server.said("postgres", &format!("alter system set ssl = {ssl}"));
    server.said("postgres", "select pg_reload_conf()");
    until("the setting", || server.said("postgres", "show ssl") == ssl);
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let directory = directory("lab-postgres-files");
    fs::write(directory.join("empty.pem"), "nothing").expect("written");
    let refused = |words: &str, expected: &str| {
        refused(&directory, &format!("postgres://db.invalid/lab?{words}"), 71, &["db.invalid", expected]);
    };
    refused("sslmode=verify-full&sslrootcert=ca.pem", "read ca.pem: No such file");
    refused("sslrootcert=empty.pem", "read empty.pem: there is no certificate in it");
    let certificate = format!("sslcert={CERTIFICATES}/cert.pem");
    refused(&format!("{certificate}&sslkey=empty.pem"), "read empty.pem: there is no key");
}
