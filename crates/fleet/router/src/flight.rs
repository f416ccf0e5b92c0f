//! Flights: requests on their way through routes that need the replies of several children.
//!
//! Nothing here sends: starting a flight and handing it replies yields [`Send`]s, and at the end a [`FlightReply`] for whom the
//! flight was started. A request that was not sent, or has no reply in time, is a reply like any other.
//!
//! Each compound route that a request has reached and that has not decided yet is a frame; frames form a tree, from a
//! request of a client to the requests at servers.

pub(crate) mod assembled;
pub(crate) mod delay;
pub(crate) mod derive;
mod derived;
pub(crate) mod item;
pub(crate) mod leg;
pub(crate) mod render;
pub(crate) mod reply;
pub(crate) mod request_log;
pub(crate) mod spares;
#[cfg(test)]
mod tests;
pub(crate) mod turns;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use stdx::clock::Now;

use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::choices::Choices;
use crate::plan::{Compound, NodeId, RoutePlan, RouteStep};
use crate::routes::RouteProgress;
use crate::routes::route::{Decision, FirstStep, Numbers, Opening, Orders, Scene};
use crate::servers::compression::Compressor;
use crate::servers::destination::ReplyTarget;
use crate::slab::{Id, IdSlab};
use crate::stats::shadow_counts::ShadowCounts;

use assembled::Assembled;
use delay::Delays;
pub(crate) use derive::{flags, has_flag, is_binary};
#[cfg(test)]
pub(crate) use derived::COPIED_MAX;
pub(crate) use item::ReplyItem;
pub(crate) use leg::{Leg, Marks, Send};
pub(crate) use reply::FlightReply;
use request_log::RequestLog;
use spares::Spares;
use turns::Turns;

/// A compound route that waits for replies of its children.
struct Frame {
    node: NodeId,
    /// For whom its reply is.
    owner: ReplyTarget,
    request: Id,
    marks: Marks,
    /// Children that were asked and have no reply.
    waiting: u16,
    /// It has its reply; others are dropped.
    is_done: bool,
    /// It has asked another child than at first.
    has_moved_on: bool,
    progress: RouteProgress,
}

/// Frames of all routes are as large as the largest: what few routes need stands in a box.
const _: () = assert!(size_of::<RouteProgress>() <= 96);

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
    spares: Spares,
    /// What is to be sent, in this order.
    pub(crate) sends: VecDeque<Send>,
    /// Counters of routes that do something every so many times.
    pub(crate) counts: HashMap<NodeId, u32>,
    pub(crate) assembled: Assembled,
    /// For pools with compression.
    pub(crate) compressor: Compressor,
    /// Bytes of copies for nobody that are stored.
    copied: usize,
    turns: Turns,
    delays: Delays,
    pub(crate) log: RequestLog,
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

