//! Flights: requests on their way through routes that need the replies of several children.
//!
//! Nothing here sends: starting a flight and handing it replies yields [`Send`]s, and at the end a [`FlightReply`] for whom the
//! flight was started. A request that was not sent, or has no reply in time, is a reply like any other.
//!
//! Each compound route that a request has reached and that has not decided yet is a frame; frames form a tree, from a
//! request of a client to the requests at servers.

mod big_value;
mod decide;
mod derive;
mod derived;
mod fill;
mod item;
mod mark;
mod render;
mod replicas;
mod reply;
mod size_split;
mod staging;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::destination::ReplyTarget;
use crate::operation::OperationClass;
use crate::plan::{CompoundKind, NodeId, RoutePlan, RouteStep, ServerId};
use crate::request::{RoutedRequest, StoredRequest};
use crate::slab::{Id, IdSlab};

#[cfg(test)]
pub(crate) use derived::COPIED_MAX;
use replicas::Replicas;
pub(crate) use reply::FlightReply;
use steps::{Assembled, Decision, Orders, Scene, State};

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
    /// Its part of [`Flights::copied`].
    copied: usize,
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
    /// Seconds since 1970; 0 if unknown.
    pub(crate) unix_s: i64,
    /// Counters of routes that do something every so many times.
    pub(crate) counts: HashMap<NodeId, u32>,
    pub(crate) assembled: Assembled,
    /// Bytes of copies for nobody that are stored.
    copied: usize,
    /// Somebody takes `sends` one by one: what is added meanwhile is taken by the same loop, not by one inside of it.
    pub(crate) is_sending: bool,
}

/// Requests whose memory is kept for later ones.
const SPARE_MAX: usize = 1024;

impl Flights {
    /// Keeps a request until [`Flights::release`].
    pub(crate) fn store(&mut self, message: &RoutedRequest<'_>, plan: Arc<RoutePlan>) -> Id {
        let mut request = self.spare.pop().unwrap_or_default();
        request.store(message);
        self.requests.insert(SharedRequest { request, plan, uses: 1, copied: 0 })
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
            && let Some(SharedRequest { request, copied, .. }) = self.requests.remove(id)
        {
            self.copied -= copied;
            self.reuse(request);
        }
    }

    /// Keeps a request's memory for a later one.
    fn reuse(&mut self, mut request: StoredRequest) {
        if self.spare.len() < SPARE_MAX {
            request.clear();
            self.spare.push(request);
        }
    }

    /// Frames, requests, and bytes that count against a limit.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.frames.len() + self.requests.len() + self.assembled.bytes + self.copied
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
        let RoutedRequest { operation, expected, .. } = stored.message();
        let node = match plan.step(node, operation, &stored.key(), self.unix_s, &mut *random) {
            RouteStep::Server { server, keep_prefix } => {
                shared.uses += 1;
                self.sends.push_back(Send { server, keep_prefix, request, target: owner });
                return None;
            }
            RouteStep::Answer(answer) => {
                return Some(FlightReply::without_server(answer, operation, expected));
            }
            RouteStep::Compound(node) => node,
        };
        let compound = plan.compound(node);
        let children = &compound.children;
        match &compound.kind {
            CompoundKind::AllAsync => {
                for child in children {
                    self.begin(plan, *child, request, ReplyTarget::Nobody, random);
                }
                return Some(FlightReply::without_server(None, operation, expected));
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
            CompoundKind::KeySplit(split) => {
                let message = stored.message();
                match split.replicas_of(&message) {
                    Replicas::None => return self.begin(plan, children[0], request, owner, random),
                    Replicas::Own => {
                        return self.begin_replica(plan, compound, split.own, request, owner, random);
                    }
                    Replicas::All => {
                        return self.begin_replicas(plan, compound, *split, request, owner, random);
                    }
                    Replicas::FirstHit => {}
                }
            }
            CompoundKind::BigValue(big) if big.first(&stored.message()).is_none() => {
                return self.begin(plan, children[0], request, owner, random);
            }
            CompoundKind::SizeSplit(split) if split.first(&stored.message()).is_none() => {
                return self.begin(plan, children[0], request, owner, random);
            }
            CompoundKind::ModifyKey(_) | CompoundKind::ModifyExptime(_) => {
                return self.begin_changed(plan, compound, request, owner, random);
            }
            _ => {}
        }
        let shared = self.requests.get_mut(request)?;
        shared.uses += 1;
        let state = State::new(&compound.kind, children.len(), &shared.request.message());
        let (first, at_once) = (state.first_child(), state.waiting);
        let frame = self.frames.insert(Frame { node, owner, request, state });
        let mut done = None;
        for child in first..first + at_once {
            let (node, target) = (compound.child(child), ReplyTarget::Frame(frame, child));
            let reply = match self.first_request(&compound.kind, (frame, child), request) {
                Some(derived) => self.begin_derived(plan, node, derived, target, random),
                None => self.begin(plan, node, request, target, random),
            };
            // Without a server: decided at once. A route may have its answer before all children are asked.
            if let Some(reply) = reply
                && let Some((_, reply)) = self.child_replied(frame, child, reply, random)
            {
                done = Some(reply);
            }
        }
        done
    }

