//! AllInitialRoute: all children get a request, and the reply of the first is the route's.

use std::convert::Infallible;

use crate::config::error::ConfigError;
use crate::flight::reply::FlightReply;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
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

impl<C: AddRoute<AllInitial>> RouteForm<C> for AllInitial {
    const FORM: Fields = ("AllInitialRoute", &["children"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        compiler.add_over_several(AllInitial, definition)
    }
}
