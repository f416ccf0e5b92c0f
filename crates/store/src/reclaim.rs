//! Making room: S3-FIFO over whole segments, in steps of some records.
//!
//! A victim is walked from its first record to its last. Each record's key leads to its shard; if the
//! index still points at this very record, the item is live: it is copied forward if it is worth it,
//! and dropped otherwise. After the last one nothing refers to the segment, and it is free.
//!
//! One thread at a time reclaims. Locks are taken in this order: reclaim, one shard, one open set or
//! the segments' pool. Nobody waits for this lock while holding a shard's.

use std::sync::TryLockError;
use std::sync::atomic::Ordering::Relaxed;

use self::state::{Pressure, Reclaim, Victim, Wanted};
use crate::error::Error;
use crate::open::OpenSet;
use crate::segment::Wish;
use crate::statistics::Counters;
use crate::store::Store;
use crate::sync::{MutexGuard, lock};

mod records;
pub(crate) mod state;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Some records were dealt with, perhaps a segment was freed.
    Worked,
    /// There is no victim.
    Nothing,
}

/// A store that has filled its last segment but a few looks at this many records per stored item.
const RECORDS_PER_STORE: usize = 16;
/// Who cannot wait looks again after so many whether there is room: about 1 ms.
const RECORDS_PER_TRY: usize = 4096;
/// To give so many bytes of a large value back takes as long as to look at a record.
const BYTES_PER_RECORD: usize = 2048;
/// After so many victims without any gain nothing is kept any more.
const STALLS_MAX: u32 = 4;
/// After so many, even of nothing but whole segments dropped, others use up what becomes free: it is given up.
const STALLS_LIMIT: u32 = 1024;
/// So many steps are skipped after a search for a victim was in vain.
const REST: u32 = 256;

