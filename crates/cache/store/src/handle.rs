//! Handles: a worker's access to the store.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::Error;
use crate::index::hash::Key;
use crate::index::{NewPage, PAGE_CHARGE};
use crate::memory::large::{LargeValue, charge_max};
use crate::memory::unused::STEP_MAX;
use crate::operations::join::buffers::JoinBuffers;
use crate::operations::request::Miss;
use crate::reclaim::sample::NotedUses;
use crate::reclaim::state::Wanted;
use crate::segment::Taker;
use crate::segment::open::Class;
use crate::statistics::Counters;
use crate::store::Store;
use crate::sync::lock;
use crate::tier::SoughtItem;
use crate::tier::staged::{Recaches, Staged};

/// A worker's access to the store. Every method is one atomic operation.
///
/// A handle holds at most one shard's lock at any time, so handles cannot deadlock.
#[derive(Debug)]
pub struct Handle {
    pub(crate) store: Arc<Store>,
    pub(crate) counters: Arc<Counters>,
    set: usize,
    /// Among all handles.
    pub(crate) number: usize,
    /// An item on flash that the next operation may use.
    pub(crate) staged: Option<Staged>,
    /// Result of a look for an item on flash, for the deletion that follows at once.
    pub(crate) sought: Option<SoughtItem>,
    pub(crate) recaches: Recaches,
    pub(crate) miss: Miss,
    /// The last second seen.
    second: u32,
    /// A page taken in advance, because a page is split under a lock where none can be taken.
    pub(crate) spare_page: Option<NewPage>,
    pub(crate) join: JoinBuffers,
    /// Records that may still be examined in this turn to make room for values that are being received.
    pub(crate) records_left: usize,
    /// Bytes that may still be copied in this turn to join values.
    pub(crate) copied_left: usize,
    /// Uses of sampled keys.
    pub(crate) noted: NotedUses,
    /// Buffer for values that are changed.
    pub(crate) scratch: Vec<u8>,
    /// Cache lines of the record that was read last: as many lines are prefetched, because consecutive
    /// records are usually of similar size.
    pub(crate) lines: usize,
}

/// A key whose index bucket has been prefetched: [`Handle::prefetch_item`] comes next.
#[derive(Clone, Copy, Debug)]
pub struct Prefetched {
    hash: u64,
}

/// Bytes of a cache line.
pub(crate) const LINE_LEN: usize = 64;
/// For longer records the processor's own prefetcher recognizes the sequential access.
const PREFETCHED_LINES_MAX: usize = 8;

/// A resource that an operation lacks. It is acquired while no lock is held; then the operation starts over.
#[derive(Debug)]
pub(crate) enum Need {
    /// Segment space for a record of this many bytes.
    Room(Class, usize),
    /// An index page.
    Page,
    /// This many charged levels of the index directories.
    Levels(u32),
    /// The operation would need an eviction, which is not allowed.
    Refusal,
    /// Memory for a large value of exactly this many bytes.
    Large(usize),
}

/// Records examined per turn of housekeeping: some 10 µs.
const HOUSEKEEPING_PER_TURN: usize = 64;
/// Records examined per turn to get below a lowered limit: some 100 µs.
const RECORDS_IN_EXCESS: usize = 1024;

/// Records that a worker examines in one turn to make room for all values that it receives: about 1 ms.
const RECORDS_PER_TURN: usize = 4096;
/// Bytes that a worker copies in one turn for all joins: with the first touch of their pages about 1 ms.
const COPIED_PER_TURN: usize = 512 * 1024;

impl Store {
    /// A handle for one worker. Two handles on one thread must not be used while an [`Item`](crate::Item) of
    /// the other is alive.
    pub fn handle(self: &Arc<Store>) -> Handle {
        let counters = Arc::new(Counters::default());
        lock(&self.counters).push(Arc::clone(&counters));
        let number = self.next_handle.fetch_add(1, Relaxed);
        Handle::new(Arc::clone(self), counters, number)
    }
}

impl Handle {
    /// Gives back what it has taken in advance: before [`Store::freeze`].
    pub fn rest(&mut self) {
        self.unstage();
        self.join.spare = None;
        if let Some(page) = self.spare_page.take() {
            self.store.index.give_back(page);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.rest();
    }
}

impl Handle {
    fn new(store: Arc<Store>, counters: Arc<Counters>, number: usize) -> Handle {
        let set = number % store.open_sets.len();
        Handle {
            store,
            counters,
            set,
            number,
            staged: None,
            sought: None,
            recaches: Recaches::default(),
            miss: Miss::Absent,
            second: 0,
            spare_page: None,
            join: JoinBuffers::default(),
            records_left: RECORDS_PER_TURN,
            copied_left: COPIED_PER_TURN,
            noted: NotedUses::default(),
            scratch: Vec::new(),
            lines: 2,
        }
    }

    /// The store of this handle.
    pub fn shared(&self) -> &Arc<Store> {
        &self.store
    }

    /// Hashes a key, once for all operations on it.
    ///
    /// Panics unless it has 1 to 250 bytes.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::new(bytes, &self.store.hash)
    }

