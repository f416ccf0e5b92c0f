//! AllInitialRoute: all children get a request, and the reply of the first is the route's.

use std::convert::Infallible;

use crate::flight::reply::FlightReply;
use crate::routes::route::{Decision, FirstStep, Numbers, Opening, Route, Scene};

/// All; the reply of the first.
#[derive(Clone, Debug)]
pub(crate) struct AllInitial;

impl Route for AllInitial {
    type Progress = Infallible;

    fn name(&self) -> Option<&'static str> {
        Some("all-initial")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Infallible> {
        let after = Numbers::Range(1..opening.count());
        FirstStep::Copy { before: Numbers::NONE, answer: Some(0), after }
    }

    fn replied<'a>(&self, progress: &mut Infallible, _: &mut Scene<'_>, _: FlightReply<'a>) -> Decision<'a> {
        match *progress {}
    }
}
