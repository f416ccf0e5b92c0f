//! Pieces in memory: each stream of items fills one, and full ones wait to be written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flash::AlignedBytes;

use super::geometry::{FLASH_PAGE, PieceId, pages};
use super::record::{FlashRecord, RECORD_ALIGN};
use super::segments::{FlashSegments, seed_of};
use crate::index::{FlashPlace, PAGES_PER_RECORD_MAX};

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
}

#[derive(Debug, Default)]
pub(super) struct Pieces {
    open: [Option<OpenPiece>; STREAMS],
    /// The oldest first, which is being written. They are read from here until they are on the device.
    waiting: VecDeque<Arc<FullPiece>>,
    /// Memory for more.
    spare: Vec<AlignedBytes>,
    /// Pieces that have memory.
    allocated: usize,
}

impl Pieces {
    /// Writes a record to the piece of a stream. `None`: there is no memory for a new piece, or no segment.
    pub(super) fn append(
        &mut self,
        stream: Stream,
        record: &FlashRecord<'_>,
        segments: &mut FlashSegments<'_>,
    ) -> Option<FlashPlace> {
        let len = record.len();
        let at = match &self.open[stream as usize] {
            Some(open) => Some(start(open.filled, len)).filter(|at| at + len <= open.bytes.len()),
            None => None,
        };
        let at = match at {
            Some(at) => at,
            None => {
                self.open_piece(stream, segments)?;
                0
            }
        };
        let open = self.open[stream as usize].as_mut().expect("there is one now");
        open.bytes[open.filled..at].fill(0);
        wipe_older(&mut open.bytes[at - at % FLASH_PAGE..at], record.hash);
        let seed = seed_of(segments.seed, segments.rows[open.id.segment as usize].version.load(Relaxed));
        record.write(&mut open.bytes[at..at + len], seed);
        open.filled = at + len;
        Some(segments.geometry.place(open.id, at, len, record.hash))
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
        let before = self.open[stream as usize].as_ref().map(|open| open.id);
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
        if let Some(OpenPiece { id, mut bytes, filled }) = self.open[stream as usize].take() {
            bytes[filled..].fill(0);
            self.waiting.push_back(Arc::new(FullPiece { id, bytes }));
        }
        if let Some(full) = before.filter(|before| before.segment != id.segment) {
            segments.seal(full.segment);
        }
        self.open[stream as usize] = Some(OpenPiece { id, bytes, filled: 0 });
        Some(())
    }

    /// Lets all open pieces wait to be written, and seals their segments.
    pub(super) fn close_all(&mut self, segments: &mut FlashSegments<'_>) {
        for open in &mut self.open {
            if let Some(OpenPiece { id, mut bytes, filled }) = open.take() {
                bytes[filled..].fill(0);
                self.waiting.push_back(Arc::new(FullPiece { id, bytes }));
                segments.seal(id.segment);
            }
        }
    }

    /// The bytes of a piece that is not on its device yet.
    pub(super) fn find(&self, id: PieceId) -> Option<&[u8]> {
        let open = self.open.iter().flatten().find(|open| open.id == id).map(|open| &*open.bytes);
        open.or_else(|| self.waiting.iter().find(|piece| piece.id == id).map(|piece| &*piece.bytes))
    }

    /// The piece to be written next.
    pub(super) fn next(&self) -> Option<Arc<FullPiece>> {
        self.waiting.front().cloned()
    }

    /// Takes note that the first piece is on its device, or given up.
    pub(super) fn written(&mut self, piece: Arc<FullPiece>) {
        let first = self.waiting.pop_front();
        debug_assert!(first.is_some_and(|first| Arc::ptr_eq(&first, &piece)));
        match Arc::into_inner(piece) {
            Some(piece) => self.spare.push(piece.bytes),
            // Whoever else has it drops it.
            None => self.allocated -= 1,
        }
    }

    /// Whether a segment has pieces that are not on its device.
    pub(super) fn waits_for(&self, segment: u32) -> bool {
        let open = self.open.iter().flatten().any(|open| open.id.segment == segment);
        open || self.waiting.iter().any(|piece| piece.id.segment == segment)
    }

    /// Pieces that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// Removes what an earlier item of the same key has left in the page where a record is to begin: who reads the page must not find
/// it. No other value holds these eight bytes, because nobody knows the hash.
fn wipe_older(page: &mut [u8], hash: u64) {
    for start in page.chunks_exact_mut(RECORD_ALIGN).filter(|start| start[..8] == hash.to_le_bytes()) {
        start.fill(0);
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
