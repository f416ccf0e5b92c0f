//! Iteration over the items on flash: segments in the order in which they were filled, a few pages at a time.
//!
//! An item counts where its slot refers to it, so each is met at one place. What moves to flash meanwhile goes to an open segment, which
//! has its turn after all that were full before: it is still ahead. A second round goes on where the first one has ended; between
//! the two, the items in memory are listed. So an item has to move twice during the second half of a dump to be left out.

use std::sync::atomic::Ordering::Relaxed;

use super::locate::{FlashRead, FlashReads, ReadState};
use super::state::Tier;
use crate::handle::Handle;
use crate::operations::dump::{Dumped, DumpedPlace};
use crate::segment::record::{BINARY_KEY, FETCHED};
use crate::sync::lock;
use crate::tier::layout::geometry::{FLASH_PAGE, PieceId};
use crate::tier::layout::record::{FlashRecord, RECORD_ALIGN};

/// Bytes of one read, at most 2048 records: other reads of the device wait for no longer than for this, and its items are
/// listed within a millisecond.
const READ_BYTES: usize = 128 << 10;

/// Position of a dump of the items on flash.
#[derive(Debug, Default)]
pub struct FlashDump {
    round: Round,
    /// When the last full segment that had its turn was sealed, as a number.
    passed: u64,
    current: Option<Position>,
    /// Segments that were open at their turn, and how far they were filled.
    ends: Vec<Position>,
}

/// How far a round is.
#[derive(Debug, Default)]
enum Round {
    #[default]
    NotBegun,
    /// In the full segments, of which at most so many more have a turn: where items are written faster than they are
    /// listed, the round ends nevertheless.
    Full(u32),
    /// In those that are open: the rest of them.
    Open(Vec<Position>),
}

/// Where a dump goes on in a segment.
#[derive(Clone, Copy, Debug)]
struct Position {
    segment: u32,
    version: u64,
    piece: u32,
    /// Bytes of the piece that have been listed.
    at: usize,
}

/// What a step of a dump has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashDumped {
    /// It has listed the items of some pages, or passed over what cannot be read.
    More,
    /// Nothing: a read comes first.
    Waits,
    /// The round has ended.
    Ended,
}

/// What is next at a position.
enum Chunk {
    /// Nothing: its segment has no more, or was filled again.
    Nothing,
    /// Pages of a piece in memory: they are in the buffer.
    Copied(Part),
    Read(FlashRead, Part),
    /// The device is left alone.
    DeviceOff,
}

/// Bytes of a piece that are looked at.
#[derive(Clone, Copy)]
struct Part {
    /// They begin here.
    start: usize,
    /// The piece has no records from here on.
    filled: usize,
}

/// No key is asked for.
const NO_HASH: u64 = 0;

