//! Upkeep of a worker between requests: other plans, names that have moved, limits of memory, counts.
//!
//! What a client may leave untaken is limited for each client ([`UNTAKEN_MAX`](crate::client::UNTAKEN_MAX)), but many
//! clients together could still use up the host's memory. As Redis does (`maxmemory-clients`), the router closes those
//! that hold most: a client with ordinary requests is never among them.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::RouteWorker;
use crate::plan::RoutePlan;
use crate::plan::choices::RouteCounts;
use crate::shared::notices::NoticeKind;
use crate::slab::Id;

impl RouteWorker {
    /// Goes on with the plan in force. Requests that have begun end on theirs.
    pub(super) fn adopt(&mut self) {
        if let Some(timeout_ms) = self.servers.late_failover_timeout_ms() {
            self.plans.hold(timeout_ms, self.now);
        }
        let plan = self.shared.plan();
        let places = plan.servers.iter().map(|spec| self.servers.place_of(spec, &mut self.hot)).collect();
        self.plans.replace(plan, places);
        // Nodes have other meanings in another plan.
        self.flights.counts.clear();
        let used = self.plans.earlier_generations();
        let RoutePlan { generation, states, .. } = &**self.plans.current();
        self.choices.adopt(*generation, states, |generation| used.contains(&generation));
        let (plan, hasher) = (self.plans.current(), &self.shared.key_hasher);
        if self.hot.adopt(plan, hasher, || self.servers.random(), &self.cells) {
            self.servers.attach_hot(&mut self.hot);
        }
        self.servers.retire(self.plans.named());
    }

    /// When to look at retired destinations, or whether plans have ended; `None` for never.
    #[inline]
    pub(super) fn next_look(&self) -> Option<Now> {
        (self.servers.has_retired() || self.plans.has_earlier()).then_some(self.servers.look_at())
    }

    /// Forgets plans whose requests have ended, and destinations that none names.
    pub(super) fn forget_retired(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        if self.plans.release(self.now) {
            self.servers.retire(self.plans.named());
        }
        self.servers.forget_retired(turn);
    }

    /// Goes on with lookups that have ended, and with those that take too long.
    pub(super) fn follow_names(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let (awaited, has_news) = self.servers.take_awaited();
        for awaited in awaited {
            if let Some((place, outcome, why)) = self.servers.go_on(awaited, turn) {
                match why {
                    Some(why) => self.lose(place, outcome, Some(&why), turn),
                    None => self.lose(place, outcome, None, turn),
                }
            }
        }
        if has_news && let Some(places) = self.servers.move_destinations(self.plans.places(), &mut self.hot) {
            self.plans.move_to(places);
            self.servers.retire(self.plans.named());
        }
    }

    /// Ends what holds most if more is held than the limit.
    #[cold]
    pub(super) fn free_memory(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let limit = self.clients.held_max();
        let clients = self.clients.held_by_each(turn);
        let mut for_servers = self.servers.held(turn);
        let mut held = clients.iter().map(|(size, _)| size).sum::<usize>() + for_servers;
        if held <= limit {
            return self.clients.looked(for_servers, false);
        }
        let dropped = self.servers.drop_unwanted(|client| self.clients.contains(client));
        (held, for_servers) = (held - dropped, for_servers - dropped);
        let heavy = self.clients.heaviest(held, clients);
        for &(size, client) in &heavy {
            held -= size;
            self.close_heavy(client, size, turn);
        }
        if held > limit {
            for_servers -= self.servers.refuse_replies(held - limit);
        }
        // Replies on their way to clients that are closed now are dropped with the next look.
        self.clients.looked(for_servers, !heavy.is_empty());
    }

    fn close_heavy(&mut self, client: Id, size: usize, turn: &mut Turn<Arc<[u8]>>) {
        if !self.clients.abort(client, turn) {
            return;
        }
        self.cells.closed_for_memory.add(1);
        let (limit_mb, mb) = (self.clients.held_max() >> 20, size >> 20);
        self.servers.say(NoticeKind::Other, || {
            format!(
                "a client is closed that holds {mb} MB of values that it does not take, or did not finish: its thread \
                 holds more than {limit_mb} MB (--buffer-memory-mb)"
            )
        });
    }

    /// Takes over what routes have counted.
    #[cold]
    pub(super) fn count_routes(&mut self) {
        let RouteCounts { dropped, failed_over, unavailable } = std::mem::take(&mut self.choices.counted);
        self.cells.dev_null.add(dropped);
        self.cells.policy_errors.add(failed_over);
        self.cells.policy_unavailable.add(unavailable);
    }
}
