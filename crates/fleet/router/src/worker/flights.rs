//! Flights of a worker: requests through routes that need the replies of several children, and what these send.
//!
//! Nearly all gets through a FailoverRoute are answered by the normal server. So such a get goes there as it would without the
//! route, and its exchange notes the route. Only an error makes a flight of it, from the key that the exchange has anyway, as if
//! the flight had sent it. It ends on the plan that it began with.

use std::sync::Arc;

use net::Turn;
use stdx::log_level::LogLevel;

use super::RouteWorker;
use super::sends::through_log;
use super::servers::NotSent;
use crate::flight::{FlightReply, Leg, Marks};
use crate::message::key::RoutedKey;
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::message::request::{LINE_END, RequestBody, RoutedRequest};
use crate::plan::{LogId, NodeId};
use crate::servers::destination::{Delivery, LateFailover, ReplyKind, ReplyTarget};
use crate::slab::Id;

impl RouteWorker {
    /// Sends a get to the normal destination of the FailoverRoute at `node`.
    #[inline]
    pub(super) fn send_normal(
        &mut self,
        node: NodeId,
        (place, keep_prefix): (u32, bool),
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        match self.send(place, message, keep_prefix, target, turn) {
            Ok(()) => self.servers.note_late_failover(place, self.plans.late_failover(node)),
            Err(not_sent) => {
                let reply = FlightReply::error(not_sent.outcome, &not_sent.message);
                let late = self.plans.late_failover(node);
                self.fail_over(late, message.operation, message.key.full, target, reply, turn);
            }
        }
    }

    /// Sends a request to the shadows that get it.
    #[cold]
    pub(super) fn fly_shadows(&mut self, message: &RoutedRequest<'_>, turn: &mut Turn<Arc<[u8]>>) {
        self.send_direct_shadows(message, turn);
        if self.choices.shadows.is_empty() {
            return;
        }
        let request = self.flights.store(message, Arc::clone(self.plans.current()));
        let leg = Leg { request, owner: ReplyTarget::Nobody, marks: Marks::default() };
        self.flights.begin_shadows(self.plans.current(), leg, &mut self.choices);
        self.flights.release(request);
        self.send_flights(turn);
    }

    /// Sends a request to those of its shadows that are a server by the key alone: they need no flight.
    fn send_direct_shadows(&mut self, message: &RoutedRequest<'_>, turn: &mut Turn<Arc<[u8]>>) {
        if message.operation.class() == OperationClass::Delete {
            // A log may take it.
            return;
        }
        for index in (0..self.choices.shadows.len()).rev() {
            let Some((server, keep_prefix)) =
                self.plans.current().direct(self.choices.shadows[index], &message.key)
            else {
                continue;
            };
            self.choices.shadows.remove(index);
            let place = self.plans.place(server);
            // Nobody waits for it. It is counted.
            let _ = self.send_shadow(place, message, keep_prefix, (false, ReplyTarget::Nobody), turn);
        }
    }

    /// Starts a flight.
    #[cold]
    pub(super) fn fly(
        &mut self,
        node: NodeId,
        log: Option<LogId>,
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let request = self.flights.store(message, Arc::clone(self.plans.current()));
        let leg = Leg { request, owner: target, marks: Marks { log, ..Marks::default() } };
        let reply = self.flights.begin(self.plans.current(), node, leg, &mut self.choices);
        self.flights.release(request);
        if let Some(reply) = reply {
            self.deliver_whole(target, message.operation, reply, turn);
        }
        self.send_flights(turn);
    }

