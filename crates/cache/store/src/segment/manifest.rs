//! Segments in a manifest: the queues, and which segments are free. The rest is in tables, that is, in the memory itself.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::{SegmentId, Segments};
use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};

impl Segments {
    /// No segment is open any more.
    pub(crate) fn freeze(&self, manifest: &mut ManifestWriter) {
        let pool = self.pool();
        debug_assert_eq!(pool.open, 0, "all have been sealed");
        manifest.put(self.flushed_through.load(Relaxed));
        manifest.put(pool.last_sequence);
        manifest.put(self.fresh.load(Relaxed));
        let [small, main] = pool.queues.each_ref().map(|queue| queue.iter());
        manifest.list(pool.free.iter());
        manifest.list(pool.returned.iter());
        manifest.list(small);
        manifest.list(main);
    }

    /// Returns the bytes that are charged.
    pub(crate) fn thaw(&self, manifest: &mut ManifestReader<'_>) -> Result<u64, Damaged> {
        let mut pool = self.pool();
        let flushed_through = manifest.count()?;
        pool.last_sequence = manifest.count()?;
        if flushed_through > pool.last_sequence {
            return Err(Damaged);
        }
        self.flushed_through.store(flushed_through, Release);
        let fresh = manifest.below(u64::from(self.count) + 1)? as u32;
        self.fresh.store(fresh, Relaxed);
        let mut seen = vec![false; fresh as usize];
        let mut ids = || -> Result<Vec<SegmentId>, Damaged> {
            let ids: Vec<SegmentId> = manifest.list()?.iter().map(|id| *id as SegmentId).collect();
            for id in &ids {
                let seen = seen.get_mut(*id as usize).filter(|seen| !**seen).ok_or(Damaged)?;
                *seen = true;
            }
            Ok(ids)
        };
        (pool.free, pool.returned) = (ids()?, ids()?);
        pool.queues = [ids()?.into(), ids()?.into()];
        if seen.contains(&false) {
            return Err(Damaged);
        }
        let sealed = || pool.queues.iter().flatten();
        // A free one may have less than half of its length: another version gives it back in full.
        if sealed().chain(&pool.free).any(|id| self.refund_of(*id) >= self.size as u64)
            || sealed().any(|id| self.used(*id) > self.room_of(*id))
        {
            return Err(Damaged);
        }
        let large = sealed().try_fold(0u64, |sum, id| sum.checked_add(self.large(*id)));
        self.large_total.store(large.ok_or(Damaged)?, Relaxed);
        let charged: u64 = sealed().map(|id| self.len(*id)).sum();
        pool.free_bytes = pool.free.iter().map(|id| self.len(*id)).sum();
        self.free.store(pool.free_bytes, Relaxed);
        Ok(charged + pool.free_bytes)
    }

    fn refund_of(&self, id: SegmentId) -> u64 {
        u64::from(self.refund[id as usize].load(Relaxed))
    }
}
