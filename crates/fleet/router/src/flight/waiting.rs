//! Frames that wait for something else than a reply: for their turn, or for a time.

use std::sync::Arc;

use stdx::clock::Now;

use super::reply::FlightReply;
use super::steps::State;
use super::{Flights, Frame, Leg};
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::plan::choices::Choices;
use crate::plan::{AddedLatency, Compound, CompoundKind, NodeId, RoutePlan};
use crate::servers::destination::ReplyTarget;
use crate::shared::route_state::{Admission, StateId};
use crate::slab::Id;

/// A frame that goes on without a reply of a child.
pub(super) enum Resumed {
    /// It has waited long enough: its child is asked.
    Ask(Id),
    /// The reply that it has kept has waited long enough.
    Reply(Id),
    /// Nobody waits for it any more.
    Drop(Id),
}

/// When a route's child is asked.
pub(super) enum Start {
    Now,
    /// When it is its turn.
    Turn(StateId),
    /// At this time.
    At(Now),
    /// Never, for this reason.
    Never(&'static str),
}

impl Flights {
    /// When the child of a route is asked that may let requests wait.
    pub(super) fn start(
        &mut self,
        plan: &RoutePlan,
        compound: &Compound,
        request: Id,
        state: &mut State,
        choices: &mut Choices,
    ) -> Start {
        let bytes = self.requests.get_mut(request).map_or(0, |shared| shared.request.len());
        match &compound.kind {
            CompoundKind::Outstanding(id) => match choices.outstanding(plan.state(*id)).admit(bytes) {
                Admission::Now => Start::Now,
                Admission::Later => Start::Turn(*id),
                Admission::Never => Start::Never("too many outstanding requests"),
            },
            CompoundKind::Delay(latency) => match begin_delay(latency, state, choices) {
                Some(_) if !self.delays.has_room(bytes) => Start::Never("too many delayed requests"),
                Some(until) => Start::At(until),
                None => Start::Now,
            },
            _ => Start::Now,
        }
    }

    /// Lets a request wait that is at the route of this node.
    pub(super) fn wait(
        &mut self,
        plan: &RoutePlan,
        node: NodeId,
        leg: Leg,
        (state, start): (State, &Start),
        choices: &mut Choices,
    ) {
        let Leg { request, owner, marks } = leg;
        let Some(shared) = self.requests.get_mut(request) else { return };
        shared.uses += 1;
        let (bytes, client) = (shared.request.len(), shared.client);
        let is_get = shared.request.operation().class() == OperationClass::Get;
        let frame = self.frames.insert(Frame { node, owner, request, state, marks });
        match start {
            Start::Turn(id) => {
                choices.outstanding(plan.state(*id)).wait(client, frame, bytes, is_get);
                self.waiting += 1;
            }
            Start::At(until) => self.delays.add(*until, frame, bytes),
            Start::Now | Start::Never(_) => unreachable!("these do not wait"),
        }
    }

    /// A request of a limited route has its reply: the next one is sent.
    pub(super) fn release_turn(&mut self, plan: &RoutePlan, id: StateId, choices: &mut Choices) {
        if let Some(next) = choices.outstanding(plan.state(id)).release() {
            self.waiting -= 1;
            self.resumed.push_back(Resumed::Ask(next));
        }
    }

    /// A client has gone: what waits only for its sake is dropped.
    pub(crate) fn leave(&mut self, client: Id, choices: &mut Choices) {
        if self.waiting > 0 {
            let frames = choices.leave(client);
            self.waiting -= frames.len();
            self.resumed.extend(frames.into_iter().map(Resumed::Drop));
        }
    }

    /// When the first delay ends.
    pub(crate) fn next_delay(&self) -> Option<Now> {
        self.delays.next()
    }

    /// Notes the frames whose delays have ended. Returns whether there are any.
    pub(crate) fn end_delays(&mut self, now: Now) -> bool {
        while let Some(id) = self.delays.take_due(now) {
            let has_reply = self.frames.get_mut(id).is_some_and(|frame| frame.state.has_kept());
            self.resumed.push_back(if has_reply { Resumed::Reply(id) } else { Resumed::Ask(id) });
        }
        !self.resumed.is_empty()
    }

    /// Whether frames are to go on.
    #[inline]
    pub(crate) fn has_resumed(&self) -> bool {
        !self.resumed.is_empty()
    }

    /// Goes on with the frames that are to. Returns a reply that follows, and for whom it is, if there is one: the caller
    /// asks again until there is none.
    #[cold]
    pub(crate) fn resume(
        &mut self,
        choices: &mut Choices,
    ) -> Option<(ReplyTarget, Operation, FlightReply<'static>)> {
        while let Some(resumed) = self.resumed.pop_front() {
            let (Resumed::Ask(id) | Resumed::Reply(id) | Resumed::Drop(id)) = resumed;
            let Some(frame) = self.frames.get_mut(id) else { continue };
            let leg = Leg { request: frame.request, owner: ReplyTarget::Frame(id, 0), marks: frame.marks };
            let (node, owner) = (frame.node, frame.owner);
            let kept = matches!(resumed, Resumed::Reply(_)).then(|| frame.state.take_kept());
            let Some(shared) = self.requests.get_mut(leg.request) else { continue };
            let (operation, plan) = (shared.request.operation(), Arc::clone(&shared.plan));
            if let Resumed::Ask(_) = resumed {
                if let Some(reply) = self.begin(&plan, plan.compound(node).children[0], leg, choices) {
                    return Some((leg.owner, operation, reply));
                }
                continue;
            }
            self.end_frame(id);
            let reply = kept.unwrap_or_else(|| FlightReply::error(Outcome::Aborted, ""));
            return Some((owner, operation, reply));
        }
        None
    }
}

/// The time until which a request is kept back, if it is; notes when its reply may be given.
fn begin_delay(latency: &AddedLatency, state: &mut State, choices: &mut Choices) -> Option<Now> {
    let total_ms = latency.total.sample(|| choices.unit() * 100.0);
    state.not_before = after(choices.now, total_ms);
    (latency.before_ms > 0).then(|| after(choices.now, latency.before_ms))
}

/// The time until which a reply is kept back, if it is.
pub(super) fn reply_delay(latency: &AddedLatency, state: &State, now: Now) -> Option<Now> {
    let until = after(now, latency.after_ms).max(state.not_before);
    (until > now).then_some(until)
}

fn after(now: Now, ms: u64) -> Now {
    Now { us: now.us + ms * 1000 }
}
