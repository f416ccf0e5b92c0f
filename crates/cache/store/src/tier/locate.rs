//! Finding items that may lie on flash.
//!
//! Before a command the caller asks for its item ([`Handle::locate`]). If the item is on flash the answer is that a read comes
//! first, which the caller orders; when he asks again he has the bytes. For a plain read the item is used as it lies in them;
//! for a deletion it stays where it is; for all else it is moved to memory. Then the command finds it as any other one.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::staged::Staged;
use crate::handle::Handle;
use crate::index::hash::Key;
use crate::index::{FlashPlace, PAGES_PER_RECORD_MAX, Slot, share_slot};
use crate::operations::request::Miss;
use crate::segment::record::{LARGE, Place, STALE};
use crate::shard::Locked;
use crate::store::Store;
use crate::sync::lock;
use crate::tier::layout::geometry::{FLASH_PAGE, FlashRange};
use crate::tier::layout::record::{FlashRecord, PageContent};
use crate::tier::statistics::counters::FlashCounters;

/// What a command does with the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashUse {
    /// It reads the value, and changes nothing but the marks of a use.
    Value,
    /// It changes the item, or asks for what only an item in memory has.
    Item,
    /// It removes the item, and says whether there was one.
    Removal,
}

/// Result of [`Handle::locate`] for the deletion that follows at once.
#[derive(Debug)]
pub(crate) struct SoughtItem {
    pub(crate) hash: u64,
    /// Reads that brought items of other keys, whose slots are not this key's.
    pub(crate) others: [Option<FlashRead>; ROUNDS_MAX],
    /// The length of the value on flash; 0 if there is none.
    pub(crate) len: usize,
}

/// Whether a command can be executed.
#[derive(Debug, PartialEq, Eq)]
pub enum Located {
    /// Yes, now: the item is found, or there is none.
    Ready,
    /// After a read.
    Waits,
}

/// The reads of a caller.
pub trait FlashReads {
    /// What has become of a read for a key with this hash. One that is not known is to be begun.
    fn state(&mut self, hash: u64, read: FlashRead) -> ReadState<'_>;
}

/// What has become of a read.
#[derive(Debug)]
pub enum ReadState<'b> {
    /// It is in flight.
    Pending,
    /// These bytes.
    Done(&'b [u8]),
    /// It has failed: the item is lost.
    Failed,
    /// There are too many: a miss, although the item is there.
    Refused,
    /// It takes too long: a miss, too.
    Late,
}

/// A read to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashRead {
    pub(super) place: FlashPlace,
    /// Of the segment: if it is another one afterwards, the segment has been filled again meanwhile.
    pub(super) version: u64,
    /// The number of the device.
    pub device: usize,
    /// Where to read, in bytes from the beginning of the device: a multiple of 4096.
    pub position: u64,
    /// How many bytes: a multiple of 4096.
    pub len: usize,
}

impl FlashRead {
    /// The longest read of an item without a large value, in bytes.
    pub const SHORT_LEN_MAX: usize = PAGES_PER_RECORD_MAX * FLASH_PAGE;

    /// Whether this read brings all that the other one would bring, for the same item.
    pub fn covers(&self, other: &FlashRead) -> bool {
        let shortened = FlashRead { len: other.len, ..*self };
        shortened == *other && self.len >= other.len
    }

    /// A read of pages, whatever lies there.
    pub(super) fn of_pages(range: FlashRange, version: u64) -> FlashRead {
        let FlashRange { device, position, len } = range;
        FlashRead {
            place: FlashPlace::new(1 + position / FLASH_PAGE as u64, 1, 0),
            version,
            device,
            position,
            len,
        }
    }
}

/// Reads for one command: others may change the item again and again, and strangers may share its tag.
const ROUNDS_MAX: usize = 4;

/// Where an item may be.
enum Candidate {
    /// In memory, or nowhere.
    NotOnFlash,
    /// In a piece in memory: its bytes are in the handle's buffer.
    Copied(FlashRead),
    Read(FlashRead),
    /// On a device that is left alone: a miss.
    DeviceOff,
}

