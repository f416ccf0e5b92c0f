//! Steps of compound routes: what one knows while it waits, and what it may want done.

use std::collections::HashMap;

use stdx::clock::Now;

use super::comparing::Comparing;
use super::failover::FailoverProgress;
use super::mark::Mark;
use super::reply::FlightReply;
use crate::client::{HeldOutput, ReplyBytes};
use crate::message::outcome::Outcome;
use crate::message::request::{RoutedRequest, StoredRequest};
use crate::plan::NodeId;
use crate::servers::compression::Compressor;

/// What a compound route knows about its children.
pub(super) struct State {
    /// Children that were asked and have no reply.
    pub(super) waiting: u16,
    /// The next child to ask, for routes that ask one after the other.
    pub(super) next: u16,
    /// How many there are.
    pub(super) count: u16,
    /// It has its reply; others are dropped.
    pub(super) is_done: bool,
    /// The reply to give if no better one comes.
    pub(super) kept: Option<(Outcome, HeldOutput)>,
    /// The reply that it waits for, for routes that ask one thing after the other.
    pub(super) stage: Stage,
    /// The worst reply to a part of a value that was not what was wanted.
    pub(super) failed: Option<(Outcome, HeldOutput)>,
    /// The parts of a value.
    pub(super) parts: Option<Box<BigParts>>,
    /// How often each outcome has come.
    pub(super) counts: Vec<(Outcome, u16)>,
    pub(super) failover: FailoverProgress,
    /// When its reply may be given.
    pub(super) not_before: Now,
    /// What is known of the replies that are compared.
    pub(super) comparing: Option<Box<Comparing>>,
}

/// The reply that a route of several steps waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Of a child, for routes that ask all children the same.
    Children,
    Fill(FillStage),
    Staging(StagingStage),
    SizeSplit(SizeSplitStage),
    BigValue(BigValueStage),
}

/// What a decision may depend on besides the replies.
pub(super) struct Scene<'s> {
    /// The request of the route.
    pub(super) message: RoutedRequest<'s>,
    /// Seconds since 1970; 0 if unknown.
    pub(super) unix_s: i64,
    pub(super) node: NodeId,
    /// Whose reply it is.
    pub(super) child: u16,
    /// Bytes of values that routes of this worker put together.
    pub(super) assembled: &'s mut Assembled,
    pub(super) compressor: &'s mut Compressor,
    /// For each node, how often [`Scene::is_nth`] was asked since it was true.
    pub(super) counts: &'s mut HashMap<NodeId, u32>,
}

impl Scene<'_> {
    /// Whether this is the `period`th time for this route, of which it counts then anew. Never for 0.
    pub(super) fn is_nth(&mut self, period: u32) -> bool {
        let count = self.counts.entry(self.node).or_default();
        *count += 1;
        let is_nth = *count == period;
        if is_nth || period == 0 {
            *count = 0;
        }
        is_nth
    }
}

/// What a route of several steps wants done, in this order.
#[derive(Default)]
pub(super) struct Orders<'a> {
    /// This request is sent to a child, whose reply is for nobody.
    pub(super) copy: Option<(u16, StoredRequest)>,
    /// Children are asked: this request, or the route's own.
    pub(super) asks: Vec<(u16, Option<StoredRequest>)>,
    /// This is the reply of the route. What follows is for nobody.
    pub(super) answer: Option<FlightReply<'a>>,
}

/// The next step of a compound route.
pub(super) enum Decision<'a> {
    /// For further replies.
    Wait,
    /// Another child.
    Ask(u16),
    /// This is its reply.
    Done(FlightReply<'a>),
    /// Several things.
    Orders(Box<Orders<'a>>),
}

/// The reply that a filling route waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FillStage {
    Near,
    Far,
    /// Of the copy, before near is asked again.
    Storing,
    Again,
    /// Of far, for a request about the item itself: near fails.
    StandIn,
    /// Of far, for an item that stands for a miss and is to be renewed.
    Renewing,
}

/// The reply that a StagingRoute waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StagingStage {
    Warm,
    /// Whether staging has the item.
    Look,
    /// The item of warm.
    Fetch,
}

/// The reply that an L1L2SizeSplitRoute waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SizeSplitStage {
    /// Of l1, to a read.
    Small,
    /// Of l2, to a read: l1 has this mark.
    Large(Mark),
    /// Of l1, which shall have this mark and is to forget it.
    Forget(Mark),
    /// Of l2, to a set.
    Body,
    /// Of l1, to its mark.
    Marked,
    /// Of l1, to a set that l2 gets then, too.
    Both,
}

impl SizeSplitStage {
    /// The child that is asked first.
    pub(super) fn first_child(self) -> u16 {
        u16::from(self == SizeSplitStage::Body)
    }
}

/// The reply that a BigValueRoute waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BigValueStage {
    /// To a read: a value, or where its parts are.
    Index,
    /// To reads of parts.
    Read,
    /// To sets of parts.
    Write,
    /// To the set of the index.
    Written,
}

/// Bytes of values that a worker puts together, with what their parts take besides, and of those that it writes in parts.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) bytes: usize,
    /// No window of a client bounds them, and sets without a reply have none: this does.
    pub(crate) max: usize,
}

impl Assembled {
    /// Counts further bytes, if there is room.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.bytes + bytes <= self.max;
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }
}

/// See [`Assembled::max`]: two of the longest values.
const ASSEMBLED_MAX: usize = 256 << 20;

impl Default for Assembled {
    fn default() -> Assembled {
        Assembled { bytes: 0, max: ASSEMBLED_MAX }
    }
}

/// The parts of a value, while they are read or written.
#[derive(Debug, Default)]
pub(super) struct BigParts {
    pub(super) count: u16,
    /// In the keys of the parts.
    pub(super) suffix: u64,
    /// The next one to ask for.
    pub(super) next: u16,
    /// Those that were read, with their numbers. It grows with them, and not with what an index says.
    pub(super) read: Vec<(u16, HeldOutput)>,
    /// Bytes of their values.
    pub(super) len: usize,
    /// Their part of [`Assembled::bytes`].
    pub(super) charged: usize,
}

impl<'a> From<Orders<'a>> for Decision<'a> {
    fn from(orders: Orders<'a>) -> Decision<'a> {
        Decision::Orders(Box::new(orders))
    }
}

impl State {
    /// The child that is asked first, alone or before all others.
    pub(super) fn first_child(&self) -> u16 {
        match self.stage {
            Stage::SizeSplit(stage) => stage.first_child(),
            _ => 0,
        }
    }

    /// Keeps a reply for later.
    pub(super) fn keep(&mut self, reply: FlightReply<'_>) {
        self.kept = Some((reply.outcome, reply.into_output()));
    }

    /// Whether it has kept a reply.
    pub(super) fn has_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// The reply that it has kept.
    pub(super) fn take_kept(&mut self) -> FlightReply<'static> {
        let (outcome, output) = self.kept.take().expect("a reply was kept");
        FlightReply { outcome, answer: ReplyBytes::Gathered(output) }
    }

    pub(super) fn give_kept<'a>(&mut self) -> Decision<'a> {
        Decision::Done(self.take_kept())
    }
}
