//! Comparison of a shadow's reply with the normal one: the client gets the normal one at once.

use std::sync::Arc;

use stdx::clock::Now;

use super::comparing::Comparing;
use super::reply::FlightReply;
use super::steps::{Decision, State};
use super::{Flights, Frame, Leg};
use crate::message::operation::Operation;
use crate::plan::choices::Choices;
use crate::plan::{Compound, NodeId, RoutePlan};
use crate::servers::destination::ReplyTarget;
use crate::stats::shadow_counts::ShadowCounts;

impl Flights {
    /// Asks the normal child of a shadowed route and the shadow that is compared with it.
    pub(super) fn begin_compared(
        &mut self,
        plan: &Arc<RoutePlan>,
        (node, compound): (NodeId, &Compound),
        (shadow, counts): (u16, Arc<ShadowCounts>),
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let shared = self.requests.get_mut(leg.request)?;
        shared.uses += 1;
        let comparing = Comparing::new(counts, choices.now);
        let state = State::comparing(comparing, &shared.request);
        let Leg { request, owner, marks } = leg;
        let frame = self.frames.insert(Frame { node, owner, request, state, marks });
        let mut done = None;
        for child in [0, shadow] {
            let mut marks = marks;
            if child != 0 {
                (marks.is_shadow, marks.log) = (true, None);
            }
            let leg = Leg { owner: ReplyTarget::Frame(frame, child), marks, request };
            let reply = self.begin(plan, compound.children[usize::from(child)], leg, choices);
            if let Some(reply) = reply
                && let Some((_, reply)) = self.child_replied(frame, child, reply, choices)
            {
                done = Some(reply);
            }
        }
        done
    }
}

impl State {
    /// A reply of a shadowed route that is compared.
    pub(super) fn compared<'a>(
        &mut self,
        child: u16,
        operation: Operation,
        reply: FlightReply<'a>,
        now: Now,
    ) -> Decision<'a> {
        self.waiting -= 1;
        if let Some(comparing) = &mut self.comparing {
            comparing.note(child, operation, &reply, now);
        }
        if child == 0 { Decision::Done(reply) } else { Decision::Wait }
    }
}
