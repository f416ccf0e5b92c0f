//! Lookup and removal of items under a shard's lock: the parts of all operations.

use stdx::counter::Counter;

use crate::index::Slot;
use crate::index::hash::Key;
use crate::operations::request::Miss;
use crate::segment::Queue;
use crate::segment::record::{FETCHED, LARGE, Record};
use crate::shard::Locked;
use crate::statistics::Counters;
use crate::store::Store;

impl Store {
    /// The hash of the record's key.
    pub(crate) fn hash_at(&self, at: usize) -> u64 {
        self.hash.of(self.segments.record(at).key())
    }

    /// The live item of this key. A dead one is removed.
    #[inline]
    pub(crate) fn look_up(
        &self,
        lock: &mut Locked<'_>,
        key: &Key<'_>,
        now: u32,
        counters: &Counters,
    ) -> Result<Slot, Miss> {
        let is_key = |at: usize| self.segments.record(at).key() == key.bytes;
        let slot = self.index.find(lock, key.hash, is_key).ok_or(Miss::Absent)?;
        match self.why_dead(slot.at(), now) {
            None => Ok(slot),
            Some(Miss::Flushed) => {
                counters.found_flushed.add(1);
                self.unlink(lock, slot, counters);
                Err(Miss::Flushed)
            }
            Some(miss) => {
                counters.found_expired.add(1);
                self.unlink_expired(lock, slot, counters);
                Err(miss)
            }
        }
    }

    /// Why the item is dead; `None` for a live one.
    #[inline]
    pub(crate) fn why_dead(&self, at: usize, now: u32) -> Option<Miss> {
        let expiry = self.segments.record(at).expiry();
        if expiry != 0 && expiry <= now {
            return Some(Miss::Expired);
        }
        self.segments.is_flushed(self.segments.of(at)).then_some(Miss::Flushed)
    }

    /// Removes an expired item.
    pub(crate) fn unlink_expired(&self, lock: &mut Locked<'_>, slot: Slot, counters: &Counters) {
        if self.segments.record(slot.at()).bits() & FETCHED == 0 {
            counters.expired_unfetched.add(1);
        }
        self.unlink(lock, slot, counters);
    }

    /// Removes an item.
    pub(crate) fn unlink(&self, lock: &mut Locked<'_>, slot: Slot, counters: &Counters) {
        self.index.remove(lock, slot, |at| self.hash_at(at));
        self.release_record(lock, slot.at(), counters);
    }

    /// Accounts for a record to which nothing refers any more, and releases its large value.
    pub(crate) fn release_record(&self, lock: &mut Locked<'_>, at: usize, counters: &Counters) {
        let record = self.segments.record(at);
        let segment = self.segments.of(at);
        if record.bits() & LARGE != 0 {
            let charge = lock.drop_large(record.large_number(lock));
            self.segments.sub_large(segment, charge);
            counters.bytes.sub(charge);
            counters.large_items.sub(1);
        }
        counters.bytes.sub(record.size() as u64);
        counters.curr_items.sub(1);
        self.queue_counter(counters, at).sub(1);
        self.segments.note_dead(segment, record.size());
    }

    /// Accounts for a record to which the index now refers.
    pub(crate) fn account_record(&self, at: usize, large: Option<u64>, counters: &Counters) {
        counters.bytes.add(self.segments.record(at).size() as u64 + large.unwrap_or(0));
        counters.large_items.add(u64::from(large.is_some()));
        counters.curr_items.add(1);
        self.queue_counter(counters, at).add(1);
    }

    pub(crate) fn queue_counter<'c>(&self, counters: &'c Counters, at: usize) -> &'c Counter {
        match self.segments.queue(self.segments.of(at)) {
            Queue::Small => &counters.small_items,
            Queue::Main => &counters.main_items,
        }
    }

    /// The CAS unique of a changed item: a new one, unless one is given or CAS is off.
    pub(crate) fn cas(&self, lock: &mut Locked<'_>, given: Option<u64>) -> u64 {
        match given {
            _ if !self.cas => 0,
            Some(cas) => cas,
            // Each shard has its own remainder, so no two shards issue the same number; a key never changes
            // its shard, so its numbers grow.
            None => {
                let steps = lock.count_cas().wrapping_mul(self.cas_step);
                self.first_cas.wrapping_add(steps).wrapping_add(lock.number as u64)
            }
        }
    }

    /// The CAS unique of a record.
    #[inline]
    pub(crate) fn cas_of(&self, record: Record<'_>, lock: &Locked<'_>) -> u64 {
        record.cas(lock).unique(self.first_cas)
    }
}
