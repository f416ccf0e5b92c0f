//! Servers as a configuration writes them: `host:port[:protocol[:security[:compression]]]`, `[v6]:port`, `unix:/path`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use net::{Place, ServerName};

use super::Resolve;
use super::security::{Mechanism, PoolSecurity};
use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::hot_cache::HotCacheSettings;
use crate::plan::ServerPlace;

/// Everything that makes the connections to two servers differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerKey {
    pub(super) name: String,
    pub(super) connection: u32,
    pub(super) mechanism: Mechanism,
    pub(super) fast_open: bool,
    pub(super) udp: bool,
    pub(super) timeout_ms: u32,
    pub(super) connect_timeout_ms: u32,
    pub(super) hot_cache: Option<Arc<HotCacheSettings>>,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server<'a> {
    Tcp {
        host: &'a str,
        port: u16,
        /// If it says so itself.
        mechanism: Option<Mechanism>,
    },
    Unix(&'a str),
}

const ACCEPTED: &str = "a server: host:port, [IPv6 address]:port or unix:/path";

impl<'a> Server<'a> {
    pub(super) fn parse(json: &'a Json) -> Result<Server<'a>, ConfigError> {
        let text = json.string("a server")?;
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Server::Unix(path)),
                false => Err(json.wrong(ACCEPTED)),
            };
        }
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => inner.split_once("]:").ok_or_else(|| json.wrong(ACCEPTED))?,
            None => text.split_once(':').ok_or_else(|| json.wrong(ACCEPTED))?,
        };
        let mut words = rest.split(':');
        let port = words.next().and_then(|port| port.parse().ok()).filter(|port| *port > 0);
        let port = port.filter(|_| !host.is_empty()).ok_or_else(|| json.wrong(ACCEPTED))?;
        let wrong = |accepted: &str, word: &str| {
            json.error(format!("expected {accepted} in {text:?}, found `{word}`"))
        };
        if let Some(protocol) = words.next().filter(|word| *word != "ascii") {
            return Err(wrong("ascii", protocol));
        }
        let mechanism = words
            .next()
            .map(|word| Mechanism::named(word).ok_or_else(|| wrong(&Mechanism::accepted(), word)));
        if let Some(compression) = words.next().filter(|word| *word != "notcompressed") {
            return Err(wrong("notcompressed", compression));
        }
        Ok(Server::Tcp { host, port, mechanism: mechanism.transpose()? })
    }

    /// With the port and the security of its pool.
    pub(super) fn in_pool(
        self,
        pool: &PoolSecurity,
        json: &Json,
    ) -> Result<(Server<'a>, Mechanism), ConfigError> {
        match self {
            Server::Tcp { host, port, mechanism } => {
                let server = Server::Tcp { host, port: pool.port.unwrap_or(port), mechanism };
                Ok((server, pool.mechanism(mechanism)))
            }
            Server::Unix(_) if pool.mechanism(None) != Mechanism::Plain => {
                Err(json.wrong("a server over TCP, because its pool uses TLS"))
            }
            Server::Unix(_) => Ok((self, Mechanism::Plain)),
        }
    }

    /// The name for its certificate, if it is spoken to over TLS.
    pub(super) fn tls_name(
        &self,
        mechanism: Mechanism,
        json: &Json,
    ) -> Result<Option<ServerName<'static>>, ConfigError> {
        match (self, mechanism) {
            (Server::Tcp { host, .. }, Mechanism::Tls) => ServerName::try_from((*host).to_owned())
                .map(Some)
                .map_err(|_| json.wrong("a server with a name that a certificate can have")),
            _ => Ok(None),
        }
    }

    /// Where it is.
    pub(super) fn place(&self, resolve: &mut Resolve<'_>) -> ServerPlace {
        match self {
            Server::Unix(path) => ServerPlace::Fixed(Place::Unix(Path::new(path).into())),
            Server::Tcp { host, port, .. } => {
                let literal = host.parse().ok().map(|address: IpAddr| SocketAddr::new(address, *port));
                match literal.or_else(|| resolve(host, *port)) {
                    Some(address) => ServerPlace::Fixed(Place::Tcp(address)),
                    None => ServerPlace::Named { host: Arc::from(*host), port: *port },
                }
            }
        }
    }
}

impl fmt::Display for Server<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Server::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Server::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}
