//! Files of TLS settings: certificates, keys and authorities.

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The longest file that is read. A system's list of authorities has 250 kB.
const FILE_LEN_MAX: u64 = 4 << 20;

/// Files with the authorities that a system trusts: Debian, Fedora, Alpine.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A file of TLS settings that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("read {path}", path = .path.display())]
pub struct TlsFileError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The file with the authorities that this system trusts; the usual path if it has none.
pub fn system_authorities() -> &'static Path {
    Path::new(SYSTEM.iter().find(|path| Path::new(path).exists()).unwrap_or(&SYSTEM[0]))
}

/// The authorities in a file.
///
/// # Errors
/// If the file cannot be read, or none of its certificates can be an authority's.
pub fn authorities(path: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut store = RootCertStore::empty();
    // A system's list may have one that cannot be parsed.
    match store.add_parsable_certificates(certificates(path)?).0 {
        0 => Err(unusable(path, "none of its certificates can be that of an authority")),
        _ => Ok(store),
    }
}

/// The certificates in a file, at least one: a chain begins with its owner's.
///
/// # Errors
/// If the file cannot be read, or has none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let none = "there is no certificate in it (PEM)";
    let found = CertificateDer::pem_slice_iter(&bytes(path)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unpacked(path, error, none))?;
    if found.is_empty() { Err(unusable(path, none)) } else { Ok(found) }
}

/// The first key in a file.
///
/// # Errors
/// If the file cannot be read, or has none that can be read without a password.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let found = PrivateKeyDer::from_pem_slice(&bytes(path)?);
    found.map_err(|error| unpacked(path, error, "there is no key without a password in it (PEM)"))
}

/// The key in a file that has nothing else, in DER.
pub(crate) fn key_in_der(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    PrivateKeyDer::try_from(bytes(path)?)
        .map_err(|_| unusable(path, "there is no key without a password in it (DER)"))
}

/// The text in a file.
pub(crate) fn words(path: &Path) -> Result<String, TlsFileError> {
    String::from_utf8(bytes(path)?).map_err(|_| unusable(path, "it is not text (UTF-8)"))
}

/// Whether every user of the system may read a file that is a secret. An error is found when it is read.
pub(crate) fn is_public(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    // A pipe could keep its reader waiting for ever.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(unusable(path, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes))
        .map_err(|source| TlsFileError { path: path.to_owned(), source })?;
    match bytes.len() as u64 {
        0..=FILE_LEN_MAX => Ok(bytes),
        _ => Err(unusable(path, "it has more than 4 MiB")),
    }
}

fn unpacked(path: &Path, error: pem::Error, none: &str) -> TlsFileError {
    match error {
        pem::Error::NoItemsFound => unusable(path, none),
        error => unusable(path, &error.to_string()),
    }
}

pub(crate) fn unusable(path: &Path, why: &str) -> TlsFileError {
    TlsFileError { path: path.to_owned(), source: io::Error::other(why.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, tests_file as file};

    #[track_caller]
    fn check<T>(read: Result<T, TlsFileError>, path: &Path, expected: &str) {
        let error = read.err().expect("an error");
        assert_eq!(error.to_string(), format!("read {}", path.display()));
        assert!(error.source.to_string().contains(expected), "{}", error.source);
    }

    #[test]
    fn certificates_keys_and_authorities_are_read() {
        assert_eq!(certificates(&file("cert.pem")).expect("a certificate").len(), 1);
        assert_eq!(authorities(&file("ca.pem")).expect("an authority").len(), 1);
        key(&file("key.pem")).expect("a key");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error_with_its_reason() {
        check(certificates(&file("key.pem")), &file("key.pem"), "no certificate in it");
        check(authorities(&file("key.pem")), &file("key.pem"), "no certificate in it");
        check(key(&file("cert.pem")), &file("cert.pem"), "no key without a password");
        check(key(Path::new("/nowhere")), Path::new("/nowhere"), "No such file");
        check(key_in_der(&file("key.pem")), &file("key.pem"), "no key without a password in it (DER)");
        check(words(Path::new("/dev/zero")), Path::new("/dev/zero"), "no regular file");
        let scratch = Scratch::new();
        let long = scratch.file("long", vec![b'a'; FILE_LEN_MAX as usize + 1]);
        check(words(&long), &long, "more than 4 MiB");
        let latin = scratch.file("latin", [b'a', 0xff]);
        check(words(&latin), &latin, "not text");
    }
}
