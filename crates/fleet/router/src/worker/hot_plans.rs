//! Hot values when the plan changes, and what is counted of them.

use std::sync::Arc;

use super::RouteWorker;
use crate::hot::cache::{HotCache, HotCacheSettings};
use crate::servers::destination::{HotNote, HotSide};

impl RouteWorker {
    /// Another plan is in force: begins without values.
    pub(super) fn adopt_hot(&mut self) {
        let mut pools: Vec<Arc<HotCacheSettings>> = Vec::new();
        for settings in self.plan.servers.iter().filter_map(|spec| spec.hot_cache.as_ref()) {
            if !pools.contains(settings) {
                pools.push(Arc::clone(settings));
            }
        }
        if pools.is_empty() && self.hot_cache.is_none() {
            return;
        }
        if pools.is_empty() {
            if let Some(cache) = &mut self.hot_cache {
                cache.set_pools([], []);
            }
            self.count_hot();
            self.hot_cache = None;
        } else {
            let (hasher, seed) = (self.shared.key_hasher.clone(), self.prng.next_u64());
            let cache = self.hot_cache.get_or_insert_with(|| Box::new(HotCache::new(hasher, seed)));
            let servers = self.plan.servers.iter().filter(|spec| spec.hot_cache.is_some());
            cache.set_pools(pools, servers.map(|spec| &*spec.name));
        }
        for place in 0..self.destinations.len() as u32 {
            self.attach_hot(place);
        }
    }

    /// Begins to note the requests to a destination, if its server has hot values, or ends it.
    pub(super) fn attach_hot(&mut self, place: u32) {
        let destination = &mut self.destinations[place as usize];
        let spec = &destination.spec;
        let cache = self.hot_cache.as_mut();
        let named = cache.and_then(|cache| cache.server_of_pools(&spec.name).map(|server| (cache, server)));
        let Some((cache, server)) = named else {
            // Notes of requests without an answer are of no use any more.
            if let Some(side) = destination.hot.take() {
                destination.exchanges.iter_mut().for_each(|exchange| exchange.is_noted = false);
                for note in side.notes {
                    self.end_note(Some(side.server), note);
                }
            }
            return;
        };
        let pool = spec.hot_cache.as_ref().and_then(|settings| cache.pool(settings));
        if let Some(side) = &mut destination.hot {
            side.pool = pool;
            return;
        }
        let mut side = HotSide::new(server, pool);
        if let Some(last) = destination.exchanges.back_mut() {
            // What is on its way may change anything.
            last.is_noted = true;
            cache.begin_sweep(side.server);
            side.notes.push_back(HotNote::Sweep);
        }
        destination.hot = Some(Box::new(side));
    }

    /// Counts what has happened since the last turn.
    #[inline]
    pub(super) fn count_hot(&mut self) {
        let Some(cache) = &mut self.hot_cache else { return };
        let counts = cache.take_counts();
        self.cells.hot_hits.add(counts.hits);
        self.cells.hot_fills.add(counts.fills);
        self.cells.hot_dropped.add(counts.dropped);
        self.cells.hot_evicted.add(counts.evicted);
        self.cells.hot_bytes.set(cache.bytes() as u64);
    }
}