    /// A child of a frame has its reply. Returns for whom this is a reply, if it is one.
    pub(crate) fn on_reply<'a>(
        &mut self,
        (frame, child): (Id, u16),
        reply: FlightReply<'a>,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<(ReplyTarget, FlightReply<'a>)> {
        let (mut owner, mut reply) = self.child_replied(frame, child, reply, random)?;
        while let ReplyTarget::Frame(parent, child) = owner {
            (owner, reply) = self.child_replied(parent, child, reply, random)?;
        }
        Some((owner, reply))
    }

    /// The same for one frame: asks further children, until the frame waits or has its reply.
    fn child_replied<'a>(
        &mut self,
        id: Id,
        mut child: u16,
        mut reply: FlightReply<'a>,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<(ReplyTarget, FlightReply<'a>)> {
        loop {
            let frame = self.frames.get_mut(id)?;
            let (owner, request) = (frame.owner, frame.request);
            let shared = self.requests.get_mut(request)?;
            let plan = Arc::clone(&shared.plan);
            let compound = plan.compound(frame.node);
            let mut scene = Scene {
                // The frame's own request: a child may have been asked another.
                message: shared.request.message(),
                unix_s: self.unix_s,
                node: frame.node,
                child,
                assembled: &mut self.assembled,
                counts: &mut self.counts,
            };
            let decision = frame.state.decide(&compound.kind, &mut scene, reply);
            let is_over = frame.state.waiting == 0;
            match decision {
                Decision::Wait => {
                    if is_over {
                        self.end_frame(id);
                    }
                    return None;
                }
                Decision::Ask(next) => {
                    child = next;
                    let (node, target) = (compound.child(child), ReplyTarget::Frame(id, child));
                    reply = self.begin(&plan, node, request, target, random)?;
                }
                Decision::Done(reply) => {
                    if is_over {
                        self.end_frame(id);
                    } else if let Some(frame) = self.frames.get_mut(id) {
                        // The others run on, for nobody.
                        frame.owner = ReplyTarget::Nobody;
                    }
                    return Some((owner, reply));
                }
                Decision::Orders(orders) => {
                    let Orders { copy, asks, answer } = *orders;
                    if let Some((child, copy)) = copy {
                        self.send_copy(&plan, compound.child(child), copy, random);
                    }
                    if is_over {
                        self.end_frame(id);
                        return answer.map(|answer| (owner, answer));
                    }
                    let goes_on = answer.is_none();
                    if let Some(frame) = self.frames.get_mut(id).filter(|_| !goes_on) {
                        frame.owner = ReplyTarget::Nobody;
                    }
                    let mut done = answer.map(|answer| (owner, answer));
                    for (child, derived) in asks {
                        let (node, target) = (compound.child(child), ReplyTarget::Frame(id, child));
                        let next = match derived {
                            Some(derived) => self.begin_derived(&plan, node, derived, target, random),
                            None => self.begin(&plan, node, request, target, random),
                        };
                        // Without a server: decided at once.
                        let decided = next.and_then(|next| self.child_replied(id, child, next, random));
                        done = done.or(decided.filter(|_| goes_on));
                    }
                    return done;
                }
            }
        }
    }

    fn end_frame(&mut self, id: Id) {
        if let Some(frame) = self.frames.remove(id) {
            self.assembled.bytes -= frame.state.parts.map_or(0, |parts| parts.len);
            self.release(frame.request);
        }
    }
}
