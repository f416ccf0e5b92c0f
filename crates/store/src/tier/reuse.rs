//! A segment is reused: what was used since it was written is written again, the rest is dropped.

use std::sync::atomic::Ordering::Relaxed;

use flash::{AlignedBytes, Disk};

use super::activity::ThreadAtWork;
use super::geometry::PieceId;
use super::pieces::Stream;
use super::record::{FlashRecord, records};
use super::state::Tier;
use crate::index::FlashPlace;
use crate::store::Store;
use crate::sync::lock;

/// How far a segment is.
struct Reuse {
    /// Items that may still be written again.
    keep_left: u64,
    now: u32,
}

impl Store {
    /// Empties a segment that was taken out of its queue; it comes back there if the tier is to end.
    pub(super) fn reuse(
        &self,
        tier: &Tier,
        disk: &dyn Disk,
        segment: u32,
        room: &mut AlignedBytes,
        work: &mut ThreadAtWork<'_>,
    ) {
        let row = &tier.rows[segment as usize];
        let settings = tier.settings.get();
        let records_written = u64::from(row.records.load(Relaxed));
        let most = u64::from(settings.kept_max_percent);
        let mut reuse = Reuse { keep_left: records_written * most / 100, now: tier.second.load(Relaxed) };
        for number in 0..tier.geometry.pieces_per_segment() {
            // Memory for what is written again, and what workers write meanwhile.
            while self.write_piece(tier, disk, work) {}
            if !tier.activity.is_running() {
                return lock(&tier.state).queues.put_back(&tier.rows);
            }
            if row.objects.load(Relaxed) == 0 {
                break;
            }
            let piece = PieceId { segment, number };
            let range = tier.geometry.range(piece, 0..tier.geometry.piece_bytes());
            let result = work.wait_for(|| disk.read(range.device, range.position, room));
            if tier.activity.is_finished() {
                return lock(&tier.state).queues.put_back(&tier.rows);
            }
            if result.is_err() {
                tier.counters.read_errors.fetch_add(1, Relaxed);
                tier.note_failure(range.device);
                continue;
            }
            for (at, record) in records(room, tier.seed(segment)) {
                let place = tier.geometry.place(piece, at, record.len(), record.hash);
                self.keep_or_drop_on_flash(tier, &record, place, &mut reuse);
            }
        }
        if row.objects.load(Relaxed) > 0 && !self.sweep(tier, segment) {
            return lock(&tier.state).queues.put_back(&tier.rows);
        }
        tier.counters.segments_reused.fetch_add(1, Relaxed);
        lock(&tier.state).queues.put_free(segment, &tier.rows, &tier.geometry);
    }

    /// Makes sure that no slot refers to this record.
    fn keep_or_drop_on_flash(
        &self,
        tier: &Tier,
        record: &FlashRecord<'_>,
        place: FlashPlace,
        reuse: &mut Reuse,
    ) {
        let mut locked = self.index.lock(record.hash);
        let Some(slot) = self.index.find_on_flash(&locked, record.hash, |other| other == place) else {
            return;
        };
        if self.why_dead_on_flash(record, reuse.now).is_some() {
            tier.counters.reclaimed.fetch_add(1, Relaxed);
            return self.unlink_flash(&mut locked, slot);
        }
        if slot.frequency() > 0 && reuse.keep_left > 0 && tier.has_budget(true) {
            if let Some(to) = tier.append(Stream::Again, record) {
                self.remove_twin(&mut locked, record.hash, to);
                let slot = self.index.find_on_flash(&locked, record.hash, |other| other == place);
                let slot = slot.expect("only another one was removed");
                self.index.move_to_flash(&mut locked, slot, to, slot.frequency() - 1);
                tier.note_gone(place);
                tier.counters.rescued(record.len());
                reuse.keep_left -= 1;
                return;
            }
            tier.counters.refused.fetch_add(1, Relaxed);
        }
        tier.counters.evicted(record.len(), slot.frequency() > 0);
        self.unlink_flash(&mut locked, slot);
    }

    /// Removes all slots that refer to a segment, whose records cannot be read: looks at the whole index. False: the tier is to end
    /// first.
    fn sweep(&self, tier: &Tier, segment: u32) -> bool {
        for shard in 0..self.index.shards() {
            if !tier.activity.is_running() {
                return false;
            }
            let mut cursor = 0;
            loop {
                let mut locked = self.index.lock_shard(shard);
                let mut found = None;
                let next = self.index.scan(
                    &locked,
                    cursor,
                    |at| self.hash_at(at),
                    |slot| {
                        if slot.is_on_flash() && tier.geometry.segment_at(slot.place()) == segment {
                            found = Some(slot);
                        }
                    },
                );
                match found {
                    // Other slots may have moved now: the page is looked at again.
                    Some(slot) => {
                        self.unlink_flash(&mut locked, slot);
                        tier.counters.lost.fetch_add(1, Relaxed);
                    }
                    None if next == 0 => break,
                    None => cursor = next,
                }
            }
        }
        true
    }
}
