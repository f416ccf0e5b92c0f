//! The index in a manifest: shards, and which pages are in use. Slots, directories and numbers of entries are in the memory itself.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::{DEPTH_MAX, Index};
use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::sync::lock;

impl Index {
    /// No operation is under way, and no handle has a spare page.
    pub(crate) fn freeze(&self, manifest: &mut ManifestWriter) {
        manifest.put(self.fresh.load(Relaxed));
        manifest.list(lock(&self.returned).iter());
        manifest.put(self.directory.levels_charged());
        for number in 0..self.shards() {
            let mut shard = self.lock_shard(number);
            manifest.put(self.shards[number].depth.load(Relaxed));
            manifest.put(shard.pages().deepest as u64);
            shard.freeze(manifest);
        }
    }

    /// `large` is the space of large values.
    pub(crate) fn thaw(
        &self,
        manifest: &mut ManifestReader<'_>,
        large: &std::sync::Arc<crate::memory::large::LargeSpace>,
    ) -> Result<(), Damaged> {
        let fresh = manifest.below(u64::from(self.pages_max) + 1)? as u32;
        let returned: Vec<u32> = manifest.list()?.iter().map(|page| *page as u32).collect();
        let mut distinct = returned.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let is_right = distinct.len() == returned.len() && distinct.last().is_none_or(|page| *page < fresh);
        if !is_right || (fresh as usize) < self.shards() {
            return Err(Damaged);
        }
        self.fresh.store(fresh, Relaxed);
        self.returned_count.store(returned.len() as u32, Relaxed);
        *lock(&self.returned) = returned;
        let levels = manifest.below(u64::from(DEPTH_MAX) + 1)?;
        let mut depths = Vec::with_capacity(self.shards());
        for number in 0..self.shards() {
            let mut shard = self.lock_shard(number);
            let depth = manifest.below(levels + 1)? as u32;
            depths.push(depth);
            self.shards[number].depth.store(depth, Release);
            shard.pages().deepest = manifest.below((1 << depth) + 1)? as usize;
            shard.thaw(manifest, large)?;
        }
        self.directory.thaw(levels, &depths)
    }
}
