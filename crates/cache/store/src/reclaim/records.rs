//! Records of a victim segment: each is copied forward, dropped, or already dead.

use std::sync::atomic::Ordering::Relaxed;

use stdx::prng::mix;

use super::state::{Reclaim, Victim};
use crate::index::Slot;
use crate::operations::request::Miss;
use crate::segment::open::{Class, Lifetime};
use crate::segment::record::{FETCHED, LARGE, Place, Record};
use crate::segment::{Queue, Taker, Treatment};
use crate::shard::Locked;
use crate::statistics::Counters;
use crate::store::Store;

/// Index buckets prefetched at once: as many memory accesses as the processor can have under way.
const BATCH: usize = 16;
/// Small items that were used in these seconds are not evicted for large values that exceed their share: a
/// client can store such values as fast as it likes, but it cannot speed up the clock.
const UNUSED_S: u32 = 600;

/// Result of copying a record forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forward {
    Done,
    Dead,
    NoRoom,
}

impl Store {
    /// The next records of the victim and their hashes; their index buckets are being prefetched.
    pub(super) fn next_batch(&self, victim: &Victim, most: usize) -> [Option<(usize, u64)>; BATCH] {
        let mut batch = [None; BATCH];
        let mut done = victim.done;
        for entry in batch.iter_mut().take(most) {
            if done >= victim.used {
                break;
            }
            let at = self.segments.start(victim.id) + done;
            let hash = self.hash_at(at);
            self.index.prefetch(hash);
            *entry = Some((at, hash));
            done += self.segments.record(at).size();
        }
        batch
    }

    /// Makes sure that nothing refers to the record at `at`. False if there is no room for a copy that is
    /// required.
    pub(super) fn keep_or_drop(
        &self,
        reclaim: &Reclaim,
        treatment: Treatment,
        at: usize,
        hash: u64,
        counters: &Counters,
        now: u32,
    ) -> bool {
        let mut lock = self.index.lock(hash);
        let Some(slot) = self.index.find(&lock, hash, |location| location == at) else { return true };
        let (queue, frequency, keep) = self.destination(reclaim, treatment, &lock, slot, hash, now);
        let spared = reclaim.wanted.spares(hash);
        if keep || spared {
            // The target is chosen before the check for a flush: see `OpenSet::append`.
            let forward = self.copy_forward(reclaim, &mut lock, slot, queue, frequency, counters, now);
            if forward == Forward::Done {
                return true;
            }
            if forward == Forward::NoRoom && (!self.evict || spared) {
                return false;
            }
        }
        match self.why_dead(at, now) {
            Some(Miss::Expired) => {
                counters.reclaimed.add(1);
                self.unlink_expired(&mut lock, slot, counters);
            }
            Some(_) => self.unlink(&mut lock, slot, counters),
            None => self.evict(&mut lock, slot, hash, counters, now),
        }
        true
    }

    /// The queue and frequency of a live item after this pass, and whether it is kept.
    fn destination(
        &self,
        reclaim: &Reclaim,
        treatment: Treatment,
        lock: &Locked<'_>,
        slot: Slot,
        hash: u64,
        now: u32,
    ) -> (Queue, u64, bool) {
        let queue = self.segments.queue(self.segments.of(slot.at()));
        let frequency = slot.frequency();
        let record = self.segments.record(slot.at());
        let is_unused = || record.bits() & LARGE != 0 || now.saturating_sub(record.last_access()) >= UNUSED_S;
        match (treatment, queue) {
            _ if reclaim.drop_all => (queue, 0, false),
            (Treatment::Compact, _) => (queue, frequency, true),
            (Treatment::EvictUnused, _) if !is_unused() => (queue, frequency, true),
            _ => {
                let (mut policy, size) = (self.sample.policy(), self.charge_of(record, lock));
                // Otherwise the small ones would stay for their size, unused as they are.
                policy.by_size &= treatment != Treatment::EvictUnused;
                let draw = mix(hash ^ self.segments.sequence(slot.at()));
                let left = match queue {
                    // Where nothing is read, small items that were not read are no better than others.
                    Queue::Small if frequency == 0 && !reclaim.share.is_used() => None,
                    Queue::Small => policy.promotes(frequency, size, reclaim.mean, draw).then_some(0),
                    Queue::Main => policy.survives(frequency, size, reclaim.mean, draw),
                };
                (Queue::Main, left.unwrap_or(0), left.is_some())
            }
        }
    }

