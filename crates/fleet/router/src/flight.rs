//! Flights: requests on their way through routes that need the replies of several children.
//!
//! Nothing here sends: starting a flight and handing it replies yields [`Send`]s, and at the end a [`FlightReply`] for whom the
//! flight was started. A request that was not sent, or has no reply in time, is a reply like any other.
//!
//! Each compound route that a request has reached and that has not decided yet is a frame; frames form a tree, from a
//! request of a client to the requests at servers.

mod big_value;
mod compare;
mod comparing;
mod compressed;
mod decide;
mod delay;
mod derive;
mod derived;
mod failover;
mod fill;
mod item;
mod mark;
mod render;
mod replicas;
mod reply;
mod request_log;
mod size_split;
mod staging;
mod steps;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use stdx::clock::Now;

use crate::message::operation::OperationClass;
use crate::message::outcome::Outcome;
use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::choices::Choices;
use crate::plan::{CompoundKind, LogId, NodeId, RoutePlan, RouteStep, ServerId};
use crate::servers::compression::Compressor;
use crate::servers::destination::ReplyTarget;
use crate::slab::{Id, IdSlab};

#[cfg(test)]
pub(crate) use big_value::PART_SIZE;
use big_value::TOO_MANY_VALUES;
use delay::Delays;
pub(crate) use derive::{flags, has_flag, is_binary};
#[cfg(test)]
pub(crate) use derived::COPIED_MAX;
use failover::FailoverContext;
pub(crate) use item::ReplyItem;
use replicas::Replicas;
pub(crate) use reply::FlightReply;
use request_log::RequestLog;
use steps::{Assembled, Decision, Orders, Scene, State};
use waiting::{Resumed, Start, reply_delay};

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
    pub(crate) marks: Marks,
}

/// What a route above has made of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Its key says that it is a failover.
    pub(crate) is_tagged: bool,
    /// It is for a shadow.
    pub(crate) is_shadow: bool,
    /// The log that takes it, if it is a delete that fails.
    pub(crate) log: Option<LogId>,
}

/// A request on its way to a route.
#[derive(Clone, Copy)]
pub(crate) struct Leg {
    pub(crate) request: Id,
    /// For whom its reply is.
    pub(crate) owner: ReplyTarget,
    pub(crate) marks: Marks,
}

/// A compound route that waits for replies of its children.
struct Frame {
    node: NodeId,
    /// For whom its reply is.
    owner: ReplyTarget,
    request: Id,
    state: State,
    marks: Marks,
}

/// A request with the plan that it began with.
struct SharedRequest {
    request: StoredRequest,
    plan: Arc<RoutePlan>,
    /// The client that sent it.
    client: Option<Id>,
    /// When it was stored.
    begun: Now,
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
    /// Counters of routes that do something every so many times.
    pub(crate) counts: HashMap<NodeId, u32>,
    pub(crate) assembled: Assembled,
    /// For pools with compression.
    pub(crate) compressor: Compressor,
    /// Bytes of copies for nobody that are stored.
    copied: usize,
    /// What goes on, in this order.
    resumed: VecDeque<Resumed>,
    delays: Delays,
    pub(crate) log: RequestLog,
    /// Requests that wait for a limit of outstanding requests.
    waiting: usize,
    /// The client whose requests are being served.
    pub(crate) client: Option<Id>,
    /// The time of the turn.
    pub(crate) now: Now,
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
        let (client, begun) = (self.client, self.now);
        self.requests.insert(SharedRequest { request, plan, client, begun, uses: 1, copied: 0 })
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

