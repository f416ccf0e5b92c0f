//! WarmUpRoute: a cold cache is filled from a warm one.

use crate::config::error::ConfigError;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::substitutes::fill::{COPY_EXPTIMES, Fill};

/// A [`Fill`] of cold from warm.
pub(crate) struct WarmUpFill;

impl<C: AddRoute<Fill>> RouteForm<C> for WarmUpFill {
    const FORM: Fields = ("WarmUpRoute", &["cold", "enable_metaget", "exptime", "warm"]);

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a route")?;
        let cold = compiler.single(object.require("cold")?)?;
        let warm = compiler.single(object.require("warm")?)?;
        let asks_for_ttl = object.bool("enable_metaget")?.unwrap_or(false);
        let exptime = match object.integer("exptime", COPY_EXPTIMES)? {
            None if asks_for_ttl => None,
            configured => Some(configured.unwrap_or(0) as u32),
        };
        let fill = Fill { exptime, negative: None, stands_in: false };
        Ok(vec![fill.add(compiler, cold, warm, definition.json())?])
    }
}
