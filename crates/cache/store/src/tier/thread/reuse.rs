//! A segment is reused: what was used since it was written is written again, the rest is dropped.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use flash::{AlignedBytes, Disk};

use crate::index::FlashPlace;
use crate::store::Store;
use crate::sync::lock;
use crate::tier::layout::geometry::{FLASH_PAGE, PieceId};
use crate::tier::layout::record::{FlashRecord, records};
use crate::tier::layout::table::{Table, TableEnd, TableEntry, read_table};
use crate::tier::pieces::Stream;
use crate::tier::state::Tier;
use crate::tier::thread::activity::ThreadAtWork;

/// How far a segment is.
struct Reuse<'r, 'w> {
    tier: &'r Tier,
    disk: &'r dyn Disk,
    work: &'r mut ThreadAtWork<'w>,
    segment: u32,
    /// The most of its records that are written again, in percent.
    kept_max_percent: u64,
    /// Records that may still be written again.
    keep_left: usize,
    /// Those written again are to be so many less than the records looked at so far allow, in hundredths, before an item that was
    /// used only once is kept: those used more often in later pieces need room.
    earned: i64,
    now: u32,
}

/// A read has failed, or the tier has ended meanwhile: then nothing may be changed any more.
struct Unread;

/// Read at once of the end of a piece: the table of some 3000 records. Longer ones take a second read.
const TABLE_READ_BYTES: usize = 64 << 10;
/// Records of a piece that are read one by one. More of them, and all of the piece is read at once: a read that goes on
/// takes less time than as many that begin.
const SINGLE_READS_MAX: usize = 16;

impl Reuse<'_, '_> {
    /// Takes note of records that are looked at now.
    fn look_at(&mut self, records: usize) {
        self.earned += (records as u64 * self.kept_max_percent) as i64;
    }

    /// Whether an item that was used so often may be kept after `others`, which were used as often at least.
    fn may_keep(&self, frequency: u64, others: usize) -> bool {
        others < self.keep_left && (frequency > 1 || (others as i64 + 1) * 100 <= self.earned)
    }

    fn note_kept(&mut self) {
        self.keep_left -= 1;
        self.earned -= 100;
    }

    /// Reads a part of a piece into the same part of `room`.
    fn read(&mut self, number: u32, part: Range<usize>, room: &mut AlignedBytes) -> Result<(), Unread> {
        let (tier, disk) = (self.tier, self.disk);
        let range = tier.geometry.range(PieceId { segment: self.segment, number }, part.clone());
        let result = self.work.wait_for(|| disk.read(range.device, range.position, &mut room[part]));
        if result.is_err() && !tier.activity.is_finished() {
            tier.counters.read_errors.fetch_add(1, Relaxed);
            tier.note_failure(range.device);
        }
        if result.is_ok() && !tier.activity.is_finished() { Ok(()) } else { Err(Unread) }
    }

    /// The table of a piece. `None`: it has an error, and the records are there, maybe.
    fn table(&mut self, number: u32, room: &mut AlignedBytes) -> Result<Option<Table>, Unread> {
        let (end, seed) = (room.len(), self.tier.seed(self.segment));
        let mut start = end.saturating_sub(TABLE_READ_BYTES);
        loop {
            self.read(number, start..end, room)?;
            match read_table(&room[start..], end, seed) {
                TableEnd::Whole(table) => return Ok(Some(table)),
                TableEnd::Longer(at) if at < start => start = at,
                TableEnd::Longer(_) | TableEnd::Damaged => return Ok(None),
            }
        }
    }

    fn place(&self, number: u32, at: usize, len: usize, hash: u64) -> FlashPlace {
        self.tier.geometry.place(PieceId { segment: self.segment, number }, at, len, hash)
    }
}

impl Store {
    /// Empties a segment that was taken out of its queue; it comes back there if the tier is to end.
    pub(crate) fn reuse(
        &self,
        tier: &Tier,
        disk: &dyn Disk,
        segment: u32,
        room: &mut AlignedBytes,
        work: &mut ThreadAtWork<'_>,
    ) {
        let row = &tier.rows[segment as usize];
        let kept_max_percent = u64::from(tier.settings.get().kept_max_percent);
        let now = tier.second.load(Relaxed);
        let keep_left = (u64::from(row.records.load(Relaxed)) * kept_max_percent / 100) as usize;
        let mut reuse = Reuse { tier, disk, work, segment, kept_max_percent, keep_left, earned: 0, now };
        for number in 0..tier.geometry.pieces_per_segment() {
            // Memory for what is written again, and what workers write meanwhile.
            while self.write_piece(tier, disk, reuse.work) {}
            if !tier.activity.is_running() {
                return lock(&tier.state).queues.put_back(&tier.rows);
            }
            if row.objects.load(Relaxed) == 0 {
                break;
            }
            match reuse.table(number, room) {
                Ok(Some(table)) => self.empty_piece(&mut reuse, number, &table, room),
                Ok(None) => self.empty_unlisted_piece(&mut reuse, number, room),
                Err(Unread) => {}
            }
            if tier.activity.is_finished() {
                return lock(&tier.state).queues.put_back(&tier.rows);
            }
        }
        if row.objects.load(Relaxed) > 0 && !self.sweep(tier, segment) {
            return lock(&tier.state).queues.put_back(&tier.rows);
        }
        tier.counters.segments_reused.fetch_add(1, Relaxed);
        let mut state = lock(&tier.state);
        state.queues.put_free(segment, &tier.rows, &tier.geometry);
        tier.note_progress(&state);
    }

