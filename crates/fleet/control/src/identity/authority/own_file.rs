//! The file with a program's own certificate and its key: one file, so that a renewal replaces both in one step.

use crate::identity::private_file::{PRIVATE, replace};
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
    /// The file cannot be written.
    #[error("write {path}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

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
    let write = |source| OwnFileError::Write { path: path.to_owned(), source };
    replace(path, &content(key, certificate_pem), PRIVATE).map_err(write)
}
