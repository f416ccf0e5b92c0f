//! Deletion, and the variants of meta delete: marking an item stale, dropping only its value.

use crate::error::Error;
use crate::handle::{Handle, Need};
use crate::index::hash::Key;
use crate::operations::new_item::{Body, NewItem};
use crate::operations::put::put;
use crate::operations::request::{Delete, Deleted};
use crate::reclaim::miniature::KeyUse;
use crate::segment::record::{BINARY_KEY, CasOffset, Header, LARGE, Record, STALE, TOKEN_SENT};
use crate::shard::Locked;
use crate::store::Store;
use crate::tier::SoughtItem;

impl Handle {
    /// Deletes an item, or only its value, or marks it stale. Fails only if there is no memory for the record
    /// of an item that stays.
    pub fn delete(&mut self, key: &Key<'_>, request: &Delete, now: u32) -> Result<Deleted, Error> {
        self.enter(now);
        let sought = self.sought.take().filter(|sought| sought.hash == key.hash);
        loop {
            match self.try_delete(key, request, sought.as_ref(), now) {
                Ok(deleted) => return Ok(deleted),
                Err(need) => self.provide(need, now)?,
            }
        }
    }

    fn try_delete(
        &mut self,
        key: &Key<'_>,
        request: &Delete,
        sought: Option<&SoughtItem>,
        now: u32,
    ) -> Result<Deleted, Need> {
        let store = &*self.store;
        let set = &store.open_sets[self.set_number()];
        let mark = store.segments.flush_mark();
        let mut lock = store.index.lock(key.hash);
        let slot = match store.look_up(&mut lock, key, now, &self.counters) {
            Ok(slot) => slot,
            Err(miss) => {
                self.miss = miss;
                let is_plain = !request.mark_stale && !request.drop_value && request.compare_cas.is_none();
                // What was not looked at goes, too: it may be the item, moved there in between. Without a look at all, everything
                // with this tag goes.
                let (others, len) = sought.map_or((&[][..], 0), |sought| (&sought.others[..], sought.len));
                let was_on_flash = store.drop_all_but(&mut lock, key.hash, others);
                let is_deleted = is_plain && was_on_flash;
                return Ok(if is_deleted { Deleted::Deleted { len } } else { Deleted::NotFound });
            }
        };
        let record = store.segments.record(slot.at());
        if request.compare_cas.is_some_and(|wanted| wanted != store.cas_of(record, &lock)) {
            return Ok(Deleted::Exists);
        }
        if !request.mark_stale && !request.drop_value {
            let len = record.len(&lock);
            if self.noted.samples(key.hash) {
                self.noted.add(key.hash, KeyUse::Gone, &store.sample);
            }
            store.unlink(&mut lock, slot, &self.counters);
            return Ok(Deleted::Deleted { len });
        }

        let item = store.kept(&mut lock, record, request);
        let put = |lock: &mut Locked<'_>, spare: &mut _, body: &Body<'_>| {
            put(store, &self.counters, set, spare, lock, key, Some(slot), &item, body, mark, now)
        };
        let spare = &mut self.spare_page;
        if request.drop_value {
            put(&mut lock, spare, &Body::Bytes(&[]))?;
            self.counters.total_items.add(1);
        } else if !store.mark_in_place(&mut lock, slot.at(), &item) {
            // Only a CAS unique of another width, which does not fit the record, needs a new record.
            if let Some(large) = record.large(&lock).cloned() {
                put(&mut lock, spare, &Body::Large(large))?;
            } else {
                self.scratch.clear();
                self.scratch.extend_from_slice(record.value(&lock));
                put(&mut lock, spare, &Body::Bytes(&self.scratch))?;
            }
        }
        Ok(Deleted::Kept)
    }
}

impl Store {
    /// The header of an item that is not deleted as a whole.
    fn kept(&self, lock: &mut Locked<'_>, record: Record<'_>, request: &Delete) -> NewItem {
        let (bits, old_cas) = (record.bits(), self.cas_of(record, lock));
        let mut item =
            NewItem { flags: record.flags(lock), expiry: record.expiry(), bits: bits & !LARGE, cas: old_cas };
        if request.drop_value {
            // A new, empty item under the old CAS unique, unless another is given.
            item.flags = request.flags;
            item.expiry = request.expiry.unwrap_or(0);
            item.bits = bits & BINARY_KEY;
            item.cas = request.new_cas.filter(|_| self.cas).unwrap_or(old_cas);
        }
        if request.mark_stale {
            item.expiry = request.expiry.unwrap_or(item.expiry);
            item.bits = item.bits & !TOKEN_SENT | STALE;
            item.cas = self.cas(lock, request.new_cas);
        }
        item
    }

    /// Writes the header over the old one if the layout is the same; returns false otherwise.
    fn mark_in_place(&self, lock: &mut Locked<'_>, at: usize, item: &NewItem) -> bool {
        let record = self.segments.record(at);
        let large = record.bits() & LARGE;
        let NewItem { flags, expiry, bits, cas } = *item;
        let cas = CasOffset::new(cas, self.first_cas);
        let header = Header { expiry, last_access: record.last_access(), cas, flags, bits: bits | large };
        if !record.fits(&header, record.value_len()) {
            return false;
        }
        record.set_header(lock, &header);
        self.segments.note_expiry(self.segments.of(at), expiry);
        true
    }
}
