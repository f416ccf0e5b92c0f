//! Miniature caches: each policy that could be chosen, simulated on a sample of the keys.
//!
//! A sampled key, one in a power of two by its hash, is in every miniature or not, as the whole store would have it under
//! that policy; a miniature has as much less memory as it has fewer keys (Waldspurger et al., 2017). All miniatures share one
//! table of keys with as many rows as 0.5 % of the memory have room for. When it is full, or when its keys are used too often for the processor, half of them are no longer sampled. Which policy missed least lately is the store's policy, if it is better by a margin.
//!
//! The model that the decisions are tested with is in `miniature/tests.rs`.

use super::ghost::{AGES_PER_MEMORY, Ghosts};
use super::policy::{EvictionPolicy, Optimise, SIMULATED};
use stdx::prng::mix;

/// What a sampled key was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// A get found it. Its bytes, and whether it lay in the main queue.
    Found { bytes: u32, main: bool },
    /// A get did not.
    Missed,
    /// It was stored; true if there was none before.
    Stored { bytes: u32, new: bool },
    /// It was deleted, or had expired.
    Gone,
}

/// The miniature caches of one store.
#[derive(Debug)]
pub(crate) struct Miniatures {
    optimise: Optimise,
    /// Rows, the first of which is unused: 0 is no row.
    rows: Vec<Row>,
    /// First rows by the hashes of their keys; a power of two.
    heads: Vec<u16>,
    /// Rows without a key.
    free: Vec<u16>,
    rows_max: usize,
    /// One key in 2 to this number is sampled.
    rate_log2: u32,
    caches: [Cache; SIMULATED],
    /// Bytes of items that the whole store has room for; `u64::MAX` until it was full.
    capacity: u64,
    ghosts_max: u64,
    chosen: usize,
    /// Gets in this epoch.
    gets: usize,
    /// How often another policy was chosen.
    changes: u64,
    /// The present second, and the uses that were noted in it.
    second: u32,
    uses: u32,
}

/// A sampled key, with its place in each cache.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    hash: u64,
    bytes: u32,
    /// The next row of the same head.
    chain: u16,
    /// By cache: the queue, and above it the frequency.
    states: [u8; SIMULATED],
    /// By cache: neighbours in the queue, the newer and the older one.
    links: [[u16; 2]; SIMULATED],
}

/// One miniature.
#[derive(Clone, Debug)]
struct Cache {
    policy: EvictionPolicy,
    queues: [List; QUEUES],
    /// Misses, or bytes of them: halved at the end of each epoch.
    missed: u64,
    /// Steps of eviction: with the key's hash they say what is drawn.
    steps: u64,
}

/// A queue of one miniature: rows from the newest to the oldest.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    newest: u16,
    oldest: u16,
    rows: u64,
    bytes: u64,
}

const QUEUES: usize = 4;
const NOWHERE: usize = 0;
const SMALL: usize = 1;
const MAIN: usize = 2;
const GHOST: usize = 3;
const NEWER: usize = 0;
const OLDER: usize = 1;
const QUEUE_BITS: u32 = 2;
/// As in the index.
const FREQUENCY_MAX: u8 = 3;

/// The part of the memory limit that the table may take.
const SHARE: u64 = 200;
/// Rows that are enough for a choice: more of them would only cost time.
const ROWS_MAX: usize = 32_000;
/// Bytes of a row, with its heads and its place among the free ones.
const ROW_BYTES: u64 = size_of::<Row>() as u64 + 6;
/// Uses of sampled keys that are simulated in one second: of some 0.15 µs each, less than 1 % of one processor.
const USES_PER_SECOND: u32 = 50_000;
/// One key in a million is enough for every memory.
const RATE_LOG2_MAX: u32 = 20;
/// Bits of a hash of which so many are 0 by chance for no key of a store.
const RATE_LOG2_LIMIT: u32 = 48;
/// Gets of one epoch for each row: about as many as half of what the memory has room for.
const ROWS_PER_EPOCH: usize = 4;
/// Gets of one epoch, at least: chance decides among fewer.
const EPOCH_MIN: usize = 512;
/// Another policy is chosen if it misses less by so many parts of the chosen one's misses (1.6 %), and by more than chance
/// makes of a few.
const MARGIN: u64 = 64;
const MARGIN_GETS: u64 = 24;

