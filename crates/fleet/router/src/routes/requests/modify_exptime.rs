//! ModifyExptimeRoute: the child gets a request with another time of expiry.

use std::convert::Infallible;

use crate::flight::derive::with_exptime;
use crate::flight::reply::FlightReply;
use crate::message::changes::ExptimeChange;
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
