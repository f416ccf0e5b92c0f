//! Segments: equal pieces of one mapping, each filled with records once and emptied as a whole.
//!
//! A segment is free, open (being filled), or sealed and in one of two queues, oldest first. This file has
//! the state of each segment; `open.rs` fills segments, `reclaim.rs` empties them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::error::Error;
use crate::memory::backing::Backing;
use crate::memory::budget::Budget;
use crate::memory::prefault::{Frontier, PrefaultThread};
use crate::memory::system::{Arena, Huge, PAGE, Table};
use crate::segment::record::{Place, Record};
use crate::sync::{Mutex, MutexGuard, lock, pause};

mod manifest;
pub(crate) mod open;
pub(crate) mod record;

/// S3-FIFO's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// New items, which may not be worth keeping.
    Small,
    /// Items that were used after they were stored.
    Main,
}

/// The number of a segment.
pub(crate) type SegmentId = u32;

#[derive(Debug)]
pub(crate) struct Segments {
    arena: Arena,
    size: usize,
    count: u32,
    /// Places behind all segments, for copies of records that lie elsewhere.
    staging: usize,
    budget: Arc<Budget>,
    /// How far the mapping is pre-faulted.
    frontier: Frontier,
    prefault_thread: Arc<PrefaultThread>,
    /// Segments from this number on have never been used. Changed under the pool's lock; the pre-faulting
    /// thread reads it without the lock, because a thread of low priority must not block the workers.
    fresh: AtomicU32,
    /// Everything in segments up to this sequence number has been flushed; 0: nothing.
    flushed_through: AtomicU64,
    /// Charged bytes of free segments, as in the pool.
    free: AtomicU64,
    /// Bytes of the large values that belong to records of all segments.
    large_total: AtomicU64,
    pool: Mutex<Pool>,
    /// Sequence number of its opening.
    sequence: Table<AtomicU64>,
    /// Second of its opening.
    opened: Table<AtomicU32>,
    /// Bytes of records, set when it is sealed.
    used: Table<AtomicU32>,
    /// Bytes of records that nothing refers to any more.
    dead: Table<AtomicU32>,
    /// No item expires later than this; `u32::MAX`: some never do.
    expiry_max: Table<AtomicU32>,
    /// Bytes of the large values that belong to its records.
    large: Table<AtomicU64>,
    /// Bytes of its tail that are neither charged nor resident: whole pages. A segment keeps its length while it is free.
    refund: Table<AtomicU32>,
    /// 0: small, 1: main.
    queue: Table<AtomicU32>,
}

#[derive(Debug, Default)]
struct Pool {
    /// Charged, ready to be used: each at least half of a segment.
    free: Vec<SegmentId>,
    /// Their charged bytes.
    free_bytes: u64,
    /// Used before, now neither charged nor resident.
    returned: Vec<SegmentId>,
    last_sequence: u64,
    /// How often large values exceeded their share when a victim was chosen.
    over_share: u32,
    queues: [VecDeque<SegmentId>; 2],
    open: u64,
}

/// Free memory, in whole segments, that only reclamation may use, because it copies before it frees.
const RESERVE: u64 = 2;

/// The purpose for which a segment is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    Writer,
    Reclaimer,
}

/// Treatment of a victim's live items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Keep all: the segment was chosen for its dead records.
    Compact,
    /// Keep items that have been used.
    Evict,
    /// The same, but keep small items that were used in the last ten minutes as they are.
    EvictUnused,
}

/// Statistics of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStatistics {
    /// Bytes of one segment.
    pub segment_size: u64,
    /// Free, but charged.
    pub free: u64,
    /// Being filled.
    pub open: u64,
    /// Sealed, in the small queue.
    pub small: u64,
    /// Sealed, in the main queue.
    pub main: u64,
    /// When the oldest segment of the small queue was opened.
    pub small_oldest: Option<u32>,
    /// When the oldest segment of the main queue was opened.
    pub main_oldest: Option<u32>,
    /// Bytes of sealed records that nothing refers to.
    pub dead_bytes: u64,
}

