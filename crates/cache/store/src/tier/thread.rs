//! The thread that writes to devices and makes room on them.

pub(super) mod activity;
pub(super) mod finish;
mod reuse;

use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;

use flash::{AlignedBytes, Disk};

use super::pieces::FullPiece;
use super::segments::choose_victim;
use super::state::Tier;
use crate::store::Store;
use crate::sync::lock;
use crate::tier::layout::record::records;
use crate::tier::thread::activity::ThreadAtWork;

/// Bytes of one write: reads of a device that is written to wait for no longer than for this.
const WRITE_BYTES: usize = 1 << 20;
/// Free segments, at least: writes of new items leave one for those that are written again.
const FREE_MIN: usize = 2;
/// Or one segment in so many.
const FREE_SHARE: usize = 100;

impl Store {
    /// Writes to the devices of the tier and makes room on them, until the store is dropped. To be run by a thread of its own;
    /// returns at once where there is no tier.
    pub fn keep_flash(store: &Weak<Store>, disk: &dyn Disk) {
        let mut room = None;
        while let Some(store) = store.upgrade() {
            let Some(tier) = &store.tier else { return };
            tier.thread.get_or_init(std::thread::current);
            if !store.flash_step(disk, &mut room) {
                // If the last owner is gone by now, this drops the store.
                drop(store);
                std::thread::park();
            }
        }
    }

    /// Does what is to be done next: writes one piece, or empties one segment. False: nothing. `room` is memory for reading,
    /// which it keeps between two calls. One thread at a time calls this.
    pub fn flash_step(&self, disk: &dyn Disk, room: &mut Option<AlignedBytes>) -> bool {
        let Some(tier) = &self.tier else { return false };
        let mut work = tier.activity.begin_work();
        if tier.activity.is_finished() {
            return false;
        }
        // Asked once: an end that begins in the middle of this has its turn next time, and open pieces are closed first.
        let is_running = tier.activity.is_running();
        if !is_running {
            lock(&tier.state).pieces.close_all();
        }
        if self.write_piece(tier, disk, &mut work) {
            return true;
        }
        if !is_running {
            tier.activity.note_finished();
            return true;
        }
        tier.index_limit.note(self.index_pressure(), tier.objects());
        let Some(victim) = tier.take_victim() else { return false };
        let room = room.get_or_insert_with(|| AlignedBytes::zeroed(tier.geometry.piece_bytes()));
        self.reuse(tier, disk, victim, room, &mut work);
        true
    }

    /// Whether an item that is stored now would push others out of memory for which there is no room on the way to the devices, and
    /// there will be some when these have written.
    #[inline]
    pub fn flash_is_behind(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| {
            let is_any_on = || (0..tier.health.len()).any(|device| !tier.is_off(device));
            tier.pressure.is_full() && self.segments.is_nearly_short() && is_any_on()
        })
    }

    /// Rises with each piece that the devices have written, and each segment that was emptied.
    pub fn flash_progress(&self) -> u64 {
        self.tier.as_ref().map_or(0, |tier| tier.pressure.progress())
    }

    /// Writes the piece that waits for longest. False: none does.
    pub(super) fn write_piece(&self, tier: &Tier, disk: &dyn Disk, work: &mut ThreadAtWork<'_>) -> bool {
        let Some(piece) = lock(&tier.state).pieces.next() else { return false };
        let range = tier.geometry.range(piece.id, 0..piece.bytes.len());
        let write = || {
            let chunks = piece.bytes.chunks(WRITE_BYTES).zip((range.position..).step_by(WRITE_BYTES));
            let mut results = chunks.map(|(chunk, position)| disk.write(range.device, position, chunk));
            results.try_for_each(|result| result)
        };
        let result = work.wait_for(write);
        // Its items were given up meanwhile, and what is in memory belongs to another process now.
        if tier.activity.is_finished() {
            return false;
        }
        if result.is_err() {
            tier.counters.write_errors.fetch_add(1, Relaxed);
            tier.note_failure(range.device);
            self.drop_piece(tier, &piece);
        } else {
            tier.counters.device_bytes_written.fetch_add(range.len as u64, Relaxed);
        }
        let mut state = lock(&tier.state);
        state.pieces.written(piece, &tier.rows);
        tier.note_progress(&state);
        true
    }

    /// Removes the items of a piece that could not be written, while they are still read from memory. Returns how many there were.
    pub(super) fn drop_piece(&self, tier: &Tier, piece: &FullPiece) -> u64 {
        let mut dropped = 0;
        for (at, record) in records(&piece.bytes, tier.seed(piece.id.segment)) {
            let place = tier.geometry.place(piece.id, at, record.len(), record.hash);
            dropped += u64::from(self.drop_place(record.hash, place));
        }
        tier.counters.lost.fetch_add(dropped, Relaxed);
        dropped
    }
}

impl Tier {
    /// The segment to be emptied next, if there are too few free ones.
    fn take_victim(&self) -> Option<u32> {
        let mut candidates = {
            let queues = &lock(&self.state).queues;
            let is_short = queues.free() < self.free_min() || self.wants_index_room();
            is_short.then(|| queues.candidates())?
        };
        // Without the lock, which workers take for each item that goes to flash: there may be a hundred thousand of them. What is written
        // now stays so, and nobody else takes one.
        candidates.retain(|segment| !self.rows[*segment as usize].may_be_in_memory());
        let victim = choose_victim(&candidates, &self.rows)?;
        lock(&self.state).queues.take_victim(victim)
    }

    /// Whether a segment is to be emptied although there are free ones, because the index has too much of the memory.
    pub(super) fn wants_index_room(&self) -> bool {
        let objects = self.objects();
        let in_use = u64::from(self.geometry.segments());
        self.index_limit.wants_room(objects, objects / in_use)
    }

    /// Segments that are to be free, at least.
    pub(super) fn free_min(&self) -> usize {
        let segments = self.geometry.segments() as usize;
        match self.settings.get().free_min {
            0 => (segments / FREE_SHARE).max(FREE_MIN),
            // With more than half of them, all would be emptied over and over.
            least => (least as usize).clamp(FREE_MIN, (segments / 2).max(FREE_MIN)),
        }
    }
}
