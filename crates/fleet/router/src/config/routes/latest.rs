//! LatestRoute: failover over an order that each host, or each worker, has for itself.

use super::fields::numbers;
use super::{Compiler, Definition};
use crate::config::error::ConfigError;
use crate::hash::{WEIGHT_OF_MISSING, latest_order};
use crate::plan::{Node, NodeId};

/// Children that a host asks, unless the configuration says how many: mcrouter's number.
const FAILOVER_COUNT: usize = 5;

impl Compiler<'_, '_> {
    pub(super) fn latest_route(&mut self, definition: Definition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let children = self.children(definition)?;
        let weights = match definition.object()? {
            Some(object) => object.get("weights").map(numbers).transpose()?,
            None => None,
        };
        self.latest_over(children, definition, weights)
    }

    /// A LatestRoute over these children.
    pub(super) fn latest_over(
        &mut self,
        children: Vec<NodeId>,
        definition: Definition<'_>,
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
        for worker in 0..if by_worker { self.options.proxies.max(1) } else { 1 } {
            let order = latest_order(self.options.host_id, worker as u64, salt, &weights, limit);
            let order = order.map_err(|error| definition.json().error(error.to_string()))?;
            let chosen = order.into_iter().map(|child| children[child]).collect();
            routes.append(&mut self.failover_over(chosen, definition)?);
        }
        match routes.len() {
            1 => Ok(routes),
            _ => Ok(vec![self.add(Node::ByWorker(routes.into()), definition.json())?]),
        }
    }
}
