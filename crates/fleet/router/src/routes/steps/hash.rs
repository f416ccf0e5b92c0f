//! HashRoute, and the hash of a PoolRoute: a child by the key.

use std::sync::Arc;

use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue};
use crate::message::outcome::Outcome;
use crate::plan::NodeId;
use crate::plan::hash::{HashDescription, RuntimeWeights, Selector};
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm, numbers, texts};
use crate::routes::steps::pool::{Pool, connections};
use crate::routes::substitutes::failover::Failover;
use crate::routes::substitutes::latest;
use crate::shared::variables::RuntimeVariable;

/// The child that the key's hash names.
pub(crate) struct Hash;

/// The hash of a pool, which may also be a LatestRoute or a LoadBalancerRoute in disguise.
const HASH: Fields = (
    "a hash",
    &[
        "algorithm",
        "bucketization_keyspace",
        "bucketize",
        "failover_count",
        "failover_errors",
        "failover_limit",
        "failover_policy",
        "failover_tag",
        "hash_func",
        "load_ttl_ms",
        "salt",
        "tags",
        "thread_local_failover",
        "total_buckets",
        "weights",
        "weights_rv",
    ],
);

impl<C: AddRoute<Failover>> RouteForm<C> for Hash {
    const FORM: Fields = (
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
    );

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        let children = compiler.children(definition)?;
        let hash = definition.object()?.map(|object| object.get("hash").unwrap_or(json));
        Ok(vec![choice(compiler, children, hash, None, json)?])
    }
}

/// A choice by hash. `hash` is a function's name, or an object with its parameters; `weights` come from a pool.
pub(crate) fn choice(
    compiler: &mut impl AddRoute<Failover>,
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
                PlainRoute::Error(Outcome::LocalError, words.into())
            }
            None => PlainRoute::Null,
        };
        return compiler.add_plain(node, json);
    }
    let parameters = match hash {
        Some(json) if matches!(json.value, JsonValue::Object(_)) => Some(json.object("`hash`")?),
        _ => None,
    };
    if let Some(object) = parameters.filter(|_| !hash.is_some_and(|hash| std::ptr::eq(hash, json))) {
        compiler.note_unknown(&object, HASH);
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
            let connections = connections(pool, compiler.workers())? as usize;
            let weights = numbers(weights)?.into_iter();
            Some(weights.flat_map(|weight| std::iter::repeat_n(weight, connections)).collect())
        }
        (None, None) => None,
    };
    if function == "Latest" {
        let definition = match hash {
            Some(hash) if parameters.is_some() => RouteDefinition::Object(hash),
            _ => RouteDefinition::Nothing(json),
        };
        let route = latest::over(compiler, children, definition, weights)?;
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
            let name = field("weights_rv").ok_or_else(|| place.error("expected `weights_rv`, found none"))?;
            let name = name.string("`weights_rv`")?.to_owned();
            let weights = Arc::new(RuntimeWeights::new(children.len()));
            let variable = RuntimeVariable::Weights { name, weights: Arc::clone(&weights) };
            compiler.add_variable(variable).map_err(|error| place.error(error))?;
            Selector::with_runtime_weights(weights, &description)
        }
        _ => Selector::new(&description),
    };
    let hash = hash.map_err(|error| place.error(error.to_string()))?;
    compiler.add_plain(PlainRoute::Hash { hash, children: children.into() }, json)
}
