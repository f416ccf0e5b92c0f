//! The store that all handles share, and what every operation needs of it.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::ahead::Runner;
use stdx::counter::Counter;

use crate::budget::Budget;
use crate::config::{Config, MEMORY_LIMIT_MIN};
use crate::error::Error;
use crate::events::Events;
use crate::ghost::Ghosts;
use crate::handle::Handle;
use crate::hash::{Key, KeyHash};
use crate::index::{Index, LOCATIONS_END, PAGE_CHARGE, Slot};
use crate::large::LargeSpace;
use crate::memory::{Huge, is_available};
use crate::open::{CLASSES, OpenSet};
use crate::reclaim::Reclaim;
use crate::record::{FETCHED, LARGE, Record};
use crate::request::Miss;
use crate::segment::{Queue, Segments};
use crate::shard::Locked;
use crate::statistics::{Counters, Statistics, sums};
use crate::sync::{Mutex, lock};
use crate::unused::STEP_MAX;

/// A cache. Use it through its [handles](Store::handle).
#[derive(Debug)]
pub struct Store {
    pub(crate) hash: KeyHash,
    pub(crate) item_size_max: u64,
    pub(crate) evict: bool,
    pub(crate) cas: bool,
    pub(crate) first_cas: u64,
    /// The number of shards.
    cas_step: u64,
    /// Whether new items are sorted by how soon they expire.
    pub(crate) lifetimes: bool,
    /// Whether huge pages back items and index.
    pub(crate) huge: bool,
    pub(crate) runner: Arc<Runner>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) large: Arc<LargeSpace>,
    pub(crate) ghosts: Ghosts,
    pub(crate) open_sets: Box<[OpenSet]>,
    pub(crate) reclaim: Mutex<Reclaim>,
    /// Whether [`Handle::begin_turn`] should look for something to reclaim.
    pub(crate) chores: AtomicBool,
    pub(crate) events: Events,
    /// How long the item that was evicted last had not been used.
    pub(crate) evicted_idle_s: AtomicU32,
    next_handle: AtomicUsize,
    counters: Mutex<Vec<Arc<Counters>>>,
    /// The second of a flush to come; 0: none. Changed under the lock below.
    flush_at: AtomicU32,
    flushing: Mutex<()>,
}

impl Store {
    /// An empty store. Address space is reserved now, memory becomes resident as it is used.
    pub fn new(config: Config) -> Result<Arc<Store>, Error> {
        config.check()?;
        let limit = config.memory_limit_bytes;
        let mut reserve = address_space(limit);
        loop {
            let made = Store::reserve(&config, reserve);
            // Where address space is rationed (`ulimit -v`, vm.overcommit_memory 2), room to grow is the first thing to do
            // without: an allocation of the rest of the process that fails ends it.
            let is_affordable = match &made {
                Ok(_) => is_available(HEADROOM + HEADROOM_PER_WORKER * config.workers),
                Err(error) => !matches!(error, Error::Reserve { .. }),
            };
            if is_affordable || reserve / 2 < limit {
                return made.map(Arc::new);
            }
            drop(made);
            reserve /= 2;
        }
    }

    fn reserve(config: &Config, reserve: u64) -> Result<Store, Error> {
        let limit = config.memory_limit_bytes;
        let budget = Arc::new(Budget::new(limit));
        let segment_size = config.segment_size();
        let huge = if limit >= HUGE_LIMIT_MIN { Huge::Yes } else { Huge::No };
        let runner = Arc::<Runner>::default();
        let pages = (reserve / 2 / PAGE_CHARGE) as usize;
        let shards = config.shards();
        let index = Index::new(shards, pages, huge, Arc::clone(&runner), Arc::clone(&budget))?;
        let ghosts = Ghosts::new(limit)?;
        let fixed = Index::fixed_bytes(shards) + ghosts.bytes();
        assert!(budget.charge(fixed), "the least memory limit leaves room for the fixed parts");
        let segments_in_limit = (limit / segment_size as u64) as usize;
        let sets = config.workers.clamp(1, (segments_in_limit / 16).max(1));
        Ok(Store {
            hash: KeyHash::new(config.hash_secret),
            item_size_max: config.item_size_max_bytes,
            evict: config.evict,
            cas: config.cas,
            first_cas: if config.cas { config.first_cas() } else { 0 },
            cas_step: shards as u64,
            lifetimes: segments_in_limit / 32 >= sets,
            segments: Segments::new(segment_size, reserve, huge, Arc::clone(&budget), Arc::clone(&runner))?,
            large: Arc::new(LargeSpace::new(2 * reserve, Arc::clone(&budget))?),
            huge: huge == Huge::Yes,
            runner,
            budget,
            index,
            ghosts,
            open_sets: (0..sets).map(|_| OpenSet::default()).collect(),
            reclaim: Mutex::default(),
            chores: AtomicBool::new(false),
            events: Events::default(),
            evicted_idle_s: AtomicU32::new(0),
            next_handle: AtomicUsize::new(0),
            counters: Mutex::default(),
            flush_at: AtomicU32::new(0),
            flushing: Mutex::default(),
        })
    }

