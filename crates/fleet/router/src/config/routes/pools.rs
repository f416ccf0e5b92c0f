//! Pools: lists of servers with what they have in common.

use super::security::PoolSecurity;
use super::servers::{PoolServer, Server, ServerKey};
use super::{Compiler, compression, hot_cache, pool_settings};
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue};
use crate::plan::hash::spooky32;
use crate::plan::plain_route::PlainRoute;
use crate::plan::{DestinationSpec, NodeId};
use crate::routes::form::{Compile, Fields, refuse};
use crate::routes::steps::pool::{POOL, Pool, connections};

/// Servers of one pool.
const SERVERS_MAX: usize = 10_000;

/// Pools that inherit from each other.
const INHERIT_MAX: usize = 16;

/// The longest time limit, in milliseconds.
const TIMEOUT_MS_MAX: i64 = 1_000_000;

/// Fields of a pool that change what happens, and are not there.
const NOT_SUPPORTED: [&str; 1] = ["enable_compression"];

const TKO_TRACKER: Fields = (
    "a tko_tracker",
    &[
        "num_tko_threshold_lower",
        "num_tko_threshold_upper",
        "percent_tko_threshold_lower",
        "percent_tko_threshold_upper",
    ],
);

impl<'j> Compiler<'j, '_> {
    /// The pool that a name or an object stands for.
    pub(super) fn find_pool<'a>(&mut self, json: &'a Json) -> Result<Pool<'a>, ConfigError>
    where
        'j: 'a,
    {
        let (name, mut next): (&'a str, &'a Json) = match &json.value {
            JsonValue::String(name) => (name, self.pool_named(name, json)?),
            JsonValue::Object(_) => {
                let object = json.object("a pool")?;
                let name = object.require("name")?.string("`name` of a pool")?;
                if !self.pools.contains_key(name) {
                    self.note_unknown(&object, POOL);
                }
                (name, self.pools.get(name).copied().unwrap_or(json))
            }
            _ => return Err(json.wrong("the name of a pool, or an object")),
        };
        let mut chain = Vec::new();
        loop {
            let object = next.object("a pool")?;
            chain.push(object);
            let Some(parent) = object.get("inherit") else { return Ok(Pool { name, chain }) };
            if chain.len() > INHERIT_MAX {
                let message =
                    format!("expected at most {INHERIT_MAX} pools that inherit, found more, or a circle");
                return Err(parent.error(message));
            }
            next = self.pool_named(parent.string("`inherit` of a pool")?, parent)?;
        }
    }

    fn pool_named(&self, name: &str, json: &Json) -> Result<&'j Json, ConfigError> {
        self.pools.get(name).copied().ok_or_else(|| {
            let mut names: Vec<_> = self.pools.keys().map(String::as_str).collect();
            names.sort_unstable();
            names.truncate(20);
            json.error(format!("expected the name of a pool ({}), found `{name}`", names.join(", ")))
        })
    }

    /// The servers of a pool that has not been compiled yet.
    pub(super) fn compile_pool(&mut self, pool: &Pool<'_>, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        for object in &pool.chain {
            refuse(object, &NOT_SUPPORTED)?;
        }
        let mut is_caret = is_caret(pool)?;
        let security = PoolSecurity::of(pool)?;
        let fast_open = pool_settings::fast_open(pool)?;
        let udp = pool_settings::is_udp(pool)?;
        let servers = listed(pool, json)?;
        if let Some(tracker) = pool.get("tko_tracker").and_then(|json| json.object("a tko_tracker").ok()) {
            self.note_unknown(&tracker, TKO_TRACKER);
        }
        let guard = pool_settings::guard_limits(pool, servers.len())?;
        let connections = connections(pool, self.options.proxies)?;
        let own_timeout_ms = self.own_timeout_of(pool)?;
        let timeout_ms = self.timeout_of(pool, own_timeout_ms);
        let connect_timeout_ms = match pool.get("connect_timeout") {
            Some(limit) => limit.integer("`connect_timeout` of a pool", 1..=TIMEOUT_MS_MAX)? as u32,
            None => own_timeout_ms,
        };
        let keep_prefix = match pool.get("keep_routing_prefix") {
            Some(keep) => keep.bool("`keep_routing_prefix` of a pool")?,
            None => false,
        };
        let hot_cache = hot_cache::settings(pool)?;
        let counted_as = self.options.counted_pools.place_of(pool.name);
        let domains = failure_domains(pool, servers.len())?;
        let mut names = Vec::new();
        let mut children = Vec::with_capacity(servers.len());
        for (index, json) in servers.iter().enumerate() {
            if matches!(json.value, JsonValue::Object(_)) {
                children.push(self.single(json)?);
                continue;
            }
            let PoolServer { server, mechanism, is_caret: says_caret } = Server::parse(json, &security)?;
            is_caret |= says_caret;
            if let Server::Tcp { port: 0, .. } = server {
                self.note(format!("server {server} is never reached: nothing can listen on port 0"));
            }
            let tls = server.tls_name(mechanism, json)?;
            if udp && (tls.is_some() || matches!(server, Server::Unix(_))) {
                return Err(json.wrong("a server over TCP without TLS, because gets of its pool go over UDP"));
            }
            let place = server.place(&mut *self.resolve);
            let name = server.to_string();
            let fast_open_with_tls = tls.is_some() && self.options.tls_fast_open;
            for connection in 0..connections {
                let hot_cache = hot_cache.clone();
                let spec = DestinationSpec {
                    name: name.clone(),
                    connection,
                    place: place.clone(),
                    tls: tls.clone(),
                    fast_open: fast_open || fast_open_with_tls,
                    udp,
                    timeout_ms,
                    connect_timeout_ms,
                    hot_cache,
                    counted_as,
                };
                let server = self.add_server(ServerKey::of(&spec, mechanism, fast_open), spec);
                let node = self.add_plain(PlainRoute::Server { server, keep_prefix }, json)?;
                if let Some(domain) = domains.get(index).filter(|domain| **domain != 0) {
                    self.plan.failure_domains.0.insert(node, *domain);
                }
                children.push(node);
            }
            names.push(name);
        }
        if is_caret {
            self.note(format!(
                "pool {}: caret is not spoken: its servers are asked in memcached's text protocol, which mcrouter takes on the \
                 same port",
                pool.name
            ));
        }
        self.plan.guards.extend(guard.map(|limits| (pool.name.to_owned(), limits, names)));
        self.pool_servers.insert(pool.name.to_owned(), children.clone());
        let files = &self.options.dictionaries;
        let children = compression::in_front_of(self, children, pool, files)?;
        self.pool_children.insert(pool.name.to_owned(), children.clone());
        Ok(children)
    }

    /// The time limit of a pool's servers, wherever they are.
    fn own_timeout_of(&self, pool: &Pool<'_>) -> Result<u32, ConfigError> {
        match pool.get("server_timeout") {
            Some(limit) => Ok(limit.integer("`server_timeout` of a pool", 1..=TIMEOUT_MS_MAX)? as u32),
            None => Ok(self.options.server_timeout_ms),
        }
    }

    /// The time limit of a pool's servers for a reply: that of their distance, if there is one.
    fn timeout_of(&self, pool: &Pool<'_>, own_ms: u32) -> u32 {
        let text = |name: &str| pool.get(name).and_then(Json::as_str).unwrap_or_default();
        let (region, cluster) = (text("region"), text("cluster"));
        if region.is_empty() || cluster.is_empty() {
            return own_ms;
        }
        let own = &self.options.default_prefix;
        let limit = match (region == own.region(), cluster == own.cluster()) {
            (true, true) => self.options.within_cluster_timeout_ms,
            (true, false) => self.options.cross_cluster_timeout_ms,
            (false, _) => self.options.cross_region_timeout_ms,
        };
        if limit == 0 { own_ms } else { limit }
    }
}

