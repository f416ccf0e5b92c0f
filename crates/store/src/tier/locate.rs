//! Finding items that may lie on flash.
//!
//! Before a command the caller asks for its item ([`Handle::locate`]). If the item is on flash the answer is that a read comes
//! first, which the caller orders; when he asks again he has the bytes. For a plain read the item is used as it lies in them;
//! for all else it is moved to memory. Then the command finds it as any other one.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::FLASH_PAGE;
use super::record::{FlashRecord, PageContent};
use crate::handle::Handle;
use crate::hash::Key;
use crate::index::{FlashPlace, PAGES_PER_RECORD_MAX, share_slot};
use crate::record::{Place, STALE};
use crate::request::Miss;
use crate::shard::Locked;
use crate::store::Store;
use crate::sync::lock;

/// What a command does with the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashUse {
    /// It reads the value, and changes nothing but the marks of a use.
    Value,
    /// It changes the item, or asks for what only an item in memory has.
    Item,
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
    /// There are too many, or it takes too long: a miss, although the item is there.
    Refused,
}

/// A read to be done. As long as it lives, the segment that it reads stays as it is.
#[derive(Debug)]
pub struct FlashRead {
    store: Arc<Store>,
    place: FlashPlace,
    /// The number of the device.
    pub device: usize,
    /// Where to read, in bytes from the beginning of the device: a multiple of 4096.
    pub position: u64,
    /// How many bytes: a multiple of 4096.
    pub len: usize,
}

impl FlashRead {
    /// The longest read, in bytes.
    pub const LEN_MAX: usize = PAGES_PER_RECORD_MAX * FLASH_PAGE;

    /// Whether this is a read of the same place, for the same key.
    pub fn is_same(&self, other: &FlashRead) -> bool {
        self.place == other.place
    }
}

impl Drop for FlashRead {
    fn drop(&mut self) {
        if let Some(tier) = &self.store.tier {
            tier.rows[tier.geometry.segment_at(self.place) as usize].end_read();
        }
    }
}

/// An item on flash that the next operation of a handle may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) hash: u64,
    pub(crate) place: FlashPlace,
    /// Where a copy of its record lies.
    pub(crate) at: usize,
}

/// Reads for one command: others may change the item again and again, and strangers may share its tag.
const ROUNDS_MAX: usize = 4;

/// Where an item may be.
enum Candidate {
    /// In memory, or nowhere.
    NotOnFlash,
    /// In a piece in memory: its bytes are in the handle's buffer.
    Copied(FlashPlace),
    Read(FlashRead),
}