impl Store {
    /// Does `attempt` until it succeeds, making room in between. Nothing is evicted unless so much can be had.
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
        if self.evict && !self.can_be_had(&reclaim, wanted) {
            return attempt().ok_or(Error::OutOfMemory);
        }
        reclaim.wanted = *wanted;
        let mut pressure = Pressure { best: self.segments.available(), stalls: 0 };
        let result = loop {
            if let Some(done) = attempt() {
                break Ok(done);
            }
            if let Err(error) =
                self.press(&mut reclaim, counters, &mut pressure, &mut { RECORDS_PER_TRY }, now)
            {
                break Err(error);
            }
        };
        reclaim.wanted = Wanted::default();
        result
    }

    /// Steps towards room, of so many records at most. Returns how many there were; an error if so much
    /// cannot be had. Nothing happens while another thread makes room.
    pub(crate) fn reclaim_towards(
        &self,
        counters: &Counters,
        now: u32,
        wanted: &Wanted,
        pressure: &mut Pressure,
        records: usize,
    ) -> Result<usize, Error> {
        let Some(mut reclaim) = self.try_reclaim() else { return Ok(0) };
        if self.evict && !self.can_be_had(&reclaim, wanted) {
            return Err(Error::OutOfMemory);
        }
        let mut left = records;
        reclaim.wanted = *wanted;
        let mut result = Ok(());
        while result.is_ok() && left > 0 && !self.is_available(wanted.bytes) {
            result = self.press(&mut reclaim, counters, pressure, &mut left, now);
        }
        reclaim.wanted = Wanted::default();
        result.map(|()| records - left)
    }

    fn is_available(&self, bytes: u64) -> bool {
        self.segments.available() >= bytes + self.segments.reserve_bytes()
    }

    /// Whether there might be so much room; where another thread makes room just now, it is not known.
    pub(crate) fn may_be_had(&self, wanted: &Wanted) -> bool {
        if !self.evict || self.is_available(wanted.bytes) {
            return true;
        }
        self.try_reclaim().is_none_or(|reclaim| self.can_be_had(&reclaim, wanted))
    }

    /// Deals with `left` records of a victim, or with all that it has.
    fn press(
        &self,
        reclaim: &mut Reclaim,
        counters: &Counters,
        pressure: &mut Pressure,
        left: &mut usize,
        now: u32,
    ) -> Result<(), Error> {
        reclaim.drop_all = self.evict && pressure.stalls >= STALLS_MAX;
        let mut step = self.step(reclaim, counters, left, self.wish(), now);
        if step == Step::Nothing {
            // What was copied forward or is still open is all that is left.
            reclaim.targets.seal_all(&self.segments);
            self.open_sets.iter().for_each(|set| set.seal_all(&self.segments));
            step = self.step(reclaim, counters, left, self.wish(), now);
        }
        reclaim.drop_all = false;
        if step == Step::Nothing || pressure.stalls > STALLS_LIMIT {
            return Err(Error::OutOfMemory);
        }
        if reclaim.victim.is_none() {
            pressure.note(self.segments.available());
        }
        Ok(())
    }

    /// Whether evicting everything that can be would make so many bytes available, beside what reclamation keeps
    /// for itself. What is being received, or sent after its eviction, cannot be had.
    fn can_be_had(&self, reclaim: &Reclaim, wanted: &Wanted) -> bool {
        let victim = reclaim.victim.as_ref().map_or(0, |victim| self.segments.worth(victim.id));
        let open_sets = self.open_sets.iter().chain([&reclaim.targets]);
        let open: u64 = open_sets.flat_map(OpenSet::ids).map(|id| self.segments.worth(id)).sum();
        let most =
            self.segments.available() + self.large.unused() + self.segments.worth_of_sealed() + victim + open;
        most >= wanted.bytes + self.segments.reserve_bytes() + wanted.spared.map_or(0, |spared| spared.charge)
    }

    /// Called after every store: keeps a segment free, so that nobody has to wait for one.
    #[inline]
    pub(crate) fn reclaim_ahead(&self, counters: &Counters, now: u32) {
        if self.segments.is_short() {
            self.reclaim_some(counters, RECORDS_PER_STORE, now);
        }
    }

    /// Some steps towards room, unless someone else is at it.
    pub(crate) fn reclaim_some(&self, counters: &Counters, mut records: usize, now: u32) {
        let Some(mut reclaim) = self.try_reclaim() else { return };
        if reclaim.rest > 0 {
            reclaim.rest -= 1;
        } else if self.step(&mut reclaim, counters, &mut records, self.wish(), now) == Step::Nothing {
            reclaim.rest = REST;
        }
    }

    /// Some steps through what is wholly dead.
    pub(crate) fn reclaim_dead(&self, counters: &Counters, mut records: usize, now: u32) {
        let Some(mut reclaim) = self.try_reclaim() else { return };
        if self.step(&mut reclaim, counters, &mut records, Wish::OnlyDead, now) == Step::Nothing {
            self.chores.store(self.budget.is_loose(), Relaxed);
        }
    }

    fn try_reclaim(&self) -> Option<MutexGuard<'_, Reclaim>> {
        match self.reclaim.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn wish(&self) -> Wish {
        if self.evict { Wish::Evict } else { Wish::Compact }
    }

    fn step(
        &self,
        reclaim: &mut Reclaim,
        counters: &Counters,
        left: &mut usize,
        wish: Wish,
        now: u32,
    ) -> Step {
        let released = self.large.release_some(left.saturating_mul(BYTES_PER_RECORD));
        if released > 0 {
            *left = left.saturating_sub(released / BYTES_PER_RECORD);
            return Step::Worked;
        }
        if reclaim.victim.is_none() {
            let large_bytes = self.large.bytes() + reclaim.wanted.large;
            let victim = self.segments.choose_victim(now, wish, large_bytes);
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
            // A batch is finished, even if its values take longer to give back than what is left: 2 ms.
            let batch = self.next_batch(&victim, *left);
            for (at, hash) in batch.into_iter().flatten() {
                if !self.deal_with(reclaim, victim.treatment, at, hash, counters, now) {
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
