//! Whom a connection trusts: nobody is asked, an authority, or an authority and the name.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io;
use std::path::{Path, PathBuf};

/// Authorities whose signature makes a certificate one to trust.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Roots {
    /// Those that this system trusts.
    System,
    /// Those in a file.
    File(PathBuf),
}

/// Where systems keep them: Debian, Fedora, Alpine.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A file with certificates or a key is of no use.
#[derive(Debug, thiserror::Error)]
#[error("read {path}", path = .path.display())]
pub(super) struct Unread {
    path: PathBuf,
    source: io::Error,
}

impl Roots {
    pub(super) fn parse(word: &str) -> Roots {
        if word == "system" { Roots::System } else { Roots::File(word.into()) }
    }

    pub(super) fn read(&self) -> Result<RootCertStore, Unread> {
        let path = match self {
            Roots::File(path) => path,
            Roots::System => {
                Path::new(SYSTEM.iter().find(|path| Path::new(path).exists()).unwrap_or(&SYSTEM[0]))
            }
        };
        let mut store = RootCertStore::empty();
        // A system's list may hold one that is of no use to anybody.
        match store.add_parsable_certificates(certificates(path)?).0 {
            0 => Err(unread(path, "none of its certificates can be that of an authority")),
            _ => Ok(store),
        }
    }
}

/// What a client shows of itself.
pub(super) fn own_certificate(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Unread> {
    let chain = certificates(certificate)?;
    let found = PrivateKeyDer::from_pem_slice(&bytes(key)?);
    Ok((
        chain,
        found.map_err(|error| unpacked(key, error, "there is no key without a password in it (PEM)"))?,
    ))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Unread> {
    let none = "there is no certificate in it (PEM)";
    let found = CertificateDer::pem_slice_iter(&bytes(path)?).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unpacked(path, error, none))?;
    if found.is_empty() { Err(unread(path, none)) } else { Ok(found) }
}

fn bytes(path: &Path) -> Result<Vec<u8>, Unread> {
    std::fs::read(path).map_err(|source| Unread { path: path.to_owned(), source })
}

fn unpacked(path: &Path, error: pem::Error, none: &str) -> Unread {
    match error {
        pem::Error::NoItemsFound => unread(path, none),
        error => unread(path, &error.to_string()),
    }
}

fn unread(path: &Path, why: &str) -> Unread {
    Unread { path: path.to_owned(), source: io::Error::other(why.to_owned()) }
}

/// What is asked of a server's certificate. That the server has the key to it is asked in any case.
#[derive(Debug)]
pub(super) struct Trust {
    /// `None`: whoever has signed it.
    roots: Option<RootCertStore>,
    /// Whether it is for the name that the server is called here.
    asks_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    pub(super) fn new(roots: Option<RootCertStore>, asks_name: bool, provider: &CryptoProvider) -> Trust {
        Trust { roots, asks_name, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(roots) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, others, now, self.algorithms.all)?;
        if self.asks_name {
            verify_server_name(&certificate, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