/// Construction and accessors.
impl Segments {
    pub(crate) fn new(
        size: usize,
        reserve: u64,
        staging: usize,
        huge: Huge,
        backing: &Backing,
        budget: Arc<Budget>,
        prefault_thread: Arc<PrefaultThread>,
    ) -> Result<Segments, Error> {
        let count = u32::try_from(reserve / size as u64).unwrap_or(u32::MAX).max(1);
        let rows = count as usize;
        Ok(Segments {
            arena: Arena::new(rows * size + staging * STAGING, huge, backing)?,
            size,
            count,
            staging,
            budget,
            frontier: Frontier::default(),
            prefault_thread,
            fresh: AtomicU32::new(0),
            flushed_through: AtomicU64::new(0),
            free: AtomicU64::new(0),
            large_total: AtomicU64::new(0),
            pool: Mutex::default(),
            sequence: Table::new(rows, Huge::No, backing)?,
            opened: Table::new(rows, Huge::No, backing)?,
            used: Table::new(rows, Huge::No, backing)?,
            dead: Table::new(rows, Huge::No, backing)?,
            expiry_max: Table::new(rows, Huge::No, backing)?,
            large: Table::new(rows, Huge::No, backing)?,
            refund: Table::new(rows, Huge::No, backing)?,
            queue: Table::new(rows, Huge::No, backing)?,
        })
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The most memory that segments can ever take.
    pub(crate) fn reserved(&self) -> u64 {
        u64::from(self.count) * self.size as u64
    }

    /// Where a copy of a record can lie that belongs to no segment, of handle `number` only. `None`: that handle has no such
    /// place, or it is too small.
    pub(crate) fn staging(&self, number: usize, size: usize) -> Option<usize> {
        (number < self.staging && size <= STAGING)
            .then_some(self.count as usize * self.size + number * STAGING)
    }

    #[inline]
    pub(crate) fn record(&self, at: usize) -> Record<'_> {
        Record::new(&self.arena, at)
    }

    /// Room for a new record, for [`OpenSet::append`](crate::segment::open::OpenSet::append) only.
    pub(crate) fn place(&self, at: usize, size: usize) -> Place<'_> {
        Place::new(&self.arena, at, size)
    }

    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        self.arena.prefetch(at);
    }

    #[inline]
    pub(crate) fn of(&self, at: usize) -> SegmentId {
        (at / self.size) as SegmentId
    }

    /// Location of the first record. Location 0 means "none", so the very first word is unused.
    pub(crate) fn start(&self, id: SegmentId) -> usize {
        id as usize * self.size + FIRST
    }

    /// The most bytes for records in a segment.
    pub(crate) fn room(&self) -> usize {
        self.size - FIRST
    }

    /// Bytes for records in this segment, as long as it does not [grow](Segments::grow).
    pub(crate) fn room_of(&self, id: SegmentId) -> usize {
        self.len(id) as usize - FIRST
    }

    /// Bytes of this segment that are charged.
    fn len(&self, id: SegmentId) -> u64 {
        self.size as u64 - u64::from(self.refund[id as usize].load(Relaxed))
    }

    pub(crate) fn queue(&self, id: SegmentId) -> Queue {
        if self.queue[id as usize].load(Relaxed) == 0 { Queue::Small } else { Queue::Main }
    }

    pub(crate) fn used(&self, id: SegmentId) -> usize {
        self.used[id as usize].load(Acquire) as usize
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        lock(&self.pool)
    }
}

/// A shorter tail is not given back when a segment is sealed: the kernel takes a microsecond for it, and one for every two pages that
/// are touched again.
const TAIL_MIN: usize = 2 * PAGE;

/// Room for the longest record without a large value.
const STAGING: usize = 40 << 10;

/// Space before the first record of a segment.
const FIRST: usize = record::ALIGN;

