//! Routes that need the replies of their children: what each of them has to say, and the words of its decisions.
//!
//! A route decides, and does nothing: the engine of flights asks children, keeps requests and gives replies, and knows no
//! route by its name.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use stdx::clock::Now;

use crate::client::{HeldOutput, ReplyBytes};
use crate::flight::assembled::Assembled;
use crate::flight::delay::Delays;
use crate::flight::leg::Marks;
use crate::flight::reply::FlightReply;
use crate::flight::request_log::RequestLog;
use crate::flight::spares::Spares;
use crate::flight::turns::Turns;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::plan::choices::Choices;
use crate::servers::compression::Compressor;
use crate::shared::route_state::{StateId, StateKey};
use crate::stats::shadow_counts::ShadowCounts;

/// A type of route that needs the replies of its children, with the settings of one such route.
#[allow(private_interfaces, reason = "public for the examples of what does not compile")]
pub trait Route {
    /// What it knows of a request between the replies of its children. Of a route that never waits for them:
    /// [`Infallible`](std::convert::Infallible).
    type Progress;

    /// The route's name in reports; `None` for a part of what mcrouter's `root` does.
    fn name(&self) -> Option<&'static str>;

    /// A request has come.
    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Self::Progress>;

    /// A child has replied, and the route has not.
    fn replied<'a>(
        &self,
        progress: &mut Self::Progress,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a>;

    /// A child has replied after the route itself has. The reply is dropped unless a route has use for it.
    fn replied_late(&self, _: &mut Self::Progress, _: &mut Scene<'_>, _: &FlightReply<'_>) {}

    /// Whether a reply is the route's own for sure, whatever it knows.
    #[inline]
    fn is_final(&self, _: Operation, _: Outcome) -> bool {
        false
    }

    /// Whether its first child can be asked for the route without a flight: its reply is final unless it is an error, and
    /// nothing else depends on it. Never where a miss asks another child.
    #[inline]
    fn is_first_enough(&self, _: Operation) -> bool {
        false
    }

    /// Whether it is needed for a request at all. Asked before anything of the request is stored.
    #[inline]
    fn crossing(&self, _: &[NodeId], _: &RoutedKey<'_>, _: &mut Choices, _: &dyn Paths) -> Crossing {
        Crossing::Stop
    }

    /// What a child gets among several that are asked at once, if that is not the route's own request.
    fn request(&self, _: &RoutedRequest<'_>, _: Option<&Self::Progress>, _: u16) -> Option<StoredRequest> {
        None
    }

    /// Marks of the request for a child that is asked after another one, or at once with others.
    fn marks(&self, _child: u16, marks: Marks) -> Marks {
        marks
    }

    /// What goes on when a delay has ended: the reply that it has kept, or else its request to its child.
    fn take_kept(_: &mut Self::Progress) -> Option<FlightReply<'static>> {
        None
    }

    /// Bytes that it has taken of [`Assembled`], and that its end gives back.
    fn charged(_: &Self::Progress) -> usize {
        0
    }

    /// Whether a request to any child but the first counts as a failover.
    const IS_FAILOVER: bool = false;

    /// Whether the reply to a get of this child is for the client alone. Where a route copies items, a value that others have
    /// replaced by now would be there for good.
    fn only_reads(&self, _child: u16) -> bool {
        true
    }

    /// The children that a request for a key may go to, for reports.
    fn reached(&self, children: &[NodeId], _: &RoutedKey<'_>, _: &dyn Paths) -> Vec<NodeId> {
        children.to_vec()
    }

    /// The most servers that a request asks, of which each child asks `of(child)`.
    fn fan_out(&self, children: &[NodeId], of: &dyn Fn(&NodeId) -> u32) -> u32 {
        children.iter().map(of).fold(0, u32::saturating_add)
    }
}

