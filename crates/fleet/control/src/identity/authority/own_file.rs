//! The file with a program's own certificate and its key: one file, so that a renewal replaces both in one step.

use crate::identity::private_file::{
    PRIVATE, create_of_another, is_there, read_of_another, replace, replace_of_another,
};
use crate::identity::{FleetIdentity, IdentityError};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::io;
use std::path::{Path, PathBuf};
use tls::CertificateKey;

/// The reason why a certificate is not kept. The file stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum OwnFileError {
    /// It is no certificate.
    #[error("keep a new certificate: expected a certificate in PEM, found something else")]
    NoCertificate,
    /// It is that of another key.
    #[error("keep a new certificate: it is not for the key that was made here")]
    OtherKey,
    /// Its identity cannot be read.
    #[error("keep a new certificate")]
    Identity(#[from] IdentityError),
    /// It is for someone else.
    #[error("keep a new certificate: it is for {found}, expected {expected}")]
    OtherIdentity {
        /// Its identity.
        found: Box<FleetIdentity>,
        /// Ours.
        expected: Box<FleetIdentity>,
    },
    /// The file cannot be read.
    #[error("read {path}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no certificate in the file.
    #[error("read {path}: expected a certificate in PEM, found none", path = .path.display())]
    NoneThere {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("write {path}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Longest file of a certificate, its chain and its key: some kilobytes each.
const FILE_LEN_MAX: u64 = 256 * 1024;

/// The text of the file.
pub(super) fn content(key: &CertificateKey, certificate_pem: &str) -> String {
    [certificate_pem, &*key.pem()].concat()
}

/// Puts a new certificate and its key in the place of the old ones, for the owner alone to read. What a controller has
/// sent is checked first: a certificate that cannot be used must not replace one that can.
///
/// # Errors
/// If the certificate is not that of this key and this identity at this time, or the file cannot be written.
pub fn keep_certificate(
    path: &Path,
    key: &CertificateKey,
    certificate_pem: &str,
    identity: &FleetIdentity,
    now_s: u64,
) -> Result<(), OwnFileError> {
    check(key, certificate_pem, identity, now_s)?;
    let write = |source| OwnFileError::Write { path: path.to_owned(), source };
    replace(path, &content(key, certificate_pem), PRIVATE).map_err(write)
}

/// The same for a program beside this one: the file keeps its owner and its mode, and is no link.
///
/// # Errors
/// As [`keep_certificate`]; also if there is no file yet.
pub fn keep_certificate_of(
    path: &Path,
    key: &CertificateKey,
    certificate_pem: &str,
    identity: &FleetIdentity,
    now_s: u64,
) -> Result<(), OwnFileError> {
    check(key, certificate_pem, identity, now_s)?;
    let write = |source| OwnFileError::Write { path: path.to_owned(), source };
    replace_of_another(path, &content(key, certificate_pem)).map_err(write)
}

/// Puts the first certificate of a program beside this one, and its key, into a new file.
///
/// # Errors
/// As [`keep_certificate`]; also if there is anything of this name already.
pub fn keep_first_certificate_of(
    path: &Path,
    key: &CertificateKey,
    certificate_pem: &str,
    identity: &FleetIdentity,
    now_s: u64,
) -> Result<(), OwnFileError> {
    check(key, certificate_pem, identity, now_s)?;
    let write = |source| OwnFileError::Write { path: path.to_owned(), source };
    create_of_another(path, &content(key, certificate_pem)).map_err(write)
}

/// Whether there is anything where the certificate of a program beside this one shall be.
///
/// # Errors
/// If that cannot be seen: there is no such folder, or another user could have made a link on the way.
pub fn has_certificate_of(path: &Path) -> Result<bool, OwnFileError> {
    is_there(path).map_err(|source| OwnFileError::Read { path: path.to_owned(), source })
}

/// The first certificate (DER) in the file of a program beside this one, and all that is in the file.
///
/// # Errors
/// If there is none, or the file is a link, or has more names than one.
pub fn certificate_of(path: &Path) -> Result<(Vec<u8>, Vec<u8>), OwnFileError> {
    let read = |source| OwnFileError::Read { path: path.to_owned(), source };
    let bytes = read_of_another(path, FILE_LEN_MAX).map_err(read)?;
    let first = CertificateDer::pem_slice_iter(&bytes).next().and_then(Result::ok);
    let first = first.ok_or_else(|| OwnFileError::NoneThere { path: path.to_owned() })?;
    Ok((first.to_vec(), bytes))
}

/// Whether a certificate can be used with its key by this identity.
fn check(
    key: &CertificateKey,
    certificate_pem: &str,
    identity: &FleetIdentity,
    now_s: u64,
) -> Result<(), OwnFileError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate_pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| OwnFileError::NoCertificate)?;
    let own = chain.first().ok_or(OwnFileError::NoCertificate)?;
    let found = FleetIdentity::of_certificate(own, &identity.fleet, now_s)?;
    if found != *identity {
        let (found, expected) = (Box::new(found), Box::new(identity.clone()));
        return Err(OwnFileError::OtherIdentity { found, expected });
    }
    let der = PrivateKeyDer::from_pem_slice(key.pem().as_bytes()).map_err(|_| OwnFileError::OtherKey)?;
    CertifiedKey::from_der(chain, der, &default_provider()).map_err(|_| OwnFileError::OtherKey)?;
    Ok(())
}