/// The servers of a pool as they are written, of which there are not too many.
fn listed<'a>(pool: &Pool<'a>, json: &Json) -> Result<&'a [Json], ConfigError> {
    let servers = pool.get("servers").ok_or_else(|| {
        let message = format!("expected `servers` in pool {}, found none", pool.name);
        pool.chain.first().map_or_else(
            || json.error(message.clone()),
            |object| ConfigError::new(object.place(), message.clone()),
        )
    })?;
    let servers = servers.array("`servers` of a pool")?;
    if servers.len() > SERVERS_MAX {
        let message = format!("expected at most {SERVERS_MAX} servers in a pool, found {}", servers.len());
        return Err(json.error(message));
    }
    Ok(servers)
}

/// A failure domain for each server, by number or by name; 0 for none. Empty if the pool has none.
fn failure_domains(pool: &Pool<'_>, servers: usize) -> Result<Vec<u32>, ConfigError> {
    let Some(json) = pool.get("failure_domains") else { return Ok(Vec::new()) };
    let domains = json.array("`failure_domains` of a pool")?;
    if domains.len() != servers {
        let message =
            format!("expected a failure domain for each of {servers} servers, found {}", domains.len());
        return Err(json.error(message));
    }
    let domain = |json: &Json| match &json.value {
        JsonValue::Int(number) => *number as u32,
        JsonValue::String(name) => spooky32(name.as_bytes(), 0),
        _ => 0,
    };
    Ok(domains.iter().map(domain).collect())
}

/// Whether a pool asks for mcrouter's own protocol. Others that are not spoken are refused.
fn is_caret(pool: &Pool<'_>) -> Result<bool, ConfigError> {
    let Some(json) = pool.get("protocol") else { return Ok(false) };
    match json.string("`protocol` of a pool")? {
        found if found.eq_ignore_ascii_case("ascii") => Ok(false),
        found if found.eq_ignore_ascii_case("caret") => Ok(true),
        found => Err(json.error(format!("expected ascii or caret as `protocol` of a pool, found `{found}`"))),
    }
}
