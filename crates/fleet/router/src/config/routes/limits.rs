//! Limits: rates of a RateLimitRoute or a PoolRoute, `max_outstanding` of a PoolRoute.

use super::{Compiler, Definition, vocabulary};
use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::plan::{Node, NodeId};
use crate::routes::limits::outstanding::Outstanding;
use crate::shared::route_state::{Rates, RequestRate, StateSpec};

/// mcrouter's largest `max_outstanding`.
const OUTSTANDING_MAX: i64 = 1_000_000;

impl Compiler<'_, '_> {
    pub(super) fn rate_limit_route(&mut self, definition: Definition<'_>) -> Result<NodeId, ConfigError> {
        let json = definition.json();
        let object = json.object("a RateLimitRoute")?;
        let target = self.single(object.require("target")?)?;
        let fallback = object.get("fallback").map(|route| self.single(route)).transpose()?;
        self.rate_limit(target, object.require("rates")?, fallback)
    }

    /// A limit in front of a route.
    pub(super) fn rate_limit(
        &mut self,
        target: NodeId,
        json: &Json,
        fallback: Option<NodeId>,
    ) -> Result<NodeId, ConfigError> {
        let object = json.object("`rates`")?;
        self.note_unknown(&object, vocabulary::RATES);
        let rates = Rates {
            gets: rate(&object, "gets_rate", "gets_burst")?,
            sets: rate(&object, "sets_rate", "sets_burst")?,
            deletes: rate(&object, "deletes_rate", "deletes_burst")?,
        };
        let state = self.add_state(StateSpec::Rates(rates));
        self.add(Node::RateLimit { state, target, fallback }, json)
    }

    /// A limit in front of each of a pool's servers.
    pub(super) fn limit_outstanding(
        &mut self,
        servers: Vec<NodeId>,
        route: &Object<'_>,
    ) -> Result<Vec<NodeId>, ConfigError> {
        let Some(json) = route.get("max_outstanding") else { return Ok(servers) };
        let max = json.integer("`max_outstanding` of a PoolRoute", 0..=OUTSTANDING_MAX)? as usize;
        if max == 0 {
            return Ok(servers);
        }
        let limited = |server: NodeId| {
            let state = self.add_state(StateSpec::Outstanding(max));
            self.with_children(Outstanding { state }, vec![server], json)
        };
        servers.into_iter().map(limited).collect()
    }
}

/// A rate, if there is one, with its burst: as much as the rate unless it says otherwise.
fn rate(object: &Object<'_>, rate: &str, burst: &str) -> Result<Option<RequestRate>, ConfigError> {
    let positive = |name: &str| {
        let Some(json) = object.get(name) else { return Ok(None) };
        let number = json.number(format_args!("`{name}`"), f64::MIN..=f64::INFINITY)?;
        if number > 0.0 {
            return Ok(Some(number));
        }
        Err(json.wrong(format_args!("a number above 0 (`{name}`)")))
    };
    let burst = positive(burst)?;
    let rate = positive(rate)?;
    Ok(rate.map(|per_second| RequestRate { per_second, burst: burst.unwrap_or(per_second) }))
}
