//! Names that a server's certificate must have, beside an authority that is trusted.

use crate::certificate::facts;
use crate::certificate_uris::certificate_uris;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// What a server's certificate must be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameCheck {
    /// Anything: whoever has a certificate of a trusted authority is trusted.
    #[default]
    Nobody,
    /// The host name or address that the client connects to.
    Host,
    /// One of these: host names and URIs of its extension for names, or common names of its subject.
    OneOf(Vec<String>),
    /// Exactly one URI in its extension for names, which begins so: `evenkeel://fleet/controller/`.
    UriUnder(String),
}

/// Servers whose certificate a trusted authority has signed, and whose names suit.
#[derive(Debug)]
pub(crate) struct TrustedServers {
    authorities: RootCertStore,
    /// Not [`NameCheck::Host`], which rustls checks itself.
    names: NameCheck,
    provider: Arc<CryptoProvider>,
}

impl TrustedServers {
    pub(crate) fn new(
        authorities: RootCertStore,
        names: NameCheck,
        provider: &Arc<CryptoProvider>,
    ) -> TrustedServers {
        debug_assert!(names != NameCheck::Host);
        TrustedServers { authorities, names, provider: Arc::clone(provider) }
    }

    /// Whether the certificate has a name that suits.
    fn suits(&self, certificate: &[u8]) -> bool {
        match &self.names {
            NameCheck::Nobody | NameCheck::Host => true,
            NameCheck::OneOf(accepted) => {
                let names = facts(certificate).map(|facts| facts.names).unwrap_or_default();
                names.iter().any(|name| accepted.contains(&name.text))
            }
            NameCheck::UriUnder(start) => {
                let names = certificate_uris(certificate);
                names.is_some_and(|names| {
                    names.all_read && names.uris.len() == 1 && names.uris[0].starts_with(start)
                })
            }
        }
    }
}

impl ServerCertVerifier for TrustedServers {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(own)?;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.authorities,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        match self.suits(own) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{authorities, certificates};
    use crate::testing::tests_file as file;
    use rustls::crypto::ring;
    use std::time::Duration;

    /// Since 1970, in 2030: the certificates of the tests are valid.
    const NOW_S: u64 = 1_900_000_000;

    fn verify(authority: &str, names: NameCheck, now_s: u64) -> Result<(), Error> {
        let provider = Arc::new(ring::default_provider());
        let trusted = TrustedServers::new(authorities(&file(authority)).expect("one"), names, &provider);
        let shown = certificates(&file("cert.pem")).expect("a certificate");
        let name = ServerName::try_from("any.example").expect("a name");
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s));
        trusted.verify_server_cert(&shown[0], &shown[1..], &name, &[], now).map(drop)
    }

    fn one_of(name: &str) -> NameCheck {
        NameCheck::OneOf(vec!["elsewhere".to_owned(), name.to_owned()])
    }

    #[test]
    fn the_authority_counts_and_a_name_only_if_it_is_asked_for() {
        let shown = certificates(&file("cert.pem")).expect("a certificate");
        let names = facts(&shown[0]).expect("facts").names;
        assert_eq!(verify("ca.pem", NameCheck::Nobody, NOW_S), Ok(()));
        for name in &names {
            assert_eq!(verify("ca.pem", one_of(&name.text), NOW_S), Ok(()), "{name:?}");
        }
        assert!(!names.is_empty());
        let wrong = Err(CertificateError::NotValidForName.into());
        assert_eq!(verify("ca.pem", one_of("other"), NOW_S), wrong);
        let unknown = verify("foreign.pem", NameCheck::Nobody, NOW_S);
        assert_eq!(unknown, Err(CertificateError::UnknownIssuer.into()));
        let expired = verify("ca.pem", NameCheck::Nobody, 99_000_000_000);
        assert!(matches!(expired, Err(Error::InvalidCertificate(CertificateError::ExpiredContext { .. }))));
    }
}
