//! Encrypted connections: whom to trust, and under which name the server must show itself.

use crate::types::description::Description;
use crate::types::error::Error;
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, ClientConnection};
use std::sync::Arc;
use tls::{TlsFileError, Trust};

/// The settings of all connections.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    name: ServerName<'static>,
    config: ClientConfig,
    resumes: bool,
}

/// One connection's settings, which remember its own sessions only: opened anew it resumes the last of them, as if each
/// were another client, unless none may be resumed.
#[derive(Debug)]
pub(crate) struct Party {
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// `host` is the server as the user named it.
    pub(crate) fn new(run: &Description, host: &str) -> Result<Tls, Error> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::Arguments(format!("--tls needs a name or an address, not {host:?}")))?;
        let trust = if run.tls_insecure { Trust::Anyone } else { Trust::Authorities(&run.tls_ca) };
        let versions: &[_] = match run.tls_version.as_deref() {
            Some("1.2") => &[&TLS12],
            Some("1.3") => &[&TLS13],
            _ => ALL_VERSIONS,
        };
        let config = tls::client_of_versions(trust, versions)
            .map_err(|TlsFileError { path, source }| Error::Authorities { path, source })?;
        Ok(Tls { name, config: config.with_no_client_auth(), resumes: !run.tls_no_resumption })
    }

    /// For one connection.
    pub(crate) fn party(&self) -> Party {
        let mut config = self.config.clone();
        config.resumption =
            if self.resumes { Resumption::in_memory_sessions(1) } else { Resumption::disabled() };
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
