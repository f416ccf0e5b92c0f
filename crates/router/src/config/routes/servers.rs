//! Servers as a configuration writes them: `host:port[:protocol[:security[:compression]]]`, `[v6]:port`, `unix:/path`.

use std::fmt;
use std::path::Path;

use net::Place;

use super::Resolve;
use crate::config::error::ConfigError;
use crate::config::json::Json;

/// Everything that makes the connections to two servers differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerKey {
    pub(super) name: String,
    pub(super) connection: u32,
    pub(super) timeout_ms: u32,
    pub(super) connect_timeout_ms: u32,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server<'a> {
    Tcp { host: &'a str, port: u16 },
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
        for (word, accepted) in words.zip([&["ascii"][..], &["plain"], &["notcompressed"]]) {
            if !accepted.contains(&word) {
                let message = format!("expected {} in {text:?}, found `{word}`", accepted.join(" or "));
                return Err(json.error(message));
            }
        }
        Ok(Server::Tcp { host, port })
    }

    /// Its address.
    pub(super) fn resolve(&self, resolve: &mut Resolve<'_>) -> Result<Place, String> {
        match self {
            Server::Unix(path) => Ok(Place::Unix(Path::new(path).into())),
            Server::Tcp { host, port } => resolve(host, *port)
                .map(Place::Tcp)
                .map_err(|error| format!("expected the name of a host, found `{host}`: {error}")),
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