/// Result of a look at the bytes of a place.
pub(super) enum Taken {
    Used,
    /// Another key has the same tag.
    Another,
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
        self.staged = None;
        let mut passed = [None; ROUNDS_MAX];
        for round in 0..ROUNDS_MAX {
            let (place, taken) = match self.candidate(key, &passed[..round]) {
                Candidate::NotOnFlash => return Located::Ready,
                Candidate::Copied(place) => {
                    let bytes = std::mem::take(&mut self.scratch);
                    let taken = self.take(key, place, &bytes, usage, now);
                    self.scratch = bytes;
                    (place, taken)
                }
                Candidate::Read(read) => {
                    let place = read.place;
                    match reads.state(key.hash, read) {
                        ReadState::Pending => return Located::Waits,
                        ReadState::Refused => {
                            self.count(|counters| &counters.aborted);
                            return Located::Ready;
                        }
                        ReadState::Failed => (place, self.give_up(key, place)),
                        ReadState::Done(bytes) => (place, self.take(key, place, bytes, usage, now)),
                    }
                }
            };
            match taken {
                Taken::Used => return Located::Ready,
                Taken::Another => passed[round] = Some(place),
                Taken::Gone => {}
            }
        }
        Located::Ready
    }

    /// The read that a command for this key would wait for, if any: to be begun ahead of its turn.
    pub fn read_ahead(&mut self, key: &Key<'_>) -> Option<FlashRead> {
        self.store.tier.as_ref()?;
        match self.candidate(key, &[]) {
            Candidate::Read(read) => Some(read),
            _ => None,
        }
    }

    fn candidate(&mut self, key: &Key<'_>, passed: &[Option<FlashPlace>]) -> Candidate {
        let store = &*self.store;
        let Some(tier) = &store.tier else { return Candidate::NotOnFlash };
        let locked = store.index.lock(key.hash);
        let is_key = |at: usize| store.segments.record(at).key() == key.bytes;
        if store.index.find(&locked, key.hash, is_key).is_some() {
            return Candidate::NotOnFlash;
        }
        let is_new = |place| !passed.contains(&Some(place));
        let Some(slot) = store.index.find_on_flash(&locked, key.hash, is_new) else {
            return Candidate::NotOnFlash;
        };
        let place = slot.place();
        let (piece, bytes) = tier.geometry.in_piece(place);
        let state = lock(&tier.state);
        if let Some(in_memory) = state.pieces.find(piece) {
            self.scratch.clear();
            self.scratch.extend_from_slice(&in_memory[bytes]);
            return Candidate::Copied(place);
        }
        drop(state);
        // Under the shard's lock: the slot is still there, so its segment is not emptied yet.
        tier.rows[piece.segment as usize].begin_read();
        let range = tier.geometry.range(piece, bytes);
        let store = Arc::clone(&self.store);
        Candidate::Read(FlashRead {
            store,
            place,
            device: range.device,
            position: range.position,
            len: range.len,
        })
    }

    /// Uses the record of a key in these bytes.
    fn take(&mut self, key: &Key<'_>, place: FlashPlace, bytes: &[u8], usage: FlashUse, now: u32) -> Taken {
        let store = &*self.store;
        let Some(tier) = &store.tier else { return Taken::Gone };
        let seed = tier.seed(tier.geometry.segment_at(place));
        let content = FlashRecord::find(bytes, key.bytes, key.hash, seed, |hash| share_slot(hash, key.hash));
        let record = match content {
            PageContent::Record(record) => record,
            PageContent::Another => return Taken::Another,
            PageContent::Damaged => {
                self.count(|counters| &counters.damaged);
                return self.give_up(key, place);
            }
        };
        let mut locked = store.index.lock(key.hash);
        let Some(slot) = store.index.find_on_flash(&locked, key.hash, |other| other == place) else {
            return Taken::Gone;
        };
        if let Some(miss) = store.why_dead_on_flash(&record, now) {
            self.miss = miss;
            store.unlink_flash(&mut locked, slot);
            return Taken::Gone;
        }
        let is_hot = slot.frequency() > 0 && self.recaches.is_due(tier.settings.get().recache_rate);
        let moves = usage == FlashUse::Item || record.header.bits & STALE != 0 || is_hot;
        drop(locked);
        tier.counters.read(record.len());
        if !moves && self.stage(key, place, &record) {
            return Taken::Used;
        }
        if is_hot {
            self.count(|counters| &counters.recached);
        }
        self.promote(key, place, &record, now)
    }

    /// Copies a record to where only this handle's next operation finds it. False if there is no room for that.
    fn stage(&mut self, key: &Key<'_>, place: FlashPlace, record: &FlashRecord<'_>) -> bool {
        let size = record.header.record_size(record.key.len(), record.value.len());
        let Some(at) = self.store.segments.staging(self.number, size) else { return false };
        // Nobody has an item of this handle: it would borrow the handle.
        Place::write(self.store.segments.place(at, size), &record.header, record.key, record.value);
        self.staged = Some(Staged { hash: key.hash, place, at });
        true
    }

    /// Removes an item that cannot be read.
    fn give_up(&mut self, key: &Key<'_>, place: FlashPlace) -> Taken {
        let store = &*self.store;
        let mut locked = store.index.lock(key.hash);
        if let Some(slot) = store.index.find_on_flash(&locked, key.hash, |other| other == place) {
            store.unlink_flash(&mut locked, slot);
            self.count(|counters| &counters.lost);
            self.count(|counters| &counters.missed);
        }
        Taken::Gone
    }

    fn count(&self, counter: impl Fn(&super::FlashCounters) -> &std::sync::atomic::AtomicU64) {
        if let Some(tier) = &self.store.tier {
            counter(&tier.counters).fetch_add(1, Relaxed);
        }
    }
}

impl Store {
    /// Why an item on flash is dead; `None` for a live one.
    pub(super) fn why_dead_on_flash(&self, record: &FlashRecord<'_>, now: u32) -> Option<Miss> {
        let expiry = record.header.expiry;
        if expiry != 0 && expiry <= now {
            return Some(Miss::Expired);
        }
        self.segments.is_flushed_through(record.sequence).then_some(Miss::Flushed)
    }

    /// The slot of the item that [`Handle::locate`] has staged, if it is still the key's.
    pub(crate) fn staged_slot(
        &self,
        lock: &Locked<'_>,
        staged: Option<Staged>,
        hash: u64,
    ) -> Option<(crate::index::Slot, usize)> {
        let staged = staged.filter(|staged| staged.hash == hash)?;
        let slot = self.index.find_on_flash(lock, hash, |place| place == staged.place)?;
        Some((slot, staged.at))
    }
}

/// Which uses of items on flash bring the item back to memory.
#[derive(Debug, Default)]
pub(crate) struct Recaches {
    uses: u32,
}

impl Recaches {
    /// Counts a use; one in `rate` is due.
    fn is_due(&mut self, rate: u32) -> bool {
        self.uses = self.uses.wrapping_add(1);
        rate != 0 && self.uses.is_multiple_of(rate)
    }
}
