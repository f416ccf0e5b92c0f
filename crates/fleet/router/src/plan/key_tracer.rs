//! Servers of keys: which would get a request, found without sending one.

use std::sync::Arc;

use stdx::clock::Now;

use crate::flight::{FlightReply, Flights, Leg, Marks};
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::plan::choices::Choices;
use crate::plan::{RoutePlan, ServerId};
use crate::servers::destination::{ReplyKind, ReplyTarget};

/// Follows requests through a plan.
///
/// Any choice at random is as good as another, limits of rates allow what they allow after an hour without requests, and no
/// server counts as unavailable.
pub struct KeyTracer {
    plan: Arc<RoutePlan>,
    flights: Flights,
    choices: Choices,
    skips_shadows: bool,
}

impl KeyTracer {
    /// For a plan, at this time (which migrations depend on).
    pub fn new(plan: Arc<RoutePlan>, unix_s: i64) -> KeyTracer {
        let mut choices = Choices::new(0, 0);
        choices.adopt(plan.generation, &plan.states, |_| true);
        (choices.now, choices.unix_s) = (Now { us: 3_600_000_000 }, unix_s);
        KeyTracer { plan, flights: Flights::default(), choices, skips_shadows: false }
    }

    /// Leaves out servers that get copies of requests: what they answer is dropped, and they are no key's servers.
    #[must_use]
    pub fn without_shadows(self) -> KeyTracer {
        KeyTracer { skips_shadows: true, ..self }
    }

    /// The servers that would get a request for a key, one after the other, if all answered as without the item; at most
    /// `most` of them. mcrouter asks its routes in the same way.
    pub fn servers(&mut self, operation: Operation, key: &[u8], most: usize) -> Vec<&str> {
        let ids = self.ids(operation, key, most);
        ids.into_iter().map(|id| &*self.plan.servers[id.0 as usize].name).collect()
    }

    fn ids(&mut self, operation: Operation, key: &[u8], most: usize) -> Vec<ServerId> {
        let (key, mut found) = (RoutedKey::new(key), Vec::new());
        let Some(root) = self.plan.root(&key).filter(|_| !key.bare().is_empty()) else { return found };
        let expected = if operation.has_values() { ReplyKind::Values } else { ReplyKind::Line };
        let body = RequestBody::None;
        let (before, after, shown, opaque) = (&b""[..], &b""[..], &b""[..], &b""[..]);
        let message = RoutedRequest { operation, expected, before, key, shown, after, opaque, body };
        let request = self.flights.store(&message, Arc::clone(&self.plan));
        let leg = Leg { request, owner: ReplyTarget::Nobody, marks: Marks::default() };
        self.flights.begin(&self.plan, root, leg, &mut self.choices);
        while let Some(send) = self.flights.sends.pop_front() {
            if found.len() < most && !(self.skips_shadows && send.marks.is_shadow) {
                found.push(send.server);
            }
            self.flights.release(send.request);
            if let ReplyTarget::Frame(frame, child) = send.target {
                let reply = FlightReply::without_server(None, operation, expected);
                self.flights.on_reply((frame, child), reply, &mut self.choices);
            }
        }
        found
    }
}
