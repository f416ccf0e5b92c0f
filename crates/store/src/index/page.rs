//! Inside a page: homes, the stash, and how many entries there are.

use std::sync::atomic::Ordering::Relaxed;

use super::{HOMES, Index, LOCATION, OVERFLOW, PAGE_SLOTS, SLOTS, STASH, home_of_slot};

impl Index {
    /// How many entries the page has.
    #[inline]
    pub(super) fn count(&self, page: u32) -> usize {
        usize::from(self.counts[page as usize].load(Relaxed))
    }

    #[inline]
    pub(super) fn set_count(&self, page: u32, count: usize) {
        self.counts[page as usize].store(count as u16, Relaxed);
    }

    /// A free slot, and the stash bucket that it is in.
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

    /// Adds an entry, for which there is room.
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
            let sign = &self.slots[page + home * SLOTS + bucket];
            sign.store(sign.load(Relaxed) | OVERFLOW, Relaxed);
        }
    }

    pub(super) fn clear(&self, slot: usize) {
        let cell = &self.slots[slot];
        cell.store(cell.load(Relaxed) & OVERFLOW, Relaxed);
    }

    /// Brings one of the home's entries back from the stash, now that there is a place for it.
    pub(super) fn fetch_home(&self, page: usize, home: usize) {
        let signs = page + home * SLOTS;
        let is_signed = |bucket: &usize| self.slots[signs + bucket].load(Relaxed) & OVERFLOW != 0;
        let Some(bucket) = (0..STASH).find(is_signed) else { return };
        let away = self.of_home(page, home, bucket).expect("the sign says so");
        let value = self.slots[away].load(Relaxed);
        self.remove_from_stash(page, home, away);
        self.place(page, value & !OVERFLOW);
    }

    pub(super) fn remove_from_stash(&self, page: usize, home: usize, slot: usize) {
        let bucket = (slot - page) / SLOTS - HOMES;
        self.clear(slot);
        if self.of_home(page, home, bucket).is_none() {
            let sign = &self.slots[page + home * SLOTS + bucket];
            sign.store(sign.load(Relaxed) & !OVERFLOW, Relaxed);
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

    /// Whether all entries of `from` find a place in `to`, too.
    pub(super) fn has_room_for(&self, to: u32, from: u32) -> bool {
        let mut counts = [0usize; HOMES];
        for page in [to, from] {
            self.entries(page).for_each(|slot| counts[home_of_slot(self.slots[slot].load(Relaxed))] += 1);
        }
        counts.iter().map(|count| count.saturating_sub(SLOTS)).sum::<usize>() <= STASH * SLOTS
    }

    /// Moves all entries of a page to another, which has room for them.
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
