//! Options of TLS: what the command line says, and what follows from several flags together.

use std::path::PathBuf;

use ::flags::Error;

/// The command line about TLS.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is the flag of its name")]
pub struct RouteTlsOptions {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub verify_peers: bool,
    pub verify_names: bool,
    pub identities: Vec<String>,
    pub enforce_identity: bool,
    pub resumes: bool,
    pub fast_open: bool,
    pub fast_open_queue: u32,
    pub ssl_ports: Vec<String>,
    pub server_cert: Option<PathBuf>,
    pub server_key: Option<PathBuf>,
    pub server_ca: Option<PathBuf>,
    pub require_peer_certs: bool,
    pub ticket_keys: Option<PathBuf>,
    pub kernel: bool,
}

impl Default for RouteTlsOptions {
    fn default() -> RouteTlsOptions {
        RouteTlsOptions {
            cert: None,
            key: None,
            ca: None,
            verify_peers: false,
            verify_names: false,
            identities: Vec::new(),
            enforce_identity: false,
            resumes: false,
            fast_open: false,
            fast_open_queue: 100_000,
            ssl_ports: Vec::new(),
            server_cert: None,
            server_key: None,
            server_ca: None,
            require_peer_certs: false,
            ticket_keys: None,
            kernel: false,
        }
    }
}

impl RouteTlsOptions {
    /// Takes the files for servers for clients, too, if there are none for clients: the first versions of mcrouter had
    /// one certificate for both. Returns a line for the operator.
    pub(super) fn borrow_from_servers(&mut self) -> Option<String> {
        let is_alone = self.server_cert.is_none() && self.server_key.is_none();
        if self.ssl_ports.is_empty() || !is_alone || self.cert.is_none() || self.key.is_none() {
            return None;
        }
        (self.server_cert, self.server_key) = (self.cert.clone(), self.key.clone());
        if self.require_peer_certs {
            self.server_ca = self.server_ca.take().or_else(|| self.ca.clone());
        }
        Some(
            "clients of --ssl-port are shown the certificate of --pem-cert-path, as there is no --server-pem-cert-path"
                .to_owned(),
        )
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let needs =
            |flag: &str, other: &str| Error::Together(format!("expected {other} with {flag}, found none"));
        if self.cert.is_some() != self.key.is_some() {
            return Err(needs("--pem-cert-path or --pem-key-path", "both"));
        }
        if self.verify_peers && self.ca.is_none() {
            return Err(needs("--ssl-verify-peers", "--pem-ca-path FILE"));
        }
        if self.verify_names && !self.verify_peers {
            return Err(needs("--ssl-verify-names", "--ssl-verify-peers"));
        }
        if self.enforce_identity && !self.verify_peers {
            return Err(needs("--ssl-service-identity-authorization-enforce", "--ssl-verify-peers"));
        }
        if self.enforce_identity && self.identities.is_empty() {
            return Err(needs("--ssl-service-identity-authorization-enforce", "--ssl-service-identity NAME"));
        }
        if self.enforce_identity && self.verify_names {
            let message =
                "expected --ssl-verify-names or --ssl-service-identity-authorization-enforce, found both";
            return Err(Error::Together(message.to_owned()));
        }
        if !self.ssl_ports.is_empty() && (self.server_cert.is_none() || self.server_key.is_none()) {
            return Err(needs("--ssl-port", "--server-pem-cert-path FILE and --server-pem-key-path FILE"));
        }
        if self.require_peer_certs && self.server_ca.is_none() {
            return Err(needs("--ssl-require-peer-certs", "--server-pem-ca-path FILE"));
        }
        Ok(())
    }
}
