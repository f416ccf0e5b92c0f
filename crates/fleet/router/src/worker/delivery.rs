//! Replies on their way to whom they are for.

use net::Turn;

use super::RouteWorker;
use crate::client::{ReplyBytes, SlotNumber, UNTAKEN_MAX};
use crate::flight::FlightReply;
use crate::message::answer;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::servers::destination::{Delivery, FailedExchange, ReplyTarget};
use crate::slab::Id;
use std::sync::Arc;

/// Turns in which an answer waits for those to later requests of its client, to be sent with them. While any waits, the worker
/// only looks whether there is more to receive, and does not sleep: with a time of 250 µs instead, requests used as little
/// CPU, but clients with 16 requests in a pipeline got half as many answers per second.
const GATHERING_TURNS: u32 = 2;

impl RouteWorker {
    /// Hands a reply over. A route that it is for may send further requests.
    #[inline]
    pub(super) fn deliver(&mut self, delivery: Delivery<'_>, turn: &mut Turn<Arc<[u8]>>) {
        match delivery.target {
            ReplyTarget::Slot(client, slot) => {
                self.cells.replied(delivery.operation, delivery.outcome);
                if self.counts_pools {
                    self.count_answered(client, (slot, 0), delivery.outcome);
                }
                self.answer(client, slot, delivery.answer, turn);
            }
            ReplyTarget::Part(client, slot, part) => {
                self.cells.replied(delivery.operation, delivery.outcome);
                if self.counts_pools {
                    self.count_answered(client, (slot, part), delivery.outcome);
                }
                self.answer_part((client, slot, part), delivery.outcome, delivery.answer, turn);
            }
            ReplyTarget::Nobody | ReplyTarget::Values(..) => {}
            ReplyTarget::Log(id) => self.on_logged_reply(id, delivery, turn),
            ReplyTarget::Frame(frame, child) => self.on_flight_reply((frame, child), delivery, turn),
        }
    }

    pub(super) fn answer(
        &mut self,
        client: Id,
        slot: SlotNumber,
        answer: ReplyBytes<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let Some(state) = self.clients.get_mut(client) else { return };
        let link = state.link;
        let Some(output) = turn.output(link) else { return };
        self.held.note(answer.len());
        let is_large = matches!(answer, ReplyBytes::Gathered(_));
        if state.answer(slot, answer, output, &mut self.memory) && state.gathers_since.is_none() {
            state.gathers_since = Some(self.turn_number);
            self.gathering.push_back((self.turn_number, client));
        }
        if state.waits || state.is_closing {
            self.wake_if_room(client, turn);
            self.finish_if_idle(client, turn);
        }
        if is_large {
            self.close_if_untaken(client, turn);
        }
    }

    /// Sends answers that have been gathered for long enough.
    pub(super) fn send_gathered(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        while let Some((since, client)) = self.gathering.front().copied()
            && self.turn_number.wrapping_sub(since) >= GATHERING_TURNS
        {
            self.gathering.pop_front();
            if let Some(state) = self.clients.get_mut(client)
                && state.gathers_since == Some(since)
                && let Some(output) = turn.output(state.link)
            {
                state.send_gathered(output, &mut self.memory);
                self.wake_if_room(client, turn);
            }
        }
    }

    /// Closes a client that waits for its last answers only, once it has them.
    pub(super) fn finish_if_idle(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(state) = self.clients.get_mut(client)
            && state.is_closing
            && state.is_idle()
        {
            turn.close(state.link);
        }
    }

    /// Answers one key of several.
    pub(super) fn answer_part(
        &mut self,
        (client, slot, part): (Id, SlotNumber, u32),
        outcome: Outcome,
        answer: ReplyBytes<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let Some(state) = self.clients.get_mut(client) else { return };
        let Some(output) = turn.output(state.link) else { return };
        self.held.note(answer.len());
        if outcome.is_error() {
            let line = match &answer {
                ReplyBytes::Copied(line) => line,
                ReplyBytes::Gathered(gathered) => gathered.front(),
            };
            state.fail_part(slot, line, output, &mut self.memory);
        } else {
            state.answer_part(slot, part, answer, output, &mut self.memory);
        }
        self.wake_if_room(client, turn);
        self.finish_if_idle(client, turn);
        self.close_if_untaken(client, turn);
    }

    /// Reads from a client again that waited for room.
    pub(super) fn wake_if_room(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(state) = self.clients.get_mut(client)
            && state.waits
            && state.has_room()
        {
            state.waits = false;
            turn.wake(state.link);
        }
    }

    /// Closes a client that asks for large values and does not take them.
    fn close_if_untaken(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(state) = self.clients.get_mut(client)
            && turn.unsent(state.link) + state.parked() > UNTAKEN_MAX
        {
            turn.abort(state.link);
        }
    }

    /// A route has the reply of one of its children.
    fn on_flight_reply(&mut self, child: (Id, u16), delivery: Delivery<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let Delivery { operation: Some(operation), outcome, answer, .. } = delivery else { return };
        let reply = FlightReply { outcome, answer };
        let reply = self.flights.on_reply(child, reply, &mut self.choices);
        if let Some((target, reply)) = reply {
            self.deliver_whole(target, operation, reply, turn);
        }
        self.send_flights(turn);
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