/// Accounting of records, and flushes.
impl Segments {
    /// Notes that an item in this segment expires at that second.
    #[inline]
    pub(crate) fn note_expiry(&self, id: SegmentId, expiry: u32) {
        let expiry = if expiry == 0 { u32::MAX } else { expiry };
        let highest = &self.expiry_max[id as usize];
        if highest.load(Relaxed) < expiry {
            highest.fetch_max(expiry, Relaxed);
        }
    }

    /// Notes that nothing refers to `bytes` more bytes of records.
    #[inline]
    pub(crate) fn note_dead(&self, id: SegmentId, bytes: usize) {
        self.dead[id as usize].fetch_add(bytes as u32, AcqRel);
    }

    pub(crate) fn add_large(&self, id: SegmentId, bytes: u64) -> u64 {
        self.large_total.fetch_add(bytes, Relaxed);
        self.large[id as usize].fetch_add(bytes, Relaxed) + bytes
    }

    /// Bytes of all large values that are stored.
    pub(crate) fn large_total(&self) -> u64 {
        self.large_total.load(Relaxed)
    }

    pub(crate) fn large(&self, id: SegmentId) -> u64 {
        self.large[id as usize].load(Relaxed)
    }

    pub(crate) fn sub_large(&self, id: SegmentId, bytes: u64) {
        self.large_total.fetch_sub(bytes, Relaxed);
        self.large[id as usize].fetch_sub(bytes, Relaxed);
    }

    /// The sequence number of the last flush, to detect a flush in between.
    #[inline]
    pub(crate) fn flush_mark(&self) -> u64 {
        pause();
        self.flushed_through.load(Acquire)
    }

    #[inline]
    pub(crate) fn is_flushed(&self, id: SegmentId) -> bool {
        let mark = self.flush_mark();
        mark != 0 && self.sequence[id as usize].load(Acquire) <= mark
    }

    /// Whether a flush covers an item that lay in a segment with this sequence number.
    pub(crate) fn is_flushed_through(&self, sequence: u64) -> bool {
        let mark = self.flush_mark();
        mark != 0 && sequence <= mark
    }

    /// The sequence number of the segment of a record.
    pub(crate) fn sequence(&self, at: usize) -> u64 {
        self.sequence[self.of(at) as usize].load(Acquire)
    }

    /// Makes all items in the present segments dead. Writers must open new segments.
    pub(crate) fn flush(&self) {
        let pool = self.pool();
        self.flushed_through.store(pool.last_sequence, Release);
    }
}

/// Allocation and release of segments.
impl Segments {
    /// Takes a segment to fill, if memory is left for it.
    pub(crate) fn take(&self, taker: Taker, queue: Queue, now: u32) -> Option<SegmentId> {
        let mut pool = self.pool();
        let id = self.take_free(&mut pool, taker)?;
        pool.last_sequence += 1;
        pool.open += 1;
        let row = id as usize;
        self.sequence[row].store(pool.last_sequence, Release);
        self.opened[row].store(now, Relaxed);
        self.used[row].store(0, Relaxed);
        self.dead[row].store(0, Relaxed);
        self.expiry_max[row].store(0, Relaxed);
        self.large[row].store(0, Relaxed);
        self.queue[row].store(queue as u32, Relaxed);
        Some(id)
    }

    fn take_free(&self, pool: &mut Pool, taker: Taker) -> Option<SegmentId> {
        let size = self.size as u64;
        let keep = if taker == Taker::Writer { self.reserve_bytes() } else { 0 };
        // As long as the limit allows, an uncharged segment is taken; those already free stay as the reserve.
        let missing = keep.saturating_sub(pool.free_bytes);
        if pool.free_bytes < keep + size && self.budget.charge_keeping(size, missing) {
            if let Some(id) = pool.returned.pop() {
                return Some(id);
            }
            let fresh = self.fresh.load(Relaxed);
            if fresh < self.count {
                self.fresh.store(fresh + 1, Relaxed);
                self.prefault_thread.wake();
                return Some(fresh);
            }
            self.budget.give_back(size);
        }
        let id = *pool.free.last()?;
        if pool.free_bytes + self.budget.left() < keep + self.len(id) {
            return None;
        }
        self.pop_free(pool)
    }

