//! Notes of a client's requests without an answer: the pool that each was sent to first, and when it began.

use std::collections::HashMap;
use std::hash::Hash;

use stdx::clock::Now;

use crate::stats::counted_pools::CountedPool;

/// The notes of one client, by what names its requests. Nothing is allocated before the first.
#[derive(Debug)]
pub(crate) struct PoolNotes<R> {
    notes: Option<HashMap<R, (CountedPool, Now)>>,
}

impl<R> Default for PoolNotes<R> {
    fn default() -> PoolNotes<R> {
        PoolNotes { notes: None }
    }
}

impl<R: Hash + Eq> PoolNotes<R> {
    /// A request is sent to a pool. The first one counts.
    pub(crate) fn note(&mut self, request: R, pool: CountedPool, begun: Now) {
        self.notes.get_or_insert_default().entry(request).or_insert((pool, begun));
    }

    /// Requests without an answer.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.notes.as_ref().map_or(0, HashMap::len)
    }

    /// The note of a request that has its answer.
    pub(crate) fn take(&mut self, request: R) -> Option<(CountedPool, Now)> {
        self.notes.as_mut()?.remove(&request)
    }
}
