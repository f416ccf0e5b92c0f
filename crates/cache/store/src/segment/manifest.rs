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
        self.free.store(pool.free.len() as u64, Relaxed);
        let sealed = || pool.queues.iter().flatten();
        if sealed().any(|id| self.used(*id) > self.room() || self.refund_of(*id) >= self.size as u64) {
            return Err(Damaged);
        }
        let large = sealed().try_fold(0u64, |sum, id| sum.checked_add(self.large(*id)));
        self.large_total.store(large.ok_or(Damaged)?, Relaxed);
        let charges = sealed().map(|id| self.size as u64 - self.refund_of(*id));
        Ok(charges.sum::<u64>() + (pool.free.len() * self.size) as u64)
    }

    fn refund_of(&self, id: SegmentId) -> u64 {
        u64::from(self.refund[id as usize].load(Relaxed))
    }
}