    /// A way in for one worker. Two handles on one thread must not be used while an
    /// [`Item`](crate::Item) of the other is alive.
    pub fn handle(self: &Arc<Store>) -> Handle {
        let counters = Arc::new(Counters::default());
        lock(&self.counters).push(Arc::clone(&counters));
        let set = self.next_handle.fetch_add(1, Relaxed) % self.open_sets.len();
        Handle::new(Arc::clone(self), counters, set)
    }

    /// Changes the memory limit. More can be used at once; for less, items are evicted step by step in
    /// the handles' coming turns.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), Error> {
        let least = self.memory_limit_min();
        if bytes < least {
            return Err(Error::LimitTooSmall { bytes, least });
        }
        let most = self.segments.reserved();
        if bytes > most {
            return Err(Error::LimitTooLarge { bytes, most });
        }
        self.budget.set_limit(bytes);
        self.trim_towards_limit();
        self.tighten();
        self.chores.store(true, Relaxed);
        Ok(())
    }

    /// What this store, as it was made, cannot do without: its fixed parts, the reserve, and two sets of open segments.
    fn memory_limit_min(&self) -> u64 {
        let open = 2 * (CLASSES * self.segments.size()) as u64;
        let fixed = self.ghosts.bytes() + Index::fixed_bytes(self.index.shards());
        (fixed + self.segments.reserve_bytes() + open).max(MEMORY_LIMIT_MIN)
    }

    /// Bytes to be evicted for the sake of a limit that has been lowered.
    pub(crate) fn excess(&self) -> u64 {
        self.budget.charged().saturating_sub(self.budget.limit().max(self.least()))
    }

    /// Gives some free segments back for the sake of a limit that has been lowered. False if there was none.
    pub(crate) fn trim_towards_limit(&self) -> bool {
        self.segments.trim(self.excess().min(STEP_MAX as u64)) > 0
    }

    /// Brings a lower limit into force, as far as memory has been given back for it.
    pub(crate) fn tighten(&self) {
        if self.budget.is_loose() {
            self.budget.tighten(self.least());
        }
    }

    /// What is being received, or is still sent to somebody, cannot be had by evicting; half of the limit beside it is
    /// left to all others.
    fn least(&self) -> u64 {
        self.large.bytes().saturating_sub(self.segments.large_total()) + self.budget.limit() / 2
    }

    /// Takes memory for something other than a segment, free segments' if there is no other. False: reclaim some.
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        let charge = || self.budget.charge_keeping(bytes, self.segments.keep());
        charge() || {
            self.segments.trim(bytes);
            charge()
        }
    }

    /// The hash of the record's key.
    pub(crate) fn hash_at(&self, at: usize) -> u64 {
        self.hash.of(self.segments.record(at).key())
    }

    /// Everything stored so far is gone: now (0), or when a handle first sees that second. A flush
    /// takes the place of one that was still to come.
    pub fn flush(&self, at_second: u32) {
        let _guard = lock(&self.flushing);
        if at_second == 0 {
            self.segments.flush();
        }
        self.flush_at.store(at_second, Release);
        self.chores.store(true, Relaxed);
    }

    pub(crate) fn flush_if_due(&self, now: u32) {
        let is_due = |at: u32| at != 0 && at <= now;
        if is_due(self.flush_at.load(Acquire)) {
            let _guard = lock(&self.flushing);
            if is_due(self.flush_at.load(Acquire)) {
                self.segments.flush();
                self.flush_at.store(0, Release);
                self.chores.store(true, Relaxed);
            }
        }
    }

    /// Sums over all handles and the memory.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            limit_bytes: self.budget.limit(),
            charged_bytes: self.budget.charged(),
            index_bytes: self.index.bytes(),
            large_bytes: self.large.bytes(),
            ghost_bytes: self.ghosts.bytes(),
            evicted_idle_s: self.evicted_idle_s.load(Relaxed),
            segments: self.segments.statistics(),
            counts: sums(&lock(&self.counters)),
        }
    }
}

