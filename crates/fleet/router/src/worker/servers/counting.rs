//! Counting of requests to servers and their outcomes.

use std::sync::Arc;

use stdx::clock::Now;

use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::servers::destination::{Delivery, Destination, FailedExchange, ReplyTarget};
use crate::stats::RouteCells;

/// The request at the front of a destination's queue: when it was sent, and whether it is for several keys. `None` if it has
/// timed out since, and was counted.
pub(crate) type Asked = Option<(u64, bool)>;

/// The request to which the next reply of a destination belongs.
#[inline]
pub(super) fn asked(destination: &Destination) -> Asked {
    let exchange = destination.queue.asked()?;
    Some((exchange.sent_us, matches!(exchange.target, ReplyTarget::Values(..))))
}

/// Counters of a worker's requests to servers.
pub(super) struct ServerCounts {
    cells: Arc<RouteCells>,
}

impl ServerCounts {
    pub(super) fn new(cells: Arc<RouteCells>) -> ServerCounts {
        ServerCounts { cells }
    }

    #[inline]
    pub(super) fn cells(&self) -> &RouteCells {
        &self.cells
    }

    /// `count` requests are for a destination now.
    #[inline]
    pub(super) fn sent(&self, to: &Destination, operation: Operation, count: u64, is_failover: bool) {
        self.cells.sent(operation, count, is_failover);
        to.cells.requests.add(count);
    }

    /// A reply has come from a destination.
    #[inline]
    pub(super) fn reply(
        &self,
        from: &Destination,
        asked: Asked,
        delivery: &Delivery<'_>,
        is_failover: bool,
        now: Now,
    ) {
        let (Some((sent_us, has_several)), Some(operation)) = (asked, delivery.operation) else { return };
        let is_end = matches!(delivery.target, ReplyTarget::Values(..));
        if !is_end {
            self.ended(from, delivery.outcome, 1, is_failover);
        }
        // A request for several keys has an outcome for each, and one time, at its end.
        if has_several != is_end {
            return;
        }
        self.took(from, operation, sent_us, now);
    }

    /// A request to a server ends that was sent at this time.
    #[inline]
    fn took(&self, by: &Destination, operation: Operation, sent_us: u64, now: Now) {
        let us = now.us.saturating_sub(sent_us);
        self.cells.took(operation, us);
        by.cells.took(us);
        if let Some(pool) = by.cells.pool {
            self.cells.pools[usize::from(pool.0)].took(us);
        }
    }

    /// A request has no reply.
    pub(super) fn failed(
        &self,
        by: &Destination,
        failed: &FailedExchange,
        outcome: Outcome,
        is_failover: bool,
        now: Now,
    ) {
        let Some(operation) = failed.operation else { return };
        let count = match failed.target {
            ReplyTarget::Values(..) => failed.parts.len() as u64,
            _ => 1,
        };
        self.ended(by, outcome, count, is_failover);
        self.waited(by, operation, outcome, failed.sent_us, now);
    }

    /// A get over UDP is lost.
    pub(super) fn lost(&self, by: &Destination, outcome: Outcome, is_failover: bool, sent_us: u64, now: Now) {
        self.ended(by, outcome, 1, is_failover);
        self.waited(by, Operation::Get, outcome, sent_us, now);
    }

    fn waited(&self, by: &Destination, operation: Operation, outcome: Outcome, sent_us: u64, now: Now) {
        if outcome == Outcome::Timeout {
            self.took(by, operation, sent_us, now);
        }
    }

    /// Requests to a destination have an outcome.
    #[inline]
    pub(super) fn ended(&self, by: &Destination, outcome: Outcome, count: u64, is_failover: bool) {
        self.cells.ended(outcome, count, is_failover);
        by.cells.ended(outcome, count);
        if let Some(pool) = by.cells.pool
            && outcome != Outcome::Unavailable
        {
            self.cells.pools[usize::from(pool.0)].requests.add(count);
        }
    }
}