/// Result of a look at the bytes of a place.
pub(super) enum Taken {
    Used,
    /// It is there, with so many bytes, and stays where it is.
    Seen(usize),
    /// Another key has the same tag.
    Another,
    /// It has so many bytes, which are to be read first.
    Longer(usize),
    /// The item has been moved or removed, or it was dead, or damaged.
    Gone,
}

impl Handle {
    /// Makes sure that the command that follows at once finds the item of this key, wherever it is. Without a tier there is
    /// nothing to do.
    pub fn locate(
        &mut self,
        key: &Key<'_>,
        usage: FlashUse,
        reads: &mut dyn FlashReads,
        now: u32,
    ) -> Located {
        if self.store.tier.is_none() {
            return Located::Ready;
        }
        self.enter(now);
        self.unstage();
        self.sought = None;
        let (mut passed, mut whole) = ([None; ROUNDS_MAX], None);
        for round in 0..ROUNDS_MAX {
            let (read, taken) = match self.candidate(key, &passed[..round], whole) {
                Candidate::NotOnFlash => return self.found(key, usage, passed, 0),
                Candidate::DeviceOff => return self.miss_on_flash(key, usage),
                Candidate::Copied(read) => {
                    let bytes = std::mem::take(&mut self.scratch);
                    let taken = self.take(key, &read, &bytes, usage, now);
                    self.scratch = bytes;
                    (read, taken)
                }
                Candidate::Read(read) => match reads.state(key.hash, read) {
                    ReadState::Pending => return Located::Waits,
                    ReadState::Refused => return self.miss_on_flash(key, usage),
                    ReadState::Late => {
                        self.note_failure(read.place);
                        return self.miss_on_flash(key, usage);
                    }
                    ReadState::Failed => {
                        self.note_failure(read.place);
                        (read, self.give_up(key, &read))
                    }
                    ReadState::Done(bytes) => (read, self.take(key, &read, bytes, usage, now)),
                },
            };
            match taken {
                Taken::Used => return Located::Ready,
                Taken::Seen(len) => return self.found(key, usage, passed, len),
                Taken::Another => passed[round] = Some(read),
                Taken::Longer(len) => whole = Some((read.place, len)),
                Taken::Gone => {}
            }
        }
        self.found(key, usage, passed, 0)
    }

    /// All slots of the key's tag have been looked at, up to that of its item.
    fn found(
        &mut self,
        key: &Key<'_>,
        usage: FlashUse,
        others: [Option<FlashRead>; ROUNDS_MAX],
        len: usize,
    ) -> Located {
        if usage == FlashUse::Removal {
            self.sought = Some(SoughtItem { hash: key.hash, others, len });
        }
        Located::Ready
    }

    /// The command misses the item, although it is there. One that would change or invalidate it takes it away: whoever is told that there
    /// is nothing to be invalidated must not find it afterwards. A deletion does so itself, unread.
    fn miss_on_flash(&mut self, key: &Key<'_>, usage: FlashUse) -> Located {
        self.count(|counters| &counters.aborted);
        if usage == FlashUse::Item {
            let store = &*self.store;
            store.drop_from_flash(&mut store.index.lock(key.hash), key.hash);
        }
        Located::Ready
    }

    /// The read that a command for this key would wait for, if any: to be begun ahead of its turn.
    pub fn read_ahead(&mut self, key: &Key<'_>) -> Option<FlashRead> {
        self.store.tier.as_ref()?;
        match self.candidate(key, &[], None) {
            Candidate::Read(read) => Some(read),
            _ => None,
        }
    }

