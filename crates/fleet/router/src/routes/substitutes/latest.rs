//! LatestRoute: failover over an order that each host, or each worker, has for itself.

use crate::config::error::ConfigError;
use crate::plan::NodeId;
use crate::plan::hash::{WEIGHT_OF_MISSING, latest_order};
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm, numbers};
use crate::routes::substitutes::failover::{self, Failover};

/// A [`Failover`], or one for each worker.
pub(crate) struct Latest;

/// Children that a host asks, unless the configuration says how many: mcrouter's number.
const FAILOVER_COUNT: usize = 5;

impl<C: AddRoute<Failover>> RouteForm<C> for Latest {
    const FORM: Fields = (
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
    );

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let children = compiler.children(definition)?;
        let weights = match definition.object()? {
            Some(object) => object.get("weights").map(numbers).transpose()?,
            None => None,
        };
        over(compiler, children, definition, weights)
    }
}

/// A LatestRoute over these children.
pub(crate) fn over(
    compiler: &mut impl AddRoute<Failover>,
    children: Vec<NodeId>,
    definition: RouteDefinition<'_>,
    weights: Option<Vec<f64>>,
) -> Result<Vec<NodeId>, ConfigError> {
    let object = definition.object()?;
    let (mut limit, mut salt, mut by_worker) = (FAILOVER_COUNT, "", false);
    if let Some(object) = &object {
        limit = object.integer("failover_count", 0..=i64::MAX)?.map_or(limit, |count| count as usize);
        salt = object.string("salt")?.unwrap_or_default();
        by_worker = object.bool("thread_local_failover")?.unwrap_or(false);
    }
    let missing = if weights.is_some() { WEIGHT_OF_MISSING } else { 1.0 };
    let mut weights = weights.unwrap_or_default();
    weights.resize(children.len(), missing);
    let mut routes = Vec::new();
    for worker in 0..if by_worker { compiler.workers().max(1) } else { 1 } {
        let order = latest_order(compiler.host_id(), worker as u64, salt, &weights, limit);
        let order = order.map_err(|error| definition.json().error(error.to_string()))?;
        let chosen = order.into_iter().map(|child| children[child]).collect();
        routes.append(&mut failover::over(compiler, chosen, definition)?);
    }
    match routes.len() {
        1 => Ok(routes),
        _ => Ok(vec![compiler.add_plain(PlainRoute::ByWorker(routes.into()), definition.json())?]),
    }
}
