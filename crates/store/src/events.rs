//! Events of the store for watchers: evictions and emptied segments.
//!
//! While nobody watches, an eviction costs one relaxed load. While somebody does, events wait here, in as much room as
//! was given, until somebody [takes](crate::Store::take_events) them; what finds no room is counted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::record::{FETCHED, Record};
use crate::shard::Locked;
use crate::sync::{Mutex, lock};

/// Something that nobody has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A live item made room.
    Evicted(Evicted<'e>),
    /// A segment was to be emptied.
    Segment {
        /// Whether it is free now; otherwise there was no room for what was to be kept of it.
        freed: bool,
    },
}

/// An item as it was when it made room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted<'e> {
    /// The key.
    pub key: &'e [u8],
    /// Whether it had been read since it was stored.
    pub fetched: bool,
    /// The second at which it would have been gone; 0: never.
    pub expiry: u32,
    /// When it was last used.
    pub last_access: u32,
    /// Length of the value.
    pub value_len: usize,
}

/// Something about each kind of event: whether it is wanted, or how many were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T> {
    /// [`Event::Evicted`]
    pub evictions: T,
    /// [`Event::Segment`]
    pub segments: T,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    evictions_wanted: AtomicBool,
    segments_wanted: AtomicBool,
    /// Who holds this lock takes no other.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Bytes that all the rest may take; 0 while nothing is wanted.
    room: usize,
    /// Each without its key, and the key's length.
    events: Vec<(Event<'static>, u8)>,
    /// The keys, one after the other.
    keys: Vec<u8>,
    dropped: PerKind<u64>,
}

impl Events {
    /// From now on keeps these kinds, in `room` bytes.
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

    /// Hands over what has happened since the last time, in order, and says how much more has been dropped.
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
                segment @ Event::Segment { .. } => segment,
            });
        }
        dropped
    }

    /// This live item is about to make room.
    #[inline]
    pub(crate) fn note_eviction(&self, record: Record<'_>, locked: &Locked<'_>) {
        if self.evictions_wanted.load(Relaxed) {
            self.keep_eviction(record, locked);
        }
    }

    #[cold]
    fn keep_eviction(&self, record: Record<'_>, locked: &Locked<'_>) {
        let event = Event::Evicted(Evicted {
            key: &[],
            fetched: record.bits() & FETCHED != 0,
            expiry: record.expiry(),
            last_access: record.last_access(),
            value_len: record.len(locked),
        });
        let mut waiting = lock(&self.waiting);
        waiting.dropped.evictions += u64::from(!waiting.push(event, record.key()));
    }

    /// A segment was to be emptied.
    pub(crate) fn note_segment(&self, freed: bool) {
        if self.segments_wanted.load(Relaxed) {
            let mut waiting = lock(&self.waiting);
            waiting.dropped.segments += u64::from(!waiting.push(Event::Segment { freed }, &[]));
        }
    }
}

impl Waiting {
    /// Keeps an event and its key; false if there is no room.
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
    use crate::request::{Change, Look, NewValue};
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

    /// More than the memory holds, of `len` bytes each.
    fn flood(handle: &mut Handle, len: usize) -> usize {
        let count = (8 << 20) / len;
        (0..count).for_each(|number| set(handle, &format!("key {number}"), len));
        count
    }

    #[test]
    fn each_item_that_makes_room_is_told_once_with_what_was_known_of_it() {
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
    fn what_finds_no_room_is_counted_by_kind() {
        let (store, mut handle) = small();
        store.watch(PerKind { evictions: true, segments: true }, 2000);
        flood(&mut handle, 1000);
        let (mut evicted, mut segments) = (0, 0);
        let dropped = store.take_events(|event| match event {
            Event::Evicted(_) => evicted += 1,
            Event::Segment { .. } => segments += 1,
        });
        let counts = store.statistics().counts;
        assert!((1..50).contains(&evicted), "{evicted}");
        assert_eq!(evicted + dropped.evictions, counts.evictions);
        assert_eq!(segments + dropped.segments, counts.segments_reclaimed);
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
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
