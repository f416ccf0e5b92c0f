//! MissFailoverRoute: one child after the other is asked, until one has the item.

use crate::config::error::ConfigError;
use crate::flight::reply::FlightReply;
use crate::message::operation::OperationClass;
use crate::plan::NodeId;
use crate::routes::form::{AddRoute, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Decision, FirstStep, KeptReply, Opening, Route, Scene};

/// One after the other, until one has the item.
#[derive(Clone, Debug)]
pub(crate) struct MissFailover {
    /// If none has it: the best reply rather than the last.
    pub(crate) best: bool,
}

/// How far a MissFailoverRoute is with a request.
pub(crate) struct MissSearch {
    /// The next child to ask.
    next: u16,
    best: KeptReply,
}

impl Route for MissFailover {
    type Progress = MissSearch;

    fn name(&self) -> Option<&'static str> {
        Some("miss-failover")
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<MissSearch> {
        match opening.message.operation.class() {
            OperationClass::Get | OperationClass::Delete => {
                FirstStep::Ask(MissSearch { next: 1, best: KeptReply::default() }, 0, None)
            }
            OperationClass::Update | OperationClass::Arithmetic | OperationClass::Touch => {
                FirstStep::Pass(0, None)
            }
        }
    }

    fn replied<'a>(
        &self,
        search: &mut MissSearch,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        let is_last = usize::from(search.next) == scene.children.len();
        if reply.outcome.is_hit() || (is_last && !self.best) {
            return Decision::Done(reply);
        }
        if self.best {
            search.keep_best(reply);
        }
        if is_last {
            return Decision::Done(search.best.give());
        }
        search.next += 1;
        Decision::Ask(search.next - 1)
    }
}

impl MissSearch {
    /// Keeps a reply unless the one before is better.
    fn keep_best(&mut self, reply: FlightReply<'_>) {
        if self.best.outcome().is_none_or(|kept| reply.outcome.severity() <= kept.severity()) {
            self.best.keep(reply);
        }
    }
}

impl<C: AddRoute<MissFailover>> RouteForm<C> for MissFailover {
    const FORM: Fields = ("MissFailoverRoute", &["children", "return_best_on_error"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let best = match definition.object()? {
            Some(object) => object.bool("return_best_on_error")?.unwrap_or(false),
            None => false,
        };
        compiler.add_over_several(MissFailover { best }, definition)
    }
}
