//! AllAsyncRoute: all children get a request, and no reply is waited for.

use std::convert::Infallible;

use crate::flight::reply::FlightReply;
use crate::routes::route::{Decision, FirstStep, Numbers, Opening, Route, Scene};

/// All; no reply is waited for.
#[derive(Clone, Debug)]
pub(crate) struct AllAsync;

impl Route for AllAsync {
    type Progress = Infallible;

    fn name(&self) -> Option<&'static str> {
        Some("all-async")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Infallible> {
        let before = Numbers::Range(0..opening.count());
        FirstStep::Copy { before, answer: None, after: Numbers::NONE }
    }

    fn replied<'a>(&self, progress: &mut Infallible, _: &mut Scene<'_>, _: FlightReply<'a>) -> Decision<'a> {
        match *progress {}
    }
}
