//! Route handles by their type.

use std::collections::HashMap;
use std::sync::Arc;

use super::derived::DERIVED_TYPES;
use super::fields::{children, class_named, numbers, operation_named, texts};
use super::pool::Pool;
use super::vocabulary::{self, Fields};
use super::{Compiler, Definition, pool_settings};
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::hash::{HashDescription, RuntimeWeights, Selector, host_child};
use crate::message::outcome::Outcome;
use crate::plan::{Node, NodeId};
use crate::routes::CompoundKind;
use crate::routes::copies::all_async::AllAsync;
use crate::routes::copies::all_fastest::AllFastest;
use crate::routes::copies::all_initial::AllInitial;
use crate::routes::copies::all_majority::AllMajority;
use crate::routes::copies::all_sync::AllSync;
use crate::routes::substitutes::miss_failover::MissFailover;
use crate::shared::variables::RuntimeVariable;

/// The types that a configuration may name, with their fields.
const TYPES: [Fields; 24] = [
    ("AllAsyncRoute", &["children"]),
    ("AllFastestRoute", &["children"]),
    ("AllInitialRoute", &["children"]),
    ("AllMajorityRoute", &["children"]),
    ("AllSyncRoute", &["children"]),
    ("BlackholeRoute", &["blackhole_child", "default", "policies"]),
    ("DevNullRoute", &[]),
    ("ErrorRoute", &["enable_logging", "response", "result"]),
    (
        "FailoverRoute",
        &[
            "children",
            "enable_lease_pairing",
            "failover_errors",
            "failover_limit",
            "failover_policy",
            "failover_tag",
            "hash",
            "tags",
            "weights",
        ],
    ),
    (
        "HashRoute",
        &[
            "bucketize",
            "children",
            "client_fanout",
            "error_on_empty",
            "hash",
            "hash_func",
            "salt",
            "tags",
            "weights",
            "weights_rv",
            "algorithm",
            "failover_count",
            "load_ttl_ms",
            "thread_local_failover",
        ],
    ),
    ("HostIdRoute", &["children", "salt"]),
    (
        "LatencyInjectionRoute",
        &[
            "after_latency_ms",
            "before_latency_ms",
            "child",
            "max_request_latency_us",
            "request_payload_latency",
            "total_latency_ms",
            "total_latency_percentile_ms",
        ],
    ),
    (
        "LatestRoute",
        &[
            "children",
            "enable_lease_pairing",
            "failover_errors",
            "failover_limit",
            "failover_policy",
            "failover_tag",
            "hash",
            "tags",
            "weights",
            "failover_count",
            "salt",
            "thread_local_failover",
        ],
    ),
    ("LoggingRoute", &["target"]),
    ("MissFailoverRoute", &["children", "return_best_on_error"]),
    ("NullRoute", &[]),
    ("OperationSelectorRoute", &["default_policy", "operation_policies"]),
    ("Pool", vocabulary::POOL.1),
    (
        "PoolRoute",
        &[
            "asynclog",
            "asynclog_name",
            "axonlog",
            "bucketization_keyspace",
            "bucketize",
            "distribution_enabled",
            "hash",
            "max_outstanding",
            "pool",
            "pool_id",
            "rates",
            "shadow_policy",
            "shadows",
            "shard_splits",
            "slow_warmup",
            "split_shard_fanout",
            "total_buckets",
            "weights",
            "weights_rv",
        ],
    ),
    ("PrefixSelectorRoute", &["policies", "wildcard"]),
    ("RandomRoute", &["children"]),
    ("RateLimitRoute", &["fallback", "rates", "target"]),
    ("RoutingGroupRoute", &["default_policy", "routing_group_policies"]),
    ("ShadowRoute", &["bucketize", "children", "shadow_policy", "shadows"]),
];

/// All types with their fields.
pub(super) fn route_types() -> impl Iterator<Item = &'static Fields> {
    TYPES.iter().chain(&DERIVED_TYPES)
}

/// The most children of one route.
const CHILDREN_MAX: usize = 10_000;

impl Compiler<'_, '_> {
    /// Notes fields of a route that its type does not have.
    pub(super) fn note_unknown_of_route(&mut self, object: &Object<'_>, kind: &str) {
        if let Some((kind, fields)) = route_types().find(|(name, _)| *name == kind) {
            self.note_others(object, kind, &[fields, &vocabulary::OF_ROUTES[..]].concat());
        }
    }

