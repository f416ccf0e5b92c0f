//! Encrypted connections: whom to trust, and under which name the server must show itself.

use crate::types::description::Description;
use crate::types::error::Error;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The settings of all connections.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    name: ServerName<'static>,
    config: ClientConfig,
}

/// One connection's settings, which remember its own sessions only: opened anew it resumes the last of them, as if each
/// were another client.
#[derive(Debug)]
pub(crate) struct Party {
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// `host` is the server as the user named it.
    pub(crate) fn new(run: &Description, host: &str) -> Result<Tls, Error> {
        let provider = Arc::new(ring::default_provider());
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::Arguments(format!("--tls needs a name or an address, not {host:?}")))?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|source| Error::Handshake { connection: 0, source })?;
        let config = match run.tls_insecure {
            true => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
            false => builder.with_root_certificates(authorities(&run.tls_ca)?),
        };
        Ok(Tls { name, config: config.with_no_client_auth() })
    }

    /// For one connection.
    pub(crate) fn party(&self) -> Party {
        let mut config = self.config.clone();
        config.resumption = Resumption::in_memory_sessions(1);
        Party { name: self.name.clone(), config: Arc::new(config) }
    }
}

impl Party {
    /// A session that begins, with the last one's keys if the server gave a ticket.
    pub(crate) fn session(&self) -> Result<ClientConnection, rustls::Error> {
        let mut session = ClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        // A deep pipeline of sets is more than the default keeps; what is encrypted is taken at once.
        session.set_buffer_limit(None);
        Ok(session)
    }
}

/// The certificates in a PEM file.
fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    let failed = |source| Error::Authorities { path: path.to_path_buf(), source };
    let text = std::fs::read(path).map_err(failed)?;
    let mut store = RootCertStore::empty();
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let (added, _) = store.add_parsable_certificates(read.map_err(|error| failed(io::Error::other(error)))?);
    match added {
        0 => Err(failed(io::Error::other("no certificate in it"))),
        _ => Ok(store),
    }
}

/// Takes any certificate; that the server has its key is checked all the same.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
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