    /// `whole` is the place of a long record, and its length.
    fn candidate(
        &mut self,
        key: &Key<'_>,
        passed: &[Option<FlashRead>],
        whole: Option<(FlashPlace, usize)>,
    ) -> Candidate {
        let store = &*self.store;
        let Some(tier) = &store.tier else { return Candidate::NotOnFlash };
        let locked = store.index.lock(key.hash);
        let is_key = |at: usize| store.segments.record(at).key() == key.bytes;
        if store.index.find(&locked, key.hash, is_key).is_some() {
            return Candidate::NotOnFlash;
        }
        let is_new = |place| passed.iter().flatten().all(|read| read.place != place);
        let Some(slot) = store.index.find_on_flash(&locked, key.hash, is_new) else {
            return Candidate::NotOnFlash;
        };
        let place = slot.place();
        let (piece, bytes) = match whole.filter(|(whole, _)| *whole == place) {
            Some((_, len)) => tier.geometry.all_in_piece(place, len),
            None => tier.geometry.in_piece(place),
        };
        // Under the shard's lock: the slot is still there, so its segment is not emptied yet.
        let row = &tier.rows[piece.segment as usize];
        let version = row.version.load(Relaxed);
        let range = tier.geometry.range(piece, bytes.clone());
        let read =
            FlashRead { place, version, device: range.device, position: range.position, len: range.len };
        if row.may_be_in_memory()
            && let Some(in_memory) = lock(&tier.state).pieces.find(piece)
        {
            self.scratch.clear();
            self.scratch.extend_from_slice(&in_memory[bytes]);
            return Candidate::Copied(read);
        }
        if tier.is_off(range.device) { Candidate::DeviceOff } else { Candidate::Read(read) }
    }

    /// Uses the record of a key in these bytes.
    fn take(&mut self, key: &Key<'_>, read: &FlashRead, bytes: &[u8], usage: FlashUse, now: u32) -> Taken {
        let store = &*self.store;
        let Some(tier) = &store.tier else { return Taken::Gone };
        let place = read.place;
        let seed = tier.seed_of(read.version);
        let has_tag = |hash| share_slot(hash, key.hash);
        let content = FlashRecord::find(bytes, key.bytes, key.hash, seed, place.is_long(), has_tag);
        let record = match content {
            PageContent::Record(record) => record,
            PageContent::Another => return Taken::Another,
            PageContent::Beginning(len) => return Taken::Longer(len),
            PageContent::Damaged => {
                self.count(|counters| &counters.damaged);
                return self.give_up(key, read);
            }
        };
        let mut locked = store.index.lock(key.hash);
        let Some(slot) = store.unchanged(&locked, key.hash, place, read.version, &record) else {
            return Taken::Gone;
        };
        if let Some(miss) = store.why_dead_on_flash(&record, now) {
            self.miss = miss;
            store.unlink_flash(&mut locked, slot);
            return Taken::Gone;
        }
        if usage == FlashUse::Removal {
            drop(locked);
            tier.counters.read(record.len());
            return Taken::Seen(record.value.len());
        }
        let is_hot = slot.frequency() > 0 && self.recaches.is_due(tier.settings.get().recache_rate);
        let has_place = store.segments.staging(self.number, 0).is_some();
        let moves = usage == FlashUse::Item || record.header.bits & STALE != 0 || is_hot || !has_place;
        drop(locked);
        tier.counters.read(record.len());
        if !moves {
            return self.stage(key, place, &record, now);
        }
        if is_hot {
            self.count(|counters| &counters.recached);
        }
        self.promote(key, read, &record, now)
    }

    /// Copies a record to where only this handle's next operation finds it. Without memory for that, the operation misses it.
    fn stage(&mut self, key: &Key<'_>, place: FlashPlace, record: &FlashRecord<'_>, now: u32) -> Taken {
        let number;
        let mut value = record.value;
        let mut large = None;
        if record.header.bits & LARGE != 0 {
            let Ok(mut memory) = self.large_value(value.len(), now) else {
                self.count(|counters| &counters.no_memory);
                return Taken::Used;
            };
            memory.as_mut().copy_from_slice(value);
            let kept = self.store.index.lock(key.hash).keep_large(Arc::new(memory));
            number = kept.to_le_bytes();
            (value, large) = (&number, Some(kept));
        }
        let size = record.header.record_size(record.key.len(), value.len());
        let at = self.store.segments.staging(self.number, size);
        if let Some(at) = at {
            // Nobody has an item of this handle: it would borrow the handle.
            Place::write(self.store.segments.place(at, size), &record.header, record.key, value);
        }
        self.staged = Some(Staged { hash: key.hash, place, at, large });
        Taken::Used
    }

