//! ModifyExptimeRoute: the child gets a request with another time of expiry.

use std::convert::Infallible;

use crate::config::error::ConfigError;
use crate::flight::derive::with_exptime;
use crate::flight::reply::FlightReply;
use crate::message::changes::ExptimeChange;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, Opening, Route, Scene};

/// The child gets the request with another time of expiry.
#[derive(Clone, Debug)]
pub(crate) struct ModifyExptime(pub(crate) ExptimeChange);

impl Route for ModifyExptime {
    type Progress = Infallible;

    fn name(&self) -> Option<&'static str> {
        Some("modify-exptime")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Infallible> {
        let mut derived = opening.spares.take();
        if with_exptime(&opening.message, self.0, &mut derived) {
            return FirstStep::Pass(0, Some(derived));
        }
        opening.spares.give(derived);
        FirstStep::Pass(0, None)
    }

    fn replied<'a>(&self, progress: &mut Infallible, _: &mut Scene<'_>, _: FlightReply<'a>) -> Decision<'a> {
        match *progress {}
    }
}

/// Times of expiry, as memcached reads them.
pub(crate) const EXPTIMES: std::ops::RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

const KIND: &str = "a ModifyExptimeRoute";

impl<C: AddRoute<ModifyExptime>> RouteForm<C> for ModifyExptime {
    const FORM: Fields = ("ModifyExptimeRoute", &["action", "exptime", "target"]);

    const HAS_SHORT_FORM: bool = false;

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a route")?;
        let target = compiler.single(object.require("target")?)?;
        let exptime = object.require("exptime")?.integer("`exptime` in seconds", EXPTIMES)? as i32;
        let change = match object.string("action")? {
            None | Some("set") => ExptimeChange::Set(exptime),
            // Zero is never: no item lives longer.
            Some("min") if exptime == 0 => return Ok(vec![target]),
            Some("min") => ExptimeChange::AtMost(exptime),
            Some(other) => {
                let message = format!("expected set or min as `action` of {KIND}, found `{other}`");
                return Err(object.require("action")?.error(message));
            }
        };
        Ok(vec![compiler.add_route(ModifyExptime(change), vec![target], definition.json())?])
    }
}
