//! The queue of a destination's exchanges, with what identifies their replies and what has arrived of them.
//!
//! Replies come in the order of requests. An exchange that has timed out stays in the queue until its reply comes, which is
//! dropped.

mod reading;

use std::collections::VecDeque;

use stdx::clock::Now;

use super::arrival::ValueArrival;
use super::exchange::{Exchange, FailedExchange, LateFailover, ReplyTarget};
use super::hot_side::{HotNote, HotSide};
use super::large::LargeReply;
use super::tokens::{ReplyToken, Tokens};

pub(crate) use reading::{Delivery, Malformed, Read, is_usual};

/// Requests of a destination without a reply, those that have timed out included.
pub(crate) const EXCHANGES_MAX: usize = 10_000;

/// Time limits that an exchange waits for at most, while large values in front of it arrive: by then another server may have
/// answered.
const WAITS_MAX: u64 = 10;

/// Requests that wait for their replies.
#[derive(Default)]
pub(crate) struct ExchangeQueue {
    /// The oldest first.
    exchanges: VecDeque<Exchange>,
    /// How many of the oldest have timed out.
    expired: usize,
    /// Requests for shadows that wait for their replies.
    shadows: usize,
    /// What identifies the replies of all exchanges, in their order.
    tokens: Tokens,
    /// Bytes of `tokens` that belong to exchanges that have timed out.
    expired_tokens: usize,
    /// What exchanges mean for hot values, if the server has some.
    hot: Option<Box<HotSide>>,
    /// A large reply that is being received.
    large: Option<LargeReply>,
    /// What has arrived of large replies.
    arrival: ValueArrival,
    /// The key of a delivery with a [`LateFailover`], as its client wrote it.
    failed_key: Vec<u8>,
    /// Number of the last opaque.
    opaque: u32,
}

/// The exchange to which the next reply belongs, if it means something for hot values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NextNote<'q> {
    /// What it means.
    pub(crate) note: Option<HotNote>,
    pub(crate) sent: Now,
    /// The key that the reply is about.
    pub(crate) key: Option<&'q [u8]>,
}

