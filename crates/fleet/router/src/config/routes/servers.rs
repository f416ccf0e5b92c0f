//! Servers as a configuration writes them: `host:port[:protocol[:security[:compression]]]`, `[v6]:port`, `unix:/path`;
//! without the port where the pool overrides it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use net::{Place, ServerName};

use super::options::Resolve;
use super::security::{Mechanism, PoolSecurity};
use crate::config::error::ConfigError;
use crate::config::json::Json;
use crate::hot::cache::HotCacheSettings;
use crate::plan::{DestinationSpec, ServerPlace};
use crate::stats::counted_pools::CountedPool;

/// Everything that makes the connections to two servers differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerKey {
    name: String,
    connection: u32,
    mechanism: Mechanism,
    fast_open: bool,
    udp: bool,
    timeout_ms: u32,
    connect_timeout_ms: u32,
    hot_cache: Option<Arc<HotCacheSettings>>,
    counted_as: Option<CountedPool>,
}

impl ServerKey {
    /// Of a server, with what its pool says itself.
    pub(super) fn of(spec: &DestinationSpec, mechanism: Mechanism, fast_open: bool) -> ServerKey {
        ServerKey {
            name: spec.name.clone(),
            connection: spec.connection,
            mechanism,
            fast_open,
            udp: spec.udp,
            timeout_ms: spec.timeout_ms,
            connect_timeout_ms: spec.connect_timeout_ms,
            hot_cache: spec.hot_cache.clone(),
            counted_as: spec.counted_as,
        }
    }
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server<'a> {
    Tcp { host: &'a str, port: u16 },
    Unix(&'a str),
}

/// A server as its pool has it.
pub(super) struct PoolServer<'a> {
    pub(super) server: Server<'a>,
    pub(super) mechanism: Mechanism,
    /// It is said to speak mcrouter's own protocol.
    pub(super) is_caret: bool,
}

const ACCEPTED: &str = "a server: host:port, [IPv6 address]:port or unix:/path";

const NO_PORT: &str = "a server with a port, host:port, because its pool has no `port_override`";

impl<'a> Server<'a> {
    /// A server of a pool: with the port and the security that the pool gives it.
    pub(super) fn parse(json: &'a Json, pool: &PoolSecurity) -> Result<PoolServer<'a>, ConfigError> {
        let text = json.string("a server")?;
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true if pool.mechanism(None) == Mechanism::Plain => {
                    let (server, mechanism) = (Server::Unix(path), Mechanism::Plain);
                    Ok(PoolServer { server, mechanism, is_caret: false })
                }
                true => Err(json.wrong("a server over TCP, because its pool uses TLS")),
                false => Err(json.wrong(ACCEPTED)),
            };
        }
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or_else(|| json.wrong(ACCEPTED))?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        if host.is_empty() || !(rest.is_empty() || rest.starts_with(':')) {
            return Err(json.wrong(ACCEPTED));
        }
        let mut words = rest.split(':').skip(1);
        let own = match words.next() {
            None | Some("") => None,
            Some(word) => Some(word.parse::<u16>().map_err(|_| json.wrong(ACCEPTED))?),
        };
        let port = pool.port.or(own).ok_or_else(|| json.wrong(NO_PORT))?;
        let wrong = |accepted: &str, word: &str| {
            json.error(format!("expected {accepted} in {text:?}, found `{word}`"))
        };
        let is_caret = match words.next() {
            None | Some("" | "ascii") => false,
            Some("caret") => true,
            Some(other) => return Err(wrong("ascii or caret", other)),
        };
        let mechanism = words
            .next()
            .filter(|word| !word.is_empty())
            .map(|word| Mechanism::named(word).ok_or_else(|| wrong(&Mechanism::accepted(), word)))
            .transpose()?;
        if let Some(compression) = words.next().filter(|word| !["", "notcompressed"].contains(word)) {
            return Err(wrong("notcompressed", compression));
        }
        let (server, mechanism) = (Server::Tcp { host, port }, pool.mechanism(mechanism));
        Ok(PoolServer { server, mechanism, is_caret })
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
            Server::Tcp { host, port } => {
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
            Server::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Server::Tcp { host, port } => write!(f, "{host}:{port}"),
            Server::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}
