//! Gets through a FailoverRoute without a flight, as long as nothing fails.
//!
//! Nearly all requests are answered by the normal server. So a get goes there as it would without the route, and its exchange
//! notes the route. Only an error makes a flight of it, from the key that the exchange has anyway, as if the flight had
//! sent it. It ends on the plan that it began with.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::RouteWorker;
use super::requests::LINE_END;
use crate::flight::{FlightReply, Leg, Marks};
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::plan::{NodeId, RoutePlan};
use crate::servers::destination::{Delivery, LateFailover, ReplyKind, ReplyTarget};

/// Microseconds after a server's timeout in which its last request of an earlier plan has certainly failed.
const SLACK_US: u64 = 1_000_000;

/// Plans that are held for such requests. With more reloads in a second or two, the first ones' gets fail without another try.
const HELD_MAX: usize = 16;

impl RouteWorker {
    /// The destination of a get through the FailoverRoute at `node`; `None` if it needs a flight.
    #[inline]
    pub(super) fn normal_place(
        &self,
        node: NodeId,
        operation: Operation,
        key: &RoutedKey<'_>,
    ) -> Option<(u32, bool)> {
        let (server, keep_prefix) = self.plan.normal_server(node, operation, key)?;
        let place = self.places[server.0 as usize];
        // What is lost there is a miss.
        self.destinations[place as usize].udp.is_none().then_some((place, keep_prefix))
    }

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
            Ok(()) => self.note_late_failover(place, node),
            Err(not_sent) => {
                let reply = FlightReply::error(not_sent.outcome, &not_sent.message);
                let late = self.late_failover(node);
                self.fail_over(late, message.operation, message.key.full, target, reply, turn);
            }
        }
    }

    /// The last request that was sent to a destination goes to others if it fails.
    #[inline]
    pub(super) fn note_late_failover(&mut self, place: u32, node: NodeId) {
        let late = self.late_failover(node);
        if let Some(exchange) = self.destinations[place as usize].exchanges.back_mut() {
            exchange.late_failover = Some(late);
        }
    }

    pub(super) fn late_failover(&self, node: NodeId) -> LateFailover {
        LateFailover { node, generation: self.plan.generation as u32 }
    }

    /// Hands over a reply that was read: an error of a get through such a route is one of the flight's.
    #[inline]
    pub(super) fn deliver_read(&mut self, place: u32, delivery: Delivery<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let (Some(late), Some(operation)) = (delivery.late_failover, delivery.operation) else {
            return self.deliver(delivery, turn);
        };
        let Delivery { target, outcome, answer, .. } = delivery;
        let key = std::mem::take(&mut self.destinations[place as usize].failed_key);
        self.fail_over(late, operation, &key, target, FlightReply { outcome, answer }, turn);
        self.destinations[place as usize].failed_key = key;
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
        let is_wanted = target.client().is_some_and(|client| self.clients.get_mut(client).is_some());
        let Some(plan) = self.plan_of(late.generation).filter(|_| is_wanted) else {
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

    fn plan_of(&self, generation: u32) -> Option<Arc<RoutePlan>> {
        if self.plan.generation as u32 == generation {
            return Some(Arc::clone(&self.plan));
        }
        let mut earlier = self.earlier.iter().filter_map(|(plan, _)| plan.upgrade());
        earlier.find(|plan| plan.generation as u32 == generation)
    }

    /// Another plan is about to be used: this one is held as long as gets on it may fail.
    pub(super) fn hold_plan(&mut self) {
        let mut timeout_ms = None;
        for server in &self.destinations {
            if server.exchanges.iter().any(|exchange| exchange.late_failover.is_some()) {
                timeout_ms = timeout_ms.max(Some(server.spec.timeout_ms));
            }
        }
        let Some(timeout_ms) = timeout_ms else { return };
        let until = Now { us: self.now.us + u64::from(timeout_ms) * 1000 + SLACK_US };
        self.held_plans.push_back((until, Arc::clone(&self.plan)));
        if self.held_plans.len() > HELD_MAX {
            self.held_plans.pop_front();
        }
    }

    pub(super) fn release_plans(&mut self) {
        self.held_plans.retain(|(until, _)| *until > self.now);
    }
}
