//! Pressure of writers on the devices: whether what is stored now should wait for them.
//!
//! Nobody waits in this crate. Whoever serves clients asks, and lets a client wait whose item would push others out of memory
//! (decision 53).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::store::Store;
use crate::tier::pieces::Stream;
use crate::tier::state::{Tier, TierState};

/// What the tier's lock guards, as others may see it without the lock.
#[derive(Debug, Default)]
pub(in crate::tier) struct Pressure {
    /// Few pieces are left for what leaves memory, or no segment.
    is_full: AtomicBool,
    progress: AtomicU64,
}

impl Store {
    /// Whether an item that is stored now would push others out of memory for which there is no room on the way to the devices, and
    /// there will be some when these have written.
    #[inline]
    pub fn flash_is_behind(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| {
            tier.pressure.is_full.load(Relaxed) && self.segments.is_nearly_short() && tier.is_any_on()
        })
    }

    /// Rises with each piece that the devices have written, and each segment that was emptied.
    pub fn flash_progress(&self) -> u64 {
        self.tier.as_ref().map_or(0, |tier| tier.pressure.progress.load(Relaxed))
    }
}

impl Tier {
    /// Takes note of a change of what the lock guards.
    pub(in crate::tier) fn note_room(&self, state: &TierState) {
        let TierState { pieces, queues } = state;
        let has_segment = queues.has_free_for(Stream::New) || pieces.goes_on(Stream::New, &self.geometry);
        self.pressure.is_full.store(pieces.is_nearly_full() || !has_segment, Relaxed);
    }

    /// Takes note that a device has done something.
    pub(in crate::tier) fn note_progress(&self, state: &TierState) {
        self.note_room(state);
        self.pressure.progress.fetch_add(1, Relaxed);
    }

    fn is_any_on(&self) -> bool {
        (0..self.health.len()).any(|device| !self.is_off(device))
    }
}
