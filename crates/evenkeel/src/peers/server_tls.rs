//! TLS of programs that look at servers: probes of a controller, an agent beside them.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use tls::{ClientSettings, ClientTls, NameCheck};

use crate::failure::Failure;

/// Settings with which a server must have a certificate of these authorities (PEM) for its address. Servers are asked every
/// second, so sessions are resumed.
pub(crate) fn trusting(authorities: PathBuf) -> Result<Arc<ClientConfig>, Failure> {
    load(ClientSettings {
        authorities: Some(authorities),
        names: NameCheck::Host,
        resumes: true,
        ..ClientSettings::default()
    })
}

/// Settings for who makes no TLS connection and needs some.
pub(crate) fn unused() -> Result<Arc<ClientConfig>, Failure> {
    load(ClientSettings::default())
}

fn load(settings: ClientSettings) -> Result<Arc<ClientConfig>, Failure> {
    let (tls, _) = ClientTls::load(settings).map_err(Failure::unreadable)?;
    Ok(tls.current())
}
