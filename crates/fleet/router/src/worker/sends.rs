//! Requests on their way from the worker to its servers: for whom each is, and which pool's statistics it belongs to.
//!
//! A request belongs to the first pool that it is sent to (`--pool-stats-config-file`), whatever its routes ask afterwards, and
//! with or without an answer of that pool: so does mcrouter. Where no pool has statistics, a request costs a branch.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::RouteWorker;
use super::hot::HotAnswer;
use super::servers::{Asker, KeyLine, KeysNotSent, NotSent};
use crate::client::SlotNumber;
use crate::client::clients::RequestPart;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::RoutedRequest;
use crate::plan::NodeId;
use crate::servers::destination::ReplyTarget;
use crate::servers::spool::Spooling;
use crate::slab::Id;

impl RouteWorker {
    /// Sends a request to a destination.
    #[inline]
    pub(super) fn send(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let asker = Asker { target, is_failover: self.flights.is_failover(target) };
        let result = self.servers.send(place, message, keep_prefix, asker, &mut self.hot, turn);
        if self.counts_pools {
            self.note_pool(place, target, result.as_ref().err());
        }
        result
    }

    /// Sends a failover whose key says that it is one.
    #[cold]
    pub(super) fn send_tagged(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let asker = Asker { target, is_failover: self.flights.is_failover(target) };
        let result = self.servers.send_tagged(place, message, keep_prefix, asker, &mut self.hot, turn);
        if self.counts_pools {
            self.note_pool(place, target, result.as_ref().err());
        }
        result
    }

    /// The same for a shadow, unless its server has too many of these requests.
    #[inline(never)]
    pub(super) fn send_shadow(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        (is_tagged, target): (bool, ReplyTarget),
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        if self.servers.is_full_of_shadows(place) {
            return Err(NotSent::plain(Outcome::LocalError));
        }
        let before = self.servers.unanswered(place);
        if is_tagged {
            self.send_tagged(place, message, keep_prefix, target, turn)?;
        } else {
            self.send(place, message, keep_prefix, target, turn)?;
        }
        self.servers.note_shadow(place, before);
        Ok(())
    }

    /// Sends one `get` of several keys of a client.
    pub(super) fn send_keys(
        &mut self,
        place: u32,
        request: KeyLine<'_>,
        (client, slot): (Id, SlotNumber),
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), KeysNotSent> {
        let asker = Asker { target: ReplyTarget::Values(client, slot), is_failover: false };
        let result = self.servers.send_keys(place, request, asker, &mut self.hot, turn);
        if self.counts_pools {
            let sent = result.as_ref().map_or_else(|failure| failure.sent, |()| request.keys.len());
            for key in &request.keys[..sent] {
                self.note_pool(place, ReplyTarget::Part(client, slot, key.part), None);
            }
        }
        result
    }

    /// The destination of a get through the FailoverRoute at `node`; `None` if it needs a flight.
    #[inline]
    pub(super) fn normal_place(
        &self,
        node: NodeId,
        operation: Operation,
        key: &RoutedKey<'_>,
    ) -> Option<(u32, bool)> {
        let (server, keep_prefix) = self.plans.current().normal_server(node, operation, key)?;
        let place = self.plans.place(server);
        // What is lost there is a miss.
        (!self.servers.has_datagrams(place)).then_some((place, keep_prefix))
    }

    /// The answer to a get, if a value is there that may be it.
    #[inline]
    pub(super) fn find_hot(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        target: ReplyTarget,
    ) -> Option<HotAnswer> {
        let destination = self.servers.with_hot(place)?;
        if !self.flights.only_reads(target) {
            return None;
        }
        self.hot.answer(destination, message, keep_prefix, self.now)
    }

    /// A request was sent to a destination, or was not. If its pool has statistics, the client's request belongs to it.
    #[cold]
    fn note_pool(&mut self, place: u32, target: ReplyTarget, not_sent: Option<&NotSent>) {
        let Some(pool) = self.servers.counted_pool(place) else { return };
        if not_sent.is_none_or(NotSent::is_counted)
            && let Some((client, request, begun)) = self.asker_of(target)
        {
            self.clients.note_pool(client, request, pool, begun);
        }
    }

    /// The client's request that a request to a server is for, and when it began; `None` if it is for nobody, or for several.
    fn asker_of(&mut self, mut target: ReplyTarget) -> Option<(Id, RequestPart, Now)> {
        let mut begun = self.now;
        loop {
            target = match target {
                ReplyTarget::Slot(client, slot) => return Some((client, (slot, 0), begun)),
                ReplyTarget::Part(client, slot, part) => return Some((client, (slot, part), begun)),
                ReplyTarget::Nobody | ReplyTarget::Values(..) => return None,
                ReplyTarget::Log(id) => self.spooling.as_mut()?.owner(id)?,
                ReplyTarget::Frame(frame, _) => {
                    let owner;
                    (owner, begun) = self.flights.owner_of(frame)?;
                    owner
                }
            };
        }
    }
}

/// For whom the reply to a request to a server is: a delete that a log may take passes by there, if there is one.
pub(super) fn through_log(
    spooling: &mut Option<Spooling>,
    log: &Arc<str>,
    (place, keep_prefix): (u32, bool),
    message: &RoutedRequest<'_>,
    owner: ReplyTarget,
) -> ReplyTarget {
    match spooling {
        Some(spooling) => spooling.through_log(log, place, message, keep_prefix, owner),
        None => owner,
    }
}
