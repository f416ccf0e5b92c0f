//! A tier in a manifest: which segments are in use, and what is in them. The slots are in the index, in the memory itself.
//!
//! Nothing on the devices says whose they are, and nothing has to: the CRC of each record depends on the secret of the store and on the
//! version of its segment, so what another server has written there is damaged, that is, a miss.

use std::sync::atomic::Ordering::Relaxed;

use super::state::Tier;
use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::sync::lock;

impl Tier {
    /// All pieces are written or given up, and nobody reads.
    pub(crate) fn freeze(&self, manifest: &mut ManifestWriter) {
        let state = lock(&self.state);
        debug_assert_eq!(state.pieces.waiting(), 0, "all have been written");
        // Whoever goes on with them begins with new ones.
        let in_use: Vec<u32> = state.queues.sealed().chain(state.pieces.open_segments()).collect();
        manifest.put(state.queues.versions());
        manifest.put(in_use.len() as u64);
        for segment in in_use {
            let row = &self.rows[segment as usize];
            manifest.put(segment);
            manifest.put(row.objects.load(Relaxed));
            manifest.put(row.records.load(Relaxed));
            manifest.put(row.bytes.load(Relaxed));
            manifest.put(row.version.load(Relaxed));
        }
    }

    /// The tier is empty, and has the same layout. Its thread does nothing until [`Tier::resume`].
    pub(crate) fn thaw(&self, manifest: &mut ManifestReader<'_>) -> Result<(), Damaged> {
        // The items and the devices may still be those of the other one.
        self.activity.stay();
        let number = u64::from(u32::MAX) + 1;
        let versions = manifest.count()?;
        let count = manifest.below(u64::from(self.geometry.segments()) + 1)?;
        let mut sealed = Vec::new();
        for _ in 0..count {
            let segment = manifest.below(self.geometry.segments().into())? as u32;
            let (objects, records) = (manifest.below(number)? as u32, manifest.below(number)? as u32);
            let bytes = manifest.below(self.geometry.segment_bytes() + 1)?;
            let version = manifest.take()?;
            let row = &self.rows[segment as usize];
            // Twice the same one would have a version here.
            if row.version.load(Relaxed) != 0 || !(1..=versions).contains(&version) || objects > records {
                return Err(Damaged);
            }
            row.objects.store(objects, Relaxed);
            row.records.store(records, Relaxed);
            row.bytes.store(bytes, Relaxed);
            row.version.store(version, Relaxed);
            self.objects.fetch_add(objects.into(), Relaxed);
            sealed.push(segment);
        }
        lock(&self.state).queues.thaw(versions, sealed, &self.rows);
        Ok(())
    }
}
