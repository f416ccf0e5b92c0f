//! GDSF, W-TinyLFU, and Belady's policy, which knows the future.

use std::collections::BTreeSet;

use crate::lists::Lists;
use crate::policy::PublishedPolicy;
use crate::trace::ReplayedRequest;
use stdx::prng::mix;

/// Items by their uses per byte, and the age of the cache (Cherkasova, 1998).
pub(crate) struct Gdsf {
    order: BTreeSet<(u64, u32)>,
    /// By item: its priority as bits, its uses, its bytes. No uses: it is not stored.
    priority: Vec<u64>,
    uses: Vec<u32>,
    bytes: Vec<u64>,
    age: f64,
    used: u64,
    room: u64,
}

impl Gdsf {
    pub(crate) fn new(items: usize, room: u64) -> Gdsf {
        let (order, priority, uses, bytes) =
            (BTreeSet::new(), vec![0; items], vec![0; items], vec![0; items]);
        Gdsf { order, priority, uses, bytes, age: 0.0, used: 0, room }
    }
}

impl PublishedPolicy for Gdsf {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        let ReplayedRequest { item, bytes, .. } = *request;
        let at = item as usize;
        let found = self.uses[at] > 0;
        if found {
            self.order.remove(&(self.priority[at], item));
        } else {
            if bytes > self.room {
                return false;
            }
            while self.used + bytes > self.room
                && let Some((priority, evicted)) = self.order.pop_first()
            {
                self.age = f64::from_bits(priority);
                self.used -= self.bytes[evicted as usize];
                self.uses[evicted as usize] = 0;
            }
            self.bytes[at] = bytes;
            self.used += bytes;
        }
        self.uses[at] += 1;
        // Positive numbers are in the order of their bits.
        self.priority[at] = (self.age + f64::from(self.uses[at]) / self.bytes[at].max(1) as f64).to_bits();
        self.order.insert((self.priority[at], item));
        found
    }
}

/// Evicts what is used last of all, or never.
pub(crate) struct Belady {
    order: BTreeSet<(u64, u32)>,
    /// By item: when it is used next, and its bytes. `None`: it is not stored.
    stored: Vec<Option<(u64, u64)>>,
    used: u64,
    room: u64,
}

impl Belady {
    pub(crate) fn new(items: usize, room: u64) -> Belady {
        Belady { order: BTreeSet::new(), stored: vec![None; items], used: 0, room }
    }
}

impl PublishedPolicy for Belady {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        let ReplayedRequest { item, bytes, next } = *request;
        let before = self.stored[item as usize].take();
        if let Some((next, bytes)) = before {
            self.order.remove(&(next, item));
            self.used -= bytes;
        }
        if bytes > self.room {
            return false;
        }
        self.order.insert((next, item));
        self.stored[item as usize] = Some((next, bytes));
        self.used += bytes;
        while self.used > self.room
            && let Some((_, evicted)) = self.order.pop_last()
        {
            let (_, bytes) = self.stored[evicted as usize].take().expect("what is in order is stored");
            self.used -= bytes;
        }
        before.is_some()
    }
}

/// A window of 1 %, and a main part into which an item comes if a sketch has seen it more often than the one that it
/// displaces (Einziger et al., 2017).
pub(crate) struct WindowTinyLfu {
    lists: Lists,
    room: u64,
    sketch: Vec<u8>,
    /// Uses counted since the sketch was halved.
    counted: usize,
}

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Counters of a key.
const ROWS: u64 = 4;
const COUNT_MAX: u8 = 15;

impl WindowTinyLfu {
    pub(crate) fn new(items: usize, room: u64) -> WindowTinyLfu {
        let sketch = vec![0; (4 * items).next_power_of_two()];
        WindowTinyLfu { lists: Lists::new(items, 3), room, sketch, counted: 0 }
    }

    fn cells(&self, item: u32) -> impl Iterator<Item = usize> + use<> {
        let mask = self.sketch.len() as u64 - 1;
        (0..ROWS).map(move |row| (mix(u64::from(item) << 2 | row) & mask) as usize)
    }

    fn count(&mut self, item: u32) {
        for cell in self.cells(item) {
            self.sketch[cell] = (self.sketch[cell] + 1).min(COUNT_MAX);
        }
        self.counted += 1;
        let stored = (WINDOW..=PROTECTED).map(|list| self.lists.items(list)).sum::<u64>() as usize;
        if self.counted >= 10 * stored.max(1000) {
            self.sketch.iter_mut().for_each(|count| *count /= 2);
            self.counted /= 2;
        }
    }

    fn uses(&self, item: u32) -> u8 {
        self.cells(item).map(|cell| self.sketch[cell]).min().unwrap_or(0)
    }

    fn main_room(&self) -> u64 {
        self.room - self.room / 100
    }

    /// Moves what is too much for the window to the main part, or evicts it.
    fn settle(&mut self) {
        while self.lists.bytes(WINDOW) > self.room / 100
            && let Some(candidate) = self.lists.pop(WINDOW)
        {
            let bytes = self.lists.bytes_of(candidate);
            let mut wins = bytes <= self.main_room();
            while wins && self.lists.bytes(PROBATION) + self.lists.bytes(PROTECTED) + bytes > self.main_room()
            {
                let victim = self.lists.oldest(PROBATION).or_else(|| self.lists.oldest(PROTECTED));
                let victim = victim.expect("more is stored than there is room for");
                wins = self.uses(candidate) > self.uses(victim);
                if wins {
                    self.lists.remove(victim);
                }
            }
            if wins {
                self.lists.push(candidate, PROBATION, bytes);
            }
        }
    }
}

impl PublishedPolicy for WindowTinyLfu {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        let ReplayedRequest { item, bytes, .. } = *request;
        self.count(item);
        let list = self.lists.list_of(item);
        match list {
            Some(WINDOW) => self.lists.push(item, WINDOW, bytes),
            Some(_) => {
                self.lists.push(item, PROTECTED, bytes);
                while self.lists.bytes(PROTECTED) > self.main_room() / 5 * 4
                    && let Some(oldest) = self.lists.oldest(PROTECTED)
                {
                    self.lists.push(oldest, PROBATION, self.lists.bytes_of(oldest));
                }
            }
            None if bytes <= self.room => {
                self.lists.push(item, WINDOW, bytes);
                self.settle();
            }
            None => {}
        }
        list.is_some()
    }
}