    /// Sends what flights have to send, and what follows from what cannot be sent.
    pub(super) fn send_flights(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.count_flights();
        if self.flights.is_sending {
            return;
        }
        self.flights.is_sending = true;
        loop {
            let Some(send) = self.flights.sends.pop_front() else {
                if !self.flights.has_resumed() {
                    break;
                }
                if let Some((target, operation, reply)) = self.flights.resume(&mut self.choices) {
                    self.deliver_whole(target, operation, reply, turn);
                }
                continue;
            };
            let (request, plan) =
                self.flights.take_request(send.request).expect("a send is a user of its request");
            let message = request.message();
            let operation = message.operation;
            let place = self.plans.destination_of(&plan, send.server);
            let mut target = send.target;
            if let (Some(place), Some(log)) = (place, send.marks.log)
                && operation.class() == OperationClass::Delete
            {
                let log = &plan.logs[usize::from(log.0)];
                let to = (place, send.keep_prefix);
                target = through_log(&mut self.spooling, log, to, &message, target);
            }
            if let Some(place) = place
                && !(send.marks.is_shadow || send.marks.is_tagged)
                && let Some(hot) = self.find_hot(place, &message, send.keep_prefix, target)
            {
                self.flights.put_back(send.request, request);
                self.deliver_hot(target, operation, hot, turn);
                self.flights.release(send.request);
                continue;
            }
            let result = match place {
                Some(place) if send.marks.is_shadow => {
                    let tagged_for = (send.marks.is_tagged, send.target);
                    self.send_shadow(place, &message, send.keep_prefix, tagged_for, turn)
                }
                Some(place) if send.marks.is_tagged => {
                    self.send_tagged(place, &message, send.keep_prefix, target, turn)
                }
                Some(place) => self.send(place, &message, send.keep_prefix, target, turn),
                None => Err(NotSent::plain(Outcome::LocalError)),
            };
            self.flights.put_back(send.request, request);
            if let Err(not_sent) = result {
                let reply = FlightReply::error(not_sent.outcome, &not_sent.message);
                self.deliver_whole(target, operation, reply, turn);
            }
            self.flights.release(send.request);
        }
        self.flights.is_sending = false;
        if self.flights.log.has_lines() {
            let notice = self.shared.settings.notice;
            self.flights.log.take().iter().for_each(|line| notice(LogLevel::Info, line));
        }
    }

    /// The normal server has failed: the flight begins where it would be by now.
    #[cold]
    pub(super) fn fail_over(
        &mut self,
        late: LateFailover,
        operation: Operation,
        key: &[u8],
        target: ReplyTarget,
        reply: FlightReply<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let is_wanted = target.client().is_some_and(|client| self.clients.contains(client));
        let Some(plan) = self.plans.of_generation(late.generation).filter(|_| is_wanted) else {
            return self.deliver_whole(target, operation, reply, turn);
        };
        let before: &[u8] = if operation == Operation::Gets { b"gets " } else { b"get " };
        let message = RoutedRequest {
            operation,
            expected: ReplyKind::Values,
            before,
            key: RoutedKey::new(key),
            shown: &[],
            after: LINE_END,
            opaque: &[],
            body: RequestBody::None,
        };
        let client = std::mem::replace(&mut self.flights.client, target.client());
        let request = self.flights.store(&message, Arc::clone(&plan));
        let leg = Leg { request, owner: target, marks: Marks::default() };
        let frame = self.flights.begin_late(&plan, late.node, leg, &mut self.choices);
        self.flights.release(request);
        if let Some(frame) = frame
            && let Some((target, reply)) = self.flights.on_reply((frame, 0), reply, &mut self.choices)
        {
            self.deliver_whole(target, operation, reply, turn);
        }
        self.flights.client = client;
        self.send_flights(turn);
    }

    /// A route has the reply of one of its children.
    pub(super) fn on_flight_reply(
        &mut self,
        child: (Id, u16),
        delivery: Delivery<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let Delivery { operation: Some(operation), outcome, answer, .. } = delivery else { return };
        let reply = FlightReply { outcome, answer };
        let reply = self.flights.on_reply(child, reply, &mut self.choices);
        if let Some((target, reply)) = reply {
            self.deliver_whole(target, operation, reply, turn);
        }
        self.send_flights(turn);
    }

    /// Takes over what flights have counted.
    fn count_flights(&mut self) {
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