impl ExchangeQueue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.exchanges.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Whether there are exchanges, and all have timed out.
    pub(crate) fn has_only_expired(&self) -> bool {
        self.expired > 0 && self.exchanges.len() == self.expired
    }

    /// Whether there is room for another exchange.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.exchanges.len() < EXCHANGES_MAX
    }

    /// Adds what identifies a reply, or a part of it, of the exchange that is added next.
    #[inline]
    pub(crate) fn push_token(&mut self, token: ReplyToken<'_>) {
        self.tokens.push(token);
    }

    /// The opaque of the next request.
    #[inline]
    pub(crate) fn next_opaque(&mut self) -> u32 {
        self.opaque = self.opaque.wrapping_add(1);
        self.opaque
    }

    /// Adds a request that was written.
    #[inline]
    pub(crate) fn push(&mut self, exchange: Exchange) {
        self.exchanges.push_back(exchange);
    }

    /// The request that was added last is for a shadow, if there are more than `before`: one that went as a datagram is bounded by
    /// its window.
    pub(crate) fn note_shadow(&mut self, before: usize) {
        if self.exchanges.len() > before
            && let Some(exchange) = self.exchanges.back_mut()
        {
            exchange.is_shadow = true;
            self.shadows += 1;
        }
    }

    /// Requests for shadows that wait for their replies.
    pub(crate) fn shadows(&self) -> usize {
        self.shadows
    }

    /// The request that was added last goes to others if it fails.
    #[inline]
    pub(crate) fn note_late_failover(&mut self, late: LateFailover) {
        if let Some(exchange) = self.exchanges.back_mut() {
            exchange.late_failover = Some(late);
        }
    }

    /// Whether there are such requests.
    pub(crate) fn has_late_failover(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.late_failover.is_some())
    }

    /// The request to which the next reply belongs; `None` if it has timed out.
    #[inline]
    pub(crate) fn asked(&self) -> Option<&Exchange> {
        if self.expired > 0 { None } else { self.exchanges.front() }
    }

    /// For whom the next reply is.
    pub(crate) fn next_target(&self) -> Option<ReplyTarget> {
        self.exchanges.front().map(|exchange| exchange.target)
    }

    /// When the oldest exchange that has not timed out does. While large values arrive, which may be those of other clients,
    /// no time passes for those that wait behind them, up to a limit.
    pub(super) fn next_timeout(&self, timeout_us: u64) -> Option<Now> {
        let oldest = self.exchanges.get(self.expired)?;
        let waits_since_us = oldest.sent_us.max(self.arrival.last_us());
        let at_most_us = oldest.sent_us + timeout_us * WAITS_MAX;
        Some(Now { us: (waits_since_us + timeout_us).min(at_most_us) })
    }

    /// Takes the oldest exchange that has not timed out: whom it was for. Its reply is dropped when it comes.
    pub(super) fn expire(&mut self) -> FailedExchange {
        let exchange = &mut self.exchanges[self.expired];
        let mut failed = FailedExchange::new(exchange);
        for _ in 0..exchange.keys {
            let token = self.tokens.at(self.expired_tokens).expect("a token for each key");
            self.expired_tokens += token.size();
            failed.add(token);
        }
        self.expired += 1;
        (exchange.target, exchange.late_failover) = (ReplyTarget::Nobody, None);
        self.shadows -= usize::from(std::mem::take(&mut exchange.is_shadow));
        failed
    }

    /// The connection is gone, or there is none: takes all exchanges, except those that have timed out before.
    pub(super) fn fail_all(&mut self) -> Vec<FailedExchange> {
        let mut all = Vec::new();
        for exchange in self.exchanges.drain(..) {
            let mut failed = FailedExchange::new(&exchange);
            for _ in 0..exchange.keys {
                let token = self.tokens.at(0).expect("a token for each key");
                failed.add(token);
                let size = token.size();
                self.tokens.pop(size);
            }
            all.push(failed);
        }
        all.drain(..self.expired);
        (self.expired, self.expired_tokens, self.shadows, self.large) = (0, 0, 0, None);
        all
    }

    /// Whether a large reply is being received.
    #[inline]
    pub(crate) fn is_receiving(&self) -> bool {
        self.large.is_some()
    }

    /// Takes bytes of the large reply from the front of `input`: how many, and whether they are progress.
    pub(crate) fn fill_large(&mut self, input: &[u8], now: Now) -> (usize, bool) {
        let taken = self.large.as_mut().map_or(0, |large| large.fill(input));
        (taken, self.arrival.note(taken, now))
    }

    /// Whether the large reply is whole.
    pub(crate) fn is_large_whole(&self) -> bool {
        self.large.as_ref().is_some_and(LargeReply::is_whole)
    }

    /// Bytes of memory of the large reply.
    pub(crate) fn held(&self) -> usize {
        self.large.as_ref().map_or(0, LargeReply::held)
    }

    /// Drops what has arrived of the large reply, which becomes an error. Returns how much that was.
    pub(crate) fn refuse_large(&mut self) -> usize {
        self.large.as_mut().map_or(0, LargeReply::refuse)
    }

    /// The key of a delivery with a route that is to be asked for it. It is put back by [`ExchangeQueue::keep_failed_key`].
    pub(crate) fn take_failed_key(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.failed_key)
    }

    /// Keeps the memory of such a key.
    pub(crate) fn keep_failed_key(&mut self, key: Vec<u8>) {
        self.failed_key = key;
    }

    /// The server among hot values, if it has some.
    #[inline]
    pub(crate) fn hot(&self) -> Option<&HotSide> {
        self.hot.as_deref()
    }

    /// Begins to note what exchanges mean for hot values. Whether there are some already: the last one is noted as one that may
    /// change anything.
    pub(crate) fn begin_notes(&mut self, mut side: HotSide) -> bool {
        let last = self.exchanges.back_mut();
        let has_some = last.is_some();
        if let Some(last) = last {
            last.is_noted = true;
            side.push(HotNote::Sweep);
        }
        self.hot = Some(Box::new(side));
        has_some
    }

    /// Other settings count for gets. False: no notes are made.
    pub(crate) fn set_hot_pool(&mut self, pool: Option<usize>) -> bool {
        self.hot.as_mut().map(|side| side.set_pool(pool)).is_some()
    }

    /// Makes no more notes. Returns those that there are, with the name of the server.
    pub(crate) fn end_notes(&mut self) -> Option<(u64, VecDeque<HotNote>)> {
        let mut side = self.hot.take()?;
        self.exchanges.iter_mut().for_each(|exchange| exchange.is_noted = false);
        Some((side.server(), side.take_notes()))
    }

    /// Keeps a note with the request that was added last, if there are more than `before`.
    pub(crate) fn add_note(&mut self, note: HotNote, before: usize) -> bool {
        if self.exchanges.len() > before
            && let (Some(exchange), Some(side)) = (self.exchanges.back_mut(), &mut self.hot)
        {
            exchange.is_noted = true;
            side.push(note);
            return true;
        }
        false
    }

    /// The note of the exchange to which the next reply belongs.
    #[inline]
    pub(crate) fn next_note(&self) -> Option<NextNote<'_>> {
        let side = self.hot.as_ref()?;
        let exchange = self.exchanges.front().filter(|exchange| exchange.is_noted)?;
        // Without a key that is left, the first token is the next request's.
        let token = self.tokens.at(0).filter(|_| exchange.keys > 0);
        let (note, sent) = (side.first(), Now { us: exchange.sent_us });
        Some(NextNote { note, sent, key: token.map(|token| token.sent) })
    }

    /// The note of the exchange that has ended last, with the name of the server.
    pub(crate) fn take_ended_note(&mut self) -> Option<(u64, HotNote)> {
        let side = self.hot.as_mut()?;
        Some((side.server(), side.take_ended()?))
    }

    /// Takes the notes of exchanges that have no answer any more, with the name of the server.
    pub(crate) fn take_notes(&mut self) -> Option<(u64, VecDeque<HotNote>)> {
        let side = self.hot.as_mut()?;
        side.take_ended();
        Some((side.server(), side.take_notes()))
    }
}

