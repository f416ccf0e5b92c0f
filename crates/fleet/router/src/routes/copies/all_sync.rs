//! AllSyncRoute: all children get a request, and the worst reply is the route's.

use crate::config::error::ConfigError;
use crate::flight::reply::FlightReply;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, KeptReply, Numbers, Opening, Route, Scene};

/// All; the worst reply, the first one of several.
#[derive(Clone, Debug)]
pub(crate) struct AllSync;

impl Route for AllSync {
    /// The worst reply so far.
    type Progress = KeptReply;

    fn name(&self) -> Option<&'static str> {
        Some("all-sync")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<KeptReply> {
        FirstStep::AskAll(KeptReply::default(), Numbers::Range(0..opening.count()))
    }

    fn replied<'a>(
        &self,
        worst: &mut KeptReply,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let is_worst = worst.outcome().is_none_or(|kept| reply.outcome.severity() > kept.severity());
        match (is_worst, scene.waiting) {
            (true, 0) => Decision::Done(reply),
            (false, 0) => Decision::Done(worst.give()),
            (true, _) => {
                worst.keep(reply);
                Decision::Wait
            }
            (false, _) => Decision::Wait,
        }
    }
}

impl<C: AddRoute<AllSync>> RouteForm<C> for AllSync {
    const FORM: Fields = ("AllSyncRoute", &["children"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        compiler.add_over_several(AllSync, definition)
    }
}
