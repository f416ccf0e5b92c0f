//! PEM files: certificates, keys and authorities.

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};

/// Files with the authorities that a system trusts: Debian, Fedora, Alpine.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A file with certificates or a key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("read {path}", path = .path.display())]
pub struct PemFileError {
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
pub fn authorities(path: &Path) -> Result<RootCertStore, PemFileError> {
    let mut store = RootCertStore::empty();
    // A system's list may have one that cannot be parsed.
    match store.add_parsable_certificates(certificates(path)?).0 {
        0 => Err(unread(path, "none of its certificates can be that of an authority")),
        _ => Ok(store),
    }
}

/// The certificates in a file, at least one: a chain begins with its owner's.
///
/// # Errors
/// If the file cannot be read, or has none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemFileError> {
    let none = "there is no certificate in it (PEM)";
    let found = CertificateDer::pem_slice_iter(&bytes(path)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unpacked(path, error, none))?;
    if found.is_empty() { Err(unread(path, none)) } else { Ok(found) }
}

/// The first key in a file.
///
/// # Errors
/// If the file cannot be read, or has none that can be read without a password.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, PemFileError> {
    let found = PrivateKeyDer::from_pem_slice(&bytes(path)?);
    found.map_err(|error| unpacked(path, error, "there is no key without a password in it (PEM)"))
}

fn bytes(path: &Path) -> Result<Vec<u8>, PemFileError> {
    std::fs::read(path).map_err(|source| PemFileError { path: path.to_owned(), source })
}

fn unpacked(path: &Path, error: pem::Error, none: &str) -> PemFileError {
    match error {
        pem::Error::NoItemsFound => unread(path, none),
        error => unread(path, &error.to_string()),
    }
}

fn unread(path: &Path, why: &str) -> PemFileError {
    PemFileError { path: path.to_owned(), source: io::Error::other(why.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
    }

    #[track_caller]
    fn check<T>(read: Result<T, PemFileError>, path: &Path, expected: &str) {
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
    }
}
