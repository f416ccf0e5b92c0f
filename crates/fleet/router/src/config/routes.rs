//! Routes: a configuration becomes a plan.
//!
//! What a type of route is named, and what becomes of it, stands in its own file below `routes`.

mod compression;
mod forms;
mod hot_cache;
mod options;
mod pool_settings;
mod pools;
mod prefixes;
mod security;
mod servers;
#[cfg(test)]
mod tests;
mod unknown_fields;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub use compression::dictionary_files;
pub use options::{CompileOptions, DictionaryFiles, Resolve};

use super::error::{ConfigError, Location};
use super::json::{Json, JsonValue, Object};
use crate::plan::plain_route::PlainRoute;
use crate::plan::pools::PlanPools;
use crate::plan::{Compound, DestinationSpec, LogId, Node, NodeId, RoutePlan, ServerId};
use crate::routes::CompoundKind;
use crate::routes::copies::all_sync::AllSync;
use crate::routes::form::{AddRoute, Compile, Fields, RouteDefinition};
use crate::routes::steps::pool::{POOL, Pool};
use crate::shared::route_state::{StateId, StateSpec};
use crate::shared::variables::RuntimeVariable;
use crate::stats::shadow_counts::ShadowCounts;

/// Routes inside of each other.
const DEPTH_MAX: usize = 100;

/// Routes of a plan.
const NODES_MAX: usize = 1 << 20;

/// Requests to servers that one request of a client may lead to: routes that are used twice inside of each other double it
/// with each level.
const FAN_OUT_MAX: u32 = 20_000;

/// Shadows of a configuration that are compared: 8 KB each.
const COMPARED_MAX: usize = 1000;

/// Lines for the operator about one configuration.
const NOTES_MAX: usize = 100;

/// The types of routes that a configuration may name.
#[cfg(test)]
pub(crate) fn route_names() -> Vec<&'static str> {
    forms::names()
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
                compiler.note_unknown(&pool, POOL);
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

impl<'j> Compiler<'j, '_> {
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
        forms::compile(self, kind, RouteDefinition::Object(json))
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
                forms::compile(self, kind, RouteDefinition::Text(&rest))?
            }
            None => forms::compile(self, text, RouteDefinition::Nothing(json))?,
        };
        self.seen.insert(text.to_owned(), list.clone());
        Ok(list)
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
        let nodes =
            servers.map(|server| self.add_plain(PlainRoute::Server { server, keep_prefix: false }, config));
        let children = nodes.collect::<Result<Vec<_>, _>>()?;
        self.plan.everywhere = match children[..] {
            [] => None,
            [only] => Some(only),
            // More than a route may ask: flush_all is refused.
            _ if children.len() > FAN_OUT_MAX as usize => None,
            _ => Some(self.add_route(AllSync, children, config)?),
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

impl Compile for Compiler<'_, '_> {
    fn single(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let list = self.list(json)?;
        match list[..] {
            [node] => Ok(node),
            _ => Err(json.error(format!("expected one route, found {}", list.len()))),
        }
    }

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

    fn add_plain(&mut self, route: PlainRoute, json: &Json) -> Result<NodeId, ConfigError> {
        self.add_at(Node::Plain(route), json.place)
    }

    fn add_state(&mut self, spec: StateSpec) -> StateId {
        self.plan.states.push(spec);
        StateId(self.plan.states.len() as u32 - 1)
    }

    fn add_variable(&mut self, variable: RuntimeVariable) -> Result<(), String> {
        if let Some(variables) = &self.options.variables {
            variable.update(variables)?;
        }
        self.plan.variables.push(variable);
        Ok(())
    }

    fn add_shadow_counts(&mut self, json: &Json, name: Option<&str>) -> Option<Arc<ShadowCounts>> {
        if !self.options.compares_shadows || self.plan.compared.len() >= COMPARED_MAX {
            return None;
        }
        let name = name.map_or_else(|| format!("shadow in line {}", json.place.line), str::to_owned);
        let counts = Arc::new(ShadowCounts::new(name));
        self.plan.compared.push(Arc::clone(&counts));
        Some(counts)
    }

    fn add_log(&mut self, name: &str) -> Option<LogId> {
        if !self.options.logs_deletes {
            return None;
        }
        let logs = &mut self.plan.logs;
        let index = logs.iter().position(|log| **log == *name).unwrap_or_else(|| {
            logs.push(Arc::from(name));
            logs.len() - 1
        });
        // Beyond that, deletes that fail are answered with their error.
        u16::try_from(index).ok().map(LogId)
    }

    fn note(&mut self, line: String) {
        if self.plan.notes.len() < NOTES_MAX {
            self.plan.notes.push(line);
        }
    }

    fn note_unknown(&mut self, object: &Object<'_>, (kind, fields): Fields) {
        unknown_fields::lines(object, kind, fields).for_each(|line| self.note(line));
    }

    fn host_id(&self) -> u32 {
        self.options.host_id
    }

    fn workers(&self) -> usize {
        self.options.proxies
    }

    fn attempt<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        let (pending, depth) = (self.pending.clone(), self.depth);
        let made = part(self);
        if made.is_err() {
            (self.pending, self.depth) = (pending, depth);
        }
        made
    }

    fn with_pool<T>(
        &mut self,
        json: &Json,
        then: impl FnOnce(&mut Self, &Pool<'_>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        let pool = self.find_pool(json)?;
        then(self, &pool)
    }

    fn servers_of(&mut self, pool: &Pool<'_>, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        if let Some(children) = self.pool_children.get(pool.name) {
            return Ok(children.clone());
        }
        self.compile_pool(pool, json)
    }
}

impl<R: Into<CompoundKind>> AddRoute<R> for Compiler<'_, '_> {
    fn add_route(&mut self, route: R, children: Vec<NodeId>, json: &Json) -> Result<NodeId, ConfigError> {
        self.add_at(Node::Compound(Compound::new(route, children)), json.place)
    }
}
