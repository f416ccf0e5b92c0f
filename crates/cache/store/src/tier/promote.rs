//! From flash back to memory.

use std::sync::Arc;

use super::locate::{FlashRead, Taken};
use crate::handle::{Handle, Need};
use crate::index::hash::Key;
use crate::operations::new_item::Body;
use crate::operations::put::append;
use crate::segment::Queue;
use crate::segment::open::Class;
use crate::segment::record::LARGE;
use crate::tier::layout::record::FlashRecord;

impl Handle {
    /// Moves an item to memory, if its slot is still the same. Without memory for it the command misses it.
    pub(super) fn promote(
        &mut self,
        key: &Key<'_>,
        read: &FlashRead,
        record: &FlashRecord<'_>,
        now: u32,
    ) -> Taken {
        let body = if record.header.bits & LARGE == 0 {
            Body::Bytes(record.value)
        } else {
            let Ok(mut large) = self.large_value(record.value.len(), now) else { return Taken::Used };
            large.as_mut().copy_from_slice(record.value);
            Body::Large(Arc::new(large))
        };
        loop {
            match self.try_promote(key, read, record, &body, now) {
                Ok(taken) => return taken,
                Err(need) => {
                    if self.provide(need, now).is_err() {
                        return Taken::Used;
                    }
                }
            }
        }
    }

    fn try_promote(
        &mut self,
        key: &Key<'_>,
        read: &FlashRead,
        record: &FlashRecord<'_>,
        body: &Body<'_>,
        now: u32,
    ) -> Result<Taken, Need> {
        let store = &*self.store;
        let set = &store.open_sets[self.set_number()];
        // Before the check for a flush: see `OpenSet::append`.
        let mark = store.segments.flush_mark();
        let mut lock = store.index.lock(key.hash);
        let found = store.unchanged(&lock, key.hash, read.place, read.version, record);
        let (Some(slot), Some(tier)) = (found, &store.tier) else { return Ok(Taken::Gone) };
        if let Some(miss) = store.why_dead_on_flash(record, now) {
            self.miss = miss;
            store.unlink_flash(&mut lock, slot);
            return Ok(Taken::Gone);
        }
        let (expiry, charge) = (record.header.expiry, body.charge());
        let class = Class::new(Queue::Small, charge.is_some(), expiry, now, store.lifetimes);
        let at = append(store, set, class, &mut lock, key, &record.header, body, mark)?;
        let segment = store.segments.of(at);
        store.segments.note_expiry(segment, expiry);
        store.index.relocate(&mut lock, slot, at, slot.frequency().max(1));
        tier.note_gone(slot.place());
        store.account_record(at, charge, &self.counters);
        store.add_large(set, class, segment, charge);
        Ok(Taken::Used)
    }
}
