//! RateLimitRoute, and `rates` of a PoolRoute: so many requests in a second.

use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::plan::NodeId;
use crate::plan::plain_route::PlainRoute;
use crate::routes::form::{Compile, Fields, RouteDefinition, RouteForm};
use crate::shared::route_state::{Rates, RequestRate, StateSpec};

/// One route for as many requests as are allowed, another for the rest.
pub(crate) struct RateLimit;

const RATES: Fields =
    ("rates", &["deletes_burst", "deletes_rate", "gets_burst", "gets_rate", "sets_burst", "sets_rate"]);

impl<C: Compile> RouteForm<C> for RateLimit {
    const FORM: Fields = ("RateLimitRoute", &["fallback", "rates", "target"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a RateLimitRoute")?;
        let target = compiler.single(object.require("target")?)?;
        let fallback = object.get("fallback").map(|route| compiler.single(route)).transpose()?;
        Ok(vec![limit(compiler, target, object.require("rates")?, fallback)?])
    }
}

/// A limit in front of a route.
pub(crate) fn limit(
    compiler: &mut impl Compile,
    target: NodeId,
    json: &Json,
    fallback: Option<NodeId>,
) -> Result<NodeId, ConfigError> {
    let object = json.object("`rates`")?;
    compiler.note_unknown(&object, RATES);
    let rates = Rates {
        gets: rate(&object, "gets_rate", "gets_burst")?,
        sets: rate(&object, "sets_rate", "sets_burst")?,
        deletes: rate(&object, "deletes_rate", "deletes_burst")?,
    };
    let state = compiler.add_state(StateSpec::Rates(rates));
    compiler.add_plain(PlainRoute::RateLimit { state, target, fallback }, json)
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