impl Handle {
    /// Calls `each` with the live items in the next pages of flash. Without a tier, a round ends at once.
    pub fn dump_flash(
        &mut self,
        dump: &mut FlashDump,
        reads: &mut dyn FlashReads,
        now: u32,
        mut each: impl FnMut(&Dumped<'_>),
    ) -> FlashDumped {
        self.enter(now);
        let mut copy = std::mem::take(&mut self.scratch);
        let dumped = self.dump_part(dump, reads, now, &mut copy, &mut each);
        self.scratch = copy;
        dumped
    }

    fn dump_part(
        &self,
        dump: &mut FlashDump,
        reads: &mut dyn FlashReads,
        now: u32,
        copy: &mut Vec<u8>,
        each: &mut dyn FnMut(&Dumped<'_>),
    ) -> FlashDumped {
        let Some(tier) = &self.store.tier else { return FlashDumped::Ended };
        let Some(position) = dump.position(tier) else { return FlashDumped::Ended };
        let look = Look { handle: self, tier, position, now };
        match tier.chunk(&position, copy) {
            Chunk::Nothing => dump.leave(tier),
            Chunk::Copied(part) => dump.go_to(look.list(copy, part, each), tier),
            Chunk::DeviceOff => dump.skip(tier),
            Chunk::Read(read, part) => match reads.state(NO_HASH, read) {
                ReadState::Pending => return FlashDumped::Waits,
                ReadState::Done(bytes) => dump.go_to(look.list(bytes, part, each), tier),
                ReadState::Failed => {
                    tier.note_failure(read.device);
                    tier.counters.dump_bytes_skipped.fetch_add(read.len as u64, Relaxed);
                    // What follows is found again by its CRCs.
                    dump.go_to(part.start + read.len, tier);
                }
                ReadState::Late => {
                    tier.note_failure(read.device);
                    dump.skip(tier);
                }
                ReadState::Refused => dump.skip(tier),
            },
        }
        FlashDumped::More
    }
}

impl FlashDump {
    /// Where it goes on; `None`: the round has ended.
    fn position(&mut self, tier: &Tier) -> Option<Position> {
        if self.current.is_none() {
            self.current = self.next_segment(tier);
        }
        self.current
    }

    fn next_segment(&mut self, tier: &Tier) -> Option<Position> {
        let state = lock(&tier.state);
        let left = match &self.round {
            Round::NotBegun => tier.geometry.segments(),
            Round::Full(left) => *left,
            Round::Open(_) => 0,
        };
        if let Some(left) = left.checked_sub(1)
            && let Some(segment) = state.queues.sealed_after(self.passed, &tier.rows)
        {
            self.round = Round::Full(left);
            self.passed = tier.rows[segment as usize].sealed.load(Relaxed);
            return Some(self.begin(segment, tier));
        }
        if !matches!(self.round, Round::Open(_)) {
            self.round =
                Round::Open(state.pieces.open_segments().map(|segment| self.begin(segment, tier)).collect());
        }
        let Round::Open(open) = &mut self.round else { unreachable!("it is now") };
        let next = open.pop();
        if next.is_none() {
            self.round = Round::NotBegun;
        }
        next
    }

    /// The first byte of a segment that has not been listed.
    fn begin(&mut self, segment: u32, tier: &Tier) -> Position {
        let version = tier.rows[segment as usize].version.load(Relaxed);
        let place = self.ends.iter().position(|end| (end.segment, end.version) == (segment, version));
        let end = place.map(|place| self.ends.swap_remove(place));
        end.unwrap_or(Position { segment, version, piece: 0, at: 0 })
    }

    /// Goes on at byte `at` of the piece, or behind it.
    fn go_to(&mut self, at: usize, tier: &Tier) {
        let Some(position) = &mut self.current else { return };
        position.at = at;
        if at >= tier.geometry.piece_bytes() {
            (position.piece, position.at) = (position.piece + 1, 0);
        }
    }

    /// Leaves the segment: there is no more in it now.
    fn leave(&mut self, tier: &Tier) {
        let Some(position) = self.current.take() else { return };
        if matches!(self.round, Round::Open(_)) {
            self.ends.retain(|end| tier.has_version(end.segment, end.version));
            self.ends.push(position);
        }
    }

    /// Leaves what cannot be read: the piece of an open segment, or all of a full one.
    fn skip(&mut self, tier: &Tier) {
        let Some(position) = &mut self.current else { return };
        let pieces = if matches!(self.round, Round::Open(_)) {
            1
        } else {
            tier.geometry.pieces_per_segment() - position.piece
        };
        let bytes = pieces as usize * tier.geometry.piece_bytes() - position.at;
        tier.counters.dump_bytes_skipped.fetch_add(bytes as u64, Relaxed);
        (position.piece, position.at) = (position.piece + pieces, 0);
    }
}

impl Tier {
    /// The next bytes to be looked at. Those of a piece in memory are put into `copy`.
    fn chunk(&self, position: &Position, copy: &mut Vec<u8>) -> Chunk {
        let &Position { segment, version, piece: number, at } = position;
        let objects = self.rows[segment as usize].objects.load(Relaxed);
        if !self.has_version(segment, version) || objects == 0 || number >= self.geometry.pieces_per_segment()
        {
            return Chunk::Nothing;
        }
        let (piece, start) = (PieceId { segment, number }, at - at % FLASH_PAGE);
        let state = lock(&self.state);
        if let Some(records) = state.pieces.records_of(piece) {
            if at >= records.len() {
                return Chunk::Nothing;
            }
            copy.clear();
            copy.extend_from_slice(&records[start..records.len().min(start + READ_BYTES)]);
            return Chunk::Copied(Part { start, filled: records.len() });
        }
        if state.pieces.is_ahead(piece) {
            return Chunk::Nothing;
        }
        drop(state);
        let filled = self.geometry.piece_bytes();
        let range = self.geometry.range(piece, start..filled.min(start + READ_BYTES));
        if self.is_off(range.device) {
            return Chunk::DeviceOff;
        }
        Chunk::Read(FlashRead::of_pages(range, version), Part { start, filled })
    }

    /// Whether a segment was not filled again meanwhile.
    fn has_version(&self, segment: u32, version: u64) -> bool {
        self.rows[segment as usize].version.load(Relaxed) == version
    }
}

/// A look at the bytes at a position.
struct Look<'l> {
    handle: &'l Handle,
    tier: &'l Tier,
    position: Position,
    now: u32,
}

impl Look<'_> {
    /// Lists the records in these bytes. Returns where in the piece the next ones begin.
    fn list(&self, bytes: &[u8], part: Part, each: &mut dyn FnMut(&Dumped<'_>)) -> usize {
        let seed = self.tier.seed_of(self.position.version);
        let mut at = self.position.at - part.start;
        while at < bytes.len() {
            let (rest, in_piece) = (&bytes[at..], part.start + at);
            let Some((record, value_len, len)) = self.beginning(rest, in_piece, part) else {
                at += RECORD_ALIGN;
                continue;
            };
            if len <= rest.len() {
                match FlashRecord::read(rest, seed) {
                    Some(record) => {
                        self.show(&record, value_len, len, in_piece, each);
                        at += len;
                    }
                    None => at += RECORD_ALIGN,
                }
            } else if at >= FLASH_PAGE {
                // The next bytes begin with its page.
                return in_piece;
            } else if self.handle.store.hash.of(record.key) == record.hash {
                // Longer than what is read at once. Its value is passed over, and so its CRC is not checked. But the slot refers to it, and
                // the hash of its key depends on a secret.
                self.show(&record, value_len, len, in_piece, each);
                return in_piece + len;
            } else {
                at += RECORD_ALIGN;
            }
        }
        part.start + at
    }

    /// What may be a record that begins here: it without its value, and the lengths of that and of all of it. A value may have what looks like
    /// records. So that each does not cost the CRC of many bytes, or a read, a long one is none if no slot refers to it.
    fn beginning<'r>(
        &self,
        bytes: &'r [u8],
        in_piece: usize,
        part: Part,
    ) -> Option<(FlashRecord<'r>, usize, usize)> {
        let (record, value_len, len) = FlashRecord::beginning(bytes)?;
        let is_short = len <= bytes.len() && len <= FLASH_PAGE;
        let may_be = is_short || in_piece + len <= part.filled && self.is_live(&record, len, in_piece);
        may_be.then_some((record, value_len, len))
    }

