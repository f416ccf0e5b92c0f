//! AllFastestRoute: all children get a request, and the first reply that is not an error is the route's.

use crate::config::error::ConfigError;
use crate::flight::reply::FlightReply;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, Numbers, Opening, Route, Scene};

/// All; the first that another server could not improve, else the last.
#[derive(Clone, Debug)]
pub(crate) struct AllFastest;

impl Route for AllFastest {
    type Progress = ();

    fn name(&self) -> Option<&'static str> {
        Some("all-fastest")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<()> {
        FirstStep::AskAll((), Numbers::Range(0..opening.count()))
    }

    fn replied<'a>(&self, (): &mut (), scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        if reply.outcome.is_failover_error() && scene.waiting > 0 {
            return Decision::Wait;
        }
        Decision::Done(reply)
    }
}

impl<C: AddRoute<AllFastest>> RouteForm<C> for AllFastest {
    const FORM: Fields = ("AllFastestRoute", &["children"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        compiler.add_over_several(AllFastest, definition)
    }
}
