//! Items on flash that a handle has found and not used yet.

use crate::index::FlashPlace;

/// An item on flash that the next operation of a handle may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) hash: u64,
    pub(crate) place: FlashPlace,
    /// Where a copy of its record lies; `None`: the handle has no place for one.
    pub(super) at: Option<usize>,
    /// The number of its large value among those of the shard, which belongs to nobody else.
    pub(super) large: Option<u32>,
}

/// Which uses of items on flash bring the item back to memory.
#[derive(Debug, Default)]
pub(crate) struct Recaches {
    uses: u32,
}

impl Recaches {
    /// Counts a use; one in `rate` is due.
    pub(super) fn is_due(&mut self, rate: u32) -> bool {
        self.uses = self.uses.wrapping_add(1);
        rate != 0 && self.uses.is_multiple_of(rate)
    }
}