/// What is known of the ways behind the children of a route.
pub(crate) trait Paths {
    /// The child that the last hash on the way of a request from `node` on chooses.
    fn last_choice(&self, node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> Option<usize>;

    /// The failure domain of the server that a request reaches from `node` on; 0 if it has none.
    fn failure_domain(&self, node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> u32;

    /// The route behind `node` if that chooses by the beginning of keys, and otherwise `node` itself.
    fn behind_prefixes(&self, node: NodeId, key: &RoutedKey<'_>) -> Option<NodeId>;

    /// Whether keys with a prefix that no route is for go to the default route.
    fn has_default_for_all(&self) -> bool;
}

/// What becomes of a request before a route's flight begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// The request goes on to this child, as if there were no route.
    On(NodeId),
    /// No route is for it.
    Nowhere,
    /// The route begins.
    Stop,
}

/// What a route may depend on when a request comes.
pub struct Opening<'o> {
    /// The request.
    pub(crate) message: RoutedRequest<'o>,
    pub(crate) children: &'o [NodeId],
    pub(crate) plan: &'o dyn Paths,
    /// Counts the plans.
    pub(crate) generation: u64,
    pub(crate) choices: &'o mut Choices,
    /// The shadow that was drawn to be compared.
    pub(crate) compared: Option<(u16, Arc<ShadowCounts>)>,
    /// Bytes of the request.
    pub(crate) bytes: usize,
    pub(crate) assembled: &'o mut Assembled,
    pub(crate) compressor: &'o mut Compressor,
    pub(crate) delays: &'o Delays,
    /// Memory for a request that is made of this one.
    pub(crate) spares: &'o mut Spares,
}

impl Opening<'_> {
    /// How many children there are.
    pub(crate) fn count(&self) -> u16 {
        u16::try_from(self.children.len()).expect("checked when the plan is compiled")
    }

    /// What the route remembers between requests.
    pub(crate) fn state(&self, id: StateId) -> StateKey {
        StateKey { generation: self.generation, id }
    }
}

/// What a route does with a request that has come.
#[allow(private_interfaces, reason = "public for the examples of what does not compile")]
pub enum FirstStep<P> {
    /// The route asks nobody: this is its reply.
    Answer(FlightReply<'static>),
    /// The route passes a request to this child, whose reply is the route's: the request that has come, or one of its own.
    Pass(u16, Option<StoredRequest>),
    /// The reply of one child is the route's; without one, it replies as if there were no item. Others get their requests
    /// (see [`Route::request`]) before or after, and nobody waits for their replies.
    Copy {
        /// Children that are asked before it.
        before: Numbers,
        /// The child whose reply counts.
        answer: Option<u16>,
        /// Children that are asked after it.
        after: Numbers,
    },
    /// The route waits for this child, which is asked the request that has come, or the route's own.
    Ask(P, u16, Option<StoredRequest>),
    /// The route waits for all of these children, which are asked at once; see [`Route::request`].
    AskAll(P, Numbers),
    /// The route asks its first child when the time has come.
    Later(P, Delayed),
}

impl<P> FirstStep<P> {
    #[inline]
    pub(super) fn map<Q>(self, progress: impl FnOnce(P) -> Q) -> FirstStep<Q> {
        match self {
            FirstStep::Answer(reply) => FirstStep::Answer(reply),
            FirstStep::Pass(child, request) => FirstStep::Pass(child, request),
            FirstStep::Copy { before, answer, after } => FirstStep::Copy { before, answer, after },
            FirstStep::Ask(own, child, request) => FirstStep::Ask(progress(own), child, request),
            FirstStep::AskAll(own, numbers) => FirstStep::AskAll(progress(own), numbers),
            FirstStep::Later(own, until) => FirstStep::Later(progress(own), until),
        }
    }
}

/// When a route's child is asked, if not at once.
pub(crate) enum Delayed {
    /// When it is its turn at this limit.
    Turn(StateId),
    /// At this time.
    Until(Now),
}

/// Children by their numbers, in the order in which they are asked.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    Range(Range<u16>),
    Pair(u16, u16),
    List(Box<[u16]>),
}

impl Numbers {
    pub(crate) const NONE: Numbers = Numbers::Range(0..0);

    pub(crate) fn len(&self) -> u16 {
        match self {
            Numbers::Range(range) => range.len() as u16,
            Numbers::Pair(..) => 2,
            Numbers::List(list) => list.len() as u16,
        }
    }