impl Miniatures {
    /// For a memory limit of `limit` bytes; it begins with the first candidate.
    pub(crate) fn new(limit: u64, optimise: Optimise) -> Miniatures {
        let rows_max = Miniatures::rows_for(limit);
        let cache = |policy: &EvictionPolicy| Cache {
            policy: *policy,
            queues: Default::default(),
            missed: 0,
            steps: 0,
        };
        Miniatures {
            optimise,
            rows: vec![Row::default()],
            heads: vec![0; rows_max.next_power_of_two()],
            free: Vec::new(),
            rows_max,
            rate_log2: 0,
            caches: optimise.candidates().each_ref().map(cache),
            capacity: u64::MAX,
            ghosts_max: Ghosts::entries_max(limit),
            chosen: 0,
            gets: 0,
            changes: 0,
            second: 0,
            uses: 0,
        }
    }

    /// Bytes for a memory limit of `limit` bytes.
    pub(crate) fn bytes_for(limit: u64) -> u64 {
        Miniatures::rows_for(limit) as u64 * ROW_BYTES
    }

    fn rows_for(limit: u64) -> usize {
        ((limit / SHARE / ROW_BYTES) as usize).min(ROWS_MAX)
    }

    /// A key is sampled if its hash has none of these bits.
    pub(crate) fn mask(&self) -> u64 {
        (1 << self.rate_log2) - 1
    }

