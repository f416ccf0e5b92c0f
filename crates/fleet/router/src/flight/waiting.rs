//! Frames that wait for something else than a reply: for their turn, or for a time.

use std::sync::Arc;

use stdx::clock::Now;

use super::Flights;
use super::leg::Leg;
use super::reply::FlightReply;
use super::turns::Resumed;
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::plan::RoutePlan;
use crate::plan::choices::Choices;
use crate::routes::route::Delayed;
use crate::servers::destination::ReplyTarget;
use crate::slab::Id;

impl Flights {
    /// Lets the request of a frame wait.
    pub(super) fn wait(
        &mut self,
        plan: &RoutePlan,
        frame: Id,
        request: Id,
        until: Delayed,
        choices: &mut Choices,
    ) {
        let Some(shared) = self.requests.get_mut(request) else { return };
        let bytes = shared.request.len();
        match until {
            Delayed::Turn(limit) => {
                let is_get = shared.request.operation().class() == OperationClass::Get;
                choices.outstanding(plan.state(limit)).wait(shared.client, frame, bytes, is_get);
                self.turns.count();
            }
            Delayed::Until(until) => self.delays.add(until, frame, bytes),
        }
    }

    /// A client has gone: what waits only for its sake is dropped.
    pub(crate) fn leave(&mut self, client: Id, choices: &mut Choices) {
        if self.turns.are_awaited() {
            self.turns.drop_all(choices.leave(client));
        }
    }

    /// When the first delay ends.
    pub(crate) fn next_delay(&self) -> Option<Now> {
        self.delays.next()
    }

    /// Notes the frames whose delays have ended. Returns whether there are any.
    pub(crate) fn end_delays(&mut self, now: Now) -> bool {
        while let Some(id) = self.delays.take_due(now) {
            self.turns.end_delay(id);
        }
        self.has_resumed()
    }

    /// Whether frames are to go on.
    #[inline]
    pub(crate) fn has_resumed(&self) -> bool {
        self.turns.has_resumed()
    }

    /// Goes on with the frames that are to. Returns a reply that follows, and for whom it is, if there is one: the caller
    /// asks again until there is none.
    #[cold]
    pub(crate) fn resume(
        &mut self,
        choices: &mut Choices,
    ) -> Option<(ReplyTarget, Operation, FlightReply<'static>)> {
        while let Some(resumed) = self.turns.next() {
            let (Resumed::Ask(id) | Resumed::Due(id) | Resumed::Drop(id)) = resumed;
            let Some(frame) = self.frames.get_mut(id) else { continue };
            let leg = Leg { request: frame.request, owner: ReplyTarget::Frame(id, 0), marks: frame.marks };
            let (node, owner) = (frame.node, frame.owner);
            let reply = match resumed {
                Resumed::Ask(_) => None,
                Resumed::Due(_) => frame.progress.take_kept(),
                Resumed::Drop(_) => Some(FlightReply::error(Outcome::Aborted, "")),
            };
            let Some(shared) = self.requests.get_mut(leg.request) else { continue };
            let (operation, plan) = (shared.request.operation(), Arc::clone(&shared.plan));
            if let Some(reply) = reply {
                self.end_frame(id);
                return Some((owner, operation, reply));
            }
            if let Some(reply) = self.begin(&plan, plan.compound(node).children[0], leg, choices) {
                return Some((leg.owner, operation, reply));
            }
        }
        None
    }
}
