//! Pools: lists of servers with what they have in common, and `Pool|name`, which stands for these.

use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::plan::NodeId;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};

/// A pool: its fields, those that it inherits last.
#[derive(Clone)]
pub struct Pool<'a> {
    pub(crate) name: &'a str,
    pub(crate) chain: Vec<Object<'a>>,
}

impl<'a> Pool<'a> {
    pub(crate) fn get(&self, field: &str) -> Option<&'a Json> {
        self.chain.iter().find_map(|object| object.get(field))
    }
}

/// Connections of all threads to one server, as in mcrouter.
const CONNECTIONS_MAX: i64 = 32 * 1024;

/// `additional_fanout`: how many connections each of `proxies` threads has to a server, all told.
pub(crate) fn connections(pool: &Pool<'_>, proxies: usize) -> Result<u32, ConfigError> {
    let Some(json) = pool.get("additional_fanout") else { return Ok(1) };
    let most = CONNECTIONS_MAX / proxies.max(1) as i64 - 1;
    Ok(json.integer("`additional_fanout` of a pool", 0..=most.max(0))? as u32 + 1)
}

/// A pool, wherever it stands.
pub(crate) const POOL: Fields = (
    "a pool",
    &[
        "additional_fanout",
        "cluster",
        "compression",
        "connect_timeout",
        "disable_request_deadline_check",
        "enable_compression",
        "error_on_empty",
        "failure_domains",
        "hostnames",
        "hot_cache",
        "inherit",
        "keep_routing_prefix",
        "name",
        "port_override",
        "port_override_cross_dc",
        "port_override_within_dc",
        "props",
        "protocol",
        "qos",
        "region",
        "security_mech",
        "security_mech_cross_dc",
        "security_mech_within_dc",
        "server_timeout",
        "servers",
        "service_id_override",
        "services",
        "tags",
        "tcp_fast_open",
        "tko_tracker",
        "transport",
        "tw_job",
        "type",
        "use_ssl",
        "weights",
    ],
);

/// The servers of a pool.
pub(crate) struct PoolServers;

impl<C: Compile> RouteForm<C> for PoolServers {
    const FORM: Fields = ("Pool", POOL.1);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        compiler.with_pool(json, |compiler, pool| compiler.servers_of(pool, json))
    }
}
