//! Large values that are being received: charged as their bytes arrive, never more than a share of the memory limit.
//!
//! Who announces a value gets address space for all of it, and memory in steps, each when the one before is full. Room
//! for a step is made in pieces that keep others waiting for less than a millisecond or two. Together, values that are
//! being received announce no more than their share; who comes then has to wait, which costs nobody anything.

use self::uploads::UploadShare;
use crate::error::Error;
use crate::handle::Handle;
use crate::large::{LargeValue, charge_of};
use crate::reclaim::state::{Pressure, Spared, Wanted};
use crate::store::Store;

pub(crate) mod uploads;

/// What is charged at a time: some tens of microseconds to receive, and as long to evict for.
const STEP: u64 = 128 * 1024;
/// Values that are being received may announce one part in so many of the memory limit, or one of the largest items.
const UPLOADS_SHARE: u64 = 4;
/// No item, however large items may be, has more than one part in so many of the memory limit: `-I` is at most half of it
/// at the start, and the limit can be lowered.
const VALUE_SHARE: u64 = 2;
/// A value that is being received.
#[derive(Debug)]
pub struct PartialValue {
    value: LargeValue,
    filled: usize,
    share: UploadShare,
    pressure: Pressure,
    /// The item that it is joined to.
    spared: Option<Spared>,
}

impl PartialValue {
    /// Where the next bytes belong. Empty if there is no memory for them yet, or if all are there.
    pub fn room(&mut self) -> &mut [u8] {
        let charged = self.value.charged_len();
        &mut self.value.as_mut()[self.filled..charged]
    }

    /// The first `count` bytes of the room have been filled.
    pub fn fill(&mut self, count: usize) {
        self.filled += count;
        assert!(self.filled <= self.value.charged_len(), "more was filled than there was room for");
    }

    /// Bytes that are there.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Whether all bytes are there.
    pub fn is_full(&self) -> bool {
        self.filled == self.value.len()
    }

    /// The complete value, to be stored.
    ///
    /// Panics unless all bytes are there.
    pub fn into_value(self) -> LargeValue {
        assert!(self.is_full(), "bytes are missing");
        self.value
    }
}

impl Handle {
    /// Begins a value that is going to be received. `None` if others that are being received have the whole share:
    /// try again later. Nothing is charged or evicted yet; an error says that there will never be room.
    pub fn begin_value(&mut self, len: usize, now: u32) -> Result<Option<PartialValue>, Error> {
        self.begin_value_beside(len, None, now)
    }

    /// The same for a value for which an item must not be evicted.
    pub(crate) fn begin_value_beside(
        &mut self,
        len: usize,
        spared: Option<Spared>,
        now: u32,
    ) -> Result<Option<PartialValue>, Error> {
        self.enter(now);
        let store = &*self.store;
        if len as u64 > store.item_size_max {
            return Err(Error::TooLarge);
        }
        let (bytes, uploads) = (charge_of(len), &store.uploads);
        let joined = spared.map_or(0, |spared| spared.charge);
        let joins_max = store.joins_max();
        if bytes > store.value_max() || bytes + joined > joins_max {
            return Err(Error::OutOfMemory);
        }
        let most = if spared.is_some() { joins_max } else { store.uploads_max() };
        let Some(share) = uploads.announce(bytes, joined, most) else {
            uploads.note_wanted(now);
            return Ok(None);
        };
        let outstanding = uploads.outstanding();
        if !store.may_be_had(&Wanted::of(outstanding, spared)) {
            uploads.note_wanted(now);
            // Others may need less than they have announced, and what they complete can be evicted.
            return if outstanding > bytes { Ok(None) } else { Err(Error::OutOfMemory) };
        }
        let wanted = Wanted::of(0, spared);
        let value = store.reclaim_for(&self.counters, now, &wanted, || store.large.place(len))?;
        Ok(Some(PartialValue { value, filled: 0, share, pressure: Pressure::default(), spared }))
    }

    /// Makes room for the next bytes. False if there is none yet: call again after others have had their turn. An error
    /// says that the limit has been lowered so far that there will never be room.
    pub fn extend_value(&mut self, partial: &mut PartialValue, now: u32) -> Result<bool, Error> {
        self.enter(now);
        let store = &*self.store;
        let charge = charge_of(partial.value.len());
        // Only after the limit was lowered: whoever goes on first gives way, until the others have their share.
        if charge > store.value_max() || store.uploads.announced() > store.joins_max() {
            return Err(Error::OutOfMemory);
        }
        let missing = charge - partial.value.charge();
        let bytes = missing.min(STEP);
        if !store.charge(bytes) {
            let records = std::mem::take(&mut self.records_left);
            if records == 0 {
                return Ok(false);
            }
            let wanted = Wanted::of(bytes, partial.spared);
            self.records_left = records
                - store.reclaim_towards(&self.counters, now, &wanted, &mut partial.pressure, records)?;
            if !store.charge(bytes) {
                return Ok(false);
            }
        }
        partial.pressure = Pressure::default();
        partial.value.extend(bytes);
        partial.share.note_charged(bytes);
        Ok(true)
    }

    /// Whether somebody waits, or did a moment ago, for what values that are being received may take together.
    pub fn uploads_are_wanted(&self, now: u32) -> bool {
        self.store.uploads.is_wanted(now)
    }
}

impl Store {
    /// What one value may have of the limit.
    fn value_max(&self) -> u64 {
        self.budget.limit() / VALUE_SHARE
    }

    /// What values that are being received may have together.
    fn uploads_max(&self) -> u64 {
        let largest = charge_of(self.item_size_max as usize);
        (self.budget.limit() / UPLOADS_SHARE).max(largest.min(self.value_max()))
    }

    /// The same where values are joined, which counts what they are joined to: a quarter of the limit is left to others.
    fn joins_max(&self) -> u64 {
        self.budget.limit() / 4 * 3
    }
}
