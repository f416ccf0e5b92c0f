//! PoolRoute: the servers of a pool, and the hash that chooses one.

use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::plan::plain_route::PlainRoute;
use crate::plan::{LogId, NodeId};
use crate::routes::copies::shadow::{self, Shadow};
use crate::routes::form::{AddRoute, Compile, Fields, RouteDefinition, RouteForm, refuse};
use crate::routes::limits::outstanding::{self, Outstanding};
use crate::routes::limits::rate_limit;
use crate::routes::steps::hash;
use crate::routes::steps::pool::Pool;
use crate::routes::substitutes::failover::Failover;

/// The server of a pool that the key's hash names.
pub(crate) struct PoolRoute;

/// Fields of a PoolRoute that change what happens, and are not there.
const ROUTE_NOT_SUPPORTED: [&str; 3] = ["slow_warmup", "shard_splits", "bucketize"];

impl<C: AddRoute<Failover> + AddRoute<Outstanding> + AddRoute<Shadow>> RouteForm<C> for PoolRoute {
    const FORM: Fields = (
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
    );

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        let object = definition.object()?;
        let pool = match &object {
            Some(object) => {
                refuse(object, &ROUTE_NOT_SUPPORTED)?;
                object.require("pool")?
            }
            None => json,
        };
        compiler.with_pool(pool, |compiler, pool| Ok(vec![to_pool(compiler, pool, object, json)?]))
    }
}

fn to_pool<C: AddRoute<Failover> + AddRoute<Outstanding> + AddRoute<Shadow>>(
    compiler: &mut C,
    pool: &Pool<'_>,
    object: Option<Object<'_>>,
    json: &Json,
) -> Result<NodeId, ConfigError> {
    let mut children = compiler.servers_of(pool, json)?;
    if let Some(object) = &object {
        children = outstanding::limit(compiler, children, object)?;
        children = shadow::shadowed(compiler, children, object)?;
    }
    let hash = object.and_then(|object| object.get("hash"));
    let route = hash::choice(compiler, children, hash, Some(pool), json)?;
    let child = match object.and_then(|object| object.get("rates")) {
        Some(rates) => rate_limit::limit(compiler, route, rates, None)?,
        None => route,
    };
    match log_of(compiler, object, pool.name)? {
        Some(log) => compiler.add_plain(PlainRoute::Logged { log, child }, json),
        None => Ok(child),
    }
}

/// The log of a PoolRoute.
fn log_of(
    compiler: &mut impl Compile,
    object: Option<Object<'_>>,
    pool: &str,
) -> Result<Option<LogId>, ConfigError> {
    let mut name = pool;
    if let Some(object) = object {
        let named = object.string("asynclog_name")?.or(object.string("name")?);
        name = named.unwrap_or(pool);
        if object.bool("asynclog")? == Some(false) {
            return Ok(None);
        }
    }
    Ok(compiler.add_log(name))
}
