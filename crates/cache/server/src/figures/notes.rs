//! Counts of requests, and log events for watchers.

use store::{Counted, Direction, Error, Key, Look, Miss, Stored};

use crate::figures::prefixes::Use;
use crate::watch::{KeyName, Streams};
use crate::worker::Worker;
use ::hot_keys::KeyAccess;

impl Worker {
    /// Counts the result of a compare-and-swap.
    pub(crate) fn count_cas(&self, stored: &Stored) {
        match stored {
            Stored::Stored { .. } => self.counters.cas_hits.add(1),
            Stored::Exists => self.counters.cas_badval.add(1),
            Stored::NotFound => self.counters.cas_misses.add(1),
            Stored::NotStored => {}
        }
    }

    /// Counts a storage command by the prefix of its key, whatever its result.
    #[inline]
    pub(crate) fn count_store(&self, key: &Key<'_>) {
        if self.detail {
            self.shared.prefixes.record(key.as_bytes(), Use::Set);
        }
    }

    pub(crate) fn count_arithmetic(&self, direction: Direction, counted: &Result<Counted, Error>) {
        let (hits, misses) = match direction {
            Direction::Increment => (&self.counters.incr_hits, &self.counters.incr_misses),
            Direction::Decrement => (&self.counters.decr_hits, &self.counters.decr_misses),
        };
        match counted {
            Ok(Counted::Counted { created: false, .. }) => hits.add(1),
            Ok(Counted::NotFound) => misses.add(1),
            _ => {}
        }
    }

    /// Logs that an item was stored, or why not.
    #[inline]
    pub(crate) fn note_store(
        &self,
        key: &Key<'_>,
        status: &str,
        command: &str,
        expiry: u32,
        fd: i32,
        size: usize,
    ) {
        if self.watched.intersects(Streams::MUTATIONS) {
            let name = KeyName(key.as_bytes());
            let ttl = expiry.saturating_sub(if expiry == 0 { 0 } else { self.second });
            self.log(
                Streams::MUTATIONS,
                format_args!(
                    "type=item_store key={name} status={status} cmd={command} ttl={ttl} clsid=1 cfd={fd} size={size}"
                ),
            );
        }
    }

    pub(crate) fn note_delete(&self, key: &Key<'_>, command: &str, size: usize) {
        let name = KeyName(key.as_bytes());
        self.log(
            Streams::DELETIONS,
            format_args!("type=deleted key={name} cmd={command} clsid=1 size={size}"),
        );
    }

    /// Counts a lookup as hit or miss: as a touch if it sets a new expiry, else as a get.
    #[inline]
    pub(crate) fn count_get(&self, touches: bool, found: bool) {
        let counters = &self.counters;
        let (commands, hits, misses) = match touches {
            false => (&counters.cmd_get, &counters.get_hits, &counters.get_misses),
            true => (&counters.cmd_touch, &counters.touch_hits, &counters.touch_misses),
        };
        commands.add(1);
        if found { hits.add(1) } else { misses.add(1) }
    }

    /// Counts an access for the hot keys, with the bytes of the value that was read or brought.
    #[inline]
    fn note_access(&mut self, key: &Key<'_>, bytes: usize, missed: bool) {
        if self.key_sampler.is_due(key.hash()) {
            let access = KeyAccess { key: key.as_bytes(), hash: key.hash(), bytes: bytes as u64, missed };
            self.key_sampler.take(&access, self.now);
        }
    }

    /// Counts by prefix and logs a get that found a value of this length, or none.
    #[inline]
    pub(crate) fn note_get(&mut self, key: &Key<'_>, found: Option<usize>, fd: i32) {
        self.note_access(key, found.unwrap_or(0), found.is_none());
        if self.detail {
            let what = if found.is_some() { Use::Hit } else { Use::Miss };
            self.shared.prefixes.record(key.as_bytes(), what);
        }
        if self.watched.intersects(Streams::FETCHERS) {
            self.log_fetch(key, found, fd);
        }
    }

    /// Counts and logs the lookup that another command is about to make. It brings so many bytes of value.
    #[inline]
    pub(crate) fn note_lookup(&mut self, key: &Key<'_>, bytes: usize, fd: i32) {
        self.note_access(key, bytes, false);
        if self.watched.intersects(Streams::FETCHERS) {
            self.log_lookup(key, fd);
        }
    }

    #[cold]
    fn log_lookup(&mut self, key: &Key<'_>, fd: i32) {
        let found = self.store.get(key, Look::Peek, self.second).map(|item| item.len());
        self.log_fetch(key, found, fd);
    }

    #[cold]
    fn log_fetch(&self, key: &Key<'_>, found: Option<usize>, fd: i32) {
        let (status, class) = match (found, self.store.last_miss()) {
            (Some(_), _) => ("found", 1),
            (None, Miss::Absent) => ("not_found", 0),
            (None, Miss::Expired) => ("expired", 0),
            (None, Miss::Flushed) => ("flushed", 0),
        };
        let (name, size) = (KeyName(key.as_bytes()), found.unwrap_or(0));
        self.log(
            Streams::FETCHERS,
            format_args!("type=item_get key={name} status={status} clsid={class} cfd={fd} size={size}"),
        );
    }
}
