//! Exchanges: requests that wait for their replies.

use super::tokens::ReplyToken;
use crate::client::SlotNumber;
use crate::message::operation::Operation;
use crate::plan::NodeId;
use crate::slab::Id;

/// For whom a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyTarget {
    /// It is dropped.
    Nobody,
    /// A request of a client.
    Slot(Id, SlotNumber),
    /// Several keys of a client's request; the tokens have the parts.
    Values(Id, SlotNumber),
    /// One key of several.
    Part(Id, SlotNumber, u32),
    /// A child of a route.
    Frame(Id, u16),
    /// A delete that a log takes if it fails.
    Log(Id),
}

impl ReplyTarget {
    /// The client, if it is asked for by one without a route between.
    pub(crate) fn client(self) -> Option<Id> {
        match self {
            ReplyTarget::Slot(client, _) | ReplyTarget::Values(client, _) | ReplyTarget::Part(client, ..) => {
                Some(client)
            }
            ReplyTarget::Nobody | ReplyTarget::Frame(..) | ReplyTarget::Log(_) => None,
        }
    }
}

/// What a reply must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// Values of keys, in their order, and `END`.
    Values,
    /// A line that suits the operation.
    Line,
    /// A meta reply with the opaque of the request.
    Meta {
        /// The opaque is the router's, and is removed.
        strip: bool,
        /// A usual outcome is not reported.
        quiet: bool,
    },
    /// `VERSION`: a probe.
    Version,
}

/// A request that waits for its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) target: ReplyTarget,
    pub(crate) sent_us: u64,
    /// `None` for a probe.
    pub(crate) operation: Option<Operation>,
    pub(crate) expected: ReplyKind,
    /// Tokens that its reply may still name.
    pub(crate) keys: u32,
    /// It is for a shadow.
    pub(crate) is_shadow: bool,
    /// Its destination has a note of what it means for hot values.
    pub(crate) is_noted: bool,
    /// It is a get that has no flight, because it goes to the normal server of this route.
    pub(crate) late_failover: Option<LateFailover>,
}

impl Exchange {
    /// One that was just sent, for no shadow, and whose reply means nothing else.
    #[inline]
    pub(crate) fn new(
        target: ReplyTarget,
        sent_us: u64,
        operation: Option<Operation>,
        expected: ReplyKind,
        keys: u32,
    ) -> Exchange {
        Exchange {
            target,
            sent_us,
            operation,
            expected,
            keys,
            is_shadow: false,
            late_failover: None,
            is_noted: false,
        }
    }
}

/// A FailoverRoute that is to be asked if an exchange fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateFailover {
    pub(crate) node: NodeId,
    /// Of its plan.
    pub(crate) generation: u32,
}

/// An exchange without a reply.
#[derive(Debug)]
pub(crate) struct FailedExchange {
    pub(crate) target: ReplyTarget,
    pub(crate) sent_us: u64,
    pub(crate) operation: Option<Operation>,
    /// For [`ReplyTarget::Values`]: the parts without an answer.
    pub(crate) parts: Vec<u32>,
    /// Other servers are to be asked for these keys, in the order of the parts.
    pub(crate) late_failover: Option<LateFailover>,
    pub(crate) keys: Vec<Box<[u8]>>,
}

impl FailedExchange {
    pub(super) fn new(exchange: &Exchange) -> FailedExchange {
        let Exchange { target, sent_us, operation, late_failover, .. } = *exchange;
        FailedExchange { target, sent_us, operation, parts: Vec::new(), late_failover, keys: Vec::new() }
    }

    pub(super) fn add(&mut self, token: ReplyToken<'_>) {
        self.parts.push(token.part);
        if self.late_failover.is_some() {
            self.keys.push(token.client_key().into());
        }
    }
}
