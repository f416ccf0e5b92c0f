//! Reads: lookups, and the marks that they leave on items.

use std::sync::Arc;

use crate::handle::{Handle, LINE_LEN};
use crate::index::Slot;
use crate::index::hash::Key;
use crate::memory::large::LargeValue;
use crate::operations::new_item::{Body, NewItem};
use crate::operations::put::put;
use crate::operations::request::{Look, MetaGet};
use crate::reclaim::miniature::KeyUse;
use crate::segment::Queue;
use crate::segment::record::{BINARY_KEY, FETCHED, Record, STALE, TOKEN_SENT};
use crate::shard::Locked;
use crate::store::Store;
use crate::tier::staged::Staged;

/// An item that was found. It holds its shard's lock, so that the item cannot change: drop it soon.
#[derive(Debug)]
pub struct Item<'h> {
    lock: Locked<'h>,
    record: Record<'h>,
    first_cas: u64,
    last_access: u32,
    hit_before: bool,
}

/// An item's value, by where it is stored.
#[derive(Debug)]
pub enum Value<'i> {
    /// In the record: to be copied while the item is held.
    Inline(&'i [u8]),
    /// In its own memory: clone the `Arc`, and send it from there without a copy.
    Large(&'i Arc<LargeValue>),
}

/// The item that a meta get found or created.
#[derive(Debug)]
pub struct MetaFound<'h> {
    /// The item.
    pub item: Item<'h>,
    /// The client of this request is to recache the value.
    pub won: bool,
    /// An earlier client is to recache the value.
    pub token_sent: bool,
    /// It was created by this request, on a miss.
    pub created: bool,
    /// The expiry before it was touched.
    pub expiry_before: u32,
}

impl Value<'_> {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Value::Inline(bytes) => bytes,
            Value::Large(large) => large.as_ref().as_ref(),
        }
    }
}

impl Item<'_> {
    /// The value.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        match self.record.large(&self.lock) {
            Some(large) => Value::Large(large),
            None => Value::Inline(self.record.value(&self.lock)),
        }
    }

    /// Length of the value in bytes.
    #[allow(clippy::len_without_is_empty, reason = "an item is never empty; its value may be")]
    pub fn len(&self) -> usize {
        match self.value() {
            Value::Inline(bytes) => bytes.len(),
            Value::Large(large) => large.len(),
        }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.record.key()
    }

    /// Client flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.record.flags(&self.lock)
    }

    /// CAS unique.
    #[inline]
    pub fn cas(&self) -> u64 {
        self.record.cas(&self.lock).unique(self.first_cas)
    }

    /// The second at which it expires; 0: never.
    pub fn expiry(&self) -> u32 {
        self.record.expiry()
    }

    /// When it was last accessed (or stored), before this request.
    pub fn last_access(&self) -> u32 {
        self.last_access
    }

    /// Whether it had been read since it was stored, before this request.
    pub fn hit_before(&self) -> bool {
        self.hit_before
    }

    /// Whether the client sent the key in base64.
    pub fn key_is_binary(&self) -> bool {
        self.record.bits() & BINARY_KEY != 0
    }

    /// Whether it has been invalidated.
    pub fn is_stale(&self) -> bool {
        self.record.bits() & STALE != 0
    }

    /// Whether a client, perhaps that of this request, is to recache the value.
    pub fn token_sent(&self) -> bool {
        self.record.bits() & TOKEN_SENT != 0
    }
}