    /// Sends a request to the route at `node`. Returns its reply if it needs no server.
    pub(crate) fn begin(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let Leg { request, owner, mut marks } = leg;
        let shared = self.requests.get_mut(request)?;
        let stored = &shared.request;
        let operation = stored.operation();
        let step = plan.step(node, operation, &stored.key(), choices);
        // Before the shadows, which may have shadows that are compared.
        let compared = choices.take_compared();
        if !choices.shadows.is_empty() {
            self.begin_shadows(plan, leg, choices);
        }
        let node = match step {
            RouteStep::Server { server, keep_prefix, log } => {
                let marks = Marks { log: log.or(marks.log), ..marks };
                self.requests.get_mut(request)?.uses += 1;
                self.sends.push_back(Send { server, keep_prefix, request, target: owner, marks });
                return None;
            }
            RouteStep::Answer(answer) => {
                let message = self.requests.get_mut(request)?.request.message();
                return Some(FlightReply::own(answer, &message));
            }
            RouteStep::Compound(node, log) => {
                marks.log = log.or(marks.log);
                node
            }
        };
        let leg = Leg { marks, ..leg };
        let compound = plan.compound(node);
        let children = &compound.children;
        match &compound.kind {
            CompoundKind::AllAsync => {
                let nobody = Leg { owner: ReplyTarget::Nobody, ..leg };
                for child in children {
                    self.begin(plan, *child, nobody, choices);
                }
                let shared = self.requests.get_mut(request)?;
                return Some(FlightReply::own(None, &shared.request.message()));
            }
            CompoundKind::AllInitial => {
                return self.begin_first_waited(plan, children, leg, choices);
            }
            CompoundKind::Broadcast(places) => {
                let key = self.requests.get_mut(request)?.request.key();
                let targets = plan.targets(places, children, &key);
                return self.begin_first_waited(plan, &targets, leg, choices);
            }
            CompoundKind::Shadow(_) => {
                let compared = compared.expect("the step has drawn it");
                return self.begin_compared(plan, (node, compound), compared, leg, choices);
            }
            CompoundKind::MissFailover { .. }
                if !matches!(operation.class(), OperationClass::Get | OperationClass::Delete) =>
            {
                return self.begin(plan, children[0], leg, choices);
            }
            CompoundKind::KeySplit(split) => {
                let message = self.requests.get_mut(request)?.request.message();
                match split.replicas_of(&message) {
                    Replicas::None => return self.begin(plan, children[0], leg, choices),
                    Replicas::Own => return self.begin_replica(plan, compound, split.own, leg, choices),
                    Replicas::All => return self.begin_replicas(plan, compound, *split, leg, choices),
                    Replicas::FirstHit => {}
                }
            }
            CompoundKind::BigValue(big)
                if big.first(&self.requests.get_mut(request)?.request.message()).is_none() =>
            {
                return self.begin(plan, children[0], leg, choices);
            }
            CompoundKind::SizeSplit(split)
                if split.first(&self.requests.get_mut(request)?.request.message()).is_none() =>
            {
                return self.begin(plan, children[0], leg, choices);
            }
            CompoundKind::Compression(compression) => {
                return self.begin_compressed(plan, (node, compound), compression, leg, choices);
            }
            CompoundKind::ModifyKey(_) | CompoundKind::ModifyExptime(_) => {
                return self.begin_changed(plan, compound, leg, choices);
            }
            _ => {}
        }
        let mut state = State::new(&compound.kind, children.len(), &self.requests.get_mut(request)?.request);
        if let Some(parts) = &state.parts
            && !self.assembled.take(parts.charged)
        {
            return Some(FlightReply::error(Outcome::LocalError, TOO_MANY_VALUES));
        }
        if let CompoundKind::Outstanding(_) | CompoundKind::Delay(_) = compound.kind {
            match self.start(plan, compound, request, &mut state, choices) {
                Start::Now => {}
                Start::Never(why) => return Some(FlightReply::error(Outcome::Busy, why)),
                start => {
                    self.wait(plan, node, leg, (state, &start), choices);
                    return None;
                }
            }
        }
        self.requests.get_mut(request)?.uses += 1;
        let (first, at_once) = (state.first_child(), state.waiting);
        let frame = self.frames.insert(Frame { node, owner, request, state, marks });
        let mut done = None;
        for child in first..first + at_once {
            let (node, leg) = (compound.child(child), Leg { owner: ReplyTarget::Frame(frame, child), ..leg });
            let reply = match self.first_request(&compound.kind, (frame, child), request) {
                Some(derived) => self.begin_derived(plan, node, derived, leg, choices),
                None => self.begin(plan, node, leg, choices),
            };
            // Without a server: decided at once. A route may have its answer before all children are asked.
            if let Some(reply) = reply
                && let Some((_, reply)) = self.child_replied(frame, child, reply, choices)
            {
                done = Some(reply);
            }
        }
        done
    }

