//! Options of a compilation: what a plan depends on beside the configuration.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::json::Json;
use crate::message::routing_prefix::RoutingPrefix;
use crate::routes::requests::big_value::BigValue;
use crate::stats::counted_pools::CountedPools;

/// The address of a host name and a port, where it is known without looking it up. Without, the name is looked up while the
/// router runs.
pub type Resolve<'r> = dyn FnMut(&str, u16) -> Option<SocketAddr> + 'r;

/// Dictionaries by the names that the configuration has for their files; or why one cannot be read.
pub type DictionaryFiles = HashMap<String, Result<Arc<[u8]>, String>>;

/// What a plan depends on beside the configuration.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The prefix of keys without one (`--route-prefix`).
    pub default_prefix: RoutingPrefix,
    /// Time limit of servers whose pool has none (`--server-timeout`).
    pub server_timeout_ms: u32,
    /// The same for pools of the same region and cluster; 0 for none (`--within-cluster-timeout-ms`).
    pub within_cluster_timeout_ms: u32,
    /// The same for other clusters of the region (`--cross-cluster-timeout-ms`).
    pub cross_cluster_timeout_ms: u32,
    /// The same for other regions (`--cross-region-timeout-ms`).
    pub cross_region_timeout_ms: u32,
    /// Identifies this host, for routes that choose by it.
    pub host_id: u32,
    /// Long values are kept in parts, whatever the route (`--big-value-split-threshold`).
    pub big_value: Option<BigValue>,
    /// Keys with an unknown prefix go to the default route (`--send-invalid-route-to-default`).
    pub invalid_to_default: bool,
    /// Only what reads goes to a route (`--allow-only-gets`).
    pub only_gets: bool,
    /// Threads, each of which has connections of its own (`--num-proxies`).
    pub proxies: usize,
    /// Connections with TLS begin with TCP Fast Open (`--enable-ssl-tfo`).
    pub tls_fast_open: bool,
    /// Deletes that fail go to a log (without `--asynclog-disable`).
    pub logs_deletes: bool,
    /// Requests are logged (`--enable-logging-route`).
    pub log_requests: bool,
    /// Replies of shadows are compared with the normal ones (`--shadow-report`).
    pub compares_shadows: bool,
    /// Runtime variables (`--runtime-vars-file`).
    pub variables: Option<Arc<Json>>,
    /// Pools with statistics of their own (`--pool-stats-config-file`).
    pub counted_pools: Arc<CountedPools>,
    /// The files that [`dictionary_files`](super::dictionary_files) names.
    pub dictionaries: DictionaryFiles,
}

impl Default for CompileOptions {
    /// mcrouter's defaults.
    fn default() -> CompileOptions {
        CompileOptions {
            default_prefix: RoutingPrefix::default(),
            server_timeout_ms: 1000,
            within_cluster_timeout_ms: 0,
            cross_cluster_timeout_ms: 0,
            cross_region_timeout_ms: 0,
            host_id: 0,
            big_value: None,
            invalid_to_default: false,
            only_gets: false,
            proxies: 1,
            tls_fast_open: false,
            logs_deletes: true,
            log_requests: false,
            compares_shadows: false,
            variables: None,
            counted_pools: Arc::default(),
            dictionaries: DictionaryFiles::new(),
        }
    }
}