    /// The routes that a type and its argument stand for.
    pub(super) fn handle(
        &mut self,
        kind: &str,
        definition: Definition<'_>,
    ) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        if let Some(object) = definition.object()? {
            self.note_unknown_of_route(&object, kind);
        }
        let node = match kind {
            "Pool" => return self.pool(json),
            "PoolRoute" => return Ok(vec![self.pool_route(definition)?]),
            "NullRoute" => Node::Null,
            "DevNullRoute" => Node::DevNull,
            "ErrorRoute" => error_route(definition)?,
            "AllSyncRoute" => return self.compound(definition, AllSync),
            "AllAsyncRoute" => return self.compound(definition, AllAsync),
            "AllInitialRoute" => return self.compound(definition, AllInitial),
            "AllFastestRoute" => return self.compound(definition, AllFastest),
            "AllMajorityRoute" => return self.compound(definition, AllMajority),
            "MissFailoverRoute" => {
                let best = match definition.object()? {
                    Some(object) => object.bool("return_best_on_error")?.unwrap_or(false),
                    None => false,
                };
                return self.compound(definition, MissFailover { best });
            }
            "FailoverRoute" => return self.failover_route(definition),
            "RandomRoute" => match self.children(definition)? {
                children if children.len() < 2 => return self.few(children, json),
                children => Node::Random(children.into()),
            },
            "ShadowRoute" => return self.shadow_route(definition),
            "LatestRoute" => return self.latest_route(definition),
            "BlackholeRoute" => self.blackhole_route(definition)?,
            "LatencyInjectionRoute" => return Ok(vec![self.latency_injection_route(definition)?]),
            "LoggingRoute" => return Ok(vec![self.logging_route(definition)?]),
            "RateLimitRoute" => return Ok(vec![self.rate_limit_route(definition)?]),
            "HostIdRoute" => return self.host_id_route(definition),
            "HashRoute" => {
                let children = self.children(definition)?;
                let hash = definition.object()?.map(|object| object.get("hash").unwrap_or(json));
                return Ok(vec![self.hash_route(children, hash, None, json)?]);
            }
            "OperationSelectorRoute" | "PrefixPolicyRoute" => self.operation_selector(definition)?,
            "RoutingGroupRoute" => self.routing_group(definition)?,
            "PrefixSelectorRoute" => {
                return Err(
                    json.error("expected PrefixSelectorRoute only at the top, found it inside of a route")
                );
            }
            other if let Some(node) = self.derived(other, definition)? => return Ok(vec![node]),
            unknown => {
                let types = route_types().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                let message = format!("expected a named handle or one of {types}, found route `{unknown}`");
                return Err(json.error(message));
            }
        };
        Ok(vec![self.add(node, json)?])
    }

    pub(super) fn children(&mut self, definition: Definition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let list = match children(definition)? {
            Some(list) => self.list(list)?,
            None => Vec::new(),
        };
        if list.len() > CHILDREN_MAX {
            let found = list.len();
            let message = format!("expected at most {CHILDREN_MAX} children of a route, found {found}");
            return Err(definition.json().error(message));
        }
        Ok(list)
    }

    /// Without a child: no item. With one: that one.
    pub(super) fn few(&mut self, children: Vec<NodeId>, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        match children[..] {
            [only] => Ok(vec![only]),
            _ => Ok(vec![self.add(Node::Null, json)?]),
        }
    }

    fn compound(
        &mut self,
        definition: Definition<'_>,
        kind: impl Into<CompoundKind>,
    ) -> Result<Vec<NodeId>, ConfigError> {
        let (kind, children) = (kind.into(), self.children(definition)?);
        // A single child that nobody waits for is not that child.
        let is_alone = children.len() == 1 && !matches!(kind, CompoundKind::AllAsync(_));
        if is_alone || children.is_empty() {
            return self.few(children, definition.json());
        }
        Ok(vec![self.with_children(kind, children, definition.json())?])
    }

    fn host_id_route(&mut self, definition: Definition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let children = self.children(definition)?;
        if children.len() < 2 {
            return self.few(children, definition.json());
        }
        let salt = match definition.object()? {
            Some(object) => object.string("salt")?.unwrap_or_default(),
            None => "",
        };
        Ok(vec![children[host_child(self.options.host_id, salt, children.len())]])
    }

    /// A choice by hash. `hash` is a function's name, or an object with its parameters; `weights` come from a pool.
    pub(super) fn hash_route(
        &mut self,
        children: Vec<NodeId>,
        hash: Option<&Json>,
        pool: Option<&Pool<'_>>,
        json: &Json,
    ) -> Result<NodeId, ConfigError> {
        let of_pool = |name: &str| pool.and_then(|pool| pool.get(name));
        if children.is_empty() {
            let refuses = of_pool("error_on_empty").map(|refuses| refuses.bool("`error_on_empty` of a pool"));
            let refuses = refuses.transpose()?.unwrap_or(true);
            let node = match pool.filter(|_| refuses) {
                Some(pool) => {
                    let words = format!("HashRoute with empty children, name: {}", pool.name);
                    Node::Error(Outcome::LocalError, words.into())
                }
                None => Node::Null,
            };
            return self.add(node, json);
        }
        let parameters = match hash {
            Some(json) if matches!(json.value, JsonValue::Object(_)) => Some(json.object("`hash`")?),
            _ => None,
        };
        if let Some(object) = parameters.filter(|_| !hash.is_some_and(|hash| std::ptr::eq(hash, json))) {
            self.note_unknown(&object, vocabulary::HASH);
        }
        let field = |name: &str| parameters.and_then(|object| object.get(name));
        let own_weights = field("weights");
        let named = match hash {
            Some(Json { value: JsonValue::String(name), .. }) => Some(name.as_str()),
            _ => field("hash_func").map(|name| name.string("`hash_func`")).transpose()?,
        };
        let function = named.unwrap_or(if of_pool("weights").is_some() { "WeightedCh3" } else { "Ch3" });
        if children.len() == 1 && !function.starts_with("Weighted") {
            return Ok(children[0]);
        }
        let weights = match (own_weights, of_pool("weights").zip(pool)) {
            (Some(weights), _) => Some(numbers(weights)?),
            (None, Some((weights, pool))) => {
                // One for each connection to a server.
                let connections = pool_settings::connections(pool, self.options.proxies)? as usize;
                let weights = numbers(weights)?.into_iter();
                Some(weights.flat_map(|weight| std::iter::repeat_n(weight, connections)).collect())
            }
            (None, None) => None,
        };
        if function == "Latest" {
            let definition = match hash {
                Some(hash) if parameters.is_some() => Definition::Object(hash),
                _ => Definition::Nothing(json),
            };
            let route = self.latest_over(children, definition, weights)?;
            return Ok(route[0]);
        }
        let tags = field("tags").or_else(|| of_pool("tags")).map(texts).transpose()?;
        let salt = field("salt").map(|salt| salt.string("`salt`")).transpose()?.unwrap_or_default();
        let description = HashDescription {
            function,
            salt,
            count: children.len(),
            weights: weights.as_deref(),
            tags: tags.as_deref(),
        };
        let place = hash.unwrap_or(json);
        let hash = match function {
            "WeightedCh3Rv" => {
                let name =
                    field("weights_rv").ok_or_else(|| place.error("expected `weights_rv`, found none"))?;
                let name = name.string("`weights_rv`")?.to_owned();
                let weights = Arc::new(RuntimeWeights::new(children.len()));
                let variable = RuntimeVariable::Weights { name, weights: Arc::clone(&weights) };
                self.add_variable(variable).map_err(|error| place.error(error))?;
                Selector::with_runtime_weights(weights, &description)
            }
            _ => Selector::new(&description),
        };
        let hash = hash.map_err(|error| place.error(error.to_string()))?;
        self.add(Node::Hash { hash, children: children.into() }, json)
    }

    fn operation_selector(&mut self, definition: Definition<'_>) -> Result<Node, ConfigError> {
        let json = definition.json();
        let object = json.object("an OperationSelectorRoute")?;
        let default = match object.get("default_policy") {
            Some(route) => self.single(route)?,
            None => self.add(Node::Null, json)?,
        };
        let mut children = HashMap::new();
        if let Some(policies) = object.get("operation_policies") {
            for (name, route) in policies.object("`operation_policies`")?.entries() {
                let node = self.single(route)?;
                if let Some(name) = operation_named(name, route)? {
                    children.insert(name, node);
                }
            }
        }
        Ok(Node::ByOperation { children, default })
    }

    fn routing_group(&mut self, definition: Definition<'_>) -> Result<Node, ConfigError> {
        let json = definition.json();
        let object = json.object("a RoutingGroupRoute")?;
        let (default, policies) = (object.get("default_policy"), object.get("routing_group_policies"));
        if default.is_none() && policies.is_none() {
            let message =
                "expected `default_policy` or `routing_group_policies` in a RoutingGroupRoute, found neither";
            return Err(json.error(message));
        }
        let default = match default {
            Some(route) => self.single(route)?,
            None => self.add(Node::Null, json)?,
        };
        let mut children = HashMap::new();
        if let Some(policies) = policies {
            for (name, route) in policies.object("`routing_group_policies`")?.entries() {
                children.insert(class_named(name, route)?, self.single(route)?);
            }
        }
        Ok(Node::ByClass { children, default })
    }
}

/// Parameters that change what a route does, and that are not there: an error rather than another behaviour.
pub(super) fn refuse(object: &Object<'_>, names: &[&str]) -> Result<(), ConfigError> {
    match names.iter().find_map(|name| object.get(name).map(|value| (name, value))) {
        Some((name, value)) => Err(value.error(format!("`{name}` is not supported"))),
        None => Ok(()),
    }
}

fn error_route(definition: Definition<'_>) -> Result<Node, ConfigError> {
    Ok(match definition {
        Definition::Nothing(_) => Node::Error(Outcome::LocalError, "".into()),
        Definition::Text(text) => Node::Error(Outcome::LocalError, text.string("the error's text")?.into()),
        Definition::Object(json) => {
            let object = json.object("an ErrorRoute")?;
            let message = object.string("response")?.unwrap_or_default();
            let outcome = match object.get("result") {
                None => Outcome::LocalError,
                Some(json) => {
                    let name = json.string("`result` of an ErrorRoute")?;
                    let outcome = Outcome::by_name(name).filter(|outcome| outcome.is_error());
                    outcome.ok_or_else(|| json.wrong("the name of an error, such as mc_res_local_error"))?
                }
            };
            Node::Error(outcome, message.into())
        }
    })
}
