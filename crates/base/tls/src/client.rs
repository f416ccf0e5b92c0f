//! Client settings: the servers that a client trusts.

use crate::files::{TlsFileError, authorities};
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DEFAULT_VERSIONS, DigitallySignedStruct, SignatureScheme,
    SupportedProtocolVersion,
};
use std::path::Path;
use std::sync::Arc;

/// The servers that a client trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'p> {
    /// Those whose certificate an authority in this file has signed, for the name that the client connects to.
    Authorities(&'p Path),
    /// Any server: the connection is encrypted, but not authenticated.
    Anyone,
}

/// Settings for connections to the trusted servers. The caller adds the client's own certificate, or none.
///
/// # Errors
/// If there are no authorities in the file.
pub fn client(trust: Trust<'_>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsFileError> {
    client_of_versions(trust, DEFAULT_VERSIONS)
}

/// The same, with these versions of TLS alone.
///
/// # Errors
/// If there are no authorities in the file.
pub fn client_of_versions(
    trust: Trust<'_>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsFileError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("ring has cipher suites for TLS 1.2 and 1.3");
    Ok(match trust {
        Trust::Authorities(path) => builder.with_root_certificates(authorities(path)?),
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
    })
}

/// Accepts any certificate; that the server has its key is checked all the same.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{certificates, key};
    use rustls::{ClientConnection, ServerConfig, ServerConnection};

    fn file(name: &str) -> String {
        format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// The result of a handshake in memory with the tests' server.
    fn handshake(trust: Trust<'_>, name: &str) -> Result<(), rustls::Error> {
        let shown = certificates(Path::new(&file("cert.pem"))).expect("a certificate");
        let key = key(Path::new(&file("key.pem"))).expect("a key");
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(shown, key))
            .expect("a server");
        let client = client(trust).expect("settings").with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name)?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).expect("memory takes all");
            server.read_tls(&mut &*wire).expect("memory gives all");
            server.process_new_packets()?;
            wire.clear();
            server.write_tls(&mut wire).expect("memory takes all");
            client.read_tls(&mut &*wire).expect("memory gives all");
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn a_server_is_trusted_by_its_authority_and_its_name() {
        let (authority, stranger) = (file("ca.pem"), file("cert.pem"));
        let trust = |path: &str, name| handshake(Trust::Authorities(Path::new(path)), name);
        assert_eq!(trust(&authority, "127.0.0.1"), Ok(()));
        assert!(matches!(trust(&authority, "127.0.0.2"), Err(rustls::Error::InvalidCertificate(_))));
        assert!(matches!(trust(&stranger, "127.0.0.1"), Err(rustls::Error::InvalidCertificate(_))));
    }

    #[test]
    fn anyone_accepts_any_server_and_name() {
        assert_eq!(handshake(Trust::Anyone, "elsewhere.example"), Ok(()));
    }

    #[test]
    fn without_authorities_there_are_no_settings() {
        assert!(client(Trust::Authorities(Path::new("/nowhere"))).is_err());
    }
}
