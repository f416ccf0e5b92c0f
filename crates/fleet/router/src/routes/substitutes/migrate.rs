//! MigrateRoute: a move of keys from one route to another.

use crate::config::error::ConfigError;
use crate::plan::NodeId;
use crate::plan::plain_route::{Migration, PlainRoute};
use crate::routes::copies::all_sync::AllSync;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};

/// A [`Migration`].
pub(crate) struct Migrate;

/// mcrouter's default of `interval`, in seconds.
const INTERVAL_S: i64 = 3600;

/// Intervals of a migration, in seconds: up to ten years.
const INTERVALS: std::ops::RangeInclusive<i64> = 1..=315_360_000;

impl<C: AddRoute<AllSync>> RouteForm<C> for Migrate {
    const FORM: Fields = ("MigrateRoute", &["from", "interval", "start_time", "to"]);

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let (object, json) = (definition.json().object("a route")?, definition.json());
        let from = compiler.single(object.require("from")?)?;
        let to = compiler.single(object.require("to")?)?;
        let start_s = object.require("start_time")?.integer("`start_time`", i64::MIN..=i64::MAX)?;
        let interval_s = object.integer("interval", INTERVALS)?.unwrap_or(INTERVAL_S) as u32;
        let both = compiler.add_route(AllSync, vec![from, to], json)?;
        let migration = Migration { from, to, both, start_s, interval_s };
        Ok(vec![compiler.add_plain(PlainRoute::Migrate(migration), json)?])
    }
}