    /// Prefetches the key's index bucket, for an operation some requests from now.
    #[inline]
    pub fn prefetch(&self, key: &Key<'_>) -> Prefetched {
        self.store.index.prefetch(key.hash);
        Prefetched { hash: key.hash }
    }

    /// Prefetches the key's item, once its bucket is in the cache.
    #[inline]
    pub fn prefetch_item(&self, prefetched: Prefetched) {
        if let Some(at) = self.store.index.guess(prefetched.hash) {
            for line in 0..self.lines.clamp(1, PREFETCHED_LINES_MAX) {
                self.store.segments.prefetch(at + line * LINE_LEN);
            }
        }
    }

    /// To be called once per turn of the worker: performs a flush that is due, and a bounded amount of
    /// housekeeping.
    pub fn begin_turn(&mut self, now: u32) {
        self.enter(now);
        self.unstage();
        (self.records_left, self.copied_left) = (RECORDS_PER_TURN, COPIED_PER_TURN);
        let store = &*self.store;
        store.sample.take(&mut self.noted, now);
        store.large.release_some(STEP_MAX);
        if !store.housekeeping.load(Relaxed) {
            return;
        }
        if store.excess() > 0 {
            if !store.trim_towards_limit() {
                store.reclaim_some(&self.counters, RECORDS_IN_EXCESS, now);
            }
        } else {
            store.reclaim_dead(&self.counters, HOUSEKEEPING_PER_TURN, now);
        }
        store.lower_effective();
    }

    /// Whether housekeeping is left, for which a turn should come soon even without requests.
    #[inline]
    pub fn needs_turn(&self) -> bool {
        self.store.housekeeping.load(Relaxed) || self.store.large.unused() > 0
    }

    /// Why the last lookup found nothing.
    pub fn last_miss(&self) -> Miss {
        self.miss
    }

    /// Memory for a value, to be filled and then stored. Best for values of at least
    /// [`LARGE_VALUE_MIN`](crate::LARGE_VALUE_MIN) bytes.
    pub fn large_value(&mut self, len: usize, now: u32) -> Result<LargeValue, Error> {
        self.enter(now);
        if len as u64 > self.store.item_size_max {
            return Err(Error::TooLarge);
        }
        let store = &*self.store;
        let charge = charge_max(len);
        if !store.leaves_others_room(charge) {
            return Err(Error::OutOfMemory);
        }
        store.reclaim_for(&self.counters, now, &Wanted::large(charge, self.join.spared), || {
            store.large.take(len, store.segments.keep()).or_else(|| {
                store.segments.trim_to_charge(charge);
                store.large.take(len, store.segments.keep())
            })
        })
    }

    /// Takes note of the time. Called first by every operation.
    #[inline]
    pub(crate) fn enter(&mut self, now: u32) {
        if self.noted.is_due() {
            self.store.sample.take(&mut self.noted, now);
        }
        if now != self.second {
            self.second = now;
            self.store.flush_if_due(now);
            self.store.housekeeping.store(true, Relaxed);
            if let Some(tier) = &self.store.tier {
                tier.note_second(now);
            }
        }
    }

    #[inline]
    pub(crate) fn set_number(&self) -> usize {
        self.set
    }

    /// Acquires what an operation lacked.
    pub(crate) fn provide(&mut self, need: Need, now: u32) -> Result<(), Error> {
        match need {
            Need::Room(class, size) => self.open_segment(class, size, now),
            Need::Page => {
                self.spare_page = Some(self.take_page(now)?);
                Ok(())
            }
            Need::Levels(depth) => self.take_levels(depth, now),
            Need::Refusal => Err(Error::OutOfMemory),
            Need::Large(len) => {
                self.join.spare = None;
                self.join.spare = Some(self.large_value(len, now)?);
                Ok(())
            }
        }
    }

    fn open_segment(&mut self, class: Class, size: usize, now: u32) -> Result<(), Error> {
        let store = &*self.store;
        if size > store.segments.room() {
            return Err(Error::TooLarge);
        }
        let set = &store.open_sets[self.set];
        if set.has_room(&store.segments, class, size) {
            return Ok(());
        }
        let take = || store.segments.take(Taker::Writer, class.queue(), now);
        let wanted = Wanted::of(store.segments.size() as u64, self.join.spared);
        let id = store.reclaim_for(&self.counters, now, &wanted, take)?;
        set.replace(&store.segments, class, id);
        Ok(())
    }

    fn take_page(&mut self, now: u32) -> Result<NewPage, Error> {
        let store = &*self.store;
        store.reclaim_for(&self.counters, now, &Wanted::of(PAGE_CHARGE, self.join.spared), || {
            if !store.charge(PAGE_CHARGE) {
                return None;
            }
            let page = store.index.new_page();
            if page.is_none() {
                store.budget.give_back(PAGE_CHARGE);
            }
            page
        })
    }

    fn take_levels(&mut self, depth: u32, now: u32) -> Result<(), Error> {
        let store = &*self.store;
        let bytes = store.index.missing_bytes(depth);
        store.reclaim_for(&self.counters, now, &Wanted::of(bytes, self.join.spared), || {
            let bytes = store.index.missing_bytes(depth);
            store.charge(bytes).then(|| store.index.add_levels(depth, bytes))
        })
    }
}
