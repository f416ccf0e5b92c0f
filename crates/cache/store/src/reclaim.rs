//! Reclamation of memory: S3-FIFO over whole segments, in steps of some records.
//!
//! A victim is processed from its first record to its last. Each record's key leads to its shard; if the
//! index still points at this very record, the item is live: it is copied forward if it is worth keeping, and
//! dropped otherwise. After the last record nothing refers to the segment, and it is free.
//!
//! One thread at a time reclaims. Locks are taken in this order: reclaim, one shard, one open set or the
//! segments' pool. No thread waits for the reclaim lock while it holds a shard's.

use std::sync::TryLockError;
use std::sync::atomic::Ordering::Relaxed;

use self::state::{Reclaim, ReclaimProgress, Victim, Wanted};
use crate::error::Error;
use crate::segment::VictimPolicy;
use crate::segment::open::OpenSet;
use crate::statistics::{Counters, items_and_bytes};
use crate::store::Store;
use crate::sync::{MutexGuard, lock};

pub(crate) mod ghost;
pub(crate) mod miniature;
pub(crate) mod policy;
mod records;
pub(crate) mod sample;
pub(crate) mod share;
pub(crate) mod state;

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Some records were processed, perhaps a segment was freed.
    Worked,
    /// There is no victim.
    Nothing,
}

/// Records that a store operation examines while free segments are short.
const RECORDS_PER_STORE: usize = 16;
/// Records between two attempts of an operation that cannot wait: about 1 ms.
const RECORDS_PER_TRY: usize = 4096;
/// Giving this many bytes of a large value back takes as long as examining one record.
const BYTES_PER_RECORD: usize = 2048;
/// After this many victims without a gain no items are kept.
const STALLS_MAX: u32 = 4;
/// After this many, although whole segments were dropped, other threads use up what becomes free: the
/// operation fails.
const STALLS_LIMIT: u32 = 1024;
/// Steps that are skipped after a search found no victim.
const REST: u32 = 256;

