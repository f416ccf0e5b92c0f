//! Storing: set, add, replace, append, prepend, and compare-and-store.
//!
//! An operation looks, decides and writes under one shard's lock. What it lacks (a place, an index page,
//! memory for a large value) it cannot get there, as that may mean evicting items of other shards: it
//! lets go of the lock, gets it, and starts over.

use std::sync::Arc;

use crate::error::Error;
use crate::handle::{Handle, Need};
use crate::hash::Key;
use crate::index::{NewPage, Refused, Slot};
use crate::join::prepared::Prepared;
use crate::large::{LARGE_VALUE_MIN, LargeValue};
use crate::open::{Class, OpenSet};
use crate::reclaim::state::Spared;
use crate::record::{BINARY_KEY, CasOffset, Header, LARGE, Place, STALE, TOKEN_SENT};
use crate::request::{Change, Condition, NewValue, Stored};
use crate::segment::Queue;
use crate::shard::Locked;
use crate::statistics::Counters;
use crate::store::Store;

/// An item to be written, without key and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewItem {
    pub(crate) flags: u32,
    pub(crate) expiry: u32,
    pub(crate) bits: u8,
    pub(crate) cas: u64,
}

/// A value to be written.
#[derive(Clone, Debug)]
pub(crate) enum Body<'v> {
    Bytes(&'v [u8]),
    Large(Arc<LargeValue>),
}

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
                        // As in memcached, an item to which nothing can be joined stays as it is.
                        let joins = matches!(change.condition, Condition::Append | Condition::Prepend);
                        break if joins { Ok(Stored::NotStored) } else { Err(error) };
                    }
                }
            }
        };
        (self.spare_large, self.spared, self.prepared) = (None, None, None);
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
        let set = self.set_number();
        let store = &*self.store;
        let set = &store.open_sets[set];
        let mark = store.segments.flush_mark();
        let mut lock = store.index.lock(key.hash);
        let old = match store.look_up(&mut lock, key, now, &self.counters) {
            Ok(slot) => Some(slot),
            Err(miss) => {
                self.miss = miss;
                None
            }
        };
        let decision = match old {
            Some(slot) => decide_over(store, &mut lock, slot, change),
            None => decide_new(change),
        };
        let mut item = match decision {
            Decision::Refuse(stored) => {
                if let (Some(slot), Condition::Add) = (old, change.condition) {
                    // An add counts as a use of what it found.
                    store.index.count_use(&mut lock, slot);
                    store.segments.record(slot.at()).set_last_access(&mut lock, now);
                }
                return Ok(stored);
            }
            Decision::Write(item) => item,
        };
        item.cas = store.cas(&mut lock, change.new_cas);
        let mut put = |lock: &mut Locked<'_>, body: &Body<'_>| {
            let spare = &mut self.spare_page;
            put(store, &self.counters, set, spare, lock, key, old, &item, body, mark, now)?;
            self.counters.total_items.add(1);
            Ok(Stored::Stored { cas: item.cas, len: body.len(), expiry: item.expiry })
        };
        let join = matches!(change.condition, Condition::Append | Condition::Prepend);
        let Some(slot) = old.filter(|_| join) else { return put(&mut lock, body) };

        let record = store.segments.record(slot.at());
        let (old_bytes, old_charge) = match record.large(&lock) {
            Some(large) => (large.as_ref().as_ref(), large.charge()),
            None => (record.value(&lock), 0),
        };
        self.spared = Some(Spared { hash: key.hash, charge: old_charge });
        let len = old_bytes.len() + body.len();
        if store.check_size(key.bytes.len(), item.flags, len).is_err() {
            return Ok(Stored::NotStored);
        }
        match &self.prepared {
            Some(Prepared::Nothing) => return Ok(Stored::NotStored),
            Some(Prepared::Whole { old, joined, .. }) if old.is_of(record, &lock) => {
                let joined = Body::Large(Arc::clone(joined));
                return put(&mut lock, &joined);
            }
            _ => {}
        }
        let pieces = match change.condition {
            Condition::Append => [old_bytes, body.as_bytes()],
            _ => [body.as_bytes(), old_bytes],
        };
        if len < LARGE_VALUE_MIN {
            self.scratch.clear();
            pieces.iter().for_each(|piece| self.scratch.extend_from_slice(piece));
            return put(&mut lock, &Body::Bytes(&self.scratch));
        }
        let Some(mut large) = self.spare_large.take().filter(|spare| spare.len() == len) else {
            return Err(Need::Large(len));
        };
        let (front, back) = large.as_mut().split_at_mut(pieces[0].len());
        front.copy_from_slice(pieces[0]);
        back.copy_from_slice(pieces[1]);
        let joined = Arc::new(large);
        let stored = put(&mut lock, &Body::Large(Arc::clone(&joined)));
        if stored.is_err() {
            // For the next try.
            self.spare_large = Arc::try_unwrap(joined).ok();
        }
        stored
    }
}

/// What is to be done.
enum Decision {
    Refuse(Stored),
    /// The CAS unique is still to be set.
    Write(NewItem),
}

/// Where nothing is.
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

