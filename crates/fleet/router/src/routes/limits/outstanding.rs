//! `max_outstanding` of a PoolRoute: a server gets a request when it has few enough without a reply.

use crate::config::error::ConfigError;
use crate::config::json::Object;
use crate::flight::reply::FlightReply;
use crate::message::outcome::Outcome;
use crate::plan::NodeId;
use crate::routes::form::AddRoute;
use crate::routes::route::{Decision, Delayed, FirstStep, Opening, Route, Scene};
use crate::shared::route_state::StateSpec;
use crate::shared::route_state::{Admission, StateId};

/// The only child, when it has few enough requests without a reply.
#[derive(Clone, Debug)]
pub(crate) struct Outstanding {
    /// Which requests it has, and which wait.
    pub(crate) state: StateId,
}

impl Route for Outstanding {
    type Progress = ();

    fn name(&self) -> Option<&'static str> {
        Some("outstanding-limit")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<()> {
        let state = opening.state(self.state);
        match opening.choices.outstanding(state).admit(opening.bytes) {
            Admission::Now => FirstStep::Ask((), 0, None),
            Admission::Later => FirstStep::Later((), Delayed::Turn(self.state)),
            Admission::Never => {
                FirstStep::Answer(FlightReply::error(Outcome::Busy, "too many outstanding requests"))
            }
        }
    }

    fn replied<'a>(&self, (): &mut (), scene: &mut Scene<'_>, reply: FlightReply<'a>) -> Decision<'a> {
        let state = scene.state(self.state);
        scene.turns.release(scene.choices.outstanding(state));
        Decision::Done(reply)
    }
}

/// mcrouter's largest `max_outstanding`.
const OUTSTANDING_MAX: i64 = 1_000_000;

/// A limit in front of each of a pool's servers.
pub(crate) fn limit(
    compiler: &mut impl AddRoute<Outstanding>,
    servers: Vec<NodeId>,
    route: &Object<'_>,
) -> Result<Vec<NodeId>, ConfigError> {
    let Some(json) = route.get("max_outstanding") else { return Ok(servers) };
    let max = json.integer("`max_outstanding` of a PoolRoute", 0..=OUTSTANDING_MAX)? as usize;
    if max == 0 {
        return Ok(servers);
    }
    let limited = |server: NodeId| {
        let state = compiler.add_state(StateSpec::Outstanding(max));
        compiler.add_route(Outstanding { state }, vec![server], json)
    };
    servers.into_iter().map(limited).collect()
}