impl Flights {
    /// Keeps a request until [`Flights::release`].
    pub(crate) fn store(&mut self, message: &RoutedRequest<'_>, plan: Arc<RoutePlan>) -> Id {
        let mut request = self.spares.take();
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
            self.spares.give(request);
        }
    }

    /// Frames, requests, and bytes that count against a limit.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.frames.len() + self.requests.len() + self.assembled.bytes() + self.copied
    }

    /// Sends a request to the route at `node`. Returns its reply if it needs no server.
    pub(crate) fn begin(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let Leg { request, owner, marks } = leg;
        let stored = &self.requests.get_mut(request)?.request;
        let step = plan.step(node, stored.operation(), &stored.key(), choices);
        // Before the shadows, which may have shadows that are compared.
        let compared = choices.take_compared();
        if !choices.shadows.is_empty() {
            self.begin_shadows(plan, leg, choices);
        }
        match step {
            RouteStep::Server { server, keep_prefix, log } => {
                let marks = Marks { log: log.or(marks.log), ..marks };
                self.requests.get_mut(request)?.uses += 1;
                self.sends.push_back(Send { server, keep_prefix, request, target: owner, marks });
                None
            }
            RouteStep::Answer(answer) => {
                let message = self.requests.get_mut(request)?.request.message();
                Some(FlightReply::own(answer, &message))
            }
            RouteStep::Compound(node, log) => {
                let leg = Leg { marks: Marks { log: log.or(marks.log), ..marks }, ..leg };
                let first = self.open(plan, node, request, compared, choices)?;
                self.take_first_step(plan, node, leg, first, choices)
            }
        }
    }

    /// What the route at `node` does first with a request.
    #[inline]
    fn open(
        &mut self,
        plan: &RoutePlan,
        node: NodeId,
        request: Id,
        compared: Option<(u16, Arc<ShadowCounts>)>,
        choices: &mut Choices,
    ) -> Option<FirstStep<RouteProgress>> {
        let Compound { kind, children } = plan.compound(node);
        let shared = self.requests.get_mut(request)?;
        let mut opening = Opening {
            message: shared.request.message(),
            children,
            plan,
            generation: plan.generation,
            choices,
            compared,
            bytes: shared.request.len(),
            assembled: &mut self.assembled,
            compressor: &mut self.compressor,
            delays: &self.delays,
            spares: &mut self.spares,
        };
        Some(kind.begin(&mut opening))
    }

    /// Does what the route at `node` wants done first.
    #[inline]
    fn take_first_step(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        leg: Leg,
        first: FirstStep<RouteProgress>,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let compound = plan.compound(node);
        match first {
            FirstStep::Answer(reply) => Some(reply),
            FirstStep::Pass(child, request) => self.ask(plan, compound.child(child), request, leg, choices),
            FirstStep::Copy { before, answer, after } => {
                self.send_copies(plan, compound, (&before, answer), leg, choices);
                let reply = match answer {
                    Some(child) => self.ask_one_of(plan, compound, (None, child), leg, choices),
                    None => {
                        let message = self.requests.get_mut(leg.request)?.request.message();
                        Some(FlightReply::own(None, &message))
                    }
                };
                self.send_copies(plan, compound, (&after, answer), leg, choices);
                reply
            }
            FirstStep::Ask(progress, child, request) => {
                let frame = self.add_frame(node, leg, 1, progress)?;
                let asked = Leg { owner: ReplyTarget::Frame(frame, child), ..leg };
                let reply = self.ask(plan, compound.child(child), request, asked, choices)?;
                // Without a server: decided at once.
                self.child_replied(frame, child, reply, choices).map(|(_, reply)| reply)
            }
            FirstStep::AskAll(progress, numbers) => {
                let frame = self.add_frame(node, leg, numbers.len(), progress)?;
                self.ask_all(plan, compound, (frame, &numbers), leg, choices)
            }
            FirstStep::Later(progress, until) => {
                let frame = self.add_frame(node, leg, 1, progress)?;
                self.wait(plan, frame, leg.request, until, choices);
                None
            }
        }
    }

    /// A frame of the route at `node`, which waits for so many children.
    #[inline]
    fn add_frame(&mut self, node: NodeId, leg: Leg, waiting: u16, progress: RouteProgress) -> Option<Id> {
        let Leg { request, owner, marks } = leg;
        self.requests.get_mut(request)?.uses += 1;
        let (is_done, has_moved_on) = (false, false);
        Some(self.frames.insert(Frame {
            node,
            owner,
            request,
            marks,
            waiting,
            is_done,
            has_moved_on,
            progress,
        }))
    }

    /// Sends the route at `node` this request, or that of `leg`.
    #[inline]
    fn ask(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        request: Option<StoredRequest>,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        match request {
            Some(derived) => self.begin_derived(plan, node, derived, leg, choices),
            None => self.begin(plan, node, leg, choices),
        }
    }

    /// Sends one of the children that get a request at once what it gets. The route has a frame if it waits for them.
    #[inline]
    fn ask_one_of(
        &mut self,
        plan: &Arc<RoutePlan>,
        compound: &Compound,
        (frame, child): (Option<Id>, u16),
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let message = self.requests.get_mut(leg.request)?.request.message();
        let progress = frame.and_then(|frame| self.frames.get_mut(frame)).map(|frame| &frame.progress);
        let request = compound.kind.request(&message, progress, child);
        self.ask(plan, compound.child(child), request, leg, choices)
    }

    /// Sends a request to several children, but the one that answers. No reply is waited for.
    fn send_copies(
        &mut self,
        plan: &Arc<RoutePlan>,
        compound: &Compound,
        (numbers, answer): (&Numbers, Option<u16>),
        leg: Leg,
        choices: &mut Choices,
    ) {
        for child in (0..numbers.len()).map(|place| numbers.at(place)).filter(|child| answer != Some(*child))
        {
            let nobody = Leg { owner: ReplyTarget::Nobody, ..leg };
            self.ask_one_of(plan, compound, (None, child), nobody, choices);
        }
    }

    /// Asks all of the first children of a frame.
    fn ask_all(
        &mut self,
        plan: &Arc<RoutePlan>,
        compound: &Compound,
        (frame, numbers): (Id, &Numbers),
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let mut done = None;
        for child in (0..numbers.len()).map(|place| numbers.at(place)) {
            let marks = compound.kind.marks(child, leg.marks);
            let leg = Leg { owner: ReplyTarget::Frame(frame, child), marks, ..leg };
            // Without a server: decided at once. A route may have its answer before all children are asked.
            if let Some(reply) = self.ask_one_of(plan, compound, (Some(frame), child), leg, choices)
                && let Some((_, reply)) = self.child_replied(frame, child, reply, choices)
            {
                done = Some(reply);
            }
        }
        done
    }

    /// A route whose first child was asked without a flight, and fails.
    #[cold]
    pub(crate) fn begin_late(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<Id> {
        match self.open(plan, node, leg.request, None, choices)? {
            FirstStep::Ask(progress, 0, None) => self.add_frame(node, leg, 1, progress),
            _ => unreachable!("the first child of such a route is enough"),
        }
    }

    /// Sends a request to the shadows that get it, for nobody.
    #[cold]
    pub(crate) fn begin_shadows(&mut self, plan: &Arc<RoutePlan>, leg: Leg, choices: &mut Choices) {
        let leg = Leg { owner: ReplyTarget::Nobody, marks: leg.marks.of_shadow(), ..leg };
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
            let (owner, node) = (frame.owner, frame.node);
            let shared = self.requests.get_mut(frame.request)?;
            // The route's own request: a child may have been asked another.
            let operation = shared.request.operation();
            if shared.plan.compound(node).kind.is_final(operation, reply.outcome) {
                self.end_frame(id);
                return Some((owner, reply));
            }
            let plan = Arc::clone(&shared.plan);
            let compound = plan.compound(node);
            match self.decide(&plan, (id, child), reply, choices)? {
                Decision::Wait => {
                    self.end_if_over(id);
                    return None;
                }
                Decision::WaitUntil(until, bytes) => {
                    self.delays.add(until, id, bytes);
                    return None;
                }
                Decision::Ask(next) => {
                    let leg = self.move_on(id, compound, next)?;
                    child = next;
                    reply = self.begin(&plan, compound.child(child), leg, choices)?;
                }
                Decision::Done(reply) => {
                    let is_failover = compound.kind.is_failover() && self.frames.get_mut(id)?.has_moved_on;
                    self.failovers.1 += u64::from(is_failover && reply.outcome.is_failover_error());
                    self.give(id);
                    return Some((owner, reply));
                }
                Decision::Orders(orders) => return self.obey(&plan, id, *orders, choices),
            }
        }
    }

    /// What the reply of a child means.
    #[inline]
    fn decide<'a>(
        &mut self,
        plan: &RoutePlan,
        (id, child): (Id, u16),
        reply: FlightReply<'a>,
        choices: &mut Choices,
    ) -> Option<Decision<'a>> {
        let frame = self.frames.get_mut(id)?;
        let shared = self.requests.get_mut(frame.request)?;
        let Compound { kind, children } = plan.compound(frame.node);
        frame.waiting -= 1;
        let mut scene = Scene {
            message: shared.request.message(),
            node: frame.node,
            children,
            child,
            waiting: frame.waiting,
            plan,
            generation: plan.generation,
            choices,
            assembled: &mut self.assembled,
            compressor: &mut self.compressor,
            delays: &self.delays,
            log: &mut self.log,
            turns: &mut self.turns,
            counts: &mut self.counts,
        };
        if frame.is_done {
            kind.replied_late(&mut frame.progress, &mut scene, &reply);
            return Some(Decision::Wait);
        }
        let decision = kind.replied(&mut frame.progress, &mut scene, reply);
        match &decision {
            Decision::Wait | Decision::WaitUntil(..) => {}
            Decision::Done(_) => frame.is_done = true,
            Decision::Ask(_) => frame.waiting += 1,
            Decision::Orders(orders) => frame.waiting += orders.asks.len() as u16,
        }
        Some(decision)
    }

    /// A frame asks another child: the leg to it.
    fn move_on(&mut self, id: Id, compound: &Compound, child: u16) -> Option<Leg> {
        let frame = self.frames.get_mut(id)?;
        self.failovers.0 += u64::from(compound.kind.is_failover() && !frame.has_moved_on);
        frame.has_moved_on = true;
        let marks = compound.kind.marks(child, frame.marks);
        Some(Leg { request: frame.request, owner: ReplyTarget::Frame(id, child), marks })
    }

    /// Does what a route of several steps wants done.
    fn obey<'a>(
        &mut self,
        plan: &Arc<RoutePlan>,
        id: Id,
        orders: Orders<'a>,
        choices: &mut Choices,
    ) -> Option<(ReplyTarget, FlightReply<'a>)> {
        let Frame { node, owner, request, marks, waiting, .. } = *self.frames.get_mut(id)?;
        let compound = plan.compound(node);
        let Orders { copy, asks, answer } = orders;
        if let Some((child, copy)) = copy {
            let leg = Leg { request, owner: ReplyTarget::Nobody, marks };
            self.send_copy(plan, compound.child(child), copy, leg, choices);
        }
        let goes_on = answer.is_none();
        let mut done = answer.map(|answer| (owner, answer));
        if waiting == 0 {
            self.end_frame(id);
            return done;
        }
        if !goes_on {
            self.give(id);
        }
        for (child, derived) in asks {
            let leg = Leg { request, owner: ReplyTarget::Frame(id, child), marks };
            let next = self.ask(plan, compound.child(child), derived, leg, choices);
            // Without a server: decided at once.
            let decided = next.and_then(|next| self.child_replied(id, child, next, choices));
            done = done.or(decided.filter(|_| goes_on));
        }
        done
    }

    /// A frame has given its reply. If children still run, it is for nobody.
    fn give(&mut self, id: Id) {
        if let Some(frame) = self.frames.get_mut(id) {
            frame.owner = ReplyTarget::Nobody;
        }
        self.end_if_over(id);
    }

    fn end_if_over(&mut self, id: Id) {
        if self.frames.get_mut(id).is_some_and(|frame| frame.waiting == 0) {
            self.end_frame(id);
        }
    }

    /// Whether a request was sent because another child of a route has failed.
    pub(crate) fn is_failover(&mut self, mut target: ReplyTarget) -> bool {
        while let ReplyTarget::Frame(id, child) = target {
            let Some(frame) = self.frames.get_mut(id) else { return false };
            let (owner, request, node) = (frame.owner, frame.request, frame.node);
            if child > 0 {
                let Some(shared) = self.requests.get_mut(request) else { return false };
                if shared.plan.compound(node).kind.is_failover() {
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
            if !shared.plan.compound(node).kind.only_reads(child) {
                return false;
            }
            target = owner;
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
            self.assembled.give(frame.progress.charged());
            self.release(frame.request);
        }
    }
}
