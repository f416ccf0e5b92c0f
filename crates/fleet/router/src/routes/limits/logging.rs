//! LoggingRoute: requests to the child are logged.

use crate::flight::reply::FlightReply;
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
