//! Routes: a configuration becomes a plan.
//!
//! mcrouter's forms: an object with a `type`, a name of a handle that was named before, or the short form
//! `Type|argument`. What stands for several children may be a list, or any form that makes several, as `Pool|A` does.

mod compression;
mod derived;
mod failover;
mod fields;
mod handles;
mod hot_cache;
mod latest;
mod limits;
mod pool;
mod pool_settings;
mod pools;
mod prefixes;
mod security;
mod servers;
mod shadows;
mod test_routes;
#[cfg(test)]
mod tests;
mod two_sides;
mod unknown_fields;
mod vocabulary;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

pub use compression::{DictionaryFiles, dictionary_files};

use super::error::{ConfigError, Location};
use super::json::{Json, JsonValue};
use crate::message::routing_prefix::RoutingPrefix;
use crate::plan::pools::PlanPools;
use crate::plan::{Compound, DestinationSpec, Node, NodeId, RoutePlan, ServerId};
use crate::routes::copies::all_sync::AllSync;
use crate::routes::requests::big_value::BigValue;
use crate::shared::route_state::{StateId, StateSpec};
use crate::shared::variables::RuntimeVariable;
use crate::stats::counted_pools::CountedPools;

/// Routes inside of each other.
const DEPTH_MAX: usize = 100;

/// Routes of a plan.
const NODES_MAX: usize = 1 << 20;

/// Requests to servers that one request of a client may lead to: routes that are used twice inside of each other double it
/// with each level.
const FAN_OUT_MAX: u32 = 20_000;

/// Lines for the operator about one configuration.
const NOTES_MAX: usize = 100;

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
    /// The files that [`dictionary_files`] names.
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

/// The address of a host name and a port, where it is known without looking it up. Without, the name is looked up while the
/// router runs.
pub type Resolve<'r> = dyn FnMut(&str, u16) -> Option<SocketAddr> + 'r;

/// The types of routes that a configuration may name.
#[cfg(test)]
pub(crate) fn route_names() -> impl Iterator<Item = &'static str> {
    handles::route_types().map(|(name, _)| *name)
}

/// Compiles a configuration, whose macros have been expanded.
///
/// # Errors
/// The place of the first error, what was expected and what was found. Nothing is left out silently: a route that is not
/// known is an error.
pub fn compile(
    config: &Json,
    generation: u64,
    options: &CompileOptions,
    resolve: &mut Resolve<'_>,
) -> Result<RoutePlan, ConfigError> {
    let top = config.object("a configuration")?;
    let mut compiler = Compiler {
        options,
        resolve,
        pools: HashMap::new(),
        named: HashMap::new(),
        seen: HashMap::new(),
        pending: HashSet::new(),
        plan: RoutePlan { generation, ..RoutePlan::default() },
        servers: HashMap::new(),
        pool_servers: HashMap::new(),
        pool_children: HashMap::new(),
        depth: 0,
        fan_outs: Vec::new(),
    };
    if let Some(pools) = top.get("pools") {
        for (name, pool) in pools.object("`pools`")?.entries() {
            compiler.pools.insert(name.clone(), pool);
            if let Ok(pool) = pool.object("a pool") {
                compiler.note_unknown(&pool, vocabulary::POOL);
            }
        }
    }
    match top.get("named_handles").map(|handles| (handles, &handles.value)) {
        None => {}
        Some((_, JsonValue::Array(handles))) => {
            for handle in handles {
                compiler.single(handle)?;
            }
        }
        Some((handles, _)) => {
            for (name, handle) in handles.object("`named_handles`")?.entries() {
                compiler.named.insert(name.clone(), handle);
            }
        }
    }
    compiler.roots(&top)?;
    compiler.everywhere(config)?;
    compiler.plan.pools = PlanPools::new(compiler.pool_servers);
    Ok(compiler.plan)
}

/// State of a compilation. `'j` is the configuration.
struct Compiler<'j, 'o> {
    options: &'o CompileOptions,
    resolve: &'o mut Resolve<'o>,
    pools: HashMap<String, &'j Json>,
    /// Handles that were named and not used yet.
    named: HashMap<String, &'j Json>,
    /// Handles by their name or short form.
    seen: HashMap<String, Vec<NodeId>>,
    /// Named handles that are being compiled.
    pending: HashSet<String>,
    plan: RoutePlan,
    /// Servers by everything that makes them differ.
    servers: HashMap<servers::ServerKey, ServerId>,
    /// The servers of pools, by name.
    pool_servers: HashMap<String, Vec<NodeId>>,
    /// The same with what their pools have in front of them.
    pool_children: HashMap<String, Vec<NodeId>>,
    depth: usize,
    /// The most servers that a request asks from each node on.
    fan_outs: Vec<u32>,
}

