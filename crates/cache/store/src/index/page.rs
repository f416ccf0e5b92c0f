//! Index pages: homes, the stash, and the number of entries.

use std::sync::atomic::Ordering::Relaxed;

use super::{HOMES, Index, LOCATION, OVERFLOW, PAGE_SLOTS, SLOTS, STASH, home_of_slot};

impl Index {
    /// Number of entries of the page.
    #[inline]
    pub(super) fn count(&self, page: u32) -> usize {
        usize::from(self.counts[page as usize].load(Relaxed))
    }

    #[inline]
    pub(super) fn set_count(&self, page: u32, count: usize) {
        self.counts[page as usize].store(count as u16, Relaxed);
    }

    /// A free slot; with its stash bucket if it is in the stash.
    pub(super) fn free_slot(&self, page: usize, home: usize) -> Option<(usize, Option<usize>)> {
        let free_in = |bucket: usize| {
            let start = page + bucket * SLOTS;
            (start..start + SLOTS).find(|slot| self.slots[*slot].load(Relaxed) & LOCATION == 0)
        };
        if let Some(slot) = free_in(home) {
            return Some((slot, None));
        }
        let mut stash = (0..STASH).map(|i| (home + i) % STASH);
        stash.find_map(|bucket| free_in(HOMES + bucket).map(|slot| (slot, Some(bucket))))
    }

    /// Adds an entry. The caller has checked that there is room.
    pub(super) fn put(&self, page: u32, value: u64) {
        self.place(page as usize * PAGE_SLOTS, value);
        self.set_count(page, self.count(page) + 1);
    }

    fn place(&self, page: usize, value: u64) {
        let home = home_of_slot(value);
        let (slot, stash) = self.free_slot(page, home).expect("there is room, as the caller has checked");
        let kept = self.slots[slot].load(Relaxed) & OVERFLOW;
        self.slots[slot].store(value | kept, Relaxed);
        if let Some(bucket) = stash {
            let mark = &self.slots[page + home * SLOTS + bucket];
            mark.store(mark.load(Relaxed) | OVERFLOW, Relaxed);
        }
    }

    pub(super) fn clear(&self, slot: usize) {
        let cell = &self.slots[slot];
        cell.store(cell.load(Relaxed) & OVERFLOW, Relaxed);
    }

    /// Moves one of the home's entries from the stash to the home, which now has a free slot.
    pub(super) fn unstash(&self, page: usize, home: usize) {
        let marks = page + home * SLOTS;
        let is_marked = |bucket: &usize| self.slots[marks + bucket].load(Relaxed) & OVERFLOW != 0;
        let Some(bucket) = (0..STASH).find(is_marked) else { return };
        let away = self.of_home(page, home, bucket).expect("the mark says that there is one");
        let value = self.slots[away].load(Relaxed);
        self.remove_from_stash(page, home, away);
        self.place(page, value & !OVERFLOW);
    }

    pub(super) fn remove_from_stash(&self, page: usize, home: usize, slot: usize) {
        let bucket = (slot - page) / SLOTS - HOMES;
        self.clear(slot);
        if self.of_home(page, home, bucket).is_none() {
            let mark = &self.slots[page + home * SLOTS + bucket];
            mark.store(mark.load(Relaxed) & !OVERFLOW, Relaxed);
        }
    }

    /// An entry of this home in that stash bucket.
    fn of_home(&self, page: usize, home: usize, bucket: usize) -> Option<usize> {
        let start = page + (HOMES + bucket) * SLOTS;
        (start..start + SLOTS).find(|slot| {
            let value = self.slots[*slot].load(Relaxed);
            value & LOCATION != 0 && home_of_slot(value) == home
        })
    }

    /// Whether `to` has room for all entries of `from`.
    pub(super) fn has_room_for(&self, to: u32, from: u32) -> bool {
        let mut counts = [0usize; HOMES];
        for page in [to, from] {
            self.entries(page).for_each(|slot| counts[home_of_slot(self.slots[slot].load(Relaxed))] += 1);
        }
        counts.iter().map(|count| count.saturating_sub(SLOTS)).sum::<usize>() <= STASH * SLOTS
    }

    /// Moves all entries of a page to another one. The caller has checked that there is room.
    pub(super) fn move_all(&self, from: u32, to: u32) {
        for slot in self.entries(from) {
            self.put(to, self.slots[slot].load(Relaxed) & !OVERFLOW);
        }
        let first = from as usize * PAGE_SLOTS;
        self.slots[first..first + PAGE_SLOTS].iter().for_each(|slot| slot.store(0, Relaxed));
        self.set_count(from, 0);
    }

    /// The slots of a page that hold an entry.
    fn entries(&self, page: u32) -> impl Iterator<Item = usize> {
        let first = page as usize * PAGE_SLOTS;
        (first..first + PAGE_SLOTS).filter(|slot| self.slots[*slot].load(Relaxed) & LOCATION != 0)
    }
}