    fn pop_free(&self, pool: &mut Pool) -> Option<SegmentId> {
        let id = pool.free.pop()?;
        pool.free_bytes -= self.len(id);
        self.free.store(pool.free_bytes, Relaxed);
        Some(id)
    }

    /// Charges as much of the tail of an open segment as `used` bytes of records take. Returns its new room; `None` if no memory is
    /// left for it.
    pub(crate) fn grow(&self, id: SegmentId, used: usize) -> Option<usize> {
        let tail = self.tail(used)? as u64;
        let more = u64::from(self.refund[id as usize].load(Relaxed)).checked_sub(tail)?;
        if !self.budget.charge_keeping(more, self.keep()) {
            return None;
        }
        self.refund[id as usize].store(tail as u32, Relaxed);
        Some(self.room_of(id))
    }

    /// Bytes of whole pages behind `used` bytes of records; `None` if there is no room for them.
    fn tail(&self, used: usize) -> Option<usize> {
        self.size.checked_sub((FIRST + used).next_multiple_of(PAGE))
    }

    /// Seals a segment: it joins its queue. An empty one becomes free.
    pub(crate) fn seal(&self, id: SegmentId, used: usize) {
        self.used[id as usize].store(used as u32, Release);
        if used == 0 {
            let mut pool = self.pool();
            pool.open -= 1;
            self.make_free(&mut pool, id);
            return;
        }
        self.refund_tail(id, used);
        let mut pool = self.pool();
        pool.open -= 1;
        pool.queues[self.queue(id) as usize].push_back(id);
    }

    /// Gives unused pages back: most of a segment with records of large values, which is often sealed nearly empty, and those
    /// behind the last of a few long records (decision 105).
    fn refund_tail(&self, id: SegmentId, used: usize) {
        let tail = self.tail(used).expect("it has room for its records");
        let before = self.refund[id as usize].load(Relaxed) as usize;
        // A huge page of which a part is missing is no longer one.
        let least = if self.arena.has_huge_pages() { self.size / 2 } else { TAIL_MIN };
        if tail < before + least {
            return;
        }
        self.arena.release_tail(id as usize * self.size + self.size - tail, tail - before);
        self.refund[id as usize].store(tail as u32, Relaxed);
        self.budget.give_back((tail - before) as u64);
    }

    /// Makes a victim that could not be emptied a sealed segment again.
    pub(crate) fn put_back(&self, id: SegmentId) {
        self.pool().queues[self.queue(id) as usize].push_back(id);
    }

    /// Makes an emptied victim free.
    pub(crate) fn release(&self, id: SegmentId) {
        let mut pool = self.pool();
        self.make_free(&mut pool, id);
    }

    /// Makes a segment free that has no records. One of less than half of its length gets the rest back, or returns to the system.
    fn make_free(&self, pool: &mut Pool, id: SegmentId) {
        let refund = u64::from(self.refund[id as usize].load(Relaxed));
        if refund > self.size as u64 / 2 {
            if !self.budget.charge(refund) {
                return self.return_to_system(pool, id);
            }
            self.refund[id as usize].store(0, Relaxed);
        }
        self.put_free(pool, id);
    }

    /// Pre-faults the segments that will be taken next, as far as memory is left for them.
    pub(crate) fn prefault(&self) {
        let used = u64::from(self.fresh.load(Relaxed)) * self.size as u64;
        if let Some(bytes) = self.frontier.advance(used, self.budget.left()) {
            self.arena.populate(bytes);
        }
    }

    fn put_free(&self, pool: &mut Pool, id: SegmentId) {
        if self.budget.excess() > 0 && pool.free_bytes >= self.reserve_bytes() {
            self.return_to_system(pool, id);
        } else {
            pool.free.push(id);
            pool.free_bytes += self.len(id);
            self.free.store(pool.free_bytes, Relaxed);
        }
    }