    /// Sends a request to several routes. Only the reply of the first is waited for.
    fn begin_first_waited(
        &mut self,
        plan: &Arc<RoutePlan>,
        routes: &[NodeId],
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let (first, others) = routes.split_first()?;
        let reply = self.begin(plan, *first, leg, choices);
        for other in others {
            self.begin(plan, *other, Leg { owner: ReplyTarget::Nobody, ..leg }, choices);
        }
        reply
    }

    /// A FailoverRoute whose first child was asked without a flight, and fails.
    #[cold]
    pub(crate) fn begin_late(&mut self, plan: &Arc<RoutePlan>, node: NodeId, leg: Leg) -> Option<Id> {
        let Leg { request, owner, marks } = leg;
        let compound = plan.compound(node);
        let shared = self.requests.get_mut(request)?;
        let state = State::new(&compound.kind, compound.children.len(), &shared.request);
        shared.uses += 1;
        Some(self.frames.insert(Frame { node, owner, request, state, marks }))
    }

    /// Sends a request to the shadows that get it, for nobody.
    #[cold]
    pub(crate) fn begin_shadows(&mut self, plan: &Arc<RoutePlan>, mut leg: Leg, choices: &mut Choices) {
        (leg.owner, leg.marks.is_shadow, leg.marks.log) = (ReplyTarget::Nobody, true, None);
        // A shadow may have shadows: they are taken by one of the calls inside of this one.
        while let Some(shadow) = choices.shadows.pop() {
            self.begin(plan, shadow, leg, choices);
        }
    }