    /// The number of the policy that was chosen, among the candidates.
    pub(crate) fn chosen(&self) -> usize {
        self.chosen
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Bytes of items that the store has when it is full.
    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    /// Forgets all keys: the store was flushed.
    pub(crate) fn clear(&mut self) {
        self.rows.truncate(1);
        self.free.clear();
        self.heads.fill(0);
        self.caches.iter_mut().for_each(|cache| cache.queues = Default::default());
    }

    /// One use of a sampled key. If there are many in one second, fewer keys are sampled from now on.
    pub(crate) fn note(&mut self, hash: u64, usage: KeyUse, now: u32) {
        if self.second != now {
            (self.second, self.uses) = (now, 0);
        }
        self.uses += 1;
        if self.uses > USES_PER_SECOND && self.rate_log2 < RATE_LOG2_MAX {
            self.uses = 0;
            self.halve();
        }
        if hash & self.mask() != 0 {
            return; // The rate has changed since it was sampled.
        }
        let found = self.find(hash);
        match usage {
            KeyUse::Gone => {
                if let Some(row) = found {
                    (0..SIMULATED).for_each(|number| self.remove(number, row));
                    self.drop_row(row);
                }
            }
            KeyUse::Missed => {
                let bytes = found.map_or(0, |row| self.rows[usize::from(row)].bytes);
                (0..SIMULATED).for_each(|number| self.count_get(number, found, bytes));
                self.end_get();
            }
            KeyUse::Found { bytes, .. } => {
                let Some(row) = found.or_else(|| self.new_row(hash, bytes)) else { return };
                for number in 0..SIMULATED {
                    self.count_get(number, Some(row), bytes);
                    self.insert(number, row);
                }
                self.end_get();
            }
            KeyUse::Stored { bytes, .. } => {
                let Some(row) = found.or_else(|| self.new_row(hash, bytes)) else { return };
                self.resize(row, bytes);
                (0..SIMULATED).for_each(|number| self.insert(number, row));
            }
        }
        if let Some(row) = self.find(hash) {
            self.drop_if_nowhere(row);
        }
    }

    fn count_get(&mut self, number: usize, row: Option<u16>, bytes: u32) {
        if let Some(row) = row
            && matches!(self.queue_of(number, row), SMALL | MAIN)
        {
            let state = &mut self.rows[usize::from(row)].states[number];
            if *state >> QUEUE_BITS < FREQUENCY_MAX {
                *state += 1 << QUEUE_BITS;
            }
            return;
        }
        self.caches[number].missed += match self.optimise {
            Optimise::Objects => 1,
            Optimise::Bytes => u64::from(bytes),
        };
    }

    /// Ends an epoch after some gets: the policy that missed least is chosen, if it was better by the margin.
    fn end_get(&mut self) {
        self.gets += 1;
        if self.gets < (self.rows_max / ROWS_PER_EPOCH).max(EPOCH_MIN) {
            return;
        }
        self.gets = 0;
        if self.capacity == u64::MAX {
            self.caches.iter_mut().for_each(|cache| cache.missed = 0);
            return; // Nothing has been evicted: all are the same.
        }
        let missed = self.caches.each_ref().map(|cache| cache.missed);
        let best = (0..SIMULATED).min_by_key(|number| missed[*number]).expect("there are some");
        let per_get = match self.optimise {
            Optimise::Objects => 1,
            Optimise::Bytes => self.mean(self.chosen),
        };
        let margin = missed[self.chosen] / MARGIN + MARGIN_GETS * per_get;
        if missed[best] + margin < missed[self.chosen] {
            self.chosen = best;
            self.changes += 1;
        }
        self.caches.iter_mut().for_each(|cache| cache.missed /= 2);
    }

    fn queue_of(&self, number: usize, row: u16) -> usize {
        usize::from(self.rows[usize::from(row)].states[number] & ((1 << QUEUE_BITS) - 1))
    }

    /// Stores an item that is not in this cache, and evicts others for it.
    fn insert(&mut self, number: usize, row: u16) {
        let was_in = self.queue_of(number, row);
        if matches!(was_in, SMALL | MAIN) {
            return;
        }
        let bytes = u64::from(self.rows[usize::from(row)].bytes);
        let room = self.room();
        self.remove(number, row);
        let to = if was_in == GHOST { MAIN } else { SMALL };
        let mut steps = 2 * self.rows.len();
        while self.used(number) + bytes > room && self.used(number) > 0 && steps > 0 {
            self.evict(number, room);
            steps -= 1;
        }
        self.push(number, row, to, 0);
    }

    fn room(&self) -> u64 {
        if self.capacity == u64::MAX { u64::MAX } else { self.capacity >> self.rate_log2 }
    }

    fn used(&self, number: usize) -> u64 {
        let queues = &self.caches[number].queues;
        queues[SMALL].bytes + queues[MAIN].bytes
    }

    fn mean(&self, number: usize) -> u64 {
        let queues = &self.caches[number].queues;
        self.used(number) / (queues[SMALL].rows + queues[MAIN].rows).max(1)
    }

    /// One step of eviction: the oldest item of one queue goes on or is evicted.
    fn evict(&mut self, number: usize, room: u64) {
        let Cache { policy, queues, .. } = &self.caches[number];
        let is_over = queues[SMALL].bytes > room / 100 * u64::from(policy.small_percent);
        let from = if queues[MAIN].rows == 0 || is_over && queues[SMALL].rows > 0 { SMALL } else { MAIN };
        let policy = *policy;
        let row = queues[from].oldest;
        let Row { hash, bytes, states, .. } = self.rows[usize::from(row)];
        let (mean, frequency) = (self.mean(number), u64::from(states[number] >> QUEUE_BITS));
        self.caches[number].steps += 1;
        let draw = mix(hash ^ self.caches[number].steps);
        self.unlink(number, row);
        if from == MAIN {
            match policy.survives(frequency, bytes.into(), mean, draw) {
                Some(left) => self.push(number, row, MAIN, left as u8),
                None => self.drop_if_nowhere(row),
            }
        } else if policy.promotes(frequency, bytes.into(), mean, draw) {
            self.push(number, row, MAIN, 0);
        } else {
            self.push(number, row, GHOST, 0);
            self.forget_ghosts(number, room, policy);
        }
    }

    fn forget_ghosts(&mut self, number: usize, room: u64, policy: EvictionPolicy) {
        let bytes_max = room / AGES_PER_MEMORY * u64::from(policy.ghost_fifths);
        let rows_max = (self.ghosts_max >> self.rate_log2).max(1);
        loop {
            let List { oldest, rows, bytes, .. } = self.caches[number].queues[GHOST];
            if rows == 0 || bytes <= bytes_max && rows <= rows_max {
                return;
            }
            self.unlink(number, oldest);
            self.drop_if_nowhere(oldest);
        }
    }

    fn push(&mut self, number: usize, row: u16, queue: usize, frequency: u8) {
        let list = &mut self.caches[number].queues[queue];
        let before = std::mem::replace(&mut list.newest, row);
        if before == 0 {
            list.oldest = row;
        } else {
            self.rows[usize::from(before)].links[number][NEWER] = row;
        }
        let entry = &mut self.rows[usize::from(row)];
        entry.links[number] = [0, before];
        entry.states[number] = queue as u8 | frequency << QUEUE_BITS;
        list.rows += 1;
        list.bytes += u64::from(entry.bytes);
    }

    fn unlink(&mut self, number: usize, row: u16) {
        let queue = self.queue_of(number, row);
        let entry = &mut self.rows[usize::from(row)];
        let ([newer, older], bytes) = (entry.links[number], u64::from(entry.bytes));
        entry.states[number] = NOWHERE as u8;
        let list = &mut self.caches[number].queues[queue];
        list.rows -= 1;
        list.bytes -= bytes;
        match newer {
            0 => list.newest = older,
            newer => self.rows[usize::from(newer)].links[number][OLDER] = older,
        }
        match older {
            0 => self.caches[number].queues[queue].oldest = newer,
            older => self.rows[usize::from(older)].links[number][NEWER] = newer,
        }
    }

    fn remove(&mut self, number: usize, row: u16) {
        if self.queue_of(number, row) != NOWHERE {
            self.unlink(number, row);
        }
    }

    fn resize(&mut self, row: u16, bytes: u32) {
        let entry = &mut self.rows[usize::from(row)];
        let before = std::mem::replace(&mut entry.bytes, bytes);
        for number in 0..SIMULATED {
            let queue = self.queue_of(number, row);
            if queue != NOWHERE {
                let list = &mut self.caches[number].queues[queue];
                list.bytes = list.bytes + u64::from(bytes) - u64::from(before);
            }
        }
    }
}

/// The table of keys.
impl Miniatures {
    fn head(&self, hash: u64) -> usize {
        // The bits above those that decide what is sampled.
        (hash >> 40) as usize & (self.heads.len() - 1)
    }