/// Under a shard's lock.
impl Store {
    /// The live item of this key. A dead one in its place is taken out.
    #[inline]
    pub(crate) fn look_up(
        &self,
        lock: &mut Locked<'_>,
        key: &Key<'_>,
        now: u32,
        counters: &Counters,
    ) -> Result<Slot, Miss> {
        let is_key = |at: usize| self.segments.record(at).key() == key.bytes;
        let slot = self.index.find(lock, key.hash, is_key).ok_or(Miss::Absent)?;
        match self.death_of(slot.at(), now) {
            None => Ok(slot),
            Some(Miss::Flushed) => {
                counters.found_flushed.add(1);
                self.unlink(lock, slot, counters);
                Err(Miss::Flushed)
            }
            Some(miss) => {
                counters.found_expired.add(1);
                self.bury(lock, slot, counters);
                Err(miss)
            }
        }
    }

    /// Why the item is not to be served, if so.
    #[inline]
    pub(crate) fn death_of(&self, at: usize, now: u32) -> Option<Miss> {
        let expiry = self.segments.record(at).expiry();
        if expiry != 0 && expiry <= now {
            return Some(Miss::Expired);
        }
        self.segments.is_flushed(self.segments.of(at)).then_some(Miss::Flushed)
    }

    /// Takes an expired item out.
    pub(crate) fn bury(&self, lock: &mut Locked<'_>, slot: Slot, counters: &Counters) {
        if self.segments.record(slot.at()).bits() & FETCHED == 0 {
            counters.expired_unfetched.add(1);
        }
        self.unlink(lock, slot, counters);
    }

    /// Takes an item out, for whatever reason.
    pub(crate) fn unlink(&self, lock: &mut Locked<'_>, slot: Slot, counters: &Counters) {
        self.index.remove(lock, slot, |at| self.hash_at(at));
        self.give_up(lock, slot.at(), counters);
    }

    /// Nothing refers to this record any more.
    pub(crate) fn give_up(&self, lock: &mut Locked<'_>, at: usize, counters: &Counters) {
        let record = self.segments.record(at);
        let segment = self.segments.of(at);
        if record.bits() & LARGE != 0 {
            let charge = lock.drop_large(large_number(record, lock));
            self.segments.sub_large(segment, charge);
            counters.bytes.sub(charge);
            counters.large_items.sub(1);
        }
        counters.bytes.sub(record.size() as u64);
        counters.curr_items.sub(1);
        self.queue_counter(counters, at).sub(1);
        self.segments.note_dead(segment, record.size());
    }

    /// Something refers to this record now.
    pub(crate) fn count_in(&self, at: usize, large: Option<u64>, counters: &Counters) {
        counters.bytes.add(self.segments.record(at).size() as u64 + large.unwrap_or(0));
        counters.large_items.add(u64::from(large.is_some()));
        counters.curr_items.add(1);
        self.queue_counter(counters, at).add(1);
    }

    pub(crate) fn queue_counter<'c>(&self, counters: &'c Counters, at: usize) -> &'c Counter {
        match self.segments.queue(self.segments.of(at)) {
            Queue::Small => &counters.small_items,
            Queue::Main => &counters.main_items,
        }
    }

    /// A new CAS unique, unless one is given or they are switched off.
    pub(crate) fn cas(&self, lock: &mut Locked<'_>, given: Option<u64>) -> u64 {
        match given {
            _ if !self.cas => 0,
            Some(cas) => cas,
            // Each shard has its own remainder, so no two shards ever give the same number; a key never changes its shard,
            // so its numbers grow.
            None => {
                let steps = lock.count_cas().wrapping_mul(self.cas_step);
                self.first_cas.wrapping_add(steps).wrapping_add(lock.number as u64)
            }
        }
    }

    /// The CAS unique of a record.
    #[inline]
    pub(crate) fn cas_of(&self, record: Record<'_>, lock: &Locked<'_>) -> u64 {
        record.cas(lock).unique(self.first_cas)
    }
}

/// The number of a record's large value.
pub(crate) fn large_number(record: Record<'_>, lock: &Locked<'_>) -> u32 {
    u32::from_le_bytes(record.value(lock).try_into().expect("four bytes"))
}

/// A huge page that is used in part is resident as a whole: with less memory than this, the few that are would
/// break the promise.
const HUGE_LIMIT_MIN: u64 = 256 << 20;

/// Address space that a store leaves to the rest of the process: buffers of connections, reports, and its threads' stacks.
const HEADROOM: usize = 64 << 20;
const HEADROOM_PER_WORKER: usize = 4 << 20;

/// Room to grow: address space is cheap.
fn address_space(limit: u64) -> u64 {
    if cfg!(any(miri, test)) {
        return 2 * limit;
    }
    (16 * limit).clamp(64 << 30, LOCATIONS_END)
}