impl Handle {
    /// The item of this key, if it is there, has not expired and was not flushed.
    #[inline]
    pub fn get(&mut self, key: &Key<'_>, look: Look, now: u32) -> Option<Item<'_>> {
        self.enter(now);
        let store = &*self.store;
        let mut lock = store.index.lock(key.hash);
        match store.look_up(&mut lock, key, now, &self.counters) {
            Ok(slot) => {
                if self.noted.samples(key.hash) && look == Look::Use {
                    self.noted.add(key.hash, store.found(&lock, slot), &store.sample);
                }
                let item = store.item(lock, slot, look, now);
                self.lines = (slot.at() % LINE_LEN + item.record.size()).div_ceil(LINE_LEN);
                Some(item)
            }
            Err(miss) => {
                self.miss = miss;
                if self.noted.samples(key.hash) && look == Look::Use {
                    self.noted.add_miss(key.hash, miss, &store.sample);
                }
                store.staged_item(lock, self.staged, key.hash, look)
            }
        }
    }

    /// A get that sets a new expiry.
    pub fn get_and_touch(&mut self, key: &Key<'_>, expiry: u32, now: u32) -> Option<Item<'_>> {
        self.enter(now);
        let store = &*self.store;
        let mut lock = store.index.lock(key.hash);
        match store.look_up(&mut lock, key, now, &self.counters) {
            Ok(slot) => {
                if self.noted.samples(key.hash) {
                    self.noted.add(key.hash, store.found(&lock, slot), &store.sample);
                }
                store.set_expiry(&mut lock, slot, expiry);
                Some(store.item(lock, slot, Look::Use, now))
            }
            Err(miss) => {
                self.miss = miss;
                if self.noted.samples(key.hash) {
                    self.noted.add_miss(key.hash, miss, &store.sample);
                }
                store.drop_from_flash(&mut lock, key.hash);
                None
            }
        }
    }

    /// Sets a new expiry. Returns whether there is an item.
    pub fn touch(&mut self, key: &Key<'_>, expiry: u32, now: u32) -> bool {
        self.get_and_touch(key, expiry, now).is_some()
    }

    /// A get with all options of meta get. `None` on a miss, if nothing was to be created (or there is no
    /// memory for it).
    pub fn meta_get(&mut self, key: &Key<'_>, request: &MetaGet, now: u32) -> Option<MetaFound<'_>> {
        self.enter(now);
        let created = match request.vivify {
            Some(expiry) => self.vivify(key, request, expiry, now)?,
            None => false,
        };
        let store = &*self.store;
        let mut lock = store.index.lock(key.hash);
        // A created item is returned even if its expiry has already passed.
        let as_of = if created { 0 } else { now };
        match store.look_up(&mut lock, key, as_of, &self.counters) {
            Ok(slot) => {
                if self.noted.samples(key.hash) && request.look == Look::Use && !created {
                    self.noted.add(key.hash, store.found(&lock, slot), &store.sample);
                }
                Some(store.meta_found(lock, slot, request, created, now))
            }
            Err(miss) => {
                self.miss = miss;
                if self.noted.samples(key.hash) && request.look == Look::Use {
                    self.noted.add_miss(key.hash, miss, &store.sample);
                }
                if request.touch.is_some() {
                    store.drop_from_flash(&mut lock, key.hash);
                    return None;
                }
                let item = store.staged_item(lock, self.staged, key.hash, request.look)?;
                let (token_sent, expiry_before) = (item.token_sent(), item.expiry());
                Some(MetaFound { item, won: false, token_sent, created, expiry_before })
            }
        }
    }

    /// Makes sure that there is an item. Returns whether it was created; `None`: no memory.
    fn vivify(&mut self, key: &Key<'_>, request: &MetaGet, expiry: u32, now: u32) -> Option<bool> {
        let binary = if request.key_is_binary { BINARY_KEY } else { 0 };
        loop {
            let set = self.set_number();
            let store = &*self.store;
            let mark = store.segments.flush_mark();
            let mut lock = store.index.lock(key.hash);
            match store.look_up(&mut lock, key, now, &self.counters) {
                Ok(_) => return Some(false),
                Err(miss) => self.miss = miss,
            }
            let cas = store.cas(&mut lock, request.new_cas);
            // The request that creates the item wins: any later one, even before this request continues, does
            // not.
            let item = NewItem { flags: 0, expiry, bits: binary | TOKEN_SENT, cas };
            let set = &store.open_sets[set];
            let spare = &mut self.spare_page;
            let empty = Body::Bytes(&[]);
            let put = put(store, &self.counters, set, spare, &mut lock, key, None, &item, &empty, mark, now);
            drop(lock);
            match put {
                Ok(()) => {
                    self.counters.total_items.add(1);
                    return Some(true);
                }
                Err(need) => self.provide(need, now).ok()?,
            }
        }
    }
}

impl Store {
    /// Marks a use of the item, and returns the item with its marks from before.
    #[inline]
    pub(crate) fn item<'s>(&'s self, mut lock: Locked<'s>, slot: Slot, look: Look, now: u32) -> Item<'s> {
        let record = self.segments.record(slot.at());
        let last_access = record.last_access();
        let hit_before = record.bits() & FETCHED != 0;
        if look == Look::Use {
            self.index.count_use(&mut lock, slot);
            // Written only if they change: so the cache lines of a hot item stay shared between processors.
            if !hit_before {
                record.change_bits(&mut lock, FETCHED, 0);
            }
            if last_access != now {
                record.set_last_access(&mut lock, now);
            }
        }
        Item { lock, record, first_cas: self.first_cas, last_access, hit_before }
    }

    /// The use of an item by a get, for the sample.
    #[cold]
    fn found(&self, lock: &Locked<'_>, slot: Slot) -> KeyUse {
        KeyUse::Found {
            bytes: self.bytes_of(lock, slot),
            main: self.segments.queue(self.segments.of(slot.at())) == Queue::Main,
        }
    }

    /// The use of a key by which its item was stored.
    #[cold]
    pub(crate) fn stored(&self, lock: &Locked<'_>, key: &Key<'_>, new: bool) -> KeyUse {
        let is_key = |at: usize| self.segments.record(at).key() == key.bytes;
        let slot = self.index.find(lock, key.hash, is_key).expect("it was just stored");
        KeyUse::Stored { bytes: self.bytes_of(lock, slot), new }
    }

    fn bytes_of(&self, lock: &Locked<'_>, slot: Slot) -> u32 {
        self.charge_of(self.segments.record(slot.at()), lock).min(u32::MAX.into()) as u32
    }

    /// Marks a use of an item on flash, of whose record the handle has a copy, if it is still there.
    #[cold]
    fn staged_item<'s>(
        &'s self,
        mut lock: Locked<'s>,
        staged: Option<Staged>,
        hash: u64,
        look: Look,
    ) -> Option<Item<'s>> {
        let (slot, at) = self.staged_slot(&lock, staged, hash)?;
        if look == Look::Use {
            self.index.count_use(&mut lock, slot);
        }
        let record = self.segments.record(at);
        let hit_before = record.bits() & FETCHED != 0 || slot.frequency() > 0;
        Some(Item { lock, record, first_cas: self.first_cas, last_access: record.last_access(), hit_before })
    }

    pub(crate) fn set_expiry(&self, lock: &mut Locked<'_>, slot: Slot, expiry: u32) {
        self.segments.record(slot.at()).set_expiry(lock, expiry);
        self.segments.note_expiry(self.segments.of(slot.at()), expiry);
    }

    fn meta_found<'s>(
        &'s self,
        mut lock: Locked<'s>,
        slot: Slot,
        request: &MetaGet,
        created: bool,
        now: u32,
    ) -> MetaFound<'s> {
        let record = self.segments.record(slot.at());
        let token_sent = record.bits() & TOKEN_SENT != 0 && !created;
        let stale = record.bits() & STALE != 0;
        let expiry_before = record.expiry();
        let mut expiry_seen = expiry_before;
        if let Some(expiry) = request.touch.filter(|_| !created) {
            self.set_expiry(&mut lock, slot, expiry);
            if request.recache_after_touch {
                expiry_seen = expiry;
            }
        }
        let runs_out = |below: u32| expiry_seen != 0 && expiry_seen < below;
        let recache = request.recache_below.is_some_and(runs_out);
        let won = created || !token_sent && !request.never_wins && (recache || stale);
        if won {
            record.change_bits(&mut lock, TOKEN_SENT, 0);
        }
        let item = self.item(lock, slot, request.look, now);
        MetaFound { item, won, token_sent, created, expiry_before }
    }
}
