//! State, purpose and progress of reclamation: plain data.

use super::share::SmallShare;
use crate::segment::open::OpenSet;
use crate::segment::{SegmentId, Segments, Treatment};

/// State of reclamation.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    pub(super) victim: Option<Victim>,
    /// Open segments for items that are copied forward.
    pub(super) targets: OpenSet,
    /// Items are dropped instead of copied forward, because copying has not made room.
    pub(super) drop_all: bool,
    /// The purpose of the current pass.
    pub(super) wanted: Wanted,
    /// The mean size of items when the victim was chosen.
    pub(super) mean: u64,
    pub(super) share: SmallShare,
    /// Steps still to be skipped after a search that found no victim.
    pub(super) rest: u32,
}

impl Reclaim {
    /// Ends what is under way: no segment is open, or being emptied, afterwards.
    pub(crate) fn put_back(&mut self, segments: &Segments) {
        if let Some(victim) = self.victim.take() {
            segments.put_back(victim.id);
        }
        self.targets.seal_all(segments);
    }
}

/// A segment that is being emptied.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) id: SegmentId,
    /// Bytes of records that have been processed.
    pub(super) done: usize,
    pub(super) used: usize,
    /// Bytes of its large values that remain.
    pub(super) large: u64,
    pub(super) treatment: Treatment,
}

/// An item that must not be evicted while room is made for its replacement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spared {
    pub(crate) hash: u64,
    /// Its charge, without the record.
    pub(crate) charge: u64,
}

/// The room that an operation needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Bytes of the memory limit.
    pub(super) bytes: u64,
    /// Of these, bytes for a large value that is not charged yet.
    pub(super) large: u64,
    pub(super) spared: Option<Spared>,
}

impl Wanted {
    /// Room for a segment, a page of the index, a step of a value that is being received.
    pub(crate) fn of(bytes: u64, spared: Option<Spared>) -> Wanted {
        Wanted { bytes, large: 0, spared }
    }

    /// Room for all of a large value.
    pub(crate) fn large(bytes: u64, spared: Option<Spared>) -> Wanted {
        Wanted { bytes, large: bytes, spared }
    }

    pub(super) fn spares(&self, hash: u64) -> bool {
        self.spared.is_some_and(|spared| spared.hash == hash)
    }
}

/// Progress of one operation that makes room, over several steps.
#[derive(Debug, Default)]
pub(crate) struct ReclaimProgress {
    /// The maximum of available bytes after any victim.
    pub(super) best: u64,
    /// Victims since the maximum grew.
    pub(super) stalls: u32,
}

impl ReclaimProgress {
    /// Notes that a victim has been processed.
    pub(super) fn note(&mut self, available: u64) {
        self.stalls = if available > self.best { 0 } else { self.stalls + 1 };
        self.best = self.best.max(available);
    }
}
