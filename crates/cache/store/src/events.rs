//! Events for watchers: evictions and emptied segments.
//!
//! Without watchers an eviction costs one relaxed load. With watchers, events are queued in a buffer of
//! limited size until [`take_events`](crate::Store::take_events) drains it; events that find no room are
//! counted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::segment::record::{FETCHED, Record};
use crate::shard::Locked;
use crate::sync::{Mutex, lock};

/// Something that the store did by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A live item was evicted.
    Evicted(Evicted<'e>),
    /// A live item was moved to flash.
    Demoted(Evicted<'e>),
    /// Reclamation finished with a segment.
    Segment {
        /// Whether it is free now; otherwise there was no room for its items that were to be kept.
        freed: bool,
    },
}

/// An item as it was when it was evicted, or moved to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted<'e> {
    /// The key.
    pub key: &'e [u8],
    /// Whether it had been read since it was stored.
    pub fetched: bool,
    /// The second at which it would have expired; 0: never.
    pub expiry: u32,
    /// When it was last accessed.
    pub last_access: u32,
    /// Length of the value.
    pub value_len: usize,
}

/// A value for each kind of event: whether it is wanted, or how many events were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T> {
    /// [`Event::Evicted`] and [`Event::Demoted`]
    pub evictions: T,
    /// [`Event::Segment`]
    pub segments: T,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    evictions_wanted: AtomicBool,
    segments_wanted: AtomicBool,
    /// No other lock is taken while this one is held.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Bytes that `events` and `keys` may take together; 0 while no kind is wanted.
    room: usize,
    /// Events without their keys, and the lengths of the keys.
    events: Vec<(Event<'static>, u8)>,
    /// The keys, concatenated.
    keys: Vec<u8>,
    dropped: PerKind<u64>,
}

impl Events {
    /// Sets the kinds of events to keep, and the size of the buffer in bytes.
    pub(crate) fn watch(&self, wanted: PerKind<bool>, room: usize) {
        let mut waiting = lock(&self.waiting);
        self.evictions_wanted.store(wanted.evictions, Relaxed);
        self.segments_wanted.store(wanted.segments, Relaxed);
        let nothing = wanted == PerKind::default();
        if nothing || waiting.room == 0 {
            *waiting = Waiting::default();
        }
        waiting.room = if nothing { 0 } else { room };
    }

