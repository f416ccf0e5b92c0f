//! Replies on their way to whom they are for.

use std::sync::Arc;

use net::Turn;

use super::RouteWorker;
use super::hot::HotAnswer;
use crate::client::ReplyBytes;
use crate::client::clients::RequestPart;
use crate::flight::FlightReply;
use crate::message::answer;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::RoutedRequest;
use crate::servers::destination::{Delivery, FailedExchange, ReplyTarget};
use crate::slab::Id;

impl RouteWorker {
    /// Answers a request without asking anybody.
    pub(super) fn answer_now(&mut self, client: Id, line: &[u8], turn: &mut Turn<Arc<[u8]>>) {
        if let ReplyTarget::Slot(client, slot) = self.clients.slot_for(client, false) {
            self.clients.answer(client, slot, ReplyBytes::Copied(line), turn);
        }
    }

    /// Hands a reply over. A route that it is for may send further requests.
    #[inline]
    pub(super) fn deliver(&mut self, delivery: Delivery<'_>, turn: &mut Turn<Arc<[u8]>>) {
        match delivery.target {
            ReplyTarget::Slot(client, slot) => {
                self.cells.replied(delivery.operation, delivery.outcome);
                if self.counts_pools {
                    self.count_answered(client, (slot, 0), delivery.outcome);
                }
                self.clients.answer(client, slot, delivery.answer, turn);
            }
            ReplyTarget::Part(client, slot, part) => {
                self.cells.replied(delivery.operation, delivery.outcome);
                if self.counts_pools {
                    self.count_answered(client, (slot, part), delivery.outcome);
                }
                self.clients.answer_part((client, slot, part), delivery.outcome, delivery.answer, turn);
            }
            ReplyTarget::Nobody | ReplyTarget::Values(..) => {}
            ReplyTarget::Log(id) => self.on_logged_reply(id, delivery, turn),
            ReplyTarget::Frame(frame, child) => self.on_flight_reply((frame, child), delivery, turn),
        }
    }

    /// Hands over the reply of a flight. For one key of several, without the `END`.
    pub(super) fn deliver_whole(
        &mut self,
        target: ReplyTarget,
        operation: Operation,
        reply: FlightReply<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let FlightReply { outcome, mut answer } = reply;
        if matches!(target, ReplyTarget::Part(..)) && !outcome.is_error() {
            answer = without_end(answer);
        }
        let delivery = Delivery { target, operation: Some(operation), outcome, answer, late_failover: None };
        self.deliver(delivery, turn);
    }

    /// A request has no reply.
    pub(super) fn fail(&mut self, failed: FailedExchange, outcome: Outcome, turn: &mut Turn<Arc<[u8]>>) {
        let Some(operation) = failed.operation else { return };
        let line = answer::line(operation, outcome);
        let mut keys = failed.keys.into_iter();
        let mut deliver = |target| {
            let answer = ReplyBytes::Copied(line);
            match failed.late_failover.zip(keys.next()) {
                Some((late, key)) => {
                    let reply = FlightReply { outcome, answer };
                    self.fail_over(late, operation, &key, target, reply, turn);
                }
                None => {
                    let operation = Some(operation);
                    self.deliver(Delivery { target, operation, outcome, answer, late_failover: None }, turn);
                }
            }
        };
        match failed.target {
            ReplyTarget::Values(client, slot) => {
                failed.parts.into_iter().for_each(|part| deliver(ReplyTarget::Part(client, slot, part)));
            }
            target => deliver(target),
        }
    }

    /// Answers a get with a hot value, if there is one. `is_sample`: its key is among those that are reported.
    #[inline]
    pub(super) fn answer_hot(
        &mut self,
        (place, keep_prefix): (u32, bool),
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        is_sample: bool,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> bool {
        let Some(hot) = self.find_hot(place, message, keep_prefix, target) else { return false };
        if is_sample {
            self.samples.mark(message.key.full, self.now);
        }
        self.deliver_hot(target, message.operation, hot, turn);
        true
    }

    /// Hands it over.
    #[inline(never)]
    pub(super) fn deliver_hot(
        &mut self,
        target: ReplyTarget,
        operation: Operation,
        hot: HotAnswer,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let outcome = Outcome::Found;
        match hot {
            HotAnswer::Text(text) => {
                let answer = ReplyBytes::Copied(&text);
                self.deliver_whole(target, operation, FlightReply { outcome, answer }, turn);
                self.hot.keep_text(text);
            }
            HotAnswer::Held(output) => {
                let answer = ReplyBytes::Gathered(output);
                self.deliver_whole(target, operation, FlightReply { outcome, answer }, turn);
            }
        }
    }

    /// A client's request has its answer.
    #[cold]
    fn count_answered(&mut self, client: Id, request: RequestPart, outcome: Outcome) {
        if let Some((pool, begun)) = self.clients.take_pool_note(client, request)
            && let Some(cells) = self.cells.pools.get(usize::from(pool.0))
        {
            cells.answered(self.now.us.saturating_sub(begun.us), outcome.is_error());
        }
    }

    /// A delete that a log may take has its reply, or has failed.
    fn on_logged_reply(&mut self, id: Id, delivery: Delivery<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let Some(spooling) = &mut self.spooling else { return };
        if !delivery.outcome.is_failover_error() {
            if let Some(delete) = spooling.end(id) {
                self.deliver(Delivery { target: delete.owner(), ..delivery }, turn);
            }
            return;
        }
        let Some(place) = spooling.place(id) else { return };
        let server = Arc::clone(self.servers.spec(place));
        if !spooling.fail(id, (delivery.outcome, &delivery.answer), server, self.now) {
            self.end_logged(id, false, turn);
        }
    }

    /// Answers deletes that have been written, and those that have not been for too long.
    pub(super) fn end_spooled(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let Some(spooling) = &mut self.spooling else { return };
        for (id, is_written) in spooling.take_reports() {
            self.end_logged(id, is_written, turn);
        }
        while let Some(id) = self.spooling.as_mut().and_then(|spooling| spooling.take_overdue(self.now)) {
            self.end_logged(id, false, turn);
        }
    }

    /// Answers a delete that has failed at its server, if that has not been done.
    fn end_logged(&mut self, id: Id, is_written: bool, turn: &mut Turn<Arc<[u8]>>) {
        let Some(mut delete) = self.spooling.as_mut().and_then(|spooling| spooling.end(id)) else { return };
        let (owner, operation) = (delete.owner(), delete.operation());
        self.deliver_whole(owner, operation, delete.reply(is_written), turn);
    }
}

/// The reply to a get of one key, as a part of the reply to several.
fn without_end(answer: ReplyBytes<'_>) -> ReplyBytes<'_> {
    const END: &[u8] = b"END\r\n";
    match answer {
        ReplyBytes::Copied(bytes) => ReplyBytes::Copied(bytes.strip_suffix(END).unwrap_or(bytes)),
        ReplyBytes::Gathered(mut gathered) => {
            // It is copied after the values, also where these are held.
            let copied = gathered.copied();
            if copied.ends_with(END) {
                copied.truncate(copied.len() - END.len());
            }
            ReplyBytes::Gathered(gathered)
        }
    }
}