    /// Makes sure that no slot refers to the records of a table. Those that may be kept are read: the ones that were used most.
    fn empty_piece(&self, reuse: &mut Reuse<'_, '_>, number: u32, table: &Table, room: &mut AlignedBytes) {
        let is_flushed = self.segments.is_flushed_through(table.sequence_max);
        let used = |entry| Some((self.drop_unused(reuse, number, entry, is_flushed)?, entry));
        let mut used: Vec<(u64, &TableEntry)> = table.entries.iter().filter_map(used).collect();
        used.sort_by_key(|(frequency, _)| Reverse(*frequency));
        reuse.look_at(table.entries.len());
        let kept = used.iter().enumerate().take_while(|(at, (frequency, _))| reuse.may_keep(*frequency, *at));
        for (_, entry) in used.drain(kept.count()..) {
            let place = reuse.place(number, entry.at, entry.len, entry.hash);
            if self.drop_place(entry.hash, place) {
                reuse.tier.counters.evicted(entry.len, true);
            }
        }
        let is_read = used.len() > SINGLE_READS_MAX && reuse.read(number, 0..room.len(), room).is_ok();
        for (_, entry) in used {
            let pages = entry.at - entry.at % FLASH_PAGE..(entry.at + entry.len).next_multiple_of(FLASH_PAGE);
            let is_read = is_read || reuse.read(number, pages, room).is_ok();
            if reuse.tier.activity.is_finished() {
                return;
            }
            let record =
                is_read.then(|| FlashRecord::read(&room[entry.at..], reuse.tier.seed(reuse.segment)));
            let place = reuse.place(number, entry.at, entry.len, entry.hash);
            match record.flatten().filter(|record| record.hash == entry.hash) {
                Some(record) => self.keep_or_drop_on_flash(reuse, &record, place),
                None => self.drop_lost(reuse.tier, entry.hash, place),
            }
        }
    }

    /// Removes the slot that refers to an entry, unless the item was used. Returns how often it was.
    fn drop_unused(
        &self,
        reuse: &Reuse<'_, '_>,
        number: u32,
        entry: &TableEntry,
        is_flushed: bool,
    ) -> Option<u64> {
        let tier = reuse.tier;
        // Nobody has written it, but its CRC is right: no place can be made of what is not in a piece.
        if entry.len == 0 || entry.at + entry.len > tier.geometry.piece_bytes() {
            return None;
        }
        let place = reuse.place(number, entry.at, entry.len, entry.hash);
        let mut locked = self.index.lock(entry.hash);
        let slot = self.index.find_on_flash(&locked, entry.hash, |other| other == place)?;
        if is_flushed || entry.expiry != 0 && entry.expiry <= reuse.now {
            tier.counters.reclaimed.fetch_add(1, Relaxed);
        } else if slot.frequency() > 0 {
            return Some(slot.frequency());
        } else {
            tier.counters.evicted(entry.len, false);
        }
        self.unlink_flash(&mut locked, slot);
        None
    }

    /// Does the same by all the records of a piece, if its table has an error.
    fn empty_unlisted_piece(&self, reuse: &mut Reuse<'_, '_>, number: u32, room: &mut AlignedBytes) {
        if reuse.read(number, 0..room.len(), room).is_err() {
            return;
        }
        for (at, record) in records(room, reuse.tier.seed(reuse.segment)) {
            reuse.look_at(1);
            let place = reuse.place(number, at, record.len(), record.hash);
            self.keep_or_drop_on_flash(reuse, &record, place);
        }
    }

    /// Removes the slot that refers to a record that cannot be read.
    fn drop_lost(&self, tier: &Tier, hash: u64, place: FlashPlace) {
        let was_there = self.drop_place(hash, place);
        tier.counters.lost.fetch_add(was_there.into(), Relaxed);
    }

    /// Makes sure that no slot refers to this record.
    fn keep_or_drop_on_flash(&self, reuse: &mut Reuse<'_, '_>, record: &FlashRecord<'_>, place: FlashPlace) {
        let tier = reuse.tier;
        let mut locked = self.index.lock(record.hash);
        let Some(slot) = self.index.find_on_flash(&locked, record.hash, |other| other == place) else {
            return;
        };
        if self.why_dead_on_flash(record, reuse.now).is_some() {
            tier.counters.reclaimed.fetch_add(1, Relaxed);
            return self.unlink_flash(&mut locked, slot);
        }
        let frequency = slot.frequency();
        if frequency > 0 && reuse.may_keep(frequency, 0) && tier.has_budget(true) {
            if let Some(to) = tier.append(Stream::Again, record) {
                self.remove_twin(&mut locked, record.hash, to);
                let slot = self.index.find_on_flash(&locked, record.hash, |other| other == place);
                let slot = slot.expect("only another one was removed");
                self.index.move_to_flash(&mut locked, slot, to, slot.frequency() - 1);
                tier.note_gone(place);
                tier.counters.rescued(record.len());
                reuse.note_kept();
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