    /// Calls `each` with the events since the last call, in order. Returns how many were dropped.
    pub(crate) fn take(&self, mut each: impl FnMut(Event<'_>)) -> PerKind<u64> {
        let Waiting { events, keys, dropped, .. } = {
            let mut waiting = lock(&self.waiting);
            let room = waiting.room;
            std::mem::replace(&mut *waiting, Waiting { room, ..Waiting::default() })
        };
        let mut keys = &*keys;
        for (event, key_len) in events {
            let (key, rest) = keys.split_at(usize::from(key_len));
            keys = rest;
            each(match event {
                Event::Evicted(evicted) => Event::Evicted(Evicted { key, ..evicted }),
                Event::Demoted(demoted) => Event::Demoted(Evicted { key, ..demoted }),
                segment @ Event::Segment { .. } => segment,
            });
        }
        dropped
    }

    /// Notes that this live item is about to be evicted.
    #[inline]
    pub(crate) fn note_eviction(&self, record: Record<'_>, locked: &Locked<'_>) {
        if self.evictions_wanted.load(Relaxed) {
            self.keep(Event::Evicted, record, locked);
        }
    }

    #[cold]
    fn keep(&self, kind: fn(Evicted<'static>) -> Event<'static>, record: Record<'_>, locked: &Locked<'_>) {
        let event = kind(Evicted {
            key: &[],
            fetched: record.bits() & FETCHED != 0,
            expiry: record.expiry(),
            last_access: record.last_access(),
            value_len: record.len(locked),
        });
        let mut waiting = lock(&self.waiting);
        waiting.dropped.evictions += u64::from(!waiting.push(event, record.key()));
    }

    /// Notes that this live item is about to be moved to flash.
    #[inline]
    pub(crate) fn note_flash_write(&self, record: Record<'_>, locked: &Locked<'_>) {
        if self.evictions_wanted.load(Relaxed) {
            self.keep(Event::Demoted, record, locked);
        }
    }

    /// Notes that reclamation finished with a segment.
    pub(crate) fn note_segment(&self, freed: bool) {
        if self.segments_wanted.load(Relaxed) {
            let mut waiting = lock(&self.waiting);
            waiting.dropped.segments += u64::from(!waiting.push(Event::Segment { freed }, &[]));
        }
    }
}

impl Waiting {
    /// Adds an event and its key; false if there is no room.
    fn push(&mut self, event: Event<'static>, key: &[u8]) -> bool {
        let taken = self.events.len() * size_of::<(Event<'_>, u8)>() + self.keys.len();
        if taken + size_of::<(Event<'_>, u8)>() + key.len() > self.room {
            return false;
        }
        self.events.push((event, key.len() as u8));
        self.keys.extend_from_slice(key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::request::{Change, Look, NewValue};
    use crate::{Config, Handle, Store};
    use std::sync::Arc;

    const EVICTIONS: PerKind<bool> = PerKind { evictions: true, segments: false };

    fn small() -> (Arc<Store>, Handle) {
        let store = Store::new(Config { memory_limit_bytes: 4 << 20, ..Config::default() }).unwrap();
        let handle = store.handle();
        (store, handle)
    }

    fn set(handle: &mut Handle, name: &str, len: usize) {
        let key = handle.key(name.as_bytes());
        let change = Change { expiry: 1000, ..Change::default() };
        handle.store(&key, &change, NewValue::Bytes(&vec![b'v'; len]), 7).unwrap();
    }

    /// Stores items of `len` bytes each, more than the memory holds.
    fn flood(handle: &mut Handle, len: usize) -> usize {
        let count = (8 << 20) / len;
        (0..count).for_each(|number| set(handle, &format!("key {number}"), len));
        count
    }

    #[test]
    fn each_evicted_item_is_reported_once_with_its_facts() {
        for len in [1000, 50_000] {
            let (store, mut handle) = small();
            store.watch(PerKind { evictions: true, segments: true }, 1 << 20);
            set(&mut handle, "read", len);
            handle.get(&handle.key(b"read"), Look::Use, 8).unwrap();
            let count = flood(&mut handle, len);
            let mut names = Vec::new();
            let mut freed = 0;
            let dropped = store.take_events(|event| match event {
                Event::Evicted(evicted) => {
                    let name = String::from_utf8(evicted.key.to_vec()).unwrap();
                    assert_eq!((evicted.expiry, evicted.value_len), (1000, len), "{name}");
                    assert_eq!(evicted.fetched, name == "read");
                    assert_eq!(evicted.last_access, if name == "read" { 8 } else { 7 });
                    names.push(name);
                }
                Event::Segment { freed: done } => freed += u64::from(done),
                Event::Demoted(_) => unreachable!("there is no flash"),
            });
            assert_eq!(dropped, PerKind::default());
            let statistics = store.statistics();
            assert_eq!(names.len() as u64, statistics.counts.evictions);
            assert_eq!(names.len() as u64, statistics.counts.evicted_nonzero);
            assert_eq!(freed, statistics.counts.segments_reclaimed);
            let mut gone: Vec<String> = (0..count).map(|number| format!("key {number}")).collect();
            gone.push("read".to_owned());
            gone.retain(|name| handle.get(&handle.key(name.as_bytes()), Look::Peek, 8).is_none());
            gone.sort();
            names.sort();
            assert_eq!(names, gone);
        }
    }

    #[test]
    fn events_without_room_are_counted_by_kind() {
        let (store, mut handle) = small();
        store.watch(PerKind { evictions: true, segments: true }, 2000);
        flood(&mut handle, 1000);
        let (mut evicted, mut segments) = (0, 0);
        let dropped = store.take_events(|event| match event {
            Event::Evicted(_) => evicted += 1,
            Event::Segment { .. } => segments += 1,
            Event::Demoted(_) => unreachable!("there is no flash"),
        });
        let counts = store.statistics().counts;
        assert!((1..50).contains(&evicted), "{evicted}");
        assert_eq!(evicted + dropped.evictions, counts.evictions);
        assert_eq!(segments + dropped.segments, counts.segments_reclaimed);
    }

    #[test]
    fn events_are_kept_only_while_watched() {
        let (store, mut handle) = small();
        let mut count = |watch: Option<PerKind<bool>>| {
            if let Some(wanted) = watch {
                store.watch(wanted, 1 << 20);
            }
            flood(&mut handle, 1000);
            let mut taken = 0;
            let dropped = store.take_events(|_| taken += 1);
            assert_eq!(dropped, PerKind::default());
            taken > 0
        };
        assert!(!count(None));
        assert!(count(Some(EVICTIONS)));
        assert!(count(None), "still watched");
        assert!(!count(Some(PerKind::default())));
        assert!(!count(None));
    }
}
