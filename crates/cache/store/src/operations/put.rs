//! Writes of items under their shard's lock: places in a segment and in the index.

use std::sync::Arc;

use crate::handle::Need;
use crate::index::hash::Key;
use crate::index::{NewPage, Refused, Slot};
use crate::operations::new_item::{Body, NewItem};
use crate::segment::open::{Class, OpenSet};
use crate::segment::record::{CasOffset, Header, LARGE, Place};
use crate::segment::{Queue, SegmentId};
use crate::shard::Locked;
use crate::statistics::Counters;
use crate::store::Store;

/// Writes an item: over the old record if it has the same size and layout, else at the end of an open
/// segment.
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
        // Whatever is on flash of this key is out of date now.
        store.drop_from_flash(lock, key.hash);
        make_index_room(store, counters, spare_page, lock, key)?;
    }
    let (queue, is_ghost) = queue_for(store, key, old);
    let class = Class::new(queue, large != 0, expiry, now, store.lifetimes);
    let at = append(store, set, class, lock, key, &header, body, mark)?;
    if is_ghost {
        counters.ghost_hits.add(1);
        store.ghosts.forget(key.hash, store.ghost_ages());
    }
    let charge = body.charge();
    let segment = store.segments.of(at);
    store.segments.note_expiry(segment, expiry);
    match old {
        Some(slot) => {
            store.index.relocate(lock, slot, at, slot.frequency());
            store.release_record(lock, slot.at(), counters);
        }
        None => store.index.insert(lock, key.hash, at, 0),
    }
    store.account_record(at, charge, counters);
    store.add_large(set, class, segment, charge);
    Ok(())
}

impl Store {
    /// For how many ages of the ghosts an evicted item is remembered.
    #[inline]
    fn ghost_ages(&self) -> u64 {
        self.sample.policy().ghost_fifths.into()
    }

    /// Accounts for the large value of a record, if it has one: a segment with enough of them is sealed.
    pub(crate) fn add_large(&self, set: &OpenSet, class: Class, segment: SegmentId, charge: Option<u64>) {
        if let Some(charge) = charge
            && self.segments.add_large(segment, charge) >= self.large_enough()
        {
            set.seal(&self.segments, class);
        }
    }
}

/// The queue of an item, and whether it was evicted recently: such an item goes to the main queue, and a replaced one stays
/// in its queue.
fn queue_for(store: &Store, key: &Key<'_>, old: Option<Slot>) -> (Queue, bool) {
    match old {
        Some(slot) => (store.segments.queue(store.segments.of(slot.at())), false),
        None if store.ghosts.contains(key.hash, store.ghost_ages()) => (Queue::Main, true),
        None => (Queue::Small, false),
    }
}

#[expect(clippy::too_many_arguments, reason = "as its caller")]
pub(crate) fn append(
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

/// Makes sure that there is a free slot for a new entry.
fn make_index_room(
    store: &Store,
    counters: &Counters,
    spare_page: &mut Option<NewPage>,
    lock: &mut Locked<'_>,
    key: &Key<'_>,
) -> Result<(), Need> {
    while !store.index.has_room(lock, key.hash) {
        if store.give_up_for_index_room(lock, key.hash) {
            continue;
        }
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
                // Some 70 keys or more of nearly the same hash: never by chance, so the page stays bounded at
                // their cost.
                let slot = store.index.any_of_home(lock, key.hash);
                if slot.is_on_flash() {
                    store.unlink_flash(lock, slot);
                    continue;
                }
                counters.evictions.add(1);
                store.events.note_eviction(store.segments.record(slot.at()), lock);
                store.unlink(lock, slot, counters);
            }
        }
    }
    Ok(())
}