/// Where something is.
fn decide_over(store: &Store, lock: &mut Locked<'_>, slot: Slot, change: &Change) -> Decision {
    let record = store.segments.record(slot.at());
    let cas = store.cas_of(record, lock);
    // Without CAS uniques nothing can match one, and 0 is none.
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
                // Late, but better than nothing: marked stale, and the time left is not prolonged.
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

/// Writes an item: over the old one if it takes the very same space, else at the end of an open segment.
#[expect(clippy::too_many_arguments, reason = "the parts of a handle, borrowed one by one")]
pub(crate) fn put(
    store: &Store,
    counters: &Counters,
    set: &OpenSet,
    spare_page: &mut Option<NewPage>,
    lock: &mut Locked<'_>,
    key: &Key<'_>,
    old: Option<Slot>,
    item: &NewItem,
    body: &Body<'_>,
    mark: u64,
    now: u32,
) -> Result<(), Need> {
    let large = if matches!(body, Body::Large(_)) { LARGE } else { 0 };
    let NewItem { flags, expiry, bits, cas } = *item;
    let cas = CasOffset::new(cas, store.first_cas);
    let header = Header { expiry, last_access: now, cas, flags, bits: bits | large };
    if let (Some(slot), Body::Bytes(bytes)) = (old, body) {
        let record = store.segments.record(slot.at());
        if record.fits(&header, bytes.len()) {
            record.overwrite(lock, &header, bytes);
            store.segments.note_expiry(store.segments.of(slot.at()), expiry);
            counters.overwritten_in_place.add(1);
            return Ok(());
        }
    }
    if old.is_none() {
        make_index_room(store, counters, spare_page, lock, key)?;
    }
    let queue = queue_for(store, counters, key, old);
    let class = Class::new(queue, large != 0, expiry, now, store.lifetimes);
    let at = append(store, set, class, lock, key, &header, body, mark)?;
    let charge = body.charge();
    let segment = store.segments.of(at);
    store.segments.note_expiry(segment, expiry);
    match old {
        Some(slot) => {
            store.index.relocate(lock, slot, at, slot.frequency());
            store.give_up(lock, slot.at(), counters);
        }
        None => store.index.insert(lock, key.hash, at, 0),
    }
    store.count_in(at, charge, counters);
    if let Some(charge) = charge
        && store.segments.add_large(segment, charge) >= store.large_enough()
    {
        set.seal(&store.segments, class);
    }
    Ok(())
}

/// A replaced item stays in its queue; who was evicted not long ago is not new.
fn queue_for(store: &Store, counters: &Counters, key: &Key<'_>, old: Option<Slot>) -> Queue {
    match old {
        Some(slot) => store.segments.queue(store.segments.of(slot.at())),
        None if store.ghosts.contains(key.hash) => {
            counters.ghost_hits.add(1);
            Queue::Main
        }
        None => Queue::Small,
    }
}

#[expect(clippy::too_many_arguments, reason = "as its caller")]
fn append(
    store: &Store,
    set: &OpenSet,
    class: Class,
    lock: &mut Locked<'_>,
    key: &Key<'_>,
    header: &Header,
    body: &Body<'_>,
    mark: u64,
) -> Result<usize, Need> {
    let append = |value: &[u8]| {
        let size = header.record_size(key.bytes.len(), value.len());
        let write = |place: Place<'_>| place.write(header, key.bytes, value);
        set.append(&store.segments, class, size, mark, write).ok_or(Need::Room(class, size))
    };
    match body {
        Body::Bytes(bytes) => append(bytes),
        Body::Large(large) => {
            let number = lock.keep_large(Arc::clone(large));
            let at = append(&number.to_le_bytes());
            if at.is_err() {
                lock.drop_large(number);
            }
            at
        }
    }
}

/// Sees to a free slot for a new entry.
fn make_index_room(
    store: &Store,
    counters: &Counters,
    spare_page: &mut Option<NewPage>,
    lock: &mut Locked<'_>,
    key: &Key<'_>,
) -> Result<(), Need> {
    while !store.index.has_room(lock, key.hash) {
        if spare_page.is_none() {
            return Err(Need::Page);
        }
        let prefetch = |at: usize| store.segments.prefetch(at);
        let hash_at = |at: usize| store.hash_at(at);
        match store.index.split(lock, key.hash, spare_page, prefetch, hash_at) {
            Ok(()) => counters.splits.add(1),
            Err(Refused::Level(depth)) => return Err(Need::Levels(depth)),
            Err(Refused::Full) if !store.evict => return Err(Need::Refusal),
            Err(Refused::Full) => {
                // Some 70 keys or more of nearly the same hash: never by chance, and there must be an end.
                let slot = store.index.in_the_way(lock, key.hash);
                counters.evictions.add(1);
                store.events.note_eviction(store.segments.record(slot.at()), lock);
                store.unlink(lock, slot, counters);
            }
        }
    }
    Ok(())
}

impl Body<'_> {
    fn len(&self) -> usize {
        self.as_bytes().len()
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::Large(large) => large.as_ref().as_ref(),
        }
    }

    fn charge(&self) -> Option<u64> {
        match self {
            Body::Bytes(_) => None,
            Body::Large(large) => Some(large.charge()),
        }
    }
}

#[cfg(test)]
mod tests;
