//! Servers of a plan, and the ways to them.

use std::sync::Arc;

use net::{Place, ServerName};

use crate::hot::cache::HotCacheSettings;
use crate::stats::counted_pools::CountedPool;

/// A server and the way to it. Equal ones of two plans share their connections.
#[derive(Clone, Debug)]
pub struct DestinationSpec {
    /// `host:port` as configured, for reports. Its health is that of all connections to it.
    pub name: String,
    /// Which of several connections to the server (`additional_fanout`); 0 for the first.
    pub connection: u32,
    /// Where it is.
    pub place: ServerPlace,
    /// With TLS, to a server of this name.
    pub tls: Option<ServerName<'static>>,
    /// With TCP Fast Open.
    pub fast_open: bool,
    /// Gets go over UDP.
    pub udp: bool,
    /// Time limit for a reply.
    pub timeout_ms: u32,
    /// Time limit for a connection.
    pub connect_timeout_ms: u32,
    /// Values that clients ask for again and again are kept in the router for a moment.
    pub hot_cache: Option<Arc<HotCacheSettings>>,
    /// Its requests count in the statistics of this pool. A server of two such pools has a connection for each: which of them
    /// a request is for would otherwise have to go with it.
    pub counted_as: Option<CountedPool>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPlace {
    /// At this address.
    Fixed(Place),
    /// At an address of this name, which is looked up while the router runs.
    Named {
        /// The name.
        host: Arc<str>,
        /// The port.
        port: u16,
    },
}

impl DestinationSpec {
    /// Whether a connection made for one can serve the other.
    pub fn is_same(&self, other: &DestinationSpec) -> bool {
        self.tls == other.tls
            && self.name == other.name
            && self.connection == other.connection
            && self.place == other.place
            && self.fast_open == other.fast_open
            && self.udp == other.udp
            && self.timeout_ms == other.timeout_ms
            && self.connect_timeout_ms == other.connect_timeout_ms
            && self.hot_cache == other.hot_cache
            && self.counted_as == other.counted_as
    }
}
