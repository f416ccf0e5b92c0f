//! Storage operations: set, add, replace, append, prepend, and compare-and-store.
//!
//! An operation looks up, decides and writes under one shard's lock. A missing resource (segment space, an
//! index page, memory for a large value) cannot be acquired under it, as that may mean evicting items of
//! other shards: the operation releases the lock, acquires the resource, and starts over.

use std::sync::Arc;

use crate::error::Error;
use crate::handle::{Handle, Need};
use crate::index::Slot;
use crate::index::hash::Key;
use crate::memory::large::LARGE_VALUE_MIN;
use crate::operations::new_item::{Body, NewItem};
use crate::operations::put::put;
use crate::operations::request::{Change, Condition, Miss, NewValue, Stored};
use crate::reclaim::state::Spared;
use crate::segment::record::{BINARY_KEY, STALE, TOKEN_SENT};
use crate::shard::Locked;
use crate::store::Store;

impl Handle {
    /// Stores a value if the condition holds.
    ///
    /// After an error from a plain set the caller deletes the old value, which is out of date.
    pub fn store(
        &mut self,
        key: &Key<'_>,
        change: &Change,
        value: NewValue<'_>,
        now: u32,
    ) -> Result<Stored, Error> {
        self.enter(now);
        self.store.check_size(key.bytes.len(), change.flags, value.len())?;
        let body = match value {
            NewValue::Bytes(bytes) if bytes.len() < LARGE_VALUE_MIN => Body::Bytes(bytes),
            NewValue::Bytes(bytes) => {
                let mut large = self.large_value(bytes.len(), now)?;
                large.as_mut().copy_from_slice(bytes);
                Body::Large(Arc::new(large))
            }
            NewValue::Large(large) => Body::Large(Arc::new(large)),
        };
        let stored = loop {
            match self.try_store(key, change, &body, now) {
                Ok(stored) => break Ok(stored),
                Err(need) => {
                    if let Err(error) = self.provide(need, now) {
                        // As in memcached, an item stays as it is if there is no memory for the joined value.
                        let joins = matches!(change.condition, Condition::Append | Condition::Prepend);
                        break if joins { Ok(Stored::NotStored) } else { Err(error) };
                    }
                }
            }
        };
        self.join.end();
        self.store.reclaim_ahead(&self.counters, now);
        stored
    }

    fn try_store(
        &mut self,
        key: &Key<'_>,
        change: &Change,
        body: &Body<'_>,
        now: u32,
    ) -> Result<Stored, Need> {
        let store = &*self.store;
        let set = &store.open_sets[self.set_number()];
        let mark = store.segments.flush_mark();
        let mut lock = store.index.lock(key.hash);
        let old = match store.look_up(&mut lock, key, now, &self.counters) {
            Ok(slot) => Some(slot),
            Err(miss) => {
                self.miss = miss;
                None
            }
        };
        let was_dead = old.is_none() && self.miss != Miss::Absent;
        let decision = match old {
            Some(slot) => decide_over(store, &mut lock, slot, change),
            None => decide_new(change),
        };
        let mut item = match decision {
            Decision::Refuse(stored) => {
                if let (Some(slot), Condition::Add) = (old, change.condition) {
                    // As in memcached, an add counts as a use of the item that it found.
                    store.index.count_use(&mut lock, slot);
                    store.segments.record(slot.at()).set_last_access(&mut lock, now);
                }
                if old.is_none() {
                    // Who is told that there is nothing must not find it afterwards: another thread may have moved it to flash since it was
                    // looked for there.
                    store.drop_from_flash(&mut lock, key.hash);
                }
                return Ok(stored);
            }
            Decision::Write(item) => item,
        };
        if was_dead {
            // As in memcached: an item is stored in the place of a dead one. If it lacks room, its next attempt finds none.
            self.counters.reclaimed.add(1);
        }
        item.cas = store.cas(&mut lock, change.new_cas);
        let mut put = |lock: &mut Locked<'_>, body: &Body<'_>| {
            let spare = &mut self.spare_page;
            put(store, &self.counters, set, spare, lock, key, old, &item, body, mark, now)?;
            self.counters.total_items.add(1);
            if self.noted.samples(key.hash) {
                self.noted.add(key.hash, store.stored(lock, key, old.is_none()), &store.sample);
            }
            Ok(Stored::Stored { cas: item.cas, len: body.len(), expiry: item.expiry })
        };
        let joins = matches!(change.condition, Condition::Append | Condition::Prepend);
        let Some(slot) = old.filter(|_| joins) else { return put(&mut lock, body) };
        let record = store.segments.record(slot.at());
        let (old_bytes, old_charge) = match record.large(&lock) {
            Some(large) => (large.as_ref().as_ref(), large.charge()),
            None => (record.value(&lock), 0),
        };
        self.join.spared = Some(Spared { hash: key.hash, charge: old_charge });
        let len = old_bytes.len() + body.len();
        if store.check_size(key.bytes.len(), item.flags, len).is_err() {
            return Ok(Stored::NotStored);
        }
        let joined = self.join.at_once(record, &lock, old_bytes, change.condition, body, &mut self.scratch);
        let Some(joined) = joined.map_err(Need::Large)? else { return Ok(Stored::NotStored) };
        let stored = put(&mut lock, &joined);
        if let (Err(_), Body::Large(joined)) = (&stored, joined) {
            self.join.keep(joined);
        }
        stored
    }
}

