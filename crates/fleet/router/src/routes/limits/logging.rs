//! LoggingRoute: requests to the child are logged.

use crate::config::error::ConfigError;
use crate::flight::reply::FlightReply;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, Opening, Route, Scene};

/// The only child; the request is logged.
#[derive(Clone, Debug)]
pub(crate) struct Logging;

impl Route for Logging {
    type Progress = ();

    fn name(&self) -> Option<&'static str> {
        Some("logging")
    }

    fn begin(&self, _: &mut Opening<'_>) -> FirstStep<()> {
        FirstStep::Ask((), 0, None)
    }

    fn replied<'a>(&self, (): &mut (), scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let (message, bytes) = (&scene.message, reply.answer.len());
        scene.log.note(message.operation, message.key.full, reply.outcome, bytes, scene.choices.now);
        Decision::Done(reply)
    }
}

impl<C: AddRoute<Logging>> RouteForm<C> for Logging {
    const FORM: Fields = ("LoggingRoute", &["target"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let json = definition.json();
        let target = match definition {
            RouteDefinition::Object(json) => json.object("a LoggingRoute")?.get("target"),
            RouteDefinition::Text(text) => Some(text),
            RouteDefinition::Nothing(_) => None,
        };
        let target = compiler.single_or_null(target, json)?;
        Ok(vec![compiler.add_route(Logging, vec![target], json)?])
    }
}
