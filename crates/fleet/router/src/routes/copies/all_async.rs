//! AllAsyncRoute: all children get a request, and no reply is waited for.

use std::convert::Infallible;

use crate::config::error::ConfigError;
use crate::flight::reply::FlightReply;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
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

impl<C: AddRoute<AllAsync>> RouteForm<C> for AllAsync {
    const FORM: Fields = ("AllAsyncRoute", &["children"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let children = compiler.children(definition)?;
        // A single child that nobody waits for is not that child.
        if children.is_empty() {
            return compiler.few(children, definition.json());
        }
        Ok(vec![compiler.add_route(AllAsync, children, definition.json())?])
    }
}