    /// Bytes of an item's record and of its large value.
    pub(crate) fn charge_of(&self, record: Record<'_>, lock: &Locked<'_>) -> u64 {
        record.size() as u64 + record.large(lock).map_or(0, |large| large.charge())
    }

    /// Moves a live item to flash, or evicts it.
    fn evict(&self, lock: &mut Locked<'_>, slot: Slot, hash: u64, counters: &Counters, now: u32) {
        if self.demote(lock, slot, hash, counters, now) {
            return;
        }
        let record = self.segments.record(slot.at());
        counters.evictions.add(1);
        self.events.note_eviction(record, lock);
        let idle_s = now.saturating_sub(record.last_access());
        self.evicted_idle_s.store(idle_s, Relaxed);
        counters.evicted_idle.add(idle_s);
        if record.expiry() != 0 {
            counters.evicted_nonzero.add(1);
        }
        if record.bits() & FETCHED == 0 {
            counters.evicted_unfetched.add(1);
        }
        if slot.frequency() > 0 {
            counters.evicted_active.add(1);
        }
        if self.segments.queue(self.segments.of(slot.at())) == Queue::Small {
            self.ghosts.add(hash, self.charge_of(record, lock), self.budget.limit());
        }
        self.unlink(lock, slot, counters);
    }

    #[expect(clippy::too_many_arguments, reason = "one step of one walk")]
    fn copy_forward(
        &self,
        reclaim: &Reclaim,
        lock: &mut Locked<'_>,
        slot: Slot,
        queue: Queue,
        frequency: u64,
        counters: &Counters,
        now: u32,
    ) -> Forward {
        let at = slot.at();
        let record = self.segments.record(at);
        let large = record.bits() & LARGE != 0;
        let class = match (queue, large) {
            (Queue::Small, false) => Class::Small(Lifetime::Rest),
            (Queue::Main, false) => Class::Main,
            (Queue::Small, true) => Class::LargeSmall,
            (Queue::Main, true) => Class::LargeMain,
        };
        let size = record.size();
        loop {
            let mark = self.segments.flush_mark();
            if self.why_dead(at, now).is_some() {
                return Forward::Dead;
            }
            let copy = |place: Place<'_>| place.copy(record, lock);
            if let Some(to) = reclaim.targets.append(&self.segments, class, size, mark, copy) {
                self.move_to(lock, slot, to, frequency, large, counters);
                if large && self.segments.large(self.segments.of(to)) >= self.large_enough() {
                    reclaim.targets.seal(&self.segments, class);
                }
                return Forward::Done;
            }
            if reclaim.targets.has_room(&self.segments, class, size) {
                continue;
            }
            let Some(id) = self.segments.take(Taker::Reclaimer, queue, now) else { return Forward::NoRoom };
            reclaim.targets.replace(&self.segments, class, id);
        }
    }

    /// Points the item to its copy at `to`.
    fn move_to(
        &self,
        lock: &mut Locked<'_>,
        slot: Slot,
        to: usize,
        frequency: u64,
        large: bool,
        counters: &Counters,
    ) {
        let (from, to_segment) = (self.segments.of(slot.at()), self.segments.of(to));
        let record = self.segments.record(to);
        counters.copied_forward.add(1);
        self.queue_counter(counters, slot.at()).sub(1);
        self.queue_counter(counters, to).add(1);
        self.segments.note_expiry(to_segment, record.expiry());
        if large {
            let charge = lock.large(record.large_number(lock)).charge();
            self.segments.sub_large(from, charge);
            self.segments.add_large(to_segment, charge);
        }
        self.index.relocate(lock, slot, to, frequency);
        self.segments.note_dead(from, record.size());
    }
}
