//! Both ends of TLS for tests, with the certificates of the crate `tls`.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, SupportedProtocolVersion};
use tls::{Acceptor, CertificateFiles, ListenerTls, PeerCheck, TlsSettings};

/// A file of the crate `tls`.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../base/tls/tests/certificates")).join(name)
}

/// What a server shows: a certificate for 127.0.0.1.
pub(crate) fn certificates() -> Vec<CertificateFiles> {
    vec![CertificateFiles { chain: file("cert.pem"), key: Some(file("key.pem")) }]
}

/// What accepts sessions with that certificate, and asks clients for none.
pub(crate) fn acceptor() -> Arc<Acceptor> {
    let (listener, _) = ListenerTls::load(TlsSettings::new(certificates())).expect("files");
    Arc::new(listener.acceptor(PeerCheck::Never).expect("no authorities are needed"))
}

/// Settings of a client that trusts it, for one version.
pub(crate) fn client_config(version: &'static SupportedProtocolVersion) -> ClientConfig {
    let authorities = tls::authorities(&file("ca.pem")).expect("authorities");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    builder.expect("a version").with_root_certificates(authorities).with_no_client_auth()
}
