//! Flights: requests on their way through routes that need the replies of several children.
//!
//! Nothing here sends: starting a flight and handing it replies yields [`Send`]s, and at the end a [`FlightReply`] for whom the
//! flight was started. A request that was not sent, or has no reply in time, is a reply like any other.
//!
//! Each compound route that a request has reached and that has not decided yet is a frame; frames form a tree, from a
//! request of a client to the requests at servers.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::answer;
use crate::client::ReplyBytes;
use crate::destination::{ReplyKind, ReplyTarget, is_usual};
use crate::operation::{Operation, OperationClass};
use crate::outcome::Outcome;
use crate::plan::{CompoundKind, NodeId, RoutePlan, RouteStep, ServerId};
use crate::request::{RoutedRequest, StoredRequest};
use crate::slab::{Id, IdSlab};

use decide::{Decision, State};

/// A request for a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Send {
    /// In the plan of the flight.
    pub(crate) server: ServerId,
    pub(crate) keep_prefix: bool,
    /// The stored request, of which this is a user.
    pub(crate) request: Id,
    /// For whom its reply is.
    pub(crate) target: ReplyTarget,
}

/// The end of a flight, or of a part of it.
pub(crate) struct FlightReply<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) answer: ReplyBytes<'a>,
}

/// A compound route that waits for replies of its children.
struct Frame {
    node: NodeId,
    /// For whom its reply is.
    owner: ReplyTarget,
    request: Id,
    state: State,
}

/// A request with the plan that it began with.
struct SharedRequest {
    request: StoredRequest,
    plan: Arc<RoutePlan>,
    /// Frames that may send it again, and sends that are still to be made.
    uses: u32,
}

/// All flights of a worker.
#[derive(Default)]
pub(crate) struct Flights {
    frames: IdSlab<Frame>,
    requests: IdSlab<SharedRequest>,
    /// Memory for further requests.
    spare: Vec<StoredRequest>,
    /// What is to be sent, in this order.
    pub(crate) sends: VecDeque<Send>,
    /// Somebody takes `sends` one by one: what is added meanwhile is taken by the same loop, not by one inside of it.
    pub(crate) is_sending: bool,
    /// Requests that went to another child of a FailoverRoute, and those of them that failed there, since the worker
    /// has counted them.
    pub(crate) failovers: (u64, u64),
}

/// Requests whose memory is kept for later ones.
const SPARE_MAX: usize = 1024;

impl Flights {
    /// Keeps a request until [`Flights::release`].
    pub(crate) fn store(&mut self, message: &RoutedRequest<'_>, plan: Arc<RoutePlan>) -> Id {
        let mut request = self.spare.pop().unwrap_or_default();
        request.store(message);
        self.requests.insert(SharedRequest { request, plan, uses: 1 })
    }

    /// The request and its plan, to be sent. It is put back by [`Flights::put_back`].
    pub(crate) fn take_request(&mut self, id: Id) -> Option<(StoredRequest, Arc<RoutePlan>)> {
        let SharedRequest { request, plan, .. } = self.requests.get_mut(id)?;
        Some((std::mem::take(request), Arc::clone(plan)))
    }

    pub(crate) fn put_back(&mut self, id: Id, request: StoredRequest) {
        if let Some(shared) = self.requests.get_mut(id) {
            shared.request = request;
        }
    }

    /// One user less.
    pub(crate) fn release(&mut self, id: Id) {
        let Some(shared) = self.requests.get_mut(id) else { return };
        shared.uses -= 1;
        if shared.uses == 0
            && let Some(SharedRequest { mut request, .. }) = self.requests.remove(id)
            && self.spare.len() < SPARE_MAX
        {
            request.clear();
            self.spare.push(request);
        }
    }

