//! The tier: its parts, and what operations do with them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::Thread;

use super::config::{FlashConfig, SharedSettings};
use super::index_limit::IndexLimit;
use super::pieces::{PIECES_MAX, Pieces, Stream};
use super::segments::{FlashQueues, FlashSegment, FlashSegments, seed_of};
use crate::config::Layout;
use crate::index::FlashPlace;
use crate::sync::{Mutex, lock};
use crate::tier::devices::health::{DeviceHealth, OffBell};
use crate::tier::devices::pressure::Pressure;
use crate::tier::devices::write_budget::WriteBudget;
use crate::tier::layout::geometry::Geometry;
use crate::tier::layout::record::FlashRecord;
use crate::tier::statistics::counters::FlashCounters;
use crate::tier::thread::activity::FlashActivity;

#[derive(Debug)]
pub(crate) struct Tier {
    pub(super) geometry: Geometry,
    pub(super) rows: Box<[FlashSegment]>,
    pub(super) state: Mutex<TierState>,
    /// By device.
    pub(super) health: Box<[DeviceHealth]>,
    pub(super) settings: SharedSettings,
    pub(super) budget: WriteBudget,
    pub(super) index_limit: IndexLimit,
    pub(crate) counters: FlashCounters,
    /// Begins the CRCs of records.
    pub(super) seed: u32,
    /// Of the index.
    shard_bits: u32,
    /// The last second that a handle has seen: the thread has no clock.
    pub(super) second: AtomicU32,
    /// Items on flash.
    pub(super) objects: AtomicU64,
    pub(super) thread: OnceLock<Thread>,
    pub(super) off_bell: OffBell,
    pub(super) activity: FlashActivity,
    pub(super) pressure: Pressure,
}

#[derive(Debug)]
pub(super) struct TierState {
    pub(super) pieces: Pieces,
    pub(super) queues: FlashQueues,
}

fn pieces_bytes(piece_bytes: u64) -> u64 {
    (PIECES_MAX as u64 + 1) * piece_bytes
}

impl Tier {
    /// A tier with nothing on it, for a configuration that has been checked.
    pub(crate) fn new(config: &FlashConfig, layout: &Layout, secret: u128) -> Tier {
        let geometry = Geometry::new(config, config.piece_within(layout.limit_bytes));
        let queues = FlashQueues::new(&geometry, &config.devices);
        Tier {
            rows: (0..geometry.segments()).map(|_| FlashSegment::default()).collect(),
            state: Mutex::new(TierState { pieces: Pieces::default(), queues }),
            health: config.devices.iter().map(|_| DeviceHealth::default()).collect(),
            settings: SharedSettings::new(config.settings),
            budget: WriteBudget::default(),
            index_limit: IndexLimit::default(),
            counters: FlashCounters::default(),
            seed: (secret >> 64) as u32 ^ secret as u32,
            shard_bits: layout.shards.ilog2(),
            second: AtomicU32::new(0),
            objects: AtomicU64::new(0),
            thread: OnceLock::new(),
            off_bell: OffBell::default(),
            activity: FlashActivity::default(),
            pressure: Pressure::default(),
            geometry,
        }
    }

    /// Memory that it takes: the pieces, and one that the thread reads into.
    pub(crate) fn fixed_bytes(config: &FlashConfig, limit_bytes: u64) -> u64 {
        pieces_bytes(config.piece_within(limit_bytes))
    }

    /// The same, of this tier.
    pub(crate) fn memory(&self) -> u64 {
        pieces_bytes(self.geometry.piece_bytes() as u64)
    }

    /// Takes a record in. `None`: there is no room for it now.
    pub(super) fn append(&self, stream: Stream, record: &FlashRecord<'_>) -> Option<FlashPlace> {
        let mut state = lock(&self.state);
        let TierState { pieces, queues } = &mut *state;
        let before = pieces.waiting();
        let place = pieces.append(stream, record, &mut self.segments(queues));
        let wakes = pieces.waiting() != before || place.is_none();
        if wakes {
            self.note_room(&state);
        }
        drop(state);
        if wakes {
            self.wake();
        }
        let row = &self.rows[self.geometry.segment_at(place?) as usize];
        row.add(record.len());
        self.objects.fetch_add(1, Relaxed);
        place
    }

    /// Takes note of a change of what the lock guards.
    pub(super) fn note_room(&self, state: &TierState) {
        let TierState { pieces, queues } = state;
        let has_segment = queues.has_free_for(Stream::New) || pieces.goes_on(Stream::New, &self.geometry);
        self.pressure.set_full(pieces.is_nearly_full() || !has_segment);
    }

    /// Takes note that a device has done something.
    pub(super) fn note_progress(&self, state: &TierState) {
        self.note_room(state);
        self.pressure.note_progress();
    }

    /// The segments, while the lock is held that `queues` comes from.
    pub(super) fn segments<'t>(&'t self, queues: &'t mut FlashQueues) -> FlashSegments<'t> {
        FlashSegments {
            queues,
            rows: &self.rows,
            geometry: &self.geometry,
            health: &self.health,
            second: self.second.load(Relaxed),
            seed: self.seed,
            shard_bits: self.shard_bits,
            budget: &self.budget,
            write_rate: self.settings.write_rate(),
        }
    }

    /// Begins the CRCs of the records of a segment, as it is filled now.
    pub(super) fn seed(&self, segment: u32) -> u32 {
        self.seed_of(self.rows[segment as usize].version.load(Relaxed))
    }

    /// The same for a version of a segment.
    pub(super) fn seed_of(&self, version: u64) -> u32 {
        seed_of(self.seed, version)
    }

    /// Takes note that nothing refers to this place any more.
    pub(super) fn note_gone(&self, place: FlashPlace) {
        let segment = self.geometry.segment_at(place);
        self.rows[segment as usize].objects.fetch_sub(1, Relaxed);
        self.objects.fetch_sub(1, Relaxed);
    }

    /// Takes note that a device has failed, or has taken too long.
    pub(super) fn note_failure(&self, device: usize) {
        let second = self.second.load(Relaxed);
        if self.health[device].note_failure(second) {
            self.counters.turned_off.fetch_add(1, Relaxed);
            self.off_bell.ring(device, second);
        }
    }

    /// Whether a device is left alone at present.
    pub(super) fn is_off(&self, device: usize) -> bool {
        self.health[device].is_off(self.second.load(Relaxed))
    }

    /// Items on flash.
    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }

    /// Takes note of the time.
    pub(crate) fn note_second(&self, now: u32) {
        if self.second.load(Relaxed) == now {
            return;
        }
        let before = self.second.swap(now, Relaxed);
        // Of several threads that see the second, one earns it. The first second of all says nothing.
        let passed = if before == 0 { 0 } else { now.saturating_sub(before) };
        self.budget.earn(passed, self.settings.write_rate(), self.geometry.piece_bytes());
    }

    /// Whether the budget for writes has room for an item.
    pub(super) fn has_budget(&self, was_used: bool) -> bool {
        let has = self.budget.admits(was_used, self.settings.write_rate(), self.geometry.piece_bytes());
        if !has {
            self.counters.over_budget.fetch_add(1, Relaxed);
        }
        has
    }

    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
