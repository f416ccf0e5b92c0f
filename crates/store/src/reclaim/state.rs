//! State and purpose of reclamation: plain data.

use crate::open::OpenSet;
use crate::segment::{SegmentId, Treatment};

/// Where reclamation stands.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    pub(super) victim: Option<Victim>,
    /// Where live items are copied to.
    pub(super) targets: OpenSet,
    /// Keep nothing: copying forward has not made room.
    pub(super) drop_all: bool,
    /// What room is being made for.
    pub(super) wanted: Wanted,
    /// Steps to be skipped, after a search that found nothing.
    pub(super) rest: u32,
}

/// A segment that is being emptied.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) id: SegmentId,
    /// Bytes of records that have been dealt with.
    pub(super) done: usize,
    pub(super) used: usize,
    /// Bytes of its large values that are left.
    pub(super) large: u64,
    pub(super) treatment: Treatment,
}

/// An item that must not go while room is made for what will replace it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spared {
    pub(crate) hash: u64,
    /// What it takes of the memory limit besides its record.
    pub(crate) charge: u64,
}

/// What room is made for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Of the memory limit.
    pub(super) bytes: u64,
    /// Those of them that are for a large value which has none yet.
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

/// How it goes with making room for one purpose, over several steps.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// The most that was available after a victim.
    pub(super) best: u64,
    /// Victims since then.
    pub(super) stalls: u32,
}

impl Pressure {
    /// A victim has been dealt with.
    pub(super) fn note(&mut self, available: u64) {
        self.stalls = if available > self.best { 0 } else { self.stalls + 1 };
        self.best = self.best.max(available);
    }
}