/// The argument of a route type: an object, or what follows the `|` of a short form.
#[derive(Clone, Copy)]
enum Definition<'a> {
    Object(&'a Json),
    Text(&'a Json),
    Nothing(&'a Json),
}

impl<'j> Compiler<'j, '_> {
    /// One route.
    fn single(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let list = self.list(json)?;
        match list[..] {
            [node] => Ok(node),
            _ => Err(json.error(format!("expected one route, found {}", list.len()))),
        }
    }

    /// Any number of routes.
    fn list(&mut self, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(
                json.error(format!("expected at most {DEPTH_MAX} routes inside of each other, found more"))
            );
        }
        let list = self.list_unbounded(json);
        self.depth -= 1;
        list
    }

    fn list_unbounded(&mut self, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        match &json.value {
            JsonValue::Array(items) => {
                let mut list = Vec::new();
                for item in items {
                    list.append(&mut self.list(item)?);
                }
                Ok(list)
            }
            JsonValue::Object(_) => {
                let object = json.object("a route")?;
                match object.get("name").and_then(Json::as_str) {
                    Some(name) => self.by_name(name, json),
                    None => self.typed(json),
                }
            }
            JsonValue::String(text) if text.is_empty() => Ok(Vec::new()),
            JsonValue::String(text) => self.short(text, json),
            _ => Err(json.wrong("a route: an object, a list or a string")),
        }
    }

    /// An object with a type.
    fn typed(&mut self, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        let object = json.object("a route")?;
        let kind = object.require("type")?.string("`type` of a route")?;
        self.handle(kind, Definition::Object(json))
    }

    /// A route with a name: compiled once.
    fn by_name(&mut self, name: &str, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        if let Some(list) = self.seen.get(name) {
            return Ok(list.clone());
        }
        let named = self.named.remove(name);
        if named.is_some() {
            self.pending.insert(name.to_owned());
        }
        let json = named.unwrap_or(json);
        let list = match &json.value {
            JsonValue::Object(_) => self.typed(json),
            _ => self.list(json),
        };
        if let (Err(_), Some(named)) = (&list, named) {
            // A shadow that is left out does not take its handle away from other routes.
            self.named.insert(name.to_owned(), named);
        }
        let list = list?;
        self.pending.remove(name);
        self.seen.insert(name.to_owned(), list.clone());
        Ok(list)
    }

    /// A string: a name, a type, or a type and its argument.
    fn short(&mut self, text: &str, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        if let Some(list) = self.seen.get(text) {
            return Ok(list.clone());
        }
        if self.named.contains_key(text) {
            return self.by_name(text, json);
        }
        if self.pending.contains(text) {
            return Err(json.error(format!(
                "expected routes that do not contain themselves, found a circle at `{text}`"
            )));
        }
        let list = match text.split_once('|') {
            Some((kind, rest)) => {
                let rest = Json::new(json.place, JsonValue::String(rest.to_owned()));
                self.handle(kind, Definition::Text(&rest))?
            }
            None => self.handle(text, Definition::Nothing(json))?,
        };
        self.seen.insert(text.to_owned(), list.clone());
        Ok(list)
    }

    fn add(&mut self, node: Node, json: &Json) -> Result<NodeId, ConfigError> {
        self.add_at(node, json.place)
    }

    fn add_at(&mut self, node: Node, place: Location) -> Result<NodeId, ConfigError> {
        if self.plan.nodes.len() >= NODES_MAX {
            return Err(ConfigError::new(place, format!("expected at most {NODES_MAX} routes, found more")));
        }
        let fan_out = self.fan_out(&node);
        if fan_out > FAN_OUT_MAX {
            let message =
                format!("expected at most {FAN_OUT_MAX} requests to servers for one request, found more");
            return Err(ConfigError::new(place, message));
        }
        self.fan_outs.push(fan_out);
        self.plan.nodes.push(node);
        Ok(NodeId(self.plan.nodes.len() as u32 - 1))
    }

    /// The most servers that a request asks from this node on. Its children have been added before.
    fn fan_out(&self, node: &Node) -> u32 {
        node.fan_out(&|child| self.fan_outs[child.0 as usize])
    }

    /// A place for what a route remembers.
    fn add_state(&mut self, spec: StateSpec) -> StateId {
        self.plan.states.push(spec);
        StateId(self.plan.states.len() as u32 - 1)
    }

    /// Something that depends on a runtime variable. Takes the value that the variable has now.
    fn add_variable(&mut self, variable: RuntimeVariable) -> Result<(), String> {
        if let Some(variables) = &self.options.variables {
            variable.update(variables)?;
        }
        self.plan.variables.push(variable);
        Ok(())
    }

    /// A line for the operator. There are at most so many, so that a large configuration does not fill a log.
    fn note(&mut self, line: String) {
        if self.plan.notes.len() < NOTES_MAX {
            self.plan.notes.push(line);
        }
    }

    /// Adds a route to every server.
    fn everywhere(&mut self, config: &Json) -> Result<(), ConfigError> {
        // Over one of its connections each.
        let first = self.plan.servers.iter().map(|spec| spec.connection == 0);
        let servers: Vec<ServerId> = (0..)
            .map(ServerId)
            .zip(first)
            .filter(|(_, is_first)| *is_first)
            .map(|(server, _)| server)
            .collect();
        let servers = servers.into_iter();
        let nodes = servers.map(|server| self.add(Node::Server { server, keep_prefix: false }, config));
        let children = nodes.collect::<Result<Vec<_>, _>>()?;
        self.plan.everywhere = match children[..] {
            [] => None,
            [only] => Some(only),
            // More than a route may ask: flush_all is refused.
            _ if children.len() > FAN_OUT_MAX as usize => None,
            _ => {
                let compound = Compound { kind: AllSync.into(), children: children.into() };
                Some(self.add(Node::Compound(compound), config)?)
            }
        };
        Ok(())
    }

    fn add_server(&mut self, key: servers::ServerKey, spec: DestinationSpec) -> ServerId {
        let servers = &mut self.plan.servers;
        *self.servers.entry(key).or_insert_with(|| {
            servers.push(Arc::new(spec));
            ServerId(servers.len() as u32 - 1)
        })
    }
}
