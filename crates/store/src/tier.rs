//! A tier of flash below memory.
//!
//! ```text
//! eviction ── record ──► open piece ── full ──► waiting pieces ── thread ──► device
//!                                                                              │ segment reused:
//!                        open piece `Again` ◄── items that were used ── thread ◄┘ the rest is dropped
//! ```
//!
//! An item that would be evicted is copied to a piece in memory instead, and its slot in the index says at once where on flash
//! it will be: the slot is all that stays in memory. One thread ([`Store::keep_flash`]) writes full pieces and reads back
//! segments that are reused; it is the only one that waits for a device. Operations never do: a piece that is not written
//! yet is read from memory; where there is no free piece the item is dropped, as without flash. Whoever serves a client reads
//! records as he likes, and hands the bytes to [`Handle::locate`](crate::Handle::locate).
//!
//! **Nothing old comes back.** A key has one slot at most. It is removed under its shard's lock by whatever replaces or deletes
//! the item; a read counts only if the slot is the same afterwards; and a segment is filled again only when no read of it is
//! in flight. Any doubt is a miss.
//!
//! Locks: that of whoever writes to devices, a shard's, then that of the tier, which is an innermost one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::Thread;

pub use self::config::{FlashConfig, FlashDevice, FlashSettings};
pub use self::geometry::FLASH_PAGE;
pub use self::locate::{FlashRead, FlashReads, FlashUse, Located, ReadState};
pub(crate) use self::locate::{Recaches, Staged};
pub(crate) use self::manifest::FlashLayout;
pub use self::statistics::{FlashCounts, FlashSegmentRow, FlashStatistics};

use self::config::SharedSettings;
use self::geometry::Geometry;
use self::health::DeviceHealth;
use self::pieces::{PIECES_MAX, Pieces, Stream};
use self::record::FlashRecord;
use self::segments::{FlashQueues, FlashSegment, FlashSegments};
use self::statistics::FlashCounters;
use crate::index::FlashPlace;
use crate::sync::{Mutex, lock};

mod config;
mod demote;
mod geometry;
mod health;
mod locate;
mod manifest;
mod pieces;
mod promote;
mod record;
mod reuse;
mod segments;
mod statistics;
mod thread;

#[derive(Debug)]
pub(crate) struct Tier {
    geometry: Geometry,
    rows: Box<[FlashSegment]>,
    state: Mutex<TierState>,
    /// By device.
    health: Box<[DeviceHealth]>,
    settings: SharedSettings,
    pub(crate) counters: FlashCounters,
    /// Begins the CRCs of records.
    seed: u32,
    /// The last second that a handle has seen: the thread has no clock.
    second: AtomicU32,
    /// Items on flash.
    objects: AtomicU64,
    thread: OnceLock<Thread>,
    /// Held by whoever writes to devices or empties segments; true: nobody does so any more.
    is_finished: Mutex<bool>,
}

#[derive(Debug)]
struct TierState {
    pieces: Pieces,
    queues: FlashQueues,
}

impl Tier {
    /// A tier with nothing on it, for a configuration that has been checked.
    pub(crate) fn new(config: &FlashConfig, limit_bytes: u64, secret: u128) -> Tier {
        let geometry = Geometry::new(config, config.piece_within(limit_bytes));
        let queues = FlashQueues::new(&geometry, &config.devices);
        Tier {
            rows: (0..geometry.segments()).map(|_| FlashSegment::default()).collect(),
            state: Mutex::new(TierState { pieces: Pieces::default(), queues }),
            health: config.devices.iter().map(|_| DeviceHealth::default()).collect(),
            settings: SharedSettings::new(config.settings),
            counters: FlashCounters::default(),
            seed: (secret >> 64) as u32 ^ secret as u32,
            second: AtomicU32::new(0),
            objects: AtomicU64::new(0),
            thread: OnceLock::new(),
            is_finished: Mutex::new(false),
            geometry,
        }
    }

    /// Memory that it takes: the pieces, and one that the thread reads into.
    pub(crate) fn fixed_bytes(config: &FlashConfig, limit_bytes: u64) -> u64 {
        (PIECES_MAX as u64 + 1) * config.piece_within(limit_bytes)
    }

    /// The same, of this tier.
    pub(crate) fn memory(&self) -> u64 {
        (PIECES_MAX as u64 + 1) * self.geometry.piece_bytes() as u64
    }

    /// Takes a record in. `None`: there is no room for it now.
    fn append(&self, stream: Stream, record: &FlashRecord<'_>) -> Option<FlashPlace> {
        let mut state = lock(&self.state);
        let TierState { pieces, queues } = &mut *state;
        let before = pieces.waiting();
        let mut segments = FlashSegments {
            queues,
            rows: &self.rows,
            geometry: &self.geometry,
            health: &self.health,
            second: self.second.load(Relaxed),
            seed: self.seed,
        };
        let place = pieces.append(stream, record, &mut segments);
        let wakes = pieces.waiting() != before || place.is_none();
        drop(state);
        if wakes {
            self.wake();
        }
        let row = &self.rows[self.geometry.segment_at(place?) as usize];
        row.add(record.len());
        self.objects.fetch_add(1, Relaxed);
        place
    }

    /// Begins the CRCs of the records of a segment, as it is filled now.
    fn seed(&self, segment: u32) -> u32 {
        self.rows[segment as usize].seed(self.seed)
    }

    /// Takes note that nothing refers to this place any more.
    fn note_gone(&self, place: FlashPlace) {
        let segment = self.geometry.segment_at(place);
        self.rows[segment as usize].objects.fetch_sub(1, Relaxed);
        self.objects.fetch_sub(1, Relaxed);
    }

    /// Takes note that a device has failed, or has taken too long.
    fn note_failure(&self, device: usize) {
        if self.health[device].note_failure(self.second.load(Relaxed)) {
            self.counters.turned_off.fetch_add(1, Relaxed);
        }
    }

    /// Whether a device is left alone at present.
    fn is_off(&self, device: usize) -> bool {
        self.health[device].is_off(self.second.load(Relaxed))
    }

    /// Items on flash.
    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }

    /// Takes note of the time.
    pub(crate) fn note_second(&self, now: u32) {
        self.second.store(now, Relaxed);
    }

    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests;