#[cfg(test)]
impl ExchangeQueue {
    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens.at(0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::operation::Operation;
    use crate::servers::destination::ReplyKind;

    fn get(queue: &mut ExchangeQueue, key: &[u8], sent_us: u64) {
        queue.push_token(ReplyToken { sent: key, shown: b"", part: 0 });
        let operation = Some(Operation::Get);
        queue.push(Exchange::new(ReplyTarget::Nobody, sent_us, operation, ReplyKind::Values, 1));
    }

    #[test]
    fn an_exchange_that_has_timed_out_does_not_fail_again() {
        let mut queue = ExchangeQueue::default();
        get(&mut queue, b"a", 10);
        get(&mut queue, b"b", 20);
        queue.note_shadow(1);
        assert_eq!((queue.next_timeout(5), queue.shadows()), (Some(Now { us: 15 }), 1));
        assert_eq!(queue.expire().parts, [0]);
        assert_eq!((queue.next_timeout(5), queue.has_only_expired()), (Some(Now { us: 25 }), false));
        assert_eq!(queue.fail_all().len(), 1);
        assert_eq!((queue.len(), queue.shadows(), queue.has_tokens()), (0, 0, false));
    }

    #[test]
    fn a_note_belongs_to_a_request_that_was_sent() {
        let mut queue = ExchangeQueue::default();
        get(&mut queue, b"a", 10);
        assert!(queue.begin_notes(HotSide::new(7, None)), "there is a request already");
        let first = NextNote { note: Some(HotNote::Sweep), sent: Now { us: 10 }, key: Some(b"a") };
        assert_eq!(queue.next_note(), Some(first));
        assert!(!queue.add_note(HotNote::Update(1), 1));
        get(&mut queue, b"b", 20);
        assert!(queue.add_note(HotNote::Update(1), 1));
        assert_eq!(queue.end_notes(), Some((7, [HotNote::Sweep, HotNote::Update(1)].into())));
        assert_eq!(queue.next_note(), None);
    }
}