    /// Whether the slot of its key refers to this record, and it is not dead.
    fn is_live(&self, record: &FlashRecord<'_>, len: usize, in_piece: usize) -> bool {
        let Position { segment, version, piece: number, .. } = self.position;
        let place = self.tier.geometry.place(PieceId { segment, number }, in_piece, len, record.hash);
        let record = FlashRecord { at: in_piece % FLASH_PAGE, ..*record };
        let store = &self.handle.store;
        let locked = store.index.lock(record.hash);
        store.unchanged(&locked, record.hash, place, version, &record).is_some()
            && store.why_dead_on_flash(&record, self.now).is_none()
    }

    fn show(
        &self,
        record: &FlashRecord<'_>,
        value_len: usize,
        len: usize,
        in_piece: usize,
        each: &mut dyn FnMut(&Dumped<'_>),
    ) {
        if !self.is_live(record, len, in_piece) {
            return;
        }
        let Position { segment, piece, .. } = self.position;
        let offset = u64::from(piece) * self.tier.geometry.piece_bytes() as u64 + in_piece as u64;
        each(&Dumped {
            key: record.key,
            key_is_binary: record.header.bits & BINARY_KEY != 0,
            expiry: record.header.expiry,
            last_access: record.header.last_access,
            cas: record.header.cas.unique(self.handle.store.first_cas),
            fetched: record.header.bits & FETCHED != 0,
            value_len,
            flags: record.header.flags,
            on_flash: Some(DumpedPlace { page: segment, offset }),
        });
    }
}
