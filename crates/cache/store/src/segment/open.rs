//! Open segments: they take new records.
//!
//! Every worker has its own set, so writers do not contend; with very little memory, workers share sets. The
//! lock of a set is the innermost one: no other is taken while it is held.

use crate::segment::record::Place;
use crate::segment::{Queue, SegmentId, Segments};
use crate::sync::{Mutex, MutexGuard, lock};

/// The kind of open segment that a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// New items, by how soon they expire: items that expire together are freed together.
    Small(Lifetime),
    Main,
    LargeSmall,
    LargeMain,
}

/// How soon an item expires. A hint: a touch may make it wrong.
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
    /// Bytes for records, of which `used` are taken. It can grow.
    room: usize,
}

impl Open {
    /// Whether a record of `size` bytes fits, if necessary with more memory.
    fn has_room(&mut self, segments: &Segments, size: usize) -> bool {
        let end = self.used + size;
        if end > self.room
            && end <= segments.room()
            && let Some(room) = segments.grow(self.id, end)
        {
            self.room = room;
        }
        end <= self.room
    }
}

/// Open segments per set.
pub(crate) const CLASSES: usize = 7;

impl Class {
    /// `lifetimes`: whether there is enough memory for one open segment per lifetime.
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
    /// Calls `write` with the place for a record of `size` bytes and returns its result; `None` if there is
    /// no place.
    ///
    /// `flush_mark` is the result of [`Segments::flush_mark`] before the caller read anything that it is
    /// going to write: after a flush in between, the caller must read again.
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
        // The order matters: a flush after this check also covers this segment.
        if !open.has_room(segments, size)
            || segments.is_flushed(open.id)
            || segments.flush_mark() != flush_mark
        {
            return None;
        }
        let at = write(segments.place(segments.start(open.id) + open.used, size));
        open.used += size;
        Some(at)
    }

    /// Whether there is a place for a record of that size, if no flush comes in between.
    pub(crate) fn has_room(&self, segments: &Segments, class: Class, size: usize) -> bool {
        let mut places = self.lock();
        let open = places[class.place()].as_mut();
        open.is_some_and(|open| !segments.is_flushed(open.id) && open.has_room(segments, size))
    }

    /// Opens `id` for a class and seals the segment that was open before.
    pub(crate) fn replace(&self, segments: &Segments, class: Class, id: SegmentId) {
        let old = self.lock()[class.place()].replace(Open { id, used: 0, room: segments.room_of(id) });
        seal(segments, old);
    }

    /// Seals the open segment of a class.
    pub(crate) fn seal(&self, segments: &Segments, class: Class) {
        let old = self.lock()[class.place()].take();
        seal(segments, old);
    }

    /// Seals all open segments.
    pub(crate) fn seal_all(&self, segments: &Segments) {
        let old = std::mem::take(&mut *self.lock());
        old.into_iter().for_each(|open| seal(segments, open));
    }

    /// Seals the segments for large values in which everything is dead: each may hold as much as
    /// [`Store::large_enough`](crate::Store), which would only be given back after more such values have come. Returns
    /// whether there were any. Segments of small records stay open: little memory is in them, and they are reused.
    pub(crate) fn seal_dead(&self, segments: &Segments, now: u32) -> bool {
        // The value of a record is added last, when its expiry has been noted.
        let is_dead = |open: &mut Open| segments.large(open.id) > 0 && segments.is_dead(open.id, now);
        let dead = {
            let mut places = self.lock();
            [Class::LargeSmall, Class::LargeMain].map(|class| places[class.place()].take_if(is_dead))
        };
        let found = dead.iter().any(Option::is_some);
        dead.into_iter().for_each(|open| seal(segments, open));
        found
    }

    /// The open segments of this set.
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