    /// A child of a frame has its reply. Returns for whom this is a reply, if it is one.
    pub(crate) fn on_reply<'a>(
        &mut self,
        (frame, child): (Id, u16),
        reply: FlightReply<'a>,
        choices: &mut Choices,
    ) -> Option<(ReplyTarget, FlightReply<'a>)> {
        let (mut owner, mut reply) = self.child_replied(frame, child, reply, choices)?;
        while let ReplyTarget::Frame(parent, child) = owner {
            (owner, reply) = self.child_replied(parent, child, reply, choices)?;
        }
        Some((owner, reply))
    }

    /// The same for one frame: asks further children, until the frame waits or has its reply.
    fn child_replied<'a>(
        &mut self,
        id: Id,
        mut child: u16,
        mut reply: FlightReply<'a>,
        choices: &mut Choices,
    ) -> Option<(ReplyTarget, FlightReply<'a>)> {
        loop {
            let frame = self.frames.get_mut(id)?;
            let (owner, request) = (frame.owner, frame.request);
            let mut marks = frame.marks;
            let shared = self.requests.get_mut(request)?;
            // The route's own request: a child may have been asked another.
            let operation = shared.request.operation();
            // Nearly all requests of a FailoverRoute: a child has answered well.
            if let CompoundKind::Failover(settings) = &shared.plan.compound(frame.node).kind
                && settings.is_final(operation, reply.outcome)
            {
                self.end_frame(id);
                return Some((owner, reply));
            }
            let plan = Arc::clone(&shared.plan);
            let compound = plan.compound(frame.node);
            let message = shared.request.message();
            let mut scene = Scene {
                message,
                unix_s: choices.unix_s,
                node: frame.node,
                child,
                assembled: &mut self.assembled,
                compressor: &mut self.compressor,
                counts: &mut self.counts,
            };
            let had_moved_on = frame.state.has_moved_on();
            let decision = match &compound.kind {
                CompoundKind::Failover(settings) => {
                    marks.is_tagged |= settings.has_tag;
                    let (key, children) = (message.key, &compound.children);
                    let context = FailoverContext { plan: &plan, children, key, operation, choices };
                    frame.state.failover(settings, child, reply, context)
                }
                CompoundKind::Delay(latency) => {
                    let (bytes, until) =
                        (reply.answer.len(), reply_delay(latency, &frame.state, choices.now));
                    match until {
                        // Beyond the limit, a reply comes early rather than not at all.
                        Some(until) if self.delays.has_room(bytes) => {
                            frame.state.keep(reply);
                            self.delays.add(until, id, bytes);
                            return None;
                        }
                        _ => frame.state.decide(&compound.kind, &mut scene, reply),
                    }
                }
                CompoundKind::Shadow(_) => frame.state.compared(child, operation, reply, choices.now),
                CompoundKind::Log => {
                    let bytes = reply.answer.len();
                    self.log.note(operation, message.key.full, reply.outcome, bytes, choices.now);
                    frame.state.decide(&compound.kind, &mut scene, reply)
                }
                kind => frame.state.decide(kind, &mut scene, reply),
            };
            let is_over = frame.state.waiting == 0;
            let is_failover = matches!(compound.kind, CompoundKind::Failover(_));
            let has_moved_on = frame.state.has_moved_on();
            if let CompoundKind::Outstanding(state) = compound.kind {
                self.release_turn(&plan, state, choices);
            }
            match decision {
                Decision::Wait => {
                    if is_over {
                        self.end_frame(id);
                    }
                    return None;
                }
                Decision::Ask(next) => {
                    self.failovers.0 += u64::from(is_failover && !had_moved_on);
                    child = next;
                    let leg = Leg { request, owner: ReplyTarget::Frame(id, child), marks };
                    reply = self.begin(&plan, compound.child(child), leg, choices)?;
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
                Decision::Orders(orders) => {
                    let Orders { copy, asks, answer } = *orders;
                    if let Some((child, copy)) = copy {
                        let leg = Leg { request, owner: ReplyTarget::Nobody, marks };
                        self.send_copy(&plan, compound.child(child), copy, leg, choices);
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
                        let node = compound.child(child);
                        let leg = Leg { request, owner: ReplyTarget::Frame(id, child), marks };
                        let next = match derived {
                            Some(derived) => self.begin_derived(&plan, node, derived, leg, choices),
                            None => self.begin(&plan, node, leg, choices),
                        };
                        // Without a server: decided at once.
                        let decided = next.and_then(|next| self.child_replied(id, child, next, choices));
                        done = done.or(decided.filter(|_| goes_on));
                    }
                    return done;
                }
            }
        }
    }

    /// Whether a request was sent because another child of a FailoverRoute has failed.
    pub(crate) fn is_failover(&mut self, mut target: ReplyTarget) -> bool {
        while let ReplyTarget::Frame(id, child) = target {
            let Some(frame) = self.frames.get_mut(id) else { return false };
            let (owner, request, node) = (frame.owner, frame.request, frame.node);
            if child > 0 {
                let Some(shared) = self.requests.get_mut(request) else { return false };
                if matches!(shared.plan.compound(node).kind, CompoundKind::Failover(_)) {
                    return true;
                }
            }
            target = owner;
        }
        false
    }

    /// Whether the reply to a get is for a client, and no route makes a copy of its item. A copy of a value that others have
    /// replaced would be there for good.
    pub(crate) fn only_reads(&mut self, mut target: ReplyTarget) -> bool {
        while let ReplyTarget::Frame(id, child) = target {
            let Some(frame) = self.frames.get_mut(id) else { return false };
            let (owner, request, node) = (frame.owner, frame.request, frame.node);
            let Some(shared) = self.requests.get_mut(request) else { return false };
            match shared.plan.compound(node).kind {
                CompoundKind::Staging | CompoundKind::SizeSplit(_) => return false,
                CompoundKind::Fill(_) if child > 0 => return false,
                _ => target = owner,
            }
        }
        target != ReplyTarget::Nobody
    }

    /// For whom the reply of a frame is, and when its request began.
    pub(crate) fn owner_of(&mut self, frame: Id) -> Option<(ReplyTarget, Now)> {
        let Frame { owner, request, .. } = *self.frames.get_mut(frame)?;
        Some((owner, self.requests.get_mut(request)?.begun))
    }

    fn end_frame(&mut self, id: Id) {
        if let Some(frame) = self.frames.remove(id) {
            self.assembled.bytes -= frame.state.parts.map_or(0, |parts| parts.charged);
            self.release(frame.request);
        }
    }
}