    /// When it is taken again, all of it is charged.
    fn return_to_system(&self, pool: &mut Pool, id: SegmentId) {
        self.arena.release_tail(id as usize * self.size, self.size);
        self.budget.give_back(self.len(id));
        self.refund[id as usize].store(0, Relaxed);
        pool.returned.push(id);
    }

    /// Bytes that only reclamation may use.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        RESERVE * self.size as u64
    }

    /// Bytes that a charge for anything but a segment must leave for reclamation.
    pub(crate) fn keep(&self) -> u64 {
        self.reserve_bytes().saturating_sub(self.free.load(Relaxed))
    }

    /// Gives at least `bytes` bytes of free segments beyond the reserve back to the budget, for other uses or
    /// for a lower limit, as far as there are any. Returns how many bytes.
    pub(crate) fn trim(&self, bytes: u64) -> u64 {
        self.give_free(bytes, |free, len| free >= self.reserve_bytes() + len)
    }

    /// The same for a charge that leaves [`Segments::keep`]: the last segment may be longer than what is beyond the reserve, since as much
    /// of the budget is kept for reclamation instead. So what [`Segments::available`] counts can be charged.
    pub(crate) fn trim_to_charge(&self, bytes: u64) {
        self.give_free(bytes, |free, _| free > self.reserve_bytes());
    }

    /// Gives free segments back while `may_give` says so of all free bytes and those of the next segment.
    fn give_free(&self, bytes: u64, may_give: impl Fn(u64, u64) -> bool) -> u64 {
        let mut pool = self.pool();
        let mut given = 0;
        while given < bytes
            && let Some(id) = pool.free.last().copied()
            && may_give(pool.free_bytes, self.len(id))
        {
            given += self.len(id);
            self.pop_free(&mut pool);
            self.return_to_system(&mut pool, id);
        }
        given
    }

    /// Whether reclamation should start: there is less than one segment beyond the reserve.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.available() < (RESERVE + 1) * self.size as u64
    }

    /// Whether reclamation starts with the next segment, or has.
    #[inline]
    pub(crate) fn is_nearly_short(&self) -> bool {
        self.available() < (RESERVE + 2) * self.size as u64
    }

    /// Bytes in free segments, and bytes that can still be charged.
    #[inline]
    pub(crate) fn available(&self) -> u64 {
        self.free.load(Relaxed) + self.budget.left()
    }

    pub(crate) fn statistics(&self) -> SegmentStatistics {
        let pool = self.pool();
        let oldest =
            |queue: &VecDeque<SegmentId>| queue.front().map(|id| self.opened[*id as usize].load(Relaxed));
        let dead = |id: &SegmentId| u64::from(self.dead[*id as usize].load(Relaxed));
        SegmentStatistics {
            segment_size: self.size as u64,
            free: pool.free.len() as u64,
            open: pool.open,
            small: pool.queues[0].len() as u64,
            main: pool.queues[1].len() as u64,
            small_oldest: oldest(&pool.queues[0]),
            main_oldest: oldest(&pool.queues[1]),
            dead_bytes: pool.queues.iter().flatten().map(dead).sum(),
        }
    }
}

/// Choosing a victim.
impl Segments {
    /// Removes the segment that is to be emptied next from its queue; returns it and the treatment of its
    /// live items. `large_bytes` is the charge of all large values, stored or not; `small_percent` the small queue's
    /// share of memory.
    pub(crate) fn choose_victim(
        &self,
        now: u32,
        policy: VictimPolicy,
        large_bytes: u64,
        small_percent: u8,
    ) -> Option<(SegmentId, Treatment)> {
        let mut pool = self.pool();
        let pool = &mut *pool;
        let (best, gain) = self.emptiest(pool, now);
        let gain_min = match policy {
            VictimPolicy::OnlyDead => 1.0,
            VictimPolicy::Evict => 0.5,
            VictimPolicy::Compact => 0.125,
        };
        if let Some((queue, place)) = best.filter(|_| gain >= gain_min) {
            let id = pool.queues[queue].remove(place)?;
            return Some((id, Treatment::Compact));
        }
        if policy != VictimPolicy::Evict {
            return None;
        }
        let over_share = large_bytes > self.budget.limit() / LARGE_SHARE && self.large_total() > 0;
        if over_share && let Some((queue, place)) = self.oldest_large(pool) {
            let id = pool.queues[queue].remove(place)?;
            return Some((id, Treatment::Evict));
        }
        let [small, main] = pool.queues.each_ref().map(|queue| self.weight(queue));
        let from = if main == 0 || small > (small + main) / 100 * u64::from(small_percent) { 0 } else { 1 };
        let id = pool.queues[from].pop_front().or_else(|| pool.queues[1 - from].pop_front())?;
        Some((id, if over_share { Treatment::EvictUnused } else { Treatment::Evict }))
    }

