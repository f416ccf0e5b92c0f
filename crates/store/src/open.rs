//! Open segments: where new records go.
//!
//! Every worker has its own set, so writers do not meet; with very little memory, workers share sets.
//! The set's lock is the innermost one: whoever holds it takes no other.

use crate::record::Place;
use crate::segment::{Queue, SegmentId, Segments};
use crate::sync::{Mutex, MutexGuard, lock};

/// Which of the open segments a record belongs into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// New items, by how soon they expire: what expires together is freed together.
    Small(Lifetime),
    Main,
    LargeSmall,
    LargeMain,
}

/// How soon an item expires: a hint, which a touch may make wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Minute,
    Hour,
    Day,
    Rest,
}

#[derive(Debug, Default)]
pub(crate) struct OpenSet {
    places: Mutex<[Option<Open>; CLASSES]>,
}

/// A segment that is being filled.
#[derive(Debug)]
struct Open {
    id: SegmentId,
    used: usize,
}

/// How many segments a set can have open.
pub(crate) const CLASSES: usize = 7;

impl Class {
    /// `lifetimes`: whether there is memory enough to tell them apart.
    pub(crate) fn new(queue: Queue, large: bool, expiry: u32, now: u32, lifetimes: bool) -> Class {
        match (queue, large) {
            (Queue::Small, false) if lifetimes => Class::Small(Lifetime::of(expiry, now)),
            (Queue::Small, false) => Class::Small(Lifetime::Rest),
            (Queue::Main, false) => Class::Main,
            (Queue::Small, true) => Class::LargeSmall,
            (Queue::Main, true) => Class::LargeMain,
        }
    }

    pub(crate) fn queue(self) -> Queue {
        match self {
            Class::Small(_) | Class::LargeSmall => Queue::Small,
            Class::Main | Class::LargeMain => Queue::Main,
        }
    }

    fn place(self) -> usize {
        match self {
            Class::Small(lifetime) => lifetime as usize,
            Class::Main => 4,
            Class::LargeSmall => 5,
            Class::LargeMain => 6,
        }
    }
}

impl Lifetime {
    fn of(expiry: u32, now: u32) -> Lifetime {
        match expiry.saturating_sub(now) {
            0 => Lifetime::Rest,
            1..60 => Lifetime::Minute,
            60..3600 => Lifetime::Hour,
            3600..86_400 => Lifetime::Day,
            86_400.. => Lifetime::Rest,
        }
    }
}

impl OpenSet {
    /// Hands `write` the place for a record of `size` bytes and says what it said; `None` if there is none.
    ///
    /// `flush_mark` is what [`Segments::flush_mark`] said before the caller looked at anything that he
    /// is going to write: if a flush came in between, he must look again.
    pub(crate) fn append(
        &self,
        segments: &Segments,
        class: Class,
        size: usize,
        flush_mark: u64,
        write: impl FnOnce(Place<'_>) -> usize,
    ) -> Option<usize> {
        let mut places = self.lock();
        let open = places[class.place()].as_mut()?;
        // The order matters: a flush after this check covers this segment, too.
        if open.used + size > segments.room()
            || segments.is_flushed(open.id)
            || segments.flush_mark() != flush_mark
        {
            return None;
        }
        let at = write(segments.place(segments.start(open.id) + open.used, size));
        open.used += size;
        Some(at)
    }

    /// Whether a record of that size would find a place, but for a flush in between.
    pub(crate) fn has_room(&self, segments: &Segments, class: Class, size: usize) -> bool {
        let places = self.lock();
        let open = places[class.place()].as_ref();
        open.is_some_and(|open| open.used + size <= segments.room() && !segments.is_flushed(open.id))
    }

    /// Opens `id` in place of what was open there.
    pub(crate) fn replace(&self, segments: &Segments, class: Class, id: SegmentId) {
        let old = self.lock()[class.place()].replace(Open { id, used: 0 });
        seal(segments, old);
    }

    /// Closes one.
    pub(crate) fn seal(&self, segments: &Segments, class: Class) {
        let old = self.lock()[class.place()].take();
        seal(segments, old);
    }

    /// Closes all.
    pub(crate) fn seal_all(&self, segments: &Segments) {
        let old = std::mem::take(&mut *self.lock());
        old.into_iter().for_each(|open| seal(segments, open));
    }

    /// The segments that are open here.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SegmentId> {
        self.lock().each_ref().map(|open| open.as_ref().map(|open| open.id)).into_iter().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Open>; CLASSES]> {
        lock(&self.places)
    }
}

fn seal(segments: &Segments, open: Option<Open>) {
    if let Some(open) = open {
        segments.seal(open.id, open.used);
    }
}
