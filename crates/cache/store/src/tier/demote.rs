//! From memory to flash, and off it.

use std::sync::atomic::Ordering::Relaxed;

use super::locate::FlashRead;
use super::pieces::Stream;
use super::state::Tier;
use crate::index::{FlashPlace, PAGE_CHARGE, Slot};
use crate::segment::Queue;
use crate::segment::open::CLASSES;
use crate::segment::record::Record;
use crate::shard::Locked;
use crate::statistics::Counters;
use crate::store::Store;
use crate::tier::layout::record::FlashRecord;
use crate::tier::layout::table::record_max;

impl Store {
    /// Moves an item that would be evicted to flash. False: it has to be dropped.
    pub(crate) fn demote(
        &self,
        lock: &mut Locked<'_>,
        slot: Slot,
        hash: u64,
        counters: &Counters,
        now: u32,
    ) -> bool {
        let Some(tier) = &self.tier else { return false };
        let record = self.segments.record(slot.at());
        let Some(stream) = self.stream_for(tier, record, lock, now) else {
            tier.counters.not_admitted.fetch_add(1, Relaxed);
            return false;
        };
        let value = match record.large(lock) {
            Some(large) => large.as_ref().as_ref(),
            None => record.value(lock),
        };
        let (sequence, header) = (self.segments.sequence(slot.at()), record.header(lock));
        let moved = FlashRecord { at: 0, hash, sequence, header, key: record.key(), value };
        if moved.len() > record_max(tier.geometry.piece_bytes()) {
            tier.counters.not_admitted.fetch_add(1, Relaxed);
            return false;
        }
        // What memory keeps in its main queue was used before it came there.
        let was_used = self.segments.queue(self.segments.of(slot.at())) == Queue::Main;
        if !tier.has_budget(was_used) {
            return false;
        }
        let len = moved.len();
        let Some(place) = tier.append(stream, &moved) else {
            tier.counters.refused.fetch_add(1, Relaxed);
            return false;
        };
        tier.counters.written(len);
        self.events.note_flash_write(record, lock);
        let at = slot.at();
        self.remove_twin(lock, hash, place);
        let slot =
            self.index.find(lock, hash, |location| location == at).expect("only another one was removed");
        self.release_record(lock, at, counters);
        self.index.move_to_flash(lock, slot, place, 0);
        true
    }

    /// Removes slots with this tag that refer to the same page. With two of them nobody could say which one is whose, and the
    /// second one would lead to this key's record when the first one has been removed. By chance, one record in 10^9 has one.
    pub(super) fn remove_twin(&self, lock: &mut Locked<'_>, hash: u64, place: FlashPlace) {
        while let Some(twin) = self.index.find_on_flash(lock, hash, |other| other.page() == place.page()) {
            self.unlink_flash(lock, twin);
        }
    }

    /// With which items it goes to flash; `None`: not at all.
    fn stream_for(&self, tier: &Tier, record: Record<'_>, lock: &Locked<'_>, now: u32) -> Option<Stream> {
        let settings = tier.settings.get();
        let len = record.len(lock);
        let size = self.item_size(record.key_len(), record.flags(lock), len);
        if size < u64::from(settings.item_size_min) || !self.has_index_room(tier) {
            return None;
        }
        let left = record.expiry().wrapping_sub(now);
        let is_low = record.expiry() != 0 && left < settings.low_ttl_s;
        Some(if is_low { Stream::LowTtl } else { Stream::New })
    }

    /// Whether the index has room for one more item on flash; otherwise the thread of the tier makes some.
    fn has_index_room(&self, tier: &Tier) -> bool {
        let objects = tier.objects();
        tier.index_limit.note(self.index_pressure(), objects);
        if tier.wants_index_room() {
            tier.wake();
        }
        tier.index_limit.admits(objects)
    }

    /// The share of the memory limit that the index and the write buffers have.
    pub(super) fn index_percent(&self) -> u64 {
        self.beside_items() * 100 / self.budget.limit()
    }

    /// Gives up an item on flash instead of a page for the index, if the index has all that it may have: with more of it no item could
    /// be stored any more. Long before that the thread of the tier empties segments, but a slow disk, or a busy processor, can keep it
    /// from that.
    pub(crate) fn give_up_for_index_room(&self, lock: &mut Locked<'_>, hash: u64) -> bool {
        let Some(tier) = &self.tier else { return false };
        if self.beside_items() + PAGE_CHARGE <= self.beside_items_max() {
            return false;
        }
        let Some(slot) = self.index.flash_slot_of_home(lock, hash) else { return false };
        // Only the record itself says how long it is.
        tier.counters.evicted(0, slot.frequency() > 0);
        self.unlink_flash(lock, slot);
        true
    }

    /// Bytes of the memory limit that the index and the write buffers have.
    fn beside_items(&self) -> u64 {
        self.index.bytes() + self.policy_bytes() + self.tier_bytes()
    }

    /// The same as a share of the most that they may have, in percent.
    pub(super) fn index_pressure(&self) -> u64 {
        self.beside_items() * 100 / self.beside_items_max().max(1)
    }

    /// What they do not have yet of it.
    #[cfg(test)]
    pub(super) fn index_room(&self) -> u64 {
        self.beside_items_max() - self.beside_items()
    }

    /// The most that they may have: the rest is what writers and reclamation need at the least.
    fn beside_items_max(&self) -> u64 {
        let least = self.segments.reserve_bytes() + (CLASSES * self.segments.size()) as u64;
        self.budget.limit().saturating_sub(least)
    }

    /// Removes an item that is on flash.
    pub(crate) fn unlink_flash(&self, lock: &mut Locked<'_>, slot: Slot) {
        let Some(tier) = &self.tier else { return };
        self.index.remove(lock, slot, |at| self.hash_at(at));
        tier.note_gone(slot.place());
    }

    /// Removes the slot of this hash that refers to a place. Returns whether there was one.
    pub(super) fn drop_place(&self, hash: u64, place: FlashPlace) -> bool {
        let mut locked = self.index.lock(hash);
        let slot = self.index.find_on_flash(&locked, hash, |other| other == place);
        slot.inspect(|slot| self.unlink_flash(&mut locked, *slot)).is_some()
    }

    /// Removes whatever on flash could be the item of this hash, without a look at its key. Returns whether there was
    /// something.
    pub(crate) fn drop_from_flash(&self, lock: &mut Locked<'_>, hash: u64) -> bool {
        self.drop_all_but(lock, hash, &[])
    }

    /// Drops the items that may be a key's, but for those that were read and are other keys'.
    pub(crate) fn drop_all_but(
        &self,
        lock: &mut Locked<'_>,
        hash: u64,
        others: &[Option<FlashRead>],
    ) -> bool {
        if self.tier.is_none() {
            return false;
        }
        let mut was_there = false;
        while let Some(slot) = self.index.find_on_flash(lock, hash, |place| !self.is_other(place, others)) {
            self.unlink_flash(lock, slot);
            was_there = true;
        }
        was_there
    }
}
