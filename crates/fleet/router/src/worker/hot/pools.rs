//! Hot values when the plan changes, and what is counted of them.

use std::hash::RandomState;
use std::sync::Arc;

use super::HotValues;
use crate::hot::cache::{HotCache, HotCacheSettings};
use crate::plan::RoutePlan;
use crate::servers::destination::{Destination, HotSide};
use crate::stats::RouteCells;

impl HotValues {
    /// Another plan is in force: begins without values. Whether there were some, or may be some now: then
    /// [`HotValues::attach`] follows for every destination. `seed` makes one for samples of keys.
    pub(crate) fn adopt(
        &mut self,
        plan: &RoutePlan,
        hasher: &RandomState,
        seed: impl FnOnce() -> u64,
        cells: &RouteCells,
    ) -> bool {
        let mut pools: Vec<Arc<HotCacheSettings>> = Vec::new();
        for settings in plan.servers.iter().filter_map(|spec| spec.hot_cache.as_ref()) {
            if !pools.contains(settings) {
                pools.push(Arc::clone(settings));
            }
        }
        if pools.is_empty() && self.cache.is_none() {
            return false;
        }
        if pools.is_empty() {
            if let Some(cache) = &mut self.cache {
                cache.set_pools([], []);
            }
            self.count(cells);
            self.cache = None;
        } else {
            let seed = seed();
            let cache = self.cache.get_or_insert_with(|| Box::new(HotCache::new(hasher.clone(), seed)));
            let servers = plan.servers.iter().filter(|spec| spec.hot_cache.is_some());
            cache.set_pools(pools, servers.map(|spec| &*spec.name));
        }
        true
    }

    /// Begins to note the requests to a destination, if its server has hot values, or ends it.
    pub(crate) fn attach(&mut self, destination: &mut Destination) {
        let spec = &destination.spec;
        let cache = self.cache.as_mut();
        let named = cache.and_then(|cache| cache.server_of_pools(&spec.name).map(|server| (cache, server)));
        let Some((cache, server)) = named else {
            // Notes of requests without an answer are of no use any more.
            if let Some((server, notes)) = destination.queue.end_notes() {
                for note in notes {
                    self.end_note(Some(server), note);
                }
            }
            return;
        };
        let pool = spec.hot_cache.as_ref().and_then(|settings| cache.pool(settings));
        if destination.queue.set_hot_pool(pool) {
            return;
        }
        if destination.queue.begin_notes(HotSide::new(server, pool)) {
            // What is on its way may change anything.
            cache.begin_sweep(server);
        }
    }

    /// Counts what has happened since the last turn.
    #[inline]
    pub(crate) fn count(&mut self, cells: &RouteCells) {
        let Some(cache) = &mut self.cache else { return };
        let counts = cache.take_counts();
        cells.hot_hits.add(counts.hits);
        cells.hot_fills.add(counts.fills);
        cells.hot_dropped.add(counts.dropped);
        cells.hot_evicted.add(counts.evicted);
        cells.hot_bytes.set(cache.bytes() as u64);
    }
}