/// What a storage operation does.
enum Decision {
    Refuse(Stored),
    /// The CAS unique is still to be set.
    Write(NewItem),
}

/// The decision if there is no item.
fn decide_new(change: &Change) -> Decision {
    let item = new_item(change, change.expiry);
    match (change.condition, change.compare_cas) {
        (Condition::Set | Condition::Replace, Some(_)) => Decision::Refuse(Stored::NotFound),
        (Condition::Set | Condition::Add, _) => Decision::Write(item),
        (Condition::Replace, None) => Decision::Refuse(Stored::NotStored),
        (Condition::Append | Condition::Prepend, _) => match change.vivify {
            Some(expiry) => Decision::Write(NewItem { expiry, ..item }),
            None => Decision::Refuse(Stored::NotStored),
        },
    }
}

/// The decision if there is an item.
fn decide_over(store: &Store, lock: &mut Locked<'_>, slot: Slot, change: &Change) -> Decision {
    let record = store.segments.record(slot.at());
    let cas = store.cas_of(record, lock);
    // Without CAS uniques nothing can match, and 0 is not a unique.
    let wanted = change.compare_cas.filter(|wanted| store.cas && *wanted != 0);
    let item = new_item(change, change.expiry);
    match change.condition {
        Condition::Add => Decision::Refuse(Stored::NotStored),
        Condition::Append | Condition::Prepend if wanted.is_none_or(|wanted| wanted == cas) => {
            let bits = record.bits() & BINARY_KEY;
            Decision::Write(NewItem { flags: record.flags(lock), expiry: record.expiry(), bits, cas: 0 })
        }
        Condition::Append | Condition::Prepend => Decision::Refuse(Stored::Exists),
        Condition::Set | Condition::Replace => match (change.compare_cas, wanted) {
            (None, _) => Decision::Write(item),
            (_, Some(wanted)) if wanted == cas => Decision::Write(item),
            (_, Some(wanted)) if change.invalidate && wanted < cas => {
                // The value is late, but better than none: it is marked stale, and the expiry is not
                // extended.
                let bits = item.bits | STALE | record.bits() & TOKEN_SENT;
                Decision::Write(NewItem { expiry: record.expiry(), bits, ..item })
            }
            _ => Decision::Refuse(Stored::Exists),
        },
    }
}

fn new_item(change: &Change, expiry: u32) -> NewItem {
    let bits = if change.key_is_binary { BINARY_KEY } else { 0 };
    NewItem { flags: change.flags, expiry, bits, cas: 0 }
}

#[cfg(test)]
mod tests;
