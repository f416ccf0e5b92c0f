//! Large values that are being received: charged as their bytes arrive, within a share of the memory limit.
//!
//! An announced value gets address space for all of it, and memory in steps, each when the one before is
//! full. Room for a step is made in pieces that delay other requests by less than a millisecond or two.
//! Together, values that are being received announce at most their share; beyond it a new one has to wait,
//! which costs the other requests nothing.

use self::uploads::UploadShare;
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::large::{LargeValue, charge_max, run_len};
use crate::reclaim::state::{ReclaimProgress, Spared, Wanted};
use crate::store::Store;

pub(crate) mod uploads;

/// Bytes charged at a time: some tens of microseconds to receive, and as long to evict for.
const STEP: u64 = 128 * 1024;
/// Together, values that are being received may announce a quarter of the memory limit, or one item of
/// maximum size.
const UPLOADS_SHARE: u64 = 4;
/// One value takes at most half of the memory limit: `-I` is at most half of it at the start, but the limit
/// can be lowered.
const VALUE_SHARE: u64 = 2;
/// A value that is being received.
#[derive(Debug)]
pub struct PartialValue {
    value: LargeValue,
    filled: usize,
    share: UploadShare,
    progress: ReclaimProgress,
    /// The item that it is joined to, if any.
    spared: Option<Spared>,
}

impl PartialValue {
    /// The memory for the next bytes. Empty if there is none yet, or if the value is complete.
    pub fn room(&mut self) -> &mut [u8] {
        let charged = self.value.charged_len();
        &mut self.value.as_mut()[self.filled..charged]
    }

    /// Marks the first `count` bytes of the room as received.
    pub fn fill(&mut self, count: usize) {
        self.filled += count;
        assert!(self.filled <= self.value.charged_len(), "more was filled than there was room for");
    }

    /// Number of bytes received.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Whether all bytes are received.
    pub fn is_full(&self) -> bool {
        self.filled == self.value.len()
    }

    /// The complete value.
    ///
    /// Panics unless all bytes are there.
    pub fn into_value(self) -> LargeValue {
        assert!(self.is_full(), "bytes are missing");
        self.value
    }
}

impl Handle {
    /// Begins a value that is going to be received. `None` if others that are being received have the whole
    /// share: try again later. Next to nothing is charged or evicted yet; an error means that there will never be
    /// room.
    pub fn begin_value(&mut self, len: usize, now: u32) -> Result<Option<PartialValue>, Error> {
        self.begin_value_beside(len, None, now)
    }

    /// As [`Handle::begin_value`], for a join: the item of `spared` is not evicted for it.
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
        let (bytes, uploads) = (run_len(len) as u64, &store.uploads);
        let joined = spared.map_or(0, |spared| spared.charge);
        let joins_max = store.joins_max();
        if bytes > store.value_max() || bytes + joined > joins_max {
            return Err(Error::OutOfMemory);
        }
        let most = if spared.is_some() { joins_max } else { store.uploads_max() };
        let Some(share) = uploads.announce(bytes, joined, most) else {
            uploads.note_waiting(now);
            return Ok(None);
        };
        let outstanding = uploads.outstanding();
        if !store.leaves_others_room(outstanding) {
            uploads.note_waiting(now);
            return Ok(None);
        }
        if !store.may_make_room(&Wanted::of(outstanding, spared)) {
            uploads.note_waiting(now);
            // Others may need less than they announced, and their complete values can be evicted.
            return if outstanding > bytes { Ok(None) } else { Err(Error::OutOfMemory) };
        }
        // The pages at its ends are charged at once.
        let ends = charge_max(0);
        let place = || store.large.place(len, store.segments.keep());
        let value = store.reclaim_for(&self.counters, now, &Wanted::of(ends, spared), || {
            place().or_else(|| {
                store.segments.trim_to_charge(ends);
                place()
            })
        })?;
        Ok(Some(PartialValue { value, filled: 0, share, progress: ReclaimProgress::default(), spared }))
    }

    /// Makes room for the next bytes. False if there is none yet: call again in the next turn. An error means
    /// that the limit was lowered so far that there will never be room.
    pub fn extend_value(&mut self, partial: &mut PartialValue, now: u32) -> Result<bool, Error> {
        self.enter(now);
        let store = &*self.store;
        // Only after the limit was lowered: values fail in the order in which they continue, until the rest
        // fits the share.
        if run_len(partial.value.len()) as u64 > store.value_max()
            || store.uploads.announced() > store.joins_max()
        {
            return Err(Error::OutOfMemory);
        }
        let bytes = partial.value.missing().min(STEP);
        if !store.charge(bytes) {
            let records = std::mem::take(&mut self.records_left);
            if records == 0 {
                return Ok(false);
            }
            let wanted = Wanted::of(bytes, partial.spared);
            self.records_left = records
                - store.reclaim_towards(&self.counters, now, &wanted, &mut partial.progress, records)?;
            if !store.charge(bytes) {
                return Ok(false);
            }
        }
        partial.progress = ReclaimProgress::default();
        partial.value.extend(bytes);
        partial.share.note_charged(bytes);
        Ok(true)
    }

    /// Whether uploads wait, or waited a moment ago, for the share of values that are being received.
    pub fn uploads_are_waiting(&self, now: u32) -> bool {
        self.store.uploads.is_waited_for(now)
    }
}

impl Store {
    /// The maximum charge of one value.
    fn value_max(&self) -> u64 {
        self.budget.limit() / VALUE_SHARE
    }

    /// The share of values that are being received.
    fn uploads_max(&self) -> u64 {
        let largest = run_len(self.item_size_max as usize) as u64;
        (self.budget.limit() / UPLOADS_SHARE).max(largest.min(self.value_max()))
    }

    /// The share where values are joined, which counts the values that are joined to: a quarter of the limit
    /// is left to other items.
    pub(crate) fn joins_max(&self) -> u64 {
        self.budget.limit() / 4 * 3
    }
}
