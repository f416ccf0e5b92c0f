//! The classic commands on one item: storage, deletion, touch, increment and decrement. `get` is in
//! `retrieve.rs`.

use protocol::reply::line;
use protocol::request::{ArithmeticMode, Store, Verb};
use store::{Arithmetic, Change, Condition, Counted, Delete, Deleted, Key, Stored};

use crate::prefixes::Use;
use crate::request::{Body, direction, verb_name};
use crate::worker::Worker;

impl Worker {
    #[inline]
    pub(crate) fn classic_store(
        &mut self,
        store: &Store<'_>,
        key: &Key<'_>,
        body: Body<'_>,
        fd: i32,
    ) -> &'static [u8] {
        self.count_store(key);
        if let Err(error) = self.shared.store.check_size(store.key.as_bytes().len(), store.flags, store.len) {
            return self.store_failed(key, store.verb == Verb::Set, &error, verb_name(store.verb), fd);
        }
        let Some(value) = body.into_value() else {
            self.counters.cmd_set.add(1);
            return line::BAD_DATA_CHUNK;
        };
        self.note_lookup(key, fd);
        let (condition, compare_cas) = match store.verb {
            Verb::Set => (Condition::Set, None),
            Verb::Add => (Condition::Add, None),
            Verb::Replace => (Condition::Replace, None),
            Verb::Append => (Condition::Append, None),
            Verb::Prepend => (Condition::Prepend, None),
            Verb::Cas(cas) => (Condition::Set, Some(cas)),
        };
        let expiry = self.expiry(store.exptime);
        let change = Change { condition, compare_cas, flags: store.flags, expiry, ..Change::default() };
        let stored = match self.store.store(key, &change, value, self.second) {
            Ok(stored) => stored,
            Err(error) => {
                return self.store_failed(key, store.verb == Verb::Set, &error, verb_name(store.verb), fd);
            }
        };
        // As in memcached, a set that failed for lack of memory is not counted.
        self.counters.cmd_set.add(1);
        if compare_cas.is_some() {
            self.count_cas(&stored);
        }
        let (reply, status, expiry, len) = match stored {
            Stored::Stored { expiry, len, .. } => (line::STORED, "stored", expiry, len),
            Stored::NotStored => (line::NOT_STORED, "not_stored", expiry, store.len),
            Stored::Exists => (line::EXISTS, "exists", expiry, store.len),
            Stored::NotFound => (line::NOT_FOUND, "not_found", expiry, store.len),
        };
        self.note_store(key, status, verb_name(store.verb), expiry, fd, len);
        reply
    }

    pub(crate) fn delete(&mut self, key: &Key<'_>, fd: i32) -> &'static [u8] {
        if self.detail {
            self.shared.prefixes.record(key.as_bytes(), Use::Delete);
        }
        self.note_lookup(key, fd);
        match self.store.delete(key, &Delete::default(), self.second) {
            Ok(Deleted::Deleted { len }) => {
                self.counters.delete_hits.add(1);
                self.note_delete(key, "delete", len);
                line::DELETED
            }
            Ok(_) => {
                self.counters.delete_misses.add(1);
                line::NOT_FOUND
            }
            Err(_) => line::OUT_OF_MEMORY,
        }
    }

    pub(crate) fn touch(&mut self, key: &Key<'_>, exptime: i32, fd: i32) -> &'static [u8] {
        self.counters.cmd_touch.add(1);
        self.note_lookup(key, fd);
        let expiry = self.expiry(exptime);
        if self.store.touch(key, expiry, self.second) {
            self.counters.touch_hits.add(1);
            line::TOUCHED
        } else {
            self.counters.touch_misses.add(1);
            line::NOT_FOUND
        }
    }

    /// Returns the new value, or an error reply.
    pub(crate) fn arithmetic(
        &mut self,
        key: &Key<'_>,
        mode: ArithmeticMode,
        delta: u64,
        fd: i32,
    ) -> Result<u64, &'static [u8]> {
        self.note_lookup(key, fd);
        let direction = direction(mode);
        let arithmetic = Arithmetic { direction, delta, ..Arithmetic::default() };
        let counted = self.store.arithmetic(key, &arithmetic, self.second);
        self.count_arithmetic(direction, &counted);
        match counted {
            Ok(Counted::Counted { value, .. }) => Ok(value),
            Ok(Counted::NotFound | Counted::Exists) => Err(line::NOT_FOUND),
            Ok(Counted::NotNumeric) => Err(line::NON_NUMERIC),
            Err(_) => Err(line::OUT_OF_MEMORY),
        }
    }
}
