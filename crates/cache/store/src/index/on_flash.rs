//! Entries of items on flash: the slot is all that is in memory of such an item.
//!
//! ```text
//! location   span 3 | low bits of the hash 7 | page 30 (0: no place)
//! span       pages of the record: 1, 2, 3, 4, 5, 7 or 9; or more, and its first page says how many
//! ```
//!
//! An index page is split by the low bits of the hashes of its entries. For an item in memory they come from its key; a
//! key on flash would have to be read. So the slot has them, and directories have at most as many levels as there are bits.
//!
//! The slot does not say where in its first page a record begins: who reads the page looks at each place where one can.

use std::sync::atomic::Ordering::Relaxed;

use super::{FLASH, FREQUENCY, FREQUENCY_SHIFT, Index, LOCATION, SLOTS, Slot, home_of};
use crate::shard::Locked;

/// The place of an item on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlashPlace(u64);

/// Levels of a directory with entries of items on flash.
pub(crate) const FLASH_DEPTH_MAX: u32 = 7;
/// Pages of the longest record whose length a slot says.
pub(crate) const PAGES_PER_RECORD_MAX: usize = 9;

const PAGE_BITS: u32 = 30;
const LOW_SHIFT: u32 = PAGE_BITS;
const SPAN_SHIFT: u32 = LOW_SHIFT + FLASH_DEPTH_MAX;
const LOW: u64 = (1 << FLASH_DEPTH_MAX) - 1;
/// Pages to be read, by the number in the slot. The next number is for longer records.
const SPANS: [usize; 7] = [1, 2, 3, 4, 5, 7, PAGES_PER_RECORD_MAX];

impl FlashPlace {
    /// Pages that a slot can name, without page 0.
    pub(crate) const PAGES_MAX: u64 = (1 << PAGE_BITS) - 1;

    /// The place of a record in `pages` pages from `page` on.
    ///
    /// Panics if a slot cannot name it.
    pub(crate) fn new(page: u64, pages: usize, hash: u64) -> FlashPlace {
        assert!((1..=FlashPlace::PAGES_MAX).contains(&page), "a slot can name the page");
        let span = SPANS.iter().position(|span| *span >= pages).unwrap_or(SPANS.len());
        FlashPlace((span as u64) << SPAN_SHIFT | (hash & LOW) << LOW_SHIFT | page)
    }

    /// The first page.
    pub(crate) fn page(self) -> u64 {
        self.0 & FlashPlace::PAGES_MAX
    }

    /// Pages to be read: at least those that the record has, or the first one of a longer record.
    pub(crate) fn pages(self) -> usize {
        SPANS.get((self.0 >> SPAN_SHIFT) as usize).copied().unwrap_or(1)
    }

    /// Whether the first page says how long the record is.
    pub(crate) fn is_long(self) -> bool {
        (self.0 >> SPAN_SHIFT) as usize == SPANS.len()
    }

    pub(super) fn low_bits(self) -> u64 {
        self.0 >> LOW_SHIFT & LOW
    }
}

pub(super) fn share_low_bits(one: u64, other: u64) -> bool {
    one & LOW == other & LOW
}

impl Slot {
    #[inline]
    pub(crate) fn is_on_flash(self) -> bool {
        self.value & FLASH != 0
    }

    /// The item's place on flash, where it must be.
    pub(crate) fn place(self) -> FlashPlace {
        debug_assert!(self.is_on_flash(), "it has a location in memory");
        FlashPlace(self.value & LOCATION)
    }
}

impl Index {
    /// The slot of this hash whose place on flash is wanted. Another key may have the same tag.
    pub(crate) fn find_on_flash(
        &self,
        lock: &Locked<'_>,
        hash: u64,
        mut is_wanted: impl FnMut(FlashPlace) -> bool,
    ) -> Option<Slot> {
        let has_bits = |place: FlashPlace| place.low_bits() == hash & LOW;
        self.find_slot(lock, hash, |slot| {
            slot.is_on_flash() && has_bits(slot.place()) && is_wanted(slot.place())
        })
    }

    /// An item on flash in the home bucket of this hash: the one that was used least.
    pub(crate) fn flash_slot_of_home(&self, lock: &Locked<'_>, hash: u64) -> Option<Slot> {
        let home = self.page(lock.number, hash) + home_of(hash) * SLOTS;
        let slots = (home..).zip(self.bucket(home)).map(|(number, value)| Slot { number, value });
        slots
            .filter(|slot| slot.value & LOCATION != 0 && slot.is_on_flash())
            .min_by_key(|slot| slot.frequency())
    }

    /// Changes the location of an entry, whose item is on flash afterwards.
    pub(crate) fn move_to_flash(&self, _lock: &mut Locked<'_>, slot: Slot, to: FlashPlace, frequency: u64) {
        let cell = &self.slots[slot.number];
        let kept = cell.load(Relaxed) & !(LOCATION | FREQUENCY);
        cell.store(kept | FLASH | frequency << FREQUENCY_SHIFT | to.0, Relaxed);
    }
}