impl Store {
    /// Calls `attempt` until it succeeds, making room in between. Nothing is evicted unless enough room can
    /// be made.
    pub(crate) fn reclaim_for<T>(
        &self,
        counters: &Counters,
        now: u32,
        wanted: &Wanted,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, Error> {
        if let Some(done) = attempt() {
            return Ok(done);
        }
        let mut reclaim = lock(&self.reclaim);
        if self.evict && !self.can_make_room(&reclaim, wanted) {
            return attempt().ok_or(Error::OutOfMemory);
        }
        reclaim.wanted = *wanted;
        let mut progress = ReclaimProgress { best: self.segments.available(), stalls: 0 };
        let result = loop {
            if let Some(done) = attempt() {
                break Ok(done);
            }
            if let Err(error) =
                self.reclaim_more(&mut reclaim, counters, &mut progress, &mut { RECORDS_PER_TRY }, now)
            {
                break Err(error);
            }
        };
        reclaim.wanted = Wanted::default();
        result
    }

    /// Makes room, examining at most `records` records. Returns how many were examined; an error if enough
    /// room cannot be made. Does nothing while another thread reclaims.
    pub(crate) fn reclaim_towards(
        &self,
        counters: &Counters,
        now: u32,
        wanted: &Wanted,
        progress: &mut ReclaimProgress,
        records: usize,
    ) -> Result<usize, Error> {
        let Some(mut reclaim) = self.try_reclaim() else { return Ok(0) };
        if self.evict && !self.can_make_room(&reclaim, wanted) {
            return Err(Error::OutOfMemory);
        }
        let mut left = records;
        reclaim.wanted = *wanted;
        let mut result = Ok(());
        while result.is_ok() && left > 0 && !self.is_available(wanted.bytes) {
            result = self.reclaim_more(&mut reclaim, counters, progress, &mut left, now);
        }
        reclaim.wanted = Wanted::default();
        result.map(|()| records - left)
    }

    fn is_available(&self, bytes: u64) -> bool {
        self.segments.available() >= bytes + self.segments.reserve_bytes()
    }

    /// Whether enough room can probably be made; true while another thread reclaims, because it is not known
    /// then.
    pub(crate) fn may_make_room(&self, wanted: &Wanted) -> bool {
        if !self.evict || self.is_available(wanted.bytes) {
            return true;
        }
        self.try_reclaim().is_none_or(|reclaim| self.can_make_room(&reclaim, wanted))
    }

    /// Processes up to `left` records of a victim.
    fn reclaim_more(
        &self,
        reclaim: &mut Reclaim,
        counters: &Counters,
        progress: &mut ReclaimProgress,
        left: &mut usize,
        now: u32,
    ) -> Result<(), Error> {
        reclaim.drop_all = self.evict && progress.stalls >= STALLS_MAX;
        let mut step = self.step(reclaim, counters, left, self.victim_policy(), now);
        if step == Step::Nothing {
            // Only segments that are open, for writers or for copies, are left.
            reclaim.targets.seal_all(&self.segments);
            self.open_sets.iter().for_each(|set| set.seal_all(&self.segments));
            step = self.step(reclaim, counters, left, self.victim_policy(), now);
        }
        reclaim.drop_all = false;
        if step == Step::Nothing || progress.stalls > STALLS_LIMIT {
            return Err(Error::OutOfMemory);
        }
        if reclaim.victim.is_none() {
            progress.note(self.segments.available());
        }
        Ok(())
    }

    /// Whether evicting everything evictable would make `wanted` bytes available, beside the reserve of
    /// reclamation. Values that are being received, or still sent after their eviction, are not evictable.
    fn can_make_room(&self, reclaim: &Reclaim, wanted: &Wanted) -> bool {
        let victim = reclaim.victim.as_ref().map_or(0, |victim| self.segments.footprint(victim.id));
        let open_sets = self.open_sets.iter().chain([&reclaim.targets]);
        let open: u64 = open_sets.flat_map(OpenSet::ids).map(|id| self.segments.footprint(id)).sum();
        let most = self.segments.available()
            + self.large.unused()
            + self.segments.footprint_of_sealed()
            + victim
            + open;
        most >= wanted.bytes + self.segments.reserve_bytes() + wanted.spared.map_or(0, |spared| spared.charge)
    }

    /// Called after every store: keeps a segment free, so that operations rarely wait for one.
    #[inline]
    pub(crate) fn reclaim_ahead(&self, counters: &Counters, now: u32) {
        if self.segments.is_short() {
            self.reclaim_some(counters, RECORDS_PER_STORE, now);
        }
    }

    /// Makes some steps towards room, unless another thread reclaims.
    pub(crate) fn reclaim_some(&self, counters: &Counters, mut records: usize, now: u32) {
        let Some(mut reclaim) = self.try_reclaim() else { return };
        if reclaim.rest > 0 {
            reclaim.rest -= 1;
        } else if self.step(&mut reclaim, counters, &mut records, self.victim_policy(), now) == Step::Nothing
        {
            reclaim.rest = REST;
        }
    }

    /// Makes some steps through segments in which everything is dead.
    pub(crate) fn reclaim_dead(&self, counters: &Counters, mut records: usize, now: u32) {
        let Some(mut reclaim) = self.try_reclaim() else { return };
        if self.step(&mut reclaim, counters, &mut records, VictimPolicy::OnlyDead, now) == Step::Nothing {
            let open_sets = self.open_sets.iter().chain([&reclaim.targets]);
            let sealed = open_sets.filter(|set| set.seal_dead(&self.segments, now)).count();
            self.housekeeping.store(sealed > 0 || self.budget.is_lowering(), Relaxed);
        }
    }

    fn try_reclaim(&self) -> Option<MutexGuard<'_, Reclaim>> {
        match self.reclaim.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Before a victim is chosen: the mean size of items, and the small queue's share in percent.
    fn look_at_items(&self, reclaim: &mut Reclaim) -> u8 {
        let (items, bytes) = items_and_bytes(&lock(&self.counters));
        reclaim.mean = bytes / items.max(1);
        if self.segments.is_short() {
            self.sample.set_capacity(bytes);
        }
        let (percent, activity) = (self.sample.policy().small_percent, self.sample.activity());
        let while_idle = reclaim.share.percent(activity, percent);
        // An item that must stay may be most of the main queue: emptying that again and again would make no room.
        if reclaim.wanted.spared.is_some() { percent } else { while_idle }
    }

    fn victim_policy(&self) -> VictimPolicy {
        if self.evict { VictimPolicy::Evict } else { VictimPolicy::Compact }
    }

    fn step(
        &self,
        reclaim: &mut Reclaim,
        counters: &Counters,
        left: &mut usize,
        policy: VictimPolicy,
        now: u32,
    ) -> Step {
        let released = self.large.release_some(left.saturating_mul(BYTES_PER_RECORD));
        if released > 0 {
            *left = left.saturating_sub(released / BYTES_PER_RECORD);
            return Step::Worked;
        }
        if reclaim.victim.is_none() {
            let large_bytes = self.large.bytes() + reclaim.wanted.large;
            let small_percent = self.look_at_items(reclaim);
            let victim = self.segments.choose_victim(now, policy, large_bytes, small_percent);
            let Some((id, treatment)) = victim else { return Step::Nothing };
            reclaim.victim = Some(Victim {
                id,
                done: 0,
                used: self.segments.used(id),
                large: self.segments.large(id),
                treatment,
            });
        }
        let Some(mut victim) = reclaim.victim.take() else { return Step::Nothing };
        while *left > 0 && victim.done < victim.used {
            // A batch is finished even if its large values exceed `left`: 2 ms at most.
            let batch = self.next_batch(&victim, *left);
            for (at, hash) in batch.into_iter().flatten() {
                if !self.keep_or_drop(reclaim, victim.treatment, at, hash, counters, now) {
                    self.segments.put_back(victim.id);
                    self.events.note_segment(false);
                    return Step::Nothing;
                }
                victim.done += self.segments.record(at).size();
                let large = self.segments.large(victim.id);
                let dropped = victim.large.saturating_sub(large) as usize;
                *left = left.saturating_sub(1 + dropped / BYTES_PER_RECORD);
                victim.large = large;
            }
        }
        if victim.done == victim.used {
            counters.segments_reclaimed.add(1);
            self.segments.release(victim.id);
            self.events.note_segment(true);
        } else {
            reclaim.victim = Some(victim);
        }
        Step::Worked
    }
}
