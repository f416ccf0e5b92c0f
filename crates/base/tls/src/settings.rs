//! Choices about the TLS of a server, as its command line gives them.

use crate::cipher::Ciphers;
use crate::files::TlsFileError;
use std::path::{Path, PathBuf};

/// Certificates of one server, with the default one. All are read again at once.
pub const CERTIFICATES_MAX: usize = 256;

/// Names of files, and choices.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsSettings {
    /// Certificates, at least one: the first is the default.
    pub certificates: Vec<CertificateFiles>,
    /// The format of the keys.
    pub key_format: KeyFormat,
    /// The authorities of clients' certificates.
    pub authorities: Option<PathBuf>,
    /// Suites.
    pub ciphers: Ciphers,
    /// Whether TLS 1.2 is refused.
    pub tls13_only: bool,
    /// Keys of tickets; random ones without.
    pub ticket_keys: Option<PathBuf>,
    /// Roles by the names of clients' certificates; without, all clients may do everything.
    pub roles: Option<PathBuf>,
    /// Whether sessions are kept for clients of TLS 1.2 that have no tickets.
    pub session_cache: bool,
    /// Whether the kernel gets the keys of sessions, where it can.
    pub kernel: bool,
}

impl TlsSettings {
    /// These certificates with keys in PEM, and nothing else.
    pub fn new(certificates: Vec<CertificateFiles>) -> TlsSettings {
        TlsSettings {
            certificates,
            key_format: KeyFormat::Pem,
            authorities: None,
            ciphers: Ciphers::default(),
            tls13_only: false,
            ticket_keys: None,
            roles: None,
            session_cache: false,
            kernel: false,
        }
    }

    /// All files that are read, at the start and again.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let own = self.certificates.iter().flat_map(|files| [Some(&files.chain), files.key.as_ref()]);
        let others = [self.authorities.as_ref(), self.ticket_keys.as_ref(), self.roles.as_ref()];
        own.chain(others).flatten().map(PathBuf::as_path)
    }
}

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, from the server's own certificate on, in PEM.
    pub chain: PathBuf,
    /// The key; without, it is in the file of the chain.
    pub key: Option<PathBuf>,
}

/// Formats of a key's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// Text with a header.
    Pem,
    /// Bytes; the certificates are PEM all the same.
    Der,
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerCheck {
    /// They are not asked for one.
    Never,
    /// They are asked; one that they show must be valid.
    IfShown,
    /// They must show a valid one.
    Always,
}

/// The reason why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsServerError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] TlsFileError),
    /// Clients' certificates are asked for, but there is nothing to check them with.
    #[error("check clients' certificates without a file of authorities")]
    NoAuthorities,
    /// No cipher is left.
    #[error("use these ciphers")]
    Unusable(#[source] rustls::Error),
}