    /// The child at a place.
    pub(crate) fn at(&self, place: u16) -> u16 {
        match self {
            Numbers::Range(range) => range.start + place,
            Numbers::Pair(first, second) => [*first, *second][usize::from(place)],
            Numbers::List(list) => list[usize::from(place)],
        }
    }
}

/// What a decision may depend on besides the replies.
pub struct Scene<'s> {
    /// The request of the route.
    pub(crate) message: RoutedRequest<'s>,
    pub(crate) node: NodeId,
    pub(crate) children: &'s [NodeId],
    /// Whose reply it is.
    pub(crate) child: u16,
    /// Children that were asked and have no reply.
    pub(crate) waiting: u16,
    pub(crate) plan: &'s dyn Paths,
    /// Counts the plans.
    pub(crate) generation: u64,
    pub(crate) choices: &'s mut Choices,
    /// Bytes of values that routes of this worker put together.
    pub(crate) assembled: &'s mut Assembled,
    pub(crate) compressor: &'s mut Compressor,
    pub(crate) delays: &'s Delays,
    pub(crate) log: &'s mut RequestLog,
    pub(crate) turns: &'s mut Turns,
    /// For each node, how often [`Scene::is_nth`] was asked since it was true.
    pub(crate) counts: &'s mut HashMap<NodeId, u32>,
}

impl Scene<'_> {
    /// Whether this is the `period`th time for this route, of which it counts then anew. Never for 0.
    pub(crate) fn is_nth(&mut self, period: u32) -> bool {
        let count = self.counts.entry(self.node).or_default();
        *count += 1;
        let is_nth = *count == period;
        if is_nth || period == 0 {
            *count = 0;
        }
        is_nth
    }

    /// What the route remembers between requests.
    pub(crate) fn state(&self, id: StateId) -> StateKey {
        StateKey { generation: self.generation, id }
    }
}

/// The next step of a route.
#[allow(private_interfaces, reason = "public for the examples of what does not compile")]
pub enum Decision<'a> {
    /// For further replies.
    Wait,
    /// The route waits for this time, with a reply of so many bytes that it has kept ([`Route::take_kept`]).
    WaitUntil(Now, usize),
    /// Another child is asked the route's own request.
    Ask(u16),
    /// This is its reply.
    Done(FlightReply<'a>),
    /// Several things.
    Orders(Box<Orders<'a>>),
}

/// What a route of several steps wants done, in this order.
#[derive(Default)]
pub(crate) struct Orders<'a> {
    /// This request is sent to a child, whose reply is for nobody.
    pub(crate) copy: Option<(u16, StoredRequest)>,
    /// Children are asked: this request, or the route's own.
    pub(crate) asks: Vec<(u16, Option<StoredRequest>)>,
    /// This is the reply of the route. What follows is for nobody.
    pub(crate) answer: Option<FlightReply<'a>>,
}

impl<'a> From<Orders<'a>> for Decision<'a> {
    fn from(orders: Orders<'a>) -> Decision<'a> {
        Decision::Orders(Box::new(orders))
    }
}

/// The reply to give if no better one comes.
#[derive(Default)]
pub(crate) struct KeptReply(Option<(Outcome, HeldOutput)>);

impl KeptReply {
    /// Keeps a reply for later.
    pub(crate) fn keep(&mut self, reply: FlightReply<'_>) {
        self.0 = Some((reply.outcome, reply.into_output()));
    }

    /// Keeps a reply if it is worse than the one before.
    pub(crate) fn keep_worse(&mut self, reply: FlightReply<'_>) {
        if self.outcome().is_none_or(|kept| reply.outcome.severity() > kept.severity()) {
            self.keep(reply);
        }
    }

    /// The outcome of the reply that is kept.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.0.as_ref().map(|(outcome, _)| *outcome)
    }

    /// Forgets the reply that is kept.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// The reply, if there is one.
    pub(crate) fn take(&mut self) -> Option<FlightReply<'static>> {
        let (outcome, output) = self.0.take()?;
        Some(FlightReply { outcome, answer: ReplyBytes::Gathered(output) })
    }

    /// The reply.
    pub(crate) fn give(&mut self) -> FlightReply<'static> {
        self.take().expect("a reply was kept")
    }
}