    /// Frames and requests that exist.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.frames.len() + self.requests.len()
    }

    /// Sends `request` to the route at `node`, for `owner`. Returns its reply if it needs no server.
    pub(crate) fn begin(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        request: Id,
        owner: ReplyTarget,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<FlightReply<'static>> {
        let shared = self.requests.get_mut(request)?;
        let stored = &shared.request;
        let RoutedRequest { operation, .. } = stored.message();
        let node = match plan.step(node, operation, &stored.key(), &mut *random) {
            RouteStep::Server { server, keep_prefix } => {
                shared.uses += 1;
                self.sends.push_back(Send { server, keep_prefix, request, target: owner });
                return None;
            }
            RouteStep::Answer(answer) => {
                return Some(FlightReply::own(answer, &shared.request.message()));
            }
            RouteStep::Compound(node) => node,
        };
        let compound = plan.compound(node);
        let children = &compound.children;
        match compound.kind {
            CompoundKind::AllAsync => {
                for child in children {
                    self.begin(plan, *child, request, ReplyTarget::Nobody, random);
                }
                let shared = self.requests.get_mut(request)?;
                return Some(FlightReply::own(None, &shared.request.message()));
            }
            CompoundKind::AllInitial => {
                let first = self.begin(plan, children[0], request, owner, random);
                for child in &children[1..] {
                    self.begin(plan, *child, request, ReplyTarget::Nobody, random);
                }
                return first;
            }
            CompoundKind::MissFailover { .. }
                if !matches!(operation.class(), OperationClass::Get | OperationClass::Delete) =>
            {
                return self.begin(plan, children[0], request, owner, random);
            }
            _ => {}
        }
        self.requests.get_mut(request)?.uses += 1;
        let state = State::new(&compound.kind, children.len());
        let at_once = state.waiting;
        let frame = self.frames.insert(Frame { node, owner, request, state });
        let mut done = None;
        for child in 0..at_once {
            let target = ReplyTarget::Frame(frame, child);
            let reply = self.begin(plan, children[usize::from(child)], request, target, random);
            // Without a server: decided at once. A route may have its answer before all children are asked.
            if let Some(reply) = reply
                && let Some((_, reply)) = self.child_replied(frame, operation, reply, random)
            {
                done = Some(reply);
            }
        }
        done
    }

    /// A child of a frame has its reply. Returns for whom this is a reply, if it is one.
    pub(crate) fn on_reply<'a>(
        &mut self,
        frame: Id,
        operation: Operation,
        reply: FlightReply<'a>,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<(ReplyTarget, FlightReply<'a>)> {
        let (mut owner, mut reply) = self.child_replied(frame, operation, reply, random)?;
        while let ReplyTarget::Frame(parent, _) = owner {
            (owner, reply) = self.child_replied(parent, operation, reply, random)?;
        }
        Some((owner, reply))
    }

    /// The same for one frame: asks further children, until the frame waits or has its reply.
    fn child_replied<'a>(
        &mut self,
        id: Id,
        operation: Operation,
        mut reply: FlightReply<'a>,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<(ReplyTarget, FlightReply<'a>)> {
        loop {
            let frame = self.frames.get_mut(id)?;
            let (owner, request) = (frame.owner, frame.request);
            let plan = Arc::clone(&self.requests.get_mut(request)?.plan);
            let compound = plan.compound(frame.node);
            let decision = frame.state.decide(&compound.kind, operation, reply);
            let is_over = frame.state.waiting == 0;
            let is_failover = matches!(compound.kind, CompoundKind::Failover(_));
            let has_moved_on = frame.state.has_moved_on();
            match decision {
                Decision::Wait => {
                    if is_over {
                        self.end_frame(id);
                    }
                    return None;
                }
                Decision::Ask(child) => {
                    self.failovers.0 += u64::from(is_failover && child == 1);
                    let node = compound.children[usize::from(child)];
                    let target = ReplyTarget::Frame(id, child);
                    reply = self.begin(&plan, node, request, target, random)?;
                }
                Decision::Done(reply) => {
                    self.failovers.1 +=
                        u64::from(is_failover && has_moved_on && reply.outcome.is_failover_error());
                    if is_over {
                        self.end_frame(id);
                    } else if let Some(frame) = self.frames.get_mut(id) {
                        // The others run on, for nobody.
                        frame.owner = ReplyTarget::Nobody;
                    }
                    return Some((owner, reply));
                }
            }
        }
    }

    /// Whether a request was sent because another child of a FailoverRoute has failed.
    pub(crate) fn is_failover(&mut self, mut target: ReplyTarget) -> bool {
        while let ReplyTarget::Frame(id, child) = target {
            let Some(frame) = self.frames.get_mut(id) else { return false };
            let (owner, request, node) = (frame.owner, frame.request, frame.node);
            let Some(shared) = self.requests.get_mut(request) else { return false };
            if child > 0 && matches!(shared.plan.compound(node).kind, CompoundKind::Failover(_)) {
                return true;
            }
            target = owner;
        }
        false
    }

    fn end_frame(&mut self, id: Id) {
        if let Some(frame) = self.frames.remove(id) {
            self.release(frame.request);
        }
    }
}

impl FlightReply<'static> {
    /// The reply where no server is asked: an error, or as if there were no item.
    pub(crate) fn without_server(
        error: Option<(Outcome, &str)>,
        operation: Operation,
        expected: ReplyKind,
    ) -> FlightReply<'static> {
        if let Some((outcome, message)) = error {
            return FlightReply::error(outcome, message);
        }
        let outcome = answer::default_outcome(operation);
        let quiet = matches!(expected, ReplyKind::Meta { quiet: true, .. });
        let line = match quiet && is_usual(operation, outcome) {
            true => b"",
            false => answer::line(operation, outcome),
        };
        FlightReply { outcome, answer: ReplyBytes::Copied(line) }
    }

    /// The same for a whole request: a meta reply repeats its opaque and its key, if they were asked for.
    pub(crate) fn own(error: Option<(Outcome, &str)>, message: &RoutedRequest<'_>) -> FlightReply<'static> {
        let reply = FlightReply::without_server(error, message.operation, message.expected);
        let FlightReply { outcome, answer: ReplyBytes::Copied(line) } = reply else { return reply };
        if line.is_empty() || !message.operation.is_meta() {
            return FlightReply { outcome, answer: ReplyBytes::Copied(line) };
        }
        let mut output = crate::client::HeldOutput::default();
        answer::write_meta(output.copied(), line, message.key.full, message.after);
        FlightReply { outcome, answer: ReplyBytes::Gathered(output) }
    }

    /// An error with a message.
    pub(crate) fn error(outcome: Outcome, message: &str) -> FlightReply<'static> {
        let mut line = crate::client::HeldOutput::default();
        answer::write_error(line.copied(), outcome, message);
        FlightReply { outcome, answer: ReplyBytes::Gathered(line) }
    }
}
