//! `max_outstanding` of a PoolRoute: a server gets a request when it has few enough without a reply.

use crate::flight::reply::FlightReply;
use crate::message::outcome::Outcome;
use crate::routes::route::{Decision, Delayed, FirstStep, Opening, Route, Scene};
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