    /// Gives back what [`Handle::locate`] has staged.
    pub(crate) fn unstage(&mut self) {
        if let Some(Staged { hash, large: Some(number), .. }) = self.staged.take() {
            self.store.index.lock(hash).drop_large(number);
        }
    }

    /// Removes an item that cannot be read.
    fn give_up(&mut self, key: &Key<'_>, read: &FlashRead) -> Taken {
        let store = &*self.store;
        let mut locked = store.index.lock(key.hash);
        if let Some(slot) = store.slot_of(&locked, key.hash, read.place, read.version) {
            store.unlink_flash(&mut locked, slot);
            self.count(|counters| &counters.lost);
            self.count(|counters| &counters.missed);
        }
        Taken::Gone
    }

    /// Takes note that the device of a place has failed.
    fn note_failure(&self, place: FlashPlace) {
        if let Some(tier) = &self.store.tier {
            tier.note_failure(tier.geometry.device_of(tier.geometry.segment_at(place)));
        }
    }

    fn count(&self, counter: impl Fn(&FlashCounters) -> &std::sync::atomic::AtomicU64) {
        if let Some(tier) = &self.store.tier {
            counter(&tier.counters).fetch_add(1, Relaxed);
        }
    }
}

impl Store {
    /// The slot of a place that has been read, if it is still the same and its segment was not filled again meanwhile.
    fn slot_of(&self, lock: &Locked<'_>, hash: u64, place: FlashPlace, version: u64) -> Option<Slot> {
        let tier = self.tier.as_ref()?;
        let slot = self.index.find_on_flash(lock, hash, |other| other == place)?;
        let segment = tier.geometry.segment_at(place) as usize;
        (tier.rows[segment].version.load(Relaxed) == version).then_some(slot)
    }

    /// The same, and that slot means this very record. In a piece that is still filled, the item may have been moved away and come back
    /// to the same page.
    pub(super) fn unchanged(
        &self,
        lock: &Locked<'_>,
        hash: u64,
        place: FlashPlace,
        version: u64,
        record: &FlashRecord<'_>,
    ) -> Option<Slot> {
        let (slot, tier) = (self.slot_of(lock, hash, place, version)?, self.tier.as_ref()?);
        let (piece, bytes) = tier.geometry.in_piece(place);
        if !tier.rows[piece.segment as usize].may_be_in_memory() {
            return Some(slot);
        }
        let state = crate::sync::lock(&tier.state);
        let is_there = |piece: &[u8]| record.is_at(&piece[bytes.start + record.at..]);
        state.pieces.find(piece).is_none_or(is_there).then_some(slot)
    }

    /// Why an item on flash is dead; `None` for a live one.
    pub(super) fn why_dead_on_flash(&self, record: &FlashRecord<'_>, now: u32) -> Option<Miss> {
        let expiry = record.header.expiry;
        if expiry != 0 && expiry <= now {
            return Some(Miss::Expired);
        }
        self.segments.is_flushed_through(record.sequence).then_some(Miss::Flushed)
    }

    /// Whether this place still holds what a read of another key's item has brought.
    pub(crate) fn is_other(&self, place: FlashPlace, others: &[Option<FlashRead>]) -> bool {
        let Some(tier) = &self.tier else { return false };
        let version = || tier.rows[tier.geometry.segment_at(place) as usize].version.load(Relaxed);
        others.iter().flatten().any(|read| read.place == place && read.version == version())
    }

    /// The slot of the item that [`Handle::locate`] has staged, if it is still the key's.
    pub(crate) fn staged_slot(
        &self,
        lock: &Locked<'_>,
        staged: Option<Staged>,
        hash: u64,
    ) -> Option<(Slot, usize)> {
        let staged = staged.filter(|staged| staged.hash == hash)?;
        let slot = self.index.find_on_flash(lock, hash, |place| place == staged.place)?;
        Some((slot, staged.at?))
    }
}
