//! URIs and hosts in a certificate, and its validity: what an application decides by that gives its own meaning to URIs.

use crate::certificate::{NameKind, facts};

/// The URIs and hosts of a certificate's extension for names (SAN), and when it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateUris {
    /// In the order of the certificate.
    pub uris: Vec<String>,
    /// The host names and addresses of the extension, those of its owner if it serves.
    pub hosts: Vec<String>,
    /// Whether all names of the certificate could be read; otherwise there may be more URIs.
    pub all_read: bool,
    /// The first second at which it is valid, since 1970.
    pub not_before_s: u64,
    /// The last one.
    pub not_after_s: u64,
}

/// Reads a certificate in DER. `None` if it is none. Nothing is verified: rustls has verified the chain of a peer's
/// certificate before anyone else sees it.
pub fn certificate_uris(certificate: &[u8]) -> Option<CertificateUris> {
    let facts = facts(certificate)?;
    let of_kind =
        |kind| facts.names.iter().filter(move |name| name.kind == kind).map(|name| name.text.clone());
    let addresses = facts.addresses.iter().map(ToString::to_string);
    Some(CertificateUris {
        uris: of_kind(NameKind::Uri).collect(),
        hosts: of_kind(NameKind::Dns).chain(addresses).collect(),
        all_read: facts.all_names,
        not_before_s: facts.not_before_s,
        not_after_s: facts.not_after_s,
    })
}
