//! Pieces in memory: each stream of items fills one, and full ones wait to be written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flash::AlignedBytes;

use super::segments::{FlashSegment, FlashSegments, seed_of};
use crate::index::{FlashPlace, PAGES_PER_RECORD_MAX, share_entry};
use crate::tier::layout::geometry::{FLASH_PAGE, Geometry, PieceId, pages};
use crate::tier::layout::record::{FlashRecord, RECORD_ALIGN};
use crate::tier::layout::table::{finish, put_entry, table_start};

/// Items that lie together, because they will go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// From memory.
    New,
    /// Those of them that expire soon.
    LowTtl,
    /// Used on flash, when their segment was reused.
    Again,
}

pub(super) const STREAMS: usize = 3;
/// Pieces in memory at a time: one of each stream, and the others wait to be written.
pub(super) const PIECES_MAX: usize = 8;

/// A full piece.
#[derive(Debug)]
pub(super) struct FullPiece {
    pub(super) id: PieceId,
    pub(super) bytes: AlignedBytes,
}

#[derive(Debug)]
struct OpenPiece {
    id: PieceId,
    bytes: AlignedBytes,
    filled: usize,
    /// Records in it, and the highest of their sequences.
    records: usize,
    sequence_max: u64,
    /// Begins the CRCs of all that is in it.
    seed: u32,
}

impl OpenPiece {
    /// Where a record of `len` bytes has room.
    fn room(&self, len: usize) -> Option<usize> {
        let at = start(self.filled, len);
        (at + len <= table_start(self.bytes.len(), self.records + 1)).then_some(at)
    }

    fn write(&mut self, at: usize, record: &FlashRecord<'_>) {
        let end = at + record.len();
        self.bytes[self.filled..at].fill(0);
        record.write(&mut self.bytes[at..end], self.seed);
        put_entry(&mut self.bytes, self.records, at, record);
        self.filled = end;
        self.records += 1;
        self.sequence_max = self.sequence_max.max(record.sequence);
    }

    fn finish(mut self) -> Arc<FullPiece> {
        finish(&mut self.bytes, self.filled, self.records, self.sequence_max, self.seed);
        Arc::new(FullPiece { id: self.id, bytes: self.bytes })
    }
}

#[derive(Debug, Default)]
pub(super) struct Pieces {
    open: [Option<OpenPiece>; STREAMS],
    /// The piece of each stream that was opened last: its segment goes on with the next one.
    last: [Option<PieceId>; STREAMS],
    /// The oldest first, which is being written. They are read from here until they are on the device.
    waiting: VecDeque<Arc<FullPiece>>,
    /// Memory for more.
    spare: Vec<AlignedBytes>,
    /// Pieces that have memory.
    allocated: usize,
    /// Pieces that are on their devices, or were given up.
    ended: u64,
}

impl Pieces {
    /// Writes a record to the piece of a stream. `None`: there is no memory for a new piece, or no segment.
    pub(super) fn append(
        &mut self,
        stream: Stream,
        record: &FlashRecord<'_>,
        segments: &mut FlashSegments<'_>,
    ) -> Option<FlashPlace> {
        let at = match self.open[stream as usize].as_ref().and_then(|open| open.room(record.len())) {
            Some(at) => at,
            None => {
                self.open_piece(stream, segments)?;
                0
            }
        };
        let open = self.open[stream as usize].as_mut().expect("there is one now");
        open.write(at, record);
        let shares = |hash| share_entry(hash, record.hash, segments.shard_bits);
        wipe_older(&mut open.bytes[at - at % FLASH_PAGE..at], open.seed, shares);
        Some(segments.geometry.place(open.id, at, record.len(), record.hash))
    }

