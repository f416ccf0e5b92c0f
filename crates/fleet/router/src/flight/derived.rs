//! Derived requests on their way: stored like those of clients, for as long as somebody may send them.

use std::sync::Arc;

use super::reply::FlightReply;
use super::{Flights, Leg, SharedRequest};
use crate::message::request::StoredRequest;
use crate::plan::choices::Choices;
use crate::plan::{NodeId, RoutePlan};
use crate::servers::destination::ReplyTarget;

/// Bytes of copies that no client waits for, and that are stored because a route may send them again. No window of a
/// client bounds them.
pub(crate) const COPIED_MAX: usize = 64 << 20;

impl Flights {
    /// Sends a request that was derived from that of `leg` to the route at `node`.
    pub(super) fn begin_derived(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        request: StoredRequest,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        self.begin_counted(plan, node, (request, 0), leg, choices)
    }

    /// Sends a copy that no client waits for, unless too many of them are stored.
    pub(super) fn send_copy(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        request: StoredRequest,
        leg: Leg,
        choices: &mut Choices,
    ) {
        let size = request.size();
        if self.copied + size > COPIED_MAX {
            return;
        }
        self.copied += size;
        self.begin_counted(plan, node, (request, size), Leg { owner: ReplyTarget::Nobody, ..leg }, choices);
    }

    fn begin_counted(
        &mut self,
        plan: &Arc<RoutePlan>,
        node: NodeId,
        (request, copied): (StoredRequest, usize),
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let parent = self.requests.get_mut(leg.request);
        let (client, begun) = parent.map_or((None, self.now), |shared| (shared.client, shared.begun));
        let shared = SharedRequest { request, plan: Arc::clone(plan), client, begun, uses: 1, copied };
        let id = self.requests.insert(shared);
        let reply = self.begin(plan, node, Leg { request: id, ..leg }, choices);
        self.release(id);
        reply
    }
}