    /// The oldest segment with large values, unless it is the others' turn.
    fn oldest_large(&self, pool: &mut Pool) -> Option<(usize, usize)> {
        pool.over_share = pool.over_share.wrapping_add(1);
        if pool.over_share.is_multiple_of(OTHERS_TURN) {
            return None;
        }
        let is_large = |id: &SegmentId| self.large(*id) > 0;
        let oldest = |queue: usize| pool.queues[queue].iter().position(is_large).map(|place| (queue, place));
        oldest(0).or_else(|| oldest(1))
    }

    /// The sealed segment with the largest share of dead records, among those examined, and that share.
    fn emptiest(&self, pool: &Pool, now: u32) -> (Option<(usize, usize)>, f64) {
        let mut best = (None, 0.0);
        for (number, queue) in pool.queues.iter().enumerate() {
            // With very many segments only some are examined, from a start that changes every time.
            let stride = queue.len().div_ceil(LOOKED_AT_MAX).max(1);
            let first = pool.last_sequence as usize % stride;
            for place in (first..queue.len()).step_by(stride) {
                let gain = self.garbage(queue[place], now);
                if gain > best.1 {
                    best = (Some((number, place)), gain);
                }
            }
        }
        best
    }

    /// Whether all that has been noted of this segment has expired or was flushed.
    pub(crate) fn is_dead(&self, id: SegmentId, now: u32) -> bool {
        self.expiry_max[id as usize].load(Relaxed) <= now || self.is_flushed(id)
    }

    /// The share of dead records in a sealed segment.
    fn garbage(&self, id: SegmentId, now: u32) -> f64 {
        let row = id as usize;
        if self.is_dead(id, now) {
            return 1.0;
        }
        if self.refund[row].load(Relaxed) != 0 && self.large[row].load(Relaxed) > 0 {
            // The memory of such a segment is mostly that of its large values, not of its records.
            return 0.0;
        }
        f64::from(self.dead[row].load(Acquire)) / f64::from(self.used[row].load(Relaxed).max(1))
    }

    fn weight(&self, queue: &VecDeque<SegmentId>) -> u64 {
        queue.iter().map(|id| self.footprint(*id)).sum()
    }

    /// The charge of a segment and of the large values of its records.
    pub(crate) fn footprint(&self, id: SegmentId) -> u64 {
        self.len(id) + self.large(id)
    }

    /// The sum over all sealed segments.
    pub(crate) fn footprint_of_sealed(&self) -> u64 {
        let pool = self.pool();
        pool.queues.iter().map(|queue| self.weight(queue)).sum()
    }
}

/// EvictionPolicy for the choice of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VictimPolicy {
    /// Only segments in which everything is expired or flushed.
    OnlyDead,
    /// Segments with some dead records; live items are kept.
    Compact,
    /// Any segment; live items may be evicted.
    Evict,
}

/// Large values, with those being received, that exceed half of the memory limit are evicted first, so that a
/// few unread ones do not displace thousands of small items between two uses.
const LARGE_SHARE: u64 = 2;
/// One victim in 64 is chosen by age nevertheless, so that unused small items do not keep half of the memory
/// for ever.
const OTHERS_TURN: u32 = 64;
/// Segments examined per choice: some nanoseconds each, so a choice takes some 10 µs at most.
const LOOKED_AT_MAX: usize = 1024;
