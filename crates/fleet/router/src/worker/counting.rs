//! Counting of requests to servers and their outcomes.

use super::RouteWorker;
use super::servers::NotSent;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::plan::choices::RouteCounts;
use crate::servers::destination::{Delivery, FailedExchange, ReplyTarget};

/// The request at the front of a destination's queue: when it was sent, and whether it is for several keys. `None` if it has
/// timed out since, and was counted.
pub(super) type Asked = Option<(u64, bool)>;

impl RouteWorker {
    /// `count` requests are for a destination now.
    #[inline]
    pub(super) fn count_sent(&mut self, place: u32, operation: Operation, count: u64, target: ReplyTarget) {
        let is_failover = self.flights.is_failover(target);
        self.cells.sent(operation, count, is_failover);
        let cells = &self.destinations[place as usize].cells;
        cells.requests.add(count);
        if let Some(pool) = cells.pool {
            self.note_pool(place, pool, target);
        }
    }

    /// They were not sent.
    #[cold]
    pub(super) fn count_not_sent(
        &mut self,
        place: u32,
        not_sent: NotSent,
        count: u64,
        target: ReplyTarget,
    ) -> NotSent {
        self.count_outcome(place, not_sent.outcome, count, target);
        not_sent
    }

    /// The request to which the next reply of a destination belongs.
    #[inline]
    pub(super) fn asked(&self, place: u32) -> Asked {
        let destination = &self.destinations[place as usize];
        if destination.expired > 0 {
            return None;
        }
        let exchange = destination.exchanges.front()?;
        Some((exchange.sent_us, matches!(exchange.target, ReplyTarget::Values(..))))
    }

    /// A reply has come.
    #[inline]
    pub(super) fn count_reply(&mut self, place: u32, asked: Asked, delivery: &Delivery<'_>) {
        let (Some((sent_us, has_several)), Some(operation)) = (asked, delivery.operation) else { return };
        let is_end = matches!(delivery.target, ReplyTarget::Values(..));
        if !is_end {
            self.count_outcome(place, delivery.outcome, 1, delivery.target);
        }
        // A request for several keys has an outcome for each, and one time, at its end.
        if has_several != is_end {
            return;
        }
        self.count_time(place, operation, sent_us);
    }

    /// A request to a server ends that was sent at this time.
    #[inline]
    fn count_time(&mut self, place: u32, operation: Operation, sent_us: u64) {
        let us = self.now.us.saturating_sub(sent_us);
        self.cells.took(operation, us);
        let cells = &self.destinations[place as usize].cells;
        cells.took(us);
        if let Some(pool) = cells.pool {
            self.cells.pools[usize::from(pool.0)].took(us);
        }
    }

    /// A request has no reply.
    pub(super) fn count_failed(&mut self, place: u32, failed: &FailedExchange, outcome: Outcome) {
        let Some(operation) = failed.operation else { return };
        let count = match failed.target {
            ReplyTarget::Values(..) => failed.parts.len() as u64,
            _ => 1,
        };
        self.count_outcome(place, outcome, count, failed.target);
        self.count_wait(place, operation, outcome, failed.sent_us);
    }

    /// A get over UDP is lost.
    pub(super) fn count_lost(&mut self, place: u32, outcome: Outcome, target: ReplyTarget, sent_us: u64) {
        self.count_outcome(place, outcome, 1, target);
        self.count_wait(place, Operation::Get, outcome, sent_us);
    }

    fn count_wait(&mut self, place: u32, operation: Operation, outcome: Outcome, sent_us: u64) {
        if outcome == Outcome::Timeout {
            self.count_time(place, operation, sent_us);
        }
    }

    #[inline]
    fn count_outcome(&mut self, place: u32, outcome: Outcome, count: u64, target: ReplyTarget) {
        let is_failover = self.flights.is_failover(target);
        self.cells.ended(outcome, count, is_failover);
        let cells = &self.destinations[place as usize].cells;
        cells.ended(outcome, count);
        if let Some(pool) = cells.pool
            && outcome != Outcome::Unavailable
        {
            self.cells.pools[usize::from(pool.0)].requests.add(count);
        }
    }

    /// Takes over what routes have counted.
    #[cold]
    pub(super) fn count_routes(&mut self) {
        let RouteCounts { dropped, failed_over, unavailable } = std::mem::take(&mut self.choices.counted);
        self.cells.dev_null.add(dropped);
        self.cells.policy_errors.add(failed_over);
        self.cells.policy_unavailable.add(unavailable);
    }

    /// Takes over what flights have counted.
    pub(super) fn count_flights(&mut self) {
        let (begun, failed) = std::mem::take(&mut self.flights.failovers);
        if begun + failed > 0 {
            self.cells.failovers.add(begun);
            self.cells.failed_failovers.add(failed);
        }
        if let Some(counts) = self.flights.compressor.take_counts() {
            self.cells.compressed.add(counts.compressed);
            self.cells.bytes_before.add(counts.bytes_before);
            self.cells.bytes_after.add(counts.bytes_after);
            self.cells.not_smaller.add(counts.not_smaller);
            self.cells.decompressed.add(counts.decompressed);
            self.cells.damaged.add(counts.damaged);
            self.cells.no_dictionary.add(counts.no_dictionary);
        }
    }
}