    /// Opens the next piece of a stream; the one before has to be written.
    fn open_piece(&mut self, stream: Stream, segments: &mut FlashSegments<'_>) -> Option<()> {
        let geometry = segments.geometry;
        // Memory first: a segment that was taken could not be given back.
        let bytes = match self.spare.pop() {
            Some(bytes) => bytes,
            None if self.allocated < PIECES_MAX => {
                self.allocated += 1;
                AlignedBytes::zeroed(geometry.piece_bytes())
            }
            None => return None,
        };
        let before = self.last[stream as usize];
        let next = before.map(|id| PieceId { number: id.number + 1, ..id });
        let is_off = |id: &PieceId| segments.health[geometry.device_of(id.segment)].is_off(segments.second);
        let next = next.filter(|next| next.number < geometry.pieces_per_segment() && !is_off(next));
        let id = match next {
            Some(next) => next,
            None => match segments.take(stream) {
                Some(segment) => PieceId { segment, number: 0 },
                None => {
                    self.spare.push(bytes);
                    return None;
                }
            },
        };
        self.waiting.extend(self.open[stream as usize].take().map(OpenPiece::finish));
        if let Some(full) = before.filter(|before| before.segment != id.segment) {
            segments.seal(full.segment);
        }
        segments.budget.spend(bytes.len(), segments.write_rate);
        let row = &segments.rows[id.segment as usize];
        row.note_piece_opened();
        let seed = seed_of(segments.seed, row.version.load(Relaxed));
        self.last[stream as usize] = Some(id);
        self.open[stream as usize] =
            Some(OpenPiece { id, bytes, filled: 0, records: 0, sequence_max: 0, seed });
        Some(())
    }

    /// Lets all open pieces wait to be written. Their segments go on with their next pieces.
    pub(super) fn close_all(&mut self) {
        for open in &mut self.open {
            self.waiting.extend(open.take().map(OpenPiece::finish));
        }
    }

    /// The bytes of a piece that is not on its device yet.
    pub(super) fn find(&self, id: PieceId) -> Option<&[u8]> {
        let open = self.open.iter().flatten().find(|open| open.id == id).map(|open| &*open.bytes);
        open.or_else(|| self.waiting.iter().find(|piece| piece.id == id).map(|piece| &*piece.bytes))
    }

    /// The part of a piece with records, if the piece is not on its device yet.
    pub(super) fn records_of(&self, id: PieceId) -> Option<&[u8]> {
        let open = self.open.iter().flatten().find(|open| open.id == id);
        open.map(|open| &open.bytes[..open.filled])
            .or_else(|| self.waiting.iter().find(|piece| piece.id == id).map(|piece| &*piece.bytes))
    }

    /// The segments that are being filled.
    pub(super) fn open_segments(&self) -> impl Iterator<Item = u32> {
        self.last.iter().flatten().map(|id| id.segment)
    }

    /// Whether a piece of a segment that is being filled has not been begun.
    pub(super) fn is_ahead(&self, id: PieceId) -> bool {
        self.last.iter().flatten().any(|last| last.segment == id.segment && last.number < id.number)
    }

    /// The piece to be written next.
    pub(super) fn next(&self) -> Option<Arc<FullPiece>> {
        self.waiting.front().cloned()
    }

    /// Takes note that a piece is on its device, or given up.
    pub(super) fn written(&mut self, piece: Arc<FullPiece>, rows: &[FlashSegment]) {
        // All may have been given up while it was written.
        if self.waiting.front().is_some_and(|first| Arc::ptr_eq(first, &piece)) {
            self.waiting.pop_front();
            rows[piece.id.segment as usize].note_piece_gone();
            self.ended += 1;
            self.put_back(piece);
        }
    }

    /// Takes out all pieces that wait to be written.
    pub(super) fn take_waiting(&mut self, rows: &[FlashSegment]) -> Vec<Arc<FullPiece>> {
        self.waiting.iter().for_each(|piece| rows[piece.id.segment as usize].note_piece_gone());
        self.ended += self.waiting.len() as u64;
        self.waiting.drain(..).collect()
    }

