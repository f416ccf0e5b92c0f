//! Derived requests on their way: stored like those of clients, for as long as somebody may send them.

use std::sync::Arc;

use super::derive::{with_exptime, with_key};
use super::fill::near_request;
use super::replicas::replica;
use super::reply::FlightReply;
use super::size_split::small_request;
use super::{Flights, Leg, SharedRequest};
use crate::message::outcome::Outcome;
use crate::message::request::StoredRequest;
use crate::plan::choices::Choices;
use crate::plan::{Compound, CompoundKind, NodeId, RoutePlan};
use crate::servers::destination::ReplyTarget;
use crate::slab::Id;

/// Bytes of copies that no client waits for, and that are stored because a route may send them again. No window of a
/// client bounds them.
pub(crate) const COPIED_MAX: usize = 64 << 20;

impl Flights {
    /// Sends the request, changed as the route says, to the route's child.
    pub(super) fn begin_changed(
        &mut self,
        plan: &Arc<RoutePlan>,
        compound: &Compound,
        leg: Leg,
        choices: &mut Choices,
    ) -> Option<FlightReply<'static>> {
        let mut derived = self.spare.pop().unwrap_or_default();
        let message = self.requests.get_mut(leg.request)?.request.message();
        let changed = match &compound.kind {
            CompoundKind::ModifyKey(change) => {
                with_key(&message, &mut derived, |key, is_binary| change.apply(key, is_binary))
            }
            CompoundKind::ModifyExptime(change) => Ok(with_exptime(&message, *change, &mut derived)),
            other => unreachable!("{other:?} changes nothing"),
        };
        let child = compound.children[0];
        match changed {
            Ok(true) => self.begin_derived(plan, child, derived, leg, choices),
            Ok(false) => {
                self.reuse(derived);
                self.begin(plan, child, leg, choices)
            }
            Err(reason) => {
                self.reuse(derived);
                let message = format!("ModifyKeyRoute: invalid key: {}", reason.words());
                Some(FlightReply::error(Outcome::LocalError, &message))
            }
        }
    }

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

    /// What a child of a route is asked at first, if that is not the route's own request.
    pub(super) fn first_request(
        &mut self,
        kind: &CompoundKind,
        (frame, child): (Id, u16),
        request: Id,
    ) -> Option<StoredRequest> {
        let message = self.requests.get_mut(request)?.request.message();
        match kind {
            CompoundKind::Fill(fill) => near_request(fill, &message),
            CompoundKind::KeySplit(_) => replica(&message, child),
            CompoundKind::SizeSplit(_) => small_request(&message),
            CompoundKind::BigValue(big) => {
                big.first_request(&message, self.frames.get_mut(frame)?.state.parts.as_deref(), child)
            }
            _ => None,
        }
    }
}
