//! The classic commands on one item: storage, deletion, touch, increment and decrement, as operations that both
//! protocols have, and with the text protocol's replies. `get` is in `retrieve.rs`.

use protocol::reply::line;
use protocol::request::{ArithmeticMode, Store, Verb};
use store::{Arithmetic, Change, Condition, Counted, Delete, Deleted, Error, Key, NewValue, Stored};

use crate::commands::request::{Body, direction, verb_name};
use crate::figures::prefixes::Use;
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
        match self.store_value(key, &change, value, verb_name(store.verb), fd) {
            Ok(Stored::Stored { .. }) => line::STORED,
            Ok(Stored::NotStored) => line::NOT_STORED,
            Ok(Stored::Exists) => line::EXISTS,
            Ok(Stored::NotFound) => line::NOT_FOUND,
            Err(error) => self.store_failed(key, store.verb == Verb::Set, &error, verb_name(store.verb), fd),
        }
    }

    /// Stores a value, and counts and logs the outcome. The caller counts an error.
    #[inline]
    pub(crate) fn store_value(
        &mut self,
        key: &Key<'_>,
        change: &Change,
        value: NewValue<'_>,
        command: &'static str,
        fd: i32,
    ) -> Result<Stored, Error> {
        let new_len = value.len();
        self.note_lookup(key, new_len, fd);
        let stored = self.store.store(key, change, value, self.second)?;
        // As in memcached, a set that failed for lack of memory is not counted.
        self.counters.cmd_set.add(1);
        if change.compare_cas.is_some() && change.condition == Condition::Set {
            self.count_cas(&stored);
        }
        let (status, expiry, len) = match stored {
            Stored::Stored { expiry, len, .. } => ("stored", expiry, len),
            Stored::NotStored => ("not_stored", change.expiry, new_len),
            Stored::Exists => ("exists", change.expiry, new_len),
            Stored::NotFound => ("not_found", change.expiry, new_len),
        };
        self.note_store(key, status, command, expiry, fd, len);
        Ok(stored)
    }

    pub(crate) fn delete(&mut self, key: &Key<'_>, fd: i32) -> &'static [u8] {
        match self.delete_item(key, None, fd) {
            Ok(Deleted::Deleted { .. }) => line::DELETED,
            Ok(_) => line::NOT_FOUND,
            Err(_) => line::OUT_OF_MEMORY,
        }
    }

    /// Deletes an item, if it has this CAS unique, and counts and logs the outcome.
    pub(crate) fn delete_item(
        &mut self,
        key: &Key<'_>,
        compare_cas: Option<u64>,
        fd: i32,
    ) -> Result<Deleted, Error> {
        if self.detail {
            self.shared.prefixes.record(key.as_bytes(), Use::Delete);
        }
        self.note_lookup(key, 0, fd);
        let delete = Delete { compare_cas, ..Delete::default() };
        let deleted = self.store.delete(key, &delete, self.second)?;
        match deleted {
            Deleted::Deleted { len } => {
                self.counters.delete_hits.add(1);
                self.note_delete(key, "delete", len);
            }
            Deleted::NotFound => self.counters.delete_misses.add(1),
            Deleted::Kept | Deleted::Exists => {}
        }
        Ok(deleted)
    }

    pub(crate) fn touch(&mut self, key: &Key<'_>, exptime: i32, fd: i32) -> &'static [u8] {
        self.counters.cmd_touch.add(1);
        self.note_lookup(key, 0, fd);
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
        let arithmetic = Arithmetic { direction: direction(mode), delta, ..Arithmetic::default() };
        match self.count(key, &arithmetic, fd) {
            Ok(Counted::Counted { value, .. }) => Ok(value),
            Ok(Counted::NotFound | Counted::Exists) => Err(line::NOT_FOUND),
            Ok(Counted::NotNumeric) => Err(line::NON_NUMERIC),
            Err(_) => Err(line::OUT_OF_MEMORY),
        }
    }

    /// Increments or decrements, and counts the outcome.
    #[inline]
    pub(crate) fn count(
        &mut self,
        key: &Key<'_>,
        arithmetic: &Arithmetic,
        fd: i32,
    ) -> Result<Counted, Error> {
        self.note_lookup(key, 0, fd);
        let counted = self.store.arithmetic(key, arithmetic, self.second);
        self.count_arithmetic(arithmetic.direction, &counted);
        counted
    }
}