    /// Keeps the memory of a piece for others.
    pub(super) fn put_back(&mut self, piece: Arc<FullPiece>) {
        match Arc::into_inner(piece) {
            Some(piece) => self.spare.push(piece.bytes),
            // Whoever else has it drops it.
            None => self.allocated -= 1,
        }
    }

    /// Whether there is memory for one more piece at most.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.spare.len() + PIECES_MAX <= self.allocated + 1
    }

    /// Whether the next piece of a stream needs no other segment.
    pub(super) fn goes_on(&self, stream: Stream, geometry: &Geometry) -> bool {
        self.last[stream as usize].is_some_and(|last| last.number + 1 < geometry.pieces_per_segment())
    }

    /// Pieces that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Pieces that wait no more, since the start.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }
}

/// Removes records from the page where another one is to begin whose slots could be taken for its own: above all what an earlier item of
/// the same key has left. Who comes to this page by the slot of the new record must find no other one.
fn wipe_older(page: &mut [u8], seed: u32, shares: impl Fn(u64) -> bool) {
    for at in (0..page.len()).step_by(RECORD_ALIGN) {
        let hash = u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        // A value that looks like one stays as it is.
        if shares(hash) && FlashRecord::read(&page[at..], seed).is_some() {
            page[at..at + RECORD_ALIGN].fill(0);
        }
    }
}

/// Where a record of `len` bytes begins behind `filled` bytes: with a new page if that saves reading one, for little room.
fn start(filled: usize, len: usize) -> usize {
    let next = filled.next_multiple_of(FLASH_PAGE);
    if pages(filled, len) > PAGES_PER_RECORD_MAX {
        // It is read by its first page.
        return next;
    }
    let saves = pages(filled, len) > pages(next, len);
    if saves && (next - filled) * ROOM_PER_SAVED_PAGE <= len { next } else { filled }
}

/// The room given away for a page less to be read is at most one part in 16 of the record.
const ROOM_PER_SAVED_PAGE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_with_the_slot_of_a_newer_one_are_wiped_from_its_page() {
        let record = |hash: u64| FlashRecord {
            at: 0,
            hash,
            sequence: 1,
            header: crate::segment::record::Header::default(),
            key: b"key",
            value: &[b'v'; 100],
        };
        // The same key, one that differs in bits that no slot has, one with another shard, one with another tag.
        let newest = 0x1234_5678_9abc_def0;
        let others = [newest, newest ^ 1 << 15, newest ^ 1 << 63, newest ^ 1 << 40];
        let mut page = Vec::new();
        for hash in others {
            let mut room = vec![0; record(hash).len()];
            record(hash).write(&mut room, 7);
            page.extend(room);
        }
        // What only looks like one.
        page.extend(newest.to_le_bytes());
        page.resize(FLASH_PAGE, 1);
        wipe_older(&mut page, 7, |hash| share_entry(hash, newest, 8));
        let left: Vec<u64> =
            crate::tier::layout::record::records(&page, 7).map(|(_, record)| record.hash).collect();
        assert_eq!(left, others[2..]);
        assert!(page.windows(8).any(|window| window == newest.to_le_bytes()));
    }

    #[test]
    fn a_record_begins_a_page_if_that_saves_a_page_for_little_room() {
        assert_eq!(start(64, 4032), 64, "it fits");
        assert_eq!(start(4032, 4096), 4096, "64 bytes for a page");
        assert_eq!(start(3840, 4096), 4096, "256 bytes for a page");
        assert_eq!(start(3776, 4096), 3776, "320 bytes are too many");
        assert_eq!(start(4032, 4160), 4032, "it has two pages anyway");
        assert_eq!(start(4096, 4096), 4096);
        assert_eq!(start(64, 9 * 4096), 4096, "ten pages would be long");
        assert_eq!(start(64, 100_000), 4096);
    }
}