    fn find(&self, hash: u64) -> Option<u16> {
        let mut row = self.heads[self.head(hash)];
        while row != 0 && self.rows[usize::from(row)].hash != hash {
            row = self.rows[usize::from(row)].chain;
        }
        (row != 0).then_some(row)
    }

    /// A row for a key. `None` if the key is no longer sampled, because there was no row left.
    fn new_row(&mut self, hash: u64, bytes: u32) -> Option<u16> {
        while self.free.is_empty() && self.rows.len() > self.rows_max {
            if self.rate_log2 == RATE_LOG2_LIMIT {
                return None;
            }
            self.halve();
        }
        if hash & self.mask() != 0 {
            return None;
        }
        let row = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            (self.rows.len() - 1) as u16
        });
        let head = self.head(hash);
        let chain = std::mem::replace(&mut self.heads[head], row);
        self.rows[usize::from(row)] = Row { hash, bytes, chain, ..Row::default() };
        Some(row)
    }

    /// Samples half as many keys from now on.
    fn halve(&mut self) {
        self.rate_log2 += 1;
        let mask = self.mask();
        for row in 1..self.rows.len() as u16 {
            let Row { hash, states, .. } = self.rows[usize::from(row)];
            if hash & mask != 0 && states != [0; SIMULATED] {
                (0..SIMULATED).for_each(|number| self.remove(number, row));
                self.drop_row(row);
            }
        }
    }

    fn drop_if_nowhere(&mut self, row: u16) {
        if self.rows[usize::from(row)].states == [NOWHERE as u8; SIMULATED] {
            self.drop_row(row);
        }
    }

    /// Frees the row of a key that is in no cache.
    fn drop_row(&mut self, row: u16) {
        let Row { hash, chain, .. } = self.rows[usize::from(row)];
        let head = self.head(hash);
        if self.heads[head] == row {
            self.heads[head] = chain;
        } else {
            let mut before = self.heads[head];
            while self.rows[usize::from(before)].chain != row {
                before = self.rows[usize::from(before)].chain;
            }
            self.rows[usize::from(before)].chain = chain;
        }
        self.free.push(row);
    }
}

#[cfg(test)]
mod tests;
